"""A chat model of ``transformers`` in this process, with the JSON interface of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from captious.errors import InputError, format_one_line, require
from captious.models.chat._endpoint import Unanswered
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.hub import TEXT_FILES, ModelRegistry, find, find_local, get_file_stats
from captious.options import get_runtime

_LOADED: ModelRegistry[Weights] = ModelRegistry(limit=1)
# Files of a model that its replies depend on: weights, settings, tokenizer, chat template.
CONTENT = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt"})


@dataclass(frozen=True, eq=False)
class Weights:
    """Causal language model with its tokenizer."""

    name: str
    module: Any = field(repr=False)
    tokenizer: Any = field(repr=False)


class LocalModel:
    """Transport to a model in this process. It answers one request at a time and refuses images."""

    def __init__(self, source: str) -> None:
        self.source = source

    async def __aenter__(self) -> LocalModel:
        self._weights = await asyncio.to_thread(load_weights, self.source)
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the JSON body of a chat request with a response like that of an OpenAI-compatible server."""
        if any(not isinstance(message["content"], str) for message in body["messages"]):
            raise Unanswered("the model in this process cannot read images")
        return await asyncio.to_thread(generate, self._weights, body)


def load_weights(source: str) -> Weights:
    """Load the model of a folder or hub id."""
    runtime = get_runtime()
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)

    def load() -> Weights:
        transformers = require("transformers", "clip")
        folder = _find(source)
        try:
            with quiet():
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                module = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=get_torch_dtype(precision))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{source}: cannot be loaded as a chat model ({format_one_line(error)})") from None
        if tokenizer.chat_template is None:
            raise InputError(f"{source}: its tokenizer has no chat template, expected a model tuned for chat")
        name = f"{source}@{hash_weights(module).hex()[:12]}"
        return Weights(name, module.to(device).eval(), tokenizer)

    return _LOADED.get((source, device, precision), load)


def compute_content_key(source: str, fetch: bool) -> str:
    """Return the key under which replies of a model are stored: a hash of its files, independent of their location.

    A model that is not on this machine is fetched first; if ``fetch`` is off, its name is the key.
    """
    folder = _find(source) if fetch else find_local(source) or _find_cached(source)
    return f"local:{_hash_content(folder, get_file_stats(folder))}" if folder else f"local:{source}"


def _find(source: str) -> Path:
    return find(source, "a server of chat models can be named by endpoint=...", TEXT_FILES)


def _find_cached(repository: str) -> Path | None:
    """Return the folder of a model in the hub's cache; None if it is not cached."""
    hub, errors = require("huggingface_hub", "clip"), require("huggingface_hub.errors", "clip")
    with suppress(errors.LocalEntryNotFoundError, errors.HFValidationError):
        return Path(hub.snapshot_download(repository, local_files_only=True))
    return None


@lru_cache(maxsize=8)
def _hash_content(folder: Path, stats: object) -> str:
    """Hash the files of a model. ``stats`` is only a part of the cache key: if a file changes, it is hashed again."""
    digest = sha256()
    for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
        if path.is_file() and path.suffix in CONTENT:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()[:16]


def generate(weights: Weights, body: Mapping[str, Any]) -> dict[str, Any]:
    """Generate one reply: greedy at temperature 0, else sampled with the seed of the request."""
    torch = require("torch", "clip")
    tokenizer, module = weights.tokenizer, weights.module
    with quiet():
        prompt = tokenizer.apply_chat_template(
            list(body["messages"]), add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(module.device)
    length = prompt["input_ids"].shape[1]
    limit = getattr(module.config, "max_position_embeddings", None)
    if limit is not None and length + 1 > limit:
        raise Unanswered(f"{length} tokens, the model reads {limit}")
    sampling = (
        {"do_sample": False} if not body["temperature"] else {"do_sample": True, "temperature": body["temperature"]}
    )
    with torch.random.fork_rng(), torch.no_grad(), quiet():
        torch.manual_seed(body["seed"])
        output = module.generate(
            **prompt,
            **sampling,
            max_new_tokens=body["max_tokens"],
            pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            return_dict_in_generate=True,
            output_logits=True,
        )
    ids = output.sequences[0, length:].tolist()
    ends = {tokenizer.eos_token_id, *_as_list(module.generation_config.eos_token_id)}
    stopped = bool(ids) and ids[-1] in ends
    ids = ids[:-1] if stopped else ids
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": tokenizer.decode(ids, skip_special_tokens=True)},
        "finish_reason": "stop" if stopped else "length",
    }
    if body.get("logprobs"):
        rows = torch.stack(output.logits)[: len(ids), 0].float().log_softmax(-1)
        choice["logprobs"] = {
            "content": [
                _list_alternatives(tokenizer, ids[:index], token, row, body["top_logprobs"])
                for index, (token, row) in enumerate(zip(ids, rows, strict=True))
            ]
        }
    usage = {"prompt_tokens": length, "completion_tokens": len(ids) + stopped}
    return {"model": weights.name, "choices": [choice], "usage": usage}


def _list_alternatives(tokenizer: Any, before: list[int], token: int, logprobs: Any, top: int) -> dict[str, Any]:
    """Return the log-probabilities of a token and of the `top` most probable ones, as in a server's ``logprobs``."""
    values, indices = logprobs.topk(min(top, len(logprobs)))
    others = [
        {"token": _decode_token(tokenizer, before, index), "logprob": value}
        for index, value in zip(indices.tolist(), values.tolist(), strict=True)
    ]
    return {"token": _decode_token(tokenizer, before, token), "logprob": float(logprobs[token]), "top_logprobs": others}


def _decode_token(tokenizer: Any, before: list[int], token: int) -> str:
    """Return the text that a token adds after the tokens ``before``.

    It is decoded together with its predecessor, since many tokenizers drop the leading space of a single token.
    """
    context = [one for one in before if one not in tokenizer.all_special_ids][-1:]
    text_with_token: str = tokenizer.decode([*context, token], skip_special_tokens=True)
    return text_with_token[len(tokenizer.decode(context)) :] if context else text_with_token


def _as_list(value: int | list[int] | None) -> list[int]:
    return value if isinstance(value, list) else [] if value is None else [value]
