"""A package with a metric, in its own folder: it is found, scores sets of any size and shards, and proves itself."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from captious._core.records import parse_toml

PACKAGE = Path(__file__).parent / "plugin" / "rare_words"
ROOT = Path(__file__).resolve().parents[1]


def write_metadata(folder: Path, name: str, version: str, points: dict[str, str], group: str = "metrics") -> None:
    """What an installer writes beside a package, by which Python finds its entry points."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[captious.{group}]", *(f"{point} = {value}" for point, value in points.items())]
    with (info / "entry_points.txt").open("a") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder of packages with the package of ``tests/plugin``, as its pyproject.toml describes it."""
    folder = tmp_path_factory.mktemp("site-packages")
    project = parse_toml((PACKAGE / "pyproject.toml").read_text(), "pyproject.toml", "a project")["project"]
    shutil.copy(PACKAGE / "rare_words.py", folder)
    write_metadata(folder, project["name"], project["version"], project["entry-points"]["captious.metrics"])
    return folder


@pytest.fixture
def call(installed, tmp_path):
    """Runs Python where the package is installed; the exit code, and what was printed."""

    def run(*command, folder=installed):
        path = os.pathsep.join(map(str, (folder, ROOT / "src")))
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "160", "CAPTIOUS_HOME": str(tmp_path / "home")}
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
        )
        return done.returncode, done.stdout + done.stderr

    return run


def rows(number: int) -> list[dict]:
    """Items of which the first two fifths have "early" in their reference, and the others "late".

    Of all items, less than half have "early". Of the first chunk or shard alone, all have it.
    """
    return [
        {
            "id": str(index),
            "caption": "an early one" if index % 2 else "an early and late one",
            "references": ["an early one" if index < 0.4 * number else "a late one"],
        }
        for index in range(number)
    ]


def expected(items: list[dict], among: int) -> float:
    """The metric in plain Python, over all items at once."""
    words = Counter(word for item in items for word in {word for text in item["references"] for word in text.split()})
    shares = []
    for item in items:
        own = item["caption"].split()
        shares.append(sum(words[word] <= len(items) / among for word in own) / len(own))
    return sum(shares) / len(shares)


def write(path: Path, items: list[dict]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


def scored(output: str) -> dict:
    """The facts of the first metric; messages follow the JSON."""
    return json.JSONDecoder().raw_decode(output)[0]["metrics"][0]


def test_the_package_proves_itself_in_one_line(call):
    code, output = call("-m", "pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE / "test_rare_words.py"))
    assert code == 0, output
    code, output = call("-m", "doctest", str(PACKAGE / "rare_words.py"))
    assert (code, output) == (0, "")


def test_it_is_listed_and_has_a_card(call):
    code, output = call("-m", "captious", "metrics")
    assert code == 0 and "rare_words" in output
    code, output = call("-m", "captious", "metrics", "--all")
    assert code == 0 and re.search(r"rare_words.*Rare words.*references.*higher", output)
    code, output = call("-m", "captious", "metrics", "rare_words")
    assert code == 0 and "among" in output


@pytest.mark.parametrize("number", [5, 50_000])
def test_it_scores_a_file_of_any_size(call, tmp_path, number):
    items = rows(number)
    path = write(tmp_path / "captions.jsonl", items)
    code, output = call("-m", "captious", "score", str(path), "-m", "rare_words(among=2)", "--samples", "20", "--json")
    assert code == 0, output
    one = scored(output)
    assert one["value"] == pytest.approx(expected(items, 2), abs=1e-12) and 0 < one["value"] < 1
    assert one["signature"].startswith("rare_words(among=2)|tok:ptb.1|captious-rare-words:1.2|items:")


def test_shards_have_the_value_of_one_set(call, tmp_path):
    items = rows(60)
    for number in range(3):
        write(tmp_path / f"part{number}.jsonl", items[20 * number : 20 * number + 20])
    shards = str(tmp_path / "part*.jsonl")
    one = ("-m", "captious", "score", shards, "-m", "rare_words(among=2),rouge", "--samples", "20", "--json")
    for engine in ("serial", "processes"):
        code, output = call(*one, "--out", str(tmp_path / engine), "--engine", engine, "--jobs", "2")
        assert code == 0, output
        assert scored(output)["value"] == pytest.approx(expected(items, 2), abs=1e-12)
        assert "|captious-rare-words:1.2|" in scored(output)["signature"]


BROKEN = {
    "missing": ("no_such_module:Metric", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    "other": ("rare_words:RareWords", "rare_words:RareWords has another name, expected name = 'other', as its entry"),
    "state": ("rare_words:WordCounts", "rare_words:WordCounts is not a metric, expected a subclass of captious.Metric"),
    "bare": ("broken:Bare", "its parameter 'weight' has no default value, expected one"),
    "old": ("broken:Old", "old declares needs_corpus=True, which follows from corpus_state: declare that instead"),
}
MODULE = """
from dataclasses import dataclass
from captious.metrics import MeanMetric, Scored

@dataclass(frozen=True)
class Bare(MeanMetric):
    weight: float
    name = "bare"
    def score_items(self, captions, state):
        return Scored([self.weight] * len(captions))

class Old(MeanMetric):
    name = "old"
    needs_corpus = True
    def score_items(self, captions, state):
        return Scored([0.5] * len(captions))
