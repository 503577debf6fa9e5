"""Click commands made from functions, and groups of commands, with our help and our error messages.

A group imports its module, and a command reads the parameters of its function, only when they are needed, so a command
that runs does not load the others.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from captious.cli.params import Param, build_arguments, list_params
from captious.errors import InputError, format_suggestion
from captious.options import WORDING, Argument

Function = TypeVar("Function", bound=Callable[..., Any])

_ARGUMENT = re.compile(
    r"""(?<!\w)'[^']*'(?!\w)            # quoted text stays: it has no group "name"
      | \w\([^()]*\)                    # and so do parameters of a metric, such as cider(idf=refs)
      | (?:^|(?<=[\s(]))(?P<name>[a-z_]+)=(?P<value>'[^']*'|[^\s,;()]*)""",
    re.VERBOSE,
)
# Reading options as Python code passes them; on the command line each is a flag of its own.
_READING = re.compile(r"\breading=Reading\(([^()]*)\)")


def command(app: CommandGroup, name: str | None = None, panel: str | None = None) -> Callable[[Function], Function]:
    """Register a function as a command of a group; the function itself is not changed."""

    def register(function: Function) -> Function:
        app.add_command(Command(function, name, panel))
        return function

    return register


class Command(click.Command):
    """A function as a command. It refuses repeated options and extra arguments."""

    def __init__(self, function: Callable[..., Any], name: str | None = None, panel: str | None = None) -> None:
        super().__init__(name or function.__name__.replace("_", "-"), callback=function, help=inspect.getdoc(function))
        self.function, self.panel = function, panel
        del self.params  # click sets it; the cached property below computes it when it is needed

    @cached_property
    def own_params(self) -> list[Param]:
        """The options and arguments of the function, as `Param`."""
        params = list_params(self.function)
        twice = [name for name, number in Counter(param.name for param in params).items() if number > 1]
        if twice:
            raise TypeError(f"{self.function.__name__}: several options are called {twice[0]}")
        return params

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """Options and arguments as click parameters."""
        return [*(param.make_parameter() for param in self.own_params), _make_help_all_option()]

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function; arguments named in its errors are replaced by the flags of this command."""
        token = WORDING.set(partial(replace_arguments, params=self.own_params))
        try:
            values = {param.name: param.read(ctx.params[param.name]) for param in self.own_params}
            return self.function(**build_arguments(self.function, values))
        except InputError as error:
            from captious.io.rows import EXPECTED

            # EXPECTED lists Python objects, which nobody can pass on a command line.
            message = str(error).replace(f"expected {EXPECTED}", "expected a file of captions")
            error.args = (replace_arguments(message, self.own_params),)
            raise
        finally:
            WORDING.reset(token)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help."""
        from captious.cli.help import format_command_help

        formatter.write(format_command_help(ctx.command_path, self.help or "", self.own_params))

    def format_full_help(self, ctx: click.Context) -> str:
        """Return the help with all options."""
        from captious.cli.help import format_command_help

        return format_command_help(ctx.command_path, self.help or "", self.own_params, full=True)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; check them first, except for help and for the incomplete line of a shell completion."""
        flags = [param.flag for param in self.own_params if param.option.words]  # take all words up to the next flag
        # Click takes one word per flag; `--captions a.json b.json` becomes `--captions a.json --captions b.json`.
        args = _repeat_flags(args, flags)
        try:
            if not ctx.resilient_parsing and not {*args}.intersection((*ctx.help_option_names, HELP_ALL)):
                self._refuse_mistakes(ctx, args, flags)
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click's parser does not set the command of a wrong option
            raise

    def _refuse_mistakes(self, ctx: click.Context, args: list[str], flags: Sequence[str]) -> None:
        """Fail on a missing argument, a repeated option or an extra argument, with a message that helps."""
        values, extra, order = self.make_parser(ctx).parse_args(list(args))
        for param in self.params:
            if (
                isinstance(param, click.Argument)
                and param.required
                and not isinstance(values.get(param.name), (str, tuple))
            ):
                # A flag that takes several words has taken the argument as one of them.
                for flag in {*flags}.intersection(args):
                    ctx.fail(f"no {param.metavar}, expected it before {flag}")
        # Click itself would silently use the last of several values.
        for param, number in Counter(order).items():
            if number > 1 and not param.multiple:
                ctx.fail(f"{param.opts[0]} is given {number} times, expected once")
        if extra:
            ctx.fail(f"unexpected argument {extra[0]}{self._format_hint(extra)}")

    def _format_hint(self, extra: Sequence[str]) -> str:
        """Return a hint about extra arguments: quote the pattern of the shards, or pass references with -r."""
        names = {param.name for param in self.own_params}
        if len(extra) > 1 and {"predictions", "engine"} <= names:
            return f"; of {len(extra) + 1:,} shards write the pattern in quotes, such as '*{Path(extra[0]).suffix}'"
        return f"; if it contains references, write -r {extra[0]}" if "references" in names else ""


class LazyCommand(Command):
    """A command whose function is imported from ``captious.cli.MODULE`` when it is run, or listed with its help."""

    def __init__(self, name: str, module: str, panel: str) -> None:
        click.Command.__init__(self, name)
        self.module, self.panel = module, panel
        del self.params, self.help  # click sets them; cached properties import the function when it is needed

    @cached_property
    def function(self) -> Callable[..., Any]:  # type: ignore[override]
        """The function of the command."""
        loaded: Callable[..., Any] = getattr(
            import_module(f"captious.cli.{self.module}"), (self.name or "").replace("-", "_")
        )
        return loaded

    @cached_property
    def help(self) -> str | None:  # type: ignore[override]
        """The docstring of the function."""
        return inspect.getdoc(self.function)


class CommandGroup(click.Group):
    """A group of commands, in the order of registration."""

    def __init__(
        self, name: str, help: str = "", panel: str | None = None, params: Sequence[click.Parameter] = ()
    ) -> None:
        settings = {"help_option_names": ["-h", "--help"]}
        super().__init__(name, help=help, context_settings=settings, params=[*params, _make_help_all_option()])
        self.panel, self.no_args_is_help = panel, False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of registration."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that the first argument names; fail with a suggestion if there is none."""
        if not ctx.resilient_parsing and args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{format_suggestion(args[0], self.commands)}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the group itself; without arguments, print the help and exit with 2."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help: the commands in their panels, then the options."""
        formatter.write(self._format_commands(ctx, [(name, one, one) for name, one in self.commands.items()]))

    def format_full_help(self, ctx: click.Context) -> str:
        """Return the help with the commands of groups, each in the panel of its group."""
        rows = []
        for name, outer in self.commands.items():
            inner = outer.commands.items() if isinstance(outer, CommandGroup) else ()
            rows += [(f"{name} {inner_name}", one, outer) for inner_name, one in inner] or [(name, outer, outer)]
        return self._format_commands(ctx, rows)

    def _format_commands(self, ctx: click.Context, commands: Sequence[tuple[str, click.Command, click.Command]]) -> str:
        """Format the help with these commands: (name, command, command whose panel it is in)."""
        from captious.cli.help import HelpRow, format_group_help

        rows = [
            HelpRow(getattr(owner, "panel", None) or "Commands", name, "", one.get_short_help_str(300))
            for name, one, owner in commands
        ]
        options = [
            (", ".join(sorted(param.opts, key=len, reverse=True)), getattr(param, "help", "") or "")
            for param in self.get_params(ctx)
        ]
        return format_group_help(ctx.command_path, self.help or "", options, rows)


