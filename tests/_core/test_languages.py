"""Captions in other languages: which tokenizer counts, what the signature says, every warning and every refusal."""

import gzip
import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from tests.merging import measure_parts

import captious
from captious import InputError, Reading, Resampling
from captious._core.languages import LANGUAGES, SCRIPTS, Scripts, find_language
from captious._evaluate import add_metrics
from captious.edits.lexicon import CaptionCorpus
from captious.metrics.registry import METRICS, get_metric_class, parse, parse_all
from captious.text.tokenizers import TOKENIZERS
from captious.train.negatives import make_negatives

NONE = Resampling(samples=0)
CHINESE = {
    "1": ("一只棕色的狗在草地上奔跑。", ["棕色的狗在草地上跑。", "一只狗在草地上奔跑着。"]),
    "2": ("两个孩子在沙滩上踢足球。", ["孩子们在海边踢足球。", "两个小孩在沙滩上玩球。"]),
    "3": ("桌子上有一杯咖啡和一本书。", ["一杯咖啡放在桌子上。", "桌上有咖啡和书。"]),
    "4": ("一辆红色的公共汽车停在路边。", ["红色的公共汽车在街上。", "路边停着一辆红色巴士。"]),
}
ENGLISH_ONLY = [
    *("aloha", "amber", "capture", "chair", "densecap", "meteor", "polos", "soda", "spice", "spice_original", "spider"),
    "umic",
]


def rows(captions=CHINESE):
    return [{"id": key, "caption": text, "references": list(refs)} for key, (text, refs) in captions.items()]


def write(path, captions=CHINESE):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(captions)), encoding="utf-8")
    return str(path)


def values(report):
    return [one.corpus for one in report]


def test_the_language_chooses_the_tokenizer_of_metrics_that_name_none():
    named = captious.evaluate(
        rows(), "bleu(n=2),rouge,cider,distinct_n(n=2),vocab_size", resampling=NONE, language="zh"
    )
    written = [f"bleu(n=2,{AS})", f"rouge({AS})", f"cider({AS})", f"distinct_n(n=2,{AS})", f"vocab_size({AS})"]
    assert values(named) == values(captious.evaluate(rows(), written, resampling=NONE))
    assert list(named.measurements)[:3] == ["bleu(n=2)", "rouge", "cider"], "a metric keeps its name in every language"
    assert str(named["cider"].signature).startswith("cider|lang:zh|tok:zh-char.1|variant:d|")
    assert not any("clause" in warning for warning in named.warnings)


AS = "tokenizer=zh-char"


def test_a_written_tokenizer_wins_over_the_language():
    pytest.importorskip("jieba")
    report = captious.evaluate(rows(), "cider(tokenizer=zh-jieba)", resampling=NONE, reading=Reading(language="zh"))
    assert "|lang:zh|tok:zh-jieba.1[jieba-" in str(report["cider"].signature)
    assert values(report) == values(captious.evaluate(rows(), "cider(tokenizer=zh-jieba)", resampling=NONE))


@pytest.mark.parametrize("code", ["fr", "ar", "el", "en"])
def test_languages_with_spaces_have_the_tokens_of_ptb(code):
    report = captious.evaluate(
        ["un chien court"], "rouge", resampling=NONE, references=[["le chien court"]], language=code
    )
    assert f"|lang:{code}|tok:ptb.1|" in str(report["rouge"].signature)


def test_without_a_language_no_signature_changes():
    report = captious.evaluate(["a dog"], "rouge", resampling=NONE, references=[["a dog"]])
    assert str(report["rouge"].signature).startswith("rouge|tok:ptb.1|") and not report.captions.language


