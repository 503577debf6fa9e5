"""The tokeniser of the original: BERT's cased word pieces, from ``tokenizer.json`` or a bare ``vocab.txt``."""

from __future__ import annotations

from pathlib import Path

from captious.encoders.tokenisers import Tokeniser, framed, tokeniser_of
from captious.errors import InputError
from captious.extras import require


def read_wordpiece(folder: Path, limit: int) -> Tokeniser:
    """Case is kept and accents are; a word is split at punctuation, then into pieces."""
    if (folder / "tokenizer.json").is_file():
        return tokeniser_of(folder, limit)
    path = folder / "vocab.txt"
    if not path.is_file():
        raise InputError(f"{folder}: has no vocabulary, expected the vocab.txt of bert-base-cased, or tokenizer.json")
    tokenizers = require("tokenizers", "clip")
    words = path.read_text(encoding="utf-8").splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    lacking = [word for word in ("[CLS]", "[SEP]", "[UNK]", "[PAD]") if word not in vocabulary]
    if lacking:
        raise InputError(f"{path}: lacks {', '.join(lacking)}, expected the vocabulary of a BERT")
    backend = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    return framed(backend, limit, {"pad_token": "[PAD]"}, str(folder))
