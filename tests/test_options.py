"""Options as values: defaults, bounds, choices, and the runtime in force."""

import subprocess
import sys
from typing import Annotated

import pytest

from captious.errors import InputError
from captious.options import Judging, Option, Output, Reading, Resampling, Runtime, get_declarations, get_runtime, using

Seeds = Annotated[int, Option("Seeds.")]


def test_the_numbers_of_the_bootstrap():
    assert Resampling() == Resampling(samples=1000, seed=12345, level=0.95)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Resampling(level=95), "confidence level 95, expected a number between 0 and 1"),
        (lambda: Resampling(level=1.0), "confidence level 1.0, expected"),
        (lambda: Resampling(level=float("nan")), "confidence level nan, expected"),
        (lambda: Resampling(samples=-1), "samples -1, expected a whole number of at least 0"),
        (lambda: Resampling(seed=-1), "seed -1, expected a whole number of at least 0"),
        (lambda: Runtime(batch=0), "batch 0, expected a whole number of at least 1"),
        (lambda: Runtime(precision="fp17"), "precision='fp17', expected auto or fp32 or bf16 or fp16; did you mean"),
        (lambda: Reading(missing="skp"), "missing='skp', expected error or skip or zero; did you mean 'skip'"),
        (lambda: Reading(format="xml"), "format='xml', expected json or jsonl or csv or tsv or parquet"),
        (lambda: Output(json=True, latex=True), "json=True as well as latex=True, expected one form"),
    ],
)
def test_values_that_cannot_be_used_are_refused(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value).startswith(message)


def test_bounds_themselves_and_none_are_allowed():
    assert Resampling(samples=0, seed=0).signature() == "none"
    assert Reading(format=None).format is None and Reading(format="csv").format == "csv"


def test_options_are_values():
    assert Reading("refs.json") == Reading(references="refs.json")
    assert hash(Resampling(5)) == hash(Resampling(samples=5))
    with pytest.raises(AttributeError):
        Resampling().samples = 3


def test_the_runtime_in_force_is_that_of_the_innermost_block():
    outer, inner = Runtime(device="cpu"), Runtime(batch=2)
    with using(outer):
        with pytest.raises(KeyError), using(inner):
            assert get_runtime() is inner
            raise KeyError
        assert get_runtime() is outer
    assert get_runtime() == Runtime()


def test_every_field_is_explained_or_is_for_python_alone():
    silent = [
        name
        for group in (Reading, Resampling, Judging, Runtime, Output)
        for name, field in get_declarations(group).items()
        if field.option is None and field.kind is not Judging
    ]
    assert silent == ["repeat", "progress", "log"]
    assert all(
        field.option.help.endswith(".")
        for group in (Reading, Resampling, Judging, Runtime, Output)
        for field in get_declarations(group).values()
        if isinstance(field.option, Option)
    )


def test_options_need_the_standard_library_alone():
    program = "import sys, captious.options; print(*sorted(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"click", "rich", "numpy"}.intersection(loaded)


def test_a_shared_annotation_may_allow_none():
    def command(seeds: Seeds | None = None) -> None: ...

    assert (
        get_declarations(command)["seeds"].kind == int | None
        and get_declarations(command)["seeds"].option.help == "Seeds."
    )
