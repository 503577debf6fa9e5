"""Statistics on plain numbers: resampling, tests, Kendall's tau, correlation, agreement. No caption comes here."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
