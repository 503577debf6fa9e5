"""Cases: a right command line of every command that reads a file, with one file or one option spoiled."""

import gzip
import inspect
import io
import json
import os
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, get_args, get_origin

from tests.fuzz.families import CLIPS, ChangedRun, Clips, Events, MetricText, Tar
from tests.fuzz.inputs import ODD, WRONG, Blob, Folder, Input, Table, odd_place, written

from captious.cli.app import build_app
from captious.cli.params import _flatten
from captious.options import Argument, get_choices, get_declarations

ROOT = build_app()
# Commands without a file to read; their options are spoiled all the same.
READS_NOTHING = {
    "demo",
    "schema",
    "study plan",
    "study power",
    "study recipes",
    "cost judge",
    "study leaderboard",
    "bias presets",
    "cache show",
    "cache prune",
}
# Demos take seconds and have no file, servers never end; ``view`` ends, for it is always given a folder to write.
NOT_RUN = {"demo", "studio serve", "studio demo"}

ENTRY = b"""title = "A paper"
[[tables]]
title = "Table 1"
columns = { BLEU-1 = "bleu(n=1)" }
[[tables.rows]]
name = "ours"
file = "captions.jsonl"
published = { BLEU-1 = 100.0 }
"""
CAPTIONS = (
    "a red dog runs on the green grass",
    "a man rides a wave on a blue board",
    "two cats sleep on a small bed",
    "a woman holds an umbrella in the rain",
    "a child eats a slice of pizza",
    "a train stands in an old station",
    "a bird sits on a wooden fence",
    "the old man reads a newspaper",
)
IDS = [str(number) for number in range(1, len(CAPTIONS) + 1)]
NAMES = [f"{key}.png" for key in IDS]


class RatingStudy:
    """A study with three raters, one of them excluded: the file, its captions or its database spoiled."""

    needs_file = False
    """Whether commands read the file of the study, and not its database alone."""

    toml = """title = "Dogs"
kind = "ratings"
captions = ["a.jsonl"]
[[aspects]]
name = "overall"
question = "How good?"
"""

    def right(self, folder, name):
        """The path of the plan."""
        import pytest

        pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")
        from captious.studio.collect.log import StudyLog
        from captious.studio.collect.rating_tasks import build_tasks
        from captious.studio.collect.study_plan import read_plan

        path = self.write(folder, name)
        plan = read_plan(path)
        log = StudyLog.open(path.with_suffix(".db"))
        log.begin(plan, build_tasks(plan))
        for rater in log.add_raters(["one", "two", "three"]):
            page = log.next_page(rater.id)
            answer = {"ratings": {choice.id: {"overall": 4} for choice in page.task.choices}}
            body = {"answer": answer, "order": list(page.order), "purpose": "work", "seconds": 4.0}
            log.record(rater.id, "answered", f"key-{rater.id}", page.task.id, body)
            log.next_page(rater.id)
        log.exclude("r3", "fast")
        log.close()
        return str(path)

    def write(self, folder, name):
        """The plan and its captions alone."""
        place = folder / name
        place.mkdir()
        lines = [json.dumps({"id": key, "caption": CAPTIONS[index]}) + "\n" for index, key in enumerate(IDS)]
        (place / "a.jsonl").write_text("".join(lines))
        (place / "study.toml").write_text(self.toml)
        return place / "study.toml"

    def spoiled(self, rng, folder, name):
        """A study whose file, captions or database is something else."""
        path = Path(self.right(folder, name))
        part = rng.choice([name for name in ("study.toml", "a.jsonl", "study.db") if (path.parent / name).exists()])
        odd = Blob((path.parent / part).read_bytes(), Path(part).suffix).spoiled(rng, folder, "spoiled")
        (path.parent / part).unlink()
        if os.path.lexists(odd.text):  # unlike Path.exists, it takes a name that is too long
            (path.parent / part).symlink_to(odd.text)
        # The database holds what it needs of the captions; a changed byte in it need not be seen.
        wrong = odd.wrong if part == "study.toml" and self.needs_file else ODD
        return Input(str(path), f"{part}: {odd.what}", wrong)


class PausedStudy(RatingStudy):
    """A study that is paused."""

    def right(self, folder, name):
        """The path of the plan."""
        path = Path(super().right(folder, name))
        from captious.studio.collect.log import StudyLog

        log = StudyLog.open(path.with_suffix(".db"))
        log.pause("lunch")
        log.close()
        return str(path)


class EditedStudy(RatingStudy):
    """A study whose file was edited after it began."""

    needs_file = True

    def right(self, folder, name):
        """The path of the edited plan."""
        path = Path(super().right(folder, name))
        path.write_text(self.toml.replace("Dogs", "Cats"), encoding="utf-8")
        return str(path)


class NewStudy(RatingStudy):
    """A study that nobody has answered."""

    needs_file = True

    def right(self, folder, name):
        """The path of the plan."""
        return str(self.write(folder, name))


def others(index):
    """Two references that share words with the caption."""
    words = CAPTIONS[index].split()
    return [" ".join(words[:-1]), " ".join(["maybe", *words[1:]])]


def rows(**columns):
    """Eight rows; a column is a function of the index."""
    return [{name: make(index) for name, make in columns.items()} for index in range(len(CAPTIONS))]


