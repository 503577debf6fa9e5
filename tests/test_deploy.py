"""The files of deploy/: every command and option in them exists, and the parts fit together. No Docker runs here."""

import json
import re
import shlex
from pathlib import Path

import pytest

from captious.cli.app import build_app

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
SERVED = COMPOSE["services"]["studio"]["command"]
VARIABLE = re.compile(r"\$\{(\w+)")


def find_unknown(words):
    """The words of a captious command line that are neither its commands nor its options."""
    assert words[0] == "captious"
    command, rest = build_app(), list(words[1:])
    while rest and not rest[0].startswith("-") and hasattr(command, "get_command"):
        found = command.get_command(None, rest[0])
        if found is None:
            return rest[:1]
        command, rest = found, rest[1:]
    options = {name for param in command.params for name in param.opts}
    return [word for word in rest if word.startswith("--") and word not in options]


def test_the_check_finds_what_does_not_exist():
    assert find_unknown(["captious", "studio", "serv"]) == ["serv"]
    assert find_unknown(["captious", "studio", "serve", "x", "--portt", "1"]) == ["--portt"]


def test_the_commands_of_image_and_compose_exist():
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert find_unknown(json.loads(command)) == find_unknown(SERVED) == []


def test_the_commands_of_the_guide_exist():
    page = (ROOT / "docs" / "guide" / "raters.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:docker compose \w+ (?:--\w+ )*studio )?(captious .*)$", page, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        assert find_unknown(shlex.split(line, comments=True)) == [], line
    services = {*re.findall(r"docker compose (?:exec|run --rm|logs) (\w+)", page)}
    assert services == {"studio", "database"} <= {*COMPOSE["services"]}


def test_the_parts_fit_together():
    studio, database, caddy = (COMPOSE["services"][name] for name in ("studio", "database", "caddy"))
    port = SERVED[SERVED.index("--port") + 1]
    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert f"reverse_proxy studio:{port}\n" in (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    address = studio["environment"]["CAPTIOUS_STUDIO_DB"]
    made = database["environment"]
    assert re.fullmatch(rf"postgresql://{made['POSTGRES_USER']}:.*@database/{made['POSTGRES_DB']}", address)
    assert {*VARIABLE.findall(address)} == {*VARIABLE.findall(made["POSTGRES_PASSWORD"])} == {"POSTGRES_PASSWORD"}
    assert caddy["environment"]["DOMAIN"].startswith("${DOMAIN")
    assert studio["build"]["dockerfile"] == "deploy/Dockerfile" and (DEPLOY / studio["build"]["context"]).samefile(ROOT)
    names = {volume.partition(":")[0] for one in (database, caddy) for volume in one["volumes"]}
    assert {name for name in names if not name.startswith(".")} == {*COMPOSE["volumes"]}


def test_every_variable_has_an_example():
    example = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "example.env").read_text(encoding="utf-8"), re.MULTILINE))
    assert {*VARIABLE.findall((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))} == {*example}


def test_the_image_installs_an_extra_that_exists_from_files_that_are_sent():
    (extra,) = re.findall(r"pip install --no-cache-dir '/src\[([\w-]+)\]'", DOCKERFILE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
    sent = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= {*sent}
    assert all((ROOT / name).exists() for name in sent)
