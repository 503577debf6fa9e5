"""Panels that recruit raters: the URL parameter with the participant's id, and the addresses to which raters return.

A panel sends participants to an address of the study that contains their id, and expects them back at an address of the
panel. Presets have the values that a panel documents; every value can be changed in the study file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from captious._core.records import format_value, rule
from captious.errors import InputError
from captious.studio.collect._wording import find_placeholders

Outcome = Literal["completed", "screened", "full"]
OUTCOMES: tuple[Outcome, ...] = ("completed", "screened", "full")
# Name in an address that is replaced by the participant's id.
ID = "id"
# Name in `Preset.return_address` that is replaced by a code.
CODE = "code"


@dataclass(frozen=True)
class RaterPanel:
    """A panel of participants, as the table ``[panel]`` of a study describes it."""

    name: str
    """``prolific``, ``connect``, ``sona``, or the name of another panel, as raters read it."""
    parameter: str = ""
    """Parameter of the study's address with the participant's id."""
    others: tuple[str, ...] = field(default=(), metadata=rule('a list of parameters, such as ["SESSION_ID"]'))
    """Other parameters of the address that are stored with the id."""
    completed: str | None = None
    """Address to which raters return after their tasks, in which ``{id}`` is the participant's id; or a code."""
    screened: str | None = None
    """Address or code for raters who are screened out by their answers to the questions before the first task."""
    full: str | None = None
    """Address or code for raters who come when no task is left."""
    excluded: str = ""
    """Plain text for raters whom the owner has excluded; if it is empty, they see a default text."""
    keys: str | None = field(default=None, metadata=rule("the name of a file"))
    """File of Prolific's public keys; with it, only visitors whose address is signed by Prolific are admitted."""

    @property
    def title(self) -> str:
        """The name that raters read."""
        return PRESETS[self.name].title if self.name in PRESETS else self.name

    @property
    def query(self) -> str:
        """The parameters that the owner adds to the study's address in the panel's form; empty if the panel does."""
        return PRESETS[self.name].query.format(parameter=self.parameter) if self.name in PRESETS else ""

    def read_person(self, parameters: Mapping[str, str]) -> str:
        """Return the participant's id among the parameters of a visit; empty if there is none.

        >>> sona = RaterPanel("sona", "survey_code")
        >>> sona.read_person({"survey_code": "1234"}), sona.read_person({"survey_code": "%SURVEY_CODE%"})
        ('1234', '')
        """
        person = parameters.get(self.parameter, "")
        # If a panel did not fill in its placeholder, all participants would have the same id and become one rater.
        return "" if _PLACEHOLDER.search(person) else person

    def find_end(self, outcome: Outcome, parameters: Mapping[str, str]) -> tuple[str, str]:
        """Return the code to show a rater at the end, and the address to return to; either may be empty.

        >>> sona = RaterPanel("sona", "survey_code", completed="https://u.example/credit?survey_code={id}")
        >>> sona.find_end("completed", {"survey_code": "12&3"})
        ('', 'https://u.example/credit?survey_code=12%263')
        >>> RaterPanel("prolific", "PROLIFIC_PID", full="C2").find_end("full", {})
        ('C2', 'https://app.prolific.com/submissions/complete?cc=C2')
        """
        value = getattr(self, outcome) or ""
        if is_address(value):
            names = {ID: parameters.get(self.parameter, ""), **{name: parameters.get(name, "") for name in self.others}}
            return "", value.format(**{name: quote(text, safe="") for name, text in names.items()})
        template = PRESETS[self.name].return_address if self.name in PRESETS else ""
        return value, template.format(code=quote(value)) if value and template else ""


@dataclass(frozen=True)
class Preset:
    """The values that a panel documents about its addresses."""

    title: str
    parameter: str
    others: tuple[str, ...] = ()
    query: str = ""
    return_address: str = ""
    """Address of the panel for a completion code."""


