import pickle
import re

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from captious._core.languages import AUTO
from captious.cli.cards import TEXTS as VALUES
from captious.errors import InputError
from captious.text.tokenizers import TOKENIZERS, find_tokenizer, tokenize_13a

TEXTS = [
    "A man's dog, isn't it?",
    "It costs $3.50 (about 3,5 euros) -- really!",
    "He said &quot;no&quot; at 5-4 & left.",
    "SALT &AMP; PEPPER <SKIPPED>",
    "well-known 1990s U.S. style; e.g. this/that",
    "naïve café … \"quoted\" 'single'",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_13a_gives_sacrebleus_tokens(text):
    assert tokenize_13a(text) == Tokenizer13a()(text.lower()).split()
    assert TOKENIZERS["13a-cased"].tokenize(text) == Tokenizer13a()(text).split()


def test_an_unknown_tokenizer_is_named_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown tokenizer 'ptp', expected one of .*did you mean 'ptb'"):
        find_tokenizer("ptp")


def test_the_version_stands_in_the_printed_name():
    assert str(TOKENIZERS["ptb"]) == "ptb.1"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_travels_to_other_processes(name):
    assert pickle.loads(pickle.dumps(TOKENIZERS[name])) == TOKENIZERS[name]


def test_the_cards_of_metrics_list_every_tokenizer():
    listed = re.findall("`([^`]+)`", VALUES["tokenizer"])
    assert sorted(listed) == sorted([*TOKENIZERS, AUTO])
