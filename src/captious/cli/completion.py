"""Shell completion: click's scripts for bash, zsh and fish, printed or installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from captious.errors import InputError

SHELLS = ("bash", "zsh", "fish")
# The user's shell: the default.
CURRENT = "current"


def make_completion_options() -> list[click.Option]:
    """Return the two completion options of the root command."""
    return [
        _make_option(
            "--install-completion", _install_script, "Install completion for your shell, or for bash, zsh or fish."
        ),
        _make_option("--show-completion", _print_script, "Print the script of completion instead."),
    ]


def _make_option(flag: str, action: Callable[[str], None], text: str) -> click.Option:
    def callback(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
        if shell is not None and not ctx.resilient_parsing:
            action(_find_shell() if shell == CURRENT else shell)
            ctx.exit()

    return click.Option(
        [flag],
        type=click.Choice([*SHELLS, CURRENT]),
        is_flag=False,
        flag_value=CURRENT,
        is_eager=True,
        expose_value=False,
        callback=callback,
        help=text,
    )


def _find_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise InputError(f"$SHELL is {name!r}, expected {', '.join(SHELLS)}; name one of them after the option")
    return name


def _get_script(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(click.Group("captious"), {}, "captious", "_CAPTIOUS_COMPLETE").source()


def _print_script(shell: str) -> None:
    click.echo(_get_script(shell))


def _install_script(shell: str) -> None:
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
