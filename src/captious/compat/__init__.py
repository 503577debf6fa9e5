"""Drop-in doors for scripts of other libraries: one module a library, so that only the import line changes.

``captious.compat.pycocoevalcap``, ``captious.compat.pyciderevalcap``, ``captious.compat.torchmetrics``,
``captious.compat.hf_evaluate``. The last two define subclasses of the library they are named after, so importing them
imports it; nothing else of captious does.
"""