def test_compare_scorer_shards_and_torchmetrics_follow_the_language(tmp_path):
    (tmp_path / "shards").mkdir()
    one = write(tmp_path / "shards" / "a.jsonl", dict(list(CHINESE.items())[:2]))
    other = write(tmp_path / "shards" / "b.jsonl", dict(list(CHINESE.items())[2:]))
    whole = captious.evaluate(rows(), "cider,rouge", resampling=NONE, language="zh")
    sharded = captious.score_shards(
        [one, other], "cider,rouge", out=tmp_path / "run", reading=Reading(language="zh"), resampling=NONE
    )
    assert values(sharded) == pytest.approx(values(whole), abs=1e-12)
    assert "|lang:zh|tok:zh-char.1|" in str(sharded["cider"].signature)
    references = {key: refs for key, (_, refs) in CHINESE.items()}
    scorer = captious.Scorer("cider,rouge", references=references, language="zh")
    scores = scorer(list(CHINESE), [text for text, _ in CHINESE.values()])
    assert scores["rouge"].tolist() == pytest.approx(list(whole["rouge"].items.values()), abs=1e-12)
    assert scores["cider"].mean() == pytest.approx(whole["cider"].corpus, abs=1e-12)
    compared = captious.compare({"a": rows(), "b": rows()}, "cider", resampling=NONE, language="zh", permutations=10)
    assert compared.reports["a"]["cider"].corpus == whole["cider"].corpus
    halves = measure_parts([whole.captions.take([0, 1]), whole.captions.take([2, 3])], "rouge")
    assert halves.corpus == pytest.approx(whole["rouge"].corpus)


def test_rewards_follow_the_language_with_references_by_id_or_in_a_column(tmp_path):
    references = {key: refs for key, (_, refs) in CHINESE.items()}
    texts = [text for text, _ in CHINESE.values()]
    expected = list(captious.evaluate(rows(), "rouge", resampling=NONE, language="zh")["rouge"].items.values())
    by_id = captious.rewards(
        "rouge", references=references, language="zh", watch="distinct_n(n=1), words", every=1, out=tmp_path / "checks"
    )
    assert by_id[0](completions=texts, id=list(references)) == pytest.approx(expected)
    (check,) = (tmp_path / "checks" / "items").glob("*.parquet")
    checked = pq.read_table(check)
    assert checked["rouge"].to_pylist() == pytest.approx(expected), "the monitor too"
    alone = captious.evaluate(rows(), "distinct_n(n=1)", resampling=NONE, language="zh")["distinct_n"].items.values()
    assert checked["distinct_n(n=1)"].to_pylist() == pytest.approx(list(alone))
    in_column = captious.rewards("rouge", language="zh")
    column = list(references.values())
    assert in_column[0](completions=texts, id=list(references), references=column) == pytest.approx(expected)
    weighted = captious.rewards("1.0*rouge", references=references, language="zh").sum
    assert weighted(completions=texts, id=list(references)) == pytest.approx(expected)
    with pytest.raises(InputError, match="meteor knows English only, the captions are in Chinese"):
        captious.rewards("meteor, rouge", language="zh")
    with pytest.raises(InputError, match="language='zz', expected a code"):
        captious.rewards("rouge", language="zz")


def test_without_a_report_the_clause_is_warned_of_in_pythons_way():
    said = "^captious: 100 % of the letters are Han; ptb takes a clause for a word: pass language='zh'$"
    references = {key: refs for key, (_, refs) in CHINESE.items()}
    with pytest.warns(RuntimeWarning, match=said):
        captious.Scorer("rouge", references=references)
    with pytest.warns(RuntimeWarning, match=said):
        captious.rewards("rouge", references=references)
    in_column = captious.rewards("rouge")
    with pytest.warns(RuntimeWarning, match=said):
        in_column[0](completions=["狗"] * 4, id=list(references), references=list(references.values()))
    torchmetrics = pytest.importorskip("captious.compat.torchmetrics")
    metric = torchmetrics.CaptionMetric("rouge")
    metric.update([text for text, _ in CHINESE.values()], list(references.values()))
    with pytest.warns(RuntimeWarning, match=said):
        metric.compute()


