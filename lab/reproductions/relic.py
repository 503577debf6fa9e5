"""RELIC: LIC for gender, race and age, our values beside those of its Tables 1 to 4.

python -m lab.reproductions relic --quick      # the linear classifier, three seeds: a minute on two cores
python -m lab.reproductions relic              # the published LSTM, ten seeds: minutes on a GPU; linear without one
python -m lab.reproductions relic --tables 3 --classifiers "bert-ft(model=FOLDER),bert-pre"
python -m lab.reproductions relic --finished OUT/relic.json --finished MORE/relic.json   # runs, the claims, the page

Classifiers run in their order, and each one's tables in theirs. The files of --out are written after every table, so a
run that is stopped keeps what was done. At the end the four claims are tested (relic_claims.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.reproductions.beside import Beside, Row, arguments, show
from lab.reproductions.relic_claims import build_page, check_claims

from captious._core.notation import split_specs
from captious.bias.audit import Audit, AuditRow, audit
from captious.bias.classifiers import make_classifier
from captious.bias.corpus import AuditedCaptioner, Classifier, read_subjects
from captious.bias.protocol import PRESETS, Protocol, get_published_seeds
from captious.errors import InputError, format_one_line
from captious.models.devices import resolve_device
from captious.options import Engine, Reading, Runtime, using
from captious.reproductions import find_entry

# The preset of each table.
NAMES = {"1": "relic-gender", "2": "relic-race", "3": "relic-age", "4": "relic-age-human"}

TITLES = {"1": "1 gender", "2": "2 race", "3": "3 age", "4": "4 age, human words"}
# The captioners of Tables 1 and 2, in the paper's order; Tables 3 and 4 have four of them.
MODELS = ("nic", "sat", "fc", "att2in", "updn", "transformer", "oscar", "nic_plus", "nic_equalizer")
AGE_MODELS = ("sat", "oscar", "nic_plus", "nic_equalizer")
# The scripts read other captions of NIC for gender under the LSTM, against the vocabulary of `nic`.
OTHER_NIC = "nic_th10"


class Published(NamedTuple):
    """One cell of a table: means and standard deviations over ten seeds.

    LIC is the printed one: the paper subtracted unrounded means, so 14 of its 78 values are not the difference of the
    printed two.
    """

    lic_m: float
    lic_m_sd: float
    lic_d: float
    lic_d_sd: float
    lic: float


def read_tables() -> dict[str, dict[str, dict[str, Published]]]:
    """Read the published tables from the entry of `captious reproduce relic`: by table, captioner and classifier."""
    tables: dict[str, dict[str, dict[str, Published]]] = {}
    for table in find_entry("relic").tables:
        if table.kind == "lic":
            kind = table.classifier.partition("(")[0]
            for row in table.rows:
                number, sd = row.published, row.sd
                cells = Published(number["LIC_M"], sd["LIC_M"], number["LIC_D"], sd["LIC_D"], number["LIC"])
                tables.setdefault(TITLES[table.title[6]], {}).setdefault(row.metric, {})[kind] = cells
    return tables


TABLES = read_tables()


def subjects(data: Path, table: str) -> list[AuditedCaptioner]:
    lic = data / "lic"
    if table in "34":
        return read_subjects([lic / "age.jsonl.gz"], "label", Reading(candidate_column=",".join(AGE_MODELS)))
    folder = lic / ("gender" if table == "1" else "race")
    files = [folder / f"{model}.jsonl.gz" for model in MODELS if (folder / f"{model}.jsonl.gz").is_file()]
    return read_subjects(files, "label", Reading(references=data / "coco" / "val2014.jsonl.gz"), number=5)


def protocol(data: Path, table: str, number: int) -> Protocol:
    """The preset of a table, with the originals' vocabularies."""
    chosen = replace(PRESETS[NAMES[table]], seeds=get_published_seeds(number))
    return chosen if table == "4" else replace(chosen, vocabulary=str(data / "lic" / "vocabulary" / "{model}.txt"))


def classifiers(names: str, table: str) -> list[Classifier]:
    return [make_classifier(text, PRESETS[NAMES[table]].frozen) for text in split_specs(names)]


TITLE = "RELIC, Tables 1 to 4"
# Why a classifier of the paper is not run unless it is asked for.
REASONS = {
    "lstm": "a CPU takes days: run it on a GPU, or name it in --classifiers",
    "bert-ft": "no weights of BERT base: name a folder, --classifiers 'bert-ft(model=FOLDER)'",
    "bert-pre": "no weights of BERT base: name a folder, --classifiers 'bert-pre(model=FOLDER)'",
}
NOTES = (
    "LIC_M and LIC_D are means over seeds, ± their standard deviation, both in points; LIC = LIC_M − LIC_D, its "
    "interval allows for splits that share images. Seeds of the published values: ten.",
)
LINEAR = (
    "The linear classifier is none of the paper's. It stands beside the published LSTM: its levels differ, the order "
    "of the captioners and the sign of LIC can be compared."
)


