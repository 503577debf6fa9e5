"""The probe of hallucination: counts by hand, two systems side by side, and the numbers of a published caption file."""

import gzip
import json

import pytest

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Resampling
from captious.probes.hallucination import probe_hallucination

# Two images: a person and a dog; a table. Wrong: the cup (twice in image 1, once in 2) and the zebra (image 2).
TRUTH = [["person", "dog"], ["dining table"]]
FIRST = {
    "1": "A man walks here. A cup and a cup.",  # 9 words, of which 1, 5 and 8 stand before a mention
    "2": "A table, a cup and one zebra.",  # 7 words, of which 1, 3 and 6 stand before a mention
}
SECOND = {"1": "A man and a dog.", "2": "A zebra and a table."}


def captions(texts, name="a"):
    return CaptionSet.of(texts, columns={"objects": TRUTH}, name=name)


def test_what_is_invented_and_with_what():
    result = probe_hallucination({"a": captions(FIRST)}, resampling=Resampling(samples=20))
    one = result.systems["a"]
    assert {name: tuple(count) for name, count in one.objects.items()} == {
        "cup": (3, 3, 2),
        "zebra": (1, 1, 1),
        "dining table": (1, 0, 0),
        "person": (1, 0, 0),
    }
    assert list(one.objects)[:2] == ["cup", "zebra"]
    assert one.pairs == {
        ("cup", "dining table"): 1, ("cup", "dog"): 1, ("cup", "person"): 1, ("zebra", "dining table"): 1,
    }  # fmt: skip


def test_where_in_the_caption_and_in_which_sentence():
    one = probe_hallucination({"a": captions(FIRST)}, resampling=Resampling(samples=0)).systems["a"]
    # Man 1/9 and table 1/7 are in the 1st quarter, a cup 3/7 in the 2nd, a cup 5/9 in the 3rd, cup 8/9 and zebra 6/7.
    assert [share.value for share in one.quarters] == [0, 1, 1, 1]
    assert [share.value for share in one.sentences] == [pytest.approx(2 / 4), 1]
    assert one.sentence_mentions == [4, 2]


def test_two_systems_side_by_side():
    systems = {"a": captions(FIRST), "b": captions(SECOND, "b")}
    result = probe_hallucination(systems, resampling=Resampling(samples=20))
    assert result.count_discordant("a", "b") == (1, 0, 1.0)  # better on the first image, equal on the second
    table = {str(row[0]): row[1:] for row in result.document().table("objects").rows}
    assert table["cup"] == [3, 3, 1.0, 2, 0, 0, None, 0] and table["zebra"] == [1, 1, 1.0, 1, 1, 1, 1.0, 1]
    values = {str(row[0]): row[1:] for row in result.document().table("chair").rows}
    assert [cell.value for cell in values["a"]] == pytest.approx([1, 4 / 6, 2 / 3, 2 * 2 / (5 + 3), 8])
    difference = result.document().table("differences").rows[0]
    assert str(difference[0]) == "CHAIR_S" and difference[2].value == pytest.approx(-50) and difference[5:7] == [1, 0]
    assert "compare them at equal length" in result.document().notes[0]
    latex = result.to_latex()
    assert r"\label{tab:objects}" in latex and "zebra" in latex


def test_the_curve_over_the_first_words():
    long = {key: " ".join(["very"] * 20) + " " + text for key, text in FIRST.items()}
    result = probe_hallucination({"a": captions(long)}, resampling=Resampling(samples=20))
    lengths = result.systems["a"].lengths
    assert list(lengths) == [16, 0] and lengths[16]["s"].value == 0 and lengths[0]["s"].value == 1
    words = [mean for mean, _, _ in result.systems["a"].by_length if mean == mean]
    assert words == [27, 29]  # two captions fill two of the four quarters


def test_the_page_has_the_marked_captions(tmp_path):
    result = probe_hallucination({"a": captions(FIRST)}, resampling=Resampling(samples=20))
    result.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Objects that are invented most" in page and "3 of 3 mentions wrong" not in page
    assert "2 of 3 mentions wrong: cup" in page
    data = json.loads((tmp_path / "out" / "captious-output.json").read_text())
    assert data["systems"]["a"]["objects"]["cup"] == {"mentions": 3, "wrong": 3, "images": 2}


def test_what_it_refuses():
    with pytest.raises(InputError, match="bleu: expected chair with its parameters"):
        probe_hallucination({"a": captions(FIRST)}, "bleu")
    with pytest.raises(InputError, match="no objects; give a column 'objects'"):
        probe_hallucination({"a": CaptionSet.of(FIRST)})
    other = CaptionSet.of({"1": "a dog", "3": "a dog"}, columns={"objects": TRUTH})
    with pytest.raises(InputError, match="a and b differ in 2 ids"):
        probe_hallucination({"a": captions(FIRST), "b": other})
    shared = probe_hallucination({"a": captions(FIRST), "b": other}, missing="skip", resampling=Resampling(samples=20))
    assert shared.reports["a"].captions.ids == ("1",)


def test_the_command(tmp_path):
    from click.testing import CliRunner

    from captious.cli.app import build_app

    paths = []
    for name, texts in (("a", FIRST), ("b", SECOND)):
        rows = [
            {"id": key, "caption": text, "objects": own} for (key, text), own in zip(texts.items(), TRUTH, strict=True)
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
        paths.append(str(tmp_path / f"{name}.json"))
    done = CliRunner().invoke(build_app(), ["probe", "hallucination", *paths, "--json", "--samples", "20"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["systems"]["b"]["pairs"] == [
        {"invented": "zebra", "real": "dining table", "images": 1}
    ]


@pytest.mark.shared_data
def test_the_numbers_of_a_published_file(shared_data, coco_objects, nltk_tagger):
    """LLaVA-1.5 greedy with OPERA's lemmas; computed elsewhere: 45.0 and 12.7, 58 images better and 56 worse."""

    def read(name):
        with gzip.open(shared_data / "chair" / f"opera_llava-1.5_{name}.jsonl.gz", "rt") as file:
            return captious.read({row["id"]: row["caption"] for row in map(json.loads, file)})

    metric = f"chair(objects={coco_objects},lemmas=wordnet,truth_lemmas=singularize,tagger=nltk)"
    result = probe_hallucination({"greedy": read("greedy"), "opera": read("ours")}, metric, Resampling(samples=20))
    one = result.systems["greedy"]
    published = {"person": (959, 46), "dining table": (224, 40), "cup": (42, 32), "chair": (93, 26), "bottle": (59, 21)}
    assert {name: one.objects[name][:2] for name in published} == published
    assert [one.pairs[name, "person"] for name in ("dining table", "chair", "handbag")] == [16, 16, 16]
    assert [round(100 * share.value, 1) for share in one.quarters][::2] == [2.8, 21.4]
    assert result.count_discordant("greedy", "opera")[:2] == (58, 56)
    assert result.count_discordant("greedy", "opera")[2] == pytest.approx(0.93, abs=0.005)
