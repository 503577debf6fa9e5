"""BLEURT: parity with plain tensor operations on random weights, pairs as the original cuts them, messages.

The scores that checkpoints publish are compared where the weights are present: in the hub's cache, or as folders in the
folder that the variable BLEURT_CHECKPOINTS names.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.metrics.bleurt_checkpoint import plain_score, random_state, write_checkpoint

from captious import CaptionSet
from captious.errors import InputError
from captious.metrics.bleurt import Bleurt
from captious.metrics.registry import parse
from captious.models.bleurt import BleurtModel, load_bleurt, score_pairs, truncate_pair
from captious.models.store import close_stores
from captious.options import Runtime, using

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "cat", "red", "runs", "sits", "on", "the", "mat", "##s"]
PAIRS = [
    ("a dog runs", "the red cat sits on a mat"),
    ("a dog runs", "a dog runs"),
    ("A Dögs", "DOG zebra"),  # lower case, without accents, in pieces, unknown
    ("the mat", ""),
    ("a red dog " * 6, "the cat " * 6),
]
SHAPES = {"RemBERT": {"embedding_size": 8}, "BERT": {}, "deep": {"embedding_size": 32, "num_hidden_layers": 6}}


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu")):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "bleurt", WORDS, embedding_size=8)


def ids_of(text):
    pieces = {"dögs": ["dog", "##s"], "dogs": ["dog", "##s"], "zebra": ["[UNK]"]}
    return [WORDS.index(piece) for word in text.lower().split() for piece in pieces.get(word, [word])]


def cut_as_the_original(reference, candidate, budget):
    """A token at a time from the longer text, on ties from the candidate."""
    reference, candidate = [*reference], [*candidate]
    while len(reference) + len(candidate) > budget:
        (reference if len(reference) > len(candidate) else candidate).pop()
    return reference, candidate


def expected(folder, reference, candidate, limit=24, **options):
    return plain_score(folder, *cut_as_the_original(ids_of(reference), ids_of(candidate), limit - 3), **options)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_those_of_plain_tensor_operations(tmp_path, shape, activation):
    """The largest difference was 2.2e-7, of scores between −0.96 and 1.08; the two activations differ by 9e-5."""
    folder = write_checkpoint(tmp_path / "random", WORDS, **SHAPES[shape])
    scores, lengths = score_pairs(load_bleurt(str(folder), activation), PAIRS)
    wanted = [expected(folder, *pair, tanh_gelu=activation == "gelu_new") for pair in PAIRS]
    assert np.std(wanted) > 0.01
    assert scores == pytest.approx(wanted, abs=2e-6)
    assert lengths.tolist() == [3 + len(ids_of(one)) + len(ids_of(two)) for one, two in PAIRS]


def test_the_shape_of_bleurt_20_d3_and_of_the_tiny_bert(tmp_path):
    """Widths of real checkpoints, with fewer words: the largest difference was 6.3e-7."""
    words = [*WORDS, *(f"word{number}" for number in range(200))]
    d3 = {"embedding_size": 128, "hidden_size": 640, "intermediate_size": 2560, "num_attention_heads": 10}
    tiny = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 2, "num_hidden_layers": 2}
    for name, shape in (("d3", {**d3, "num_hidden_layers": 3}), ("tiny", tiny)):
        folder = write_checkpoint(tmp_path / name, words, max_position_embeddings=512, **shape)
        scores, _ = score_pairs(load_bleurt(str(folder)), PAIRS)
        wanted = [expected(folder, *pair, limit=512) for pair in PAIRS]
        assert scores == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("budget", range(1, 12))
def test_pairs_are_cut_as_the_original_cuts_them(budget):
    for one in range(9):
        for two in range(9):
            pair = list(range(one)), list(range(10, 10 + two))
            assert truncate_pair(*pair, budget) == cut_as_the_original(*pair, budget)


def test_batches_change_nothing_and_each_distinct_pair_is_scored_once(folder, monkeypatch):
    rows = []
    original = BleurtModel.logits
    monkeypatch.setattr(BleurtModel, "logits", lambda self, pairs: rows.append(len(pairs)) or original(self, pairs))
    with using(Runtime(device="cpu", batch=2)):
        twice, _ = score_pairs(load_bleurt(str(folder)), PAIRS + PAIRS)
    assert rows == [2, 2, 1] and (twice[:5] == twice[5:]).all()
    close_stores()
    again, lengths = score_pairs(load_bleurt(str(folder)), PAIRS[::-1])
    assert rows == [2, 2, 1] and (again == twice[4::-1]).all() and lengths[0] == 3 + 18 + 12
    with using(Runtime(device="cpu", batch=64, cache=False)):
        assert score_pairs(load_bleurt(str(folder)), PAIRS)[0] == pytest.approx(twice[:5], abs=1e-6)


def test_memory_that_runs_out_halves_the_batch(folder, monkeypatch):
    wanted, _ = score_pairs(load_bleurt(str(folder)), PAIRS)
    original = BleurtModel.logits

    def small(self, pairs):
        if len(pairs) > 2:
            raise RuntimeError("CUDA out of memory")
        return original(self, pairs)

    monkeypatch.setattr(BleurtModel, "logits", small)
    close_stores()
    lines = []
    with using(Runtime(device="cpu", cache=False, log=lines.append)):
        assert score_pairs(load_bleurt(str(folder)), PAIRS)[0] == pytest.approx(wanted, abs=1e-6)
    assert lines == ["out of memory with a batch of 5: going on with 2"]


@pytest.mark.parametrize("over", ["max", "mean"])
def test_several_references_give_the_highest_or_the_mean(folder, over):
    references = {"1": ["a dog runs", "the red mat", " "], "2": ["a cat"], "3": ["", " "]}
    captions = CaptionSet.of({"1": "the dog sits", "2": "", "3": "a cat"}, references)
    measured = Bleurt(weights=str(folder), over=over).measure(captions)
    both = [expected(folder, reference, "the dog sits") for reference in references["1"][:2]]
    first = max(both) if over == "max" else sum(both) / 2
    assert measured.items["1"] == pytest.approx(first, abs=1e-6)  # the empty reference is left out
    assert measured.items["2"] == pytest.approx(expected(folder, "a cat", ""), abs=1e-6)  # an empty caption has a score
    assert measured.reasons == {"3": "all references are empty"}


def test_a_pair_beyond_the_limit_is_counted(folder):
    captions = CaptionSet.of({"1": "a dog " * 6, "2": "a cat"}, {"1": ["a cat " * 6, "a"], "2": ["a cat"]})
    measured = Bleurt(weights=str(folder)).measure(captions)
    assert "|truncated:1|" in str(measured.signature) and "|limit:24|" in str(measured.signature)
    assert "1 caption has with a reference more than the model's 24 tokens" in measured.warnings[0]
    assert "(ids 1)" in measured.warnings[0]


def test_the_limit_is_that_of_training(tmp_path):
    def limit(name, files=(), **shape):
        folder = write_checkpoint(tmp_path / name, WORDS, max_position_embeddings=512, num_hidden_layers=1)
        for file, content in files:
            (folder / file).write_text(json.dumps(content))
        return load_bleurt(str(folder)).limit

    assert limit("bleurt-tiny-128") == 128
    assert limit("BLEURT-20") == limit("bleurt-tiny-512") == 512
    assert limit("a-512", [("bleurt_config.json", {"max_seq_length": 128})]) == 128
    assert limit("one", [("tokenizer_config.json", {"model_max_length": 128})]) == 128
    assert limit("two", [("tokenizer_config.json", {"model_max_length": 10**30})]) == 512


def test_the_classes_of_transformers_save_what_is_read_again(folder, tmp_path):
    """Some publish BLEURT as a checkpoint of transformers' own classes."""
    model = load_bleurt(str(folder))
    model.module.save_pretrained(tmp_path / "again")
    (tmp_path / "again" / "vocab.txt").symlink_to(folder / "vocab.txt")
    again = load_bleurt(str(tmp_path / "again"))
    assert score_pairs(again, PAIRS)[0] == pytest.approx(score_pairs(model, PAIRS)[0], abs=1e-7)
    assert again.fingerprint == model.fingerprint


