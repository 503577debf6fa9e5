"""A script as ``evaluate.load`` loads it: the CIDEr of pycocoevalcap, on texts that are tokenized already."""

import datasets
import evaluate
from pycocoevalcap.cider.cider import Cider


class CocoCider(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(
            description="CIDEr of pycocoevalcap",
            citation="",
            inputs_description="",
            features=datasets.Features(
                {"predictions": datasets.Value("string"), "references": datasets.Sequence(datasets.Value("string"))}
            ),
        )

    def _compute(self, predictions, references):
        gts = {key: list(texts) for key, texts in enumerate(references)}
        res = {key: [text] for key, text in enumerate(predictions)}
        return {"cider": float(Cider().compute_score(gts, res)[0])}
