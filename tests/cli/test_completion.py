"""Shell completion: the script, the commands, the metrics; and it stays light."""

import os
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
    code, out, error = captious(_CAPTIOUS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (code, error) == (0, "False\n")  # NumPy would make a person wait
    return out.split()


def test_commands_options_and_metrics_are_completed_without_numpy():
    assert completed("captious sc") == ["score"]
    assert completed("captious study r") == ["run", "recipes"]
    assert completed("captious score a.json --refer")[0] == "--references"
    assert completed("captious score a.json -m bleu,ci") == ["bleu,cider"]
    assert completed("captious study run a.json -m meteo") == ["meteor"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_named_shell(shell):
    code, out, _ = captious("--show-completion", shell)
    assert code == 0 and f"_CAPTIOUS_COMPLETE=complete_{shell}" in out


def test_the_completion_of_a_named_shell_is_installed(tmp_path):
    code, out, _ = captious("--install-completion", "bash", HOME=str(tmp_path))
    path = tmp_path / ".bash_completions" / "captious.sh"
    assert code == 0 and out.splitlines()[0] == f"bash completion installed in {path}" and path.exists()
    code, out, error = captious("--install-completion", "tcsh", HOME=str(tmp_path))
    assert code == 2 and not out and "'tcsh' is not one of" in error


def test_any_metric_of_a_list_is_completed():
    assert complete_metrics("CIDEr") == ["cider"]
    assert complete_metrics("all") == ["all"]
    assert complete_metrics("cider,rouge_") == ["cider,rouge_n"]
