"""Texts of SigLIP 1 and 2: prepared as the tokenizers of ``transformers`` do, in code and not in their files."""

import json
import shutil
import sys

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.models import cosines, image_features, text_features
from captious.models._model_tokenizers import canonicalize
from captious.models.loading import load

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["A red Ball!", "a red ball", "Two DOGS  run,\tafter a ball", "", "a dog " * 80]
CORPUS = ["a red ball", "two dogs run after a ball", "A Dog, two Dogs!"]


def features_of(output):
    return getattr(output, "pooler_output", output).detach().numpy()


def save_model(folder, words):
    """Write a SigLIP with random weights of two small towers and 64 tokens."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(4)
    config = transformers.SiglipConfig(
        text_config={**shape, "vocab_size": words, "max_position_embeddings": 64, "eos_token_id": 1},
        vision_config={**shape, "image_size": 32, "patch_size": 16},
    )
    model = transformers.SiglipModel(config).eval()
    model.save_pretrained(folder)
    return model


@pytest.fixture
def siglip2(tmp_path):
    """A folder of SigLIP 2 as the hub has them: Gemma's kind of tokenizer, which keeps case, and its class."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True))
    backend.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "merged_with_previous")
    backend.train_from_iterator(CORPUS, tokenizers.trainers.BpeTrainer(vocab_size=80, special_tokens=special))
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <eos>", pair="$A <eos> $B <eos>", special_tokens=[("<eos>", 1)]
    )
    model = save_model(tmp_path, backend.get_vocab_size())
    backend.save(str(tmp_path / "tokenizer.json"))
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
    settings = {**names, "tokenizer_class": "Siglip2Tokenizer", "model_max_length": 64, "padding_side": "right"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path, model


def compare(encoder, model, tokenizer):
    """Compare token ids and features of texts with those of a tokenizer of ``transformers``."""
    theirs = tokenizer(TEXTS, padding="max_length", max_length=64, truncation=True, return_tensors="pt")["input_ids"]
    ours = encoder.tokenize(TEXTS).ids
    assert ours.tolist() == theirs.tolist()
    difference = encoder.text_features(ours) - features_of(model.get_text_features(input_ids=theirs))
    assert np.abs(difference).max() < 1e-5


@pytest.mark.skipif(not hasattr(transformers, "Siglip2Tokenizer"), reason="this transformers has no Siglip2Tokenizer")
def test_texts_of_siglip2_are_in_lower_case_as_in_transformers(siglip2):
    folder, model = siglip2
    encoder = load(str(folder))
    compare(encoder, model, transformers.AutoTokenizer.from_pretrained(folder))
    assert encoder.tokenize(["A RED BALL"]).ids.tolist() == encoder.tokenize(["a red ball"]).ids.tolist()


def test_a_siglip2_that_was_saved_again_is_the_same_encoder(siglip2, tmp_path):
    folder, _ = siglip2
    encoder = load(str(folder))
    encoder.save(tmp_path / "again")
    assert load(str(tmp_path / "again")).fingerprint == encoder.fingerprint


@pytest.fixture
def gemma(siglip2, tmp_path):
    """A folder of SigLIP 2, and the same with Gemma's class, with which ``transformers`` keeps capitals."""
    folder, _ = siglip2
    other = tmp_path / "gemma"
    shutil.copytree(folder, other, ignore=shutil.ignore_patterns("gemma"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (other / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "GemmaTokenizer"}))
    return folder, other


def test_lower_case_enters_the_fingerprint(gemma):
    siglip2, folder = gemma
    cased = load(str(folder))
    assert cased.fingerprint != load(str(siglip2)).fingerprint
    assert cased.tokenize(["A"]).ids.tolist() != cased.tokenize(["a"]).ids.tolist()


def test_case_lower_reads_a_folder_that_keeps_capitals_as_siglip2_was_trained(gemma, tmp_path):
    siglip2, folder = gemma
    lower, usual = load(str(folder), case="lower"), load(str(folder))
    expected = load(str(siglip2))
    assert lower.tokenize(TEXTS).ids.tolist() == expected.tokenize(TEXTS).ids.tolist()
    assert lower.fingerprint == expected.fingerprint != usual.fingerprint
    lower.save(tmp_path / "again")
    assert load(str(tmp_path / "again")).fingerprint == lower.fingerprint
    assert load(str(siglip2), case="lower").fingerprint == expected.fingerprint  # it has no second effect


def test_kept_capitals_are_noted_and_the_note_names_the_option(gemma, photos):
    siglip2, folder = gemma
    captions = CaptionSet.of({"red": "A red Ball"}, columns={"image": [str(photos / "red.png")]})
    kept, lower, named = (
        parse(f"clipscore(weights={where},value=raw)").measure(captions)
        for where in (folder, f"{folder},case=lower", siglip2)
    )
    assert any("keeps capitals" in note and "case=lower" in note for note in kept.notes)
    assert not any("capitals" in note for note in (*lower.notes, *named.notes))
    assert lower.items["red"] == pytest.approx(named.items["red"], abs=1e-6)
    assert abs(kept.items["red"] - lower.items["red"]) > 1e-6
    assert "case=lower" in str(lower.signature) and "case" not in str(kept.signature).partition("|")[0]


def test_case_is_for_folders(tmp_path):
    with pytest.raises(InputError, match="captious-mini: case=lower is for model folders, such as those of SigLIP 2"):
        load("captious-mini", case="lower")
    (tmp_path / "a.pth").write_bytes(b"weights")
    with pytest.raises(InputError, match=r"a\.pth: case=lower is for model folders"):
        load(str(tmp_path / "a.pth"), case="lower")


@pytest.fixture
def spiece(tmp_path):
    """A folder of SigLIP 1 as ``transformers`` saves it: ``spiece.model`` and no ``tokenizer.json``."""
    pieces = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    (tmp_path / "corpus.txt").write_text("\n".join([canonicalize(text) for text in CORPUS] * 20))
    pieces.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=20,
        bos_id=-1,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        minloglevel=2,
    )
    folder = tmp_path / "siglip"
    tokenizer = transformers.SiglipTokenizer(str(tmp_path / "spiece.model"))
    tokenizer.save_pretrained(folder)
    assert not (folder / "tokenizer.json").exists()
    return folder, save_model(folder, 20), tokenizer