def model_of_styles():
    """The bytes of a fitted model of two styles."""
    import tempfile

    from captious.metrics.style.fitting import fit
    from captious.metrics.style.model_files import save

    with tempfile.TemporaryDirectory() as folder:
        pairs = [(("calm", "loud")[index % 2], text) for index, text in enumerate(CAPTIONS)]
        save(fit(pairs, tokenizer="plain", name="m"), Path(folder) / "m.style")
        return (Path(folder) / "m.style").read_bytes()


def idf_corpus():
    """The bytes of a corpus of document frequencies."""
    import tempfile

    from captious.captions import CaptionSet
    from captious.text.idf import DocumentFrequency

    with tempfile.TemporaryDirectory() as folder:
        captions = CaptionSet.of(dict.fromkeys(IDS, ()), {key: others(i) for i, key in enumerate(IDS)})
        DocumentFrequency.of(captions, "ptb", "mine").save(Path(folder) / "mine.idf")
        return (Path(folder) / "mine.idf").read_bytes()


def features():
    """Image features as an archive of arrays."""
    import numpy as np

    buffer = io.BytesIO()
    vectors = np.random.default_rng(0).normal(size=(len(IDS), 4)).astype(np.float32)
    np.savez(buffer, ids=np.array(IDS), features=vectors)
    return buffer.getvalue()


class Gallery:
    """A folder that ``make pictures`` wrote: its list spoiled."""

    facts: ClassVar = {
        "painter": "drawn",
        "pictures": [{"id": key, "text": CAPTIONS[i], "seed": 0, "picture": f"{key}.png"} for i, key in enumerate(IDS)],
    }

    def right(self, folder, name):
        """The folder as it should be."""
        (folder / name).mkdir()
        (folder / name / "gallery.json").write_text(json.dumps(self.facts))
        return str(folder / name)

    def spoiled(self, rng, folder, name):
        """A list that is no list of pictures, or no folder."""
        if rng.random() < 0.2:
            return odd_place(rng, folder, "")
        path = self.right(folder, name)
        inner = Blob(json.dumps(self.facts).encode(), ".json")
        spoiled = inner.spoiled(rng, folder, "spoiled")
        (Path(path) / "gallery.json").unlink()
        if os.path.lexists(spoiled.text):
            (Path(path) / "gallery.json").symlink_to(spoiled.text)
        return Input(path, f"gallery.json: {spoiled.what}", spoiled.wrong)


class Run:
    """A folder that ``score`` wrote: its facts or its items spoiled."""

    def right(self, folder, name):
        """The folder as it should be."""
        from captious._evaluate import evaluate
        from captious.captions import CaptionSet
        from captious.options import Resampling

        captions = CaptionSet.of(dict(zip(IDS, CAPTIONS, strict=True)), {key: others(i) for i, key in enumerate(IDS)})
        evaluate(captions, "rouge", resampling=Resampling(samples=0)).save(folder / name)
        return str(folder / name)

    def spoiled(self, rng, folder, name):
        """A file that is not what its name says, or no folder."""
        if rng.random() < 0.2:
            return odd_place(rng, folder, "")
        path = Path(self.right(folder, name))
        file = path / rng.choice(["captious-run.json", "items/captions.parquet", "rows/captions.parquet"])
        spoiled = Blob(file.read_bytes(), file.suffix, sealed=True).spoiled(rng, folder, "spoiled")
        file.unlink()
        if os.path.lexists(spoiled.text):
            file.symlink_to(spoiled.text)
        return Input(str(path), f"{file.name}: {spoiled.what}", ODD)


