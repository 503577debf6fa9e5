"""A small and safe subset of Markdown for texts of the study's owner, rendered as HTML.

It has paragraphs, lists, ``**bold**``, ``*italics*`` and images from the study's folder. Links and HTML are shown as
written. Line ends are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from captious.studio.collect.study_plan import Plan

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markupsafe import Markup


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("zero", {"html": False}).enable(["list", "emphasis", "image", "escape"])


def list_markdown_texts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the texts of a study that are Markdown, with their keys in the study file."""
    yield from (("instructions", plan.instructions), ("consent", plan.consent))


def list_example_images(plan: Plan) -> list[str]:
    """Return the names of the images in the texts of a study, without duplicates."""
    tokens = (token for _, text in list_markdown_texts(plan) for token in _make_parser().parse(text))
    return list(dict.fromkeys(_get_file_name(image) for token in tokens for image in _list_images(token)))


def _list_images(token: Token) -> Iterator[Token]:
    return (child for child in token.children or () if child.type == "image")


def _has_words(token: Token | None) -> bool:
    """Return True if a paragraph has text; one of images only needs no text direction."""
    return token is not None and any(child.type == "text" and child.content.strip() for child in token.children or ())


def _get_file_name(image: Token) -> str:
    """Return the name of an image as the owner wrote it; the parser has quoted it for a URL."""
    return unquote(str(image.attrs["src"]))


def render_prose(text: str, addresses: Mapping[str, str], alt: str) -> Markup:
    r"""Render a text as HTML. `addresses` are the image URLs by name; `alt` describes an image without a text.

    >>> print(render_prose("A **bold** word <b>\n\n- one\n- two", {}, ""))
    <p dir="auto">A <strong>bold</strong> word &lt;b&gt;</p>
    <ul>
    <li dir="auto">one</li>
    <li dir="auto">two</li>
    </ul>
    <BLANKLINE>
    """
    from markupsafe import Markup  # of the extra `studio`: without it, captious studio check names the extra

    parser = _make_parser()
    tokens = parser.parse(text)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "list_item_open" or (token.type == "paragraph_open" and _has_words(following)):
            token.attrSet("dir", "auto")
        for image in _list_images(token):
            address = addresses.get(_get_file_name(image), "")
            # Not lazy: who unfolds the instructions after the network is gone still sees their images.
            image.attrs = {"src": address, "alt": ""}
            if not image.content:
                image.children = parser.parseInline(alt)[0].children
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # the parser escapes everything
