"""``transformers serve`` with a model whose every reply is known: a server that ignores most of what it is asked."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

# What the model answers to everything, with these probabilities: one number.
NEXT = {"0.8": 0.5, "0.7": 0.3, "0.9": 0.2}
WORDS = ["<unk>", "</s>", "user", "assistant", ":", *NEXT]
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)


def write_number_model(folder):
    """A Llama in which the last token alone decides the next one: a number after a colon, and the end after that."""
    import tokenizers
    import torch
    import transformers

    ids = {word: index for index, word in enumerate(WORDS)}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, "<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    size = len(WORDS)
    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=ids["</s>"],
        tie_word_embeddings=False,
    )
    model = transformers.LlamaForCausalLM(config)
    logits = torch.full((size, size), -30.0)
    logits[:, ids["</s>"]] = 0.0
    logits[ids[":"]] = -30.0
    for word, chance in NEXT.items():
        logits[ids[":"], ids[word]] = torch.tensor(chance).log()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(1.0 if "norm" in name else 0.0)  # nothing is added to the embedding of the last token
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        model.lm_head.weight.copy_(logits.T / size**0.5)  # the norm makes √size of its 1
    model.generation_config.do_sample = True  # without it the server ignores temperatures too
    model.save_pretrained(folder)
    return folder


@contextmanager
def transformers_serve(folder, log, seconds=180):
    """The address of ``transformers serve`` with the model of a folder; what it says goes into a file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with log.open("wb") as output:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            _wait(process, port, log, seconds)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(60)


def _wait(process, port, log, seconds):
    import httpx

    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise RuntimeError(f"transformers serve did not start: {log.read_text(errors='replace')[-2000:]}")