def rows(table: str, classifier: str, args: argparse.Namespace) -> Iterator[Row]:
    """The rows of one table of the paper under one classifier."""
    name = TITLES[table]
    try:
        people = subjects(args.data, table)
    except InputError as error:
        yield Row(f"Table {name}", "all captioners", note=f"not run: {format_one_line(error)}")
        return
    chosen = classifiers(classifier, table)
    planned = protocol(args.data, table, args.seeds)
    # LSTMs are trained as one stack instead.
    engine = Engine(jobs=args.jobs if classifier.startswith("bert") else 0)
    result = audit(people, planned, chosen, work=args.work, engine=engine)
    yield from table_rows(result, name)
    other = args.data / "lic" / "gender" / f"{OTHER_NIC}.jsonl.gz"
    if table == "1" and classifier.startswith("lstm") and other.is_file():
        # The captioner is called nic, so that its vocabulary is that of `nic`; the human runs come from the store.
        reading = Reading(references=args.data / "coco" / "val2014.jsonl.gz")
        more = audit(read_subjects({"nic": other}, "label", reading, number=5), planned, chosen, work=args.work)
        yield from table_rows(more, name, OTHER_NIC)


def table_rows(result: Audit, name: str, called: str = "") -> Iterator[Row]:
    """LIC_M, LIC_D and LIC of every captioner under every classifier."""
    for classifier in dict.fromkeys(row.classifier for row in result.rows):
        own = [row for row in result.rows if row.classifier == classifier and row.model in TABLES[name]]
        for part in ("LIC_M", "LIC_D", "LIC"):
            yield from (measured(name, part, row, called or row.model) for row in own)


def measured(table: str, part: str, row: AuditRow, called: str) -> Row:
    """One number of a captioner beside the published one, of the LSTM for classifiers that the paper has not."""
    kind = row.classifier.split("(")[0]
    published = TABLES[table][row.model].get(kind, TABLES[table][row.model]["lstm"])
    what = f"Table {table}, {kind}: {part}"
    lic = row.lic
    if part == "LIC":
        low, high = lic.interval
        seeds = {"model": lic.model.tolist(), "human": lic.human.tolist()}
        more = {"seeds": seeds, "ratio": lic.ratio, "accuracy": row.accuracy(), "classifier": row.classifier}
        return Row(what, called, lic.lic, low, high, published.lic, more=more)
    value, sd = (lic.lic_m, lic.sd_m) if part == "LIC_M" else (lic.lic_d, lic.sd_d)
    theirs, their_sd = published[:2] if part == "LIC_M" else published[2:4]
    note = f"± {sd:.1f}, published ± {their_sd}"
    if kind in TABLES[table][row.model]:
        note += f"; {'within' if abs(value - theirs) <= 2 * their_sd else 'outside'} two published sd"
    return Row(what, called, value, published=theirs, note=note, more={"sd": sd, "published_sd": their_sd})


def main() -> None:
    parser = arguments("relic", __doc__, "the linear classifier and three seeds")
    parser.add_argument("--tables", default="1,2,3,4")
    parser.add_argument("--classifiers", help='such as "lstm(stack=64),bert-ft(model=FOLDER)"')
    parser.add_argument("--seeds", type=int, help="how many of the published seeds")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=None, help="folder of finished runs, to resume from")
    parser.add_argument("--jobs", type=int, default=0, help="processes that train encoders side by side")
    parser.add_argument("--finished", type=Path, action="append", help="relic.json of a run, instead of a run")
    args = parser.parse_args()
    started = time.perf_counter()
    if args.finished:
        finished = [row for path in args.finished for row in read_rows(path)]
        print(build_page(finished))
        show(Beside(TITLE, [*finished, *check_claims(finished)], NOTES), "relic", args.out, started)
        return
    if args.classifiers is None:
        args.classifiers = "linear" if args.quick or resolve_device(args.device).type == "cpu" else "lstm"
    args.seeds = args.seeds or (3 if args.quick else 10)
    with using(Runtime(device=args.device)), tempfile.TemporaryDirectory() as folder:
        args.work = args.work or Path(folder)
        result = run(args, started)
    show(result, "relic", args.out, started)


def run(args: argparse.Namespace, started: float) -> Beside:
    """Run all tables under all classifiers, and write what is finished after each."""
    kinds = {written.split("(")[0] for written in split_specs(args.classifiers)}
    tables = f"Tables {args.tables.replace(',', ', ')}"
    left = [Row(tables, kind, note=f"not run: {reason}") for kind, reason in REASONS.items() if kind not in kinds]
    notes = (*NOTES, LINEAR) if "linear" in kinds else NOTES
    done: list[Row] = []
    for classifier in split_specs(args.classifiers):
        for table in args.tables.split(","):
            done += rows(table, classifier, args)
            if args.out is not None:
                Beside(TITLE, [*done, *left], notes).write(args.out, "relic")
            seconds = time.perf_counter() - started
            print(f"table {table}, {classifier}: after {seconds:.0f} s", file=sys.stderr, flush=True)
    return Beside(TITLE, [*done, *left, *check_claims(done)], notes)


def read_rows(path: Path) -> list[Row]:
    """Read the numbers that a run wrote, without its tests and what it did not run."""
    rows = [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    return [row for row in rows if row.what.startswith("Table ")]


if __name__ == "__main__":
    main()