def test_sentencepiece_takes_the_text_as_it_is(tmp_path):
    library = pytest.importorskip("sentencepiece")
    folder = write_checkpoint(tmp_path / "pieces", [], embedding_size=8, vocab_size=60, max_position_embeddings=64)
    texts = [
        f"{one} {two} {verb}s on the mat." for one in ("A", "The") for two in ("Dog", "cat") for verb in ("run", "sit")
    ]
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 4),
        model_prefix=str(folder / "spm"),
        vocab_size=40,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece="[PAD]",
        unk_piece="[UNK]",
        control_symbols=["[CLS]", "[SEP]"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = library.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    first, separator = processor.piece_to_id("[CLS]"), processor.piece_to_id("[SEP]")
    assert (first, separator) == (2, 3)
    pairs = [("The Dog runs", "A cat  sits on the mat."), ("the dog", "The Dog"), ("", "zebra")]
    scores, _ = score_pairs(load_bleurt(str(folder)), pairs)
    wanted = [plain_score(folder, *(processor.encode_as_ids(text) for text in pair)) for pair in pairs]
    assert scores == pytest.approx(wanted, abs=2e-6)
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(folder / "spm"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(InputError, match=r"spm\.model: has no pieces \[CLS\] and \[SEP\]"):
        load_bleurt(str(folder))
    (folder / "spm.model").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"spm\.model: is not a SentencePiece model"):
        load_bleurt(str(folder))


def test_sentencepiece_that_is_absent_is_named(folder, tmp_path, monkeypatch):
    other = write_checkpoint(tmp_path / "other", WORDS, embedding_size=8)
    (other / "spm.model").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(InputError, match=r"needs sentencepiece, .* pip install 'captious\[bleurt\]'"):
        load_bleurt(str(other))


def spoilt(folder, what):
    """A checkpoint with one thing wrong."""
    write_checkpoint(folder, WORDS)
    config = json.loads((folder / "config.json").read_text())
    state = random_state(config, 0)
    if what == "no vocabulary":
        (folder / "vocab.txt").unlink()
    elif what == "no weights":
        (folder / "pytorch_model.bin").unlink()
    elif what == "no config":
        (folder / "config.json").unlink()
    elif what == "tensorflow":
        (folder / "saved_model.pb").write_bytes(b"")
    elif what == "heads":
        (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 3}))
    elif what == "another shape":
        (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    elif what == "no head":
        del state["classifier.weight"]
        torch.save(state, folder / "pytorch_model.bin")
    return folder


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no vocabulary", r"has no vocabulary, expected spm\.model \(SentencePiece\) or vocab\.txt"),
        ("no weights", r"has no weights, expected pytorch_model\.bin"),
        ("no config", r"has no config\.json, expected a BLEURT checkpoint of the PyTorch port"),
        ("tensorflow", "is a checkpoint of TensorFlow, expected one of the PyTorch port"),
        ("heads", r"config\.json: is not the shape of a BLEURT"),
        ("another shape", r"is not a BLEURT of the shape that config\.json says: missing bert\.encoder\.layer\.2"),
        ("no head", r"missing classifier\.weight"),
    ],
)
def test_a_folder_that_is_no_checkpoint_gets_one_line(tmp_path, what, says):
    with pytest.raises(InputError, match=says) as caught:
        load_bleurt(str(spoilt(tmp_path / "spoilt", what)))
    assert "\n" not in str(caught.value)


