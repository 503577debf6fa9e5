"""Agreement with pycocoevalcap, item by item, tokenizer included; and Kendall's tau with the Flickr8k-Expert ratings.

python lab/benchmarks/parity.py
"""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
from data import SHARED, captions
from measure import table
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
from scipy.stats import kendalltau

from captious import CaptionSet, Resampling, evaluate
from captious.text.ngram_tables import TextTable


def main() -> None:
    """Both sets."""
    rows = [["set", "items", "items whose tokens agree", "metric", "largest difference on these", "on all"]]
    candidates, references, ratings = expert()
    rows += compare("Flickr8k-Expert", candidates, references)
    rows += compare("COCO Karpathy test", *captions("karpathy"))
    print(table(rows))
    correlate(candidates, references, ratings)


def expert() -> tuple[dict[str, str], dict[str, list[str]], dict[str, list[int]]]:
    """All 5,822 pairs with the references of their image, and the ratings of those whose caption is not its own."""
    with (SHARED / "flickr8k" / "captions.jsonl").open() as lines:
        known = {row["id"]: row["references"] for row in map(json.loads, lines)}
    with (SHARED / "flickr8k" / "expert.jsonl").open() as lines:
        rows = {str(number): json.loads(line) for number, line in enumerate(lines)}
    kept = {key: row["ratings"] for key, row in rows.items() if row["caption_of"].split("#")[0] != row["image"]}
    return {k: row["caption"] for k, row in rows.items()}, {k: known[row["image"]] for k, row in rows.items()}, kept


def compare(name: str, candidates: dict[str, str], references: dict[str, list[str]]) -> list[list[str]]:
    """Values of both tools on one set."""
    ours = evaluate(CaptionSet.of(candidates, references), "bleu,rouge,cider", resampling=Resampling(samples=0))
    tokenizer = PTBTokenizer()
    truth = tokenizer.tokenize({key: [{"caption": text} for text in texts] for key, texts in references.items()})
    result = tokenizer.tokenize({key: [{"caption": text}] for key, text in candidates.items()})
    words = TextTable.of(ours.captions)
    agree = np.array(
        [
            [" ".join(words.words(caption)) for caption in range(first, end)] == [*result[key], *truth[key]]
            for key, first, end in zip(
                ours.captions.ids, words.first_caption[:-1], words.first_caption[1:], strict=True
            )
        ]
    )
    with contextlib.redirect_stdout(io.StringIO()):
        _, bleu = Bleu(4).compute_score(truth, result, verbose=0)
        _, rouge = Rouge().compute_score(truth, result)
        _, cider = Cider().compute_score(truth, result)
    theirs = {**{f"BLEU-{n}": bleu[n - 1] for n in (1, 2, 3, 4)}, "ROUGE-L": rouge, "CIDEr-D": cider}
    rows = []
    for label, values in theirs.items():
        gap = np.abs(ours[label].values - np.asarray(values))
        rows.append([name, str(len(agree)), str(agree.sum()), label, f"{gap[agree].max():.1e}", f"{gap.max():.1e}"])
    return rows


def correlate(candidates: dict[str, str], references: dict[str, list[str]], ratings: dict[str, list[int]]) -> None:
    """Kendall's tau over all ratings, three rows a caption, as published."""
    kept = CaptionSet.of({key: candidates[key] for key in ratings}, {key: references[key] for key in ratings})
    report = evaluate(kept, "bleu,rouge,cider", resampling=Resampling(samples=0))
    human = np.array(list(ratings.values())).ravel()
    rows = [["metric", "tau-b", "tau-c"]]
    for measurement in report:
        values = np.repeat(measurement.values, 3)
        taus = [100 * kendalltau(values, human, variant=variant).statistic for variant in "bc"]
        rows.append([measurement.metric.label, *(f"{tau:.2f}" for tau in taus)])
    print(f"\nFlickr8k-Expert, {len(ratings)} captions, {len(human)} ratings\n")
    print(table(rows))


if __name__ == "__main__":
    main()
