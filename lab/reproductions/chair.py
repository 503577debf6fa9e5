"""CHAIR: every caption file that papers published, against the numbers that they printed; AMBER and ALOHa beside them.

    python -m lab.reproductions chair --quick                 # a file of each paper, no paired tests: under a minute
    python -m lab.reproductions chair --out results/          # all files, paired tests, variants, the human floor
    python -m lab.reproductions chair --mpnet FOLDER          # ALOHa too, with the weights of all-mpnet-base-v2

The captions, COCO's objects and NLTK's tagger come from the shared evaluation data. POPE has the original's setting;
OPERA's paper has WordNet's lemmas for captions and the original's for the truth; "Less is more" has WordNet's for both.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from lab.benchmarks.measure import table
from lab.reproductions.beside import Beside, Row, arguments, show

import captious
from captious import CaptionSet, Resampling
from captious.metrics.hallucination.amber import Amber
from captious.metrics.hallucination.chair import Chair
from captious.metrics.hallucination.truth import ObjectTable
from captious.probes.hallucination import probe_hallucination
from captious.reproductions import find_entry
from captious.syntax.objects import open_vocabulary

TAGGER = "averaged_perceptron_tagger_eng"
# The texts of these papers were not at hand.
UNCHECKED = "not checked against the text of the paper"


@dataclass(frozen=True)
class Published:
    """What a paper printed of one caption file: values in percent, lengths in tokens."""

    file: str
    setting: str
    values: Mapping[str, float]
    note: str = UNCHECKED


SHORT = {"CHAIR_S": "s", "CHAIR_I": "i", "recall": "recall"}
# Token lengths that "Less is more" prints too.
TOKENS = {"eos_r1-llava1.5-7b": 100.6, "eos_r2-vcd": 100.4, "eos_r3-opera": 98.6}


def read_published(entry: str, setting: str) -> Iterator[Published]:
    """Read what a paper printed from the entry of `captious reproduce`."""
    for row in find_entry(entry).tables[0].rows:
        file = row.file[0].removesuffix(".jsonl.gz")
        values = {SHORT[name]: value for name, value in row.published.items()}
        values |= {"tokens": TOKENS[file]} if file in TOKENS else {}
        yield Published(file, setting, values, row.origin or UNCHECKED)


PUBLISHED = (
    *read_published("pope", "A"),
    *read_published("opera", "B"),
    *read_published("less-is-more", "C"),
    Published("eos_r4-opera-fast", "C", {}, ""),
    Published("eos_r6-ours-cap", "C", {}, ""),
    Published("eos_r7-llava1.5-13b", "C", {}, ""),
    Published(
        "marine_guidance0.0",
        "A",
        {"s": 100 * 44 / 500, "i": 100 * 46 / 1006, "recall": 100 * 902 / 2195, "tokens": 14.242},
        "counts stored in its repository, made with TextBlob's singularize and without the rule “wine glas”",
    ),
)
QUICK = ("pope_llava_short", "opera_llava-1.5_greedy", "eos_r1-llava1.5-7b", "marine_guidance0.0")
# Parameters of CHAIR: the original, OPERA's paper, and OPERA's code with a new cache.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "A": {},
    "B": {"lemmas": "wordnet", "truth_lemmas": "singularize", "tagger": "nltk"},
    "C": {"lemmas": "wordnet", "tagger": "nltk"},
}
NAMES = {"s": "CHAIR_S", "i": "CHAIR_I", "recall": "recall", "tokens": "tokens"}
# Setting, baseline and method: captions of the same model for the same images.
DECODERS = (
    ("B", "opera_llava-1.5_greedy", "opera_llava-1.5_ours"),
    ("B", "opera_llava-1.5_beam5", "opera_llava-1.5_ours"),
    ("B", "opera_instructblip_greedy", "opera_instructblip_ours"),
    ("B", "opera_instructblip_beam5", "opera_instructblip_ours"),
    ("C", "eos_r1-llava1.5-7b", "eos_r2-vcd"),
    ("C", "eos_r1-llava1.5-7b", "eos_r3-opera"),
    ("C", "eos_r1-llava1.5-7b", "eos_r6-ours-cap"),
)
VARIANTS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("the original", {}),
    ("lemmas=wordnet, truth_lemmas=singularize, tagger=nltk (OPERA's paper)", SETTINGS["B"]),
    ("lemmas=wordnet, tagger=nltk (OPERA's code)", SETTINGS["C"]),
    (
        "lemmas=wordnet, truth_lemmas=singularize (captious' tagger)",
        {"lemmas": "wordnet", "truth_lemmas": "singularize"},
    ),
    ("lemmas=spacy, truth_lemmas=singularize", {"lemmas": "spacy", "truth_lemmas": "singularize"}),
    ("truth=instances", {"truth": "instances"}),
    ("truth=captions", {"truth": "captions"}),
    ("count=distinct", {"count": "distinct"}),
    ("last_sentence=drop", {"last_sentence": "drop"}),
    ("vocabulary=coco-repaired", {"vocabulary": "coco-repaired"}),
    ("max_words=64", {"max_words": 64}),
    ("max_words=32", {"max_words": 32}),
)
# Files on which the variants stand side by side; many captions of the second break off.
VARIED = ("opera_llava-1.5_greedy", "opera_instructblip_ours")


class Reproduction:
    """The shared data brought into the forms that captious reads, in a folder of its own."""

    def __init__(self, data: Path, folder: Path, samples: int) -> None:
        self.data, self.folder = data / "chair", folder
        self.resampling = Resampling(samples=samples)
        self._captions: dict[str, CaptionSet] = {}
        self.rows = [row for row in self._lines("coco2014_objects") if row["split"] == "val"]
        for name in ("coco", "coco-repaired"):
            self._write_table(name)
        self._write_tagger()

    def _lines(self, name: str) -> list[dict[str, Any]]:
        with gzip.open(self.data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def _write_table(self, vocabulary: str) -> None:
        """The objects of COCO as ``captious make objects`` writes them; they were made with the original's list."""
        sources = {"instances": "instances", "captions_singularize": "captions", "captions_wordnet": "captions_wordnet"}
        columns = {name: [row[column] for row in self.rows] for name, column in sources.items()}
        numbers = {str(row["id"]): number for number, row in enumerate(self.rows)}
        objects = ObjectTable("objects", numbers, columns, str(open_vocabulary(vocabulary)))
        objects.save(self.folder / f"{vocabulary}.parquet")

    def _write_tagger(self) -> None:
        """NLTK's tagger where NLTK looks for it."""
        folder = self.folder / "taggers" / TAGGER
        folder.mkdir(parents=True)
        with gzip.open(self.data / "nltk_tagger.json.gz", "rt", encoding="utf-8") as file:
            for part, content in json.load(file).items():
                (folder / f"{TAGGER}.{part}.json").write_text(json.dumps(content), encoding="utf-8")
        os.environ["NLTK_DATA"] = str(self.folder)

    def captions(self, name: str) -> CaptionSet:
        """A caption file."""
        if name not in self._captions:
            rows = self._lines(name)
            self._captions[name] = captious.read({row["id"]: row["caption"] for row in rows})
        return self._captions[name]

    def metric(self, **parameters: Any) -> Chair:
        """CHAIR on the objects of COCO."""
        vocabulary = parameters.get("vocabulary", "coco")
        return Chair(objects=str(self.folder / f"{vocabulary}.parquet"), **parameters)

    def estimates(self, name: str, values: Sequence[str], **parameters: Any) -> dict[str, Any]:
        """Values of a file with their intervals."""
        metrics = [replace(self.metric(**parameters), value=value) for value in values]
        report = captious.evaluate(self.captions(name), metrics, resampling=self.resampling)
        return {value: report.intervals[str(metric)] for value, metric in zip(values, metrics, strict=True)}


