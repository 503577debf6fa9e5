"""A detector of fluency errors with random weights, in the layout of FENSE's release."""

import json

import torch
import transformers

CLASSES = ("add_tail", "repeat_event", "repeat_adv", "remove_conj", "remove_verb", "error")


def write_detector(folder, words, *, seed=0, **changes):
    """A folder with detector.ckpt, the vocab.txt of its BERT, and a config.json with its heads."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, **changes}
    encoder = transformers.BertModel(transformers.BertConfig(vocab_size=len(words), initializer_range=0.5, **shape))
    clf = torch.nn.Linear(shape["hidden_size"], len(CLASSES))
    state = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    state |= {"clf.weight": clf.weight.detach(), "clf.bias": clf.bias.detach()}
    state["encoder.embeddings.position_ids"] = torch.arange(512)[None]
    folder.mkdir()
    stored = {"model_type": "bert-base-uncased", "num_classes": len(CLASSES), "state_dict": state}
    torch.save(stored, folder / "detector.ckpt")
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": shape["num_attention_heads"]}))
    return folder