def test_a_run_keeps_the_language_and_explains_with_it(tmp_path):
    report = captious.evaluate(rows(), "cider,rouge", resampling=NONE, language="zh")
    report.save(tmp_path / "run")
    again = captious.runs.open_run(tmp_path / "run")
    assert again.captions.language == "zh" and values(again) == values(report)
    (explained,) = [one for one in again.explain("2") if one.metric == "rouge"]
    assert explained.value == pytest.approx(report["rouge"].items["2"]) and "lang:zh" in explained.signature
    added = add_metrics(again, "bleu(n=1)", NONE)
    assert "|lang:zh|tok:zh-char.1|" in str(added["bleu(n=1)"].signature)


def test_metrics_are_added_in_the_language_of_the_run():
    report = captious.evaluate(rows(), "rouge", resampling=NONE, language="zh")
    added = add_metrics(report, "bleu(n=1)", NONE, captions=captious.read(rows()))
    assert "|lang:zh|tok:zh-char.1|" in str(added["bleu(n=1)"].signature)
    french = captious.read(rows(), reading=Reading(language="fr"))
    with pytest.raises(InputError, match=r"captions: language='fr', captions was scored with zh$"):
        add_metrics(report, "bleu(n=1)", NONE, captions=french)


def test_a_column_of_several_languages_is_warned_of():
    mixed = [{**row, "language": code} for row, code in zip(rows(), ["zh", "zh", "fr", None], strict=True)]
    said = "the column 'language' has 2 values (fr, zh): one number over several languages means nothing"
    assert any(one.startswith(said) for one in captious.evaluate(mixed, "rouge", resampling=NONE).warnings)
    assert any(one.message.startswith(said) for one in captious.check(mixed).findings)
    alike = [{**row, "language": "zh"} for row in rows()]
    assert not any(
        "column 'language'" in one for one in captious.evaluate(alike, "rouge", resampling=NONE, language="zh").warnings
    )


def test_words_of_a_run_are_tokens_of_the_language(tmp_path):
    import pyarrow.parquet as pq

    for code, expected in (("zh", [12, 11, 12, 13]), (None, [1, 1, 1, 1])):
        captious.evaluate(rows(), "rouge", resampling=NONE, language=code).save(tmp_path / str(code))
        (table,) = (tmp_path / str(code) / "items").glob("*.parquet")
        assert pq.read_table(table)["words"].to_pylist() == expected  # characters less the final 。
    pytest.importorskip("duckdb")
    long = captious.runs.open_run(tmp_path / "zh").worst(where="words > 12")
    assert [row[0] for row in long.table().rows] == ["4"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("一只棕色的狗在草地上奔跑", "zh"),
        ("草原を走る茶色い犬が二匹いる", "ja"),
        ("犬は草原を走っていましたとさ", "ja"),
        ("สุนัขสีน้ำตาลวิ่งบนสนามหญ้า", "th"),
        ("ໝາສີນ້ຳຕານແລ່ນຢູ່ສະໜາມຫຍ້າ", "lo"),
        ("ឆ្កែពណ៌ត្នោតរត់លើស្មៅ", "km"),
        ("အညိုရောင်ခွေးတစ်ကောင်", "my"),
    ],
)
def test_a_script_without_spaces_is_warned_of_with_the_language_to_name(text, code):
    report = captious.evaluate([text], "rouge", resampling=NONE, references=[[text, text]])
    (warning,) = [one for one in report.warnings if "clause" in one]
    assert warning.endswith(f"ptb takes a clause for a word: pass language='{code}'") and "% of the letters" in warning
    (found,) = [
        one.message for one in captious.check([text], references=[[text, text]]).findings if "clause" in one.message
    ]
    assert found == warning and captious.check([text], references=[[text, text]]).findings[0].message == warning
    right = f"rouge(tokenizer={LANGUAGES[code].tokenizer})"
    if not TOKENIZERS[LANGUAGES[code].tokenizer].packages:
        assert not any(
            "clause" in one for one in captious.evaluate([text], right, resampling=NONE, references=[[text]]).warnings
        )


