"""The input of a reward function: completions in plain and chat form, and columns of the data set."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from captious.errors import InputError
from captious.io.columns import ID_COLUMNS, IMAGE_COLUMNS, OBJECT_COLUMN, REFERENCE_COLUMNS, STYLE_COLUMN
from captious.io.printed import parse_text_list

if TYPE_CHECKING:
    from captious.scorer import Scorer

# Columns with an image, or with a list of images, of which the first is used.
PICTURES = ("images", *IMAGE_COLUMNS)
# Further columns that metrics read.
FIELDS = (OBJECT_COLUMN, STYLE_COLUMN, "source")


@dataclass(frozen=True)
class Rollouts:
    """The captions of a batch with the item of each."""

    texts: tuple[str | None, ...]
    """None if a completion contains no caption."""
    ids: tuple[str, ...]
    """The item of each caption; without a column of ids, equal ids if references and image are the same."""
    groups: tuple[str, ...]
    """The prompt of each caption: captions of the same prompt have the same text here."""
    references: tuple[tuple[str, ...], ...] | None
    """References from a column, if the batch has them and they are wanted."""
    fields: Mapping[str, tuple[Any, ...]]
    """Images and further columns of the batch, if they are wanted."""
    id_column: str | None = None
    """The column that the ids are from."""


@dataclass(frozen=True)
class RolloutReader:
    """A reader of completions and columns. ``references`` and ``images`` say which inputs come from columns."""

    pattern: re.Pattern[str] | None = None
    id_column: str | None = None
    references: bool = False
    images: bool = False

    def read(self, completions: Sequence[Any], columns: Mapping[str, Any], scorer: Scorer | None) -> Rollouts:
        """Read the captions and their items; ``scorer`` has the references or images that were given by id."""
        if isinstance(completions, str) or not isinstance(completions, Sequence):
            raise InputError(f"completions: {type(completions).__name__}, expected a list of completions")
        size = len(completions)
        usable = {name: values for name, values in columns.items() if _is_column(values, size)}
        references = self._read_references(usable) if self.references else None
        fields = {name: tuple(usable[name]) for name in FIELDS if name in usable}
        if self.images:
            pictures = next((usable[name] for name in PICTURES if name in usable), None)
            if pictures is not None:
                fields["image"] = tuple(map(_get_first_image, pictures))
        texts = self.extract_captions(completions)
        column = self._find_id_column(usable, scorer)
        if column is not None:
            ids = tuple(one if isinstance(one, str) else _format_id(one) for one in usable[column])
            return Rollouts(texts, ids, ids, references, fields, column)
        # Without a column of ids, captions belong to one item if their references and their image are the same.
        item_references = references or ((),) * size
        image_keys = [image if isinstance(image, str) else id(image) for image in fields.get("image", (None,) * size)]
        ids = _number_keys(list(zip(item_references, image_keys, strict=True)))
        has_references = any(item_references)
        prompts = _number_keys(
            item_references if has_references else [str(prompt) for prompt in usable.get("prompts", ids)]
        )
        return Rollouts(texts, ids, prompts, references, fields)

    def extract_captions(self, completions: Sequence[Any]) -> tuple[str | None, ...]:
        """Return the caption in each completion, or None."""
        texts = _replace_surrogates([one if isinstance(one, str) else get_text(one) for one in completions])
        return tuple(texts) if self.pattern is None else tuple(map(self._extract, texts))

    def _extract(self, text: str) -> str | None:
        """Return the caption in a completion; None if the pattern does not match."""
        assert self.pattern is not None
        matches = list(self.pattern.finditer(text))
        return matches[-1][1 if self.pattern.groups else 0] if matches else None

    def _find_id_column(self, columns: Mapping[str, Any], scorer: Scorer | None) -> str | None:
        """Return the column with the ids of items: the requested one, or the first with an id that the scorer knows."""
        if self.id_column is not None:
            if self.id_column not in columns:
                raise InputError(f"no column {self.id_column!r} in the data set, expected the ids of items")
            return self.id_column
        for name in ID_COLUMNS:
            values = [_unwrap(value) for value in columns.get(name, ())]
            can_be_ids = bool(values) and all(isinstance(value, (str, int)) for value in values)
            if can_be_ids and (scorer is None or any(value in scorer for value in values)):
                return name
        if scorer is not None:
            raise InputError(
                f"no column of the data set has ids of the references or images, such as {scorer.ids[0]!r}; expected "
                f"them in a column such as {ID_COLUMNS[0]!r}, or in one that id_column=... names"
            )
        return None

    def _read_references(self, columns: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
        """Return the references of each completion: a text, a list, or a printed list; empty if a row has none."""
        name = next((name for name in REFERENCE_COLUMNS if name in columns), None)
        if name is None:
            raise InputError(
                f"no references, expected references=... by id, or a column {REFERENCE_COLUMNS[0]!r} in the data set "
                "(with remove_unused_columns=False)"
            )
        references, faults = list[tuple[str, ...]](), list[InputError]()
        for row, value in enumerate(columns[name]):
            try:
                references.append(parse_references(value, f"column {name!r}, row {row}"))
            except InputError as error:
                references.append(())
                faults.append(error)
        if faults and not any(references):
            raise faults[0]
        return tuple(references)


def compile_extraction(extract: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    """Return the pattern of a caption in a completion; its last match counts.

    A word is a tag: ``caption`` finds the text between ``<caption>`` and ``</caption>``. An end tag, such as
    ``</think>``, finds the text after it. Anything else is a regular expression; its first group is the caption.

    >>> text = "<think>a dog?</think> <caption>a cat</caption>"
    >>> [compile_extraction(one).search(text)[1] for one in ("caption", "</think>")]
    ['a cat', ' <caption>a cat</caption>']
    """
    if extract is None or isinstance(extract, re.Pattern):
        return extract
    if not isinstance(extract, str):
        raise InputError(f"extract {extract!r}, expected a tag such as caption, or a pattern")
    # The patterns of tags do not backtrack: a long completion without an end tag, or with many tags, takes linear time.
    if re.fullmatch(r"[\w-]+", extract):
        return re.compile(rf"<{extract}>([^<]*(?:<(?!/?{extract}>)[^<]*)*)</{extract}>")
    if re.fullmatch(r"</[\w-]+>", extract):
        return re.compile(rf"\A.*{extract}(.*)", re.DOTALL)
    try:
        return re.compile(extract, re.DOTALL)
    except re.error as error:
        raise InputError(f"extract {extract!r}: {error}, expected a tag such as caption, or a pattern") from None


def get_text(completion: Any) -> str:
    """Return the text of a completion: a string, or the last message of the assistant.

    >>> get_text([{"role": "assistant", "content": [{"type": "text", "text": "a dog"}]}])
    'a dog'
    """
    if isinstance(completion, str):
        return completion
    # The form that trainers pass is checked first, because this function runs for every completion.
    if type(completion) is list and completion and type(completion[-1]) is dict:
        last = completion[-1]
        if last.get("role") == "assistant" and type(last.get("content")) is str:
            return str(last["content"])
    if isinstance(completion, Mapping):
        completion = [completion]
    if not isinstance(completion, Sequence):
        return "" if completion is None else str(completion)
    messages = [message for message in completion if isinstance(message, Mapping)]
    own = [message for message in messages if message.get("role", "assistant") == "assistant"]
    content = own[-1].get("content") if own else ""
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)


def parse_references(value: Any, where: str) -> tuple[str, ...]:
    """Parse references from a cell: a text, a list of texts, or a list as JSON or Python prints it.

    >>> parse_references("['a dog', 'the dog']", "row 0"), parse_references("a dog", "row 0")
    (('a dog', 'the dog'), ('a dog',))
    """
    if isinstance(value, str) and not value.lstrip().startswith(("[", "(")):
        return (value,) if value.strip() else ()
    return tuple(parse_text_list(value, where, "references") or ())


def _replace_surrogates(texts: list[str]) -> list[str]:
    """Replace every lone surrogate by U+FFFD, because models and files cannot encode it."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    return texts


def _is_column(values: Any, size: int) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and len(values) == size


def _get_first_image(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return value[0] if value else None
    return value


def _number_keys(keys: Sequence[Hashable]) -> tuple[str, ...]:
    """Return a number for each key, in the order of first occurrence."""
    numbers = {key: str(number) for number, key in enumerate(dict.fromkeys(keys))}
    return tuple(numbers[key] for key in keys)


def _unwrap(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else value.item() if hasattr(value, "item") else value


def _format_id(value: Any) -> str:
    return str(_unwrap(value))
