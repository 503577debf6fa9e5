"""A Python function as a command: its parameters and its option dataclasses become command-line options.

A command is a function whose parameters are annotated with an `Option`, an `Argument`, or an option dataclass. A
dataclass is flattened into one option per field (a `Param`), and rebuilt before the function is called::

    def score(predictions: Predictions, resampling: Resampling)       the function of a command
                   │                        │
                   │           ┌────────────┼───────────┐             `list_params`: a dataclass is flattened
    PREDICTIONS    ▼   --samples 100   --seed 7    --level 0.95       what a user writes, parsed by click
                   │           └────────────┼───────────┘             `Param.read`, then the dataclass is rebuilt
                   ▼                        ▼
    score("preds.json", Resampling(samples=100, seed=7, level=0.95))

Click parses words into texts, numbers, choices and paths, and completes them. `Param.read` converts them to the values
that the function takes. Only the command line knows flags: errors of other packages name arguments, and
`replace_arguments` replaces these by flags.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from captious._core.files import expand_home
from captious._core.notation import split_specs
from captious._core.numbers import parse_number, parse_whole
from captious.errors import InputError
from captious.options import Argument, Declared, Option, check_value, get_choices, get_declarations, strip_none

REQUIRED = inspect.Parameter.empty


class Omit:
    """Fields of an option dataclass that a command does not show; they keep their defaults."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def hides(self, name: str) -> bool:
        """Return True if the command does not have this field."""
        return name in self.names


class Only(Omit):
    """Fields of an option dataclass that a command shows; it hides all others."""

    def hides(self, name: str) -> bool:
        """Return True if the command does not have this field."""
        return name not in self.names


class Rare:
    """Fields of an option dataclass that only ``--help-all`` of this command shows."""

    def __init__(self, *names: str) -> None:
        self.names = names


def _list_declarations(function: Callable[..., Any]) -> dict[str, tuple[Declared, Any]]:
    """Return the declaration and the default of each parameter of a command."""
    parameters = inspect.signature(function).parameters
    return {name: (get_declarations(function)[name], parameter.default) for name, parameter in parameters.items()}


def list_params(function: Callable[..., Any]) -> list[Param]:
    """Return the options and arguments of a command."""
    return [param for name, part in _list_declarations(function).items() for param in _flatten(name, *part)]


