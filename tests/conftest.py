"""Fixtures that many tests share."""

import atexit
import gc
import gzip
import importlib.util
import itertools
import json
import os
import shutil
import signal
import sys
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from tests.waiting import SECONDS

from captious.models.encoder import Tokens

# A busy machine fails no test: nothing here is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


# A job in the background of a shell ignores Ctrl-C, and so would the processes that it starts; tests of Ctrl-C send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

atexit.register(gc.unfreeze)  # what libraries count at the end is collected then


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The modules of ten thousand tests stay until the end, so that nobody searches them for garbage.

    That took half of the time of the collection, and seconds whenever a test collects garbage.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 20)  # models and modules that tests load stay too
        gc.enable()


@pytest.fixture(scope="session")
def shared_data():
    """The folder of shared evaluation data: beside the checkout, or where CAPTIOUS_SHARED_DATA says."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CAPTIOUS_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the shared evaluation data is not here; set CAPTIOUS_SHARED_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def nltk_tagger(shared_data, tmp_path_factory):
    """NLTK's averaged perceptron tagger where NLTK looks for it."""
    nltk = pytest.importorskip("nltk")
    name = "averaged_perceptron_tagger_eng"
    folder = tmp_path_factory.mktemp("nltk_data")
    (folder / "taggers" / name).mkdir(parents=True)
    with gzip.open(shared_data / "chair" / "nltk_tagger.json.gz", "rt") as file:
        for part, content in json.load(file).items():
            (folder / "taggers" / name / f"{name}.{part}.json").write_text(json.dumps(content))
    with pytest.MonkeyPatch.context() as places:
        places.setattr(nltk.data, "path", [str(folder), *nltk.data.path])
        yield folder


@pytest.fixture(scope="session")
def meteor_home(request, tmp_path_factory):
    """A home where METEOR's tables are compiled once, which takes 20 seconds, and kept with pytest's cache."""
    if importlib.util.find_spec("pycocoevalcap") is None:
        pytest.skip("METEOR's tables are not here: pip install 'captious[meteor]'")
    cache = getattr(request.config, "cache", None)
    return cache.mkdir("captious-meteor") if cache else tmp_path_factory.mktemp("meteor")


@pytest.fixture
def compiled_meteor(request, own_home):
    """The home of this test has METEOR's compiled tables, where METEOR's data is installed."""
    if importlib.util.find_spec("pycocoevalcap") is not None:
        folder = request.getfixturevalue("meteor_home") / "meteor"
        folder.mkdir(exist_ok=True)
        (own_home / "meteor").symlink_to(folder)


