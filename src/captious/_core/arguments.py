"""Options of public functions are passed by name; a call that passes them by position still works, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def accept_positions(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take these keyword-only options by position too, in this order, as it did before version 0.3.

    >>> @accept_positions("runtime")
    ... def evaluate(captions, *, runtime=None):
    ...     return runtime
    >>> with warnings.catch_warnings(record=True) as raised:
    ...     warnings.simplefilter("always")
    ...     evaluate("captions.json", "cpu"), str(raised[0].message)
    ('cpu', 'evaluate: pass runtime=... by name; a later version refuses it by position')
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        count = sum(one.kind in kinds for one in signature(function).parameters.values())
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*args: Any, **options: Any) -> R:
            by_position = dict(zip(names, args[count:], strict=False))
            if by_position and len(args) <= count + len(names) and not by_position.keys() & options.keys():
                listed = ", ".join(f"{one}=..." for one in by_position)
                message = f"{name}: pass {listed} by name; a later version refuses it by position"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                args, options = args[:count], {**by_position, **options}
            return function(*args, **options)

        return call

    return decorate
