"""Shell completion: the script, the commands, the metrics; and it stays light."""

import os
import shutil
import subprocess
import sys

import pytest

from captious.cli.params import complete_metrics

CODE = (
    "import sys; sys.argv[0] = 'captious'; from captious.cli.app import main\n"
    "try: main()\n"
    "finally: print('numpy' in sys.modules, file=sys.stderr)"
)


def captious(*arguments, **variables):
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def completed(line):
    words = line.split(" ")
    code, out, error = captious(_CAPTIOUS_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (code, error) == (0, "False\n")  # NumPy would make a person wait
    return out.split()


def test_commands_options_choices_metrics_and_files_are_completed_without_numpy():
    assert completed("captious sc") == ["plain,score", "plain,schema"]
    assert completed("captious study r") == ["plain,run", "plain,recipes"]
    assert completed("captious score a.json --refer")[0] == "plain,--references"
    assert completed("captious score a.json --missing s") == ["plain,skip"]
    assert completed("captious score a.json -m bleu,ci") == ["plain,bleu,cider"]
    assert completed("captious study run a.json -m meteo") == ["plain,meteor"]
    assert completed("captious score pre") == ["file,pre"] and completed("captious score a.json -o ru") == ["file,ru"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_a_line_with_the_installed_script(tmp_path):
    """The script is loaded by a bash that runs our own command in place of ``captious``."""
    program = tmp_path / "captious"
    program.write_text(f"#!{sys.executable}\n{CODE}\n")
    program.chmod(0o755)
    script = captious("--show-completion", "bash")[1]
    lines = [
        script,
        "COMP_WORDS=(captious score a.json --mis) COMP_CWORD=3",
        f"_captious_completion {program} 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    ]
    done = subprocess.run(["bash", "--norc", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout.split() == ["--missing"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_named_shell_and_of_the_current_one(shell):
    code, out, _ = captious("--show-completion", shell)
    assert code == 0 and f"_CAPTIOUS_COMPLETE={shell}_complete" in out
    assert captious("--show-completion", SHELL=f"/usr/bin/{shell}")[1] == out


@pytest.mark.parametrize(
    ("shell", "script", "start"),
    [
        ("bash", ".bash_completions/captious.sh", ".bashrc"),
        ("zsh", ".zfunc/_captious", ".zshrc"),
        ("fish", ".config/fish/completions/captious.fish", None),
    ],
)
def test_the_completion_of_a_named_shell_is_installed_once(tmp_path, shell, script, start):
    if start:
        (tmp_path / start).write_text("alias ll='ls -l'\n")
    for _ in range(2):
        code, out, _ = captious("--install-completion", shell, HOME=str(tmp_path))
        assert code == 0 and out.splitlines()[0] == f"{shell} completion installed in {tmp_path / script}"
    assert f"_CAPTIOUS_COMPLETE={shell}_complete" in (tmp_path / script).read_text()
    if start:
        first, second = (tmp_path / start).read_text().splitlines()
        assert first == "alias ll='ls -l'" and ("captious.sh" if shell == "bash" else "compinit") in second


def test_an_unknown_shell_is_one_line(tmp_path):
    code, out, error = captious("--install-completion", "tcsh", HOME=str(tmp_path))
    assert code == 2 and not out and "'tcsh' is not one of" in error
    code, out, error = captious("--install-completion", HOME=str(tmp_path), SHELL="/bin/tcsh")
    assert code == 2 and not out and "$SHELL is 'tcsh', expected bash, zsh, fish" in error
    assert not list(tmp_path.iterdir())


def test_any_metric_of_a_list_is_completed():
    assert complete_metrics("CIDEr") == ["cider"]
    assert complete_metrics("all") == ["all"]
    assert complete_metrics("cider,rouge_") == ["cider,rouge_n"]