@pytest.fixture(scope="session")
def coco_objects(shared_data, tmp_path_factory):
    """The stored objects of COCO's val2014 images, as the table that captious make objects writes."""
    from captious.metrics.hallucination.truth import ObjectTable
    from captious.syntax.objects import open_vocabulary

    with gzip.open(shared_data / "chair" / "coco2014_objects.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["split"] == "val"]
    sources = {"instances": "instances", "captions_singularize": "captions", "captions_wordnet": "captions_wordnet"}
    columns = {name: [row[column] for row in rows] for name, column in sources.items()}
    path = tmp_path_factory.mktemp("coco") / "objects.parquet"
    numbers = {str(row["id"]): number for number, row in enumerate(rows)}
    ObjectTable("objects", numbers, columns, str(open_vocabulary())).save(path)
    return path


# Files that take longest. They come first, so that no process is left with one of them while the others are done.
LONG = (
    # Not long, but first: late in a worker it breaks pytest's capture for all tests after it. The cause is not known.
    "tests/studio/test_one_number.py",
    "tests/test_examples.py",
    "tests/contract/test_contract.py",
    "tests/fuzz/test_fuzz.py",
    "tests/studio/test_faults.py",
    "tests/engines/test_ray.py",
    "tests/metrics/meteor/test_original.py",
    "tests/studio/explore/test_browser.py",
    "tests/fuzz/test_kills.py",
    "tests/text/test_ptb.py",
    "tests/test_scripts.py",
    "tests/runs/shards/test_scoring.py",
    "tests/engines/test_tasks.py",
    "tests/studio/collect/test_rater_pages_in_browser.py",
    "tests/compat/test_pycocoevalcap.py",
    "tests/train/test_distributed.py",
    "tests/test_package.py",
    "tests/test_site.py",
    "tests/studio/explore/test_explorer_app.py",
    "tests/studio/owner/test_papers.py",
    "tests/studio/owner/test_owner_pages.py",
    "tests/models/test_hub_unreachable.py",
    "tests/metrics/test_chair.py",
    "tests/test_plugin.py",
    "tests/lab/test_reproductions.py",
    "tests/models/test_openai_layout.py",
    "tests/train/test_loop.py",
    "tests/studio/explore/test_views.py",
    "tests/study/test_recipes.py",
    "tests/runs/test_filters.py",
    "tests/studio/explore/test_expression.py",
    "tests/compat/test_torchmetrics.py",
    "tests/metrics/test_capture.py",
    "tests/test_testing.py",
    "tests/studio/collect/test_log.py",
    "tests/probes/test_hallucination.py",
    "tests/rewarding/test_monitor.py",
    "tests/models/painters/test_diffusion.py",
    "tests/models/chat/test_judge.py",
    "tests/models/chat/test_bounds.py",
    "tests/models/chat/test_serving.py",
    "tests/bias/test_audit.py",
    "tests/test_notebooks.py",
    "tests/runs/test_runs.py",
    "tests/cli/test_tree.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(LONG)))
    for item in items:
        # A tab on a busy machine may lose an event or stop drawing. What is broken fails both times, and the summary
        # counts the tests that ran again.
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """Numbers of homes below one folder: a folder of thousands is not listed for each test."""
    return tmp_path_factory.mktemp("homes"), itertools.count()


@pytest.fixture(autouse=True)
def own_home(homes, monkeypatch):
    """No test reads or writes the corpora and resources of the person who runs it, or has the width of a terminal."""
    folder = homes[0] / str(next(homes[1]))
    folder.mkdir()
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("CAPTIOUS_HOME", str(folder))
    monkeypatch.setenv("CAPTIOUS_PAINTERS", "lab.toy.painter:drawn")  # the one that the tests may import by its name
    return folder


@pytest.fixture(scope="session")
def tokenizer():
    """CLIP's own, from the merges that OpenCLIP brings."""
    pytest.importorskip("tokenizers")
    from captious.models._model_tokenizers import find_clip_tokenizer

    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        pytest.skip("CLIP's merges are not here: open_clip_torch has them")
    return find_clip_tokenizer(Path(package.origin).parent, 77)


class ColorEncoder:
    """An encoder whose vectors a reader can work out: (red, green, blue, everything else).

    An image is its mean color; a text counts the words red, green, blue, and all others. So a red image and "a red
    dog" have the cosine 1/√5. A text holds ``limit`` tokens, start and end included.
    """

    precision = "fp32"
    dimension = 4
    words = ("red", "green", "blue")

    def __init__(self, name="colors", limit=77, turn=False):
        self.name, self.limit, self.turn = name, limit, turn
        self.fingerprint = blake2b(name.encode(), digest_size=6).hexdigest()

    def prepare(self, picture):
        return np.asarray(picture.convert("RGB").resize((2, 2)))

    def tokenize(self, texts):
        numbers = {word: place + 1 for place, word in enumerate(self.words)}
        rows = [[5, *(numbers.get(word.strip(".,").lower(), 4) for word in text.split()), 6] for text in texts]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        cut = [row if len(row) <= self.limit else [*row[: self.limit - 1], 6] for row in rows]
        width = max(map(len, cut), default=0)
        ids = np.array([[*row, *[0] * (width - len(row))] for row in cut], dtype=np.int64).reshape(len(cut), width)
        return Tokens(ids, lengths)

    def image_features(self, pixels):
        color = np.asarray(pixels, dtype=np.float32).mean(axis=(1, 2)) / 255
        return np.concatenate([color, np.zeros((len(color), 1), np.float32)], axis=1)

    def text_features(self, ids):
        counts = np.stack([(ids == number).sum(axis=1) for number in (1, 2, 3, 4)], axis=1).astype(np.float32)
        return -counts if self.turn else counts

    def token_features(self, ids):
        """Vectors of tokens: the counts of the words up to a token; the start token has (1, 1, 1, 1)."""
        counts = np.stack([(ids == number).cumsum(axis=1) for number in (1, 2, 3, 4)], axis=2).astype(np.float32)
        counts[:, 0] = 1.0
        counts[(ids == 6).cumsum(axis=1) - (ids == 6) > 0] = 0.0
        return -counts if self.turn else counts


@pytest.fixture
def colors(monkeypatch):
    """Every encoder is a `ColorEncoder`, named by its weights; ``short`` reads 8 tokens, ``turned`` points away."""
    from captious.models import loading

    def load(weights, **options):
        return ColorEncoder(weights, limit=8 if weights == "short" else 77, turn=weights == "turned")

    monkeypatch.setattr(loading, "load", load)
    return ColorEncoder


@pytest.fixture
def photos(tmp_path):
    """A folder with a red, a green, a blue and a broken image."""
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for name, color in {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}.items():
        Image.new("RGB", (8, 6), color).save(folder / f"{name}.png")
    (folder / "broken.png").write_bytes(b"not an image")
    return folder


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command as a user types it; gives exit code, standard output and standard error."""
    from captious.cli.app import main

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command


# Chromium by its names. The first has no window and opens a page in a third of the processor time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def _wait_by_clock(wait_for_function):
    """Return Playwright's ``wait_for_function`` with a condition that is tried every 50 milliseconds."""

    def wait(page, expression, *, polling=50, **options):
        return wait_for_function(page, expression, polling=polling, **options)

    return wait


# Not one for the session: while Playwright runs, `asyncio.run` is refused in this thread, also in other tests.
@pytest.fixture(scope="module")
def chromium():
    """The installed Chromium, driven by Playwright; one browser for the tests of a file."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium to open the pages with (Debian: apt-get install chromium-headless-shell)")
    # Chromium's sandbox refuses root; containers have little shared memory.
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        # Playwright gives up after 30 seconds, and `expect` after 5: too soon on a machine that is busy.
        browser.on("context", lambda context: context.set_default_timeout(1000 * SECONDS))
        playwright.expect.set_options(timeout=1000 * SECONDS)
        with pytest.MonkeyPatch.context() as changed:
            # By default a condition is tried once per drawn frame, and a busy machine may draw none for minutes.
            changed.setattr(playwright.Page, "wait_for_function", _wait_by_clock(playwright.Page.wait_for_function))
            yield browser
        browser.close()


@pytest.fixture
def drawn(chromium, tmp_path):
    """``drawn(text, address)`` opens a page at an address such as ``#q=dog``; gives what its scripts made of it."""

    def open_page(text, address=""):
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        tab = chromium.new_page()
        tab.goto(f"{file.as_uri()}{address}")
        content = tab.content()
        tab.close()
        return content

    return open_page


@pytest.fixture(scope="session")
def cluster():
    """A cluster with one node of two CPUs, to which this process is connected."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    from captious.engines.ray import import_ray

    ray = import_ray()
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 3}
        node = {"num_cpus": 2, "object_store_memory": 100 * 2**20, "include_dashboard": False, "_system_config": quick}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
        ray.shutdown()
        cluster.shutdown()