@pytest.mark.parametrize(
    "text",
    [
        "a brown dog runs",
        "갈색 개가 들판을 달린다",
        "собака бежит",
        "一只 棕色 的 狗 在 草地 上 奔跑",
        "a cup that says 福 on it",
    ],
)
def test_text_with_spaces_is_not_warned_of(text):
    assert not Scripts.of([text]).unsplit
    report = captious.evaluate([text], "rouge", resampling=NONE, references=[[text]])
    assert not any("letters" in warning for warning in report.warnings)


def test_the_share_of_letters_decides_at_a_tenth():
    for han, unsplit in ((9, ""), (12, "zh")):
        assert Scripts.of(["狗" * han + " " + "dog " * 33]).unsplit == unsplit  # of 99 Latin letters


def test_a_written_ptb_is_warned_of_in_every_language():
    report = captious.evaluate(rows(), "rouge(tokenizer=ptb)", resampling=NONE, language="zh")
    assert report.warnings[-1] == (
        "100 % of the letters are Han; ptb takes a clause for a word: pass tokenizer=zh-char"
    )


def test_metrics_that_know_english_say_so():
    assert sorted(name for name in METRICS if get_metric_class(name)().languages == ("en",)) == ENGLISH_ONLY


@pytest.mark.parametrize("name", ENGLISH_ONLY)
def test_a_metric_that_knows_english_refuses_another_language_before_anything_is_loaded(name, tmp_path):
    expected = (
        rf"^{name}\S* knows .*English.* only, the captions are in Chinese \(language='zh'\); leave this metric out$"
    )
    captions = captious.read(rows(), reading=Reading(language="zh"))
    with pytest.raises(InputError, match=expected):
        captious.evaluate(captions, name, resampling=NONE)
    with pytest.raises(InputError, match=expected):
        parse(name).measure(captions)
    with pytest.raises(InputError, match=expected):
        reading = Reading(language="zh")
        captious.score_shards([write(tmp_path / "a.jsonl")], name, out=tmp_path / "run", reading=reading)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("negatives", "negatives are made"),
        ("graphs", "scene graphs are made"),
        ("units", "detail units are made"),
        ("edits", "the edit 'other-caption' is"),
    ],
)
def test_what_is_made_by_rules_of_english_refuses_another_script(command, what, tmp_path, run):
    source = write(tmp_path / "zh.jsonl")
    given = ["--file", source] if command == "units" else [source]
    code, _, error = run("make", command, *given, "--out", str(tmp_path / "out.jsonl"))
    assert code == 2 and not (tmp_path / "out.jsonl").exists() and error.count("\n") == 1
    assert f"zh.jsonl: {what} for English captions, 100 % of the letters are Han" in error


def test_umic_learns_from_english_captions_alone():
    corpus = CaptionCorpus.of({row["id"]: row["references"] for row in rows()}, "zh.jsonl")
    expected = "^zh.jsonl: negatives are made for English captions, 100 % of the letters are Han$"
    with pytest.raises(InputError, match=expected):
        make_negatives(corpus)
    own = make_negatives(corpus, ["shuffle"], tagger=lambda texts: [["NN"] * len(text) for text in texts])
    assert len(own), "a tagger of one's own may know the language"


def test_a_metric_that_knows_english_is_warned_of_where_the_letters_are_not():
    class Tagged(get_metric_class("rouge")):
        languages = ("en",)

    report = captious.evaluate(["كلب يركض"], Tagged(), resampling=NONE, references=[["كلب بني"]])
    assert report.warnings[-1] == (
        "ROUGE-L knows English only, and 100 % of the letters are Arabic: it means nothing here"
    )


@pytest.mark.parametrize("name", ["bertscore", "sbert", "clipscore", "longclip", "specs", "fense"])
def test_a_model_of_english_texts_is_warned_of_in_another_language(name):
    captions = captious.read(rows(), reading=Reading(language="zh"))
    metric = parse(name)
    (warning,) = metric.text_warnings(captions)
    assert warning.endswith("was trained on English, name a model that knows Chinese") and metric.weights in warning
    assert not replace(metric, weights="some/multilingual-model").text_warnings(captions)
    assert not metric.text_warnings(replace(captions, language="en"))


