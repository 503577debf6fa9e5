"""Executors of many tasks: this process, several processes of this machine, or a Ray cluster. No caption comes here."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