"""


@pytest.mark.parametrize("name", BROKEN)
def test_a_package_with_a_fault_is_named_in_one_line(call, tmp_path, name):
    folder, (point, message) = tmp_path / "packages", BROKEN[name]
    shutil.copytree(PACKAGE, folder)
    (folder / "broken.py").write_text(MODULE)
    write_metadata(folder, "captious-broken", "0.3", {name: point})
    path = write(tmp_path / "captions.jsonl", rows(5))
    for command in (["score", str(path)], ["score", str(tmp_path / "captions.json*"), "--out", str(tmp_path / "run")]):
        code, output = call("-m", "captious", *command, "-m", name, folder=folder)
        assert code == 2 and output.count("\n") == 1 and message in output, output
        assert name == "old" or f"metric '{name}' of the package captious-broken 0.3" in output
    assert not (tmp_path / "run").exists()


PARTS = """
import numpy as np
from captious.models import load
from captious.text import Tokenizer

def split_hyphens(text):
    return text.lower().replace("-", " ").split()

hyphens = Tokenizer("hyphens", 1, split_hyphens)
renamed = Tokenizer("other", 1, split_hyphens)

class Halved:
    def __init__(self, runtime):
        mini = load("captious-mini")
        self.name, self.fingerprint, self.precision = "halved", mini.fingerprint[:6], "fp32"
        self.dimension, self.limit = mini.dimension // 2, mini.limit
        self.tokenize, self.prepare, self.mini = mini.tokenize, mini.prepare, mini
        self.device = runtime.device

    def text_features(self, ids):
        return self.mini.text_features(ids)[:, : self.dimension]

    def image_features(self, pixels):
        return self.mini.image_features(pixels)[:, : self.dimension]

def no_encoder(runtime):
    return object()
"""


@pytest.fixture
def parts(tmp_path):
    """A folder of packages with one that brings tokenizers and encoders."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "parts.py").write_text(PARTS)
    tokenizers = {"hyphens": "parts:hyphens", "renamed": "parts:renamed", "bare": "parts:split_hyphens", "gone": "no:x"}
    write_metadata(folder, "captious-parts", "2.5", tokenizers, "tokenizers")
    encoders = {"halved": "parts:Halved", "none": "parts:no_encoder", "text": "parts:PARTS"}
    write_metadata(folder, "captious-parts", "2.5", encoders, "encoders")
    return folder


def test_a_package_brings_a_tokenizer(call, parts, tmp_path):
    items = [{"id": "1", "caption": "a-red dog runs", "references": ["a-red dog sits"]}]
    path = write(tmp_path / "captions.jsonl", items)
    one = ("-m", "captious", "score", str(path), "-m", "bleu(n=1,tokenizer=hyphens)", "--samples", "20", "--json")
    code, output = call(*one, folder=parts)
    assert code == 0, output
    assert scored(output)["value"] == pytest.approx(0.75)  # a, red and dog of four
    assert "|tok:hyphens.1[captious-parts-2.5]|" in scored(output)["signature"]
    for number in range(2):
        write(tmp_path / f"part{number}.jsonl", [{**items[0], "id": str(number)}])
    shards = ("score", str(tmp_path / "part*.jsonl"), "-m", "bleu(n=1,tokenizer=hyphens)", "--samples", "20", "--json")
    code, output = call("-m", "captious", *shards, "--out", str(tmp_path / "run"), "--jobs", "2", folder=parts)
    assert code == 0 and scored(output)["value"] == pytest.approx(0.75), output
    code, output = call("-c", "from captious.testing import check_tokenizer; check_tokenizer('hyphens')", folder=parts)
    assert (code, output) == (0, "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("renamed", "tokenizer 'renamed' of the package captious-parts 2.5: its name is 'other', expected that of its"),
        ("bare", "parts:split_hyphens is not a tokenizer, expected a captious.text.Tokenizer"),
        ("gone", "tokenizer 'gone' of the package captious-parts 2.5 cannot be imported: ModuleNotFoundError"),
        ("nobody", "unknown tokenizer 'nobody', expected one of ptb, "),
    ],
)
def test_a_faulty_or_unknown_tokenizer_is_refused_in_one_line(call, parts, tmp_path, name, message):
    path = write(tmp_path / "captions.jsonl", rows(5))
    code, output = call("-m", "captious", "score", str(path), "-m", f"bleu(tokenizer={name})", folder=parts)
    assert code == 2 and output.count("\n") == 1 and message in output, output
    assert name != "nobody" or "hyphens" in output  # those of packages are listed too


def test_a_package_brings_an_encoder(call, parts, tmp_path):
    program = (
        "import captious; from captious.testing import check_encoder; check_encoder('halved');"
        "report = captious.evaluate(captious.demo().systems['solid'], 'clipscore(halved)',"
        " resampling=captious.Resampling(20));"
        "print(next(iter(report)).signature)"
    )
    code, output = call("-c", program, folder=parts)
    assert code == 0 and re.search(
        r"^clipscore\(weights=halved\)\|encoder:halved#[0-9a-f]{6}\|precision:fp32", output
    ), output
    for name, message in {
        "none": "encoder 'none' of the package captious-parts 2.5 has no name, fingerprint, ",
        "text": "encoder 'text' of the package captious-parts 2.5 cannot be imported: AttributeError",
    }.items():
        path = write(tmp_path / "captions.jsonl", [{**row, "image": "x.png"} for row in rows(5)])
        code, output = call("-m", "captious", "score", str(path), "-m", f"clipscore({name})", folder=parts)
        assert code == 2 and output.count("\n") == 1 and message in output, output
