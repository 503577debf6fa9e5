"""Tiny random models of every backbone, in the layouts people have."""

import json

import numpy as np
from PIL import Image

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PLAIN = ["a", "red", "green", "blue", "dog", "cat", "runs", "sleeps", "on", "the", "left", "right", "and", "of"]
WORDS = [*SPECIAL, *PLAIN, "##s", ",", "."]


def pictures(folder):
    """Six images in two colors each, of different shapes."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(6):
        pixels = np.zeros((20 + 4 * number, 30 - 2 * number, 3), np.uint8)
        pixels[:, :10], pixels[:, 10:] = rng.integers(0, 255, 3), rng.integers(0, 255, 3)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return [str(folder / f"{number}.png") for number in range(6)]


def captions():
    things = ("a red dog runs", "the green cat sleeps", "a blue dog on the left", "a cat and a dog", "red and green",
              "the right of a blue cat")  # fmt: skip
    return {str(number): [text, f"{text} ."] for number, text in enumerate(things)}


def write_data(folder):
    """``captions.jsonl`` and ``images/``."""
    pictures(folder / "images")
    rows = [{"id": key, "captions": texts} for key, texts in captions().items()]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def wordpieces(folder):
    import tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    numbers = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "[PAD]"}))


def roughen(model, seed=0):
    """Random everywhere: fresh biases and norms are 0 and 1, which would hide a tensor in another's place."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for one in model.parameters():
            one.add_(torch.randn(one.shape, generator=generator) * 0.1)
    return model.eval()


SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def tiny_vilt(folder):
    from transformers import ViltConfig, ViltForImageAndTextRetrieval

    config = ViltConfig(**SHAPE, vocab_size=len(WORDS), max_position_embeddings=16, image_size=24, patch_size=8)
    model = roughen(ViltForImageAndTextRetrieval(config))
    model.save_pretrained(folder)
    wordpieces(folder)
    return model


def tiny_blip(folder):
    from transformers import BlipConfig, BlipForImageTextRetrieval

    ids = {"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 3, "sep_token_id": 3}
    config = BlipConfig(
        text_config={
            **SHAPE, **ids, "vocab_size": len(WORDS), "max_position_embeddings": 16, "encoder_hidden_size": 24,
        },
        vision_config={**SHAPE, "hidden_size": 24, "image_size": 24, "patch_size": 8},
        image_text_hidden_size=16,
    )  # fmt: skip
    model = roughen(BlipForImageTextRetrieval(config))
    model.save_pretrained(folder)
    wordpieces(folder)
    return model
