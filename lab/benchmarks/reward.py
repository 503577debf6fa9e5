"""The reward of self-critical training: captious.Scorer beside pycocoevalcap's CIDEr-D with fixed document frequencies.
The functions of captious.rewards are beside Scorer in the last rows, on the same 320 captions a batch.

python lab/benchmarks/reward.py [karpathy | val2014 | a number of generated items]

Each batch has 64 images and 5 sampled captions of each: references of the image with two words replaced.
The peer reads tokens between spaces, so both are given PTB tokens; the last row reads the captions as they are.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median

import numpy as np
from lab.benchmarks.data import captions
from lab.benchmarks.measure import table

import captious
from captious.text.tokenizers import find_tokenizer

IMAGES, SAMPLES, BATCHES = 64, 5, 20

Batch = tuple[list[str], list[list[str]]]


def main(name: str) -> None:
    """The table: processor time per batch, ratio, and the largest difference of a value."""
    plain = captions(name)[1]
    tokenize = find_tokenizer("ptb").tokenize
    references = {key: [" ".join(tokenize(text)) for text in texts] for key, texts in plain.items()}
    batches = sampled(references)
    start = time.perf_counter()
    scorer = captious.Scorer("cider(tokenizer=whitespace)", references=references)
    prepared = time.perf_counter() - start
    peer, reading = Peer(references), captious.Scorer("cider", references=plain)
    ours, theirs, read = [], [], []
    for batch in batches:  # in turns, so that a busy moment of the machine strikes all
        ours.append(milliseconds(lambda batch=batch: scorer(*batch)["cider"]))
        theirs.append(milliseconds(lambda batch=batch: peer(*batch)))
        read.append(milliseconds(lambda batch=batch: reading(*batch)["cider"]))
    gap = max(np.abs(a[1] - b[1]).max() for a, b in zip(ours, theirs, strict=True))
    slow, fast, whole = (median(one[0] for one in runs) for runs in (theirs, ours, read))
    print(f"{name}: {len(references)} images, {BATCHES} batches of {IMAGES} images with {SAMPLES} captions each\n")
    rows = [["scorer", "ms per batch (median)", "ratio", "largest difference"]]
    rows.append(["pycocoevalcap, fixed document frequencies", f"{slow:.1f}", "", ""])
    rows.append(["captious.Scorer on the same tokens", f"{fast:.1f}", f"{slow / fast:.0f}", f"{gap:.0e}"])
    rows.append(["captious.Scorer, PTB tokenizer included", f"{whole:.1f}", f"{slow / whole:.0f}", ""])
    print(table(rows))
    print(f"\nreferences prepared once: {prepared:.1f} s\n")
    functions(plain, sampled(plain))


def functions(references: dict[str, list[str]], batches: list[Batch]) -> None:
    """The table of captious.rewards against Scorer by the same metrics: strings, and messages of a chat."""
    metrics = "cider, rouge, bleu(n=4)"
    scorer, rewards = captious.Scorer(metrics, references=references), captious.rewards(metrics, references=references)
    rows = [["by cider, rouge, bleu(n=4)", "ms per batch (median)", "times Scorer", "largest difference"]]
    plain, strings, chats, gaps = [], [], [], []
    for keys, samples in batches:
        ids = [key for key in keys for _ in range(SAMPLES)]
        texts = [text for row in samples for text in row]
        messages = [[{"role": "assistant", "content": text + " "}] for text in texts]  # another batch, not remembered
        plain.append(milliseconds(lambda ids=ids, texts=texts: scorer(ids, texts)))
        strings.append(milliseconds(lambda ids=ids, texts=texts: [one(completions=texts, id=ids) for one in rewards]))
        chats.append(milliseconds(lambda ids=ids, given=messages: [one(completions=given, id=ids) for one in rewards]))
        expected = np.array(list(plain[-1][1].values()))
        gaps.append([np.abs(np.array(runs[-1][1]) - expected).max() for runs in (strings, chats)])
    base = median(one[0] for one in plain)
    rows.append(["captious.Scorer", f"{base:.1f}", "", ""])
    for name, runs, gap in zip(("strings", "messages"), (strings, chats), np.max(gaps, axis=0), strict=True):
        cost = median(one[0] for one in runs)
        rows.append([f"captious.rewards, {name}", f"{cost:.1f}", f"{cost / base:.2f}", f"{gap:.0e}"])
    print(table(rows))


def sampled(references: dict[str, list[str]]) -> list[Batch]:
    """Batches of ids and sampled captions."""
    generator = random.Random(12345)
    ids = list(references)
    words = [word for key in ids[:2000] for text in references[key] for word in text.split()]

    def sample(key: str) -> str:
        tokens = generator.choice(references[key]).split() or ["a"]
        for _ in range(2):
            tokens[generator.randrange(len(tokens))] = generator.choice(words)
        return " ".join(tokens)

    chosen = [generator.sample(ids, IMAGES) for _ in range(BATCHES)]
    return [(keys, [[sample(key) for _ in range(SAMPLES)] for key in keys]) for keys in chosen]


class Peer:
    """pycocoevalcap's scorer as training code uses it: document frequencies of the training set, then a batch."""

    def __init__(self, references: dict[str, list[str]]) -> None:
        from pycocoevalcap.cider.cider_scorer import CiderScorer

        self.references, self.kind = references, CiderScorer
        corpus = CiderScorer()
        for texts in references.values():
            corpus += (texts[0], texts)
        corpus.compute_doc_freq()
        self.frequencies = corpus.document_frequency

    def __call__(self, ids: list[str], samples: list[list[str]]) -> np.ndarray:
        """CIDEr-D of each sample."""
        scorer = self.kind()
        for key, texts in zip(ids, samples, strict=True):
            for text in texts:
                scorer += (text, self.references[key])
        scorer.document_frequency = self.frequencies
        scorer.crefs = Sized(scorer.crefs, len(self.references))
        return np.reshape(scorer.compute_cider(), (len(ids), -1))


class Sized(list):
    """A list that claims another length: the peer takes the number of items of its idf from there."""

    def __init__(self, values: list, size: int) -> None:
        super().__init__(values)
        self.size = size

    def __len__(self) -> int:
        return self.size


def milliseconds(job) -> tuple[float, np.ndarray]:
    """Processor time of a call, and what it returned."""
    start = time.process_time()
    result = job()
    return 1e3 * (time.process_time() - start), result


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "val2014")
