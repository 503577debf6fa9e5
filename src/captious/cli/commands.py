"""Commands and groups of commands as typer runs them, with our help and our refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from captious.cli.params import Param


class Command(TyperCommand):
    """A command that refuses what it would otherwise drop: an option given twice, an argument too many."""

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the help."""
        from captious.cli.help import command_help

        formatter.write(command_help(ctx.command_path, self.help or "", self._own_params))

    @property
    def _own_params(self) -> Sequence[Param]:
        params: Sequence[Param] = getattr(self.callback, "params", ())
        return params

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse, after these two checks; a line that a shell completes is not whole yet."""
        flags = [param.flag for param in self._own_params if param.option.words]
        args = _one_word_each(args, flags)
        if not ctx.resilient_parsing and not set(args).intersection(ctx.help_option_names):
            values, extra, order = self.make_parser(ctx).parse_args(list(args))
            for param in self.params:
                if param.param_type_name == "argument" and param.required and not values.get(param.name):
                    for flag in set(flags).intersection(args):
                        ctx.fail(f"no {param.metavar or param.name}, expected it before {flag}")
            for param, number in Counter(order).items():
                if number > 1 and not getattr(param, "multiple", False):
                    ctx.fail(f"{param.opts[0]} is given {number} times, expected once")
            if extra:
                ctx.fail(f"unexpected argument {extra[0]}{self._hint(extra)}")
        _convert_plainly(self.get_params(ctx), self._own_params)
        return super().parse_args(ctx, args)

    def _hint(self, extra: Sequence[str]) -> str:
        """What arguments too many may be: references, or the many files that a shell makes of a pattern of shards."""
        names = {param.name for param in self.params}
        if len(extra) > 1 and {"predictions", "engine"} <= names:
            return f"; of {len(extra) + 1:,} shards write the pattern in quotes, such as '*{Path(extra[0]).suffix}'"
        return f"; if it holds references, write -r {extra[0]}" if "references" in names else ""


def _convert_plainly(params: Sequence[Any], own: Sequence[Param] = ()) -> None:
    """Convert what needs no conversion without typer.

    Typer converts each value by an adapter of pydantic. Its import and the adapters of all options of a command take a
    fifth of the time of scoring a small file; texts, paths, defaults and options that are not given need none.
    """
    by_name = {param.name: param for param in own}
    for param in params:
        param.process_value = partial(_process_value, by_name.get(param.name), param)


def _process_value(own: Param | None, param: Any, ctx: typer.Context, value: Any) -> Any:
    """The value of an option or argument; typer is asked where it is missing, a number or wrong."""
    if value is None and not param.required:
        value = () if param.nargs == -1 or getattr(param, "multiple", False) else None
    elif own is not None and own.is_plain(value):
        value = own.plain(value)
    else:
        if own is not None and (fault := own.find_fault(value)):
            ctx.fail(fault)
        return type(param).process_value(param, ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


class CommandGroup(TyperGroup):
    """A group of commands with our help."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the options of the group itself."""
        _convert_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the help: the commands in their panels, then the options."""
        from captious.cli.help import HelpRow, group_help

        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            HelpRow(getattr(command, "rich_help_panel", None) or "Commands", name, "", command.get_short_help_str(300))
            for name, command in commands
            if command is not None
        ]
        options = [(", ".join(param.opts), getattr(param, "help", "") or "") for param in self.get_params(ctx)]
        formatter.write(group_help(ctx.command_path, self.help or "", options, rows))


def _one_word_each(args: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words of a command line with a flag before each word that belongs to it.

    >>> _one_word_each(["new.toml", "--captions", "a.json", "b.json", "--images", "photos"], ["--captions"])
    ['new.toml', '--captions', 'a.json', '--captions', 'b.json', '--images', 'photos']
    """
    words: list[str] = []
    flag = ""
    for index, word in enumerate(args):
        if word == "--":
            return [*words, *args[index:]]
        if word.startswith("-") and word != "-":
            flag = word.partition("=")[0] if word.partition("=")[0] in flags else ""
        elif flag and words[-1] != flag:
            words.append(flag)
        words.append(word)
    return words
