"""The tables of METEOR 1.5, which METEOR and SPICE read."""

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
