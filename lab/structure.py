"""Count the source tree: files, lone modules, cycles of packages, command-line parameters, headers and names.

``python lab/structure.py [SRC] [--against OTHER]`` prints one table for the tree under SRC, the directory that holds
``captious`` (default: ``src``). With ``--against`` the first column is OTHER ("before") and the second SRC ("after").
``--list`` also names the modules with exactly one importer. The standard library is enough, except for the two rows
"leaf commands" and "options shown": they ask the command itself, in a process of its own, so run the script with a
Python that has click.

How each number is counted:

- Python files, lines: the files ``captious/**/*.py`` and their newline characters. Modules: without ``__init__.py``.
  A stub ``.pyi`` counts as lines of the file beside it, and its names as imports under ``TYPE_CHECKING``.
- With exactly one importer: modules that one other file of captious imports, anywhere in that file (at the top, in a
  function, under ``TYPE_CHECKING``). ``__init__.py`` counts as an importer. ``from a.b import c`` imports ``a.b`` and,
  where it is a module, ``a.b.c``. A name imported from a package's ``__init__`` is an import of that package, not of
  the module behind the name. A module named in a string is not an import.
- Imported by __init__ only: those of them whose one importer is the ``__init__.py`` of their own directory.
- Folder-level cycles: a package is a directory or a module directly under captious; ``captious/__init__.py`` is
  the package ``captious``. A cycle is a strongly connected component of two or more packages. Imports in functions
  count, imports under ``TYPE_CHECKING`` do not. "At import time": without imports in functions.
- Command functions: functions in ``captious/cli`` that are decorated with ``command`` or ``app.command``, or passed to
  it: ``app.command(...)(f)``, ``command(app, f)``, also in a loop over a tuple of functions.
- Parameters spelled in code: the parameters of these functions, each function once. A parameter whose annotation is a
  dataclass of captious is a group of options: its fields count instead, each dataclass once over all commands.
- Groups of options named: parameters that are such a group, over all command functions.
- Leaf commands: commands that a user can run, without the groups. Options shown to users: their options and arguments
  without ``--help`` and ``--help-all``; an option of five commands counts five times.
- Lines before the first def or class: per file, at any depth; all lines of a file that has neither.
- Class names used more than once: names that two or more ``class`` statements of the package define, at any depth.
- Marked private: modules, or modules in a directory, whose name starts with one underscore.
- Neither private nor named by a stub: modules of a package whose stub exists (not those of `WITHOUT_STUB`),
  without an underscore, that nothing names. A stub names a module by a name of it (``from a.b import c as c``), or by
  itself (``import a.b``: other packages or the guides import it). The ``__init__.py`` of a directory names what it
  imports, a registry what it writes as ``"module:name"``. ``--public`` lists them.
- Private modules that another package imports: their own ``__init__.pyi`` do not count. ``--public`` lists them.
- Docstrings without their subject: the first sentence starts with a preposition, a possessive, a relative word or a
  participle (``SUBJECTLESS``), or has fewer than three words; docstrings of attributes count. ``--docstrings`` lists
  them.
- Functions over 60 lines: from ``def`` to the last line of the body, the docstring included; then without it.
- The words: whole words in code, comments and docstrings.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "captious"
Function = ast.FunctionDef | ast.AsyncFunctionDef
# First words of a docstring whose subject is somewhere else.
SUBJECTLESS = {
    "Of", "By", "As", "That", "Whose", "Whom", "In", "From", "With", "Its", "Their", "Those", "On", "To", "At",
    "For", "Per", "Under", "After", "Before", "Among", "Into", "Over", "And", "Nor", "Neither",
    "Without", "Through", "Within", "Between", "Until", "Since", "Such",
    "Adjusted", "Added", "Called", "Compressed", "Equal", "Looked", "Made", "Measured", "Printed", "Shown", "Stands",
    "Stored", "Tested",
}  # fmt: skip
# Lines of a function that a reader takes in at once.
LONG = 60

# Packages without a stub: commands are found by their names, and each module of compat replaces a library.
WITHOUT_STUB = ("cli", "compat", "data")

COUNT_OPTIONS = """
import json
import captious.cli.app as cli

