"""Small models with random weights, in the layouts people have."""

import importlib.machinery
import importlib.util
import shutil
import sys
import types
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    """Several suites share the cores; where torch is not installed the others still run."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)


@pytest.fixture
def clip_merges():
    """CLIP's merges, which OpenCLIP brings, in the user's folder, where checkpoint files find them."""
    from captious.models._model_tokenizers import MERGES
    from captious.models.hub import get_weights_folder

    package = importlib.util.find_spec("open_clip")
    if package is not None:
        get_weights_folder().mkdir(parents=True)
        shutil.copy(Path(package.origin).parent / MERGES, get_weights_folder())


@pytest.fixture(scope="session")
def clip_folder(clip_module, tokenizer, tmp_path_factory):
    """A folder with `clip_module`; not to be changed."""
    from captious.models._preprocess import ImagePreprocessing
    from captious.models.clip import wrap

    folder = tmp_path_factory.mktemp("clip") / "tiny"
    wrap(clip_module, tokenizer, ImagePreprocessing(32, 32), "tiny").save(folder)
    return folder


@pytest.fixture(scope="session")
def clip_module():
    """``transformers``' CLIP: two layers of 64 (one head) in each tower, 32 × 32 pixels, 77 tokens."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 1}
    torch.manual_seed(5)
    model = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={**shape, "eos_token_id": 49407},
            vision_config={**shape, "image_size": 32, "patch_size": 8},
            projection_dim=32,
        )
    ).eval()
    return roughened(model)


@pytest.fixture(scope="session")
def open_clip():
    """OpenCLIP, which imports torchvision for transforms that no test here uses."""
    pytest.importorskip("transformers")  # looks for torchvision when it is imported: before the stand-ins are there
    absent = importlib.util.find_spec("torchvision") is None
    names = [f"torchvision{rest}" for rest in ("", ".transforms", ".transforms.functional", ".ops", ".ops.misc")]
    if absent:
        for name in names:
            module = _StandIn(name)
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, module)
    try:
        return pytest.importorskip("open_clip")
    finally:  # nothing else in the session may take the stand-ins for the library
        for name in names if absent else ():
            sys.modules.pop(name, None)


class _Anything(type):
    def __getattr__(cls, name):
        return cls


class _StandIn(types.ModuleType):
    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything("Anything", (), {"__init__": lambda self, *args, **kwargs: None})


@pytest.fixture(scope="session")
def openai_model(open_clip):
    """OpenCLIP's model of OpenAI's kind with random weights; call it for another length, activation or width."""

    def made(limit=77, quick=True, width=64):
        import torch
        from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

        torch.manual_seed(7)
        model = CLIP(
            embed_dim=32,
            vision_cfg=CLIPVisionCfg(layers=2, width=width, head_width=64, patch_size=8, image_size=32),
            text_cfg=CLIPTextCfg(context_length=limit, vocab_size=49408, width=64, heads=1, layers=3),
            quick_gelu=quick,
        ).eval()
        return roughened(model)

    return made


def roughened(model):
    """Random everywhere: fresh biases and norms are 0 and 1, which would hide a tensor put in another's place."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 0:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model