def beside_published(run: Reproduction, quick: bool) -> Iterator[Row]:
    """Every value of every file."""
    for one in PUBLISHED:
        if quick and one.file not in QUICK:
            continue
        values = list(dict.fromkeys(["s", "i", *one.values]))
        estimates = run.estimates(one.file, values, **SETTINGS[one.setting])
        for value in values:
            scale, published = (1 if value == "tokens" else 100), one.values.get(value)
            ours = scale * estimates[value].value
            note = "" if published is None else f"{_verdict(ours, published)}; {one.note}"
            yield Row.of(f"{one.file} ({one.setting})", NAMES[value], estimates[value], published, note, scale=scale)


def _verdict(ours: float, published: float) -> str:
    """Whether a printed value follows from ours: half a unit of its last decimal may go either way."""
    rounded = abs(published - round(published, 1)) < 1e-9
    return (
        "reproduced"
        if abs(ours - published) <= (0.0501 if rounded else 1e-4)
        else f"differs by {ours - published:+.3f}"
    )


def paired_tests(run: Reproduction) -> str:
    """Methods against their baselines, as a table."""
    rows = [["method − baseline", "CHAIR_S", "better, worse images", "McNemar p", "CHAIR_I", "p", "words"]]
    for setting, baseline, method in DECODERS:
        systems = {name: run.captions(name) for name in (baseline, method)}
        result = probe_hallucination(systems, run.metric(**SETTINGS[setting]), run.resampling)
        differences = {row.metric.partition("value=")[2].partition(",")[0]: row for row in result.differences}
        better, worse, p = result.count_discordant(baseline, method)
        s, i, words = (differences[value] for value in ("s", "i", "words"))
        rows.append(
            [
                f"{method} − {baseline} ({setting})",
                _interval(s),
                f"{better}, {worse}",
                f"{p:.2g}",
                _interval(i),
                f"{i.p:.2g}",
                f"{words.difference:+.1f}".replace("-", "−"),
            ]
        )
    return table(rows)


