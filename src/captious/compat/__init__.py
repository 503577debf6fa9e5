"""Drop-in replacements for other libraries: one module per library, so that only the import line changes.

``captious.compat.pycocoevalcap``, ``captious.compat.pyciderevalcap``, ``captious.compat.aac_metrics``,
``captious.compat.torchmetrics``, ``captious.compat.hf_evaluate``, ``captious.compat.transformers``. The last three
define subclasses of the library they are named after, so importing them imports it; nothing else of captious does.
"""
