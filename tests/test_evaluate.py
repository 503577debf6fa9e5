import json
import math
from dataclasses import replace

import numpy as np
import pytest
from lab.toy import make
from PIL import Image
from tests.merging import measure_parts

import captious
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Resampling
from captious.render._plots import find_plot
from captious.runs.report import rank_worst_first
from captious.stats.bootstrap import Estimate
from captious.text.counts import KeyCounts
from captious.text.ngram_tables import NgramTable, TextTable


@pytest.fixture(scope="module")
def captions():
    sample = make(items=30)
    candidates = {scene.id: sample.prediction_of(scene, "solid").text for scene in sample.scenes()}
    return CaptionSet.of(candidates, sample.references())


def test_the_example_of_the_readme(captions):
    report = captious.evaluate(captions, ["bleu", "rouge", "cider(idf=refs)"])
    assert [measurement.metric.label for measurement in report] == [
        "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D",
    ]  # fmt: skip
    assert report["cider"].corpus == pytest.approx(np.mean(list(report["cider"].items.values())))
    assert report["cider"].items[captions.ids[3]] == report["CIDEr-D"].values[3]
    assert str(report["cider"].signature).startswith("cider|tok:ptb.1")
    assert report["bleu"] is report["bleu(n=4)"] is report["BLEU-4"]
    frame = report.to_pandas()
    assert frame.index.name == "id" and list(frame.columns)[-1] == "cider"
    assert frame.loc[captions.ids[0], "rouge"] == report["rouge"].values[0]


def test_a_metric_that_was_not_measured_is_named(captions):
    with pytest.raises(KeyError, match="no metric 'div'; there are rouge"):
        evaluate(captions, "rouge")["div"]


def test_intervals_hold_the_value_and_their_seed_is_in_the_signature(captions):
    report = evaluate(captions, "bleu,cider", resampling=Resampling(300, 9))
    for key, measurement in report.measurements.items():
        assert report.intervals[key].low < measurement.corpus < report.intervals[key].high
        assert "ci:bootstrap(300,seed=9,95%)" in report.signature(key)


def test_without_samples_there_are_no_intervals(captions):
    report = evaluate(captions, "rouge", resampling=Resampling(samples=0))
    assert report.intervals == {} and "ci:" not in report.signature("rouge")


def test_shards_are_scored_as_one_set(captions):
    shards = [captions.take(range(10)), captions.take(range(10, 30))]
    for key, measurement in evaluate(captions, "bleu,cider,vocab_size", resampling=Resampling(0)).measurements.items():
        merged = measure_parts(shards, key)
        assert merged.corpus == pytest.approx(measurement.corpus, abs=1e-12)
        assert str(merged.signature) == str(measurement.signature)


@pytest.mark.parametrize(("kept", "counted_again"), [(0, 5), (10_000, 3), (1 << 27, 0)])
def test_a_large_set_is_scored_in_chunks_and_all_metrics_share_the_tokens_of_a_chunk(
    captions, monkeypatch, kept, counted_again
):
    """Of n-gram counts nothing is kept for the second pass, those of some chunks, or all; the values are the same."""
    monkeypatch.setattr("captious.metrics.chunks.KEPT", kept)
    # The lengths here are random, so the warning about CIDEr-D's length penalty would tokenize a sample once more.
    monkeypatch.setattr("captious.metrics.cider.Cider.length_warnings", lambda self, captions: [])
    whole = evaluate(captions, "bleu,rouge,cider,vocab_size")
    sizes, tokenize = [], TextTable._build

    def counted(captions, tool):
        sizes.append(len(captions))
        return tokenize(captions, tool)

    monkeypatch.setattr(TextTable, "_build", counted)
    orders, count = [], NgramTable.of
    monkeypatch.setattr(NgramTable, "of", lambda table, n: orders.append(n) or count(table, n))
    monkeypatch.setattr(KeyCounts, "lookup", lambda self, keys: pytest.fail("a document frequency was looked up"))
    monkeypatch.setattr("captious.metrics.chunks.CHUNK", 7)
    steps = []
    chunked = evaluate(replace(captions), "bleu,rouge,cider,vocab_size", progress=steps.append)
    assert sizes == [7, 7, 7, 7, 2]  # of 30 items, though CIDEr needs two passes
    assert orders == [1, 2, 3, 4] * (5 + counted_again)
    assert chunked.data() == whole.data() and chunked.warnings == whole.warnings
    for key, measurement in whole.measurements.items():
        assert chunked.measurements[key].values.tolist() == measurement.values.tolist()
    assert steps[0] == "BLEU-1, items 1 to 7 of 30" and steps[-1] == "intervals"


