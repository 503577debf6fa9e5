"""Metrics by name: labels of tables are read, absent ones are said to be, and ``all`` takes what the data allow."""

import pytest

from captious import CaptionSet, Reading, Scorer, compare, evaluate, read
from captious.errors import InputError, UnknownKey
from captious.metrics import registry
from captious.metrics.meteor import resources
from captious.metrics.registry import ABSENT, find_key, get_metric_class, names, parse, parse_all
from captious.options import Resampling

REFERENCES = {"1": ["a dog runs", "the dog"], "2": ["a cat"]}


@pytest.mark.parametrize("name", [name for name in names() if name in registry.METRICS])
def test_the_label_that_tables_print_is_read(name):
    metric = get_metric_class(name)()
    assert parse(metric.label) == parse(metric.label.lower()) == metric


@pytest.mark.parametrize("name", ["tiger", "TIGEr", "Bridge", "chrf"])
def test_for_a_metric_that_is_lacking_no_other_is_suggested(name):
    with pytest.raises(InputError, match=f"^captious has no {name.upper()} yet; captious metrics lists") as error:
        parse_all(name)
    assert "did you mean" not in str(error.value)


def test_no_metric_is_both_there_and_absent():
    assert not {*ABSENT} & {*names(), *registry.LABELS}


def names_of(captions):
    return {metric.name for metric in parse_all("all", [captions])}


def test_all_is_what_the_data_allow_without_models_or_downloads(monkeypatch):
    monkeypatch.setattr(resources, "has_tables", lambda named: False)
    free = {"div_n", "rep_diversity", "distinct_n", "vocab_size"}
    compared = {"bleu", "rouge", "rouge_n", "cider", "novelty"}
    assert names_of(CaptionSet.of({"1": "a dog", "2": "a cat"})) == free
    assert names_of(CaptionSet.of({"1": "a dog", "2": "a cat"}, REFERENCES)) == free | compared
    several = CaptionSet.of({"1": ["a dog", "dogs"], "2": ["a cat", "cats"]}, REFERENCES)
    assert names_of(several) == free | compared | {"mbleu", "selfcider", "lsa"}
    seen = CaptionSet.of({"1": "a dog"}, columns={"objects": [["dog"]]})
    assert names_of(seen) == free | {"chair"}
    event = {"sentences": ["a dog"], "timestamps": [[0, 9]]}
    prediction = [{"sentence": "a dog", "timestamp": [0, 9]}]
    videos = read({"v": prediction}, references={"v": event})
    assert names_of(videos) == free | {"repetition", "diversity"}
    paragraphs = read({"v": prediction}, references={"v": event}, reading=Reading(events="paragraph"))
    assert names_of(paragraphs) == free | compared | {"repetition", "diversity"}
    monkeypatch.setattr(resources, "has_tables", lambda named: True)
    assert names_of(videos) == free | {"densecap", "soda", "repetition", "diversity"}
    assert names_of(CaptionSet.of({"1": "a dog"}, REFERENCES)) == free | compared | {"meteor"}


def test_all_in_python(monkeypatch):
    monkeypatch.setattr(resources, "has_tables", lambda named: False)
    report = evaluate({"1": "a dog", "2": "a cat"}, "all", resampling=Resampling(0), references=REFERENCES)
    assert {"bleu(n=4)", "cider", "vocab_size"} <= {*report.measurements}
    both = compare(
        {"a": {"1": ["a dog", "dogs"], "2": ["a cat", "x"]}, "b": {"1": "a dog", "2": "a cat"}},
        ["all"],
        resampling=Resampling(0),
        references=REFERENCES,
    )
    assert not {"mbleu(n=4)", "lsa"} & {*both.reports["a"].measurements}  # one system has one candidate an item


def test_all_where_captions_come_later(monkeypatch):
    monkeypatch.setattr(resources, "has_tables", lambda named: False)
    scorer = Scorer("all", references=REFERENCES)
    assert {metric.name for metric in scorer.metrics} == {metric.name for metric in parse_all("ALL")}
    assert not {"mbleu", "lsa", "selfcider"} & {metric.name for metric in scorer.metrics}
    assert scorer(["2"], ["a cat"])["BLEU-1"] == pytest.approx(1)


def labels_of(metrics):
    return {str(metric): metric.label for metric in parse_all(metrics)}


