from captious.text.counts import CountsKind as CountsKind
from captious.text.counts import CountsState as CountsState
from captious.text.counts import KeyCounts as KeyCounts
from captious.text.idf import DocumentFrequency as DocumentFrequency
from captious.text.ngram_tables import NgramTable as NgramTable
from captious.text.ngram_tables import TextTable as TextTable
from captious.text.ptb import split, tokenize
from captious.text.token_frequencies import TokenFrequency as TokenFrequency
from captious.text.tokenizers import TOKENIZERS as TOKENIZERS
from captious.text.tokenizers import Tokenizer as Tokenizer
from captious.text.tokenizers import find_tokenizer as find_tokenizer

split_ptb = split
tokenize_ptb = tokenize
