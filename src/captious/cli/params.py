"""A Python function as a command: its parameters and its option dataclasses become command-line options.

A command is a function whose parameters are annotated with an `Option`, an `Argument`, or an option dataclass. A
dataclass is flattened into one option per field (a `Param`), and rebuilt before the function is called::

    def score(predictions: Predictions, resampling: Resampling)       the function of a command
                   │                        │
                   │           ┌────────────┼───────────┐             `params_of`: a dataclass is flattened
    PREDICTIONS    ▼   --samples 100   --seed 7    --level 0.95       what a user writes, parsed by typer
                   │           └────────────┼───────────┘             `Param.read`, then the dataclass is rebuilt
                   ▼                        ▼
    score("preds.json", Resampling(samples=100, seed=7, level=0.95))

The command line is the only layer that knows flags: errors from below name arguments, and `with_flags` translates
them.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer

from captious._core.files import expanded
from captious._core.numbers import parse_number, parse_whole
from captious._core.specs import split_specs
from captious.cli.commands import Command
from captious.cli.messages import with_flags
from captious.errors import InputError
from captious.options import WORDING, Argument, Declared, Option, check_value, choices_of, declared, without_none

Function = TypeVar("Function", bound=Callable[..., Any])
REQUIRED = inspect.Parameter.empty


class Omit:
    """Fields of an option dataclass that a command does not show; they keep their defaults."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def hides(self, name: str) -> bool:
        """Whether the command lacks this field."""
        return name in self.names


class Only(Omit):
    """The only fields of an option dataclass that a command shows."""

    def hides(self, name: str) -> bool:
        """Whether the command lacks this field."""
        return name not in self.names


def command(app: typer.Typer, name: str | None = None, panel: str | None = None) -> Callable[[Function], Function]:
    """Register a function as a command; the function itself stays as it is."""

    def register(function: Function) -> Function:
        app.command(name, cls=Command, rich_help_panel=panel)(flattened(function))
        return function

    return register


