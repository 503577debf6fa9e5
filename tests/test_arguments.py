"""One name for one argument: a parameter is the same in every public function that has it."""

import inspect
import re
from collections import defaultdict
from pathlib import Path

import pytest

import captious
from captious import CaptionSet, Engine, Resampling

REFERENCES = {"1": ["a dog runs"], "2": ["two cats"]}
CAPTIONS = {"1": "a dog", "2": "two cats sit"}
FEW = Resampling(20)
OPTIONS = (
    *("references", "images", "missing", "language", "reading"),
    *("resampling", "runtime", "progress", "engine", "out"),
)
LEFT = {"using"}  # whose only argument is the runtime


def public_functions():
    """The functions, and the one class that is called like a function, of ``captious/__init__.pyi``."""
    stub = Path(captious.__file__).with_name("__init__.pyi").read_text()
    names = {*re.findall(r"import \w+ as (\w+)", stub), "metric"}
    functions = {name: getattr(captious, name) for name in names if inspect.isfunction(getattr(captious, name))}
    return {name: one for name, one in {**functions, "Scorer": captious.Scorer}.items() if name not in LEFT}


def parameters():
    """Every parameter of every function, by its name."""
    found = defaultdict(dict)
    for name, function in public_functions().items():
        for parameter in inspect.signature(function).parameters.values():
            found[parameter.name][name] = parameter
    return found


@pytest.mark.parametrize("name", sorted(name for name, uses in parameters().items() if len(uses) > 1))
def test_a_parameter_is_of_one_kind(name):
    kinds = {function: parameter.kind.description for function, parameter in parameters()[name].items()}
    assert len(set(kinds.values())) == 1, kinds


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_passed_by_name_and_have_one_default(name):
    uses = parameters()[name].values()
    assert {one.kind for one in uses} == {inspect.Parameter.KEYWORD_ONLY}
    # A run of shards is always written: its folder has no default.
    assert len({str(one.default) for one in uses if one.default is not inspect.Parameter.empty}) == 1


def test_what_reads_captions_takes_the_same_arguments():
    reading = {"references", "images", "missing", "language", "reading"}
    functions = public_functions()
    for name in ("read", "check", "evaluate", "compare", "gate", "arena", "score_shards"):
        assert reading <= set(inspect.signature(functions[name]).parameters), name
    scoring = {"resampling", "runtime", "progress"}
    for name in ("evaluate", "evaluate_by_language", "compare", "gate", "arena", "score_shards", "correlate"):
        assert scoring <= set(inspect.signature(functions[name]).parameters), name
    assert {"metrics", "language"} <= set(inspect.signature(captious.correlate).parameters)
    assert "runtime" in inspect.signature(captious.audit).parameters


def test_an_option_by_position_is_refused():
    with pytest.raises(TypeError):
        captious.read(CAPTIONS, REFERENCES)
    with pytest.raises(TypeError):
        captious.evaluate(CAPTIONS, "rouge", FEW)
    with pytest.raises(TypeError):
        captious.Scorer("rouge", REFERENCES)


def test_read_and_check_take_missing_and_language():
    more = {**REFERENCES, "3": ["a bird"]}
    assert captious.read(CAPTIONS, references=more, missing="skip").skipped == 1
    assert captious.read(CAPTIONS, references=REFERENCES, language="fr").language == "fr"
    assert captious.check(CAPTIONS, references=more).errors
    assert not captious.check(CAPTIONS, references=more, missing="skip").errors


def test_a_gate_and_a_study_take_the_language_of_the_captions():
    chinese = {"1": "一只狗在跑", "2": "两只猫"}
    references = {"1": ["一只狗"], "2": ["两只猫坐着"]}
    gated = captious.gate(chinese, chinese, "rouge", 0, resampling=FEW, references=references, language="zh")
    assert any("lang:zh" in line for line in gated.signatures)
    rows = [
        {"id": f"{key}-{number}", "image": key, "caption": text, "references": references[key], "rating": number}
        for number, (key, text) in enumerate([*chinese.items(), *((key, text[:2]) for key, text in chinese.items())])
    ]
    study = captious.correlate(rows, "rouge", resampling=Resampling(0), language="zh")
    whole = CaptionSet.of({row["id"]: row["caption"] for row in rows}, {row["id"]: row["references"] for row in rows})
    expected = captious.evaluate(whole, "rouge", resampling=Resampling(0), language="zh")["rouge"].items
    assert dict(zip(study.ids, study.scores[0].values.tolist(), strict=True)) == pytest.approx(dict(expected))


def test_shards_take_references_and_images_by_name(tmp_path):
    (tmp_path / "part1.jsonl").write_text('{"id": "1", "caption": "a dog"}\n')
    (tmp_path / "part2.jsonl").write_text('{"id": "2", "caption": "two cats sit"}\n')
    (tmp_path / "refs.json").write_text('{"1": ["a dog runs"], "2": ["two cats"]}')
    report = captious.score_shards(
        str(tmp_path / "part*.jsonl"),
        "rouge",
        out=tmp_path / "run",
        references=tmp_path / "refs.json",
        engine=Engine("serial"),
        resampling=FEW,
    )
    whole = captious.evaluate(CAPTIONS, "rouge", resampling=FEW, references=REFERENCES)
    assert report["rouge"].corpus == pytest.approx(whole["rouge"].corpus)


def test_an_audit_trains_where_its_runtime_says(monkeypatch):
    from captious.bias import audit as module

    seen = []
    real = module._train_all
    monkeypatch.setattr(module, "_train_all", lambda *rest: seen.append(module.get_runtime().batch) or real(*rest))
    rows = [
        {"id": str(n), "caption": f"a {w} {n % 5}", "references": [f"the {w} {n % 7}"], "gender": g}
        for n in range(60)
        for w, g in [(("man", "male"), ("woman", "female"))[n % 2]]
    ]
    captious.audit({"model": rows}, label="gender", runtime=captious.Runtime(batch=7))
    assert seen == [7]
