"""A BLEURT of random weights in the layout of the PyTorch port, and its score by plain tensor operations.

The forward pass is written from the description of the architecture: embeddings and LayerNorm, a projection where the
embeddings are narrower, BERT layers with LayerNorm after each sum, a tanh pooler on [CLS], one linear output.
"""

import json
import math

import torch


def write_checkpoint(folder, words, *, embedding_size=None, seed=0, save=torch.save, **shape):
    """A folder with config.json, pytorch_model.bin and vocab.txt, whose tensors have the port's names."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = {
        "model_type": "bleurt",
        "vocab_size": len(words),
        "max_position_embeddings": 24,
        "type_vocab_size": 2,
        "embedding_size": embedding_size,
        **sizes,
        **shape,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if words:
        (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    save(random_state(config, seed), folder / "pytorch_model.bin")
    return folder


def random_state(config, seed):
    generator = torch.Generator().manual_seed(seed)
    width, inner = config["hidden_size"], config["intermediate_size"]
    narrow = config["embedding_size"] or width
    shapes = {
        "bleurt.embeddings.word_embeddings.weight": (config["vocab_size"], narrow),
        "bleurt.embeddings.position_embeddings.weight": (config["max_position_embeddings"], narrow),
        "bleurt.embeddings.token_type_embeddings.weight": (config["type_vocab_size"], narrow),
        "bleurt.embeddings.LayerNorm.weight": (narrow,),
        "bleurt.embeddings.LayerNorm.bias": (narrow,),
        "bleurt.pooler.dense.weight": (width, width),
        "bleurt.pooler.dense.bias": (width,),
        "classifier.weight": (1, width),
        "classifier.bias": (1,),
    }
    if config["embedding_size"]:
        shapes["bleurt.encoder.embedding_projection.weight"] = (width, narrow)
        shapes["bleurt.encoder.embedding_projection.bias"] = (width,)
    for layer in range(config["num_hidden_layers"]):
        at = f"bleurt.encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes |= {
                f"{at}.attention.self.{name}.weight": (width, width),
                f"{at}.attention.self.{name}.bias": (width,),
            }
        for name, rows, columns in (
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ):
            shapes |= {f"{at}.{name}.weight": (rows, columns), f"{at}.{name}.bias": (rows,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}.{name}.weight": (width,), f"{at}.{name}.bias": (width,)}
    state = {}
    for name, shape in shapes.items():
        scale = 1 / math.sqrt(shape[-1]) if len(shape) == 2 else 0.1
        state[name] = torch.randn(shape, generator=generator) * scale + ("LayerNorm.weight" in name)
    state["bleurt.embeddings.position_ids"] = torch.arange(config["max_position_embeddings"])[None]
    return state


def plain_score(folder, reference, candidate, first=2, separator=3, tanh_gelu=False):
    """The score of one pair of token ids, alone and without padding, in double precision."""
    config = json.loads((folder / "config.json").read_text())
    state = {key: value.double() for key, value in torch.load(folder / "pytorch_model.bin").items()}

    def linear(name, x):
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def normal(name, x):
        centered = x - x.mean(-1, keepdim=True)
        unit = centered / torch.sqrt((centered**2).mean(-1, keepdim=True) + 1e-12)
        return unit * state[f"{name}.weight"] + state[f"{name}.bias"]

    def gelu(x):
        if tanh_gelu:
            return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    ids = [first, *reference, separator, *candidate, separator]
    segments = [0] * (len(reference) + 2) + [1] * (len(candidate) + 1)
    embeddings = "bleurt.embeddings"
    x = (
        state[f"{embeddings}.word_embeddings.weight"][ids]
        + state[f"{embeddings}.token_type_embeddings.weight"][segments]
    )
    x = normal(f"{embeddings}.LayerNorm", x + state[f"{embeddings}.position_embeddings.weight"][: len(ids)])
    if config["embedding_size"]:
        x = linear("bleurt.encoder.embedding_projection", x)
    heads = config["num_attention_heads"]
    for layer in range(config["num_hidden_layers"]):
        at = f"bleurt.encoder.layer.{layer}"
        query, key, value = (
            linear(f"{at}.attention.self.{name}", x).reshape(len(ids), heads, -1).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        attention = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(query.shape[-1]), dim=-1)
        context = (attention @ value).transpose(0, 1).reshape(len(ids), -1)
        x = normal(f"{at}.attention.output.LayerNorm", x + linear(f"{at}.attention.output.dense", context))
        inner = gelu(linear(f"{at}.intermediate.dense", x))
        x = normal(f"{at}.output.LayerNorm", x + linear(f"{at}.output.dense", inner))
    pooled = torch.tanh(linear("bleurt.pooler.dense", x[:1]))
    return float(linear("classifier", pooled))
