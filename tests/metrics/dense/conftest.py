"""A small example of dense captions, whose values the tests derive by hand, and the files of MDVC."""

import pytest

import captious
from captious.io.formats import FileList
from captious.options import Reading

REFERENCES = {
    "v1": {
        "duration": 40,
        "timestamps": [[0, 10], [12, 20]],
        "sentences": ["A man slices a tomato.", "He eats the tomato."],
    },
    "v2": {"duration": 5, "timestamps": [[0, 5]], "sentences": ["A dog runs."]},
}
PREDICTIONS = {
    "v1": [
        {"sentence": "a man cuts a tomato", "timestamp": [0, 9]},
        {"sentence": "he eats it", "timestamp": [11, 20]},
        {"sentence": "the end", "timestamp": [30, 40]},
    ]
}


@pytest.fixture
def small():
    """Both videos; the second one has no prediction and counts 0."""
    return captious.read(PREDICTIONS, references=REFERENCES, missing="zero")


@pytest.fixture
def predicted():
    """The one video with predictions."""
    return captious.read(PREDICTIONS, references=REFERENCES, missing="skip")


@pytest.fixture(scope="session")
def mdvc(shared_data):
    """A function that reads predictions of MDVC with one or both files of references, once for all tests."""
    folder, known = shared_data / "mdvc_dense", {}

    def read(predictions, references, missing="zero"):
        key = (predictions, references, missing)
        if key not in known:
            files = FileList(str(folder / f"refs_val_{number}.json.gz") for number in references)
            known[key] = captious.read(
                folder / f"mdvc_val_{predictions}.json.gz",
                references=files if len(files) > 1 else files[0],
                reading=Reading(missing=missing),
            )
        return known[key]

    return read