@pytest.mark.parametrize("name", ["bleu", "BLEU", "Bleu", " bleu "])
def test_in_a_list_the_name_of_a_metric_with_variants_stands_for_all(name):
    assert [str(metric) for metric in parse_all(name)] == [f"bleu(n={n})" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("name", "metrics", "key"),
    [
        ("cider(idf=coco)", "cider,cider(idf=coco)", "cider(idf=coco)"),  # the written form
        ("cider(coco)", "cider,cider(idf=coco)", "cider(idf=coco)"),
        ("cider", "cider,cider(idf=coco)", "cider"),
        ("CIDEr-D", "bleu,cider(idf=coco)", "cider(idf=coco)"),  # the label
        ("cider d coco", "bleu,cider(idf=coco)", "cider(idf=coco)"),
        ("BLEU-2", "bleu", "bleu(n=2)"),
        ("bleu_2", "bleu", "bleu(n=2)"),
        ("BLEU-2", "bleu(tokenizer=13a)", "bleu(n=2,tokenizer=13a)"),
        ("PAC-S++", "pacscore(a.pth),pacscore(b.pth,plus=yes)", "pacscore(weights=b.pth,plus=yes)"),
        ("pac-s++", "pacscore(a.pth),pacscore(b.pth,plus=yes)", "pacscore(weights=b.pth,plus=yes)"),
        ("PAC-S", "pacscore(a.pth),pacscore(b.pth,plus=yes)", "pacscore(weights=a.pth)"),
        ("spice-spacy-color", "spice,spice(subset=color)", "spice(subset=color)"),
        ("cider", "rouge,cider(idf=coco)", "cider(idf=coco)"),  # the short name
        ("bleu", "bleu", "bleu(n=4)"),  # BLEU-4 where one metric is meant
        ("BLEU", "rouge,bleu", "bleu(n=4)"),
        ("bleu", "bleu(n=2)", "bleu(n=2)"),
        ("bleu", "bleu(tokenizer=13a)", "bleu(n=4,tokenizer=13a)"),
        ("CIDEr", "cider,cider(variant=plain)", "cider(variant=plain)"),  # as the table prints it
        ("CHAIRs", "chair", "chair(value=s)"),
        ("chair", "chair", "chair(value=s)"),
        ("AMBER Cog", "amber", "amber(value=cog)"),
        ("ClipScore", "clipscore,clipscore(w=1)", "clipscore"),
    ],
)
def test_a_name_means_one_metric_of_those_at_hand(name, metrics, key):
    assert find_key(name, labels_of(metrics)) == key


def test_names_of_columns_and_of_metrics_that_are_not_installed_are_found_as_texts():
    labels = {"my score": "Mine", "stranger(w=1.5)": "stranger(w=1.5)", "stranger(w=15)": "stranger(w=15)"}
    assert find_key("my score", labels) == find_key("mine", labels) == "my score"
    assert find_key("stranger(w=15)", labels) == "stranger(w=15)"
    with pytest.raises(UnknownKey, match=r"^no metric 'stranger\(w=1,5\)'; did you mean"):
        find_key("stranger(w=1,5)", labels)


def test_an_exact_name_needs_no_class_of_a_metric(monkeypatch):
    monkeypatch.setattr(registry, "get_metric_class", lambda name: pytest.fail("a class was looked up"))
    assert find_key("bleu(n=2)", {"bleu(n=2)": "BLEU-2"}) == find_key("BLEU-2", {"bleu(n=2)": "BLEU-2"}) == "bleu(n=2)"


@pytest.mark.parametrize(
    ("name", "metrics", "choices"),
    [
        ("bleu", "bleu(n=1),bleu(n=2)", r"bleu\(n=1\), bleu\(n=2\)"),
        ("cider", "cider(idf=coco),cider(variant=plain)", r"cider\(idf=coco\), cider\(variant=plain\)"),
        ("CLIPScore", "clipscore(w=1),clipscore(w=2)", r"clipscore\(w=1\.0\), clipscore\(w=2\.0\)"),
    ],
)
def test_an_ambiguous_name_is_refused_with_the_choices(name, metrics, choices):
    with pytest.raises(UnknownKey, match=f"^run: '{name}' names 2 metrics, expected one of {choices}$"):
        find_key(name, labels_of(metrics), "run")


def test_an_unknown_name_is_refused_with_the_nearest_first_and_ten_names():
    labels = labels_of("bleu,rouge,cider,div_n(n=1),div_n(n=2),div_n(n=3),div_n(n=4),distinct_n(n=1),lsa")
    assert len(labels) == 12
    with pytest.raises(UnknownKey) as error:
        find_key("CIDR", labels, "run")
    shown = ", ".join(list(labels)[:10])
    assert str(error.value) == f"run: no metric 'CIDR'; did you mean 'cider'? There are {shown}, and 2 more"
    with pytest.raises(UnknownKey, match=r"^no metric 'TIFA'; there are rouge$"):
        find_key("TIFA", labels_of("rouge"))
    with pytest.raises(UnknownKey, match=r"^no metric 'x{80}'; there are rouge$"):
        find_key("x" * 10_000, labels_of("rouge"))
    with pytest.raises(UnknownKey, match=r"^no metric 'cider\(idf=coco\)'; there are cider$"):
        find_key("cider(idf=coco)", labels_of("cider"))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("rouge_n(n=1000000000)", r"rouge_n\(n=1000000000\): expected n from 1 to 1000"),
        ("div_n(n=1001)", r"div_n\(n=1001\): expected n from 1 to 1000"),
        ("distinct_n(n=0)", r"distinct_n\(n=0\): expected n from 1 to 1000"),
        ("bleu(n=1e9)", "expected a whole number"),
        ("clipscore(w=inf)", "expected a number from -1e\\+15 to 1e\\+15"),
        ("clipscore(w=nan)", "expected a number from"),
        ("clipscore(w=1e400)", "expected a number from"),
        ("rouge_n(n=1" + "0" * 4000 + ")", "expected a number from"),
        ("imagine(seeds=1000000)", "expected from 1 to 10,000"),
        ("clipscore(weights=a\udcffb)", "half a character, expected UTF-8"),
        ("clair(m\ud800)", "half a character, expected UTF-8"),
        ("x" * 10_000 + "(", "cannot read the metric"),
    ],
)
def test_extreme_parameters_are_refused_in_a_short_line(written, message):
    with pytest.raises(InputError, match=message) as error:
        parse(written)
    assert len(str(error.value)) < 300 and str(error.value).isprintable()
