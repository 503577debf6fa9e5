"""Questions with a few possible answers: requests for one or several at a time, and parsers of the replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from captious.io.questions import normalize_answer
from captious.metrics.judges._facts import read_numbered, require_all
from captious.metrics.judges._yes_no import ALTERNATIVES, LONGEST, read_yes_no
from captious.metrics.judges.judged import find_json_values, read_json_object, shorten
from captious.models.chat.messages import Reply, Request, Turn

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
YES_NO = ("yes", "no")
_FIRST_LETTER = re.compile(r"\W*([A-Z])(?:[.):,\]*\s-]*$|[.):\]])", re.MULTILINE)
_LONE_LETTER = re.compile(r"(?<![\w'])([A-Z])(?![\w'])")
_ARTICLE = re.compile(r"\b(?:A|I)(?= [a-z])")


class AnswerOptions(NamedTuple):
    """The answers that a question allows, with the label of each: a letter, or the answer itself."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> AnswerOptions:
        """Build options with letters as labels, or with the labels yes and no.

        >>> AnswerOptions.of(["No", "Yes"]).labels, AnswerOptions.of(["red", "blue"]).labels
        (('yes', 'no'), ('A', 'B'))
        """
        if sorted(map(normalize_answer, texts)) == sorted(YES_NO):
            return cls(YES_NO, tuple(sorted(texts, key=normalize_answer, reverse=True)))
        return cls(tuple(LETTERS[: len(texts)]), tuple(texts))

    @classmethod
    def words(cls, *words: str) -> AnswerOptions:
        """Build options that are their own labels."""
        return cls(words, words)

    @property
    def lettered(self) -> bool:
        """Whether labels are letters, so that one token of a reply decides."""
        return all(len(label) == 1 for label in self.labels)

    @property
    def lines(self) -> str:
        """The options, one per line.

        >>> print(AnswerOptions.of(["red", "blue"]).lines)
        A. red
        B. blue
        """
        pairs = zip(self.labels, self.texts, strict=True)
        return "\n".join(label if label == normalize_answer(text) else f"{label}. {text}" for label, text in pairs)

    def find_text(self, label: str) -> str:
        """Find the option that a reply names by its label, or else in its own words; raise ValueError if it names none.

        >>> AnswerOptions(("A", "B"), ("B", "(C)")).find_text("B")
        '(C)'
        >>> AnswerOptions.of(["red", "dark blue"]).find_text("Red.")
        'red'
        """
        for names in (self.labels, self.texts):
            for name, text in zip(names, self.texts, strict=True):
                if _strip_marks(name) == _strip_marks(label):
                    return text
        raise ValueError(f"{shorten(label)} is none of {', '.join(self.labels)}")

    def without_letters(self) -> AnswerOptions:
        """Return the options without letters, for stored answers: the order in which options were shown is unknown."""
        return AnswerOptions(self.texts, self.texts)


def _strip_marks(text: str) -> str:
    """Return an answer without case, spaces and punctuation around it."""
    return normalize_answer(text).replace(" ", "_").strip("()[]\"'*")


class ChosenAnswer(NamedTuple):
    """The answer of a model to one question."""

    text: str
    """The option that it chose, or its own words."""
    by_words: bool = False
    """Whether words decided, since the server sent no probabilities of the labels."""
    reason: str = ""
    """Further facts about the answer, such as the text of a second reply."""
    accepted: bool = False
    """Whether a second question found the answer right, if the answer is in the model's own words."""
    score: float = 0.0
    """The points that the second question gave it."""


def shuffle_options(texts: Sequence[str], seed: int, id: str, question: str) -> list[str]:
    """Shuffle options by the seed, the item and the question only, so that the order does not depend on other rows of a
    file.

    >>> shuffled = shuffle_options(["red", "blue"], 0, "7", "Which color?")
    >>> shuffled == shuffle_options(["blue", "red"], 0, "7", "Which color?")
    True
    """
    # Sort by a hash instead of a random generator: the order must not depend on other questions.
    name = "\x1f".join((str(seed), id, question))
    return sorted(texts, key=lambda text: hashlib.sha256(f"{name}\x1f{text}".encode()).digest())


