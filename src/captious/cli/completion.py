"""Shell completion: click's scripts for bash, zsh and fish, printed or installed."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import get_completion_class


def _get_script(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(click.Group("captious"), {}, "captious", "_CAPTIOUS_COMPLETE").source()


def print_script(shell: str) -> None:
    """Print the script."""
    click.echo(_get_script(shell))


def install_script(shell: str) -> None:
    """Write the script, and add the line that loads it to the shell's startup file."""
    home = Path.home()
    scripts = {
        "bash": home / ".bash_completions" / "captious.sh",
        "zsh": home / ".zfunc" / "_captious",
        "fish": home / ".config" / "fish" / "completions" / "captious.fish",
    }
    starts = {
        "bash": (home / ".bashrc", f"source '{scripts['bash']}'"),
        "zsh": (home / ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    }
    scripts[shell].parent.mkdir(parents=True, exist_ok=True)
    scripts[shell].write_text(_get_script(shell), encoding="utf-8")
    if shell in starts:
        file, line = starts[shell]
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if line not in text:
            file.write_text(f"{text.rstrip()}\n{line}\n".lstrip(), encoding="utf-8")
    click.echo(f"{shell} completion installed in {scripts[shell]}")
    click.echo("Completion will take effect once you restart the terminal")
