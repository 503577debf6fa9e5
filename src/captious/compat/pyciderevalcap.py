"""CIDEr-D and CIDEr with the API of ``pyciderevalcap``, which self-critical training uses for its rewards.

Change the import lines of a script, and nothing else::

    from captious.compat.pyciderevalcap import Cider, CiderD

    scorer = CiderD(df="coco-train-idxs")  # data/coco-train-idxs.p
    score, scores = scorer.compute_score(gts, [{"image_id": 7, "caption": ["a dog runs"]}])

``CIDErEvalCap`` of the repository's ``eval.py`` tokenizes first, and returns both.

The pickle of document frequencies is read without executing it. Unlike in the original, ``df`` may also be the path of
a pickle, or an idf corpus made by ``captious make idf``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, Ragged
from captious.compat.pycocoevalcap import PTBTokenizer
from captious.errors import InputError
from captious.metrics import cider
from captious.text import idf
from captious.text.tokenizers import find_tokenizer

CORPUS = "corpus"
TOKENIZER = "whitespace"
# Tables without the number of documents: name in the original, file name and number.
OLD_TABLES = {"coco-val": ("coco-val-df", 40_504)}


class CiderD:
    """CIDEr-D of tokenized captions, in batches.

    ``df`` is the source of the document frequencies: ``corpus`` for the references of each call, or the name of a
    pickle, which is searched as ``data/NAME.p``.

    >>> gts = {1: ["a red dog"], 2: ["one cat"]}
    >>> res = [{"image_id": 1, "caption": ["a red dog"]}, {"image_id": 2, "caption": ["a cat"]}]
    >>> CiderD().compute_score(gts, res)[1].round(6)
    array([7.5 , 1.25])
    """

    variant: ClassVar[Literal["d", "plain"]] = "d"
    name: ClassVar[str] = "CIDEr-D"

    def __init__(self, n: int = cider.ORDERS, sigma: float = cider.SIGMA, df: str = CORPUS) -> None:
        if (n, sigma) != (cider.ORDERS, cider.SIGMA):
            expected = f"n={cider.ORDERS} and sigma={cider.SIGMA}"
            raise InputError(f"{type(self).__name__}(n={n}, sigma={sigma}), expected {expected}")
        self._metric = cider.Cider(variant=self.variant, tokenizer=TOKENIZER)
        self._frequencies = None if df == CORPUS else _read_frequencies(df)

    def compute_score(
        self, gts: Mapping[Any, Sequence[str]], res: Sequence[Mapping[str, Any]]
    ) -> tuple[np.float64, Floats]:
        """Return the mean, and the value of each entry of ``res``; several entries may have the same image id."""
        captions = _build_captions(gts, res)
        rows = self._metric.score_items(captions, self._frequencies or self._metric.prepare(captions)).rows
        assert isinstance(rows, np.ndarray)
        values = self._metric.aggregate(rows)
        return np.float64(np.mean(values)), values

    def method(self) -> str:
        """Return the name of the metric."""
        return self.name


class Cider(CiderD):
    """CIDEr as in its paper, without clipping and length penalty, with the API of `CiderD`.

    >>> gts = {1: ["a red dog"], 2: ["one cat"]}
    >>> res = [{"image_id": 1, "caption": ["a red dog"]}, {"image_id": 2, "caption": ["cat"]}]
    >>> Cider().compute_score(gts, res)[1].round(4)  # one word of two at order 1: 10/4 · 1/√2
    array([7.5   , 1.7678])
    """

    variant: ClassVar[Literal["d", "plain"]] = "plain"
    name: ClassVar[str] = "CIDEr"

    def __init__(self, n: int = cider.ORDERS, df: str = CORPUS) -> None:
        super().__init__(n, df=df)


class CIDErEvalCap:
    """CIDEr and CIDEr-D of raw captions: ``evaluate()`` returns the values of each, in the order of ``res``.

    ``gts`` are lists of ``{"caption": text}`` by image id, ``res`` is a list of ``{"image_id": …, "caption": text}``.
    """

    def __init__(
        self, gts: Mapping[Any, Sequence[Mapping[str, Any]]], res: Sequence[Mapping[str, Any]], df: str = CORPUS
    ) -> None:
        print("tokenization...")
        self.gts = PTBTokenizer().tokenize(gts)
        print("tokenized refs")
        self.res = [_tokenize_entry(number, entry) for number, entry in enumerate(res, start=1)]
        print("tokenized cands")
        self._df = df

    def evaluate(self) -> dict[str, list[float]]:
        """Compute the scores, printing the same progress as the original."""
        print("setting up scorers...")
        values = {}
        for scorer, name in ((Cider(df=self._df), "CIDEr"), (CiderD(df=self._df), "CIDErD")):
            print(f"computing {scorer.method()} score...")
            score, scores = scorer.compute_score(self.gts, self.res)
            print(f"{name}: {score:0.3f}")
            values[name] = scores.tolist()
        return values


def _tokenize_entry(number: int, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or "image_id" not in entry or not isinstance(entry.get("caption"), str):
        raise InputError(f'res: entry {number}: is {entry!r:.60}, expected {{"image_id": …, "caption": text}}')
    key = entry["image_id"]
    return {"image_id": key, "caption": PTBTokenizer().tokenize({key: [entry]})[key]}


def _read_frequencies(df: str) -> idf.DocumentFrequency:
    """Read the document frequencies of a name or a path; its tokens are separated by spaces."""
    stem, items = OLD_TABLES.get(df, (df, None))
    paths = (Path(df), Path(f"{df}.p"), Path("data") / f"{stem}.p")
    pickled = next((path for path in paths if path.is_file() and path.suffix != idf.SUFFIX), None)
    if pickled is not None:
        return idf.from_pickle(pickled, df, items, TOKENIZER)
    try:
        frequencies = idf.find(df)
    except InputError as error:
        raise InputError(f"df={df!r}: no {paths[2]}, and {error}") from None
    return replace(frequencies, tokenizer=str(find_tokenizer(TOKENIZER)))


def _build_captions(gts: Mapping[Any, Sequence[str]], res: Sequence[Mapping[str, Any]]) -> CaptionSet:
    """Build a set with one item for each entry of ``res``."""
    if isinstance(res, Mapping) or not res:
        kind = "a dictionary" if isinstance(res, Mapping) else "empty"
        raise InputError(f'res is {kind}, expected a list of {{"image_id": …, "caption": [text]}}')
    candidates, references = [], []
    for number, entry in enumerate(res, start=1):
        where = f"res: entry {number}"
        if not isinstance(entry, Mapping) or not {"image_id", "caption"} <= entry.keys():
            raise InputError(f'{where}: is {entry!r:.60}, expected {{"image_id": …, "caption": [text]}}')
        key, caption = entry["image_id"], entry["caption"]
        if key not in gts:
            raise InputError(f"{where}: gts does not have its image id {key!r}")
        for name, texts, number_of_texts in (("caption", caption, 1), ("references", gts[key], None)):
            is_list = isinstance(texts, (list, tuple)) and texts and all(isinstance(text, str) for text in texts)
            if not is_list or (number_of_texts and len(texts) != number_of_texts):
                expected = "a list of one tokenized text" if number_of_texts else "a list of tokenized texts"
                raise InputError(f"{where}: {name} of image id {key!r} is {texts!r:.60}, expected {expected}")
        candidates.append(caption)
        references.append(gts[key])
    return CaptionSet(
        ids=tuple(map(str, range(len(res)))), candidates=Ragged.of(candidates), references=Ragged.of(references)
    )