# Sources, read in November 2026. Prolific: its help pages on URL parameters and completion paths. SONA: its researcher
# documentation on %SURVEY_CODE% and the client-side completion URL; the name of the parameter is the researcher's.
# Connect: its help page on project completion, which gives every project a redirect URL or a code of its own; the names
# of its parameters are those that potato's guide to Connect gives.
PRESETS: Mapping[str, Preset] = {
    "prolific": Preset(
        "Prolific",
        "PROLIFIC_PID",
        ("STUDY_ID", "SESSION_ID"),
        "{parameter}={{{{%PROLIFIC_PID%}}}}&STUDY_ID={{{{%STUDY_ID%}}}}&SESSION_ID={{{{%SESSION_ID%}}}}",
        "https://app.prolific.com/submissions/complete?cc={code}",
    ),
    "connect": Preset("CloudResearch Connect", "participantId", ("assignmentId", "projectId")),
    "sona": Preset("SONA", "survey_code", (), "{parameter}=%SURVEY_CODE%"),
}
_PLACEHOLDER = re.compile(r"%\w+%|[{}]")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CODE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ADDRESS = re.compile(r"[!#-;=?-Z_a-~\[\]]{1,2000}")


def is_address(text: str) -> bool:
    """Return True if a text is meant as an address, not as a code."""
    return ":" in text or "/" in text


def fill_in_preset(panel: RaterPanel) -> RaterPanel:
    """Return a panel with the values of its preset that the study file does not set."""
    preset = PRESETS.get(panel.name)
    if preset is None:
        return panel
    values = {one.name: getattr(preset, one.name) for one in fields(preset) if one.name in ("parameter", "others")}
    return replace(panel, **{name: value for name, value in values.items() if not getattr(panel, name)})


def check_code(name: str, code: str | None, where: str, other: str = "") -> None:
    """Raise `InputError` if a completion code has characters that people cannot copy safely."""
    if code is not None and not _CODE.fullmatch(code):
        raise InputError(f"{where}: {name} = {format_value(code)}, expected a code of letters, digits, - and _{other}")


def check_panel(panel: RaterPanel, where: str) -> None:
    """Raise `InputError` for invalid values of a panel."""
    if not panel.name.isprintable() or len(panel.name) > 60:
        raise InputError(f"{where}: name = {format_value(panel.name)}, expected a line of at most 60 characters")
    if not panel.parameter:
        raise InputError(
            f"{where}: name = {panel.name!r} without parameter, expected the name of the parameter with the "
            f"participant's id in the address; known without it: {', '.join(PRESETS)}"
        )
    for name in (panel.parameter, *panel.others):
        if not _PARAMETER.fullmatch(name):
            raise InputError(f"{where}: parameter {format_value(name)}, expected letters, digits, ., - and _")
    if ID in panel.others or len({panel.parameter, *panel.others}) <= len(panel.others):
        raise InputError(f"{where}: others = {format_value(panel.others)}, expected names that differ from parameter")
    for outcome in OUTCOMES:
        _check_end(panel, outcome, where)
    if panel.completed is None:
        raise InputError(f"{where}: no completed, expected the address to which raters return, or a completion code")
    if panel.keys is not None and panel.name != "prolific":
        raise InputError(f"{where}: keys is for name = 'prolific', and name is {panel.name!r}")


def _check_end(panel: RaterPanel, outcome: Outcome, where: str) -> None:
    value: Any = getattr(panel, outcome)
    if value is None:
        return
    if not is_address(value):
        check_code(outcome, value, where, ", or an address that begins with https://")
        return
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme == "https" and bool(parts.hostname) and "{" not in parts.netloc
    except ValueError:
        is_valid = False
    if not is_valid or not _ADDRESS.fullmatch(value):
        raise InputError(f"{where}: {outcome} = {format_value(value)}, expected an address that begins with https://")
    names = {ID, *panel.others}
    if unknown := sorted(find_placeholders(value) - names):
        known = ", ".join(f"{{{name}}}" for name in sorted(names))
        raise InputError(f"{where}: {outcome} has {{{unknown[0]}}}, expected one of {known}")
