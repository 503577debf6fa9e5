"""The detector of fluency errors: random weights against a plain BERT and linear map, its reading of texts, files."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.models.fluency_checkpoint import write_detector

from captious.errors import InputError
from captious.metrics.fense import Fense
from captious.models.fluency import LIMIT, load_detector, strip_punctuation
from captious.options import Runtime, using

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "barks", "##s", "and", "rain", "falls", "dogs"]
TEXTS = [
    "A dog barks.",
    "a dog, and a dog and a",
    "Rain falls!",
    "dog's",
    "unheard of",
    "a dog barks and rain falls " * 20,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_detector(tmp_path_factory.mktemp("weights") / "detector", WORDS)


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu", batch=2)):
        yield


def plain_probability(folder, text):
    """The last sigmoid for one text alone, by the classes and the tokenizer of transformers, padded to 64 tokens."""
    stored = torch.load(folder / "detector.ckpt")
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    encoder = transformers.BertModel(transformers.BertConfig(vocab_size=len(WORDS), **shape)).eval()
    state = {key.removeprefix("encoder."): one for key, one in stored["state_dict"].items() if key[:8] == "encoder."}
    del state["embeddings.position_ids"]
    encoder.load_state_dict(state)
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True)
    text = re.sub(r"[^\w\s]", "", text).lower()
    batch = tokenizer([text], truncation=True, padding="max_length", max_length=64, return_tensors="pt")
    with torch.no_grad():
        states = encoder(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).last_hidden_state
        logits = states[:, 0] @ stored["state_dict"]["clf.weight"].T + stored["state_dict"]["clf.bias"]
    assert logits.shape == (1, 6)
    return float(torch.sigmoid(logits)[0, 5])


def test_probabilities_are_those_of_a_plain_bert_and_a_linear_map(folder):
    values = load_detector(str(folder)).probabilities(TEXTS)
    assert values == pytest.approx([plain_probability(folder, text) for text in TEXTS], abs=1e-6)
    assert np.ptp(values) > 0.01, "the texts must differ for this to say something"


def test_signs_and_case_are_deleted_and_the_65th_token_is_not_read(folder):
    detector = load_detector(str(folder))
    one, same = detector.probabilities(["A dog's, bark - twice.", "a dogs bark  twice"])
    assert one == same and strip_punctuation("A dog's, bark") == "a dogs bark"
    long = "a " * (LIMIT - 2)
    assert len({*detector.probabilities([long, long + "dog", long + "rain falls"]).tolist()}) == 1


def test_a_metric_that_asks_it_knows_english_alone(folder, tmp_path):
    (tmp_path / "errors.csv").write_text("id,error_probability\n1,0.5\n")
    assert Fense(fluency=str(folder)).languages == ("en",)
    assert Fense().languages == Fense(fluency=str(tmp_path / "errors.csv")).languages == ()


def test_a_checkpoint_may_be_named_by_its_file(folder):
    by_file = load_detector(str(folder / "detector.ckpt"))
    assert by_file.fingerprint == load_detector(str(folder)).fingerprint
    assert str(by_file).startswith("detector.ckpt#")


def test_heads_are_of_64_numbers_without_a_configuration(tmp_path):
    folder = write_detector(tmp_path / "wide", WORDS, hidden_size=128, num_attention_heads=2)
    with_file = load_detector(str(folder)).probabilities(["a dog"])
    (folder / "config.json").unlink()
    assert load_detector(str(folder)).probabilities(["a dog"]) == with_file


def test_what_is_no_detector_is_refused_in_one_line(folder, tmp_path):
    with pytest.raises(InputError, match=r"found the checkpoints none, expected one; the folder needs .*vocab\.txt"):
        load_detector(str(tmp_path))
    torch.save({"weight": torch.zeros(2)}, tmp_path / "other.ckpt")
    with pytest.raises(InputError, match=r"other\.ckpt: contains weight, expected a detector of FENSE"):
        load_detector(str(tmp_path))
    stored = torch.load(folder / "detector.ckpt")
    del stored["state_dict"]["encoder.encoder.layer.1.output.dense.bias"]
    torch.save(stored, tmp_path / "other.ckpt")
    with pytest.raises(InputError, match=r"other\.ckpt: .*missing encoder\.encoder\.layer\.1\.output\.dense\.bias"):
        load_detector(str(tmp_path))
