"""What importing costs: no heavy library before it is needed."""

import subprocess
import sys

import pytest

import captious

HEAVY = ("numpy", "pyarrow", "pandas", "torch", "transformers", "PIL", "scipy", "rich", "click")


def loaded_after(statement):
    program = f"import sys; {statement}; print(*sorted(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_captious_imports_nothing_heavy():
    assert not loaded_after("import captious").intersection(HEAVY)


def test_the_command_line_imports_nothing_heavy_before_a_command_runs():
    assert not loaded_after("import captious.cli.app").intersection(
        {"numpy", "pyarrow", "pandas", "torch", "transformers", "PIL", "scipy"}
    )


def test_scoring_needs_neither_arrow_nor_torch():
    statement = "import captious; captious.evaluate(captious.CaptionSet.of({'1': 'a'}, {'1': ['a']}))"
    assert not loaded_after(statement).intersection({"pyarrow", "pandas", "torch", "transformers", "PIL", "scipy"})


def test_every_public_name_can_be_had():
    for name in captious.__all__:
        assert getattr(captious, name) is not None
    assert set(captious.__all__) <= set(dir(captious))


@pytest.mark.parametrize("call", ["compare({0!r})", "gate(*{0!r}, margin=0.01)"])
def test_comparing_runs_does_not_import_pandas(tmp_path, call):
    """PyArrow imports pandas where an array is converted in some ways; that takes longer than comparing small runs."""
    for name, text in (("a", "a dog runs"), ("b", "a cat runs")):
        captions = captious.CaptionSet.of(dict.fromkeys("123456", text), {key: ["the dog runs"] for key in "123456"})
        captious.evaluate(captions, "bleu").save(tmp_path / name)
    runs = [str(tmp_path / name) for name in "ab"]
    loaded = loaded_after(f"import captious; print(captious.{call.format(runs)})")
    assert "pyarrow" in loaded and "pandas" not in loaded