@pytest.mark.parametrize("kept", [10_000, 1 << 27])
def test_metrics_with_states_of_several_kinds_are_scored_in_chunks(captions, monkeypatch, kept):
    several = replace(captions, candidates=captions.references)
    metrics = "cider, cider(variant=plain), selfcider, novelty, cider(tokenizer=whitespace)"
    whole = evaluate(several, metrics, resampling=Resampling(0))
    monkeypatch.setattr("captious.metrics.chunks.KEPT", kept)
    monkeypatch.setattr("captious.metrics.chunks.CHUNK", 7)
    chunked = evaluate(replace(several), metrics, resampling=Resampling(0))
    for key, measurement in whole.measurements.items():
        assert np.array_equal(chunked.measurements[key].values, measurement.values, equal_nan=True), key


def test_a_metric_without_what_it_needs_is_refused_before_another_is_computed(captions):
    steps = []
    with pytest.raises(InputError, match=r"clipscore.* cannot score .*: no image"):
        evaluate(captions, "rouge,clipscore", progress=steps.append)
    assert not steps


def test_captions_come_from_wherever_read_reads(tmp_path):
    candidates, references = {"1": "a cat", "2": "a dog runs"}, {"1": ["a cat"], "2": ["the dog runs"]}
    whole = evaluate(CaptionSet.of(candidates, references), "rouge")["rouge"]
    assert evaluate(candidates, "rouge", references=references)["rouge"].items == whole.items
    (tmp_path / "p.json").write_text(json.dumps(candidates))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").touch()
    report = evaluate(tmp_path / "p.json", "rouge", references=references, images=tmp_path / "photos")
    assert report["rouge"].items == whole.items and report.captions["1"].fields["image"].endswith("1.jpg")
    with pytest.raises(InputError, match="has its references already"):
        evaluate(CaptionSet.of(candidates, references), "rouge", references=references)


def test_a_report_is_one_line_in_a_shell_and_a_table_in_print(captions):
    report = evaluate(captions, "bleu,rouge")
    assert repr(report).startswith("<Report captions: 30 items; BLEU-1 0.") and "\n" not in repr(report)
    interval = report.intervals["rouge"]
    assert f"ROUGE-L  {report['rouge'].corpus:.4f}  {interval.low:.4f} – {interval.high:.4f}" in str(report)


def test_signatures_that_differ_in_the_metric_alone_share_a_line(captions):
    first, second = evaluate(captions, "bleu,rouge").signatures
    assert first.startswith("bleu(n=1),bleu(n=2),bleu(n=3),bleu(n=4)|tok:ptb.1|") and second.startswith("rouge|")


def test_the_worst_come_first_whatever_the_direction():
    captions = CaptionSet.of({"good": "a b", "bad": "x"}, {"good": ["a b"], "bad": ["a b"]})
    assert rank_worst_first(evaluate(captions, "rouge")["rouge"]) == [1, 0]
    varied = CaptionSet.of({"dull": ["a b c d", "a b c d"], "lively": ["a b c d", "e f g h"]})
    assert rank_worst_first(evaluate(varied, "mbleu")["mbleu"]) == [0, 1]
    frame = evaluate(captions, "rouge,bleu").worst(1, "rouge").to_pandas()
    assert frame.to_dict("records") == [{"id": "bad", "rouge": 0.0, "candidate": "x", "first_reference": "a b"}]


