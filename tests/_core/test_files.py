import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import captious
from captious._core.files import (
    PRIVATE,
    RUN,
    _make_draft_path,
    load_json,
    make_private,
    refuse_existing,
    refuse_occupied,
    sweep,
    whole_folder,
    write_atomically,
)
from captious.errors import InputError
from captious.io.storage import Storage
from captious.metrics.judges.judged import read_prompt
from captious.metrics.registry import parse
from captious.models._model_tokenizers import from_list
from captious.models.chat._endpoint import read_key
from captious.models.hub import find_local
from captious.models.mini import read_tensors
from captious.studio.access import find_image_file, read_owner_token
from captious.text import idf
from captious.train._loop import put_model


def test_a_file_appears_only_when_the_block_ends_well(tmp_path):
    target = tmp_path / "out.json"
    with pytest.raises(RuntimeError), write_atomically(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with write_atomically(target) as draft:
        draft.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_leaves_the_earlier_file_alone(tmp_path):
    target = tmp_path / "out.json"
    target.write_text("before")
    with pytest.raises(RuntimeError), write_atomically(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "before"


def run_into(folder, content, overwrite=False):
    with whole_folder(folder, overwrite) as draft:
        (draft / RUN).write_text(content)


def test_a_run_is_replaced_only_when_asked(tmp_path):
    folder = tmp_path / "run"
    run_into(folder, "one")
    with pytest.raises(InputError, match="already exists; pass overwrite=True"):
        run_into(folder, "two")
    assert (folder / RUN).read_text() == "one"
    run_into(folder, "two", overwrite=True)
    assert (folder / RUN).read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="was not written by captious"):
        refuse_occupied(tmp_path, overwrite=True)


def test_an_empty_folder_may_be_filled(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    run_into(folder, "one")
    assert (folder / RUN).read_text() == "one"


def test_the_earlier_run_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run_into(folder, "one")
    rename = Path.rename

    def failing(self, target):
        if self.suffix == ".part":
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no"):
        run_into(folder, "two", overwrite=True)
    assert (folder / RUN).read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_current_folder_may_be_filled(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    run_into(".", "one")
    assert (folder / RUN).read_text() == "one"


def test_a_failed_run_leaves_the_earlier_run_alone(tmp_path):
    folder = tmp_path / "run"
    run_into(folder, "one")
    with pytest.raises(RuntimeError), whole_folder(folder, overwrite=True) as draft:
        (draft / RUN).write_text("half")
        raise RuntimeError
    assert (folder / RUN).read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.fixture
def umask():
    """A umask that no default has, set before anything is written."""
    before = os.umask(0o027)
    yield
    os.umask(before)


def modes(folder):
    return {path.name: oct(path.stat().st_mode & 0o777) for path in folder.rglob("*")}


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_outputs_have_the_mode_that_the_umask_leaves_and_nobody_touches_the_umask(tmp_path, umask, monkeypatch):
    """It belongs to the whole process: a file that another thread makes meanwhile would be open to everybody."""
    monkeypatch.setattr(os, "umask", None)
    with write_atomically(tmp_path / "out.json") as draft:
        draft.write_text("whole")
    run_into(tmp_path / "run", "one")
    run_into(tmp_path / "run", "two", overwrite=True)
    monkeypatch.undo()
    assert modes(tmp_path) == {"out.json": "0o640", "run": "0o750", RUN: "0o640"}


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_saved_model_can_be_read_by_those_whom_the_umask_lets(tmp_path, umask):
    class Model:
        """Writes its weights as safetensors does: for the owner alone."""

        def save(self, folder):
            (folder / "text").mkdir()
            for path in (folder / "model.safetensors", folder / "text" / "tokenizer.json"):
                path.touch(mode=0o600)

    put_model(Model(), tmp_path / "model")
    assert modes(tmp_path / "model") == {"model.safetensors": "0o640", "text": "0o750", "tokenizer.json": "0o640"}


@pytest.mark.skipif(os.name == "nt", reason="kills a process with SIGKILL")
def test_a_killed_program_leaves_no_half_run_behind(tmp_path):
    program = textwrap.dedent("""
        import sys, time
        from captious._core.files import RUN, whole_folder
        with whole_folder(sys.argv[1]) as draft:
            (draft / RUN).write_text("half")
            print("ready", flush=True)
            time.sleep(60)
    """)
    target = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", program, str(target)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not target.exists()
    run_into(target, "next run is not in the way")
    assert (target / RUN).exists()


def dead_process():
    """The id of a process that has ended and was waited for, and one that is gone by its start alone."""
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    return int(done.stdout)


def named(target, pid, start, suffix=".part"):
    """A draft beside a target, as a process with this id that began then would have named it."""
    own = _make_draft_path(target, suffix).name
    host = own.removeprefix(f".{target.name}.").partition("-")[0]
    number = len(list(target.parent.iterdir()))
    return target.with_name(f".{target.name}.{host}-{pid}-{start}.{number:08x}{suffix}")


def test_fifty_drafts_of_dead_processes_are_removed_and_those_at_work_stay(tmp_path):
    target, pid = tmp_path / "run", dead_process()
    for number in range(50):
        draft = named(target, pid, number)
        draft.mkdir()
        (draft / "half").write_text("x")
    alive, unknown = _make_draft_path(target, ".part"), tmp_path / ".run.00000000-1-1.aabbccdd.part"
    alive.mkdir()
    unknown.mkdir()  # of another host
    reused = named(target, os.getpid(), 1)  # this process began later: the number was another's
    reused.mkdir()
    theirs = tmp_path / ".film.0123abcd.part"  # of another program
    theirs.write_text("x")
    os.utime(theirs, (0, 0))
    run_into(target, "one")
    assert {path.name for path in tmp_path.iterdir()} == {"run", alive.name, unknown.name, theirs.name}
    os.utime(unknown, (0, 0))
    sweep(target)
    assert not unknown.exists() and alive.exists() and theirs.exists()


def test_a_draft_at_work_is_not_swept_from_another_container_of_the_same_name(tmp_path):
    """Process numbers of another PID namespace mean other processes."""
    unshare = shutil.which("unshare")
    prefix = [str(unshare), "--pid", "--fork", "--mount-proc"]
    if unshare is None or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace can be made here (unshare needs root)")
    alive = _make_draft_path(tmp_path / "run", ".part")
    alive.mkdir()
    program = "import sys; from pathlib import Path; from captious._core.files import sweep; sweep(Path(sys.argv[1]))"
    subprocess.run([*prefix, sys.executable, "-c", program, str(tmp_path / "run")], check=True)
    assert alive.exists()


def test_drafts_of_files_are_swept_too(tmp_path):
    draft = named(tmp_path / "other.json", dead_process(), 1)
    draft.write_text("half")
    with write_atomically(tmp_path / "out.json") as path:
        path.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_run_that_a_killed_process_had_set_aside_comes_back(tmp_path):
    target = tmp_path / "run"
    run_into(target, "one")
    old = named(target, dead_process(), 1, ".old")
    old.mkdir()
    target.rename(old / "run")
    with pytest.raises(InputError, match="already exists"):
        refuse_occupied(target)
    assert (target / RUN).read_text() == "one" and [path.name for path in tmp_path.iterdir()] == ["run"]


def test_files_have_the_mode_of_new_ones(tmp_path):
    """Some libraries write for the owner alone; others of a group could not read a model."""
    (tmp_path / "sample").touch()
    usual = (tmp_path / "sample").stat().st_mode
    with whole_folder(tmp_path / "run") as draft:
        (draft / RUN).touch(mode=0o600)
    with write_atomically(tmp_path / "model.safetensors") as draft:
        draft.unlink()
        draft.touch(mode=0o600)
    assert (tmp_path / "run" / RUN).stat().st_mode == usual
    assert (tmp_path / "model.safetensors").stat().st_mode == usual


def test_private_files_are_for_their_owner_alone(tmp_path, umask):
    make_private(tmp_path / "store.db")
    with write_atomically(tmp_path / "copy.db", PRIVATE) as draft:
        draft.write_text("x")
    assert modes(tmp_path) == {"store.db": "0o600", "copy.db": "0o600"}
    (tmp_path / "store.db").write_text("kept")
    make_private(tmp_path / "store.db")
    assert (tmp_path / "store.db").read_text() == "kept"


def _plan(path):
    from captious.studio.collect.study_plan import read_plan

    read_plan(path)


READERS = {
    "prompt": lambda path: read_prompt(path, ["candidate"]),
    "key file": read_key,
    "owner's token": read_owner_token,
    "image": lambda path: find_image_file(path.parent, path.name),
    "SPICE output": lambda path: parse(f"spice_original({path})").measure(captious.demo().systems["expert"]),
    "document frequencies": idf.load,
    "pickle": lambda path: idf.from_pickle(path, "own"),
    "weights": find_local,
    "merges": from_list,
    "tensors": read_tensors,
    "JSON": load_json,
    "captions": captious.read,
    "study": _plan,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("kind", ["a named pipe", "a device"])
@pytest.mark.parametrize("reader", READERS)
def test_devices_and_pipes_are_refused_wherever_a_path_is_taken(reader, kind, tmp_path):
    path = tmp_path / "file.png"
    if kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    if reader == "image":
        kind = "cannot be read" if kind == "a named pipe" else "is outside"  # a link out of the folder
    with pytest.raises(InputError, match=kind):
        READERS[reader](path)


@pytest.mark.parametrize("reader", ["prompt", "key file", "owner's token"])
def test_small_texts_have_an_end(reader, tmp_path):
    path = tmp_path / "endless"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole, which takes no room on the disk
    with pytest.raises(InputError, match="contains more than 1,000,000 bytes, expected a small text"):
        READERS[reader](path)


def full_disk(monkeypatch, kind=OSError):
    """Let every write of bytes or text fail as on a full disk, which names no file."""

    def fail(self, *given, **options):
        raise kind(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write_bytes", "write_text"):
        monkeypatch.setattr(Path, name, fail)


def test_a_full_disk_is_said_with_the_name_of_the_file(tmp_path, monkeypatch):
    full_disk(monkeypatch)
    with pytest.raises(OSError) as error, write_atomically(tmp_path / "scores.csv") as draft:
        draft.write_text("a")
    assert error.value.filename == str(tmp_path / "scores.csv") and not list(tmp_path.iterdir())
    with (
        pytest.raises(OSError) as error,
        whole_folder(tmp_path / "run") as folder,
        write_atomically(folder / "items" / "a.parquet") as draft,
    ):
        draft.write_bytes(b"a")
    assert error.value.filename == str(tmp_path / "run" / "items" / "a.parquet") and not list(tmp_path.iterdir())
    with pytest.raises(InputError) as refused, whole_folder(tmp_path / "run") as folder:
        Storage.at(folder).write("captious-run.json", b"{}")
    assert str(refused.value).startswith(f"{tmp_path / 'run' / 'captious-run.json'}: cannot be written (")


def test_an_error_of_reading_keeps_its_own_name(tmp_path):
    with pytest.raises(FileNotFoundError) as error, write_atomically(tmp_path / "copy") as draft:
        draft.write_bytes((tmp_path / "none").read_bytes())
    assert error.value.filename == str(tmp_path / "none")


@pytest.mark.parametrize("out", ["run", "scores.csv", "deeper/still/run"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch, out):
    """Permissions do not tell: root may do all, and yet a system may be read-only. So a draft is made and removed."""

    def read_only(self, *given, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    refuse = refuse_existing if "." in out else refuse_occupied
    refuse(tmp_path / out)
    assert not list(tmp_path.iterdir())  # nothing is left of the trial
    monkeypatch.setattr(Path, "touch", read_only)
    message = re.escape(f"{tmp_path / out}: cannot be written (Read-only file system); name another place")
    with pytest.raises(InputError, match=f"^{message}$"):
        refuse(tmp_path / out)