def leaves(command):
    children = getattr(command, "commands", None)
    return [command] if children is None else [leaf for child in children.values() for leaf in leaves(child)]

tree = next(getattr(cli, name) for name in ("build_app", "build", "app") if hasattr(cli, name))
tree = tree() if callable(tree) and not hasattr(tree, "commands") and not hasattr(tree, "registered_commands") else tree
if not hasattr(tree, "commands"):  # an older tree, which used typer
    import typer
    tree = typer.main.get_command(tree)
commands = leaves(tree)
counts = [sum("--help-all" not in param.opts for param in command.params) for command in commands]
print(json.dumps([len(commands), sum(counts)]))
"""


@dataclass(eq=False)
class Module:
    """One Python file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    stub: ast.Module
    """The stub beside an ``__init__.py``; empty where there is none."""

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """What the file imports from the package."""
        return tuple(find_imports(self))

    @property
    def is_package(self) -> bool:
        """Whether the file is an ``__init__.py``."""
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        """The directory or module directly under the package."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else PACKAGE


@dataclass(frozen=True)
class Import:
    """One name that a file imports from the package."""

    module: str
    name: str
    alias: str
    in_function: bool
    for_types: bool

    def target(self, modules: dict[str, Module]) -> str:
        """The module that is imported: the name itself where it is one, else the module that holds it."""
        inner = f"{self.module}.{self.name}"
        return inner if inner in modules else self.module


def read_modules(source: Path) -> dict[str, Module]:
    """Parse every file of the package under a source directory."""
    modules = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        tree, stub_path = ast.parse(text), path.with_suffix(".pyi")
        exports = stub_path.read_text(encoding="utf-8") if stub_path.exists() else ""
        stub = ast.parse(exports)
        names = [node for node in stub.body if not isinstance(node, ast.Import)]
        tree.body.append(ast.If(ast.Name("TYPE_CHECKING"), names, []))
        modules[name] = Module(name, path, text + exports, tree, stub)
    if not modules:
        raise SystemExit(f"structure.py: {source / PACKAGE}: no Python files")
    return modules


def find_imports(module: Module) -> Iterator[Import]:
    """Yield the imports of the package in one file, relative ones resolved."""

    def visit(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.name.split(".")[: None if module.is_package else -1]
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            if base.partition(".")[0] == PACKAGE:
                for name in node.names:
                    yield Import(base, name.name, name.asname or name.name, in_function, for_types)
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == PACKAGE:
                    parent, _, last = name.name.rpartition(".")
                    yield Import(parent or name.name, last, name.asname or name.name, in_function, for_types)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for part, types in ((node.body, True), (node.orelse, for_types)):
                for statement in part:
                    yield from visit(statement, in_function, types)
        else:
            deeper = in_function or isinstance(node, Function)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, deeper, for_types)

    return visit(module.tree, False, False)


def lone_modules(modules: dict[str, Module]) -> dict[str, str]:
    """Modules that exactly one other file imports, each with its importer."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for item in module.imports:
            for target in {item.module, item.target(modules)} & importers.keys():
                importers[target].add(module.name)
    lone = {}
    for name, module in modules.items():
        others = importers[name] - {name}
        if len(others) == 1 and not module.is_package:
            lone[name] = others.pop()
    return lone


def cycles(modules: dict[str, Module], in_functions: bool) -> list[list[str]]:
    """Groups of packages that import each other, directly or over others."""
    reached: dict[str, set[str]] = {module.package: set() for module in modules.values()}
    for module in modules.values():
        for item in module.imports:
            target = modules.get(item.target(modules))
            if target and not item.for_types and (in_functions or not item.in_function):
                reached[module.package].add(target.package)
    for middle in reached:  # Warshall's closure
        for packages in reached.values():
            if middle in packages:
                packages |= reached[middle]
    groups = {frozenset(b for b in reached[a] if a in reached[b]) for a in reached if a in reached[a]}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def is_command(node: ast.expr) -> bool:
    """Whether an expression is ``command``, ``app.command`` or a call of these."""
    while isinstance(node, ast.Call):
        node = node.func
    return (isinstance(node, ast.Attribute) and node.attr == "command") or (
        isinstance(node, ast.Name) and node.id == "command"
    )


