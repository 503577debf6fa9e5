"""The scorers of pycocoevalcap with the same calls, return types and values, and without Java.

Change the import lines of a script, and nothing else::

    from captious.compat.pycocoevalcap import COCO, Bleu, Cider, COCOEvalCap, Meteor, PTBTokenizer, Rouge, Spice

``BleuScorer``, ``CiderScorer`` and ``precook`` (that of ``cider_scorer``) are here too, and ``COCOEvalCapSpice`` of the
fork that self-critical training uses. ``CIDErEvalCap`` is that of `captious.compat.pyciderevalcap`.

What differs on purpose:

- **Scores belong to ids.** The original reads the tokens of all captions as one list of lines. A carriage return or
  another line separator inside a caption shifts every line after it, and later images are scored with foreign captions.
  Here each caption is tokenized on its own, and the order of the ids never matters.
- **A caption never looks at the next one.** The original tokenizes a stream, where the period of "the new Wii U."
  depends on how the next caption starts. This concerns 17 of the 860,369 captions we compared; all other tokens agree.
- **Mistakes are named.** Where the original stops at an ``assert``, an `InputError` says which id is wrong and why.
- **SPICE is another one.** `Spice` is captious's, which reads spaCy's parses: its values are near the original's and
  not equal, and a warning says so. Importing it needs ``captious[spice]``; without that, or without a model of spaCy,
  `COCOEvalCap` prints why there is none, and gives NaN under its name.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from os import PathLike
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError, require
from captious.io.formats import get_name, read_rows, read_text
from captious.metrics import bleu, cider, rouge
from captious.metrics.contract import MeanMetric
from captious.metrics.meteor import meteor
from captious.text import ptb

# Tokenized captions by image id; the tokens are separated by spaces.
Captions = Mapping[Any, Sequence[str]]


def __getattr__(name: str) -> Any:
    if name == "Spice":
        require("spacy", "spice")
        return SpiceScorer
    if name == "CIDErEvalCap":  # imported late, because it imports this module
        from captious.compat.pyciderevalcap import CIDErEvalCap

        return CIDErEvalCap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Bleu:
    """BLEU-1 to BLEU-n.

    >>> score, scores = Bleu(2).compute_score({7: ["a red cat sits"]}, {7: ["a cat sits here"]}, verbose=0)
    >>> [round(value, 6) for value in score]  # three of four words; one of three bigrams: the root of 3/4 · 1/3
    [0.75, 0.5]
    """

    def __init__(self, n: int = 4) -> None:
        if n not in range(1, bleu.ORDERS + 1):
            raise InputError(f"Bleu(n={n!r}), expected a whole number from 1 to {bleu.ORDERS}")
        self._n = n

    def compute_score(self, gts: Captions, res: Captions, verbose: int = 1) -> tuple[list[float], list[list[float]]]:
        """Return the corpus value of each order, and for each order the values of the images in the order of ``gts``.

        Unless ``verbose=0``, the sums over the corpus are printed as in the original.
        """
        return self._score(_build_captions(gts, res), verbose)

    def _score(self, captions: CaptionSet, verbose: int = 1) -> tuple[list[float], list[list[float]]]:
        return _compute_bleu_scores(_compute_bleu_rows(captions, self._n), self._n, verbose)

    def method(self) -> str:
        """Return the name of the metric."""
        return "Bleu"


def _compute_bleu_rows(captions: CaptionSet, n: int) -> Floats:
    rows = bleu.Bleu(n=n, tokenizer="whitespace").score_items(captions, None).rows
    assert isinstance(rows, np.ndarray)
    return rows


def _compute_bleu_scores(
    rows: Floats, n: int, verbose: int, average: bool = False
) -> tuple[list[float], list[list[float]]]:
    total = rows.sum(axis=0)
    if verbose:
        # Columns: length of captions, length of references, then correct and possible n-grams of each order.
        length, reference, *counts = map(int, total)
        # Only an average length has decimals; the original prints the others as whole numbers.
        reference_length = float(total[1]) if average else reference
        print({"testlen": length, "reflen": reference_length, "guess": counts[1::2], "correct": counts[::2]})
        print("ratio:", (length + bleu.TINY) / (reference_length + bleu.SMALL))
    orders = range(1, n + 1)
    return [float(bleu.bleu(total, order)) for order in orders], [bleu.bleu(rows, order).tolist() for order in orders]


class _Collector:
    """Captions and references that are added item by item: ``scorer += (caption, references)``."""

    def __init__(self, test: str | None = None, refs: Sequence[str] | None = None) -> None:
        self._tests: list[str | None] = []
        self._references: list[list[str]] = []
        self.cook_append(test, refs)

    def cook_append(self, test: str | None, refs: Sequence[str] | None) -> None:
        """Add an item; references without a caption only count for document frequencies."""
        if refs is not None:
            self._tests.append(test)
            self._references.append(list(refs))

    def __iadd__(self, other: Any) -> Any:
        if isinstance(other, tuple):
            self.cook_append(*other)
        elif isinstance(other, type(self)):
            self._tests += other._tests
            self._references += other._references
        else:
            raise InputError(
                f"{type(self).__name__} += {type(other).__name__}, expected (caption, references) or a scorer"
            )
        return self

    def size(self) -> int:
        """Return the number of items."""
        return len(self._references)

    def _build_set(self) -> CaptionSet:
        tests: list[list[Any]] = [[test] for test in self._tests]  # None is refused later, with the number of its item
        return _build_captions(dict(enumerate(self._references)), dict(enumerate(tests)))


ReferenceLength = Literal["closest", "shortest", "average"]


class BleuScorer(_Collector):
    """BLEU-1 to BLEU-n of items that are added one by one.

    ``compute_score`` returns the corpus and item values at every call; the original does so only at the first.

    >>> scorer = BleuScorer(n=2)
    >>> scorer += ("a cat sits here", ["a red cat sits"])
    >>> [round(value, 6) for value in scorer.compute_score(option="closest")[0]]
    [0.75, 0.5]
    """

    def __init__(
        self,
        test: str | None = None,
        refs: Sequence[str] | None = None,
        n: int = bleu.ORDERS,
        special_reflen: float | None = None,
    ) -> None:
        self.n, self.special_reflen = Bleu(n)._n, special_reflen
        super().__init__(test, refs)

    def compute_score(
        self, option: ReferenceLength | None = None, verbose: int = 0
    ) -> tuple[list[float], list[list[float]]]:
        """Return the corpus value of each order, and for each order the values of the items.

        ``option`` selects the reference length of an item; by default the average for a single item, otherwise the
        closest.
        """
        return _compute_bleu_scores(
            self._compute_rows(option), self.n, verbose, self._resolve_option(option) == "average"
        )

    def recompute_score(
        self, option: ReferenceLength | None = None, verbose: int = 0
    ) -> tuple[list[float], list[list[float]]]:
        """Return the scores, as `compute_score` does."""
        return self.compute_score(option, verbose)

    def retest(self, new_test: str | Sequence[str]) -> BleuScorer:
        """Replace the captions of all items."""
        tests = [new_test] if isinstance(new_test, str) else list(new_test)
        if len(tests) != self.size():
            raise InputError(f"retest: {len(tests)} captions, expected {self.size()}: one for each item")
        self._tests = list(tests)
        return self

    def rescore(self, new_test: str | Sequence[str]) -> tuple[list[float], list[list[float]]]:
        """Replace the captions of all items, and return the scores."""
        return self.retest(new_test).compute_score()

    def testlen(self, option: ReferenceLength | None = None) -> int:
        """Return the number of words in all captions."""
        return int(self._compute_rows(option)[:, 0].sum())

    def reflen(self, option: ReferenceLength | None = None) -> float:
        """Return the sum over items of the reference length used by the brevity penalty."""
        return float(self._compute_rows(option)[:, 1].sum())

    def ratio(self, option: ReferenceLength | None = None) -> float:
        """Return the ratio of caption length to reference length."""
        return (self.testlen(option) + bleu.TINY) / (self.reflen(option) + bleu.SMALL)

    def _resolve_option(self, option: ReferenceLength | None) -> ReferenceLength:
        option = option or ("average" if self.size() == 1 else "closest")
        if option not in get_args(ReferenceLength):
            raise InputError(f"option={option!r}, expected {', '.join(get_args(ReferenceLength))}")
        return option

    def _compute_rows(self, option: ReferenceLength | None) -> Floats:
        option = self._resolve_option(option)
        rows = _compute_bleu_rows(self._build_set(), self.n).astype(np.float64)
        if self.special_reflen is not None:
            rows[:, 1] = self.special_reflen
        elif option != "closest":
            choose = min if option == "shortest" else np.mean
            rows[:, 1] = [choose([len(text.split()) for text in texts]) for texts in self._references]
        return rows


class Rouge:
    """ROUGE-L on tokens between single spaces, as in the original: two spaces enclose an empty token.

    >>> Rouge().compute_score({7: ["the cat is on a mat"]}, {7: ["a cat on a mat"]})[1].round(6)
    array([0.715543])
    """

    @property
    def beta(self) -> float:
        """The weight of recall, which is fixed."""
        return rouge.BETA

    def calc_score(self, candidate: Sequence[str], refs: Sequence[str]) -> float:
        """Return the value of one image, given a list with its candidate, and the references."""
        return float(self.compute_score({0: refs}, {0: candidate})[0])

    def compute_score(self, gts: Captions, res: Captions) -> tuple[np.float64, Floats]:
        """Return the mean, and the values of the images in the order of ``gts``."""
        return self._score(_build_captions(gts, res))

    def _score(self, captions: CaptionSet) -> tuple[np.float64, Floats]:
        if _has_odd_spaces(captions.candidates.values) or _has_odd_spaces(captions.references.values):
            captions = replace(
                captions,
                candidates=_mark_hidden_tokens(captions.candidates),
                references=_mark_hidden_tokens(captions.references),
            )
        values = _compute_values(rouge.Rouge(tokenizer="whitespace"), captions)
        return np.float64(np.mean(values)), values

    def method(self) -> str:
        """Return the name of the metric."""
        return "Rouge"


def _has_odd_spaces(texts: Sequence[str]) -> bool:
    """Return True if splitting at single spaces differs from splitting at white space."""
    joined = " ".join(texts)
    return joined.split(" ") != joined.split()


# Empty tokens (at the start, between two spaces, at the end), and white space other than a space.
_HIDDEN = re.compile(r"\A(?= |\Z)|(?<= )(?= |\Z)|[^\S ]")


def _mark_hidden_tokens(texts: Ragged) -> Ragged:
    r"""Insert a private-use character for each empty token and each white-space character other than a space.

    Splitting at white space then gives the tokens of the original, which splits at single spaces.

    >>> (text,) = _mark_hidden_tokens(Ragged.of([["a  dog\truns "]])).values
    >>> [token.encode("ascii", "replace") for token in text.split()]
    [b'a', b'?', b'dog?runs', b'?']
    """

    def mark(match: re.Match[str]) -> str:
        return chr(0xF0000 + ord(match[0] or "\0"))

    return Ragged(tuple(_HIDDEN.sub(mark, text) for text in texts.values), texts.offsets)


class Cider:
    """CIDEr-D with document frequencies of ``gts``, which the original calls CIDEr.

    ``test`` and ``refs`` are ignored, as in the original.

    >>> gts, res = {1: ["a red dog"], 2: ["one cat"]}, {1: ["a red dog"], 2: ["a cat"]}
    >>> Cider().compute_score(gts, res)[1].round(6)
    array([7.5 , 1.25])
    """

    def __init__(self, test: Any = None, refs: Any = None, n: int = cider.ORDERS, sigma: float = cider.SIGMA) -> None:
        if (n, sigma) != (cider.ORDERS, cider.SIGMA):
            raise InputError(f"Cider(n={n}, sigma={sigma}), expected n={cider.ORDERS} and sigma={cider.SIGMA}")

    def compute_score(self, gts: Captions, res: Captions) -> tuple[np.float64, Floats]:
        """Return the mean, and the values of the images in the order of ``gts``."""
        return self._score(_build_captions(gts, res))

    def _score(self, captions: CaptionSet) -> tuple[np.float64, Floats]:
        values = _compute_values(cider.Cider(tokenizer="whitespace"), captions)
        return np.float64(np.mean(values)), values

    def method(self) -> str:
        """Return the name of the metric."""
        return "CIDEr"


def precook(s: str, n: int = cider.ORDERS, out: bool = False) -> dict[tuple[str, ...], int]:
    """Return how often each n-gram of orders 1 to n occurs in a text, as ``cider_scorer.precook`` does.

    >>> precook("a a dog", n=2)[("a",)], precook("a a dog", n=2)[("a", "dog")]
    (2, 1)
    """
    words = s.split()
    grams = (tuple(words[i : i + k]) for k in range(1, n + 1) for i in range(len(words) - k + 1))
    return defaultdict(int, Counter(grams))


class CiderScorer(_Collector):
    """CIDEr-D of items that are added one by one, with document frequencies of their references.

    >>> scorer = CiderScorer()
    >>> scorer += ("a red dog", ["a red dog"])
    >>> scorer += ("a cat", ["one cat"])
    >>> scorer.compute_score()[1].round(6)
    array([7.5 , 1.25])
    """

    def __init__(
        self,
        test: str | None = None,
        refs: Sequence[str] | None = None,
        n: int = cider.ORDERS,
        sigma: float = cider.SIGMA,
    ) -> None:
        self._cider = Cider(n=n, sigma=sigma)
        self.n, self.sigma = n, sigma
        self.document_frequency: dict[tuple[str, ...], float] = defaultdict(float)
        super().__init__(test, refs)

    @property
    def crefs(self) -> list[list[dict[tuple[str, ...], int]]]:
        """The n-grams of each reference of each item."""
        return [[precook(text, self.n) for text in texts] for texts in self._references]

    @property
    def ctest(self) -> list[dict[tuple[str, ...], int] | None]:
        """The n-grams of each caption; None for an item without one."""
        return [None if text is None else precook(text, self.n) for text in self._tests]

    def compute_doc_freq(self) -> None:
        """Fill ``document_frequency``: the number of items in whose references each n-gram occurs."""
        counts = Counter(gram for texts in self.crefs for gram in set(chain.from_iterable(texts)))
        self.document_frequency = defaultdict(float, {gram: float(number) for gram, number in counts.items()})

    def compute_cider(self) -> list[float]:
        """Return the value of each item."""
        return list(map(float, self.compute_score()[1]))

    def compute_score(self, option: Any = None, verbose: int = 0) -> tuple[np.float64, Floats]:
        """Return the mean, and the values of the items."""
        return self._cider._score(self._build_set())


class Meteor:
    """METEOR 1.5 in Python. Its tables are those that pycocoevalcap brings: ``pip install 'captious[meteor]'``."""

    def compute_score(self, gts: Captions, res: Captions) -> tuple[float, list[float]]:
        """Return the corpus value, and the values of the images in the order of ``gts``."""
        return self._score(_build_captions(gts, res))

    def _score(self, captions: CaptionSet) -> tuple[float, list[float]]:
        measurement = meteor.Meteor(tokenizer="whitespace").measure(captions)
        return measurement.corpus, measurement.values.tolist()

    def method(self) -> str:
        """Return the name of the metric."""
        return "METEOR"

    def close(self) -> None:
        """Do nothing: the original ends its Java process here."""


OTHER_SPICE = (
    "SPICE is captious's, on spaCy's parses: its values are close to those of the original in Java, and not equal"
)


class SpiceScorer:
    """SPICE on spaCy's parses, under the name ``Spice``. A value is a dictionary of all tuples and of their kinds."""

    def __init__(self) -> None:
        warnings.warn(OTHER_SPICE, UserWarning, stacklevel=2)

    def compute_score(self, gts: Captions, res: Captions) -> tuple[np.float64, list[dict[str, dict[str, float]]]]:
        """Return the mean F-score, and for each image in the order of ``gts`` the scores of ``All``, ``Object`` and
        others.
        """
        return self._score(_build_captions(gts, res))

    def _score(self, captions: CaptionSet) -> tuple[np.float64, list[dict[str, dict[str, float]]]]:
        from captious.metrics.spice import graphs, spice

        metric = spice.Spice()
        state = metric.prepare(captions)
        candidates, references = metric.graphs(captions, state)
        if len(candidates) > len(references):  # several captions of an image become one graph, as its references do
            candidates = metric.graphs(replace(captions, references=captions.candidates), state)[1]
        names = ("f", "pr", "re", "tp", "fp", "fn")
        scores = [
            {
                subset.capitalize(): {
                    **dict(
                        zip(
                            names,
                            graphs.score_graphs(candidate, reference, subset, metric.matching).tolist(),
                            strict=True,
                        )
                    ),
                    "numImages": 1.0,
                }
                for subset in get_args(graphs.Subset)
            }
            for candidate, reference in zip(candidates, references, strict=True)
        ]
        return np.mean([one["All"]["f"] for one in scores]), scores

    def method(self) -> str:
        """Return the name of the metric."""
        return "SPICE"


