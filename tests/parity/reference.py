"""coco-caption's own Python scorers, run on tokens given as they are."""

from pycocoevalcap.bleu.bleu_scorer import BleuScorer
from pycocoevalcap.cider.cider_scorer import CiderScorer
from pycocoevalcap.rouge.rouge import Rouge


def bleu(candidates, references):
    scorer = BleuScorer(n=4)
    for candidate, refs in zip(candidates, references, strict=True):
        scorer += (candidate, refs)
    corpus, items = scorer.compute_score(option="closest", verbose=0)
    return corpus, items


def rouge(candidates, references):
    return [Rouge().calc_score([candidate], refs) for candidate, refs in zip(candidates, references, strict=True)]


def cider(candidates, references):
    scorer = CiderScorer(n=4, sigma=6.0)
    for candidate, refs in zip(candidates, references, strict=True):
        scorer += (candidate, refs)
    return scorer.compute_score()
