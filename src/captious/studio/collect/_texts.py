"""Check of the texts that raters read against the study: numbers, scales and words; and the plain text of a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

from captious.errors import InputError, require
from captious.io.check import Finding
from captious.studio.access import find_image_file
from captious.studio.collect._events import Page, count_pages, count_work, make_generator
from captious.studio.collect._wording import Wording
from captious.studio.collect.rating_tasks import Task, count_gold
from captious.studio.collect.study_plan import Plan

# Placeholder of a template, which the owner has to replace.
LEFT = re.compile(r"<<(.*?)>>", re.DOTALL)
_NUMBER = r"[-−]?\d+(?:\.\d+)?"
# The two ends of a scale, in the languages that have a table.
_SPAN = re.compile(rf"({_NUMBER})\s*(?:to|bis|à|a|–|…|到|至|から|إلى)\s*({_NUMBER})(?!\s*%)")
_KEYS = re.compile(r"\bkeys? ((?:\S, )*\S(?: (?:and|or) \S)?)(?![\w-])", re.IGNORECASE)


def list_texts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield key and text of everything in the plan that raters read."""
    yield from (("title", plan.title), ("instructions", plan.instructions), ("consent", plan.consent))
    yield ("question", plan.question)
    for aspect in plan.aspects:
        yield from ((f"aspect {aspect.name}", text) for text in (aspect.question, *aspect.ends, *aspect.faults))
    yield from ((f"option {option.name}", option.text) for option in plan.options)
    yield from ((f"question {one.name}", one.question) for one in plan.questions)


def refuse_unwritten(plan: Plan) -> None:
    """Raise `InputError` if a placeholder of a template is left."""
    for finding in find_unwritten(plan):
        raise InputError(f"{plan.path}: {finding.message}")


def find_unwritten(plan: Plan) -> Iterator[Finding]:
    """Yield an error for each placeholder of a template that the owner has not replaced."""
    for key, text in list_texts(plan):
        for match in LEFT.finditer(text):
            yield Finding("error", f"{key}: {' '.join(match[0].split())} is left for you to write")


def check_texts(plan: Plan, tasks: Sequence[Task], minutes: float) -> Iterator[Finding]:
    """Yield findings about texts that contradict the study. `minutes` is the time of one rater."""
    yield from find_unwritten(plan)
    yield from _check_examples(plan)
    if missing := plan.wording.borrowed:
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        yield Finding("warning", f"words: {len(missing)} texts of the pages are missing and appear in English ({some})")
    work = [task for task in tasks if task.gold is None]
    for key, text in list_texts(plan):
        for message in dict.fromkeys(
            (*_check_counts(plan, work, tasks, text, minutes), *_check_words(plan, work, text))
        ):
            yield Finding("warning", f"{key}: {message}")


def _check_examples(plan: Plan) -> Iterator[Finding]:
    """Yield an error for each image of the texts that cannot be shown."""
    from captious.studio.collect._safe_markdown import list_example_images

    for name in list_example_images(plan):
        if plan.images is None:
            yield Finding("error", f"the texts show the image {name!r}, and there is no images, a folder to find it in")
            continue
        try:
            find_image_file(plan.file(plan.images), name)
        except InputError as error:
            yield Finding("error", f"the texts show an image: {error}")


def _check_counts(plan: Plan, work: Sequence[Task], tasks: Sequence[Task], text: str, minutes: float) -> Iterator[str]:
    """Yield a message for each number in the text that the study contradicts."""
    sizes = Counter(len(task.choices) for task in work)
    pages = count_pages(plan, len(work), count_gold(tasks))
    share = count_work(plan, len(work))
    captions = {*sizes, sum(len(task.choices) for task in work), *(size * share for size in sizes)}
    scales = {len(plan.aspects), *Counter(aspect.points for aspect in plan.aspects).values()}
    labels = {len(plan.options), len(plan.options) + plan.cannot_judge}
    known: list[tuple[str, set[int], str]] = [
        ("captions", captions - {0}, f"a page has {_format_either(sizes)}"),
        ("scales", scales - {0}, f"the study has {len(plan.aspects)}"),
        ("labels", labels - {0}, f"the study has {len(plan.options)}"),
        ("tasks", {pages, share, len(work)}, f"a rater has {pages}"),
    ]
    for name, numbers, has in known:
        for number, phrase in _find_numbers(plan, text, name):
            if numbers and number not in numbers:
                yield f"{phrase!r}, and {has}"
    for number, phrase in _find_numbers(plan, text, "minutes"):
        if work and not 2 / 3 <= number / minutes <= 1.5:
            yield f"{phrase!r}, and seconds and per_rater make {minutes:.0f}"
    yield from _check_scales(plan, sizes, text)