def test_a_siglip_with_only_its_sentencepiece_model(spiece, tmp_path):
    folder, model, tokenizer = spiece
    encoder = load(str(folder))
    compare(encoder, model, tokenizer)
    assert encoder.tokenize(["A red, ball!"]).ids.tolist() == encoder.tokenize(["a red ball"]).ids.tolist()
    assert encoder.tokenize(["a dog " * 80]).lengths.max() > 64
    encoder.save(tmp_path / "again")
    assert load(str(tmp_path / "again")).fingerprint == encoder.fingerprint


def test_a_file_that_is_no_sentencepiece_model_is_refused(spiece):
    folder, _, _ = spiece
    (folder / "spiece.model").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"spiece\.model: is not a SentencePiece model") as error:
        load(str(folder))
    assert "\n" not in str(error.value)


def test_a_missing_sentencepiece_names_the_extra(spiece, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)  # which Python takes for a module that cannot be imported
    with pytest.raises(InputError, match=r"captious\[siglip\]"):
        load(str(spiece[0]))


def test_a_naflex_model_says_what_to_take_instead(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "siglip2"}')
    with pytest.raises(InputError, match=r"a NaFlex model; take a FixRes one, such as google/siglip2-base-patch16-224"):
        load(str(tmp_path))


@pytest.mark.shared_data
def test_features_of_siglip2_are_those_of_transformers(shared_data):
    """``expected.json`` was written by transformers 5.23.0 for the small model beside it."""
    folder = shared_data / "learned" / "siglip2"
    expected = json.loads((folder / "expected.json").read_text())
    rows = json.loads((folder / "inputs.json").read_text())
    encoder = load(str(folder / "model"))
    captions = [row["caption"] for row in rows]
    tokens = encoder.tokenize(captions)
    assert tokens.ids.tolist() == expected["tokens"]
    assert np.abs(encoder.text_features(tokens.ids) - np.array(expected["caption_features"])).max() < 1e-5
    texts = text_features(encoder, captions)
    paths = [str(folder / row["image"]) for row in rows]
    raw = image_features(encoder, paths, raw=True)
    assert np.abs(raw.rows[raw.index] - np.array(expected["image_features"])).max() < 1e-5
    images = image_features(encoder, paths)
    assert np.abs(cosines(images, texts) - np.array(expected["cosine"])).max() < 1e-5