def _interval(row: Any) -> str:
    ends = [f"{100 * end:+.1f}".replace("-", "−") for end in (row.difference, row.low, row.high)]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"


def variants(run: Reproduction) -> str:
    """How many points each choice moves, as a table."""
    head = ["choice", *(f"{name}: {value}" for name in VARIED for value in ("CHAIR_S", "CHAIR_I"))]
    rows = [head]
    base: dict[str, dict[str, float]] = {}
    for label, parameters in VARIANTS:
        cells = [label]
        for name in VARIED:
            own = {**parameters}
            metrics = {value: replace(run.metric(**own), value=value) for value in ("s", "i")}
            values = {value: 100 * metric.measure(run.captions(name)).corpus for value, metric in metrics.items()}
            first = base.setdefault(name, values)
            for value in ("s", "i"):
                moved = "" if values is first else f" ({values[value] - first[value]:+.2f})".replace("-", "−")
                cells.append(f"{values[value]:.2f}{moved}")
        rows.append(cells)
    return table(rows)


def human_floor(run: Reproduction) -> str:
    """Human captions against the objects of their image without the caption itself: what no system is asked to beat."""
    from captious.syntax.objects import ObjectFinder

    path = run.data.parent / "coco" / "val2014.jsonl.gz"
    if not path.is_file():
        return "The human floor needs COCO's captions, which are not at hand."
    with gzip.open(path, "rt", encoding="utf-8") as file:
        references = {str(row["id"]): row["references"] for row in map(json.loads, file)}
    instances = {str(row["id"]): set(row["instances"]) for row in run.rows}
    keys = sorted(references, key=int)
    texts = [text for key in keys for text in references[key]]
    objects = iter(ObjectFinder(open_vocabulary()).find(texts))
    counts = {"the other captions and instances": [0, 0, 0, 0], "instances alone": [0, 0, 0, 0]}
    for key in keys:
        own = [next(objects) for _ in references[key]]
        for index, one in enumerate(own):
            others = {name for other, captions in enumerate(own) if other != index for name in captions.categories}
            truths = zip(counts.values(), (instances[key] | others, instances[key]), strict=True)
            for count, truth in truths:
                wrong = sum(mention.category not in truth for mention in one.mentions)
                for place, number in enumerate((1, wrong > 0, len(one.mentions), wrong)):
                    count[place] += number
    lines = [
        f"against {name}: CHAIR_S {100 * wrong_captions / captions:.1f}, CHAIR_I {100 * wrong / mentions:.2f}"
        for name, (captions, wrong_captions, mentions, wrong) in counts.items()
    ]
    return f"{len(texts):,} human captions of val2014, " + "; ".join(lines) + "."


