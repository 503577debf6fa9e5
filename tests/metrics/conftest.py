"""The tables of METEOR 1.5, which METEOR and SPICE read."""

import pytest

from captious.metrics.meteor import resources


@pytest.fixture(scope="session")
def meteor_tables(meteor_home):
    """The tables of METEOR 1.5."""
    with pytest.MonkeyPatch.context() as places:
        places.setenv("CAPTIOUS_HOME", str(meteor_home))
        places.delenv(resources.VARIABLE, raising=False)
        return resources.load()
