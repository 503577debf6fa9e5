"""What commands print with ``--json`` fits the schemas of the package."""

import json
import os

import pytest
from lab.schemas import COMMON, DEMO_LINES, LINES, infer, list_commands, run_line

from captious.data import SCHEMAS

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install 'captious[dev]'")
PROVIDED = json.loads(SCHEMAS.read_text(encoding="utf-8"))
COMMANDS = list_commands()
# Commands that only act, and print what they did.
ACTIONS = {name for name, schema in PROVIDED.items() if "captious" not in schema.get("required", [])}


def validate(name, output):
    jsonschema.Draft202012Validator(PROVIDED[name]).validate(output)


def test_every_command_with_json_has_a_schema():
    assert set(PROVIDED) == set(COMMANDS)
    for schema in PROVIDED.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_result_has_the_common_keys():
    common = set(COMMON) - {"answer"}  # some results only list things
    assert all(common <= set(schema["required"]) for name, schema in PROVIDED.items() if name not in ACTIONS)
    groups = {name.split()[0] for name in ACTIONS}
    assert groups <= {"studio", "make", "train", "style", "cache", "probe", "bias"}, ACTIONS


@pytest.mark.usefixtures("compiled_meteor")
@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_fits_its_schema(name, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_PAINTERS", "lab.toy.painter:drawn")
    if name == "make graphs":
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")
    outputs = run_line(name, COMMANDS[name][-1 if "--json" in COMMANDS[name][-1] else 0], tmp_path)
    assert len(outputs) > 1 if name in LINES else len(outputs) == 1
    for output in outputs:
        validate(name, output)


@pytest.mark.parametrize("name", DEMO_LINES)
def test_what_it_prints_for_the_demo_set_fits_too(name, tmp_path):
    (output,) = run_line(name, DEMO_LINES[name], tmp_path)
    validate(name, output)


def test_a_missing_key_and_a_wrong_type_do_not_fit(tmp_path):
    (output,) = run_line("study power", "--difference 0.05 --items 60", tmp_path)
    validate("study power", output)
    for broken in ({**output, "needed": "many"}, {key: value for key, value in output.items() if key != "power"}):
        with pytest.raises(jsonschema.ValidationError):
            validate("study power", broken)


def test_a_schema_is_inferred_from_all_outputs():
    schema = infer([{"rows": [{"a": 1}, {"a": 0.5, "b": None}], "systems": {"x": "y"}}, {"rows": []}])
    assert schema["required"] == ["rows"] and schema["properties"]["systems"]["additionalProperties"] == {
        "type": "string"
    }
    rows = schema["properties"]["rows"]["items"]
    assert rows["properties"] == {"a": {"type": ["null", "number"]}, "b": {}} and rows["required"] == ["a"]


def test_the_command_prints_a_schema(run):
    code, out, _ = run("schema", "study", "run")
    assert code == 0 and json.loads(out) == PROVIDED["study run"]
    code, out, _ = run("schema")
    assert code == 0 and out.split(os.linesep.strip("\r"))[:-1] == sorted(PROVIDED)
    code, out, err = run("schema", "study", "rum")
    assert code == 2 and out == "" and "did you mean 'study run'?" in err
