"""CLIPScore and RefCLIPScore through a real CLIP with random weights, against `transformers` step by step."""

import numpy as np
import pytest

from captious._core.frame_rules import FrameRule
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.options import Resampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path, tokenizer):
    """A small CLIP in a folder: two layers of 64 in each tower, 32 × 32 pixels."""
    from captious.models._preprocess import ImagePreprocessing
    from captious.models.clip import wrap

    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**shape, "eos_token_id": 49407},
        vision_config={**shape, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    module = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3 if parameter.ndim > 1 else 1)  # a fresh model gives everything nearly the same vector
    encoder = wrap(module, tokenizer, ImagePreprocessing(size=32, crop=32), "small", "cpu", "fp32")
    encoder.save(tmp_path / "small")
    return tmp_path / "small"


def test_scores_are_those_of_transformers(folder, tmp_path):
    from PIL import Image

    generator = np.random.default_rng(0)
    paths = []
    for number in range(3):
        pixels = generator.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(pixels).save(paths[-1])
    texts = ["a dog on a mat", "two cats", "the sky is blue today"]
    others = ["a cat", "two cats sleep", "blue"]
    captions = CaptionSet.of(
        dict(zip("abc", texts, strict=True)), dict(zip("abc", others, strict=True)), {"image": [str(p) for p in paths]}
    )
    report = evaluate(
        captions, [f"clipscore(weights={folder})", f"refclipscore(weights={folder})"], resampling=Resampling(samples=0)
    )

    model = transformers.CLIPModel.from_pretrained(folder).eval()
    tokenizer = transformers.CLIPTokenizerFast.from_pretrained(folder)
    mean, std = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
    pixels = np.stack([(np.asarray(Image.open(path)) / 255 - mean) / std for path in paths]).transpose(0, 3, 1, 2)

    def read(lines):
        found = tokenizer([f"A photo depicts {line}" for line in lines], return_tensors="pt", padding=True)
        return model(**found, pixel_values=torch.tensor(pixels, dtype=torch.float32))

    with torch.no_grad():
        first, second = read(texts), read(others)

    def unit(vectors):
        vectors = vectors.numpy().astype(np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    image, text, reference = unit(first.image_embeds), unit(first.text_embeds), unit(second.text_embeds)
    clip = 2.5 * np.maximum((image * text).sum(axis=1), 0)
    near = np.maximum((text * reference).sum(axis=1), 0)
    assert (clip > 0).any() and len(set(clip.round(4))) > 1
    ours, joined = (measurement.values for measurement in report)
    assert ours == pytest.approx(clip, abs=1e-5)
    assert joined == pytest.approx(2 * clip * near / (clip + near), abs=1e-5)
    assert "encoder:small#" in report.signature(str(next(iter(report)).metric))


@pytest.mark.shared_data
def test_frames_of_a_clip_are_images(folder, shared_data):
    """A real encoder whose preparation runs in the worker: frames of a file, against the same frames as PNG files."""
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
    clips = shared_data / "tiny_clips"
    videos = [str(clips / "scenes.mp4"), str(clips / "frames" / "scenes")]
    captions = CaptionSet.of({"clip": "a red chair", "images": "a red chair"}, columns={"video": videos})
    object.__setattr__(captions, "frames", FrameRule.parse("uniform:6"))
    clip, images = evaluate(captions, f"longclip({folder})", resampling=Resampling(0))[
        f"longclip(weights={folder})"
    ].values
    assert clip == pytest.approx(images, abs=1e-3)
    assert clip != 0
