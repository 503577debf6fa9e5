"""Twelve images with captions that every test of this folder can score."""

import pytest

# A candidate and two references by image id. The ids are in no order, as in COCO's files.
SCENES = {
    391895: ("A man rides a small motorcycle.", ["A man with a red helmet on a moped.", "Man riding a motor bike."]),
    60623: ("A young girl eats cake at a table.", ["A girl inhales with cake on her face.", "A girl about to eat."]),
    483108: (
        "A man on a bike beside a train.",
        ["A man on a bicycle riding next to a train.", "A person and a train!"],
    ),
    384213: (
        "A kitchen with a stove.",
        ["A kitchen is shown with various items.", "A kitchen with a stove, isn't it?"],
    ),
    386164: ("Wooden spoons on a table.", ["A wood table with spoons on it.", "Wooden utensils (six) on a board."]),
    223648: ("The man's kitchen is red.", ["This is an old photo of a kitchen.", "The man's kitchen is yellow & red."]),
    403385: (
        "A bathroom with a toilet.",
        ["A bathroom that has a broken wall.", "A bathroom with a toilet and a sink."],
    ),
    294832: ("A white toilet in a package.", ["A bathroom with a toilet.", "A clean, white bathroom with a window."]),
    462565: ("People on motorbikes.", ["A group of people riding bikes.", "Several people ride their motor bikes."]),
    192440: ("1 1/2 sinks by a tub", ["A bathroom with 1 1/2 sinks and a tub.", "A sink, a mirror, and a bath tub."]),
    436141: ("A cat - a black one - sits.", ["A black cat sits in a sink.", "The cat's in the sink: it sits."]),
    1146: ("A man in a suit.", ["A man wearing a hat and a tie.", "A man in a suit and a tie smiles."]),
}


@pytest.fixture
def candidates():
    """A caption by image id."""
    return {key: candidate for key, (candidate, _) in SCENES.items()}


@pytest.fixture
def references():
    """Two captions by image id."""
    return {key: list(texts) for key, (_, texts) in SCENES.items()}