class Commands:
    """The command functions of ``captious/cli`` and the classes that annotate their parameters."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self.cli = {name: module for name, module in modules.items() if module.package == "cli"}
        self.aliases = {name: {i.alias: i for i in module.imports} for name, module in modules.items()}
        self.functions: dict[tuple[str, str], Function] = {}
        for module in self.cli.values():
            for node in ast.walk(module.tree):
                if isinstance(node, Function) and any(is_command(decorator) for decorator in node.decorator_list):
                    self.functions[module.name, node.name] = node
                elif isinstance(node, ast.Call) and is_command(node):
                    for argument in node.args:
                        self._register(module, argument)
                elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS":
                    # Commands that are imported when they run: {name: module}.
                    for name, inner in ast.literal_eval(node.value).items():
                        home, definition = self._named(f"captious.cli.{inner}", name)
                        if isinstance(definition, Function):
                            self.functions[home, definition.name] = definition

    def _register(self, module: Module, node: ast.expr) -> None:
        """Enter the functions that an argument of ``command`` names: one, a tuple of them, or a loop's variable."""
        if isinstance(node, ast.Call):
            for argument in node.args:
                self._register(module, argument)
        elif isinstance(node, ast.Tuple | ast.List):
            for element in node.elts:
                self._register(module, element)
        elif isinstance(node, ast.Name | ast.Attribute):
            for loop in ast.walk(module.tree):
                if isinstance(loop, ast.For) and ast.unparse(loop.target) == ast.unparse(node):
                    self._register(module, loop.iter)
            home, definition = self._definition(module, node)
            if isinstance(definition, Function):
                self.functions[home, definition.name] = definition

    def _definition(self, module: Module, node: ast.expr) -> tuple[str, ast.AST | None]:
        """Where the object of a name is defined, over imports: its module and its ``def``, ``class`` or value."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            item = self.aliases[module.name].get(node.value.id)
            home = item.target(self.modules) if item else ""
            return self._named(home, node.attr)
        return self._named(module.name, node.id) if isinstance(node, ast.Name) else ("", None)

    def _named(self, home: str, name: str) -> tuple[str, ast.AST | None]:
        if home not in self.modules:
            return "", None
        for node in self.modules[home].tree.body:
            if isinstance(node, Function | ast.ClassDef) and node.name == name:
                return home, node
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return home, node
        item = self.aliases[home].get(name)
        return self._named(item.module, item.name) if item and item.module != home else ("", None)

    def _dataclass(self, module: str, node: ast.expr | None) -> tuple[str, ast.ClassDef] | None:
        """The dataclass of captious that an annotation names, through aliases, ``Annotated`` and ``X | None``."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        if isinstance(node, ast.BinOp):
            return self._dataclass(module, node.left) or self._dataclass(module, node.right)
        if isinstance(node, ast.Subscript):
            if ast.unparse(node.value).rpartition(".")[2] not in ("Annotated", "Optional"):
                return None
            return self._dataclass(module, node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice)
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        home, definition = self._definition(self.modules[module], node)
        if isinstance(definition, ast.Assign):
            return self._dataclass(home, definition.value)
        if isinstance(definition, ast.ClassDef) and any(
            "dataclass" in ast.unparse(d) for d in definition.decorator_list
        ):
            return home, definition
        return None

    def spelled(self) -> tuple[int, int]:
        """Parameters spelled in code, and parameters that name a group of options."""
        own = named = 0
        groups: dict[tuple[str, str], int] = {}
        for (home, _), function in self.functions.items():
            arguments = function.args
            for parameter in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                group = self._dataclass(home, parameter.annotation)
                named += group is not None
                own += group is None and parameter.arg not in ("ctx", "context")
                if group:
                    self._fields(*group, groups)
        return own + sum(groups.values()), named

    def _fields(self, home: str, group: ast.ClassDef, groups: dict[tuple[str, str], int]) -> None:
        """Count the fields of a dataclass, of the dataclasses it extends and of those it holds."""
        if (home, group.name) in groups:
            return
        groups[home, group.name] = 0
        for base in group.bases:
            if parent := self._dataclass(home, base):
                self._fields(*parent, groups)
        for node in group.body:
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
                if inner := self._dataclass(home, node.annotation):
                    self._fields(*inner, groups)
                else:
                    groups[home, group.name] += 1