def test_the_worst_of_those_that_pass_a_filter(tmp_path):
    texts = {"1": "x", "2": "a b", "3": "a z z z", "4": "a b y"}
    captions = CaptionSet.of(texts, {key: ["a b"] for key in texts}, {"style": ["p", "q", "p", "p"]})
    report = evaluate(captions, "rouge")
    report.save(tmp_path / "run")
    for one in (report, captious.open_run(tmp_path / "run")):
        assert one.worst(2, where="words > 1 and style == 'p'").to_pandas()["id"].tolist() == ["3", "4"]
        assert str(one.worst(9, where="rouge > 0.9")).startswith("worst 1 by ROUGE-L of those with rouge > 0.9")


def test_the_worst_captions_have_their_images_in_a_notebook_and_stay_a_table_on_a_terminal(tmp_path):
    Image.new("RGB", (32, 32), "red").save(tmp_path / "1.png")
    images = {"image": [str(tmp_path / "1.png"), None, None]}
    texts = {"1": "x y", "2": "a b", "3": "a <b>"}
    captions = CaptionSet.of(texts, {key: ["a b", "a c"] for key in texts}, images)
    worst = evaluate(captions, "rouge").worst(2)
    markup = worst._repr_html_()
    assert markup.count("data:image/") == 1 and str(tmp_path) not in markup
    assert markup.index("x y") < markup.index("a &lt;b&gt;") and "a c" in markup and "ROUGE-L 0.0000" in markup
    assert "<table" not in markup
    assert str(worst).splitlines()[:2] == ["worst 2 by ROUGE-L", "id  ROUGE-L  candidate  first reference"]
    assert worst.to_pandas()["id"].tolist() == ["1", "3"]


def test_frames_arrow_tables_and_csv_files_hold_the_same_columns(tmp_path):
    texts = {"1": ["a cat", "one cat"], "2": ["a dog"]}
    report = evaluate(CaptionSet.of(texts, {"1": ["a cat", "cats"], "2": []}), "rouge")
    frame, table = report.to_pandas(), report.to_arrow()
    assert list(frame.reset_index().columns) == table.column_names
    assert table.column_names == ["id", "candidate", "references", "rouge", "unscored"]
    assert frame.loc["1", "candidate"] == "a cat | one cat" and frame.loc["1", "references"] == ("a cat", "cats")
    assert table["references"].to_pylist() == [["a cat", "cats"], []]
    assert np.isnan(frame.loc["2", "rouge"]) and table["rouge"].to_pylist()[1] is None
    assert frame["unscored"].dropna().to_dict() == {"2": "rouge: no references"}  # None or NaN, by pandas' version
    report.to_csv(tmp_path / "items.csv")
    lines = (tmp_path / "items.csv").read_text().splitlines()
    assert lines[0] == "id,candidate,references,rouge,unscored" and lines[1].startswith(
        "1,a cat | one cat,a cat | cats,"
    )
    assert lines[2] == "2,a dog,,,rouge: no references"
    report.to_csv(tmp_path / "scores.csv", "scores")
    assert (tmp_path / "scores.csv").read_text().startswith("metric,value")
    assert report.to_arrow("scores")["metric"].to_pylist() == ["ROUGE-L"]


def test_a_report_draws_its_values_and_their_distribution(captions):
    report = evaluate(captions, "rouge,cider", resampling=Resampling(samples=100))
    rouge = find_plot(report.document()).charts[0].series[0]
    assert (rouge.x, rouge.y, rouge.low) == (
        ("ROUGE-L",),
        (report["rouge"].corpus,),
        (report.intervals["rouge"].low,),
    )
    histograms = {chart.title: chart.series[0] for chart in find_plot(report.document(), "items").charts}
    assert sum(histograms["CIDEr-D"].y) == len(captions)


def test_a_measurement_and_an_interval_show_themselves(captions):
    report = evaluate(captions, "rouge", resampling=Resampling(samples=100))
    interval, markup = report.intervals["rouge"], report["rouge"]._repr_html_()
    assert str(interval) == f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
    assert f"{report['rouge'].corpus:.4f}" in markup and f"{np.median(report['rouge'].values):.4f}" in markup
    assert str(report["rouge"].signature) in markup
    assert str(Estimate(0.25)) == "0.2500"
    assert all(len(repr(one)) < 200 for one in (report, report["rouge"], captions, report.worst(3)))


