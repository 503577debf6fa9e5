"""Pages of metrics: the card that the command line prints, with a typeset formula, the paper as BibTeX, and more.

What is added stands in ``cards.toml``. Formulas are MathML, which browsers draw by themselves.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from captious.metrics.registry import get_metric_class

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
PEOPLE = "On COCO's Karpathy test split, the first human caption of each image against the four others"
FIELDS = ("title", "author", "booktitle", "year", "doi", "url", "eprint")


@cache
def entries() -> dict[str, Any]:
    """Everything in ``cards.toml``."""
    return tomllib.loads((FOLDER / "cards.toml").read_text(encoding="utf-8"))


def metric_page(name: str, card: str) -> str:
    """The page of a metric, from its card."""
    added = entries()["metrics"].get(name, {})
    card = _with_imports(name, card)
    if "formula" in added:
        card = _with_formula(card, added["formula"])
    parts = [card.rstrip()]
    if "tested" in added:
        parts.append(f"## Tested against\n\nThe implementation was compared with {added['tested']}.")
    if "coco" in added:
        parts.append(
            f"## Typical values\n\n{PEOPLE}: {added['coco']}. Captioners that were trained on CIDEr are above people."
        )
    if "paper" in added:
        parts.append("## Cite\n\n" + citation(added["paper"]))
    return "\n\n".join(parts) + "\n"


def _with_formula(card: str, lines: str | list[str]) -> str:
    """The card with its formula typeset: in place of the one that a terminal prints, or below the headline."""
    typeset = "".join(
        f'<div class="formula">{formula(line)}</div>' for line in ([lines] if isinstance(lines, str) else lines)
    )
    printed = re.search(r"(?:^    \S.*\n)+", card.partition("```")[0], re.M)
    if printed:
        return f"{card[: printed.start()]}{typeset}\n{card[printed.end() :]}"
    title, headline, rest = card.split("\n\n", 2)
    return f"{title}\n\n{headline}\n\n{typeset}\n\n{rest}"


def formula(latex: str) -> str:
    """A formula as MathML on a line of its own.

    >>> formula("a^2")[:60]
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="bl'
    """
    return convert(latex, display="block")


def citation(key: str) -> str:
    """A paper as a link and as BibTeX."""
    address, shown = _address(entries()["papers"][key])
    link = f"[{shown}]({address})\n\n" if address else ""
    return f"{link}```bibtex\n{bibtex(key)}\n```"


def bibtex(key: str) -> str:
    """A paper as an entry of BibTeX."""
    paper = entries()["papers"][key]
    fields = [f"  {name} = {{{paper[name]}}}," for name in FIELDS if name in paper]
    if "eprint" in paper:
        fields.append("  archiveprefix = {arXiv},")
    return "\n".join([f"@{paper['type']}{{{key},", *fields, "}"])


# Where the page on citing has the papers.
CITE = "<!-- papers -->"


def list_papers() -> str:
    """Which paper to cite for each metric, and all of them as BibTeX."""
    cited: dict[str, list[str]] = {}
    for name, added in entries()["metrics"].items():
        if "paper" in added:
            cited.setdefault(added["paper"], []).append(f"[`{name}`](reference/metrics/{name}.md)")
    for name, added in entries()["audits"].items():
        cited.setdefault(added["paper"], []).append(f"[{name}]({added['page']})")
    rows = [f"| {', '.join(names)} | {_authors(key)} | `{key}` |" for key, names in cited.items()]
    table = "| if you report | cite | key |\n|---|---|---|\n" + "\n".join(rows)
    everything = "\n\n".join(map(bibtex, cited))
    return f"{table}\n\n## BibTeX of all papers\n\n```bibtex\n{everything}\n```"


def _authors(key: str) -> str:
    """The authors of a paper as a citation in the text names them, with a link."""
    paper = entries()["papers"][key]
    names = [name.partition(",")[0] for name in paper["author"].split(" and ")]
    short = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
    return f"[{short}, {paper['year']}]({_address(paper)[0]})"


def _address(paper: dict[str, Any]) -> tuple[str, str]:
    if "doi" in paper:
        return f"https://doi.org/{paper['doi']}", f"doi:{paper['doi']}"
    if "eprint" in paper:
        return f"https://arxiv.org/abs/{paper['eprint']}", f"arXiv:{paper['eprint']}"
    return (paper["url"], paper["url"]) if "url" in paper else ("", "")


def _with_imports(name: str, card: str) -> str:
    """The card's example with the imports that it has from the metric's own file."""

    def completed(match: re.Match[str]) -> str:
        lines = imports_of(get_metric_class(name), match[1])
        return "```python\n" + "".join(f">>> {line}\n" for line in lines) + match[1] + "```"

    return re.sub(r"```python\n(>>>.*?)```", completed, card, count=1, flags=re.S)


def imports_of(metric: Any, example: str) -> list[str]:
    """The import lines of an example that runs with the names of the metric's module."""
    module = sys.modules[metric.__module__]
    source = "\n".join(line[4:] for line in example.splitlines() if line.startswith((">>> ", "... ")))
    tree = ast.parse(source)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    stored |= {one.asname or one.name for node in imported for one in node.names}
    used = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    known = [name for name in used if name not in stored and hasattr(module, name)]
    return sorted({_import_line(name, getattr(module, name), module.__name__) for name in known}, key=_order)


def _import_line(name: str, value: Any, module: str) -> str:
    if isinstance(value, type(sys)):
        return f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
    home = getattr(value, "__module__", module)
    return f"from {'captious' if home == 'captious.captions' else home} import {name}"


def _order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line
