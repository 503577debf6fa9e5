"""Rendering of pages as HTML: templates with their filters, keyboard shortcuts, and the error page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from captious.studio.collect._events import Page
from captious.studio.collect._safe_markdown import list_example_images, render_prose
from captious.studio.collect.kinds import Gap, Incomplete, kind_of
from captious.studio.collect.study_plan import Aspect, Plan

FOLDER = Path(__file__).parents[1] / "pages"
# Media types of static files; the other files of the folder are templates.
MEDIA = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# Maximum length of a comment.
COMMENT = 2000
# Names of the texts that the script of a page shows.
SCRIPT = (
    *("saving", "saved", "will_retry", "not_saved_yet_reason", "not_saved_reason", "not_saved_missing"),
    *("moved", "time_over", "watch_first", "watched", "cannot_play", "frames_of_video", "event_of", "video_length"),
)


class PageRenderer:
    """Renderer of the pages of one study. Everything that comes from a file or a rater is escaped."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.words = plan.wording

    @cached_property
    def environment(self) -> Environment:
        """The Jinja environment with its filters and globals."""
        environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        # The templates know the filters by these names.
        environment.filters |= {"anchor": make_anchor, "keyed": format_points, "sentence": capitalize_first}
        environment.filters |= {"number": format_point, "prose": self.render_prose}
        script = {name: self.words.texts[name] for name in SCRIPT}
        environment.globals |= {"static": self.get_static_address, "title": self.plan.title, "say": self.say}
        environment.globals |= {"language": self.words.language, "direction": self.words.direction, "script": script}
        return environment

    def say(self, name: str, /, **values: Any) -> Markup:
        """Return a text of the pages in the language of the study; values are escaped unless they are `Markup`."""
        return escape(self.words.texts[name]).format(**values)

    @cached_property
    def examples(self) -> list[str]:
        """The names of the images in the texts of the study; their URLs have the index, ``/example/0``."""
        return list_example_images(self.plan)

    def render_prose(self, text: str) -> Markup:
        """Render Markdown of the owner as HTML, cached by text."""
        if text not in self._prose:
            addresses = {name: f"/example/{index}" for index, name in enumerate(self.examples)}
            self._prose[text] = render_prose(text, addresses, self.words("example_image"))
        return self._prose[text]

    @cached_property
    def _prose(self) -> dict[str, Markup]:
        return {}

    @cached_property
    def static_files(self) -> dict[str, tuple[bytes, str]]:
        """Content and media type of the static files."""
        files = [path for path in FOLDER.iterdir() if path.suffix in MEDIA]
        return {path.name: (path.read_bytes(), MEDIA[path.suffix]) for path in files}

    @cached_property
    def _versions(self) -> dict[str, str]:
        return {name: hashlib.sha256(content).hexdigest()[:10] for name, (content, _) in self.static_files.items()}

    def get_static_address(self, name: str) -> str:
        """Return the URL of a static file, with a hash of its content, so that browsers may cache it."""
        return f"/static/{name}?v={self._versions[name]}"

    def render(self, template: str, **values: Any) -> str:
        """Render a template."""
        return self.environment.get_template(template).render(**values)

    def render_error(self, status: int, message: str) -> str:
        """Render the error page of a status code."""
        heading = self.words.texts.get(f"heading_{status}", self.words("heading_400"))
        return self.render("error.html", status=status, heading=heading, message=self.words.translate_english(message))

    def render_task(self, page: Page, form: Mapping[str, str], gaps: Sequence[Gap] = (), **values: Any) -> str:
        """Render the page of a task, with the values of its form and the gaps in them."""
        plan, task = self.plan, page.task
        choices = {choice.id: choice for choice in task.choices}
        return self.render(
            "task.html",
            plan=plan,
            page=page,
            choices=[choices[name] for name in page.order if name in choices],
            things=page.order,
            lacks=_list_missing(plan, page),
            references=task.references if plan.show_references else (),
            form={"comment": "", **form},
            gaps=gaps,
            brief=plan.summary,
            full=plan.details,
            help=list_keys(plan),
            most=COMMENT,
            characters=self.words.format_number(COMMENT),
            **{"sound": "", "clip": None, **values},
        )


