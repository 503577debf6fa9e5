"""What a stand-in for a chat model answers to each metric: honest replies in form, which a reader can work out."""

import json
import math
import re

from tests.models.chat.stub import asked, response


def clair(body):
    """Shared words over all words of the two lists, × 100."""
    text = asked(body)
    before, _, after = text.partition("Reference captions:")
    candidates, references = (
        {word for line in part.splitlines() if line.startswith("- ") for word in json.loads(line[2:]).split()}
        for part in (before, after)
    )
    shared = candidates & references
    score = 100 * len(shared) / len(candidates | references)
    return json.dumps({"score": score, "reason": f"They share {len(shared)} words."})


def words_after(text, label):
    """The number of words in the line that begins with a label."""
    return next(len(line.split()) for line in text.splitlines() if line.startswith(label)) - len(label.split())


def last_text(text, label):
    """The text in quotation marks after the last of a label."""
    return json.loads(text.rpartition(label)[2])


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


# Words that stand for things in every picture.
TRUE = {"a", "red", "dog", "ball", "two", "runs", "day"}


def faithscore(body):
    """A word is a fact of its own: "There is a dog." It is an opinion if it is *fine*. No probabilities."""
    text = asked(body)
    if "Now label these parts:" in text:
        parts = numbered_lines(text.partition("Now label these parts:")[2])
        return "\n".join(f"{number} {'A' if 'fine' in part else 'D'}" for number, part in parts)
    if "Now this one:" in text:
        words = re.findall(r"\w+", last_text(text, "Text:"))
        return "Entities: " + " ".join(f"There is a {word}." for word in words) + "\nRelations:\nColors: None."
    statement = re.search(r'Statement: "There is a (\w+)', text)
    return ("Yes." if statement[1] in TRUE else "No, the eyes see none.") if statement else "1"


def rlaifv(body):
    """A word is a fact of its own. Yes and no have probabilities 0.6 and 0.2, or the other way round."""
    text = asked(body)
    if "Description:" in text:
        return "\n".join(f"- There is a {word}." for word in last_text(text, "Description:").split())
    if "Now these:" in text:
        facts = numbered_lines(text.partition("Now these:")[2])
        return "\n".join(f"{number}. Is there a {fact.split()[-1][:-1]}?" for number, fact in facts)
    question = re.match(r"Is there a (\w+)\?", text)
    yes = 0.6 if question and question[1] in TRUE else 0.2
    chances = {"Yes": math.log(yes / 2), " yes": math.log(yes / 2), "No": math.log(0.8 - yes), "1": math.log(0.1)}
    return response("Yes" if yes > 0.5 else "No", logprobs=[("Yes" if yes > 0.5 else "No", chances)])


def dcscore(body):
    """A word is a fact of its own, not of relevance if it is *fine*. Sample 1 takes the last fact for false."""
    text = asked(body)
    if "First list:" in text:
        first, _, second = text.rpartition("First list:")[2].partition("Second list:")
        oracle = {fact: number for number, fact in reversed(numbered_lines(second))}
        return json.dumps([{"fact": number, "match": oracle.get(fact)} for number, fact in numbered_lines(first)])
    if "Facts:" in text:
        facts = numbered_lines(text.rpartition("Facts:")[2])
        checks = [
            fact.split()[-1][:-1] in TRUE and (body["seed"] != 1 or number < len(facts)) for number, fact in facts
        ]
        return json.dumps(
            [{"fact": number, "true": int(check)} for (number, _), check in zip(facts, checks, strict=True)]
        )
    words = last_text(text, "Description:").split()
    facts = [{"fact": f"There is a {word}.", "identifier": word, "relevance": int(word != "fine")} for word in words]
    return f"```json\n{json.dumps(facts)}\n```"


def aloha(body):
    """Every noun that the fixtures know is a thing; a text without one has none, and *day* is only possible."""
    words = last_text(asked(body), "Text:").split()
    things = [f"- {word}" for word in words if word in ("dog", "cat", "ball")]
    things += ["- day (possibly)"] if "day" in words else []
    return "\n".join(things) or "- none"


def caption_of(text):
    """The words of the caption or description in a prompt."""
    return set(json.loads(re.search(r"^(?:Caption|Description): (\".*)$", text, re.MULTILINE)[1]).split())


