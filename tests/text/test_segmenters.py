"""Tokenizers of other languages: against sacrebleu's, against the libraries behind them, and their refusals."""

import random
import sys
import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import captious
from captious.errors import InputError, MissingExtra
from captious.text import tokenizers
from captious.text.ngram_tables import tokenize
from captious.text.tokenizers import TOKENIZERS, Tokenizer, find_tokenizer

REAL = [
    "一只棕色的狗在草地上奔跑。",
    "两个人（穿着“红色”T恤）站在2020年的海报前——看！",
    "草原を走る茶色い犬、2匹。ＡＢＣと㌔メートル",
    "갈색 개가 들판을 달린다. 3.5미터!",
    "สุนัขสีน้ำตาลวิ่งบนสนามหญ้า ภาพดำ",
    "رجل يركب دراجة، أليس كذلك؟",
    "L'homme s'assied aujourd'hui: « non » — 3,5 € en 2020.",
    "Ένας σκύλος τρέχει· ναι;",
    "A dog's ball, isn't it? 5-4 & <b>$3.50</b>...",
    "",
    "  \u3000 ",
]
ALPHABET = "aZé3٣、。，．.,-–—…“”'`\"$€+<>&%# \u3000\u00a0\t一只犬がﾊ가ก็ำกلд𠀀🐕①Ⅳ½²·،؟।"
RANDOM = [
    "".join(random.Random(seed).choices(ALPHABET, k=random.Random(-seed).randrange(1, 25))) for seed in range(1, 300)
]


def sacrebleu_tokens(module, name):
    sacrebleu = pytest.importorskip(f"sacrebleu.tokenizers.{module}")
    tokenizer = getattr(sacrebleu, name)()
    return lambda text: tokenizer(text).split()


@pytest.mark.parametrize(
    ("name", "module", "original"),
    [
        ("zh", "tokenizer_zh", "TokenizerZh"),
        ("intl", "tokenizer_intl", "TokenizerV14International"),
        ("char", "tokenizer_char", "TokenizerChar"),
    ],
)
def test_tokens_of_sacrebleu_after_lower_casing(name, module, original):
    theirs = sacrebleu_tokens(module, original)
    for text in REAL + RANDOM:
        assert TOKENIZERS[name].tokenize(text) == theirs(text.lower()), text


@pytest.mark.parametrize(
    ("name", "module", "original"),
    [
        ("zh-cased", "tokenizer_zh", "TokenizerZh"),
        ("intl-cased", "tokenizer_intl", "TokenizerV14International"),
        ("char-cased", "tokenizer_char", "TokenizerChar"),
        ("whitespace", "tokenizer_none", "NoneTokenizer"),
        ("ja-mecab-raw", "tokenizer_ja_mecab", "TokenizerJaMecab"),
        ("ko-mecab-raw", "tokenizer_ko_mecab", "TokenizerKoMecab"),
    ],
)
def test_tokens_of_sacrebleu_in_their_own_case(name, module, original):
    theirs = sacrebleu_tokens(module, original)
    for text in REAL + RANDOM:
        assert TOKENIZERS[name].tokenize(text) == theirs(text), text
        if name == "whitespace":
            assert TOKENIZERS["whitespace-lower"].tokenize(text) == theirs(text.lower()), text


@pytest.mark.parametrize(("name", "original"), [("13a-cased", "13a"), ("intl-cased", "intl")])
def test_bleu_in_its_own_case_is_sacrebleus_default(name, original):
    """Every n-gram order has a match, so nothing is smoothed, and both are one number."""
    sacrebleu = pytest.importorskip("sacrebleu")
    candidates = ["Der Hund läuft im Park, sagt L'Homme.", "Ein Mann am Strand von Rio (2020)."]
    references = [
        ["Der Hund läuft im Park.", "Ein Hund im Park, sagt l'homme."],
        ["Ein Mann am Strand von rio (2020)."] * 2,
    ]
    theirs = sacrebleu.corpus_bleu(candidates, list(zip(*references, strict=True)), tokenize=original).score / 100
    rows = [{"id": place, "caption": one, "references": references[place]} for place, one in enumerate(candidates)]
    report = captious.evaluate(
        rows, f"bleu(n=4,tokenizer={name}),bleu(n=4,tokenizer={original})", resampling=captious.Resampling(0)
    )
    cased, lower = (one.corpus for one in report)
    assert cased == pytest.approx(theirs, abs=1e-9) and lower > cased + 0.01


