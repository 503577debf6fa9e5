"""The whole command line: one meaning per flag, no option that a command ignores, JSON everywhere."""

import ast
import inspect
import re
import shlex
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest
from lab.structure import Commands, read_modules

from captious.cli.app import COMMANDS, GROUPS, build_app
from captious.cli.params import _flatten
from captious.options import Argument, get_declarations

REPOSITORY = Path(__file__).parents[2]
PANELS = {
    "Everyday": ["score", "keep", "compare", "gate", "arena", "view", "check", "metrics", "demo", "schema"],
    "Judge metrics": ["study", "probe", "cost", "studio", "judge-noise", "reproduce"],
    "Audit": ["bias", "style"],
    "Models and data": ["train", "make", "cache"],
}
WITHOUT_JSON = {"demo", "schema", "view", "make idf", "make objects", "make regions", "cache add"}
WITHOUT_JSON |= {"studio serve", "studio demo"}
"""What they write is their result."""
SEVERAL_MEANINGS = {
    "--rater": "a study names the column of raters; the studio names one of them",
    "--ratings": "raters follow known ratings where they are simulated",
    "--difference": "study power plans for one of tau; study systems states the power for one of means; study estimate "
    "plans for one of means",
    "--for": "study advise orders by a metric; study estimate has intervals for a population",
    "--precision": "models compute in half or full precision; study estimate plans for a width",
    "--share": "shares of kinds of simulated raters; study estimate counts captions rated this or more",
    "--raters": "study power plans ratings per caption; studio invites so many people",
    "--test": "a study has other paired tests than a comparison",
    "--rating": "a study reads several columns of ratings",
    "--style": "one style is explained, several are listed",
    "--captions": "a study takes those of several systems, a cache one file",
    "--tokens": "study lengths counts those of an encoder; cost judge says how many a judge reads",
    "--interval": "bounds of a gate are one-sided and studentized; an interval of a value is not",
    "--margin": "each objective has its own; a gate says how much a metric may lose",
    "--markdown": "a card is printed as Markdown; a gate writes a file of it",
    "--keep": "scores keep the items that pass a filter; a cache keeps a size",
    "--items": "a study is planned for a number of items; elsewhere a list names those that are scored",
    "--where": "score shows the worst items that pass; a study is made of the captions that pass",
    "--add": "metrics are added to a run; metrics are added to each other",
    "--contrast": "style words prints other weights than CNG; a training contrasts texts with images",
    "--sample": "keep draws from what passes; a style is checked on a sample",
    "--metric": "each probe asks one family of metrics",
    "--vocabulary": "words that bias keeps; objects that CHAIR knows",
    "--all": "a listing prints everything; cache prune removes everything",
    "--data": "a recipe has files of ratings; reproduce reads released outputs",
    "--preset": "a published protocol of LIC; published defaults of a training",
    "--using": "study estimate is for one analysis; studio serve is for the looks of the owner's page",
    "--encoder": "probes compare several encoders; cache prune names one in the cache",
}
# What a command does with its session where it shows options of a group.
VERBS = {
    "Reading": {"read", "read_and_warn", "reading"},
    "Intervals": {"resampling"},
    "Models": {"working", "runtime"},
    "Chat models": {"working", "runtime"},
    "Output": {"deliver", "output", "working"},
}


def leaves(command, path=()):
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
    for name, child in (children or {}).items():
        yield from leaves(child, (*path, name))


ROOT = build_app()
LEAVES = dict(leaves(ROOT))


def function_of(command):
    return inspect.unwrap(command.function)


def params_of(name):
    function = function_of(LEAVES[name])
    for key, parameter in inspect.signature(function).parameters.items():
        yield from _flatten(key, get_declarations(function)[key], parameter.default)


def test_the_groups_stand_in_their_panels():
    panels = defaultdict(list)
    for name, command in ROOT.commands.items():
        panels[command.panel].append(name)
    assert panels == PANELS


def test_a_flag_has_one_help_text_and_one_type_wherever_it_appears():
    meanings = defaultdict(lambda: defaultdict(list))
    for name in LEAVES:
        for param in params_of(name):
            if not isinstance(param.option, Argument):
                meanings[param.flag][param.option.help, str(param.kind)].append(name)
    several = {flag: dict(found) for flag, found in meanings.items() if len(found) > 1}
    assert {flag: found for flag, found in several.items() if flag not in SEVERAL_MEANINGS} == {}