def build_choice_request(turn: Turn, options: AnswerOptions, logprobs: bool, schema: bool) -> Request:
    """Build a request that is answered by one label; with ``schema`` in a JSON object."""
    form = _build_object_schema({"answer": {"type": "string", "enum": list(options.labels)}}) if schema else None
    top = ALTERNATIVES if logprobs and not schema else 0
    return Request((turn,), max_tokens=2 * LONGEST if schema else LONGEST, top_logprobs=top, schema=form)


def build_joint_request(turn: Turn, options: Sequence[AnswerOptions], schema: bool) -> Request:
    """Build one request for several questions, answered by a JSON object of labels by question number."""
    labels = {str(number): {"type": "string", "enum": list(one.labels)} for number, one in enumerate(options, 1)}
    return Request((turn,), max_tokens=64 + 16 * len(options), schema=_build_object_schema(labels) if schema else None)


def _build_object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def read_choice(reply: Reply, options: AnswerOptions) -> ChosenAnswer:
    """Read the option that a reply names: by the probabilities of the labels at its first token, or by its words.

    >>> read_choice(Reply("It is a dog: C"), AnswerOptions.of(["cat", "bird", "dog"])).text
    'dog'
    """
    if reply.text.lstrip().startswith("{"):
        return ChosenAnswer(options.find_text(str(read_json_object(reply.text, "answer")["answer"])))
    if set(options.labels) == set(YES_NO):
        answer = read_yes_no(reply)
        return ChosenAnswer(options.find_text("yes" if answer.yes else "no"), answer.by_words)
    if not options.lettered:
        return ChosenAnswer(options.find_text(_find_first_label(reply.text, options)), by_words=True)
    first = next((token for token in reply.tokens if token.text.strip()), None)
    chances = dict.fromkeys(options.labels, 0.0)
    for token, chance in first.top if first else ():
        name = token.decode("utf-8", "replace").strip().strip("().:*")
        if name in chances:
            chances[name] += chance
    if any(chances.values()):
        return ChosenAnswer(options.find_text(max(chances, key=chances.__getitem__)))
    return ChosenAnswer(options.find_text(_find_letter(reply.text, options)), by_words=True)


def _find_first_label(text: str, options: AnswerOptions) -> str:
    """Return the label that a reply begins with, or else the reply."""
    labels = [re.escape(label).replace("_", "[_ -]") for label in sorted(options.labels, key=len, reverse=True)]
    match = re.match(rf"\W*({'|'.join(labels)})\b", text, re.IGNORECASE)
    return match[1].replace("-", "_") if match else text


def _find_letter(text: str, options: AnswerOptions) -> str:
    """Find the label in a reply: its first letter if punctuation or nothing follows, its only single letter, or else
    the reply.
    """
    if (match := _FIRST_LETTER.match(text)) and match[1] in options.labels:
        return match[1]
    letters = set(_LONE_LETTER.findall(_ARTICLE.sub("", text))) & set(options.labels)
    if len(letters) == 1:
        return str(letters.pop())
    if letters:
        raise ValueError(f"several letters ({', '.join(sorted(letters))}) in {shorten(text)}")
    return text


def read_joint_reply(reply: Reply, options: Sequence[AnswerOptions]) -> list[ChosenAnswer]:
    """Read the option for each question of a joint reply; raise ValueError if one is missing."""
    labels = _read_labels(reply.text, len(options))
    return [ChosenAnswer(one.find_text(labels[number])) for number, one in enumerate(options, 1)]


def read_partial_reply(text: str, options: Sequence[AnswerOptions]) -> dict[int, ChosenAnswer]:
    """Read as many answers of a joint reply as possible, by question index."""
    answers = {}
    for index, one in enumerate(options):
        for value in find_json_values(text, "{"):
            try:
                answers[index] = ChosenAnswer(one.find_text(str(value[str(index + 1)])))
            except (KeyError, TypeError, ValueError):
                continue
    return answers


def _read_labels(text: str, number: int) -> dict[int, str]:
    """Read the label of each question by its number, from a JSON object or from lines."""
    if not any(isinstance(value, dict) and value for value in find_json_values(text, "{")):
        return dict(enumerate(read_numbered(text, number), 1))
    answers = {key: value for key, value in read_json_object(text, "1").items() if key.isdecimal()}
    require_all(list(map(int, answers)), number, text)
    return {int(key): value if isinstance(value, str) else json.dumps(value) for key, value in answers.items()}
