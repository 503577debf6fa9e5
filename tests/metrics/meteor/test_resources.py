"""Where METEOR's tables come from, and what is said when they cannot be had."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.metrics.meteor.conftest import phrase_hash

from captious._core.files import get_data_folder
from captious._core.hashing import hash_text
from captious.cli import cache
from captious.errors import InputError
from captious.metrics.meteor import resources
from captious.metrics.meteor.resources import MeteorFiles, compile_tables
from captious.options import Runtime, using

ALL = ("exact", "stem", "synonym", "paraphrase")


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(sys, "path", [])


def compiled():
    return resources.compiled_files()


def test_a_named_folder_is_compiled_once(make_source, capsys):
    folder = make_source()
    first = resources.load(str(folder), ALL)
    assert first.function_words >= {"a", "the"}
    assert "compiling METEOR's tables" in capsys.readouterr().err
    (file,) = compiled()
    written = file.stat().st_mtime_ns
    assert resources.load(str(folder)) is first
    assert file.stat().st_mtime_ns == written
    assert capsys.readouterr().err == ""


def test_tables_live_under_the_one_root_where_the_cache_command_lists_them(make_source, tmp_path, monkeypatch):
    """Only CAPTIOUS_HOME moves anything that captious keeps."""
    monkeypatch.setenv("CAPTIOUS_CACHE", str(tmp_path / "elsewhere"))
    resources.load(str(make_source()))
    listed = json.loads(CliRunner().invoke(cache.app, ["show", "--json"]).output)
    (tables,) = listed["tables"]
    assert Path(listed["home"]) == get_data_folder() == tmp_path / "home"
    assert Path(listed["folder"]).parent == Path(tables["path"]).parents[1] == get_data_folder()
    assert tables["bytes"] > 0 and not (tmp_path / "elsewhere").exists()
    assert "METEOR's tables" in CliRunner().invoke(cache.app, ["show"]).output
    assert CliRunner().invoke(cache.app, ["prune", "--all"]).exit_code == 0 and compiled() == []


def test_the_variable_names_a_folder(make_source, monkeypatch):
    monkeypatch.setenv(resources.VARIABLE, str(make_source()))
    assert resources.load(modules=ALL).has_paraphrases


def test_a_jar_serves_like_the_folder_it_holds(make_source, tmp_path):
    folder = make_source()
    with zipfile.ZipFile(tmp_path / "meteor-1.5.jar", "w") as jar:
        for file in sorted(folder.rglob("english.*")):
            jar.write(file, str(file.relative_to(folder)))
    (tmp_path / "paraphrase-en.gz").write_bytes((folder / "data/paraphrase-en.gz").read_bytes())
    for place in (tmp_path, tmp_path / "meteor-1.5.jar"):
        assert resources.load(str(place)).sources == resources.load(str(folder)).sources


def test_a_changed_source_is_compiled_again(make_source):
    folder = make_source()
    assert "zebra" not in resources.load(str(folder)).function_words
    with (folder / "function/english.words").open("a") as file:
        file.write("zebra\n")
    assert "zebra" in resources.load(str(folder)).function_words


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-70], lambda data: data[:-9] + b"x" + data[-8:], lambda data: b""]
)
def test_a_damaged_compiled_file_is_rebuilt(make_source, damage, capsys):
    folder = make_source()
    resources.load(str(folder))
    (file,) = compiled()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    resources.load(str(folder))
    assert file.read_bytes() == good
    assert capsys.readouterr().err.count("compiling") == 2


def test_added_tables_outlive_their_source(make_source, nothing_installed):
    folder = make_source()
    target = resources.add(folder)
    for file in folder.rglob("*.*"):
        file.unlink()
    assert target == resources.added_file()
    assert resources.load(modules=ALL).sources.keys() >= {"paraphrase-en.gz"}
    assert compiled() == []


def test_damaged_added_tables_are_reported(make_source, nothing_installed):
    target = resources.add(make_source())
    target.write_bytes(target.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"damaged.*captious cache add meteor PATH"):
        resources.load()


def test_absent_tables_say_what_to_do_in_one_line(nothing_installed):
    with pytest.raises(InputError) as caught:
        resources.load()
    message = str(caught.value)
    assert "pip install 'captious[meteor]'" in message
    assert "captious cache add meteor PATH" in message
    assert "\n" not in message


def test_a_copy_of_pycocoevalcap_without_the_jar_does_not_hide_the_installed_one(make_source, tmp_path, monkeypatch):
    """A script beside which coco-caption was vendored has its folder first on the path."""
    (tmp_path / "script" / "pycocoevalcap" / "meteor").mkdir(parents=True)
    (tmp_path / "script" / "pycocoevalcap" / "__init__.py").touch()
    (tmp_path / "installed" / "pycocoevalcap").mkdir(parents=True)
    (tmp_path / "installed" / "pycocoevalcap" / "meteor").symlink_to(make_source())
    monkeypatch.setattr(sys, "path", [str(tmp_path / "script"), str(tmp_path / "installed")])
    assert resources.load(modules=ALL).has_paraphrases


def test_without_paraphrases_three_modules_still_run(make_source):
    folder = make_source(paraphrases=False)
    assert not resources.load(str(folder), ALL[:3]).has_paraphrases
    with pytest.raises(InputError, match=r"paraphrase-en.gz is missing.*meteor\(modules=exact\+stem\+synonym\)"):
        resources.load(str(folder), ALL)


def test_a_folder_without_data_is_named(tmp_path):
    for load in (resources.load, resources.add):
        with pytest.raises(InputError, match=r"contains no data of METEOR 1.5; expected meteor-1.5.jar"):
            load(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        resources.load(str(tmp_path / "missing.tables"))


def test_a_jar_that_is_none_is_named(tmp_path):
    (tmp_path / "meteor-1.5.jar").write_bytes(b"not a zip")
    with pytest.raises(InputError, match=r"meteor-1\.5\.jar: not the data of METEOR 1\.5"):
        resources.load(str(tmp_path))


def test_a_broken_paraphrase_table_is_named(make_source):
    folder = make_source()
    (folder / "data/paraphrase-en.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match=r"paraphrase-en\.gz: not a paraphrase table"):
        resources.load(str(folder))
    assert compiled() == []


def test_a_compiled_file_may_be_named(make_source, tmp_path):
    compile_tables(MeteorFiles.at(make_source())).write(tmp_path / "en.tables")
    assert resources.load(str(tmp_path / "en.tables"), ALL).has_paraphrases


def test_two_processes_may_compile_at_once(make_source):
    folder = make_source()
    code = (
        "import sys; from captious.metrics.meteor import resources; "
        "print(len(resources.load(sys.argv[1]).phrases.values))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, env=dict(os.environ))
        for _ in range(3)
    ]
    assert {process.communicate()[0] for process in running} == {b"12\n"}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert [file.suffix for file in resources.cache_folder().iterdir()] == [".tables"]


def test_pycocoevalcap_is_found_but_not_imported(make_source, tmp_path):
    package = tmp_path / "site" / "pycocoevalcap"
    make_source("site/pycocoevalcap/meteor")
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    code = (
        "import sys; from captious.metrics.meteor import resources; "
        "print(len(resources.load().phrases.values), *sys.path[1:2])"
    )
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "12"


def test_compiling_shows_how_far_it_is(make_source, monkeypatch):
    monkeypatch.setattr(resources, "BLOCK", 100)
    steps = []
    with using(Runtime(progress=lambda *step: steps.append(step))):
        compile_tables(MeteorFiles.at(make_source()))
    assert len(steps) > 1 and {what for what, _, _ in steps} == {"MB of METEOR's paraphrases"}
    assert steps[-1][1] == steps[-1][2]


@pytest.mark.parametrize("end", ["", "\n", "\n0.5\n", "\n0.5\nhalf"], ids=["no end", "end", "a third", "two thirds"])
@pytest.mark.parametrize("block", [1, 7, 1 << 24])
def test_paraphrases_do_not_depend_on_how_the_table_is_read(make_source, monkeypatch, block, end):
    """The numbers are those of words folded one by one; of equal phrases the paraphrases keep their order."""
    monkeypatch.setattr(resources, "BLOCK", block)
    folder = make_source()
    pairs = [("b c", "a"), ("a", "b  c\td"), ("b c", "é"), ("a", ""), ("a", "b c")]
    lines = "\n".join(line for source, target in pairs for line in ("0.5", source, target))
    (folder / "data/paraphrase-en.gz").write_bytes(gzip.compress((lines + end).encode()))
    table = compile_tables(MeteorFiles.at(folder)).phrases
    expected = {}
    for source, target in pairs:
        keys = [phrase_hash(map(hash_text, phrase.split())) for phrase in (source, target)]
        expected.setdefault(keys[0], []).append(keys[1])
    assert {
        int(table.keys[row]): [int(table.keys[one]) for one in table.row(row)] for row in range(len(table.keys))
    } == {key: expected.get(key, []) for key in {*expected, *(one for several in expected.values() for one in several)}}


@pytest.mark.parametrize("block", [3, 1 << 24])
def test_a_packed_table_in_several_members_is_whole_and_a_cut_one_is_refused(make_source, monkeypatch, block):
    monkeypatch.setattr(resources, "BLOCK", block)
    folder = make_source()
    file = folder / "data/paraphrase-en.gz"
    members = [gzip.compress(triple.encode()) for triple in ("0.5\na\nb\n", "0.5\na\nc\n")]
    file.write_bytes(b"".join(members))
    table = compile_tables(MeteorFiles.at(folder)).phrases
    assert [len(table.row(row)) for row in range(len(table.keys))].count(2) == 1  # b and c are those of a
    file.write_bytes(b"".join(members)[:-6])
    with pytest.raises(InputError, match=r"paraphrase-en\.gz: not a paraphrase table"):
        compile_tables(MeteorFiles.at(folder))