def flattened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with one parameter for each option, as typer reads them."""
    parts = _parts(function)
    params = params_of(function)
    twice = [name for name, number in Counter(param.name for param in params).items() if number > 1]
    if twice:
        raise TypeError(f"{function.__name__}: several options are called {twice[0]}")

    def run(**parsed: Any) -> Any:
        token = WORDING.set(partial(with_flags, params=params))
        try:
            values = {param.name: param.read(parsed[param.name]) for param in params}
            return function(**{name: _build(name, *part, values) for name, part in parts.items()})
        except InputError as error:
            from captious.io.rows import EXPECTED

            message = str(error).replace(f"expected {EXPECTED}", "expected a file of captions")
            error.args = (with_flags(message, params),)
            raise
        finally:
            WORDING.reset(token)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature([param.parameter() for param in params])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.params = params  # type: ignore[attr-defined]
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run


def _parts(function: Callable[..., Any]) -> dict[str, tuple[Declared, Any]]:
    """How each parameter of a command is declared, and its default."""
    parameters = inspect.signature(function).parameters
    return {name: (declared(function)[name], parameter.default) for name, parameter in parameters.items()}


def params_of(function: Callable[..., Any]) -> list[Param]:
    """The options and arguments of a command."""
    return [param for name, part in _parts(function).items() for param in _flatten(name, *part)]


def _flatten(name: str, declaration: Declared, default: Any, panel: str | None = None) -> Iterator[Param]:
    """The options of a parameter: one, or those of the fields of an option dataclass."""
    if _is_group(declaration.kind):
        for field, inner in _shown(declaration):
            yield from _flatten(field.name, inner, _default(field, default), declaration.kind.title)
    elif declaration.option is None:
        raise TypeError(f"{name}: expected an Option, an Argument or an option dataclass")
    else:
        kind = declaration.option.type or without_none(declaration.kind)
        panel = declaration.option.panel or panel
        yield Param(name, kind, declaration.option, default, panel, declaration.kind == str | Path | None)


def _build(name: str, declaration: Declared, default: Any, values: dict[str, Any]) -> Any:
    """The argument of a parameter, from the values of its options: the reverse of `_flatten`."""
    if not _is_group(declaration.kind):
        return values[name]
    parts = {
        field.name: _build(field.name, inner, _default(field, default), values) for field, inner in _shown(declaration)
    }
    return declaration.kind(**parts) if default is REQUIRED else replace(default, **parts)


def _is_group(kind: Any) -> bool:
    return is_dataclass(kind)


def _shown(declaration: Declared) -> Iterator[tuple[Field[Any], Declared]]:
    """The fields of an option dataclass that a command has; what it omits is omitted in nested dataclasses too."""
    narrowed = tuple(part for part in declaration.metadata if isinstance(part, Omit))
    inside = declared(declaration.kind)
    for field in fields(declaration.kind):
        inner = inside[field.name]
        if _is_group(inner.kind):
            yield field, Declared(inner.kind, (*inner.metadata, *narrowed))
        elif inner.option is not None and not any(part.hides(field.name) for part in narrowed):
            yield field, inner


def _default(field: Field[Any], owner: Any) -> Any:
    """The default of a field: that of the command's own value of the dataclass, or the field's."""
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
    """Whether it takes addresses beside paths: as a path, ``s3://bucket`` would lose a slash."""

    @property
    def flag(self) -> str:
        """The long flag; that of a switch which is on by default turns it off."""
        return f"--{'no-' if self._negative else ''}{self.name.strip('_').replace('_', '-')}"

    @property
    def _negative(self) -> bool:
        return self.kind is bool and self.default is True

    @property
    def elements(self) -> tuple[Any, ...]:
        """The types of the elements of a list; nothing for another type."""
        return get_args(self.kind) if get_origin(self.kind) in (list, tuple) else ()

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    @property
    def negation(self) -> str:
        """The flag that says no, where the default is neither yes nor no."""
        return f"/--no-{self.flag[2:]}" if self.kind is bool and self.default is None else ""

    def parameter(self) -> inspect.Parameter:
        """The parameter that typer sees."""
        option, kind, default = self.option, self._parsed_kind, self.default
        if self.elements and isinstance(default, (list, tuple)):
            default = [str(part) for part in default]
        metavar = option.metavar or ("LIST" if self.elements and not isinstance(option, Argument) else None)
        shown: dict[str, Any] = {"help": option.help, "metavar": metavar, "rich_help_panel": self.panel}
        shown |= {"min": option.min, "max": option.max, "envvar": option.env}
        shown |= {"autocompletion": complete_metrics} if option.metavar == "METRICS" else {}
        if isinstance(option, Argument):
            info = typer.Argument(**shown)
        else:
            info = typer.Option(self.flag + self.negation, *option.flags, *option.aliases, **shown)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[kind | None if default is None else kind, info],
            default=False if self._negative else default,
        )

    @property
    def _parsed_kind(self) -> Any:
        """The type that typer sees."""
        if self.addresses:
            return str
        if self.option.repeated:
            return list[str]
        if self.elements:
            return list[Path] if Path in self.elements else list[str]
        return self.kind

    def is_plain(self, value: Any) -> bool:
        """Whether a word of the command line, or a default, needs no conversion but `plain`; None is missing."""
        kind = self._parsed_kind
        if get_origin(kind) is list:
            return isinstance(value, (list, tuple))
        if kind is Path:
            return isinstance(value, (str, Path))
        if kind in (str, int, float):
            return isinstance(value, kind)
        return value in choices_of(kind)

    def find_fault(self, word: Any) -> str:
        """Return what is wrong with a word for a number; typer would take 1_000 and the digits of other scripts."""
        kind = without_none(self._parsed_kind)
        if kind not in (int, float) or not isinstance(word, str):
            return ""
        try:
            parse_whole(word) if kind is int else parse_number(word)
        except ValueError:
            number = "a whole number" if kind is int else "a number"
            return f"Invalid value for {self.flag!r}: {word[:40]!r}, expected {number}"
        return ""

    def plain(self, value: Any) -> Any:
        """The value of a plain word, as typer would give it."""
        kind = self._parsed_kind
        if get_origin(kind) is list:
            return list(map(get_args(kind)[0], value))
        return Path(value) if kind is Path else value

    def read(self, parsed: Any) -> Any:
        """The value for what typer parsed."""
        if self._negative:
            return not parsed
        if self.option.repeated:
            from captious.io.formats import FileList

            parsed = FileList(parsed) if len(parsed or ()) > 1 else (parsed or [None])[0]
        if isinstance(parsed, Path):
            return expanded(parsed)  # a shell leaves the ~ of --out=~/run to us
        if parsed == "" and self.default != "":
            if isinstance(self.option, Argument):
                raise InputError(f"{self.option.metavar or self.name.upper()} is empty, expected a text")
            raise InputError(f"{self.flag} is empty, expected {self.option.metavar or 'a text'}")
        if self.addresses and parsed is not None:
            return parsed if "://" in parsed else expanded(Path(parsed))
        if self.elements:
            return self._list(parsed) if parsed else self.default
        if self.kind in (int, float) and parsed is not None:
            check_value(self.flag, parsed, self.kind, self.option)
        return parsed

    def _list(self, parsed: list[Any]) -> Any:
        """The list or tuple that words stand for; words and numbers may be repeated or have commas."""
        kinds = [kind for kind in self.elements if kind is not Ellipsis]
        whole = Path in kinds or str | Path in kinds or isinstance(self.option, Argument)
        if set(kinds) <= {int, float} and any(not part.strip() for text in parsed for part in text.split(",")):
            raise InputError(f"{self.flag} {','.join(map(str, parsed))}: expected a number before and after each comma")
        texts = list(parsed) if whole else [part for text in parsed for part in split_specs(text)]
        if len(kinds) == 1 and texts:
            kinds *= len(texts)
        if len(texts) != len(kinds):
            wanted = f"{len(kinds)} values" if len(kinds) > 1 else "at least one value"
            raise InputError(f"{self.flag} {','.join(map(str, parsed))}: expected {wanted}")
        return get_origin(self.kind)(map(self._element, texts, kinds))

    def _element(self, text: Any, kind: Any) -> Any:
        """An element of a list, of its kind and within its bounds."""
        choices = choices_of(kind)
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


def complete_metrics(incomplete: str) -> list[str]:
    """Lists of metrics that a shell may complete the beginning of one to.

    >>> complete_metrics("bleu,ci"), complete_metrics("cid")
    (['bleu,cider'], ['cider'])
    """
    from captious.metrics.registry import ALL, names

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*names(), ALL) if name.startswith(last.lower())]
