"""Messages of the Python API adapted to the command line: flags in place of arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from captious.options import Argument

if TYPE_CHECKING:
    from captious.cli.params import Param

_ARGUMENT = re.compile(
    r"""(?<!\w)'[^']*'(?!\w)            # quoted text stays: it has no group "name"
      | \w\([^()]*\)                    # and so do parameters of a metric, such as cider(idf=refs)
      | (?:^|(?<=[\s(]))(?P<name>[a-z_]+)=(?P<value>'[^']*'|[^\s,;()]*)""",
    re.VERBOSE,
)
# Reading options as Python code passes them; on the command line each is a flag of its own.
_READING = re.compile(r"\breading=Reading\(([^()]*)\)")


def replace_arguments(message: str, params: Sequence[Param]) -> str:
    """Replace the Python arguments in a message by flags.

    >>> from captious.cli.params import Param
    >>> from captious.options import Option
    >>> images = Param("images", str, Option("Folder."), None)
    >>> several = Param("several", bool, Option("Several."), False)
    >>> replace_arguments("pass images=...; or reading=Reading(several=True), and bleu(images=1)", [images, several])
    'pass --images; or --several, and bleu(images=1)'
    """
    options = {param.name: param for param in params if not isinstance(param.option, Argument)}

    def flag(match: re.Match[str]) -> str:
        param = options.get(match["name"] or "")
        if param is None:
            return match[0]
        # "images=..." has no value, and in "seed=1." the period ends the sentence.
        value = match["value"].rstrip(".…:")
        punctuation = match["value"][len(value) :] if value else ""
        if param.kind is bool:
            # A flag sets the opposite of a switch's default. There is none for the default itself: it stays.
            return param.flag + punctuation if value == str(not param.default) else match[0]
        value = value.strip("'")
        return f"{param.flag} {value}{punctuation}" if value else param.flag

    return _ARGUMENT.sub(flag, _READING.sub(r"\1", message))
