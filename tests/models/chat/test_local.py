"""A chat model of ``transformers`` in this process: the same replies and probabilities as a plain forward pass."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from captious.captions import ImageData
from captious.errors import InputError
from captious.models.chat.judge import load_judge
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.options import Judging, Runtime, using

WORDS = [*"0123456789.", "yes", "no", "user", "assistant", "How", "many", "dogs", "?", ":", "{", "}"]
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama of two layers with random weights, and a tokenizer of whole words."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'captious[clip]'")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate(["<unk>", "</s>", *WORDS])}, "<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + 2,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=1,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def judge(folder, tmp_path):
    with using(Runtime(device="cpu")):
        yield load_judge(f"local:{folder}", Judging(replies=tmp_path / "replies.db"))


def question(text="How many dogs ?", **options):
    return Request((Turn("user", text),), **{"max_tokens": 6, "top_logprobs": 5, **options})


def test_greedy_replies_and_their_probabilities_are_those_of_a_forward_pass(judge, folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (reply,) = judge.ask([question()])
    module, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("user : How many dogs ? assistant :", return_tensors="pt")["input_ids"]
    assert reply.prompt_tokens == ids.shape[1] == 8 and len(reply.tokens) == 6
    for token in reply.tokens:
        with torch.no_grad():
            shares = module(ids).logits[0, -1].softmax(-1)
        best = shares.topk(5)
        assert [share for _, share in token.top] == pytest.approx(best.values.tolist(), abs=1e-6)
        texts = [text.strip().decode() for text, _ in token.top]
        names = tokenizer.convert_ids_to_tokens(best.indices.tolist())
        assert texts == ["" if name in ("<unk>", "</s>") else name for name in names]
        ids = torch.cat([ids, best.indices[:1][None]], dim=1)
    assert reply.text == tokenizer.decode(ids[0, 8:], skip_special_tokens=True)
    assert b"".join(token.text for token in reply.tokens).decode() == reply.text
    token, offset = reply.find_token(len(reply.text) - 1)
    assert token == reply.tokens[-1] and offset == len(token.text) - 1


def test_samples_repeat_under_their_seed_and_leave_the_generator_alone(judge, tmp_path):
    import torch

    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    asked = [question(sample=sample, temperature=1.5, top_logprobs=0) for sample in range(5)]
    first = [reply.text for reply in judge.ask(asked)]
    again = load_judge(judge.model, Judging(replies=tmp_path / "other.db")).ask(asked[::-1])
    assert [reply.text for reply in again[::-1]] == first and len(set(first)) > 1
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_identity_has_the_digest_of_the_weights_and_no_path_but_the_name(judge, folder):
    judge.ask([question()])
    assert judge.identity.startswith(f"local:{folder}[{folder.name}@")


def test_what_it_cannot_read_fails_alone(judge):
    picture = ImageData(np.zeros((2, 2, 3), np.uint8))
    seen, long, short = judge.ask(
        [Request((Turn("user", "dogs", (picture,)),)), question("dogs " * 80), question("dogs")]
    )
    assert seen == Failure("the model in this process cannot read images")
    assert long == Failure("84 tokens, the model reads 64")
    assert not isinstance(short, Failure)


def test_a_folder_that_is_no_chat_model_is_said_in_one_line(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.iterdir():
        if "template" not in path.name:
            (other / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="has no chat template") as error, using(Runtime(device="cpu")):
        load_judge(f"local:{other}", Judging(replies=tmp_path / "r.db")).ask([question()])
    assert "\n" not in str(error.value)


def test_replies_belong_to_the_content_of_the_weights_and_not_to_the_name_of_the_folder(folder, tmp_path):
    judging = Judging(replies=tmp_path / "replies.db")
    moved, changed = tmp_path / "moved", tmp_path / "changed"
    for copy in (moved, changed):
        shutil.copytree(folder, copy)
    with using(Runtime(device="cpu")):
        first = load_judge(f"local:{folder}", judging)
        first.ask([question()])
        (moved / "README.md").write_text("the same model")
        again = load_judge(f"local:{moved}", replace(judging, replay=True))
        assert isinstance(again.ask([question()])[0], Reply) and again.usage.stored == 1
        tensors = load_file(changed / "model.safetensors")
        tensors["lm_head.weight"] = -tensors["lm_head.weight"]
        save_file(tensors, changed / "model.safetensors", {"format": "pt"})
        other = load_judge(f"local:{changed}", judging)
        waiting, stored = other.find_unanswered([question()])
        assert list(waiting.values()) == [question()] and not stored
        gone = load_judge("local:owner/nowhere", replace(judging, replay=True))
        with pytest.raises(InputError, match="has no reply to 1 of 1 questions for local:owner/nowhere"):
            gone.ask([question()])
