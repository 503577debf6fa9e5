"""What a stand-in for a chat model answers to each metric: honest replies in form, which a reader can work out."""

import json
import math

from tests.models.chat.stub import asked, response


def clair(body):
    """Shared words over all words of the two lists, × 100."""
    text = asked(body)
    before, _, after = text.partition("Reference captions:")
    candidates, references = (
        {word for line in part.splitlines() if line.startswith("- ") for word in line[2:].split()}
        for part in (before, after)
    )
    shared = candidates & references
    score = 100 * len(shared) / len(candidates | references)
    return json.dumps({"score": score, "reason": f"They share {len(shared)} words."})


def words_after(text, label):
    """The number of words in the line that begins with a label."""
    return next(len(line.split()) for line in text.splitlines() if line.startswith(label)) - len(label.split())


def fleur(body):
    """A tenth for every word of the caption, or with half the probability a tenth less."""
    text = asked(body)
    if "Why" in text:
        return "It has some words."
    if "yes or no" in text:
        return response("yes", logprobs=[("yes", {"yes": math.log(0.6), "No": math.log(0.2)})])
    number = words_after(text, "Caption:") if "Caption:" in text else 7
    if not body.get("logprobs"):
        return f"0.{(number + body['seed']) % 10}"
    alternatives = {str(number): math.log(0.5), str(number - 1): math.log(0.25), "x": math.log(0.25)}
    return response(f"0.{number}", logprobs=[("0", {"0": 0.0}), (".", {".": 0.0}), (str(number), alternatives)])


def gpt4eval(body):
    """As many points as words, for either answer."""
    lines = asked(body).splitlines()
    first, second = (len(lines[lines.index(f"[Assistant {one}]") + 1].split()) for one in (1, 2))
    return f"{first} {second}\nThe scores are the numbers of words."


def gveval(body):
    """Ten for every word of the caption, or with half the probability five less."""
    if "Caption:" not in asked(body):
        return response("7", logprobs=[("7", {"7": 0.0})])
    number = 10 * words_after(asked(body), "Caption:")
    alternatives = {str(number): math.log(0.5), str(number - 5): math.log(0.25), "so": math.log(0.25)}
    logprobs = [("Fine. ", {"Fine. ": 0.0}), ("$", {"$": 0.0}), (str(number), alternatives), ("$", {"$": 0.0})]
    return response(f"Fine. ${number}$", logprobs=logprobs)


ANSWERS = {"clair": clair, "fleur": fleur, "reffleur": fleur, "gpt4eval": gpt4eval, "gveval": gveval}
"""By the name of the metric."""
