"""Texts as OpenAI's tokeniser cleans them: mended Unicode, HTML entities read, spaces squeezed, lower case.

The copy in ``transformers`` skips the first two, which moves the scores of captions with curly quotes.
"""

from __future__ import annotations

import html
import re

from captious.extras import require

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def cleaned(text: str) -> str:
    """A text as OpenAI's tokeniser cleans it.

    >>> cleaned("A  cat &amp;amp; a DOG ")
    'a cat & a dog'
    """
    entities = "&" in text and html.unescape(text) != text
    if entities or not text.isascii() or _CONTROL.search(text):
        text = html.unescape(html.unescape(require("ftfy", "clip").fix_text(text)))
    return " ".join(text.split()).lower()
