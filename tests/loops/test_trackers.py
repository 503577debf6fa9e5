"""``report.log``: what each experiment tracker is given. The doubles have the signatures of the real libraries."""

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import captious
from captious.metrics.registry import make_short_names, parse_all
from captious.options import Resampling

QUICK = Resampling(samples=50)


@pytest.fixture(scope="module")
def report():
    return captious.evaluate(captious.demo().systems["solid"].take(range(12)), "bleu(n=4), cider", resampling=QUICK)


@pytest.fixture
def library(monkeypatch):
    """A module of this name, whose classes are recorded as plain values."""

    def make(name, **members):
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


class Image:
    def __init__(self, value, caption=None):
        self.size = value.size


class Table:
    def __init__(self, columns=None, data=None, rows=None, dataframe=None):
        self.columns, self.data = columns, data


class Html:
    def __init__(self, data, inject=True, data_is_not_path=False):
        self.html, self.text_alone = data, data_is_not_path


class Markdown:
    def __init__(self, text=""):
        self.text = text


MEDIA = {"Image": Image, "Table": Table, "Html": Html}
SCALARS = [f"captious/{name}{end}" for name in ("bleu_4", "cider") for end in ("", "_low", "_high")]


def of_library(kind, name):
    """A class as if the library had defined it."""
    kind.__module__ = f"{name}.sdk"
    return kind


def assert_media(logged, report):
    table = logged["captious/worst"]
    assert table.columns == ["id", "CIDEr-D", "candidate", "first reference", "image"]
    worst = report.worst(5)
    assert [row[:4] for row in table.data] == [list(row) for row in worst.table().rows]
    assert all(max(row[4].size) <= 256 for row in table.data)
    page = logged["captious/report"].html
    assert page.lower().startswith("<!doctype html>")
    assert table.data[0][2] in page


def test_weights_and_biases(library, report):
    class Run:
        def __init__(self):
            self.logged, self.config = [], SimpleNamespace(update=self.configure)

        def configure(self, values, allow_val_change=False):
            assert allow_val_change
            self.configured = values

        def log(self, data, step=None, commit=None):
            assert step is None  # its own steps may only grow, and the trainer has logged at this one already
            self.logged.append(data)

    module = library("wandb", run=None, **MEDIA)
    with pytest.raises(captious.InputError, match="no run of wandb is active, and none is started"):
        report.log("wandb")
    run = of_library(Run, "wandb")()
    report.log(run, step=500, worst=5)
    module.run = run
    report.log("wandb", worst=0, page=False)
    report.log(module, step=7, worst=0, page=False)
    first, second, third = run.logged
    assert_media(first, report)
    assert [name for name in first if name in SCALARS] == SCALARS
    assert first["captious/report"].text_alone  # otherwise a short text may be taken for a path
    assert first["train/global_step"] == 500
    assert first["captious/cider"] == report["cider"].corpus
    assert list(second) == SCALARS
    assert third["train/global_step"] == 7
    assert run.configured["captious/cider"] == report.signature("cider")


def test_trackio(library, report):
    class Run:
        def __init__(self):
            self.logged = []

        def log(self, metrics, step=None):
            self.logged.append((step, metrics))

    context = SimpleNamespace(current_run=SimpleNamespace(get=lambda: None))
    module = library("trackio", context_vars=context, Markdown=Markdown, **MEDIA)
    with pytest.raises(captious.InputError, match="no run of trackio is active"):
        report.log(module)
    run = of_library(Run, "trackio")()
    report.log(run, step=20, worst=5)
    ((step, logged),) = run.logged
    assert step == 20
    assert_media(logged, report)
    assert not logged["captious/report"].text_alone  # trackio warns that it ignores this
    assert f"`{report.signature('cider')}`" in logged["captious/signatures"].text
    assert [name for name in logged if name in SCALARS] == SCALARS


