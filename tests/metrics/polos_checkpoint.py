"""A small Polos with random weights, in the layout of the authors' folder."""

import json
from pathlib import Path


def write_polos(folder: Path) -> Path:
    """Write the folder; captions of plain letters are tokenized byte by byte."""
    import torch
    import transformers
    from safetensors.torch import save_file

    from captious.models._model_tokenizers import END, START, _list_byte_letters

    torch.manual_seed(3)
    (folder / "text_encoder").mkdir(parents=True)
    (folder / "clip_tokenizer").mkdir()
    letters = _list_byte_letters()
    words = [*letters, *(f"{letter}</w>" for letter in letters), START, END]
    _write_vocabulary(folder / "clip_tokenizer", words)
    _write_vocabulary(folder / "text_encoder", ["<s>", "<pad>", "</s>", "<unk>", *letters])
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = transformers.RobertaConfig(
        vocab_size=4 + len(letters), max_position_embeddings=130, type_vocab_size=1, **shape, **ids
    )
    config.save_pretrained(folder / "text_encoder")
    roberta = transformers.RobertaModel(config)
    state = {f"encoder.model.{key}": value for key, value in roberta.state_dict().items()}
    state |= {f"clip.{key}": value for key, value in make_openai_tensors(len(words)).items()}
    state |= {f"scalar_mix.scalar_parameters.{layer}": torch.randn(1) for layer in range(3)}
    state |= {"scalar_mix.gamma": torch.tensor([0.7]), "scalar_mix.dropout_mask": torch.zeros(3)}
    for number, (inputs, outputs) in enumerate([(4 * 16 + 6 * 512, 8), (8, 4), (4, 1)], 1):
        state[f"ff.0.ff.linear_{number}.weight"] = torch.randn(outputs, inputs) / inputs**0.5
        state[f"ff.0.ff.linear_{number}.bias"] = torch.randn(outputs)
    save_file({key: value.contiguous() for key, value in state.items()}, folder / "state_dict.safetensors")
    settings = {"layer": "mix", "pool": "cls", "activations": "Tanh", "final_activation": False}
    (folder / "hparams.json").write_text(json.dumps(settings))
    return folder


def _write_vocabulary(folder: Path, words: list[str]) -> None:
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def make_openai_tensors(words, width=64, embedding=512):
    """Return the tensors of a CLIP in OpenAI's layout: one layer in each tower, images of 16 pixels."""
    import torch

    sizes = {
        "visual.class_embedding": (width,),
        "visual.conv1.weight": (width, 3, 8, 8),
        "visual.positional_embedding": (5, width),
        "visual.proj": (width, embedding),
        "token_embedding.weight": (words, width),
        "positional_embedding": (77, width),
        "text_projection": (width, embedding),
        "logit_scale": (),
    }
    norms = ["visual.ln_pre", "visual.ln_post", "ln_final"]
    for tower in ("visual.transformer", "transformer"):
        block = f"{tower}.resblocks.0"
        norms += [f"{block}.ln_1", f"{block}.ln_2"]
        for name, outputs, inputs in (("mlp.c_fc", 2, 1), ("mlp.c_proj", 1, 2), ("attn.out_proj", 1, 1)):
            sizes[f"{block}.{name}.weight"] = (outputs * width, inputs * width)
            sizes[f"{block}.{name}.bias"] = (outputs * width,)
        sizes[f"{block}.attn.in_proj_weight"] = (3 * width, width)
        sizes[f"{block}.attn.in_proj_bias"] = (3 * width,)
    sizes |= {f"{norm}.{kind}": (width,) for norm in norms for kind in ("weight", "bias")}
    return {key: torch.randn(size) * 0.2 for key, size in sizes.items()}
