"""The same random weights through OpenCLIP and through every layout of file give the same features."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.models.checkpoints import from_openai, stretch
from captious.models.loading import load

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("clip_merges")

TEXTS = ["A cat on a mat.", "two dogs running across a very green field, in the rain", ""]


def pictures(count=3):
    return np.random.default_rng(1).integers(0, 256, (count, 32, 32, 3), np.uint8)


def written(kind, state, folder):
    """The state as its publisher would save it."""
    if kind == "openai.pt":
        _script(state).save(str(folder / kind))
    elif kind == "pacs.pth":
        torch.save({"state_dict": state}, folder / kind)
    elif kind == "plain.pt":
        extra = {
            "input_resolution": torch.tensor(32),
            "context_length": torch.tensor(77),
            "vocab_size": torch.tensor(49408),
        }
        torch.save({**state, **extra}, folder / kind)
    elif kind == "parallel.pt":
        torch.save({f"module.{key}": value for key, value in state.items()}, folder / kind)
    else:
        from safetensors.torch import save_file

        save_file({key: value.contiguous() for key, value in state.items()}, folder / kind)
    return str(folder / kind)


def _script(state):
    """A TorchScript archive with these tensors, in nested modules as OpenAI's."""

    class Holder(torch.nn.Module):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return given

    root = Holder()
    for key, value in state.items():
        *path, last = key.split(".")
        node = root
        for name in path:
            if name not in node._modules:
                node.add_module(name, Holder())
            node = node._modules[name]
        node.register_parameter(last, torch.nn.Parameter(value.clone()))
    root.register_buffer("input_resolution", torch.tensor(32))
    root.register_buffer("context_length", torch.tensor(77))
    root.register_buffer("vocab_size", torch.tensor(49408))
    return torch.jit.trace(root, torch.zeros(1))


def padded(tokenizer, texts, limit=77):
    """OpenAI's way: zeros to the limit."""
    ids, lengths = tokenizer(texts)
    wide = np.zeros((len(texts), limit), np.int64)
    for row, own, length in zip(wide, ids, lengths, strict=True):
        row[:length] = own[:length]
    return torch.from_numpy(wide)


@pytest.mark.parametrize("kind", ["openai.pt", "pacs.pth", "plain.pt", "parallel.pt", "a.safetensors"])
def test_features_are_open_clips(kind, openai_model, tokenizer, tmp_path):
    model = openai_model()
    encoder = load(written(kind, model.state_dict(), tmp_path))
    assert encoder.name == kind
    assert encoder.preparation.order == "crop-first"
    with torch.no_grad():
        images = model.encode_image(encoder.pixels_to_tensor(pictures())).numpy()
        texts = model.encode_text(padded(tokenizer, TEXTS)).numpy()
    assert np.abs(encoder.image_features(pictures()) - images).max() < 1e-5
    assert np.abs(encoder.text_features(encoder.tokenize(TEXTS).ids) - texts).max() < 1e-5
    assert encoder.logit_scale.item() == pytest.approx(model.logit_scale.item())


def test_one_model_has_one_fingerprint_whatever_its_file(openai_model, tmp_path):
    state = openai_model().state_dict()
    prints = {load(written(kind, state, tmp_path)).fingerprint for kind in ("openai.pt", "pacs.pth", "a.safetensors")}
    assert len(prints) == 1


def test_gelu_of_open_clip_on_laion(openai_model, tokenizer, tmp_path):
    model = openai_model(quick=False)
    path = written("plain.pt", model.state_dict(), tmp_path)
    with torch.no_grad():
        texts = model.encode_text(padded(tokenizer, TEXTS)).numpy()
    ids = tokenizer(TEXTS).ids
    assert np.abs(load(path, activation="gelu").text_features(ids) - texts).max() < 1e-5
    assert np.abs(load(path).text_features(ids) - texts).max() > 1e-4


def test_half_precision_file(openai_model, tmp_path):
    """OpenAI's files hold fp16; they are computed in fp32 on a CPU."""
    model = openai_model()
    halves = {key: value.half() for key, value in model.state_dict().items()}
    encoder = load(written("openai.pt", halves, tmp_path))
    rounded = openai_model()
    rounded.load_state_dict({key: value.float() for key, value in halves.items()})
    with torch.no_grad():
        images = rounded.encode_image(encoder.pixels_to_tensor(pictures())).numpy()
    assert np.abs(encoder.image_features(pictures()) - images).max() < 1e-5