def test_all_leaves_out_what_does_not_know_the_language():
    captions = captious.read(rows(), reading=Reading(language="zh"))
    chosen = {metric.name for metric in parse_all("all", [captions])}
    assert chosen and not chosen.intersection(ENGLISH_ONLY) and "cider" in chosen


def test_the_card_of_a_metric_says_what_it_knows(run):
    assert "| languages | English only |" in run("metrics", "spice", "--markdown")[1]
    assert "languages" not in run("metrics", "rouge", "--markdown")[1]


@pytest.mark.parametrize(
    ("code", "script"), [(code, one.script) for code, one in LANGUAGES.items() if one.script and code != "zh"]
)
def test_text_without_the_script_of_its_language_is_refused(code, script):
    name = LANGUAGES[code].name
    expected = rf"no {script}, expected some in {name} \(language='{code}'\); 100 % of the letters are Han$"
    with pytest.raises(InputError, match=expected):
        captious.read(rows(), reading=Reading(language=code))
    assert captious.check(rows(), reading=Reading(language=code)).errors[0].message.endswith("are Han")
    short = captious.read(["狗"], reading=Reading(language=code))
    assert short.language == code, "a few letters prove nothing"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("chinese", "did you mean 'zh'"),
        ("zh-CN", "did you mean 'zh'"),
        ("xx", "expected a code such as"),
        ("", "expected"),
    ],
)
def test_an_unknown_language_is_refused_with_what_was_meant(code, hint):
    with pytest.raises(InputError, match=rf"^language='{code}', expected a code such as en, zh.*{hint}|{hint}"):
        Reading(language=code)


def test_every_language_has_a_known_tokenizer_and_script():
    for code in LANGUAGES:
        one = find_language(code)
        assert one.tokenizer in TOKENIZERS and one.script in ("", *SCRIPTS)


def test_an_idf_corpus_of_another_language_or_tokenizer_is_refused(tmp_path, run):
    corpus, english, french = str(tmp_path / "zh.idf"), str(tmp_path / "en.idf"), str(tmp_path / "fr.idf")
    source = write(tmp_path / "zh.jsonl")
    assert run("make", "idf", source, "--out", corpus, "--language", "zh")[0] == 0
    assert run("make", "idf", source, "--out", english)[0] == 0
    assert run("make", "idf", source, "--out", french, "--language", "fr")[0] == 0
    chinese = captious.read(rows(), reading=Reading(language="zh"))
    assert captious.evaluate(chinese, f"cider({corpus})", resampling=NONE).measurements
    with pytest.raises(
        InputError, match=r"idf corpus 'en' is of captions in English, these in Chinese; pass language="
    ):
        captious.evaluate(chinese, f"cider({english})", resampling=NONE)
    with pytest.raises(InputError, match=r"is of captions in French, these in English"):
        captious.evaluate(rows(), f"cider({french})", resampling=NONE)
    with pytest.raises(InputError, match=r"has tokens of zh-char\.1, the metric uses those of char\.1"):
        captious.evaluate(chinese, f"cider(idf={corpus},tokenizer=char)", resampling=NONE)


def test_style_models_of_a_language_without_spaces(tmp_path, run):
    styled = tmp_path / "styled.jsonl"
    lines = [{"id": key, "caption": text, "style": "pq"[int(key) % 2]} for key, (text, _) in CHINESE.items()]
    styled.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    plain = run("style", "fit", str(styled), "--out", str(tmp_path / "plain.style"))
    assert "plain takes a clause for a word: pass --language zh" in plain[2]
    fitted = run("style", "fit", str(styled), "--out", str(tmp_path / "zh.style"), "--language", "zh")
    assert "tok:zh-char.1" in fitted[1] and "clause" not in fitted[2]
    items = [{**row, "style": "p"} for row in rows()]
    for name, warned in (("plain", True), ("zh", False)):
        report = captious.evaluate(items, f"onlystyle({tmp_path / name}.style)", resampling=NONE, language="zh")
        assert any("to captious style fit" in one for one in report.warnings) == warned


