"""UMIC: a caption judged against its image alone, by a model that learnt to rank true captions above wrong ones."""

from captious.umic.corpus import Corpus
from captious.umic.negatives import KINDS, Negatives, negatives
from captious.umic.sources import Alike
from captious.umic.words import Lexicon

__all__ = ["KINDS", "Alike", "Corpus", "Lexicon", "Negatives", "negatives"]
