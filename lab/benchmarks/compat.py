"""Three scripts, each run under the import lines of the peer and under ours: values side by side, and seconds.

PYTHONPATH=. python lab/benchmarks/compat.py [--set karpathy|val2014|1000] [--batch 64] [--show]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from data import captions
from measure import table

CIDER_SCRIPT = Path(__file__).resolve().parents[2] / "tests" / "compat" / "coco_cider.py"


@dataclass(frozen=True)
class Script:
    """A script whose first lines name the library; ``body`` fills ``values`` and ``seconds`` by name."""

    name: str
    peer: str
    ours: str
    body: str


SCRIPTS = (
    Script(
        "pycocoevalcap",
        """\
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
""",
        """\
from captious.compat.pycocoevalcap import Bleu, Cider, Meteor, PTBTokenizer, Rouge
""",
        """\
with timed("tokenizer"):
    gts = PTBTokenizer().tokenize({k: [{"caption": text} for text in v] for k, v in references.items()})
    res = PTBTokenizer().tokenize({k: [{"caption": text}] for k, text in candidates.items()})
values["tokenizer"] = sum(len(text.split()) for side in (gts, res) for texts in side.values() for text in texts)

for scorer in (Bleu(4), Rouge(), Cider(), Meteor()):
    scorer.compute_score({"": ["a dog"]}, {"": ["a dog"]})  # METEOR loads its tables
    with timed(scorer.method()):
        score, scores = scorer.compute_score(gts, res)
    values[scorer.method()] = score[-1] if isinstance(score, list) else score
""",
    ),
    Script(
        "torchmetrics",
        """\
from torchmetrics.text import BLEUScore, ROUGEScore, SacreBLEUScore

metrics = {
    "BLEU-4": BLEUScore(n_gram=4),
    "BLEU-4, 13a": SacreBLEUScore(tokenize="13a", lowercase=True),
    "ROUGE-1": ROUGEScore(rouge_keys="rouge1"),
}
""",
        """\
from captious.compat.torchmetrics import CaptionMetric

metrics = {
    "BLEU-4": CaptionMetric("bleu(n=4, tokenizer=whitespace)"),
    "BLEU-4, 13a": CaptionMetric("bleu(n=4, tokenizer=13a)"),
    "ROUGE-1": CaptionMetric("rouge_n(n=1, tokenizer=plain)"),
}
""",
        """\
preds, target = list(candidates.values()), list(references.values())
for name, metric in metrics.items():
    with timed(name):
        for first in range(0, len(preds), batch):
            metric.update(preds[first : first + batch], target[first : first + batch])
        value = metric.compute()
    values[name] = float(value["rouge1_fmeasure"] if isinstance(value, dict) else value)
""",
    ),
    Script(
        "evaluate",
        f"""\
from evaluate import load

cider = load("{CIDER_SCRIPT}")
""",
        """\
from captious.compat.hf_evaluate import load

cider = load("cider(tokenizer=whitespace)")
""",
        """\
preds, target = list(candidates.values()), list(references.values())
with timed("CIDEr"):
    for first in range(0, len(preds), batch):
        cider.add_batch(predictions=preds[first : first + batch], references=target[first : first + batch])
    (values["CIDEr"],) = cider.compute().values()
""",
    ),
)

FRAME = """\
import json, sys, time
from contextlib import contextmanager

with open({data!r}) as file:
    candidates, references = json.load(file)
batch, values, seconds = {batch}, {{}}, {{}}


@contextmanager
def timed(name):
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


{script}
print(json.dumps([values, seconds]))
"""


def results_of(lines: str, script: Script, data: Path, batch: int) -> tuple[dict[str, float], dict[str, float]]:
    """Values and seconds of a script under these first lines, in a fresh process."""
    program = FRAME.format(data=str(data), batch=batch, script=f"{lines}\n{script.body}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script.name}: {done.stderr[-2000:]}")
    values, seconds = json.loads(done.stdout.splitlines()[-1])
    return values, seconds


def main() -> None:
    """Print a table of all scripts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="karpathy", help="captions to score: karpathy, val2014 or a number of items")
    parser.add_argument("--batch", type=int, default=64, help="samples of an update")
    parser.add_argument("--show", action="store_true", help="print the scripts as well")
    options = parser.parse_args()
    rows = [["script", "value of", "peer", "captious", "difference", "peer, s", "captious, s", "ratio"]]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "captions.json")
        data.write_text(json.dumps(captions(options.set)), encoding="utf-8")
        for script in SCRIPTS:
            if options.show:
                print(f"## {script.name}\n\n{script.peer}\n{script.body}\nor, before the same lines:\n\n{script.ours}")
            (peer, peer_seconds), (ours, seconds) = (
                results_of(lines, script, data, options.batch) for lines in (script.peer, script.ours)
            )
            for name, value in ours.items():
                figures = [
                    f"{number}" if isinstance(number, int) else f"{number:.10f}" for number in (peer[name], value)
                ]
                ratio = peer_seconds[name] / seconds[name]
                times = [f"{peer_seconds[name]:.2f}", f"{seconds[name]:.2f}", f"{ratio:.1f}"]
                rows.append([script.name, name, *figures, f"{abs(peer[name] - value):.0e}", *times])
    print(table(rows))


if __name__ == "__main__":
    main()
