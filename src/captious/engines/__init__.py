"""Executors of many tasks: this process, several processes of this machine, or a Ray cluster. No caption comes here."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