def option_blocks(text):
    """The question and the lines of options below it, for each question of a prompt."""
    if "Questions:" not in text:
        lines = text.partition("Question: ")[2].partition("\n\n")[0].splitlines()
        return [(lines[0], lines[1:])] if lines else []
    blocks = []
    for line in text.partition("Questions:\n")[2].partition("\n\n")[0].splitlines():
        if re.match(r"\d+\. ", line):
            blocks.append((line.partition(" ")[2], []))
        else:
            blocks[-1][1].append(line)
    return blocks


def captionqa(body):
    """The label of the first option that the caption names, else that of "cannot"; no without one."""
    text = asked(body)
    if "Caption:" not in text:
        return "1"
    words, labels = caption_of(text), []
    for question, lines in option_blocks(text):
        options = dict(line.split(". ", 1) if ". " in line else (line, line) for line in lines)
        if set(options) == {"yes", "no"}:
            labels.append("yes" if question.rstrip("?").split()[-1] in words else "no")
            continue
        chosen = [label for label, option in options.items() if option in words]
        labels.append(next(iter(chosen + [label for label, option in options.items() if "cannot" in option])))
    return json.dumps(dict(enumerate(labels, 1))) if "Questions:" in text else labels[0]


def capeval(body):
    """Yes to what the caption names; no to a color where it names another one; else not mentioned."""
    text = asked(body)
    if "Caption:" not in text:
        return "1"
    words, colors = caption_of(text), {"red", "green", "blue", "grey"}
    things = [question.rstrip("?").split()[-1] for question, _ in option_blocks(text)]
    verdicts = [
        "yes" if thing in words else "no" if thing in colors and words & colors else "not_mentioned" for thing in things
    ]
    return json.dumps(dict(enumerate(verdicts, 1))) if "Questions:" in text else verdicts[0]


def vdc(body):
    """The animal of the caption; the same if it is the right one."""
    text = asked(body)
    if "Given answer:" in text:
        right, given = (json.loads(re.search(f"{name} answer: (.*)", text)[1]) for name in ("Right", "Given"))
        return json.dumps({"same": "yes" if right == given else "no", "score": 5 if right == given else 1})
    return next((animal for animal in ("dog", "cat") if animal in caption_of(text)), "unknown")


def autodq(body):
    """A word is an event of its own, which a text with the word entails; *fine* is contradicted."""
    text = asked(body)
    if "Now this one:" in text:
        return "\n".join(f"- The {word} moves." for word in last_text(text, "Description:").split()[:10])
    if "Events:" not in text:
        return "1"
    words = [event.split()[1] for _, event in numbered_lines(text.partition("Events:")[2])]
    own = caption_of(text)
    relations = ["entailment" if word in own else "contradiction" if word == "fine" else "neutral" for word in words]
    return json.dumps(dict(enumerate(relations, 1)))


def sighted(body):
    """Yes to what is in every picture; of other options the first."""
    text = asked(body)
    if "Question:" not in text and "yes or no" not in text:
        return "1"
    if "yes or no" in text or "\nyes\nno" in text:
        return "Yes" if set(re.findall(r"\w+", text.partition("?")[0])) & (TRUE - {"a"}) else "No"
    return "A"


def vqascore(body):
    """A twentieth for every word of the caption."""
    yes = words_after(asked(body), "Caption:") / 20
    return response("Yes", logprobs=[("Yes", {"Yes": math.log(yes), "no": math.log(0.1), "So": math.log(0.2)})])


def numbered_lines(text):
    """The number and the text of each numbered line."""
    return [(int(number), line) for number, line in re.findall(r"^(\d+)\. (.*)$", text, re.MULTILINE)]


# By the name of the metric.
ANSWERS = {
    "clair": clair,
    "fleur": fleur,
    "reffleur": fleur,
    "gpt4eval": gpt4eval,
    "gveval": gveval,
    "faithscore": faithscore,
    "rlaifv": rlaifv,
    "dcscore": dcscore,
    "aloha": aloha,
    "captionqa": captionqa,
    "capeval": capeval,
    "vdc": vdc,
    "autodq": autodq,
    "tifa": sighted,
    "dsg": sighted,
    "vqascore": vqascore,
}
