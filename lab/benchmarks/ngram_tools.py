"""One tool on one set in a fresh process: tokenize, BLEU-1..4, ROUGE-L and CIDEr-D, captions in memory to values.

python lab/benchmarks/ngram_tools.py TOOL SET REPEATS
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import types
from pathlib import Path

from data import captions
from measure import timed

candidates, references = captions(sys.argv[2])


def captious() -> dict[str, float]:
    """Our own."""
    from captious import CaptionSet, Resampling, evaluate

    report = evaluate(CaptionSet.of(candidates, references), "bleu,rouge,cider", resampling=Resampling(samples=0))
    return {measurement.metric.label: measurement.corpus for measurement in report}


def pycocoevalcap() -> dict[str, float]:
    """The original: Java tokenizer, Python scorers."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    tokenizer = PTBTokenizer()
    truth = tokenizer.tokenize({key: [{"caption": text} for text in texts] for key, texts in references.items()})
    result = tokenizer.tokenize({key: [{"caption": text}] for key, text in candidates.items()})
    bleu, _ = Bleu(4).compute_score(truth, result, verbose=0)
    rouge, _ = Rouge().compute_score(truth, result)
    cider, _ = Cider().compute_score(truth, result)
    return {**{f"BLEU-{n}": bleu[n - 1] for n in (1, 2, 3, 4)}, "ROUGE-L": float(rouge), "CIDEr-D": float(cider)}


def aac_metrics() -> dict[str, float]:
    """A rewrite of the original in Python and PyTorch; its tokenizer is the original's Java."""
    # Its import pulls in an audio model that these metrics do not use and that many machines cannot load.
    sys.modules.setdefault("msclap", types.SimpleNamespace(CLAP=None))  # type: ignore[arg-type]
    import pycocoevalcap as pycocoevalcap_package
    from aac_metrics.functional import bleu_1, bleu_2, bleu_3, bleu_4, cider_d, rouge_l
    from aac_metrics.utils import tokenization
    from aac_metrics.utils.tokenization import (
        FNAME_STANFORD_CORENLP_3_4_1_JAR,
        preprocess_mono_sents,
        preprocess_mult_sents,
    )

    tokenization.check_java_path = lambda path: True  # it refuses every Java after 13, on which the jar runs well
    with tempfile.TemporaryDirectory() as folder:
        # The jar that it would download is the one pycocoevalcap has.
        jar = Path(folder, FNAME_STANFORD_CORENLP_3_4_1_JAR)
        jar.parent.mkdir(parents=True)
        jar.symlink_to(Path(pycocoevalcap_package.__path__[0], "tokenizer", jar.name))
        texts = preprocess_mono_sents([text.replace("\n", " ") for text in candidates.values()], cache_path=folder)
        clean = [[text.replace("\n", " ") for text in group] for group in references.values()]
        truths = preprocess_mult_sents(clean, cache_path=folder)
    names = {
        "BLEU-1": bleu_1,
        "BLEU-2": bleu_2,
        "BLEU-3": bleu_3,
        "BLEU-4": bleu_4,
        "ROUGE-L": rouge_l,
        "CIDEr-D": cider_d,
    }
    return {name: float(next(iter(function(texts, truths)[0].values()))) for name, function in names.items()}


def torchmetrics() -> dict[str, float]:
    """BLEU-1..4 and ROUGE-L by its own tokens and arithmetic; it has no CIDEr. Its values are not ours."""
    from torchmetrics.functional.text import bleu_score, rouge_score

    texts, truths = list(candidates.values()), list(references.values())
    for n in (1, 2, 3, 4):
        bleu_score(texts, truths, n_gram=n)
    rouge_score(texts, truths, rouge_keys="rougeL")
    return {}


def bootstrap() -> None:
    """A 1,000-sample bootstrap of all metrics, the measurements being there."""
    from captious.stats.bootstrap import bootstrap as resample

    resample({key: measurement.statistic for key, measurement in REPORT.measurements.items()})


JOBS = {
    "captious": captious,
    "pycocoevalcap": pycocoevalcap,
    "aac-metrics": aac_metrics,
    "torchmetrics": torchmetrics,
    "bootstrap": bootstrap,
}
values: dict[str, float] = {}


def once() -> None:
    """One run, silent."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        values.update(JOBS[sys.argv[1]]() or {})


if sys.argv[1] == "bootstrap":
    from captious import CaptionSet, Resampling, evaluate

    REPORT = evaluate(CaptionSet.of(candidates, references), "bleu,rouge,cider", resampling=Resampling(samples=0))
else:
    everything = candidates, references
    candidates, references = ({key: part[key] for key in list(part)[:20]} for part in everything)
    once()  # imports and first uses; no tool keeps anything of these twenty items
    candidates, references = everything
print(json.dumps({**timed(once, int(sys.argv[3])), "items": len(candidates), "values": values}))
