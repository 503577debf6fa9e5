"""Style metrics against the obvious dictionary implementation, and the size of PERSONALITY-CAPTIONS.

    PYTHONPATH=. python lab/benchmarks/style.py ../shared/data/style/flickrstyle.jsonl
    PYTHONPATH=. python lab/benchmarks/style.py --many              # 186,698 captions in 215 styles, generated
    PYTHONPATH=. python lab/benchmarks/style.py --many --check      # and Table 1 on all of them

Each part runs in a process of its own, so that the peak memory printed is its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from lab.benchmarks.style_peer import Peer, table_one

from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import load, save
from captious.metrics.style.onlystyle import ModelNgrams, score_all_styles
from captious.probes.style_check import StyledCaptions, StyledCorpus, read_styled

STYLES, CAPTIONS, VOCABULARY = 215, 186_698, 33_641


def generated(captions: int = CAPTIONS, styles: int = STYLES, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Captions of about 12 words from a Zipf vocabulary; every fifth word is one of the style's 80 own favourites."""
    rng = np.random.default_rng(seed)
    zipf = 1.0 / np.arange(1, VOCABULARY + 1)
    zipf /= zipf.sum()
    favourites = np.stack([rng.choice(np.arange(50, VOCABULARY), 80, replace=False) for _ in range(styles)])
    near = 1.0 / np.arange(1, 81)
    near /= near.sum()
    lengths = np.clip(rng.poisson(11.6, captions), 2, 40)
    style = rng.permutation(np.arange(captions) % styles)
    tokens = rng.choice(VOCABULARY, int(lengths.sum()), p=zipf)
    owner = np.repeat(style, lengths)
    styled = rng.random(len(tokens)) < 0.2
    tokens[styled] = favourites[owner[styled], rng.choice(80, int(styled.sum()), p=near)]
    names = [f"w{number}" for number in range(VOCABULARY)]
    end = 0
    for number, length in zip(style.tolist(), lengths.tolist(), strict=True):
        yield f"style{number:03d}", " ".join(names[token] for token in tokens[end : end + length].tolist())
        end += length


def alone(task: Callable[..., Any], *given: Any) -> tuple[Any, float, float]:
    """The result of a task in a fresh process, its seconds, and the peak memory in GiB."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        result: tuple[Any, float, float] = pool.apply(_timed, (task, given))
    return result


def _timed(task: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, float, float]:
    start = time.perf_counter()
    result = task(*given)
    seconds = time.perf_counter() - start
    return result, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def ours(path: str) -> tuple[float, float]:
    corpus = read_styled(path)
    check = StyledCaptions.of(None, corpus)
    return check.retrieval().value, float(np.nanmean(check.stylecider()))


def ours_apart(path: str) -> tuple[float, float]:
    """As two commands do it: the captions are cut into words once to fit and again to check."""
    corpus = read_styled(path)
    check = StyledCaptions.of(fit(zip(corpus.styles, corpus.texts, strict=True)), corpus)
    return check.retrieval().value, float(np.nanmean(check.stylecider()))


def peer(path: str) -> tuple[float, float]:
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    captions = [(row["style"], row["caption"]) for row in rows]
    return table_one(Peer(captions), captions)


def peer_pairs(path: str, number: int) -> float:
    """Seconds the peer takes for the cosine of one pair, without the shortcut."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    model = Peer([(row["style"], row["caption"]) for row in rows])
    start = time.perf_counter()
    for one, other in zip(rows[:number], rows[-number:], strict=True):
        model.stylecider(one["caption"], other["caption"], one["style"])
    return (time.perf_counter() - start) / number


def fit_many(path: str) -> str:
    model = fit(generated())
    save(model, path)
    sizes = ", ".join(f"{len(order.last):,}" for order in model.orders)
    return f"{len(model.styles)} styles, {int(model.captions.sum()):,} captions, n-grams {sizes}"


def score_many(path: str, number: int) -> str:
    texts = [text for (_, text), _ in zip(generated(), range(number), strict=False)]
    scores = score_all_styles(ModelNgrams.of(load(path), texts))
    return f"{scores.shape[0]:,} captions x {scores.shape[1]} styles, mean {scores.mean():+.2e}"


def generate_only() -> str:
    return f"{sum(1 for _ in generated()):,} captions"


def peer_many(number: int) -> str:
    captions = list(generated())
    start = time.perf_counter()
    model = Peer(captions)
    fitted = time.perf_counter()
    for _, text in captions[:number]:
        for style in model.styles:
            model.onlystyle(text, style)
    each = (time.perf_counter() - fitted) / number
    return f"fit {fitted - start:.1f} s, then {each:.3f} s a caption: 10,000 captions take {each * 10_000 / 60:.0f} min"


def check_many(path: str) -> str:
    styles, texts = zip(*generated(), strict=True)
    corpus = StyledCorpus("generated", styles, texts, tuple(map(str, range(len(texts)))))
    check = StyledCaptions.of(load(path), corpus)
    start = time.perf_counter()
    found = check.retrieval()
    middle = time.perf_counter()
    cider = float(np.nanmean(check.stylecider()))
    end = time.perf_counter()
    return (
        f"OnlyStyle {found.value:.4f} in {middle - start:.0f} s, StyleCIDEr {cider:.4f} in {end - middle:.0f} s, "
        f"own style in the top tenth: {found.within(0.1):.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", help="styled captions, such as flickrstyle.jsonl")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, taking turns")
    parser.add_argument("--many", action="store_true", help="the 215-style run")
    parser.add_argument("--check", action="store_true", help="with --many: Table 1 on all captions too")
    parser.add_argument("--model", default="build/many.style", help="where the 215-style model is written")
    given = parser.parse_args()
    print(f"{'':<34}{'seconds':>9}{'GiB':>7}  result")

    def line(name: str, outcome: tuple[Any, float, float]) -> float:
        result, seconds, memory = outcome
        shown = " / ".join(f"{value:.4f}" for value in result) if isinstance(result, tuple) else result
        print(f"{name:<34}{seconds:>9.2f}{memory:>7.2f}  {shown}", flush=True)
        return seconds

    if given.corpus:
        tasks = {"captious: fit + Table 1": ours, "captious: fit, then Table 1": ours_apart, "dictionaries": peer}
        times: dict[str, list[float]] = {name: [] for name in tasks}
        for _ in range(given.rounds):
            for name, task in tasks.items():
                times[name].append(line(name, alone(task, given.corpus)))
        slow = statistics.median(times.pop("dictionaries"))
        for name, seconds in times.items():
            print(f"{name}: ratio of medians {slow / statistics.median(seconds):.1f}")
        pair = alone(peer_pairs, given.corpus, 2000)[0]
        number = len(read_styled(given.corpus).texts)
        print(f"dictionaries without summed vectors: {pair * 1e6:.0f} us a pair, {pair * number**2 / 3600:.1f} h")
    if given.many:
        Path(given.model).parent.mkdir(parents=True, exist_ok=True)
        made = line("generating alone", alone(generate_only))
        fitted = line("captious: generate, fit, save", alone(fit_many, given.model))
        scored = line("captious: OnlyStyle of 10,000", alone(score_many, given.model, 10_000))
        print(f"fit {fitted - made:.1f} s without generating; load and score {scored - made * 10_000 / CAPTIONS:.1f} s")
        if given.check:
            line("captious: Table 1 of all", alone(check_many, given.model))
        line("dictionaries: fit, 20 captions", alone(peer_many, 20))


if __name__ == "__main__":
    main()
