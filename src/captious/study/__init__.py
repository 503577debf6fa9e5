"""Human ratings against measurements: which metric agrees with people, and is the difference real."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
