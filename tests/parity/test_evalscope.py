"""The numbers of the page *Coming from evalscope*, on the captions of MAGIC and ZeroCap.

evalscope 1.14.1 without Java takes the best F-score of equal words over the references and calls it METEOR. The values
0.4352 and 0.4017 were printed by its own file ``benchmarks/caption/metrics.py`` on 18 November 2026; ``computed.json``
has those of pycocoevalcap 1.2 with Java.
"""

import gzip
import json
import re
import string
from collections import Counter
from pathlib import Path

import pytest

import captious
from captious.options import Resampling

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/coming-from-evalscope.md"
SPACES = str.maketrans({mark: " " for mark in string.punctuation if mark != ":"})


def best_f_score(caption, references):
    """10 P R / (R + 9 P) over equal words; the weights of the first METEOR, without stems, synonyms and chunks."""
    words = Counter(caption.lower().translate(SPACES).split())
    best = 0.0
    for reference in references:
        others = Counter(reference.lower().translate(SPACES).split())
        matches = (words & others).total()
        if matches:
            precision, recall = matches / words.total(), matches / others.total()
            best = max(best, 10 * precision * recall / (recall + 9 * precision))
    return best


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "run", "printed"),
    [("MAGIC", "mscoco/magic_result", 0.4352), ("ZeroCap", "mscoco/baselines/zerocap_result", 0.4017)],
)
def test_the_page_has_what_evalscope_printed_and_what_meteor_is(shared_data, compiled_meteor, name, run, printed):
    folder = shared_data / "magic"
    captions = json.loads(gzip.decompress((folder / "predictions.json.gz").read_bytes()))[run]["captions"]
    references = json.loads(gzip.decompress((folder / "refs_mscoco.json.gz").read_bytes()))
    scores = [best_f_score(caption, references[image]) for image, caption in captions.items()]
    assert round(sum(scores) / len(scores), 4) == printed
    report = captious.evaluate(
        captions,
        "bleu(n=4), meteor, rouge, cider",
        references={image: references[image] for image in captions},
        resampling=Resampling(samples=0),
    )
    program = json.loads((folder / "computed.json").read_text(encoding="utf-8"))[run]
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(f"| {name} |") :]
    expected = {"METEOR": program["meteor"], "BLEU-4": program["bleu"][3], "ROUGE-L": program["rouge"]}
    for label, value in {**expected, "CIDEr": program["cider"]}.items():
        cells = re.search(rf"\| {label} \| \**([\d.]+)\** \| ([\d.]+) \| ([\d.]+) \|", shown).groups()
        ours = report["CIDEr-D" if label == "CIDEr" else label].corpus
        assert cells[1:] == (f"{value:.4f}", f"{ours:.4f}") and ours == pytest.approx(value, abs=2e-6)
    assert f"| METEOR | **{printed}** |" in shown
