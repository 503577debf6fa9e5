"""``make test`` says which programs are missing; only CI installs them, and only as root."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "lab" / "programs.sh"


@pytest.fixture
def machine(tmp_path):
    """A folder of programs, no browser among them; ``apt-get`` writes down how it was called."""
    for name in ("sh", "ls"):
        (tmp_path / name).symlink_to(shutil.which(name))
    program(tmp_path / "apt-get", 'echo "$@" >> "$0.calls"')
    program(tmp_path / "id", "echo 0")
    return tmp_path


def program(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def run(machine, **variables):
    done = subprocess.run(
        ["sh", SCRIPT], env={"PATH": str(machine), **variables}, capture_output=True, text=True, check=True
    )
    calls = machine / "apt-get.calls"
    return done.stdout, calls.read_text() if calls.exists() else ""


def test_a_missing_browser_is_named_and_nothing_is_installed(machine):
    printed, installed = run(machine)
    assert "apt-get install" in printed and "chromium" in printed and installed == ""


def test_ci_installs_it_as_root(machine):
    printed, installed = run(machine, CI="true")
    update, install = installed.splitlines()
    assert update.startswith("update") and install.startswith("install") and "chromium" in install
    assert printed == ""


def test_ci_installs_the_browser_without_a_window_where_apt_has_it(machine):
    program(machine / "apt-cache", 'test "$1" = show')
    _, installed = run(machine, CI="true")
    assert "chromium-headless-shell" in installed.splitlines()[1].split()
    program(machine / "chromium-headless-shell", "exit 1")
    assert "chromium" not in run(machine)[0]


def test_ci_installs_nothing_for_another_user(machine):
    program(machine / "id", "echo 1000")
    printed, installed = run(machine, CI="true")
    assert "chromium" in printed and installed == ""


def test_a_failed_installation_is_said_and_is_no_failure(machine):
    program(machine / "apt-get", "exit 100")
    printed, _ = run(machine, CI="true")
    assert "could not install" in printed and "skip" in printed


def test_a_machine_with_both_is_silent(machine):
    for name in ("chromium", "initdb"):
        program(machine / name, "exit 1")
    assert run(machine, CI="true") == ("", "")
