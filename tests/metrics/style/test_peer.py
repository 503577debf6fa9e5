"""Agreement with the dictionary implementation on random corpora."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab.benchmarks.style_peer import Peer, table_one

from captious.captions import CaptionSet
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.metrics.style.onlystyle import ModelNgrams, score_all_styles
from captious.metrics.style.stylecider import StyleCider
from captious.probes.style_check import StyledCaptions, StyledCorpus

WORDS = list("abcdefghij")


def corpus(seed: int, styles: int, size: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    rows = []
    for number in range(size):
        words = rng.choice(WORDS, rng.integers(0, 9), p=weights / weights.sum())
        rows.append((f"s{number % styles}", " ".join(words)))
    return rows


@pytest.mark.parametrize(("seed", "styles", "size"), [(0, 2, 30), (1, 3, 40), (2, 7, 60)])
def test_scores_agree(tmp_path: Path, seed: int, styles: int, size: int) -> None:
    rows = corpus(seed, styles, size)
    texts = [text for _, text in corpus(seed + 100, 1, 25)] + ["a z b", "z"]
    peer, model = Peer(rows), fit(rows)
    expected = [[peer.onlystyle(text, style) for style in model.styles] for text in texts]
    assert np.abs(score_all_styles(ModelNgrams.of(model, texts)) - expected).max() < 1e-12
    save(model, tmp_path / "m.style")
    items = {str(i): text for i, text in enumerate(texts)}
    references = {str(i): [rows[i][1], rows[i + 1][1]] for i in range(len(texts))}
    named = [model.styles[i % styles] for i in range(len(texts))]
    measured = StyleCider(model=str(tmp_path / "m.style")).measure(CaptionSet.of(items, references, {"style": named}))
    wanted = [
        np.mean([peer.stylecider(text, reference, style) for reference in references[str(i)]])
        for i, (text, style) in enumerate(zip(texts, named, strict=True))
    ]
    assert np.abs(measured.values - wanted).max() < 1e-12


@pytest.mark.parametrize(("seed", "styles", "size"), [(3, 2, 40), (4, 3, 40), (5, 6, 60)])
def test_table_one_agrees(seed: int, styles: int, size: int) -> None:
    rows = corpus(seed, styles, size)
    names, texts = zip(*rows, strict=True)
    check = StyledCaptions.of(None, StyledCorpus("random", names, texts, tuple(map(str, range(size)))))
    only, cider = table_one(Peer(rows), rows)
    assert check.retrieval().value == pytest.approx(only, abs=1e-12)
    assert np.nanmean(check.stylecider()) == pytest.approx(cider, abs=1e-12)