def test_the_command_line_names_the_flag(tmp_path, run):
    source = write(tmp_path / "zh.jsonl")
    said = "ptb takes a clause for a word: pass --language zh"
    assert said in run("score", source, "--samples", "0", "--metrics", "rouge")[2]
    code, out, _ = run("check", source)
    assert out.splitlines()[1].endswith(said) and code == 0
    for options, expected in (
        (["--language", "ja"], "no kana, expected some in Japanese (--language ja); 100 % of the letters are Han"),
        (["--language", "zh", "--metrics", "spice"], "spice knows English only, the captions are in Chinese"),
        (["--language", "klingon"], "--language klingon, expected a code such as en, zh"),
    ):
        code, _, err = run("score", source, *options)
        assert code == 2 and expected in " ".join(err.split())
    assert run("check", source, "--language", "zh")[1].splitlines()[1] == "nothing wrong found"


def test_japanese_captions_are_not_scored_as_chinese(tmp_path):
    """Of 犬が走っている seven letters, two are Han and five are kana, 71 %."""
    rows = [{"id": 1, "caption": "犬が走っている" * 10, "references": ["犬が走っている" * 10]}]
    with pytest.raises(InputError, match=r"71 % of the letters are kana, expected none in Chinese .* language='ja'"):
        captious.evaluate(rows, "rouge", language="zh")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("code", "tokenizer", "package", "expected"),
    [
        # BLEU-1, BLEU-4 and CIDEr as multicaptioneval's tests/fixtures publish them, and the brevity penalty, which its
        # corpus BLEU leaves out. th-newmm: measured with PyThaiNLP 5.4.0 by the original rules; the published .4516,
        # .1248 and .4437 are of an older one.
        ("en", "auto", None, (0.5794, 0.1908, 0.5998, 1.0)),
        ("ar", "auto", None, (0.4207, 0.1028, 0.3716, 1.0)),
        ("el", "auto", None, (0.4874, 0.1347, 0.3896, 0.998)),
        ("fr", "auto", None, (0.5241, 0.1698, 0.4910, 0.997)),
        ("zh", "auto", None, (0.5992, 0.2275, 0.6524, 0.9431)),
        ("zh", "zh-jieba", "jieba", (0.5028, 0.1085, 0.3837, 0.9715)),
        ("th", "th-char", None, (0.8434, 0.4633, 0.6567, 0.9615)),
        ("th", "auto", "pythainlp", (0.4519, 0.1254, 0.4451, 0.9764)),
    ],
)
def test_published_values_of_six_languages(code, tokenizer, package, expected, shared_data):
    if package:
        pytest.importorskip(package)
    source = shared_data / "multilingual" / f"{code}.jsonl.gz"
    specs = [f"bleu(n=1,tokenizer={tokenizer})", f"bleu(n=4,tokenizer={tokenizer})", f"cider(tokenizer={tokenizer})"]
    first, fourth, cider = values(captious.evaluate(source, specs, resampling=NONE, language=code))
    one, four, consensus, penalty = expected
    assert cider == pytest.approx(consensus, abs=5e-5)
    assert (first / penalty, fourth / penalty) == (pytest.approx(one, abs=4e-4), pytest.approx(four, abs=2e-4))


@pytest.mark.shared_data
@pytest.mark.parametrize(("code", "cider"), [("zh", 0.0008), ("th", 0.0026)])
def test_what_the_english_tokenizer_gives_is_warned_of(code, cider, shared_data):
    with gzip.open(shared_data / "multilingual" / f"{code}.jsonl.gz", "rt", encoding="utf-8") as lines:
        report = captious.evaluate([json.loads(line) for line in lines], "cider", resampling=NONE)
    assert report["cider"].corpus == pytest.approx(cider, abs=5e-5)
    assert report.warnings[-1].endswith(f"ptb takes a clause for a word: pass language='{code}'")
    assert not any("belong together" in warning for warning in report.warnings)
