"""The tables of METEOR 1.5, which METEOR and SPICE read, and NLTK's tagger."""

import gzip
import json
from importlib.util import find_spec

import pytest

from captious.metrics.meteor import resources


@pytest.fixture(scope="session")
def meteor_tables(request, tmp_path_factory):
    """The tables of METEOR 1.5, compiled once and kept with pytest's cache."""
    if find_spec("pycocoevalcap") is None:
        pytest.skip("METEOR's tables are not here: pip install pycocoevalcap")
    kept = getattr(request.config, "cache", None)
    with pytest.MonkeyPatch.context() as places:
        cache = kept.mkdir("captious-meteor") if kept else tmp_path_factory.mktemp("cache")
        places.setenv("CAPTIOUS_HOME", str(cache))
        places.delenv(resources.VARIABLE, raising=False)
        return resources.load()


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
