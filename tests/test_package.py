"""The wheel, installed alone into an empty environment: small, light, and enough for the demo and a script."""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Bytes of a wheel.
LARGEST = 11_000_000
NO_INDEX = re.compile(r"ConnectionError|NewConnectionError|name resolution|No address associated")

# As the README has it, with captions written out.
SCRIPT = """
import captious
report = captious.evaluate({"1": "a dog runs"}, "bleu(n=1), rouge", references={"1": ["a dog runs fast", "dogs"]})
print(report)
print(round(report["ROUGE-L"].corpus, 4))
"""


def call(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def environment(distributions, tmp_path_factory):
    """An empty virtual environment with the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", str(folder))
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip(scripts, "install", "--quiet", "--no-compile", str(distributions[0]))
    return scripts


def pip(scripts, *arguments):
    """The pip of these tests at work in another environment, which needs none of its own."""
    return call(sys.executable, "-m", "pip", "--python", str(scripts / "python"), *arguments)


def outside(tmp_path):
    """Where the source tree cannot be imported by chance."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {"cwd": tmp_path, "env": {**variables, "CAPTIOUS_HOME": str(tmp_path / "home"), "COLUMNS": "100"}}


def test_the_wheel_is_small_typed_and_holds_the_data(distributions):
    wheel, _ = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.stat().st_size < LARGEST
    for wanted in ("py.typed", "__init__.pyi", "data/demo/references.json", "render/page/page.html"):
        assert f"captious/{wanted}" in names
    # Pages, scripts, styles, templates, stubs and data: a file that the source tree runs with is in the wheel.
    sources = (path.relative_to(ROOT / "src") for path in (ROOT / "src" / "captious").rglob("*") if path.is_file())
    assert {path.as_posix() for path in sources if "__pycache__" not in path.parts} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "lab/", "docs/"))]


def read_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        return email.message_from_string(archive.read(path).decode())


def test_the_metadata_says_for_whom(distributions):
    text = str(read_metadata(distributions[0]))
    for field in ("Classifier: Typing :: Typed", "License-Expression: Apache-2.0"):
        assert field in text
    required = [line for line in text.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert not [line for line in required if re.search("torch|transformers|pandas|matplotlib", line)]


ADDRESS = "https://code.example/we/captious"


def test_without_an_address_the_index_gets_the_readme_as_it_is(distributions):
    metadata = read_metadata(distributions[0])
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata["Description-Content-Type"] == "text/markdown" and metadata.get_all("Project-URL") is None


def test_with_an_address_its_links_lead_to_the_repository_at_the_tag(tmp_path):
    variables = {**os.environ, "CAPTIOUS_REPOSITORY": ADDRESS, "CAPTIOUS_REVISION": "v1.2.3"}
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT), env=variables)
    (wheel,) = tmp_path.glob("*.whl")  # built from the source archive, as a release is
    metadata = read_metadata(wheel)
    assert metadata.get_all("Project-URL") == [f"Repository, {ADDRESS}"]
    source, text = (ROOT / "README.md").read_text(encoding="utf-8"), metadata.get_payload()
    links = re.compile(r"\]\((?!#)([^)\s]+)\)")
    before, after = links.findall(source), links.findall(text)
    assert len(before) == len(after) > 30
    for relative, absolute in zip(before, after, strict=True):
        folder = "raw" if relative.endswith((".png", ".svg")) else "blob"
        assert absolute == f"{ADDRESS}/{folder}/v1.2.3/{relative}"
    assert links.sub("", text) == links.sub("", source)  # nothing else is changed


def test_the_release_is_built_with_the_address_of_its_repository():
    workflow = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "CAPTIOUS_REPOSITORY: ${{ github.server_url }}/${{ github.repository }}" in workflow
    assert "CAPTIOUS_REVISION: ${{ github.ref_name }}" in workflow


def test_the_source_archive_can_run_its_tests(distributions):
    with tarfile.open(distributions[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "README.md", "LICENSE", "tests/conftest.py"} <= names


def test_three_lines_of_python_in_an_empty_environment(environment, tmp_path):
    printed = call(str(environment / "python"), "-c", SCRIPT, **outside(tmp_path))
    # LCS "a dog runs" of 3 words, reference of 4: P = 1, R = 3/4, (1 + 1.44) P R / (R + 1.44 P) = 1.83 / 2.19
    assert printed.splitlines()[-1] == "0.8356"
    assert "BLEU-1" in printed and "ROUGE-L" in printed


def test_the_demo_in_an_empty_environment(environment, tmp_path):
    printed = call(str(environment / "captious"), "demo", "--out", "report", **outside(tmp_path))
    assert "CIDEr-D" in printed
    assert (tmp_path / "report" / "report.html").stat().st_size > 100_000
    assert json.loads((tmp_path / "report" / "captious-output.json").read_text())


def test_nothing_heavy_comes_along(environment):
    listed = pip(environment, "list", "--format", "json")
    installed = {package["name"].lower() for package in json.loads(listed)}
    assert "captious" in installed
    assert installed.isdisjoint({"torch", "transformers", "pandas", "spacy", "pycocoevalcap"})
