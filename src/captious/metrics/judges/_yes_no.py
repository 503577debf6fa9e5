"""Yes-or-no questions: answers by the probabilities of yes and no at the first token, or by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from captious.captions import ImageSource
from captious.metrics.judges.judged import shorten
from captious.models.chat.judge import Judge, ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn

# Token limit of a reply.
LONGEST = 16
# Requested alternatives of the first token: the maximum of OpenAI and vLLM.
ALTERNATIVES = 20
# Name of the signature's count of captions with an answer read from words, without probabilities.
BY_WORDS = "by_words"
_FIRST_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


class YesNoAnswer(NamedTuple):
    """The answer of a model to a yes-or-no question."""

    yes: bool
    probability: float
    """The probability of yes against no; 1 or 0 if words decided."""
    by_words: bool = False
    """Whether the server sent no probabilities of yes and no."""


def ask_yes_no(
    judge: Judge,
    questions: Sequence[Sequence[str] | Failure],
    images: Sequence[ImageSource | None],
    what: str,
) -> list[list[YesNoAnswer] | Failure]:
    """Ask each question of each list about the image of the list; an unanswered question fails the list."""
    lists = [() if isinstance(texts, Failure) else texts for texts in questions]
    top = ALTERNATIVES if any(lists) and judge.can("logprobs") else 0
    requests = [
        build_yes_no_request(text, image, top) for texts, image in zip(lists, images, strict=True) for text in texts
    ]
    answers = iter(ask_and_parse(judge, requests, read_yes_no, what=what))
    results: list[list[YesNoAnswer] | Failure] = []
    for question, texts in zip(questions, lists, strict=True):
        own = [next(answers) for _ in texts]
        failures = [one for one in (question, *own) if isinstance(one, Failure)]
        results.append(failures[0] if failures else [one for one in own if isinstance(one, YesNoAnswer)])
    return results


def build_yes_no_request(text: str, image: ImageSource | None, top: int = 0) -> Request:
    """Build a request for a yes-or-no question about an image."""
    images = () if image is None else (image,)
    return Request((Turn("user", text.strip(), images),), max_tokens=LONGEST, top_logprobs=top)


def read_yes_no(reply: Reply) -> YesNoAnswer:
    """Read yes if it is likelier than no at the first token; a tie is a no. Without probabilities the words decide.

    >>> read_yes_no(Reply("No, the eyes are closed."))
    YesNoAnswer(yes=False, probability=0.0, by_words=True)
    """
    yes, no = sum_yes_and_no(reply)
    if yes + no > 0:
        return YesNoAnswer(yes > no, yes / (yes + no))
    answer = read_word(reply.text)
    return YesNoAnswer(answer, float(answer), by_words=True)


def sum_yes_and_no(reply: Reply) -> tuple[float, float]:
    """Sum the probabilities of yes and of no at the first token that is not blank, ignoring case.

    >>> from captious.models.chat.messages import ReplyToken
    >>> sum_yes_and_no(Reply("Yes", (ReplyToken(b"Yes", ((b"Yes", 0.5), (b" yes", 0.25), (b"No", 0.125))),)))
    (0.75, 0.125)
    """
    first = next((token for token in reply.tokens if token.text.strip()), None)
    words = [(text.strip().lower(), chance) for text, chance in first.top] if first else []
    yes, no = (sum(chance for text, chance in words if text == word) for word in (b"yes", b"no"))
    return yes, no


def read_word(text: str) -> bool:
    """Return True if the first word of a reply is yes, or if yes is the only one of the two words in it.

    >>> read_word("**Yes**, it is."), read_word("The answer is no.")
    (True, False)
    """
    match = _FIRST_WORD.match(text)
    words = {match[1].lower()} if match else {word.lower() for word in _YES_OR_NO.findall(text)}
    if len(words) != 1:
        raise ValueError(f"{'both yes and no' if words else 'neither yes nor no'} in {shorten(text)}")
    return words == {"yes"}