def count_options(source: Path) -> tuple[int, int] | None:
    """Leaf commands and their options, from the command itself; None where it cannot be started."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    command = [sys.executable, "-c", COUNT_OPTIONS]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if answer.returncode:
        sys.stderr.write(f"structure.py: {source}: the command did not start: {answer.stderr.strip()[-300:]}\n")
        return None
    leaves, options = json.loads(answer.stdout)
    return leaves, options


def repeated_classes(modules: dict[str, Module]) -> dict[str, list[str]]:
    """Names that more than one class has, each with the modules that define it."""
    homes: dict[str, list[str]] = {}
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module.name)
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1}


def subjectless_docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """The line and the first sentence of every docstring whose subject is missing."""
    for node in ast.walk(module.tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                sentence = re.split(r"(?<=[.;])\s", " ".join(value.value.split("\n\n")[0].split()))[0]
                words = sentence.split()
                if len(words) < 3 or words[0] in SUBJECTLESS:
                    yield statement.lineno, sentence


def long_functions(modules: dict[str, Module], docstrings: bool = True) -> int:
    """How many functions have more than `LONG` lines, with their docstrings or without."""
    functions = (node for module in modules.values() for node in ast.walk(module.tree) if isinstance(node, Function))
    return sum(lines_of(node, docstrings) > LONG for node in functions)


def lines_of(node: Function, docstring: bool) -> int:
    """The lines of a function."""
    first = node.body[0]
    documented = ast.get_docstring(node) is not None
    left_out = (first.end_lineno or 0) - first.lineno + 1 if documented and not docstring else 0
    return (node.end_lineno or 0) - node.lineno + 1 - left_out


def find_public(modules: dict[str, Module]) -> set[str]:
    """Return the public modules: a stub names them, the ``__init__.py`` of their directory, or a registry."""
    named = set()
    for module in modules.values():
        named |= set(re.findall(rf'"({PACKAGE}\.[\w.]+):\w+"', module.text))
        if module.is_package:
            named |= {item.target(modules) for item in module.imports}
        for node in module.stub.body:
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
    return named


def unmarked(modules: dict[str, Module]) -> list[str]:
    """Modules that should be private or named by a stub."""
    named = find_public(modules)
    packages = {module.package for name, module in modules.items() if module.stub.body and name.count(".") == 1}
    return [
        name
        for name, module in modules.items()
        if module.package in packages and module.package not in WITHOUT_STUB
        if not module.is_package and not is_private(name) and name not in named
    ]


def entered(modules: dict[str, Module]) -> dict[str, list[str]]:
    """Modules within a package that other packages import, each with those modules."""
    importers: dict[str, set[str]] = {}
    for module in modules.values():
        for item in module.imports:
            target = modules.get(item.target(modules))
            if target and not target.is_package and target.package != module.package and module.name != PACKAGE:
                importers.setdefault(target.name, set()).add(module.name)
    return {name: sorted(others) for name, others in sorted(importers.items()) if name.count(".") > 1}


def intrusions(modules: dict[str, Module]) -> dict[str, list[str]]:
    """Return the private modules that other packages import; ``_core`` is private to captious, not to itself."""
    inner = {name: others for name, others in entered(modules).items() if not name.startswith(f"{PACKAGE}._core.")}
    return {name: others for name, others in inner.items() if is_private(name)}


def is_private(name: str) -> bool:
    """Whether a module, or a directory it is in, is marked private by an underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def header_lines(module: Module) -> int:
    """Lines above the first ``def`` or ``class``."""
    starts = [node.lineno for node in ast.walk(module.tree) if isinstance(node, Function | ast.ClassDef)]
    return min(starts) - 1 if starts else len(module.text.splitlines())


