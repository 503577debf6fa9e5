"""FACTUAL, a T5 of ``transformers`` that turns a sentence into the tuples of a scene graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from captious._core.files import digest, expand_home
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import load_pretrained, refuse_missing
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.hub import REPOSITORY, TEXT_FILES, ModelRegistry, find
from captious.options import get_runtime
from captious.syntax.scenegraph import Fact

PUBLISHED = "lizhuang144/flan-t5-base-VG-factual-sg"
PROMPT = "Generate Scene Graph: "
# Beam width, and largest number of tokens of a graph, as in CAPTURE.
BEAMS, LONGEST = 5, 128
BATCH = 16
_LOADED: ModelRegistry[Factual] = ModelRegistry(limit=1)


@dataclass(frozen=True, eq=False)
class Factual:
    """Scene-graph parser with its tokenizer, made by :func:`load_factual`."""

    name: str
    fingerprint: str
    module: Any = field(repr=False)
    tokenizer: Any = field(repr=False)

    def facts(self, sentences: Sequence[str]) -> list[tuple[Fact, ...]]:
        """Parse each sentence into its tuples."""
        progress = get_runtime().progress
        graphs: list[tuple[Fact, ...]] = []
        for start in range(0, len(sentences), BATCH):
            graphs += map(read_graph, self._generate(sentences[start : start + BATCH]))
            progress("sentences parsed", len(graphs), len(sentences))
        return graphs

    def _generate(self, sentences: Sequence[str]) -> list[str]:
        torch = require("torch", "clip")
        with torch.inference_mode(), quiet():
            batch = self.tokenizer([PROMPT + text.strip() for text in sentences], padding=True, return_tensors="pt")
            ids = self.module.generate(
                input_ids=batch["input_ids"].to(self.module.device),
                attention_mask=batch["attention_mask"].to(self.module.device),
                num_beams=BEAMS,
                do_sample=False,
                max_length=LONGEST,
                early_stopping=True,
            )
            return list(self.tokenizer.batch_decode(ids, skip_special_tokens=True))


def read_graph(text: str) -> tuple[Fact, ...]:
    """Parse a written graph into sorted distinct tuples; truncated or malformed tuples are dropped.

    If there is no complete tuple, its first part becomes an object. A quantity, which is a number, is no tuple.

    >>> read_graph("( dog , is , brown ) , ( dog , run in , park ) , ( dog , is , 2 ) , ( tree , is")
    (('dog',), ('dog', 'brown'), ('dog', 'run in', 'park'), ('park',))
    >>> read_graph("( dog")
    (('dog',),)
    """
    written = [_split_parts(piece.rpartition("(")[2]) for piece in text.split(")")]
    facts: set[Fact] = set()
    for subject, relation, target in (parts for parts in written[:-1] if len(parts) == 3 and all(parts)):
        facts.add((subject,))
        if relation != "is":
            facts |= {(target,), (subject, relation, target)}
        elif not target.isdigit():
            facts.add((subject, target))
    if not facts and written[0][0]:
        facts.add((written[0][0],))
    return tuple(sorted(facts))


def _split_parts(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(",")]


def is_factual(parser: str) -> bool:
    """Return True if a parser is a model of ``transformers``: a folder with its configuration, or a hub id.

    >>> is_factual(PUBLISHED), is_factual("en_core_web_sm")
    (True, False)
    """
    folder = expand_home(parser)
    if folder.is_dir():
        return (folder / "config.json").is_file()
    return bool(REPOSITORY.fullmatch(parser))


def load_factual(weights: str) -> Factual:
    """Load the parser of a folder or hub id on the device of the runtime."""
    runtime = get_runtime()
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)

    def load() -> Factual:
        folder = find(weights, "parser=en_core_web_sm, a model of spaCy, needs no weights", TEXT_FILES)
        module, report = load_pretrained(folder, "AutoModelForSeq2SeqLM")
        refuse_missing(folder, list(report["missing_keys"]))
        try:
            with quiet():
                tokenizer = require("transformers", "clip").AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder}: its tokenizer cannot be loaded ({format_one_line(error)})") from None
        fingerprint = digest(hash_weights(module), f"{BEAMS} {LONGEST} {precision}".encode())
        return Factual(Path(weights).name, fingerprint, module.to(device, get_torch_dtype(precision)).eval(), tokenizer)

    return _LOADED.get((weights, str(device), precision), load)
