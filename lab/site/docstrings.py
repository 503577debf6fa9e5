"""Makes docstrings Markdown before mkdocstrings renders them."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Doctests become code blocks, roles become code, and an option's help text is the docstring of its field."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Show ``Annotated[type, Option(help)]`` as the type, documented by the help text."""
        if attr.annotation is None:
            return
        annotation = ast.parse(str(attr.annotation), mode="eval").body
        if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) != "Annotated":
            return
        kind, *metadata = annotation.slice.elts  # type: ignore[attr-defined]
        attr.annotation = ast.unparse(kind)
        for part in metadata:
            if isinstance(part, ast.Call) and part.args and attr.docstring is None:
                attr.docstring = griffe.Docstring(str(ast.literal_eval(part.args[0])), parent=attr)


def markdown(text: str) -> str:
    """A docstring as Markdown. After a section such as Parameters its doctests become the section Examples."""
    text = re.sub(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"(?m)(?<=\w)::$", ":", text)
    sections = re.split(r"(?m)^(?=\w.*\n---+$)", text, maxsplit=1)
    sections[0] = _DOCTEST.sub(r"```pycon\n\g<0>\n```", sections[0])
    if len(sections) > 1 and "\nExamples\n" not in sections[1]:
        sections[1] = _DOCTEST.sub(r"Examples\n--------\n\g<0>", sections[1], count=1)
    return "".join(sections)


_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*(?:\n\n>>> .*(?:\n.+)*)*", re.MULTILINE)
