"""A tokeniser of whole words, in pure Python: what captious-mini reads, with torch and without.

Saved as a ``tokenizer.json`` in the layout of the ``tokenizers`` library, which gives the same ids.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from captious.encoders.encoder import Tokens
from captious.errors import InputError
from captious.files import whole_file

PAD, UNKNOWN, START, END = "<pad>", "<unknown>", "<start>", "<end>"
FILE = "tokenizer.json"

_PATTERN = r"\w+(?:'\w+)*|[^\w\s]"
_TOKEN = re.compile(_PATTERN)


def words_of(text: str) -> list[str]:
    """Lower-case words and single punctuation marks.

    >>> words_of("There's a red ball, I think.")
    ["there's", 'a', 'red', 'ball', ',', 'i', 'think', '.']
    """
    return _TOKEN.findall(text.lower())


@dataclass(frozen=True)
class WordTokeniser:
    """Texts to token ids: 0 pads, 1 is any unknown word, the last two ids start and end a text.

    The end has the highest id, so models that look for it by ``argmax`` find it too.

    >>> tokeniser = WordTokeniser.built(["a dog", "a red ball"], limit=5)
    >>> tokeniser.words
    ('a', 'ball', 'dog', 'red')
    >>> tokeniser.tokenise(["a dog", "a small red ball"])
    Tokens(ids=array([[6, 2, 4, 7, 0],
                      [6, 2, 1, 5, 7]]), lengths=array([4, 6]))
    """

    words: tuple[str, ...]
    limit: int = 248

    @classmethod
    def built(cls, texts: Iterable[str], limit: int = 248, least: int = 1) -> WordTokeniser:
        """The tokeniser that knows every word used ``least`` times or more."""
        counts = Counter(word for text in texts for word in words_of(text))
        return cls(tuple(sorted(word for word, count in counts.items() if count >= least)), limit)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id."""
        return {token: number for number, token in enumerate((PAD, UNKNOWN, *self.words, START, END))}

    @property
    def pad(self) -> int:
        """The id after the end of a text."""
        return 0

    @property
    def start(self) -> int:
        """The id that opens a text."""
        return len(self.words) + 2

    @property
    def end(self) -> int:
        """The id that closes a text, the highest of all."""
        return len(self.words) + 3

    def tokenise(self, texts: Sequence[str]) -> Tokens:
        """A batch of texts, cut at the limit with the end kept, padded to its longest."""
        known = self.vocabulary
        rows = [[known.get(word, 1) for word in words_of(text)] for text in texts]
        lengths = np.array([len(row) + 2 for row in rows], np.int64)
        width = min(self.limit, int(lengths.max(initial=2)))
        ids = np.zeros((len(rows), width), np.int64)
        for line, row in zip(ids, rows, strict=True):
            kept = row[: self.limit - 2]
            line[: len(kept) + 2] = [self.start, *kept, self.end]
        return Tokens(ids, lengths)

    def text(self) -> str:
        """The content of ``tokenizer.json``: equal for equal tokenisers, so it enters fingerprints."""
        return json.dumps(_layout(self), ensure_ascii=False, indent=1) + "\n"

    def save(self, folder: str | Path) -> None:
        """Write ``tokenizer.json`` into a model's folder."""
        with whole_file(Path(folder) / FILE) as draft:
            draft.write_text(self.text(), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> WordTokeniser:
        """The tokeniser that was saved in a folder."""
        path = Path(folder) / FILE
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            ids: dict[str, int] = stored["model"]["vocab"]
            limit = int(stored["truncation"]["max_length"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a word tokeniser of captious ({error})") from error
        made = cls(tuple(sorted(ids, key=lambda token: ids[token])[2:-2]), limit)
        if made.vocabulary != ids:
            raise InputError(
                f"{path}: expected the ids 0 {PAD}, 1 {UNKNOWN}, the words, {START}, {END}; found another order"
            )
        return made


def is_words(folder: str | Path) -> bool:
    """Whether the ``tokenizer.json`` of a folder is one of these."""
    try:
        stored = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))
        return bool(stored["model"]["type"] == "WordLevel" and stored["model"]["unk_token"] == UNKNOWN)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _layout(tokeniser: WordTokeniser) -> dict[str, Any]:
    special = {PAD: tokeniser.pad, UNKNOWN: 1, START: tokeniser.start, END: tokeniser.end}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    frame = [{"SpecialToken": {"id": START, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    frame.append({"SpecialToken": {"id": END, "type_id": 0}})
    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": tokeniser.limit,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": tokeniser.pad,
            "pad_type_id": 0,
            "pad_token": PAD,
        },
        "added_tokens": [{"id": number, "content": token, **flags} for token, number in special.items()],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": _PATTERN}, "behavior": "Removed", "invert": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "pair": [*frame, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                token: {"id": token, "ids": [special[token]], "tokens": [token]} for token in (START, END)
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": tokeniser.vocabulary, "unk_token": UNKNOWN},
    }
