"""The whole way against pycocoevalcap, Java tokenizer included, on the captions of Flickr8k-Expert."""

import json
import shutil

import numpy as np
import pytest

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.options import Resampling
from captious.text.ngram_tables import TextTable


@pytest.mark.java
@pytest.mark.shared_data
@pytest.mark.skipif(shutil.which("java") is None, reason="Java, which the reference tokenizer needs, is not installed")
def test_every_item_of_flickr8k_expert(shared_data, capsys):
    pytest.importorskip("pycocoevalcap", reason="pycocoevalcap, the reference implementation, is not installed")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    with (shared_data / "flickr8k" / "captions.jsonl").open() as lines:
        known = {row["id"]: row["references"] for row in map(json.loads, lines)}
    with (shared_data / "flickr8k" / "expert.jsonl").open() as lines:
        rows = {str(number): json.loads(line) for number, line in enumerate(lines)}
    candidates = {key: row["caption"] for key, row in rows.items()}
    references = {key: known[row["image"]] for key, row in rows.items()}
    truth = PTBTokenizer().tokenize({key: [{"caption": text} for text in texts] for key, texts in references.items()})
    result = PTBTokenizer().tokenize({key: [{"caption": text}] for key, text in candidates.items()})
    report = evaluate(CaptionSet.of(candidates, references), "bleu,rouge,cider", resampling=Resampling(samples=0))
    table = TextTable.of(report.captions)
    for index, key in enumerate(report.captions.ids):
        first, end = table.first_caption[index : index + 2]
        assert [" ".join(table.words(caption)) for caption in range(first, end)] == [*result[key], *truth[key]]
    _, bleu = Bleu(4).compute_score(truth, result, verbose=0)
    for n in (1, 2, 3, 4):
        assert np.allclose(report[f"BLEU-{n}"].values, bleu[n - 1], rtol=0, atol=1e-9)
    assert np.allclose(report["rouge"].values, Rouge().compute_score(truth, result)[1], rtol=0, atol=1e-9)
    assert np.allclose(report["cider"].values, Cider().compute_score(truth, result)[1], rtol=0, atol=1e-9)