def test_two_heads(openai_model, tmp_path):
    """A width of 128 means two heads of 64."""
    model = openai_model(width=128)
    encoder = load(written("plain.pt", model.state_dict(), tmp_path))
    with torch.no_grad():
        images = model.encode_image(encoder.pixels_to_tensor(pictures())).numpy()
    assert np.abs(encoder.image_features(pictures()) - images).max() < 1e-5


def test_specs_checkpoint_scores_as_computed_by_hand(openai_model, tokenizer, tmp_path):
    """Two tables of 248 rows: a model of OpenCLIP with the merged one computes (cos + 1)/2 for us."""
    model = openai_model()
    state = dict(model.state_dict())
    frozen = torch.from_numpy(stretch(state["positional_embedding"].numpy()).astype(np.float32))
    trained = frozen + torch.randn(248, 64) * 0.1
    state |= {"positional_embedding": frozen, "positional_embedding_res": trained}
    torch.save(state, tmp_path / "spec.pt")
    encoder = load(str(tmp_path / "spec.pt"))
    assert encoder.limit == 248

    reference = openai_model(limit=248)
    table = torch.cat([frozen[:20], trained[20:]])
    reference.load_state_dict({**model.state_dict(), "positional_embedding": table})
    long = ["a dog " * 100, "a cat sits under a blanket with fringed edges " * 3, "a cat"]
    longer = load(str(tmp_path / "spec.pt")).tokenizer
    with torch.no_grad():
        images = reference.encode_image(encoder.pixels_to_tensor(pictures()), normalize=True)
        texts = reference.encode_text(padded(longer, long, 248), normalize=True)
    by_hand = ((images * texts).sum(1).numpy() + 1) / 2
    ours, said = encoder.image_features(pictures()), encoder.text_features(encoder.tokenize(long).ids)
    cosine = (ours * said).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(said, axis=1)
    assert np.abs((cosine + 1) / 2 - by_hand).max() < 1e-6


def test_saved_as_a_folder_and_read_again(openai_model, tmp_path):
    encoder = load(written("pacs.pth", openai_model().state_dict(), tmp_path))
    encoder.save(tmp_path / "folder")
    again = load(str(tmp_path / "folder"))
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.image_features(pictures()), encoder.image_features(pictures()))


def test_every_weight_can_be_trained(openai_model, tmp_path):
    encoder = load(written("plain.pt", openai_model().state_dict(), tmp_path))
    with torch.enable_grad():
        images = encoder.image_tensor(encoder.pixels_to_tensor(pictures()))
        texts = encoder.text_tensor(torch.from_numpy(encoder.tokenize(TEXTS).ids))
        (encoder.logit_scale.exp() * (images * texts).sum()).backward()
    assert all(one.grad is not None and not one.is_meta for one in encoder.module.parameters())


def refused(state, where="other.pt"):
    with pytest.raises(InputError) as error:
        from_openai(state, where)
    assert where in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_resnet_is_named(openai_model):
    assert "ResNet" in refused({**openai_model().state_dict(), "visual.layer1.0.conv1.weight": torch.zeros(1)})


def test_another_architecture_names_the_keys():
    message = refused({"bert.embeddings.word_embeddings.weight": torch.zeros(3, 2), "cls.bias": torch.zeros(3)})
    assert "missing ln_final.bias" in message
    assert "more" in message
    assert "unexpected bert.embeddings.word_embeddings.weight, cls.bias" in message


def test_one_missing_and_one_unexpected_key(openai_model):
    state = dict(openai_model().state_dict())
    del state["visual.transformer.resblocks.1.ln_2.bias"]
    state["visual.transformer.resblocks.0.attn.lora_a"] = torch.zeros(2)
    message = refused(state)
    assert "missing visual.transformer.resblocks.1.ln_2.bias;" in message
    assert "unexpected visual.transformer.resblocks.0.attn.lora_a" in message


def test_a_tensor_of_another_shape(openai_model):
    state = dict(openai_model().state_dict())
    state["ln_final.weight"] = torch.zeros(65)
    assert "of another shape ln_final.weight (65,)" in refused(state)
    assert "visual.conv1.weight" in refused({**openai_model().state_dict(), "visual.conv1.weight": torch.zeros(3, 3)})