def build_arguments(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """Build the arguments of a command's function from the values of its options by name."""
    return {name: _build(name, *part, values) for name, part in _list_declarations(function).items()}


def _flatten(name: str, declaration: Declared, default: Any, panel: str | None = None) -> Iterator[Param]:
    """Yield the options of a parameter: one, or one per field of an option dataclass."""
    if _is_group(declaration.kind):
        rare = {name for part in declaration.metadata if isinstance(part, Rare) for name in part.names}
        for field, inner in _list_fields(declaration):
            for param in _flatten(field.name, inner, _get_default(field, default), declaration.kind.title):
                yield replace(param, rare=param.rare or param.name in rare)
    elif declaration.option is None:
        raise TypeError(f"{name}: expected an Option, an Argument or an option dataclass")
    else:
        kind = declaration.option.type or strip_none(declaration.kind)
        panel = declaration.option.panel or panel
        addresses = declaration.kind == str | Path | None
        yield Param(name, kind, declaration.option, default, panel, addresses, declaration.option.rare)


def _build(name: str, declaration: Declared, default: Any, values: dict[str, Any]) -> Any:
    """Build the argument of a parameter from the values of its options: the reverse of `_flatten`."""
    if not _is_group(declaration.kind):
        return values[name]
    parts = {
        field.name: _build(field.name, inner, _get_default(field, default), values)
        for field, inner in _list_fields(declaration)
    }
    return declaration.kind(**parts) if default is REQUIRED else replace(default, **parts)


def _is_group(kind: Any) -> bool:
    return is_dataclass(kind)


def _list_fields(declaration: Declared) -> Iterator[tuple[Field[Any], Declared]]:
    """Yield the fields of an option dataclass that a command shows; omitted names are omitted in nested dataclasses
    too.
    """
    omissions = tuple(part for part in declaration.metadata if isinstance(part, Omit))
    declarations = get_declarations(declaration.kind)
    for field in fields(declaration.kind):
        inner = declarations[field.name]
        if _is_group(inner.kind):
            yield field, Declared(inner.kind, (*inner.metadata, *omissions))
        elif inner.option is not None and not any(part.hides(field.name) for part in omissions):
            yield field, inner


def _get_default(field: Field[Any], owner: Any) -> Any:
    """Return the default of a field: from the command's own default of the dataclass, or else the field's."""
    if owner is not REQUIRED:
        return getattr(owner, field.name)
    if field.default_factory is not MISSING:
        return field.default_factory()
    return REQUIRED if field.default is MISSING else field.default


@dataclass(frozen=True)
class Param:
    """One option or argument of a command."""

    name: str
    kind: Any
    option: Option
    default: Any
    panel: str | None = None
    addresses: bool = False
    """Whether it takes addresses as well as paths: as a path, ``s3://bucket`` would lose a slash."""
    rare: bool = False
    """Whether only ``--help-all`` shows it."""

    @property
    def flag(self) -> str:
        """The long flag; for a switch that is on by default, the flag that turns it off."""
        return f"--{'no-' if self._negative else ''}{self.name.strip('_').replace('_', '-')}"

    @property
    def _negative(self) -> bool:
        return self.kind is bool and self.default is True

    @property
    def elements(self) -> tuple[Any, ...]:
        """Types of a list's elements; empty for other types."""
        return get_args(self.kind) if get_origin(self.kind) in (list, tuple) else ()

    @property
    def required(self) -> bool:
        """True if it must be given."""
        return self.default is REQUIRED

    @property
    def negation(self) -> str:
        """The negative flag of a switch that has no default."""
        return f"/--no-{self.flag[2:]}" if self.kind is bool and self.default is None else ""

    def make_parameter(self) -> click.Parameter:
        """Make the click parameter. It has no default: a missing value is None, and `read` fills it in."""
        option = self.option
        settings: dict[str, Any] = {"type": self._click_type, "required": self.required, "envvar": option.env}
        if isinstance(option, Argument):
            nargs = -1 if self.elements else 1
            return click.Argument([self.name], nargs=nargs, metavar=option.metavar or self.name.upper(), **settings)
        several = bool(self.elements or option.repeated)
        # A missing switch must be None, not False, so that `read` can tell it from one that is given.
        if self.kind is bool:
            settings = {"is_flag": True, "default": None, "required": self.required}
        return click.Option(
            [self.name, self.flag + self.negation, *option.flags, *option.aliases],
            multiple=several,
            help=option.help,
            **settings,
        )

    @property
    def _click_type(self) -> Any:
        """Click type of a value, or of an element of a list whose elements contain no commas."""
        if self.option.metavar == "METRICS":
            return _MetricsType()
        if choices := get_choices(self.kind):
            return click.Choice(choices)
        if self.kind in (int, float):
            return _WholeNumberType() if self.kind is int else _NumberType()
        if self.addresses:
            return _ADDRESS
        return _PATH if self.kind is Path or Path in self.elements else _TextType()

    def read(self, parsed: Any) -> Any:
        """Convert what click parsed to the value that the function takes."""
        if parsed is None or parsed == ():
            return self.default
        if self.kind is bool:
            return not parsed if self._negative else parsed
        if self.option.repeated:
            from captious.io.formats import FileList

            parsed = FileList(parsed) if len(parsed) > 1 else parsed[0]
        if isinstance(parsed, Path):
            return expand_home(parsed)  # shells do not expand the ~ of --out=~/run
        if parsed == "" and self.default != "":
            if isinstance(self.option, Argument):
                raise InputError(f"{self.option.metavar or self.name.upper()} is empty, expected a text")
            raise InputError(f"{self.flag} is empty, expected {self.option.metavar or 'a text'}")
        if self.addresses:
            return parsed if "://" in parsed else expand_home(Path(parsed))
        if self.elements:
            return self._read_list(list(parsed))
        if self.kind in (int, float):
            check_value(self.flag, parsed, self.kind, self.option)
        return parsed

    def _read_list(self, parsed: list[Any]) -> Any:
        """Convert words to a list or tuple; words and numbers may be repeated or separated by commas."""
        # tuple[int, ...] has one kind for all elements; tuple[str, float] one kind for each.
        kinds = [kind for kind in self.elements if kind is not Ellipsis]
        unsplit = Path in kinds or str | Path in kinds or isinstance(self.option, Argument)
        if set(kinds) <= {int, float} and any(not part.strip() for text in parsed for part in text.split(",")):
            raise InputError(f"{self.flag} {','.join(map(str, parsed))}: expected a number before and after each comma")
        texts = list(parsed) if unsplit else [part for text in parsed for part in split_specs(text)]
        if len(kinds) == 1 and texts:
            kinds *= len(texts)
        if len(texts) != len(kinds):
            wanted = f"{len(kinds)} values" if len(kinds) > 1 else "at least one value"
            raise InputError(f"{self.flag} {','.join(map(str, parsed))}: expected {wanted}")
        return get_origin(self.kind)(map(self._read_element, texts, kinds))

    def _read_element(self, text: Any, kind: Any) -> Any:
        """Convert an element of a list to its type, and check its bounds."""
        choices = get_choices(kind)
        try:
            if not choices or text in choices:
                value = parse_whole(text) if kind is int else parse_number(text) if kind is float else text
                check_value(self.flag, value, kind, self.option)
                return value
        except InputError:
            raise
        except ValueError:
            choices = ("a whole number",) if kind is int else ("a number",)
        raise InputError(f"{self.flag} {text}: expected {', '.join(choices)}")


class _WholeNumberType(click.types.IntParamType):
    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert plain decimal digits; ``int`` would also take 1_000 and the digits of other scripts."""
        try:
            return parse_whole(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value[:40]!r} is not a valid {self.name}", param, ctx)


class _NumberType(click.types.FloatParamType):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert plain decimal digits; ``float`` would also take 1_000 and the digits of other scripts."""
        try:
            return parse_number(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value[:40]!r} is not a valid {self.name}", param, ctx)


class _TextType(click.types.StringParamType):
    """A text; most are file names, which a shell completes."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return an item that lets the shell complete a file name."""
        return [CompletionItem(incomplete, type="file")]


class _MetricsType(_TextType):
    """A list of metrics."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return completions of the last metric in the list."""
        return list(map(CompletionItem, complete_metrics(incomplete)))


_PATH = click.Path(readable=False, path_type=Path)
_ADDRESS = click.Path(readable=False)  # a text: Path would collapse the slashes of s3://bucket


def complete_metrics(incomplete: str) -> list[str]:
    """Return the lists of metrics that complete the beginning of one.

    >>> complete_metrics("bleu,ci"), complete_metrics("cid")
    (['bleu,cider'], ['cider'])
    """
    from captious.metrics.registry import ALL, names

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*names(), ALL) if name.startswith(last.lower())]