@given(st.text(max_size=30).filter(lambda text: all(unicodedata.category(one) != "Cn" for one in text)))
def test_zh_is_sacrebleus_on_any_text(text):
    assert TOKENIZERS["zh"].tokenize(text) == sacrebleu_tokens("tokenizer_zh", "TokenizerZh")(text.lower())


@pytest.mark.parametrize(
    ("name", "module", "original"),
    [("ja-mecab", "tokenizer_ja_mecab", "TokenizerJaMecab"), ("ko-mecab", "tokenizer_ko_mecab", "TokenizerKoMecab")],
)
def test_mecab_has_sacrebleus_words_of_the_normalized_text_less_the_marks(name, module, original):
    for library in ("MeCab", "mecab_ko"):
        pytest.importorskip(library)
    theirs = sacrebleu_tokens(module, original)
    for text in REAL + RANDOM:
        expected = [one for one in theirs(unicodedata.normalize("NFKC", text)) if one not in tokenizers.MARKS]
        assert TOKENIZERS[name].tokenize(text) == expected, text


def test_the_marks_are_the_37_of_multicaptioneval():
    written = ". ... · , 。 、 : ; ? ! '' ' `` ` \" - -- _ / \\ 《 》 ( ) [ ] { } > < = + @ # % & *"
    assert set(written.split()) == tokenizers.MARKS and len(tokenizers.MARKS) == 37


def test_jieba_cuts_in_its_precise_mode_and_keeps_its_cache_at_home(tmp_path, monkeypatch, capfd):
    jieba = pytest.importorskip("jieba")
    shared = tmp_path / "shared by all users"
    shared.mkdir()
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    tokenizers._load_jieba.cache_clear()
    assert TOKENIZERS["zh-jieba"].tokenize("一只棕色的狗，在草地上奔跑。") == [
        "一只", "棕色", "的", "狗", "在", "草地", "上", "奔跑",
    ]  # fmt: skip
    assert [path.name for path in (tmp_path / "jieba").iterdir()] == ["jieba.cache"] and not list(shared.iterdir())
    assert capfd.readouterr() == ("", ""), "jieba says on standard error that it builds its dictionary"
    for text in REAL:
        words = " ".join(jieba.cut(unicodedata.normalize("NFKC", text))).split()
        assert TOKENIZERS["zh-jieba"].tokenize(text) == [word for word in words if word not in tokenizers.MARKS]


def test_thai_words_break_where_the_vowel_am_is_taken_apart():
    pytest.importorskip("pythainlp")
    assert TOKENIZERS["th-newmm"].tokenize("ภาพดำ") == ["ภา", "พด", "\u0e4d\u0e32"]
    assert TOKENIZERS["th-newmm-composed"].tokenize("ภาพดำ") == ["ภาพ", "ดำ"]
    assert TOKENIZERS["th-char"].tokenize("ดำ") == ["ด", "\u0e4d", "\u0e32"]


def test_sudachi_gives_short_units():
    pytest.importorskip("sudachidict_core", reason="pip install 'captious[sudachi]'")
    # Mode C would leave 国会議事堂前駅, the name of a station, in one piece.
    assert TOKENIZERS["ja-sudachi"].tokenize("国会議事堂前駅、です") == ["国会", "議事", "堂", "前", "駅", "です"]


