"""JUnit XML of a gate, which most CI servers show: a test case for each metric."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from captious.gating.verdict import Gate, GateRow

SUITE = "captious gate"
# Characters that XML 1.0 does not allow, not even as an entity.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_junit(gate: Gate) -> str:
    """Return JUnit XML with a failure for each worse metric and a skipped test for each undecided one.

    With ``undecided="fail"`` undecided metrics are failures too.
    """
    suite = ElementTree.Element("testsuite", {"name": SUITE, "tests": str(len(gate.rows)), "errors": "0"})
    _add_verdict(suite, gate.verdict)
    failures = skipped = 0
    for row in gate.rows:
        case = ElementTree.SubElement(suite, "testcase", {"classname": SUITE, "name": _replace_forbidden(row.metric)})
        if row.verdict == "worse" or (row.verdict == "undecided" and gate.undecided == "fail"):
            failures += 1
            element = ElementTree.SubElement(case, "failure", {"type": row.verdict, "message": _format_line(row)})
            element.text = _replace_forbidden(gate.headline)
        elif row.verdict == "undecided":
            skipped += 1
            ElementTree.SubElement(case, "skipped", {"message": _replace_forbidden(row.reason) or _format_line(row)})
        ElementTree.SubElement(case, "system-out").text = _format_line(row)
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    return _format_suite(suite)


def format_junit_error(message: str) -> str:
    """Return the JUnit XML of a gate whose input is invalid."""
    suite = ElementTree.Element(
        "testsuite", {"name": SUITE, "tests": "1", "errors": "1", "failures": "0", "skipped": "0"}
    )
    _add_verdict(suite, "error")
    case = ElementTree.SubElement(suite, "testcase", {"classname": SUITE, "name": "input"})
    ElementTree.SubElement(case, "error", {"type": "input", "message": _replace_forbidden(message)})
    return _format_suite(suite)


def _add_verdict(suite: ElementTree.Element, verdict: str) -> None:
    """Add the verdict as a property: the exit code does not show it if the option ``undecided`` overrides it."""
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", {"name": "verdict", "value": verdict})


def _format_line(row: GateRow) -> str:
    """Return the numbers of a metric in one line."""
    # The margin is the largest loss that passes: a decrease if higher is better, otherwise an increase.
    sign = "−" if row.higher_is_better else "+"
    return (
        f"{_replace_forbidden(row.label)}: base {row.base:.6g}, new {row.new:.6g}, difference {row.difference:+.6g}, "
        f"bounds {row.low:+.6g} to {row.high:+.6g}, margin {sign}{row.margin:.6g}, p (worse, Holm) {row.p_holm:.4g}, "
        f"{row.items} items"
    )


def _replace_forbidden(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


def _format_suite(suite: ElementTree.Element) -> str:
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
