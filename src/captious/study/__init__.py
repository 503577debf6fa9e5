"""Human ratings against measurements: which metric agrees with people, and is the difference real.

``captious.study`` is this package and, called, the study itself: ``captious.study(ratings, measurements)``. A package
takes the name of its folder in its parent as soon as any of its modules is imported, so a function of that name would
be lost then; making the package itself callable is what works in every order of imports.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.study.study import Study


class _Callable(ModuleType):
    def __call__(self, ratings: Any, measurements: Any, **options: Any) -> Study:
        """A study of ratings and measurements; see `captious.study.run.study` for the options."""
        from captious.study.run import study

        return study(ratings, measurements, **options)


sys.modules[__name__].__class__ = _Callable
study = sys.modules[__name__]