class RendererInForce:
    """A function that returns the renderer of the current plan, with a new one after each amendment."""

    def __init__(self, plan: Callable[[], Plan]) -> None:
        self._plan = plan
        self._renderer = PageRenderer(plan())

    def __call__(self) -> PageRenderer:
        """Return the renderer of the current plan."""
        plan = self._plan()
        if plan is not self._renderer.plan:
            self._renderer = PageRenderer(plan)
        return self._renderer


def _list_missing(plan: Plan, page: Page) -> dict[str, str]:
    """Return the message that each field shows if it is left empty: the errors of an empty form."""
    try:
        kind_of(plan).read(plan, page.task, page.order, {})
    except Incomplete as error:
        return {gap.field: gap.message for gap in error.gaps}
    return {}


def make_anchor(field: str) -> str:
    """Return the HTML id of a form field.

    >>> make_anchor("rating:0:word choice")
    'rating-0-word-choice'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", field)


def capitalize_first(text: str) -> str:
    """Return the text with its first letter in upper case, as a heading.

    >>> capitalize_first("word choice of NASA")
    'Word choice of NASA'
    """
    return text[:1].upper() + text[1:]


def format_point(point: float) -> str:
    """Format a point of a scale, with a typographic minus sign.

    >>> format_point(-0.5), format_point(4.0)
    ('−0.5', '4')
    """
    return f"{point:g}".replace("-", "−")


def find_key(aspect: Aspect, point: float) -> str:
    """Return the digit key of a point: its value if all points are single digits, otherwise its place on the scale.

    >>> find_key(Aspect("fluency", "", (1, 5)), 4), find_key(Aspect("penalty", "", (-1, -0.5, 0)), -0.5)
    ('4', '2')
    """
    digits = aspect.points[0] >= 0 and aspect.points[-1] <= 9 and all(float(one).is_integer() for one in aspect.points)
    number = int(point) if digits else aspect.points.index(point) + 1
    return str(number) if number <= 9 else ""


@cache
def format_points(aspect: Aspect) -> list[tuple[Markup, Markup, Markup]]:
    """Return for each point of a scale: the form value, the text, and the HTML attribute of its key."""
    keys = [find_key(aspect, point) for point in aspect.points]
    attributes = [Markup(' data-key="{}"').format(key) if key else Markup() for key in keys]
    points = zip(aspect.points, attributes, strict=True)
    return [(escape(f"{point:g}"), escape(format_point(point)), attribute) for point, attribute in points]


def list_keys(plan: Plan) -> list[tuple[list[str], str]]:
    """Return the keyboard shortcuts of a page, with what they do."""
    say = plan.wording
    sides = ["→", "←"] if say.direction == "rtl" else ["←", "→"]
    own: dict[str, list[tuple[list[str], str]]] = {
        "ratings": [*_list_scale_keys(plan), (["↑", "↓"], say("key_scales")), (sides, say("key_lower_higher"))],
        "ranking": [
            (["1", "2", "…"], say("key_place")),
            (["↑", "↓"], say("key_captions")),
            (["Alt ↑", "Alt ↓"], say("key_move")),
        ],
        "pairs": [
            (sides, say("key_sides")),
            *([(["e"], say("key_equal"))] if plan.ties else []),
            *([(["b"], say("key_both_bad"))] if plan.both_bad else []),
        ],
        "yesno": [(["y", "n"], say("key_yes_no")), (["↑", "↓"], say("key_lines"))],
        "labels": [([option.key], option.text or option.name) for option in plan.options],
    }
    cannot = [(["x"], say("key_cannot"))] if plan.cannot_judge and plan.kind not in ("ranking", "pairs") else []
    back = ["u", "Backspace"] if "u" not in {option.key for option in plan.options} else ["Backspace"]
    play = ["p"] if (plan.audio or plan.videos) and "p" not in {option.key for option in plan.options} else []
    shared = [
        *([(play, say("key_play_video" if plan.videos else "key_play"))] if play else []),
        (["Enter"], say("key_save")),
        (["Ctrl Enter"], say("key_save_comment")),
        (back, say("key_back")),
        (["?"], say("key_help")),
    ]
    return [*own[plan.kind], *cannot, *shared]


def _list_scale_keys(plan: Plan) -> list[tuple[list[str], str]]:
    scales = [aspect for aspect in plan.aspects if len(aspect.points) <= 9]
    spans = sorted({(find_key(aspect, aspect.points[0]), find_key(aspect, aspect.points[-1])) for aspect in scales})
    return [([first, "…", last], plan.wording("key_rating")) for first, last in spans]