# The scores of an image if SPICE cannot be computed.
NO_SPICE = {"All": dict.fromkeys(("f", "pr", "re", "tp", "fp", "fn", "numImages"), math.nan)}


class PTBTokenizer:
    """The Stanford PTBTokenizer 3.4.1, without the punctuation that coco-caption removes.

    >>> PTBTokenizer().tokenize({7: [{"caption": "A man's dog, running."}, {"caption": "Dogs!"}]})
    {7: ["a man 's dog running", 'dogs']}
    """

    def tokenize(self, captions_for_image: Mapping[Any, Sequence[Mapping[str, Any]]]) -> dict[Any, list[str]]:
        """Tokenize lists of ``{"caption": text}`` by image id. Ids without captions are left out."""
        return {
            key: [" ".join(ptb.tokenize(_get_caption(key, record))) for record in records]
            for key, records in captions_for_image.items()
            if records
        }


def _get_caption(key: Any, annotation: Any) -> str:
    text = annotation.get("caption") if isinstance(annotation, Mapping) else None
    if not isinstance(text, str):
        raise InputError(f'id {key!r}: contains {annotation!r:.60}, expected objects such as {{"caption": "a dog"}}')
    return text


class COCO:
    """The caption functions of pycocotools' ``COCO``, for use without pycocotools.

    The source is anything that ``captious.read`` accepts as references: COCO annotations or results, as a path or as
    data. Without one, set ``dataset`` and call ``createIndex``. Images are in the order of the dataset's ``images``;
    others follow in the order of their first captions.

    >>> coco = COCO({"annotations": [{"image_id": 7, "caption": "A dog."}, {"image_id": 7, "caption": "Dogs!"}]})
    >>> coco.getImgIds(), len(coco.imgToAnns[7]), coco.loadAnns(coco.getAnnIds(imgIds=7))[1]["caption"]
    ([7], 2, 'Dogs!')
    """

    def __init__(
        self, annotation_file: str | PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self.dataset: dict[str, Any] = {}
        self.anns: dict[Any, dict[str, Any]] = {}
        self.imgs: dict[Any, dict[str, Any]] = {}
        self.imgToAnns: dict[Any, list[dict[str, Any]]] = {}
        if annotation_file is not None:
            self.dataset = _read_dataset(annotation_file)
            self.createIndex()

    def createIndex(self) -> None:
        """Fill ``anns``, ``imgs`` and ``imgToAnns`` from ``dataset``."""
        annotations = list(map(dict, self.dataset.get("annotations", ())))
        for number, annotation in enumerate(annotations, start=1):
            if annotation.get("image_id") is None:
                raise InputError(f"captions: entry {number}: has no image_id")
            annotation.setdefault("id", number)
        captioned: dict[Any, list[dict[str, Any]]] = {}
        for annotation in annotations:
            captioned.setdefault(annotation["image_id"], []).append(annotation)
        listed = {image["id"]: dict(image) for image in self.dataset.get("images") or () if "id" in image}
        order = [*(key for key in listed if key in captioned), *(key for key in captioned if key not in listed)]
        self.anns = {annotation["id"]: annotation for annotation in annotations}
        self.imgs = {**listed, **{key: {"id": key} for key in captioned if key not in listed}}
        self.imgToAnns = {key: captioned[key] for key in order}

    def getImgIds(self, imgIds: Any = (), catIds: Any = ()) -> list[Any]:
        """Return the ids of all images with captions, or of those in ``imgIds``."""
        wanted = _to_list(imgIds)
        return [key for key in self.imgToAnns if not wanted or key in wanted]

    def getAnnIds(self, imgIds: Any = (), catIds: Any = (), areaRng: Any = (), iscrowd: Any = None) -> list[Any]:
        """Return the ids of the captions of some images, or of all."""
        images = _to_list(imgIds) or list(self.imgToAnns)
        return [annotation["id"] for key in images for annotation in self.imgToAnns.get(key, ())]

    def loadAnns(self, ids: Any = ()) -> list[dict[str, Any]]:
        """Return the captions with these ids."""
        return [self.anns[key] for key in _to_list(ids)]

    def loadImgs(self, ids: Any = ()) -> list[dict[str, Any]]:
        """Return the images with these ids."""
        return [self.imgs[key] for key in _to_list(ids)]

    def showAnns(self, anns: Sequence[Mapping[str, Any]]) -> None:
        """Print the captions of annotations."""
        for annotation in anns:
            print(annotation["caption"])

    def loadRes(self, resFile: str | PathLike[str] | Sequence[Mapping[str, Any]]) -> COCO:
        """Load generated captions for some of these images."""
        results = COCO(resFile)
        known = set(map(str, self.imgToAnns))
        if unknown := [key for key in results.imgToAnns if str(key) not in known]:
            raise InputError(
                f"the annotations do not have {len(unknown)} image ids of the results, such as {unknown[0]!r}"
            )
        return results


def _to_list(ids: Any) -> list[Any]:
    return [ids] if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__") else list(ids)


def _read_dataset(source: Any) -> dict[str, Any]:
    """Read images and annotations in COCO's format from any file of captions."""
    if isinstance(source, (str, PathLike)):
        try:
            content = json.loads(read_text(get_name(source)))
        except ValueError:  # another format, or a mistake, which the reader of the rows reports
            content = None
        source = content if isinstance(content, Mapping) and "annotations" in content else source
    if isinstance(source, Mapping) and "annotations" in source:
        return dict(source)
    return {"annotations": list(_read_annotations(source))}


def _read_annotations(source: Any) -> Iterator[dict[str, Any]]:
    for row in read_rows(source):
        key = row.fields.get("image_id", row.fields.get("id"))
        if key is None:
            raise InputError(f"{row.where}: has no image_id")
        texts = row.fields.get("caption")
        for text in texts if isinstance(texts, (list, tuple)) else [texts]:
            yield {**({} if row.keyed else row.fields), "image_id": key, "caption": text}


class COCOEvalCap:
    """Every value of a caption file: ``evaluate()`` fills ``eval``, ``imgToEval`` and ``evalImgs``.

    ``coco`` and ``cocoRes`` are ``COCO`` objects, of pycocotools or of this module, or paths to their files.
    ``params["image_id"]`` are the images to score; the ids 7 and "7" name one image. A value that cannot be computed is
    NaN, and a line says why. SPICE is captious's, see `SpiceScorer`.
    """

    _several: ClassVar[bool] = False  # whether an image may have several captions

    def __init__(self, coco: Any, cocoRes: Any) -> None:
        self.coco = coco if hasattr(coco, "getImgIds") else COCO(coco)
        self.cocoRes = cocoRes if hasattr(cocoRes, "getImgIds") else COCO(cocoRes)
        self.params = {"image_id": self.coco.getImgIds()}
        self.eval: dict[str, float] = {}
        self.imgToEval: dict[Any, dict[str, Any]] = {}
        self.evalImgs: list[dict[str, Any]] = []

    def evaluate(self) -> None:
        """Tokenize and score, printing the same progress as the original."""
        ids = list(dict.fromkeys(self.params["image_id"]))
        print("tokenization...")
        gts, res = self._tokenize(self.coco, "coco", ids), self._tokenize(self.cocoRes, "cocoRes", ids)
        captions = _build_captions(gts, res, self._several)
        print("setting up scorers...")
        self.imgToEval = {key: {"image_id": key} for key in ids}
        score: Any
        scores: Any
        for scorer, names in self._make_scorers():
            print(f"computing {scorer.method()} score...")
            try:
                score, scores = scorer._score(captions)
            except InputError as error:  # METEOR's tables or a parser are not installed
                print(f"{scorer.method()} was not computed: {error}")
                score = math.nan
                scores = [deepcopy(NO_SPICE) if names == ["SPICE"] else math.nan for _ in ids]
            columns = zip(score, scores, strict=True) if isinstance(score, list) else [(score, scores)]
            for name, (value, values) in zip(names, columns, strict=True):
                self.eval[name] = value
                for key, one in zip(ids, values, strict=True):
                    self.imgToEval[key][name] = one
                print(f"{name}: {value:0.3f}")
        self.evalImgs = list(self.imgToEval.values())

    def _make_scorers(self) -> list[tuple[Bleu | Meteor | Rouge | Cider | SpiceScorer, list[str]]]:
        return [
            (Bleu(4), ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"]),
            (Meteor(), ["METEOR"]),
            (Rouge(), ["ROUGE_L"]),
            (Cider(), ["CIDEr"]),
            (SpiceScorer(), ["SPICE"]),
        ]

    def _tokenize(self, source: Any, name: str, ids: Sequence[Any]) -> dict[Any, list[str]]:
        by_text = {str(key): records for key, records in source.imgToAnns.items()}
        records = {key: by_text.get(str(key), []) for key in ids}
        if missing := [key for key in ids if not records[key]]:
            raise InputError(
                f"{name} has no caption of {len(missing)} of the {len(ids)} images, such as {missing[0]!r}; to score "
                f"those that have one, set params['image_id'] = cocoRes.getImgIds()"
            )
        return PTBTokenizer().tokenize(records)


class COCOEvalCapSpice(COCOEvalCap):
    """SPICE only, of one or several captions per image; the tuples of several form one graph (AllSPICE)."""

    _several: ClassVar[bool] = True

    def _make_scorers(self) -> list[tuple[Bleu | Meteor | Rouge | Cider | SpiceScorer, list[str]]]:
        return [(SpiceScorer(), ["SPICE"])]


def _build_captions(gts: Captions, res: Captions, several: bool = False) -> CaptionSet:
    """Build a set of items in the order of ``gts``."""
    for name, captions in (("gts", gts), ("res", res)):
        if not isinstance(captions, Mapping):
            raise InputError(f"{name} is {type(captions).__name__}, expected {{image id: [captions]}}")
    _refuse_unmatched(gts.keys() - res.keys(), "res is missing", "of gts")
    _refuse_unmatched(res.keys() - gts.keys(), "gts is missing", "of res")
    if not gts:
        raise InputError("gts and res are empty, expected captions by image id")
    if several:
        _check_texts("res", res, lambda number: number >= 1, "a list of at least one caption")
    else:
        _check_texts("res", res, lambda number: number == 1, "a list of one caption")
    _check_texts("gts", gts, lambda number: number >= 1, "a list of at least one reference")
    return CaptionSet(
        ids=tuple(map(str, range(len(gts)))),  # the image ids may be of any type
        candidates=Ragged.of(res[key] for key in gts),
        references=Ragged.of(gts.values()),
    )


def _compute_values(metric: MeanMetric, captions: CaptionSet) -> Floats:
    """Return one value per item, without building a measurement and its signature."""
    rows = metric.score_items(captions, metric.prepare(captions)).rows
    assert isinstance(rows, np.ndarray)
    return metric.aggregate(rows)


def _refuse_unmatched(ids: Collection[Any], lack: str, owner: str) -> None:
    if ids:
        raise InputError(f"{lack} {len(ids)} ids {owner}, such as {next(iter(ids))!r}")


def _check_texts(name: str, captions: Captions, fits: Callable[[int], bool], expected: str) -> None:
    """Raise InputError unless the number of texts of every id fits, and all texts are of type str."""
    for key, texts in captions.items():
        if not isinstance(texts, (list, tuple)) or not fits(len(texts)):
            number = f"{len(texts)} captions" if isinstance(texts, (list, tuple)) else repr(texts)[:60]
            raise InputError(f"{name}: id {key!r} has {number}, expected {expected}")
    if set(map(type, chain.from_iterable(captions.values()))) - {str}:
        key, text = next((key, text) for key, texts in captions.items() for text in texts if type(text) is not str)
        raise InputError(f"{name}: id {key!r} is {text!r:.60}, expected a tokenized text")