def _find_numbers(plan: Plan, text: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers before a noun in a text, as digits or words, and the phrase itself.

    The texts of a study may be in English, whatever the language of its pages.
    """
    for table in (plan.wording.texts, Wording.of("en", {}).texts):
        words = {word: number for number, word in enumerate(table["number_words"].casefold().split(), 1)}
        nouns = "|".join(map(re.escape, table[f"nouns_{name}"].split()))
        written = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        # Between number and noun: a counter word as in Chinese and Japanese, or an adjective.
        pattern = rf"{_make_start_pattern(nouns)}(\d+|{written})(?:\s*\w{{0,2}}?|\s+\w+\s+)(?:{nouns})"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            number = match[1].casefold()
            yield words.get(number) or int(number), match[0]


def _check_scales(plan: Plan, sizes: Iterable[int], text: str) -> Iterator[str]:
    """Yield a message for each scale in the text that the study does not have."""
    if plan.kind == "ratings":
        ends = {(aspect.points[0], aspect.points[-1]) for aspect in plan.aspects}
    elif plan.kind == "ranking":
        ends = {(1, size) for size in sizes}
    else:
        return
    nouns = " ".join(plan.wording(f"nouns_{name}") for name in ("minutes", "tasks", "captions")).split()
    for match in _SPAN.finditer(text):
        low, high = (float(end.replace("−", "-")) for end in match.groups())
        counts_things = text[match.end() :].lstrip().startswith(tuple(nouns))
        if not counts_things and not any({low, high} == {*pair} for pair in ends):
            scales = _format_either(f"{pair[0]:g} to {pair[1]:g}" for pair in ends)
            yield f"{match[0]!r}, and a scale goes from {scales}"


def _check_words(plan: Plan, work: Sequence[Task], text: str) -> Iterator[str]:
    """Yield a message for each word in the text for a thing that the pages do not have."""
    shown = plan.show_references and any(task.references for task in work)
    if work and not shown and (word := _find_noun(plan, text, "nouns_reference")):
        yield f"{word!r}, and raters see no references (show_references)"
    if work and not any(task.image for task in work) and (word := _find_noun(plan, text, "nouns_image")):
        yield f"{word!r}, and no task has an image (images)"
    answers = [("cannot_judge", "cannot_judge"), ("cannot_tell", "cannot_judge")]
    answers += [("equally_good", "ties")] if plan.kind == "pairs" else []
    for name, key in answers:
        said = plan.wording(name).casefold()
        if plan.kind != "ranking" and not getattr(plan, key) and said in text.casefold():
            yield f"{said!r}, and that is no answer ({key})"
    keys = {option.key for option in plan.options}
    for match in _KEYS.finditer(text) if keys else ():
        named = {*re.split(r", | and | or ", match[1])}
        if not named <= keys | {"u", "x", "?"}:
            yield f"{match[0]!r}, and the keys of the labels are {', '.join(sorted(keys))}"


def _find_noun(plan: Plan, text: str, name: str) -> str:
    """Return the first of some nouns in a text, in the language of the pages; empty if there is none."""
    nouns = "|".join(map(re.escape, plan.wording(name).split()))
    begin = _make_start_pattern(nouns)
    match = re.search(f"{begin}(?:{nouns})" + (r"(?!\w)" if begin else ""), text, re.IGNORECASE)
    return match[0] if match else ""


def _make_start_pattern(nouns: str) -> str:
    """Return a pattern for the start of a word; empty for Chinese and Japanese, which have no spaces."""
    return "" if re.search(r"[\u3040-\u30ff\u4e00-\u9fff]", nouns) else r"(?<![\w.])"


def _format_either(values: Iterable[object]) -> str:
    return " or ".join(str(value) for value in sorted(values, key=str))


# The text of a page


def render_page_text(plan: Plan, tasks: Sequence[Task]) -> list[str]:
    """Return the lines that a rater reads before the first task and on its page; empty if there is no task."""
    require("jinja2", "studio")
    from captious.studio.collect._clips import describe_clip
    from captious.studio.collect._rendering import PageRenderer
    from captious.studio.collect.kinds import kind_of

    work = [task for task in tasks if task.gold is None]
    if not work:
        return []
    renderer = PageRenderer(plan)
    order = kind_of(plan).draw_order(plan, work[0], make_generator(plan.seed, "check"))
    total = count_pages(plan, len(work), count_gold(tasks))
    blank: dict[str, Any] = dict.fromkeys(("key", "csrf", "session", "owner", "back", "forward", "status"), "")
    pages = [renderer.render("consent.html", heading="", consent=plan.consent, **blank)] if plan.consent else []
    image, sound = "image" if work[0].image else "", "sound" if work[0].audio else ""
    shown: dict[str, Any] = {"image": image, "sound": sound, "clip": describe_clip(work[0], "")}
    pages.append(renderer.render_task(Page(work[0], "work", order, 1, total), {}, **shown, **blank))
    return [line for page in pages for line in PageText(page).lines]


class PageText(HTMLParser):
    """The visible lines of an HTML page."""

    BLOCKS = frozenset(
        ["p", "li", "h1", "h2", "div", "ul", "ol", "dl", "dt", "dd", "section", "fieldset", "legend", "summary"]
    ) | {"details", "label", "header", "main", "form"}
    HIDDEN = frozenset({"head", "dialog"})
    VOID = frozenset({"input", "img", "meta", "link", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden: list[str] = []
        self.feed(html)
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        self.lines = [line for line in lines if line not in ("", "-")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a new line for a block element; skip hidden elements."""
        values = dict(attrs)
        classes = (values.get("class") or "").split()
        if tag not in self.VOID and (
            self._hidden or tag in self.HIDDEN or "hidden" in values or "unseen" in classes or "lack" in classes
        ):
            self._hidden.append(tag)
        elif tag == "img" and not self._hidden:
            self._parts.append(f"\n[{values.get('alt')}]\n")
        elif tag in self.BLOCKS and "point" not in classes:
            self._parts.append("\n- " if tag == "li" else "\n")
        else:
            self._parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a block element, or a hidden one."""
        if self._hidden:
            self._hidden.pop()
        elif tag in self.BLOCKS and tag != "label":
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        """Add visible text; line ends of the source are spaces."""
        if not self._hidden:
            self._parts.append(data.replace("\n", " "))
