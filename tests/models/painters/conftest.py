"""Tiny random pipelines and decoders in the layout of diffusers, saved once for all tests here."""

import json
import string

import pytest

TINY = {"block_out_channels": (32, 32), "norm_num_groups": 8, "layers_per_block": 1}


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The same sums in the same order, and no crowd on a small machine."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)


def tokenizer(folder, limit=16):
    """CLIP's tokenizer over letters alone."""
    from transformers import CLIPTokenizer

    folder.mkdir(parents=True)
    letters = [letter + end for letter in string.ascii_lowercase + ".,'" for end in ("", "</w>")]
    words = [*letters, "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: place for place, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=limit)


def autoencoder():
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        sample_size=16,
        **TINY,
    )


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    """A folder with a Stable Diffusion of a few thousand parameters, which paints 16 × 16 pixels."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny") / "tiny-diffusion"
    words = tokenizer(tmp_path_factory.mktemp("words") / "clip")
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=37,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=16,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        **TINY,
    )
    diffusers.StableDiffusionPipeline(
        vae=autoencoder(),
        text_encoder=CLIPTextModel(text),
        tokenizer=words,
        unet=unet,
        scheduler=diffusers.PNDMScheduler(skip_prk_steps=True, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def decoders(tmp_path_factory):
    """Folders with a random VQModel and a random AutoencoderKL."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("decoders")
    autoencoder().save_pretrained(folder / "kl")
    diffusers.VQModel(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=3,
        num_vq_embeddings=32,
        sample_size=16,
        **TINY,
    ).save_pretrained(folder / "vq")
    return folder