def test_mlflow(library, report):
    calls = []

    def log_metrics(metrics, step=None, synchronous=None, run_id=None):
        calls.append(("metrics", run_id, step, metrics))

    def log_dict(dictionary, artifact_file, run_id=None):
        calls.append(("dict", run_id, artifact_file, dictionary))

    def log_table(data, artifact_file, run_id=None):
        calls.append(("table", run_id, artifact_file, data))

    def log_text(text, artifact_file, run_id=None):
        calls.append(("text", run_id, artifact_file, text))

    active = SimpleNamespace(info=SimpleNamespace(run_id="run-1"))
    functions = {one.__name__: one for one in (log_metrics, log_dict, log_table, log_text)}
    library("mlflow", active_run=lambda: active, Image=Image, **functions)
    report.log("mlflow", step=500, worst=5)
    metrics, signatures, table, page = calls
    assert {call[1] for call in calls} == {"run-1"}
    assert metrics[2:] == (500, report.scalars())
    assert signatures[2:] == ("captious/signatures-000500.json", {
        "captious/bleu_4": report.signature("bleu"), "captious/cider": report.signature("cider")
    })  # fmt: skip
    assert table[2] == "captious/worst-000500.json"
    assert table[3]["candidate"] == [row[2] for row in report.worst(5).table().rows]
    assert page[2] == "captious/report-000500.html"


def test_tensorboard(tmp_path, report):
    class SummaryWriter:
        log_dir = str(tmp_path)

        def __init__(self):
            self.scalars, self.texts, self.images = {}, {}, {}

        def add_scalar(self, tag, scalar_value, global_step=None):
            self.scalars[tag] = scalar_value, global_step

        def add_text(self, tag, text_string, global_step=None):
            self.texts[tag] = text_string

        def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
            assert dataformats == "HWC" and img_tensor.shape[2] == 3 and img_tensor.dtype == np.uint8
            self.images[tag] = img_tensor

    writer = SummaryWriter()
    report.log(writer, step=3, worst=2)
    assert list(writer.scalars) == SCALARS
    assert writer.scalars["captious/cider"] == (report["cider"].corpus, 3)
    assert report.worst(2).table().rows[0][0] in writer.texts["captious/worst"]
    assert list(writer.images) == ["captious/worst/1", "captious/worst/2"]
    assert (tmp_path / "captious/report-000003.html").is_file()


def test_a_function_is_a_tracker(report):
    given = []
    report.log(given.append, step=4, prefix="validation", worst=3, metric="bleu")
    (one,) = given
    assert (one.step, next(iter(one.scalars)), one.columns[1], len(one.rows)) == (4, "validation/bleu_4", "BLEU-4", 3)


def test_what_has_no_value_is_left_out(report):
    interval = replace(report.intervals["cider"], low=float("nan"), high=float("inf"))
    scalars = replace(report, intervals={"cider": interval}).scalars()
    assert scalars == {"captious/bleu_4": report["bleu"].corpus, "captious/cider": report["cider"].corpus}


def test_names_have_no_signs_that_a_tracker_refuses():
    written = ["bleu(n=4)", "cider", "cider(idf=coco)", "clipscore(weights=org/model)", "chair(value=i)"]
    assert list(make_short_names(parse_all(written)).values()) == [
        "bleu_4",
        "cider",
        "cider_idf_coco",
        "clipscore",
        "chair_i",
    ]


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        ("tensorboard", {}, "run: 'tensorboard', expected a run or module of 'wandb', 'mlflow', 'trackio'"),
        (7, {}, "run: int, expected a run"),
        (print, {"step": -1}, "step=-1, expected a whole number"),
        (print, {"step": 1.5}, "step=1.5, expected a whole number"),
        ("trackio", {}, "trackio is not installed|no run of trackio"),
    ],
)
def test_what_is_refused(report, run, options, message):
    with pytest.raises(captious.InputError, match=message):
        report.log(run, **options)
