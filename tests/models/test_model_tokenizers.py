"""Token ids equal to those of OpenAI's tokenizer, the end kept where a text is cut, errors that say where."""

import gzip
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from captious.errors import InputError, MissingExtra
from captious.models._model_tokenizers import (
    MERGES,
    clean_text,
    find_clip_tokenizer,
    from_backend,
    from_list,
    pad,
    read_tokenizer,
)

START, END = 49406, 49407
WORDS = [
    "it's",
    "don't",
    "they'll",
    "I'd",
    "&amp;",
    "&ldquo;a&rdquo;",
    "café",
    "“so”",
    "dog’s",
    "3.5",
    "...",
    "ﬁsh",
    "Ｆ",
    "Ã©",
]


def test_ids_are_openais(open_clip, tokenizer):
    """Random letters, digits, marks, spaces and scripts, and the words that cleaning changes."""
    theirs = open_clip.tokenizer.SimpleTokenizer(context_length=200)
    chosen = random.Random(3)
    letters = "aabcdeefghiistrl '!.,-’“”&;\"0123 éüñ中文🙂\t\nTHE_\x07"
    texts = [
        "".join(chosen.choices(letters, k=chosen.randint(0, 50))) + " ".join(chosen.choices(WORDS, k=4))
        for _ in range(500)
    ]
    texts += ["", "a", "A photo depicts a cat."]
    ours = tokenizer(texts)
    reference = theirs(texts).numpy()
    for row, length, wanted in zip(ours.ids, ours.lengths, reference, strict=True):
        if length <= 77:
            assert row[:length].tolist() == wanted[:length].tolist()
            assert wanted[length:].sum() == 0


def test_known_ids(tokenizer):
    """'hello world!' in OpenAI's notebook."""
    found = tokenizer(["hello world!", "Hello  WORLD"])
    assert found.ids.tolist() == [[START, 3306, 1002, 256, END], [START, 3306, 1002, END, END]]
    assert found.lengths.tolist() == [5, 4]


def test_a_long_text_is_cut_and_keeps_its_end(tokenizer):
    long = "dog " * 100
    found = tokenizer([long, "dog"])
    assert found.ids.shape == (2, 77)
    assert found.lengths.tolist() == [102, 3]
    assert found.ids[0].tolist() == [START, *[1929] * 75, END]
    assert found.ids[1].tolist() == [START, 1929] + [END] * 75


def test_exactly_as_long_as_the_limit_is_not_cut(tokenizer):
    found = tokenizer(["dog " * 75])
    assert found.lengths.tolist() == [77]
    assert found.ids[0].tolist() == [START, *[1929] * 75, END]


def test_no_texts_and_empty_texts(tokenizer):
    assert tokenizer([]).ids.shape[0] == 0
    assert tokenizer(["", "  \n "]).ids.tolist() == [[START, END], [START, END]]


def test_padding_by_hand():
    found = pad([[5, 6], [], [1, 2, 3, 4]], [8], 9, 0, limit=5)
    assert found.ids.tolist() == [[8, 5, 6, 9, 0], [8, 9, 0, 0, 0], [8, 1, 2, 3, 9]]
    assert found.lengths.tolist() == [4, 2, 6]
    full = pad([[5]], [], 9, 7, limit=4, full=True)
    assert full.ids.tolist() == [[5, 9, 7, 7]]
    assert full.lengths.tolist() == [2]


def test_saved_and_read_again(tmp_path, tokenizer):
    tokenizer.save(tmp_path)
    again = read_tokenizer(tmp_path, 77)
    assert (again.start, again.end, again.pad, again.clean) == (START, END, END, True)
    assert again.text == tokenizer.text
    texts = ["A cat’s   hat", "two dogs, 3 cats!"]
    assert np.array_equal(again(texts).ids, tokenizer(texts).ids)


def test_transformers_reads_what_is_saved(tmp_path, tokenizer):
    transformers = pytest.importorskip("transformers")
    tokenizer.save(tmp_path)
    theirs = transformers.CLIPTokenizerFast.from_pretrained(tmp_path)
    assert theirs(["a dog's hat!", "3 dogs"])["input_ids"] == [
        row[:length].tolist() for row, length in zip(*tokenizer(["a dog's hat!", "3 dogs"]), strict=True)
    ]


