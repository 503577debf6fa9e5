"""A gate as JUnit XML, which most CI servers show: a test case for each metric."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from captious.gating.verdict import Gate, GateRow

SUITE = "captious gate"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as an entity."""


def junit(gate: Gate) -> str:
    """A failure for each metric that is worse, and a skipped test for each that cannot be decided.

    With ``undecided="fail"`` what cannot be decided is a failure too.
    """
    suite = ElementTree.Element("testsuite", {"name": SUITE, "tests": str(len(gate.rows)), "errors": "0"})
    _add_verdict(suite, gate.verdict)
    failures = skipped = 0
    for row in gate.rows:
        case = ElementTree.SubElement(suite, "testcase", {"classname": SUITE, "name": _clean(row.metric)})
        if row.verdict == "worse" or (row.verdict == "undecided" and gate.undecided == "fail"):
            failures += 1
            element = ElementTree.SubElement(case, "failure", {"type": row.verdict, "message": _line(row)})
            element.text = _clean(gate.headline)
        elif row.verdict == "undecided":
            skipped += 1
            ElementTree.SubElement(case, "skipped", {"message": _clean(row.reason) or _line(row)})
        ElementTree.SubElement(case, "system-out").text = _line(row)
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    return _text(suite)


def junit_error(message: str) -> str:
    """The report of a gate whose input could not be used."""
    suite = ElementTree.Element(
        "testsuite", {"name": SUITE, "tests": "1", "errors": "1", "failures": "0", "skipped": "0"}
    )
    _add_verdict(suite, "error")
    case = ElementTree.SubElement(suite, "testcase", {"classname": SUITE, "name": "input"})
    ElementTree.SubElement(case, "error", {"type": "input", "message": _clean(message)})
    return _text(suite)


def _add_verdict(suite: ElementTree.Element, verdict: str) -> None:
    """Store the verdict itself as a property: the exit code of an undecided gate is what ``undecided`` sets."""
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", {"name": "verdict", "value": verdict})


def _line(row: GateRow) -> str:
    sign = "−" if row.higher_is_better else "+"
    return (
        f"{_clean(row.label)}: base {row.base:.6g}, new {row.new:.6g}, difference {row.difference:+.6g}, "
        f"bounds {row.low:+.6g} to {row.high:+.6g}, margin {sign}{row.margin:.6g}, p (worse, Holm) {row.p_holm:.4g}, "
        f"{row.items} items"
    )


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


def _text(suite: ElementTree.Element) -> str:
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