def image_lists(run: Reproduction) -> str:
    """How far CHAIR_S depends on which 500 images were drawn: subsets of POPE's 2,000."""
    measured = run.metric().measure(run.captions("pope_llava_brief"))
    generator = np.random.default_rng(0)
    draws = [100 * measured.values[generator.permutation(2000)[:500]].mean() for _ in range(2000)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return (
        f"500 of POPE's 2,000 images (LLaVA, brief): CHAIR_S {100 * measured.corpus:.1f}, standard deviation of "
        f"the subset {np.std(draws):.1f}, 95 % of subsets {low:.1f} to {high:.1f}."
    )


def amber_sums(data: Path, folder: Path) -> str:
    """AMBER on the made captions, whose values the original code printed."""

    def rows(name: str) -> list[dict[str, Any]]:
        with gzip.open(data / "amber" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    with gzip.open(data / "amber" / "words.json.gz", "rt", encoding="utf-8") as file:
        words = json.load(file)
    annotations = folder / "amber"
    annotations.mkdir()
    (annotations / "annotations.json").write_text(json.dumps(rows("annotations_generative")), encoding="utf-8")
    (annotations / "relation.json").write_text(json.dumps(words["association"]), encoding="utf-8")
    (annotations / "safe_words.txt").write_text("\n".join(words["safe_words"]), encoding="utf-8")
    captions = CaptionSet.of({row["id"]: row["caption"] for row in rows("made_captions")})
    lines = []
    for tagger in ("nltk", "captious"):
        values = [
            Amber(value, str(annotations), vectors="none", tagger=tagger).measure(captions).corpus
            for value in ("chair", "cover", "hal", "cog")
        ]
        lines.append(f"tagger={tagger}: " + ", ".join(f"{100 * value:.1f}" for value in values))
    return (
        "AMBER on 1,004 made captions, words compared by equality; CHAIR, Cover, Hal, Cog. The original code prints "
        f"43.0, 41.5, 87.8, 19.3. {'; '.join(lines)}."
    )


def aloha_rows(data: Path, weights: str) -> Iterator[Row]:
    """ALOHa with MPNet on HAT and nocaps-FOIL."""
    from captious.metrics.hallucination.aloha import Aloha

    def rows(name: str) -> list[dict[str, Any]]:
        with gzip.open(data / "aloha" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    hat, foil = rows("hat"), rows("nocaps_foil")
    with gzip.open(data / "chair" / "coco2014_objects.jsonl.gz", "rt", encoding="utf-8") as file:
        objects = {int(row["id"]): row["instances"] for row in map(json.loads, file)}
    columns = {"objects": [objects[int(row["image_path"][-16:-4])] for row in hat]}
    captions = _captions([row["caption"] for row in hat], hat, columns)
    wrong = np.array([row["contains_hallucination"] for row in hat])
    chair = Chair("s", references=True).measure(captions).values
    yield Row("HAT, average precision × 100", "CHAIR_S as 0 or 1", 100 * average_precision(chair, wrong))
    published = {
        ("spacy", False, "ignore"): 49.2,
        ("spacy", True, "ignore"): 52.6,
    }
    for tagger in ("spacy", "captious"):
        for detections in (False, True):
            for unmatched in ("ignore", "zero"):
                metric = Aloha(weights=weights, tagger=tagger, detections=detections, unmatched=unmatched)
                scores = np.round(metric.measure(captions).values, 5)
                name = f"{tagger}{', instances' if detections else ''}, unmatched={unmatched}"
                expected = published.get((tagger, detections, unmatched))
                note = "measured elsewhere on the same half" if expected else ""
                yield Row(
                    "HAT, average precision × 100",
                    name,
                    100 * average_precision(1 - scores, wrong),
                    published=expected,
                    note=note,
                )
    for tagger in ("spacy", "captious"):
        metric = Aloha(weights=weights, tagger=tagger)
        right, worse = (
            np.round(metric.measure(_captions([row[key] for row in foil], foil)).values, 5)
            for key in ("baseline", "foil")
        )
        share = 100 * float(np.mean((right > worse) + 0.5 * (right == worse)))
        yield Row(
            "nocaps-FOIL, caption above its foil, %", tagger, share, published=82.3 if tagger == "spacy" else None
        )


def _captions(
    texts: Sequence[str], rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any] | None = None
) -> CaptionSet:
    references = {str(number): row["references"] for number, row in enumerate(rows)}
    return CaptionSet.of({str(number): text for number, text in enumerate(texts)}, references, columns)


def average_precision(scores: Any, positive: Any) -> float:
    """The mean precision over the positives when scores are ranked from the highest; equal scores count together.

    >>> average_precision(np.array([3, 2, 1]), np.array([True, False, True]))  # 1/1 and 2/3
    0.8333333333333333
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(positive[order])
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    precision, recall = hits[ends] / (ends + 1), hits[ends] / hits[-1]
    return float(np.sum(np.diff(np.append(0, recall)) * precision))


def main() -> None:
    """Everything, as one table with notes."""
    parser = arguments("chair", __doc__, "one file of each paper, and nothing but the table")
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap resamples")
    parser.add_argument("--mpnet", help="folder or hub id of all-mpnet-base-v2, for ALOHa")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        run = Reproduction(options.data, Path(place), options.samples)
        rows = list(beside_published(run, options.quick))
        notes = [
            f"A, B, C: {', '.join(f'{name} = chair({_written(parameters)})' for name, parameters in SETTINGS.items())}."
        ]
        if not options.quick:
            notes += ["### Decoders of one model, paired over images", paired_tests(run)]
            notes += ["### What each choice moves", variants(run)]
            notes += [human_floor(run), image_lists(run), amber_sums(options.data, Path(place))]
        if options.mpnet:
            rows += aloha_rows(options.data, options.mpnet)
        show(Beside("CHAIR, AMBER, ALOHa", rows, notes, decimals=2), "chair", options.out, started)


def _written(parameters: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in parameters.items())


if __name__ == "__main__":
    main()
