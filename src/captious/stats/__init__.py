"""Statistics on plain numbers: resampling, tests, Kendall's tau, correlation, agreement. No caption comes here."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