def test_every_command_prints_json_save_those_whose_result_is_a_file():
    assert {name for name in LEAVES if "--json" not in [param.flag for param in params_of(name)]} == WITHOUT_JSON


@pytest.mark.parametrize("name", LEAVES)
def test_no_command_shows_an_option_that_it_ignores(name):
    function = function_of(LEAVES[name])
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    body = [node for statement in definition.body for node in ast.walk(statement)]
    used = {node.id for node in body if isinstance(node, ast.Name)}
    assert set(inspect.signature(function).parameters) <= used
    if "session" not in inspect.signature(function).parameters:
        return
    asked = {node.attr for node in body if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "session"}
    handed_on = any(isinstance(node, ast.Call) and "session" in map(ast.unparse, node.args) for node in body)
    session = inspect.signature(function).parameters["session"]
    for panel in {param.panel for param in _flatten("session", get_declarations(function)["session"], session.default)}:
        assert handed_on or asked & VERBS[panel], f"{name} shows options of {panel}"


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_and_option_has_a_help_text(name):
    assert LEAVES[name].help and all(param.option.help for param in params_of(name))


@pytest.mark.parametrize("name", LEAVES)
def test_the_first_screen_of_help_has_at_most_twenty_options(name):
    options = [param for param in LEAVES[name].own_params if not isinstance(param.option, Argument)]
    usual = [param for param in options if not param.rare]
    assert len(usual) <= 20 and all(param.rare is False for param in options if param.required)


def written_commands():
    """What the pages tell people to type, with the page."""
    for page in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        lines = [line for block in blocks for line in block.splitlines()]
        lines += re.findall(
            r"`(captious [a-z][^`]*)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        )
        for line in lines:
            for part in line.split(" && "):
                if re.match(r"captious [a-z]", part):
                    yield pytest.param(part, id=f"{page.name}: {part}")


@pytest.mark.parametrize("line", list(written_commands()))
def test_commands_in_the_documentation_exist(line):
    words, command = shlex.split(line.replace("…", " "), comments=True)[1:], ROOT
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    flags = {flag for param in getattr(command, "params", ()) for flag in (*param.opts, *param.secondary_opts)}
    assert {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= flags


FLAG = re.compile(r"(?<!\w)--[a-z]")


def raised_texts(code):
    """Texts of exceptions, each whole: an f-string with the names that it fills in."""
    for node in ast.walk(ast.parse(code)):
        texts = list(ast.walk(node)) if isinstance(node, ast.Raise) else ()
        inside = {id(part) for text in texts if isinstance(text, ast.JoinedStr) for part in ast.walk(text)}
        for text in texts:
            if isinstance(text, ast.JoinedStr):
                yield text.lineno, ast.unparse(text)
            elif isinstance(text, ast.Constant) and isinstance(text.value, str) and id(text) not in inside:
                yield text.lineno, text.value


def test_below_the_command_line_errors_speak_of_arguments():
    source = REPOSITORY / "src" / "captious"
    codes = {path.relative_to(source): path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    flags = [
        f"{path}:{line}: {text}"
        for path, code in codes.items()
        if path.parts[0] != "cli" and FLAG.search(code)
        for line, text in raised_texts(code)
        if FLAG.search(text) and not re.search(r"captious |\{MAKER\}", text)  # a whole command may be named
    ]
    assert flags == []


def test_an_everyday_command_imports_no_other_command():
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "sys.argv = ['captious', 'metrics', '--json']; from captious.cli.app import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    modules = set(done.stderr.split())
    others = {f"captious.cli.{name}" for name in (*GROUPS, *COMMANDS.values())} - {"captious.cli.cards"}
    assert "captious.cli.cards" in modules and not modules & others


def test_few_parameters_are_spelled():
    modules = read_modules(REPOSITORY / "src")
    spelled, _ = Commands(modules).spelled()
    # An option that several commands share is written once, in options.py; what is spelled belongs to one command.
    assert spelled <= 425
