"""Makes docstrings Markdown before mkdocstrings renders them."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Doctests become code blocks, an option's help text documents its field, and attributes are a list."""

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

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Move what is said of fields and properties into the class, as its section Attributes."""
        attributes = [member for member in cls.members.values() if member.is_attribute and member.docstring is not None]
        rows = [
            f"{one.name} : {one.annotation}\n{_indented(one.docstring.value)}"
            for one in attributes
            if not one.name.startswith("_") and ">>>" not in one.docstring.value
        ]
        if not rows:
            return
        text = cls.docstring.value.rstrip() if cls.docstring is not None else ""
        section = "\n".join(["Attributes", "----------", *rows])
        before, examples, after = text.partition("\nExamples\n--------\n")
        cls.docstring = griffe.Docstring(f"{before}\n\n{section}\n{examples}{after}", parent=cls)
        for one in attributes:
            if ">>>" not in one.docstring.value:
                one.docstring = None


def markdown(text: str) -> str:
    """A docstring as Markdown. After a section such as Parameters its doctests become the section Examples."""
    text = re.sub(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"(?m)^::\n", "", re.sub(r"(?m)(?<=\w)::$", ":", text))
    sections = re.split(r"(?m)^(?=\w.*\n---+$)", text, maxsplit=1)
    sections[0] = _DOCTEST.sub(r"```pycon\n\g<0>\n```", sections[0])
    if len(sections) > 1:
        sections[1] = _SEVERAL.sub(_one_by_one, sections[1])
        if "\nExamples\n" not in sections[1]:
            sections[1] = _DOCTEST.sub(r"Examples\n--------\n\g<0>", sections[1], count=1)
    return "".join(sections)


def _one_by_one(match: re.Match[str]) -> str:
    """Parameters that share a description get it each, for their types differ."""
    return "".join(f"{name}\n{match[2]}" for name in match[1].split(", "))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*(?:\n\n>>> .*(?:\n.+)*)*", re.MULTILINE)
_SEVERAL = re.compile(r"^(\w+(?:, \w+)+)\n((?:    .*\n?)+)", re.MULTILINE)