def test_vocab_and_merges_files(tmp_path, tokenizer):
    """The older pair of files holds the same tokenizer."""
    model = json.loads(tokenizer.backend.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n")
    texts = ["A cat’s hat", "running dogs, 3.5!"]
    assert np.array_equal(read_tokenizer(tmp_path, 77)(texts).ids, tokenizer(texts).ids)


def test_any_tokenizer_with_a_start_and_an_end(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "dog": 5}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.enable_truncation(4)
    backend.enable_padding(length=9)
    backend.save(str(tmp_path / "tokenizer.json"))
    found = read_tokenizer(tmp_path, 6)
    assert found(["a dog", "a a a dog dog dog cat"]).ids.tolist() == [[2, 4, 5, 3, 0, 0], [2, 4, 4, 4, 5, 3]]
    assert (found.start, found.end, found.pad, found.clean) == (2, 3, 0, False)


def test_frame_from_the_settings_where_the_tokenizer_has_none():
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "</s>": 1, "a": 2}, unk_token="a"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    assert from_backend(backend, 5, settings, "here")(["a a"]).ids.tolist() == [[0, 2, 2, 1]]
    with pytest.raises(InputError, match="here: its tokenizer names no end token"):
        from_backend(backend, 5, {}, "here")


def test_no_tokenizer_says_which_files(tmp_path):
    with pytest.raises(InputError, match=r"tokenizer\.json") as error:
        read_tokenizer(tmp_path, 77)
    assert str(tmp_path) in str(error.value)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="is not a tokenizer"):
        read_tokenizer(tmp_path, 77)


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """The hub's cache is empty, and there is no network."""
    hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.mark.parametrize("damage", ["cut", "strange"])
def test_damaged_merges_are_one_line(tmp_path, tokenizer, damage):
    model = json.loads(tokenizer.backend.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\ni n\nzzzzq qqqqz\n" if damage == "strange" else "i n\nth")
    if damage == "cut":
        (tmp_path / "merges.txt").write_bytes(b"#version: 0.2\ni n\n\xff\xfe")
    with pytest.raises(InputError, match=r"its vocab\.json and merges\.txt are not a tokenizer \(") as error:
        read_tokenizer(tmp_path, 77)
    assert "\n" not in str(error.value)


def test_merges_nowhere_says_what_to_download_and_where_to_put_it(tmp_path, bare_machine):
    with pytest.raises(InputError, match=r"download tokenizer\.json") as error:
        find_clip_tokenizer(tmp_path, 77)
    assert "weights" in str(error.value)
    assert "openai/clip-vit-base-patch32" in str(error.value)
    assert "\n" not in str(error.value)


def test_merges_are_taken_from_beside_the_checkpoint_first(tmp_path, bare_machine, open_clip):
    carried = Path(open_clip.__file__).parent / MERGES
    (tmp_path / MERGES).write_bytes(carried.read_bytes())
    assert find_clip_tokenizer(tmp_path, 77)(["dog"]).ids.tolist() == [[START, 1929, END]]


def test_merges_from_the_users_folder(tmp_path, bare_machine, tokenizer, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "weights").mkdir(parents=True)
    tokenizer.save(tmp_path / "home" / "weights")
    assert find_clip_tokenizer(tmp_path / "elsewhere", 248).limit == 248


def test_a_list_that_is_too_short_or_damaged(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"#version\na b\n"))
    with pytest.raises(InputError, match="expected 48894"):
        from_list(tmp_path / "a.gz")
    (tmp_path / "a.gz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is not CLIP's list"):
        from_list(tmp_path / "a.gz")


def test_cleaning_needs_no_extra_library_for_plain_texts(monkeypatch):
    monkeypatch.setitem(sys.modules, "ftfy", None)
    assert clean_text(" Black & White\n") == "black & white"
    with pytest.raises(MissingExtra, match=r"captious\[clip\]"):
        clean_text("“so”")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A dog’s “bone”", 'a dog\'s "bone"'),
        ("caf\u00c3\u00a9", "caf\u00e9"),
        ("salt &amp; pepper", "salt & pepper"),
        ("a\tb\n\n c", "a b c"),
        ("bell\x07", "bell"),
        ("AT&T & co", "at&t & co"),
    ],
)
def test_what_cleaning_mends(text, wanted):
    pytest.importorskip("ftfy")
    assert clean_text(text) == wanted
