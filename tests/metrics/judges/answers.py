"""What a stand-in for a chat model answers to each metric: honest replies in form, which a reader can work out."""

import json

from tests.models.chat.stub import asked


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


ANSWERS = {"clair": clair}
"""By the name of the metric."""