class ScoredShards:
    """A folder that ``score`` wrote from shards: its manifest, or the items of a shard spoiled."""

    def right(self, folder, name):
        """The folder as it should be."""
        from captious.options import Engine, Resampling
        from captious.runs.shards.scoring import score_shards

        shards = folder / f"{name}-shards"
        shards.mkdir()
        for index, key in enumerate(IDS):
            row = {"id": key, "caption": CAPTIONS[index], "references": others(index)}
            with (shards / f"{index % 2}.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
        score_shards(shards, "rouge", out=folder / name, resampling=Resampling(0), engine=Engine("serial"))
        return str(folder / name)

    def spoiled(self, rng, folder, name):
        """A file that is not what its name says, or no folder."""
        if rng.random() < 0.2:
            return odd_place(rng, folder, "")
        path = Path(self.right(folder, name))
        file = rng.choice([path / "captious-run.json", path / "items" / "0.parquet"])
        spoiled = Blob(file.read_bytes(), file.suffix, sealed=True).spoiled(rng, folder, "spoiled")
        file.unlink()
        if os.path.lexists(spoiled.text):
            file.symlink_to(spoiled.text)
        return Input(str(path), f"{file.name}: {spoiled.what}", ODD)


class FilterText:
    """An expression over the scores of shards: cut, doubled, or something else."""

    text = "rouge > 0.3 and (words > 4 or not top(rouge, 0.5)) and 'dog' in caption"
    others = (
        *("", " ", "(", "rouge >", "rouge =", "rouge > 0.3 &&", "nosuch > 1", "rouge > 'x'", "id > 1", "words", "#"),
        *("__import__('os')", "rouge > 9e999", "top(rouge, 2)", "`rouge", "\x1b[31m > 1", "rouge > 1\n+", "(" * 300),
        *("not " * 500 + "words > 1", "rouge.real > 1", "rouge > 1 if words else 2", "words > 1" + " or words" * 900),
    )

    def right(self, folder, name):
        """The expression as it should be."""
        return self.text

    def spoiled(self, rng, folder, name):
        """An expression with a fault; a cut one may still be right."""
        if rng.random() < 0.5:
            return Input(rng.choice(self.others), "is no filter", WRONG)
        return Input(self.text[: rng.randrange(len(self.text))], "is cut", ODD)


class PlanOfPairs:
    """A study of the studio with its files: a line of it, or all of it, spoiled."""

    text = """title = "A study"
kind = "pairs"
captions = ["study-a.jsonl", "study-b.jsonl"]
ties = true
overlap = 2
lease = "20 min"
[checks]
gold = "study-gold.jsonl"
flag = { failed = 2, seconds = 3 }
[source]
name = "open"
"""
    values = ("-1", "1e99", "[]", "{}", '""', "true", '"nosuch"', "[[1]]", "nan", '"\\u0000"', '"/dev/zero"')

    def right(self, folder, name, text=text):
        """The study as it should be."""
        for system in "ab":
            captions = [{"id": key, "caption": f"{text} {system}"} for key, text in zip(IDS, CAPTIONS, strict=True)]
            written(folder, f"study-{system}.jsonl", "".join(json.dumps(row) + "\n" for row in captions).encode())
        gold = {"id": IDS[0], "expected": "study-a"}
        written(folder, "study-gold.jsonl", json.dumps(gold).encode())
        return written(folder, f"{name}.toml", text.encode())

    def spoiled(self, rng, folder, name):
        """A study with one value of another sort, or a file that is no study."""
        self.right(folder, "right")
        if rng.random() < 0.5:
            return Blob(self.text.encode(), ".toml").spoiled(rng, folder, name)
        lines = self.text.splitlines()
        index = rng.choice([index for index, line in enumerate(lines) if " = " in line])
        lines[index] = f"{lines[index].split(' = ')[0]} = {rng.choice(self.values)}"
        return Input(self.right(folder, name, "\n".join(lines)), f"study: {lines[index]}", ODD)


# What ``study run --json`` prints, as far as it is read.
AGREEMENT = {
    "name": "ratings",
    "headline": "tau_b",
    "options": {"level": 0.95},
    "metrics": [
        {"metric": name, "label": name, "statistics": {"tau_b": {"value": value, "low": None, "high": 1}}}
        for name, value in (("bleu", 0.4), ("rouge", 0.5))
    ],
}
VIDEOS = ("v_one", "v_two", "v_three")


def predict_events(index):
    """Three predicted events of a video."""
    return [{"sentence": CAPTIONS[index + n], "timestamp": [4.5 * n, 4.5 * n + 5]} for n in range(3)]


def annotate_events(index):
    """Two events of a video as people annotate them."""
    sentences = [CAPTIONS[index], CAPTIONS[-index]]
    return {"duration": 20.5, "timestamps": [[0, 5], [5.25, 11]], "sentences": sentences}


TEXT, ID, NAME, NUMBER, WORD = "text", "id", "name", "number", "word"
PREDICTIONS = Table(
    rows(image_id=lambda i: int(IDS[i]), caption=lambda i: CAPTIONS[i]),
    {"image_id": ID, "caption": TEXT},
    required=("image_id", "caption"),
    unique=("image_id",),
)
REFERENCES = Table(
    rows(id=lambda i: IDS[i], references=others),
    {"id": ID, "references": "texts"},
    required=("id", "references"),
)
RATED = Table(
    [
        {"id": f"{IDS[i]}/{rater}", "image": f"{IDS[i]}.png", "caption": CAPTIONS[i], "references": others(i)}
        | {"rating": 1 + (i * 3 + rater) % 5, "system": "ab"[rater], "rater": f"r{i % 2}"}
        for i in range(len(CAPTIONS))
        for rater in range(2)
    ],
    {"id": NAME, "caption": TEXT, "references": "texts", "rating": NUMBER},
    required=("rating",),
    unique=("id",),
)
SCORES = Table(
    [{"id": row["id"], "mine": i * 0.1, "other": (i * 7) % 5} for i, row in enumerate(RATED.rows)],
    {"id": ID, "mine": NUMBER},
    required=("id",),
)
# An audit needs ten images, so that one of twelve may be spoiled.
AUDITED = Table(
    [
        {"id": f"{image}/{system}", "image": f"{image}.png", "caption": CAPTIONS[image % len(CAPTIONS)]}
        | {"rating": 1 + (image * 3 + number) % 5, "system": system, "rater": f"r{image % 2}"}
        for image in range(12)
        for number, system in enumerate("ab")
    ],
    {"id": NAME, "caption": TEXT, "rating": NUMBER},
    required=("rating",),
    unique=("id",),
)
STYLED = Table(
    rows(id=lambda i: IDS[i], caption=lambda i: CAPTIONS[i], style=lambda i: ("calm", "loud")[i % 2]),
    {"caption": TEXT, "style": WORD},
    required=("caption", "style"),
)
INSTANCES = {
    "images": [{"id": int(key), "file_name": f"{key}.jpg"} for key in IDS],
    "annotations": [{"image_id": int(key), "category_id": 18} for key in IDS],
    "categories": [{"id": 18, "name": "dog"}],
}
SLOTS = {
    "predictions": PREDICTIONS,
    "described": Table(
        rows(id=lambda i: IDS[i], caption=lambda i: CAPTIONS[i], objects=lambda i: ["dog", "person"]),
        {"id": ID, "caption": TEXT},
        required=("id", "caption"),
        unique=("id",),
    ),
    "entry": Blob(ENTRY, ".toml"),
    "released": Folder(["captions.jsonl"], b'{"id": "1", "caption": "a dog", "references": ["a dog"]}\n'),
    "regions": Blob(
        gzip.decompress((Path(__file__).parents[1] / "models" / "regions-plain.mdb.gz").read_bytes()), ".mdb"
    ),
    "results": Blob(json.dumps(AGREEMENT).encode(), ".json"),
    "events": Events({"results": {key: predict_events(i) for i, key in enumerate(VIDEOS)}}),
    "event_references": Events({key: annotate_events(i) for i, key in enumerate(VIDEOS)}),
    "clips": Clips(),
    "instances": Blob(json.dumps(INSTANCES).encode(), ".json"),
    "system": PREDICTIONS,
    "sentences": Table(PREDICTIONS.rows, PREDICTIONS.kinds | {"image_id": "any"}, required=("caption",)),
    "references": REFERENCES,
    "ratings": RATED,
    "audited": AUDITED,
    "audited_scores": Table(
        [{"id": row["id"], "mine": i * 0.1, "other": (i * 7) % 5} for i, row in enumerate(AUDITED.rows)],
        {"id": ID, "mine": NUMBER},
        required=("id",),
    ),
    "judged": Table(
        rows(id=lambda i: IDS[i], image=lambda i: NAMES[i], ratings=lambda i: [1 + i % 5, 1 + i % 4, 1 + i % 3]),
        {"id": NAME, "ratings": NUMBER},
        required=("ratings",),
        unique=("id",),
        formats=("json", "jsonl"),
    ),
    "preferences": Table(
        rows(
            image=lambda i: NAMES[i // 2],
            captions=lambda i: [CAPTIONS[i // 2], CAPTIONS[i // 2 - 1]],
            references=lambda i: [CAPTIONS[i // 2]],
            preferred=lambda i: (0, 1, 1, None)[i % 4],
            rater=lambda i: ("ann", "bob")[i % 2],
        ),
        {"image": ID, "captions": "texts", "references": "texts", "rater": NAME},
        required=("captions", "image"),
        formats=("json", "jsonl"),
    ),
    "scores": SCORES,
    "shards": ScoredShards(),
    "filter": FilterText(),
    "images": Folder(NAMES),
    "pairs": Table(
        rows(
            image=lambda i: NAMES[i],
            units=lambda i: [CAPTIONS[i][:9], CAPTIONS[i][9:]],
            wrong_units=lambda i: ["a thing", "on a table"],
        ),
        {"image": ID, "units": "texts", "wrong_units": "texts"},
        required=("units", "image"),
        formats=("json", "jsonl"),
    ),
    "captions": Table(
        rows(id=lambda i: IDS[i], captions=others, image=lambda i: NAMES[i]),
        {"id": ID, "captions": "texts"},
        required=("captions",),
    ),
    "labels": Table(
        rows(image=lambda i: NAMES[i], label=lambda i: ("dog", "cat")[i % 2]),
        {"image": ID, "label": WORD},
        required=("image", "label"),
    ),
    "classes": Blob(b"dog\ncat\nhorse\n", ".txt"),
    "templates": Blob(b"a photo of a {}\nan image of a {}\n", ".txt"),
    "contests": Table(
        rows(image=lambda i: NAMES[i], caption=lambda i: CAPTIONS[i], negative=lambda i: CAPTIONS[i - 1]),
        {"image": ID, "caption": TEXT, "negative": TEXT},
        required=("image", "caption"),
    ),
    "foils": Table(
        rows(image=lambda i: NAMES[i], caption=lambda i: CAPTIONS[i], negative=lambda i: CAPTIONS[i - 1]),
        {"image": ID, "caption": TEXT, "negative": TEXT},
        required=("caption", "negative"),
    ),
    "texts": Table(
        rows(id=lambda i: IDS[i], text=lambda i: CAPTIONS[i]),
        {"id": ID, "text": TEXT},
        required=("id", "text"),
        unique=("id",),
    ),
    "questions": Table(
        rows(
            id=lambda i: IDS[i],
            question=lambda i: "Which animal is there?",
            choices=lambda i: ["dog", "cat", "none"],
            answer=lambda i: ("dog", "cat", "none")[i % 3],
            given=lambda i: ("dog", "cat")[i % 2],
        ),
        {"id": ID, "question": TEXT, "choices": "texts", "answer": WORD, "given": WORD},
        required=("id", "question"),
    ),
    "gallery": Gallery(),
    "pairs_plan": PlanOfPairs(),
    "sets": Table(
        rows(set=lambda i: IDS[i], style=lambda i: "calm", captions=others),
        {"set": ID, "captions": "texts"},
        required=("captions",),
        unique=("set",),
        formats=("json", "jsonl"),
    ),
    "entities": Table(
        rows(task=lambda i: IDS[i], text=lambda i: CAPTIONS[i], entities=lambda i: ["dog", "grass"]),
        {"task": ID, "entities": "texts"},
        required=("entities",),
        unique=("task",),
        formats=("json", "jsonl"),
    ),
    "ids": Blob("\n".join(IDS).encode(), ".txt"),
    "answers": Table(
        rows(
            task=lambda i: IDS[i],
            painter=lambda i: "drawn",
            text=lambda i: CAPTIONS[i],
            picture=lambda i: NAMES[i],
            entities=lambda i: ["dog", "grass"],
            rater=lambda i: "me",
            seen=lambda i: {"dog": True, "grass": i % 2 == 0},
        ),
        {"painter": WORD, "text": WORD, "picture": WORD, "rater": WORD},
        formats=("json", "jsonl"),
    ),
    "labeled": Table(
        [
            {"id": f"{i}", "caption": f"{('a man', 'a woman')[i % 2]} {CAPTIONS[i % 8][2:]}", "gender": "mf"[i % 2]}
            | {"references": [f"{('a man', 'a woman')[i % 2]} {text}" for text in others(i % 8)]}
            for i in range(40)
        ],
        {"id": ID, "caption": TEXT, "references": "texts", "gender": WORD},
        required=("id", "caption", "gender"),
        unique=("id",),
    ),
    "words": Blob(b"man\nwoman\nhe\nshe\n", ".txt"),
    "vocabulary": Blob("\n".join(sorted(set(" ".join(CAPTIONS).split()))).encode() + b"\n", ".txt"),
    "styled": STYLED,
    "model": Blob(model_of_styles(), ".style", sealed=True),
    "rankings": Table(
        rows(style=lambda i: ("calm", "loud")[i % 2], caption=lambda i: CAPTIONS[i], rank=lambda i: 1 + i // 2),
        {"style": WORD, "caption": TEXT, "rank": NUMBER},
        required=("style", "caption", "rank"),
    ),
    "study": RatingStudy(),
    "edited": EditedStudy(),
    "paused": PausedStudy(),
    "plan": NewStudy(),
    "training": Table(
        rows(id=lambda i: IDS[i], image=lambda i: NAMES[i], caption=lambda i: CAPTIONS[i] + ". It is seen from afar."),
        {"id": ID, "caption": TEXT},
        required=("caption",),
    ),
    "features": Blob(features(), ".npz"),
    "idf": Blob(idf_corpus(), ".idf", sealed=True),
    "weights": Blob(b"\x80\x02nothing", ".pt", sealed=True),
    "meteor": Folder(["meteor-1.5.jar"], b"no archive"),
    "run": Run(),
    "metric": MetricText(),
    "changed": ChangedRun(),
    "tar": Tar(),
    "caption_ratings": Table(
        rows(id=lambda i: IDS[i], caption=lambda i: CAPTIONS[i], rater=lambda i: "r1", rating=lambda i: 1 + i % 5),
        {"rating": NUMBER},
        required=("rating",),
    ),
}
MINI = "--encoder captious-mini"
SEEN = "--metrics clipscore(weights=captious-mini)"
DENSE = "{events} --references {event_references} --missing zero"
FILMED = f"{CLIPS / 'clips.jsonl'} --videos {{clips}} --frames uniform:3 --clip-seconds 20 --samples 5"
DRAWN = "--metric imagine(painter=lab.toy.painter:drawn,weights=captious-mini,seeds=1)"
BRIEF = "--epochs 1 --batch-size 4 --device cpu --out {out}"
# Right command lines; a name in braces is a file, and may stand within a word.
COMMANDS = {
    "score": [
        "{predictions} --references {references} --samples 20",
        "{predictions} --references {references} --samples 20 --explain 1",
        "{predictions} --references {references} --samples 20 --out {out} --metrics bleu,rouge,cider(idf={idf})",
        f"{{predictions}} --images {{images}} --samples 20 --out {{out}} {SEEN}",
        "{predictions} --images {images} --samples 20 --metrics clipscore(weights={weights})",
        "{predictions} --references {references} --samples 20 --metrics rep_diversity,onlystyle({model},style=calm)",
        "{predictions} --references {references} --samples 20 --engine serial --out {out} --keep words>3",
        f"{{predictions}} --references {{references}} --images {{images}} --samples 5 {SEEN},{{metric}}",
        "{predictions} --samples 5 --metrics captionqa(answers={questions}) --explain 1",
        "{changed} --explain 1",
        "{changed} --samples 5 --metrics rouge",
        "{tar} --samples 5 --metrics rouge,rep_diversity --engine serial --out {out}",
        f"{{tar}} --samples 5 --engine serial --out {{out}} {SEEN}",
        f"{DENSE} --samples 5 --metrics densecap,soda,repetition",
        f"{DENSE} --samples 5 --metrics densecap(f),soda(score=iou) --explain v_two --out {{out}}",
        f"{DENSE} --samples 5 --metrics rouge,diversity --events paragraph --out {{out}}",
        f"{FILMED} --metrics clipscore(captious-mini)",
        f"{FILMED} --metrics emscore(captious-mini),clipscore(captious-mini,pool=best) --explain cats --out {{out}}",
    ],
    "keep": [
        "{shards} {filter} --json",
        "{shards} {filter} --out {out}.parquet",
        "{shards} {filter} --out {out} --write shards --engine serial",
        "{changed} rouge>0.1 --out {out}.jsonl",
    ],
    "compare": [
        "a={changed} b={changed} --samples 5 --permutations 5",
        "{predictions} {system} --references {references} --samples 5 --permutations 5 --metrics {metric}",
        "a={shards} b={shards} --samples 20 --permutations 50",
        "{predictions} {system} --references {references} --samples 20 --permutations 50",
        "{predictions} {system} --references {references} --samples 20 --permutations 50 --out {out}",
    ],
    "gate": [
        "{predictions} {system} --references {references} --samples 20 --metrics rouge --margin 1%",
        "{shards} {shards} --samples 20 --margin 1%",
        "{out}.json {predictions} --references {references} --metrics rouge --update",
        "{predictions} --references {references} --samples 20 --metrics rouge --plan",
    ],
    "arena": [
        "{predictions} {system} --references {references} --samples 20 --model m --dry-run",
        "{predictions} --baselines {system} --references {references} --orders one --elo online --model m --dry-run",
    ],
    "judge-noise": [
        "{predictions} --references {references} --metrics clair(m) --items 4 --repeats 2 --dry-run",
        "{predictions} --references {references} --metrics fleur(m,context=references) --repeats 2 --dry-run --json",
    ],
    "check": [
        "{predictions} --references {references}",
        "{predictions} --images {images}",
        "{predictions} --questions {questions}",
    ],
    "cost judge": ["", "llama-2-7b --tokens 1000"],
    "cost agreement": ["{results} --cost rouge=0.1 --cost bleu=llama-2-7b"],
    "metrics": ["bleu", "{metric}"],
    "schema": ["", "score", "study run"],
    "study run": [
        "{ratings} --samples 20 --permutations 20 --metrics bleu,rouge",
        "{ratings} --samples 20 --permutations 20 --metrics rouge --rater rater --system system --out {out}",
        "{ratings} --samples 20 --permutations 20 --scores {scores}",
        "{ratings} --samples 5 --permutations 5 --metrics {metric}",
        "{preferences} --samples 20 --permutations 20 --metrics rouge",
    ],
    "study agreement": ["{judged} --samples 20 --group image", "{preferences} --samples 20"],
    "study systems": ["{ratings} --samples 20 --rater rater --system system"],
    "study estimate": [
        "{ratings} {scores} --missing skip --using mine --precision 0.5",
        "{ratings} --rater rater --system system --share 3 --difference 0.5 --out {out}",
    ],
    "study calibrate": ["{ratings} --metrics rouge --group id", "{ratings} {scores} --group id --out {out}"],
    "study plan": ["--sd 1 --precision 0.2 --r 0.5 --json"],
    "study choose": ["{scores} --next 2 --using mine --out {out}.jsonl", "{scores} --next 2 --out {out} --json"],
    "study threshold": ["{ratings} {scores} --missing skip --metric mine --good 3"],
    "study audit": [
        "{audited} {audited_scores} --samples 20",
        "{audited} {audited_scores} --samples 20 --judge mine --out {out}",
    ],
    "study power": ["--difference 0.1 --items 50 --tau 0.3"],
    "study combine": ["{ratings} --samples 20 --metrics rouge --add {scores} --folds 2"],
    "study lengths": ["{ratings} --samples 20 --metrics rouge --edges 8"],
    "study recipes": [""],
    "study leaderboard": ["--dataset capeval1k", "--metric cider --json"],
    "study advise": [
        "{predictions} --references {references}",
        "{predictions} {system} --references {references} --for systems --domain photographs",
    ],
    "studio new": [
        "{out}.toml --kind ratings --captions {predictions} {system} --references {references}",
        "{out}.toml --template imagine-entities --tasks {entities} --json",
        "{out}.toml --template onlystyle-ranking --tasks {sets} --ids {ids}",
    ],
    "view": [
        "{run} --ratings {caption_ratings} --out {out}",
        "{run} --images {images} --out {out}",
        "{run} --audio {images} --out {out}",
        "{changed} --out {out}",
    ],
    "studio check": ["{plan}", "{pairs_plan} --json"],
    "probe specificity": [f"{{pairs}} --images {{images}} --samples 20 {SEEN}"],
    "probe retrieval": [f"{{captions}} --images {{images}} --samples 20 {MINI}"],
    "probe hubness": [f"{{captions}} --images {{images}} --samples 20 --k 2 {MINI}"],
    "probe classification": [
        f"{{labels}} --images {{images}} --classes {{classes}} --templates {{templates}} --samples 20 {MINI}"
    ],
    "probe compositionality": [f"{{contests}} --images {{images}} --samples 20 {SEEN}"],
    "probe stress": [
        "{predictions} --references {references} --samples 20 --metrics bleu(n=1) --edits harm,damage --items 5",
        "{predictions} --references {references} --samples 20 --metrics distinct_n --edits cut --pairs {foils}",
    ],
    "probe masking": [f"{{texts}} --samples 20 {DRAWN.replace('seeds=1', 'seeds=2')}"],
    "probe hallucination": ["{described} --samples 20"],
    "probe entities": ["{gallery} --out {out}.jsonl"],
    "probe recall": ["{answers} --samples 20"],
    "studio invite": ["{study} --raters 2", "{study} --list-links"],
    "studio export": ["{study} --out {out}", "{study} --out {out} --payments"],
    "studio amend": ["{edited} --why typo", "{edited} --why typo --json"],
    "studio pause": ["{study} --message later"],
    "studio resume": ["{paused}"],
    "studio show": ["{study} --json", "{study} --original", "{study} --unjudged"],
    "studio status": ["{study} --samples 20", "{study} --samples 20 --json --metrics rouge", "{study} --out {out}"],
    "studio exclude": ["{study} --rater r1 --reason fast"],
    "studio reinstate": ["{study} --rater r3 --reason right"],
    "studio release": ["{study} --rater r2", "{study} --json"],
    "studio simulate": ["{plan} --raters 2", "{plan} --raters 2 --share random=1,lazy=1 --json"],
    "studio verify": ["{study}", "{study} --json"],
    "studio backup": ["{study} --out {out}.db --json"],
    "bias lic": [
        "{labeled} --label gender --seeds 1 --mask {words} --vocabulary {vocabulary} --no-cache",
        "{labeled} --label gender --seeds 1 --no-cache --out {out}",
        "{labeled} --label gender --seeds 1 --work {out}",
        "{labeled} --label gender --seeds 1 --no-cache --labels {labeled}",
    ],
    "bias words": ["{words}"],
    "bias presets": [""],
    "style fit": ["{styled} --out {out}.style"],
    "style words": ["{model} --top 3", "{model} a dog --contrast tfidf,delta"],
    "style explain": ["{model} a-red-dog --top 3"],
    "style check": ["{model} {styled}", "{model} {styled} --folds 2 --classifier linear"],
    "style where": ["{styled} dog --style calm"],
    "style correlate": ["{model} {rankings}"],
    "train clip": [
        f"{{training}} --images {{images}} --base captious-mini {BRIEF}",
    ],
    "train longclip": [f"{{training}} --images {{images}} --base captious-mini --components 2 {BRIEF}"],
    "train specs": [f"{{training}} --images {{images}} --base captious-mini --validate {{pairs}} {BRIEF}"],
    "train umic": [
        f"{{captions}} --images {{images}} {MINI} --backbone fusion(width=8,layers=1) --draws 1 --hold-out 0.3 {BRIEF}"
    ],
    "make units": ["--file {sentences}"],
    "make graphs": ["{predictions} --out {out}.jsonl"],
    "make idf": ["{references} --out {out}.idf"],
    "make objects": ["{instances} --out {out}.parquet"],
    "make negatives": [
        "{references} --out {out}.jsonl --kinds random,shuffle,repeat",
        "{references} --out {out}.jsonl --kinds hard --image-features {features}",
    ],
    "make edits": ["{predictions} --references {references} --edits inject,negate --out {out}.jsonl"],
    "make regions": ["{regions} --out {out}"],
    "make pictures": [f"{{texts}} --out {{out}} {DRAWN}"],
    "reproduce": ["", "{entry} --data {released}"],
    "cache show": [""],
    "cache fill": [f"{{images}} {MINI} --captions {{captions}}"],
    "cache prune": ["--keep 1GB"],
    "cache add": ["meteor {meteor}"],
}
WEIGHTS = {
    "score": 6,
    "study advise": 0.5,
    "compare": 3,
    "study run": 4,
    "check": 3,
    "train specs": 0.4,
    "train longclip": 0.4,
}
WEIGHTS |= {"train umic": 0.4, "train clip": 0.6, "make pictures": 0.7, "probe masking": 0.7, "cache add": 0.3}


def leaves(command=ROOT, path=()):
    """Every command by its name."""
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
    for name, child in (children or {}).items():
        yield from leaves(child, (*path, name))


def params_of(command):
    """The options of a command, as captious declares them."""
    function = inspect.unwrap(command.function)
    for key, parameter in inspect.signature(function).parameters.items():
        yield from _flatten(key, get_declarations(function)[key], parameter.default)


OPTIONS = {
    name: [param for param in params_of(command) if not isinstance(param.option, Argument)]
    for name, command in leaves()
}


@dataclass(frozen=True)
class Case:
    """A command line, what is odd about it, and whether it must not pass in silence."""

    arguments: tuple[str, ...]
    what: str
    wrong: bool
    family: str = "file"


# What is spoiled, in turn: a file of a command, one of its options, or a slot of `tests.fuzz.families`.
FAMILIES = (
    *("file", "option", "metric", "changed", "file", "option", "tar", "file", "metric", "option", "changed", "file"),
    *("video", "video", "tar"),
)
FILMS = {"events", "event_references", "clips"}


def case_of(seed, number, folder):
    """The case of a number: the same for the same seed."""
    rng = random.Random(f"{seed}/{number}")
    family = FAMILIES[number % len(FAMILIES)]
    spoilable = {"file": set(SLOTS), "video": FILMS}.get(family, {family})
    lines = [
        (name, line)
        for name, some in COMMANDS.items()
        for line in some
        if name not in NOT_RUN
        # A command with neither options nor files, such as schema, has nothing to break.
        and ((family == "option" and OPTIONS[name]) or any(f"{{{slot}}}" in line for slot in spoilable))
    ]
    names = list(dict.fromkeys(name for name, _ in lines))
    name = rng.choices(names, [WEIGHTS.get(one, 1) for one in names])[0]
    words = rng.choice([line for one, line in lines if one == name]).split()
    slots = [slot for slot in SLOTS if any(f"{{{slot}}}" in word for word in words)]
    values = {"out": str(folder / "out")}
    if family == "option" and OPTIONS[name]:
        values |= {slot: SLOTS[slot].right(folder, slot) for slot in slots}
        # What shards hold is known once they are scored, so a run stays where --explain names none of its items.
        known = [param for param in OPTIONS[name] if not ("--engine" in words and param.name == "explain")]
        param = rng.choice(known)
        odd = option_value(rng, param, folder)
        # The last of an option given twice would be refused for that.
        while param.flag in words:
            place = words.index(param.flag)
            del words[place : place + (1 if param.kind is bool else 2)]
        extra = [param.flag] if param.kind is bool else [f"{param.flag}={odd.text}"]
        what = f"{param.flag} {odd.what}"
    else:
        spoiled = rng.choice([slot for slot in slots if slot in spoilable] or slots)
        values |= {slot: SLOTS[slot].right(folder, slot) for slot in slots if slot != spoiled}
        odd = SLOTS[spoiled].spoiled(rng, folder, spoiled)
        values[spoiled] = odd.text
        extra, what = [], f"{spoiled}: {odd.what}"
    arguments = [filled(word, values) for word in words]
    unread = any(re.fullmatch(command, name) and re.match(part, what) for command, part in UNREAD.items())
    return Case((*name.split(), *arguments, *extra), what, odd.wrong and not unread, family)


# Parts of files that a command does not use, so that an odd one may pass: estimates match ratings by id, and the entry
# of the fuzz scores texts only.
UNREAD = {r"study (estimate|threshold)": r"ratings: \w+: caption is ", "reproduce": "released: an image is "}


def filled(word, values):
    """A word of a command line with paths in place of the names in braces."""
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


COLUMNS = {"rating", "group", "system", "rater", "label"}
NUMBERS = ("99999999999999999999", "-99999999999999999999", "1e3", "2.5", "nan", "inf", "", "x", "0x10", "--")
REALS = ("nan", "inf", "-inf", "1e400", "", "x", "1,5,", "--")
METRICS = (
    *("nosuch", "bleu(", "bleu(n=0)", "bleu(n=99999999999999999999)", "bleu(n=nan)", "cider(sigma=nan)", "bleu)("),
    *("cider(idf=/nowhere)", "cider(idf=/dev/zero)", "bleu(n=4,n=4)", "bleu(nosuch=1)", "rouge(beta=inf)", "ciderr"),
    *("", ",", "(((", "bleu;rouge", "\x1b[31m", "onlystyle(model=/dev/zero)", "clipscore(weights=/dev/zero)"),
    *(
        "bertscore(weights=no/such)",
        "bleurt(weights=/dev/null)",
        "sbert(weights=no/such)",
        "umic(weights=/dev/null)",
        "polos(weights=/dev/null)",
        "imagine(painter=no/such)",
        "clipscore(weights=)",
    ),
    *("meteor(resources=/dev/zero)", "meteor(resources=/nowhere)", "onlystyle", "umic", "cider(sigma=-1)"),
)
WORDS = (
    *("", "nosuch", "a\nb", "\x1b[31m", "\udcff", "no/such", "/dev/zero", "--", "a" * 5000, "~", ",", "(", "{}"),
    *("os:system", "http://127.0.0.1:9/v1", "=HYPERLINK(1)", "9" * 400, "../..", "nan", "-1", "1e400"),
)


def option_value(rng, param, folder):
    """A value for an option: wrong, or odd."""
    kind, bounds = param.kind, param.option
    if kind is bool:
        return Input("", "is set", ODD)
    elements = [one for one in get_args(kind) if one is not Ellipsis] if get_origin(kind) in (list, tuple) else []
    inner = elements[0] if elements else kind
    if get_choices(inner):
        text = rng.choice(("nosuch", "", "--", get_choices(inner)[0].upper() + "x"))
        return Input(text, f"is {text!r}", WRONG)
    if inner is int:
        low = [] if bounds.min is None else [str(bounds.min - 1)]
        high = [] if bounds.max is None else [str(bounds.max + 1)]
        return _word(rng.choice((*NUMBERS, *low, *high)), WRONG)
    if inner is float:
        return _word(rng.choice((*REALS, *([] if bounds.min is None else [str(bounds.min - 1)]))), WRONG)
    if param.name == "out":
        return _out(rng, folder)
    if param.name in ("metrics", "metric"):
        return _word(rng.choice(METRICS), WRONG)
    if param.name in ("encoder", "base", "tokens", "towers", "image_features", "regions"):
        return _word(rng.choice(("nosuch", "no/such", "/dev/zero", str(folder), ",")), WRONG)
    if param.name in COLUMNS or param.name.endswith("_column"):
        return _word(rng.choice(("nosuch", "", "a\nb", "\udcff")), WRONG)
    if param.name in ("work", "key_file", "replies"):
        # The first may be a new folder; the others are read only where a chat model is asked.
        return replace(odd_place(rng, folder, ""), wrong=ODD)
    if inner is Path or bounds.metavar in ("FILE", "FOLDER", "PATH"):
        return odd_place(rng, folder, rng.choice(("", ".json", ".txt")))
    return _word(rng.choice(WORDS), ODD)


def _word(text, wrong):
    return Input(text, f"is {text[:40]!r}", wrong)


def _out(rng, folder):
    kinds = ("a folder of someone else", "below a file", "a link loop", "a name too long", "control characters")
    kind = rng.choice(kinds)
    if kind == "a folder of someone else":
        (folder / "theirs").mkdir()
        (folder / "theirs" / "precious").write_text("x")
        return Input(str(folder / "theirs"), kind, WRONG)
    if kind == "below a file":
        return Input(written(folder, "file", "x") + "/below", kind, WRONG)
    if kind == "a link loop":
        (folder / "loop").symlink_to(folder / "loop")
        return Input(str(folder / "loop"), kind, WRONG)
    if kind == "a name too long":
        return Input(str(folder / ("a" * 300)), kind, WRONG)
    return Input(str(folder / "new\nline \x1b[31m"), kind, WRONG)