def measure(source: Path, modules: dict[str, Module]) -> dict[str, str]:
    """All rows of the table for one tree."""
    files = list(modules.values())
    lines = sum(module.text.count("\n") for module in files)
    lone = lone_modules(modules)
    by_init = [name for name, importer in lone.items() if modules[importer].is_package and name.startswith(importer)]
    everywhere, at_import = cycles(modules, in_functions=True), cycles(modules, in_functions=False)
    commands = Commands(modules)
    spelled, named = commands.spelled()
    shown = count_options(source)
    header = sum(map(header_lines, files))
    text = "\n".join(module.text for module in files)
    found, place = (len(re.findall(rf"\b{word}\b", text)) for word in ("found", "places?"))
    return {
        "Python files": f"{len(files):,}",
        "lines": f"{lines:,}",
        "modules": f"{sum(not module.is_package for module in files):,}",
        "  with exactly one importer": f"{len(lone):,}",
        "  of these imported by __init__ only": f"{len(by_init):,}",
        "  marked private": f"{sum(is_private(name) for name in modules):,}",
        "  neither private nor named by a stub": f"{len(unmarked(modules)):,}",
        "  private but imported by another package": f"{len(intrusions(modules)):,}",
        "class names used more than once": f"{len(repeated_classes(modules)):,}",
        "functions over 60 lines": f"{long_functions(modules):,}",
        "  without their docstring": f"{long_functions(modules, docstrings=False):,}",
        "docstrings without their subject": f"{sum(1 for one in files for _ in subjectless_docstrings(one)):,}",
        "folder-level cycles": f"{len(everywhere):,}",
        "  packages in them": f"{sum(map(len, everywhere)):,}",
        "  cycles at import time": f"{len(at_import):,}",
        "  packages in them at import time": f"{sum(map(len, at_import)):,}",
        "command functions": f"{len(commands.functions):,}",
        "  parameters spelled in code": f"{spelled:,}",
        "  groups of options named": f"{named:,}",
        "leaf commands": f"{shown[0]:,}" if shown else "?",
        "  options shown to users over all commands": f"{shown[1]:,}" if shown else "?",
        "lines before the first def or class": f"{header:,}",
        "  share of all lines": f"{header / lines:.1%}",
        "the word found": f"{found:,}",
        "the words place, places": f"{place:,}",
    }


def main() -> None:
    """Print the table of one tree, or of two side by side."""
    parser = argparse.ArgumentParser(description="Count files, lone modules, cycles, parameters, headers and names.")
    parser.add_argument("source", nargs="?", type=Path, default=Path("src"), help="Directory that holds captious.")
    parser.add_argument("--against", type=Path, help="The tree before, for a table with two columns.")
    parser.add_argument("--list", action="store_true", help="Name the modules with exactly one importer.")
    parser.add_argument("--classes", action="store_true", help="Name the classes that share a name.")
    parser.add_argument("--public", action="store_true", help="List modules that no stub names, and imports past one.")
    parser.add_argument("--docstrings", action="store_true", help="List the docstrings without their subject.")
    arguments = parser.parse_args()
    sources = {"before": arguments.against, "after": arguments.source} if arguments.against else {"": arguments.source}
    trees = {title: read_modules(source) for title, source in sources.items()}

    columns = [measure(sources[title], modules) for title, modules in trees.items()]
    if arguments.against:
        print(" " * 44 + "".join(f"{title:>10}" for title in trees))
    for row in columns[0]:
        print(f"{row:44}" + "".join(f"{column[row]:>10}" for column in columns))
    print()
    for title, modules in trees.items():
        for kind, in_functions in (("all imports", True), ("at import time", False)):
            for group in cycles(modules, in_functions):
                print(f"{title} cycle, {kind}: {', '.join(group)}".lstrip())
    if arguments.list:
        print()
        for name, importer in lone_modules(modules).items():
            print(f"{name}  <-  {importer}")
    if arguments.classes:
        print()
        for name, homes in repeated_classes(modules).items():
            print(f"{name}: {', '.join(homes)}")
    if arguments.public:
        print()
        for name in unmarked(modules):
            print(f"{name}: neither private nor named by a stub")
        for name, others in intrusions(modules).items():
            print(f"{name}: private, imported by {', '.join(others)}")
    if arguments.docstrings:
        print()
        for module in modules.values():
            for line, sentence in subjectless_docstrings(module):
                print(f"{module.path}:{line}: {sentence}")


if __name__ == "__main__":
    main()
