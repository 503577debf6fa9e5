"""What importing the stubs costs, and what they say where the library is not installed."""

import subprocess
import sys

import pytest


def test_the_stub_open_without_the_libraries_they_imitate():
    program = (
        "import sys; import captious.compat; heavy = {'numpy', 'torch', 'torchmetrics', 'evaluate', 'datasets'};"
        "assert not heavy & set(sys.modules); import captious.compat.pycocoevalcap;"
        "assert not {'torch', 'pycocoevalcap', 'pycocotools', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("stub", "library", "extra"),
    [
        ("torchmetrics", "torchmetrics", "torchmetrics"),
        ("hf_evaluate", "evaluate", "evaluate"),
        ("transformers", "transformers", "transformers"),
    ],
)
def test_an_absent_library_is_named_with_its_extra(stub, library, extra):
    program = f"import sys; sys.modules[{library!r}] = None; import captious.compat.{stub}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    message = f"this needs {library}, which is not installed: pip install 'captious[{extra}]'"
    assert done.stderr.splitlines()[-1] == f"captious.errors.MissingExtra: {message}"