def test_brackets_in_ids_names_and_captions_are_printed_as_they_are(capsys):
    captions = CaptionSet.of({"[/red]": "a [bold] dog"}, {"[/red]": ["a [dog]"]}, name="x[red].json")
    report = evaluate(captions, "rouge")
    report.print()
    report.worst(1).print()
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("x[red].json", "[/red]", "a [bold] dog", "a [dog]"))


def test_progress_names_each_step(captions):
    seen = []
    evaluate(captions, "rouge,cider", progress=seen.append)
    assert seen == ["ROUGE-L", "CIDEr-D", "intervals"]


def test_numbers_that_mislead_are_said():
    one = CaptionSet.of({"1": "a cat"}, {"1": ["a cat sits", "the cat"]})
    assert any("CIDEr with an idf of one item is 0" in warning for warning in evaluate(one, "cider").warnings)
    assert not evaluate(one, "rouge").warnings


def test_swapped_ids_are_smelt(captions):
    order = [*range(1, len(captions)), 0]
    shifted = CaptionSet.of(
        {key: captions.candidates[other][0] for key, other in zip(captions.ids, order, strict=True)},
        {key: captions.references[index] for index, key in enumerate(captions.ids)},
    )
    assert any("do the ids belong together?" in warning for warning in evaluate(shifted, "rouge").warnings)
    assert not any("do the ids belong together?" in warning for warning in evaluate(captions, "rouge").warnings)


def test_rows_of_several_systems_are_above_suspicion(captions):
    """The next row is another system's caption of the same item, with the same references."""
    rows = [
        {"id": f"{key}#{system}", "caption": captions.candidates[index][0], "references": captions.references[index]}
        for index, key in enumerate(captions.ids)
        for system in ("A", "B", "C")
    ]
    warnings = evaluate(rows, "rouge").warnings
    assert not any("do the ids belong together?" in warning for warning in warnings)


def test_swapped_ids_are_smelt_in_an_alphabet_without_spaces():
    words = [
        "หมา", "แมว", "ปลา", "รถไฟ", "ดอกไม้", "จักรยาน", "กาแฟ", "หนังสือ", "ต้นไม้", "ทะเล",
        "ภูเขา", "บ้าน", "เด็กชาย", "ร่ม", "เรือ", "ช้าง", "นก", "ม้า", "เค้ก", "โต๊ะ",
    ]  # fmt: skip
    texts = {str(index): f"มี{word}อยู่ในภาพนี้" for index, word in enumerate(words)}
    references = {str(index): [f"ภาพของ{word}", f"ในภาพมี{word}หนึ่ง"] for index, word in enumerate(words)}
    shifted = dict(zip(texts, [*list(texts.values())[1:], texts["0"]], strict=True))

    def suspicions(candidates):
        report = evaluate(CaptionSet.of(candidates, references), "rouge(tokenizer=th-char)")
        return [warning for warning in report.warnings if "do the ids belong together?" in warning]

    assert not suspicions(texts), "all Thai letters are common, pairs of them are not"
    (suspicion,) = suspicions(shifted)
    assert "of their rarer pairs of characters" in suspicion


def test_captions_without_rare_words_are_above_suspicion():
    same = {str(index): "a dog" for index in range(12)}
    warnings = evaluate(CaptionSet.of(same, {key: ["a dog runs"] for key in same}), "rouge").warnings
    assert not any("do the ids belong together?" in warning for warning in warnings)


def test_unscored_items_are_said():
    captions = CaptionSet.of({"1": ["a", "b"], "2": "c"}, {"1": ["a"], "2": ["c"]})
    report = evaluate(captions, "lsa")
    assert math.isnan(report["lsa"].items["2"])
    expected = "LSA diversity: items without a value: 1 × one candidate, needs several (id 2)"
    assert any(expected in text for text in report.warnings)


def test_many_reasons_are_counted_with_the_ids_of_the_largest_first():
    captions = CaptionSet.of({str(number): ["a", "b"][: 1 + number % 3 // 2] for number in range(12)})
    (warning,) = evaluate(captions, "lsa").warnings
    # Numbers 2, 5, 8 and 11 have two candidates.
    assert warning.endswith("8 × one candidate, needs several (id 0, 1, 3, 4, 6, …)")