def test_limits_that_cannot_be(folder):
    with pytest.raises(InputError, match=r"limit 25: .* has 24 positions, expected 4 to 24"):
        parse(f"bleurt(weights={folder},limit=25)").measure(CaptionSet.of({"1": "a"}, {"1": ["a"]}))
    with pytest.raises(InputError, match=r"bleurt\(limit=3\): expected at least 4"):
        Bleurt(limit=3)


def test_without_a_network_the_message_says_what_to_download(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hub cannot be reached; download config\.json, pytorch_model\.bin .*spm\.m"):
        load_bleurt("owner/nothing")


def test_a_table_shows_decimals_though_the_range_has_no_limits(folder, run):
    metric = Bleurt(weights=str(folder))
    assert metric.decimals is None and parse("vocab_size").decimals == 0
    from captious import evaluate

    report = evaluate({"1": "a dog"}, metric, references={"1": ["a cat"]})
    assert f"{report.measurements[str(metric)].corpus:.4f}" in str(report)


# From the model cards of the port.
PUBLISHED = {
    "BLEURT-20": (0.9990497, 0.7930182),
    "BLEURT-20-D12": (0.9604414, 0.8080050),
    "bleurt-base-128": (1.0474470, 0.7105224),
    "bleurt-large-128": (1.0888319, 0.8341826),
    "bleurt-large-512": (1.0721179, 0.8036928),
}
PUBLISHED_PAIRS = [
    ("a bird chirps by the window", "a bird chirps by the window"),
    ("this is a random sentence", "this looks like a random sentence"),
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_scores(name, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    here = Path(os.environ.get("BLEURT_CHECKPOINTS", "")) / name
    try:
        model = load_bleurt(str(here) if here.is_dir() else f"lucadiliello/{name}")
    except InputError as error:
        pytest.skip(str(error))
    assert score_pairs(model, PUBLISHED_PAIRS)[0] == pytest.approx(PUBLISHED[name], abs=1e-4)