class LazyGroup(CommandGroup):
    """A group whose module, ``captious.cli.NAME``, is imported when one of its commands is needed."""

    def __init__(self, name: str, help: str, panel: str) -> None:
        super().__init__(name, help, panel)
        del self.commands  # click sets it; the cached property below imports the module when it is needed

    @cached_property
    def commands(self) -> dict[str, click.Command]:  # type: ignore[override]
        """Commands of the module's ``app``."""
        loaded: dict[str, click.Command] = import_module(f"captious.cli.{self.name}").app.commands
        return loaded


HELP_ALL = "--help-all"


def _make_help_all_option() -> click.Option:
    def show(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            click.echo(ctx.command.format_full_help(ctx).rstrip())  # type: ignore[attr-defined]
            ctx.exit()

    text = "Show everything and exit."
    return click.Option([HELP_ALL], is_flag=True, is_eager=True, expose_value=False, callback=show, help=text)


def replace_arguments(message: str, params: Sequence[Param]) -> str:
    """Replace the Python arguments in a message by flags.

    >>> from captious.cli.params import Param
    >>> from captious.options import Option
    >>> images = Param("images", str, Option("Folder."), None)
    >>> several = Param("several", bool, Option("Several."), False)
    >>> replace_arguments("pass images=...; or reading=Reading(several=True), and bleu(images=1)", [images, several])
    'pass --images; or --several, and bleu(images=1)'
    """
    options = {param.name: param for param in params if not isinstance(param.option, Argument)}

    def replace_one(match: re.Match[str]) -> str:
        param = options.get(match["name"] or "")
        if param is None:
            return match[0]
        # "images=..." has no value, and in "seed=1." the period ends the sentence.
        value = match["value"].rstrip(".…:")
        punctuation = match["value"][len(value) :] if value else ""
        if param.kind is bool:
            # A switch's flag sets the opposite of its default. No flag sets the default, so that argument stays.
            return param.flag + punctuation if value == str(not param.default) else match[0]
        value = value.strip("'")
        return f"{param.flag} {value}{punctuation}" if value else param.flag

    return _ARGUMENT.sub(replace_one, _READING.sub(r"\1", message))


def _repeat_flags(args: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return a command line with each of ``flags`` repeated before all of its words, as click expects it.

    >>> _repeat_flags(["new.toml", "--captions", "a.json", "b.json", "--images", "photos"], ["--captions"])
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