@pytest.mark.parametrize("name", [name for name, one in TOKENIZERS.items() if one.packages])
def test_the_signature_names_the_packages_that_segment(name, monkeypatch):
    monkeypatch.setattr(tokenizers, "get_installed_version", lambda package, extra: "9.8")
    tokenizer = TOKENIZERS[name]
    assert str(tokenizer) == f"{name}.1[{'+'.join(f'{package}-9.8' for package in tokenizer.packages)}]"


@pytest.mark.parametrize(
    ("name", "module", "extra", "loader"),
    [
        ("zh-jieba", "jieba", "zh", "_load_jieba"),
        ("th-newmm", "pythainlp.tokenize", "th", "_load_newmm"),
        ("ja-mecab", "MeCab", "ja", "_load_mecab"),
        ("ja-sudachi", "sudachipy", "sudachi", "_load_sudachi"),
        ("ko-mecab", "mecab_ko", "ko", "_load_mecab"),
    ],
)
def test_a_missing_package_is_one_line_that_names_the_extra(name, module, extra, loader, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    getattr(tokenizers, loader).cache_clear()
    with pytest.raises(MissingExtra, match=rf"^this needs {module}, which is not installed: .*captious\[{extra}\]'$"):
        TOKENIZERS[name].tokenize("犬")


def test_the_version_of_a_missing_package_is_one_line_too():
    with pytest.raises(MissingExtra, match=r"^this needs no-such-package, which is not installed: .*captious\[zh\]'$"):
        str(Tokenizer("made-up", 1, str.split, bool, packages=("no-such-package",), extra="zh"))


@pytest.mark.parametrize("dictionary", [None, (5, None), (tokenizers.IPADIC, "a user's")])
def test_another_dictionary_of_mecab_is_refused(dictionary, monkeypatch):
    pytest.importorskip("MeCab")
    monkeypatch.setattr("MeCab.Tagger", lambda arguments: FakeTagger(dictionary))
    tokenizers._load_mecab.cache_clear()
    with pytest.raises(
        InputError, match=r"^MeCab: (its dictionary ipadic cannot be opened|a dictionary of [\d,]+ words)"
    ):
        TOKENIZERS["ja-mecab"].tokenize("犬")


class FakeTagger:
    """A MeCab whose dictionary is another one, or cannot be read."""

    def __init__(self, dictionary):
        if dictionary is None:
            raise RuntimeError("no such dictionary")
        self.dictionary = dictionary

    def dictionary_info(self):
        return type("Info", (), dict(zip(("size", "next"), self.dictionary, strict=True)))


def test_threads_share_a_segmenter():
    pytest.importorskip("MeCab")
    text, results = "草原を走る茶色い犬、2匹。" * 20, []
    expected = TOKENIZERS["ja-mecab"].tokenize(text)
    work = [
        threading.Thread(target=lambda: results.append([TOKENIZERS["ja-mecab"].tokenize(text) for _ in range(20)]))
        for _ in range(4)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert results == [[expected] * 20] * 4


def test_a_segmenter_gets_every_distinct_caption_once_and_whole():
    seen = []

    def segment(text):
        seen.append(text)
        return list(text.replace(" ", ""))

    tool = Tokenizer("made-up", 1, segment)
    vocabulary, tokens, lengths = tokenize(["b a", "", "b a", "c"], tool)
    assert seen.count("b a") == 1 and set(seen) <= {"", "b a", "c"}
    assert [vocabulary[token] for token in tokens] == ["b", "a", "b", "a", "c"]
    assert lengths.tolist() == [2, 0, 2, 1]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tables_have_the_tokens_of_whole_captions(name):
    tokenizer = find_tokenizer(name)
    try:
        str(tokenizer)
    except MissingExtra as error:
        pytest.skip(str(error))
    texts = REAL + RANDOM
    vocabulary, tokens, lengths = tokenize(texts, tokenizer)
    words = iter([vocabulary[token] for token in tokens])
    for text, length in zip(texts, lengths.tolist(), strict=True):
        expected = tokenizer.tokenize(text)
        # Tables cut tokens at white space once more, as coco-caption does.
        assert [next(words) for _ in range(length)] == " ".join(expected).split(), text
