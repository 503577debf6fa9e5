"""Human ratings against measurements: which metric agrees with people, and is the difference real."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
