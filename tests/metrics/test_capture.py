"""CAPTURE: pairs by hand, a plain second implementation, the original's own matching, and a FACTUAL parser."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")

from tests.metrics.meteor.conftest import SYNSETS, write_source

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.capture._matching import Pairing, Synonyms, collect_elements
from captious.metrics.capture.capture import Capture, normalize_facts
from captious.metrics.registry import parse
from captious.models import factual
from captious.options import Runtime, using
from captious.syntax.parsing import DEFAULT, STAND_INS, Word

if not any(spacy.util.is_package(name) for name in (DEFAULT, *STAND_INS[DEFAULT])):
    pytest.skip("no English model of spaCy is installed", allow_module_level=True)

WORDS = [
    "dog",
    "hound",
    "man",
    "woman",
    "guy",
    "big",
    "large",
    "photo",
    "image",
    "picture",
    "ball",
    "run",
    "jog",
    "red",
]


@pytest.fixture(scope="module")
def meteor(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("meteor"), paraphrases=False)


@pytest.fixture(scope="module")
def synonyms(meteor):
    return Synonyms(str(meteor))


def vector(phrase):
    """A unit vector that any implementation can compute: counts of letters."""
    counts = np.array([phrase.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"], float)
    return counts / np.linalg.norm(counts)


def vectors(phrases):
    return np.stack([vector(phrase) for phrase in phrases])


def test_words_are_synonyms_if_they_share_a_name_or_one_contains_the_other(synonyms):
    # photo is in synset 4, image in 5; picture is in both, so it is a name of either.
    assert synonyms("photo", "image") and synonyms("dog", "hound") and synonyms("ran", "jog")
    assert synonyms("man", "woman") and not synonyms("man", "woman", whole_words=True)
    assert synonyms("ice cream", "cream", whole_words=True) and not synonyms("dog", "cat")


def test_each_element_is_paired_once_and_equal_ones_first(synonyms):
    ours, theirs = [("big",), ("hound",)], [("dog",), ("hound",), ("large",)]
    pairing = Pairing.of(ours, theirs, synonyms)
    assert pairing.partners == {1: (1, "equal"), 0: (2, "synonym")}
    assert pairing.compute_credits(None).precision == 1 and pairing.compute_credits(None).recall == pytest.approx(2 / 3)
    assert Pairing.of(ours, theirs, None).partners == {1: (1, "equal")}


def test_what_is_left_counts_by_its_largest_cosine():
    # ab·a = 1/√2, ab·b = 1/√2; the caption has one element of 1/√2, the reference two.
    credits = Pairing.of([("ab",)], [("a",), ("b",)], None).compute_credits(vectors)
    assert credits.precision == pytest.approx(math.sqrt(0.5)) == credits.recall == credits.f
    assert Pairing.of([("ab",)], [], None).compute_credits(vectors).f == 0


def test_stop_nouns_are_no_objects_and_numbers_no_attributes():
    facts = [
        ("scene", "calm"),
        ("dog", "two"),
        ("dog", "2"),
        ("dog", "a"),
        ("dog", "kind of red"),
        ("dog", "in", "scene"),
    ]
    elements = collect_elements(facts, ["scene"])
    assert elements["object"] == [("dog",)] and elements["attribute"] == [("scene", "calm")]
    assert elements["relation"] == [("dog", "in", "scene")]


def plain_match(ours, theirs, same, phrase):
    """The three passes as plain loops: sums over the caption's and over the reference's elements."""
    left, right, hits = list(ours), list(theirs), 0
    for test in (lambda a, b: a == b, same):
        for one in list(left):
            for other in right:
                if test(one, other):
                    left.remove(one)
                    right.remove(other)
                    hits += 1
                    break
    if not left or not right:
        return hits, hits
    table = [[float(vector(phrase(a)) @ vector(phrase(b))) for b in right] for a in left]
    return hits + sum(map(max, table)), hits + sum(max(column) for column in zip(*table, strict=True))


def plain_f(ours, theirs, same, phrase):
    a, b = plain_match(ours, theirs, same, phrase)
    if not ours or not theirs or not a + b:
        return 0.0
    p, r = a / len(ours), b / len(theirs)
    return 2 * p * r / (p + r)


def plain_names(word):
    numbers = set(SYNSETS.get(word, "").split())
    return {other for other, listed in SYNSETS.items() if numbers & set(listed.split())}


def plain_synonym(a, b):
    return a in b or b in a or bool(plain_names(a) & plain_names(b))


def random_elements(generator):
    def draw(number):
        return generator.choice(WORDS, size=number).tolist()

    facts = [(word,) for word in draw(generator.integers(0, 5))]
    facts += [tuple(draw(2)) for _ in range(generator.integers(0, 5))]
    facts += [tuple(draw(3)) for _ in range(generator.integers(0, 4))]
    return collect_elements(facts)


def score(ours, theirs, synonyms):
    metric, values = Capture(), {}
    for kind in ("object", "attribute", "relation"):
        values[kind] = Pairing.of(ours[kind], theirs[kind], synonyms).compute_credits(vectors)
    return metric._value(values)


def test_the_score_is_that_of_a_plain_implementation(synonyms):
    generator = np.random.default_rng(0)
    for _ in range(100):
        ours, theirs = random_elements(generator), random_elements(generator)
        words = {
            kind: ([fact[-1] for fact in ours[kind]], [fact[-1] for fact in theirs[kind]])
            for kind in ("object", "attribute")
        }
        f = {kind: plain_f(*pair, plain_synonym, str) for kind, pair in words.items()}
        f["relation"] = plain_f(
            ours["relation"],
            theirs["relation"],
            lambda a, b: all(map(plain_synonym, a, b)),
            " ".join,
        )
        expected = (0.5 * f["object"] + 0.5 * f["attribute"] + 0.2 * f["relation"]) / 1.2
        assert score(ours, theirs, synonyms) == pytest.approx(expected, abs=1e-12)


def test_the_score_is_that_of_the_original_matching(synonyms, monkeypatch):
    original = pytest.importorskip("capture_metric.capture", reason="capture_metric is not installed")

    class Encoder:
        def encode(self, phrases, batch_size):
            return vectors(phrases)

    monkeypatch.setattr(original, "get_synonyms", plain_names)
    metric = original.CAPTURE(soft_matching=False)
    metric.soft_matching, metric.text_encoder = True, Encoder()
    generator = np.random.default_rng(1)
    for _ in range(100):
        ours, theirs = random_elements(generator), random_elements(generator)
        parsed = []
        for one in (theirs, ours):
            attributes = {}
            for noun, word in one["attribute"]:
                attributes.setdefault(noun, []).append(word)
            parsed.append(([fact[0] for fact in one["object"]], attributes, one["relation"]))
        assert score(ours, theirs, synonyms) == pytest.approx(metric.compute_f_score(*parsed)[0], abs=1e-5)


def test_captions_end_to_end_by_hand(meteor):
    captions = CaptionSet.of(
        {"1": "a big dog in a park", "2": "a dog", "3": "a dog", "4": "a dog"},
        {"1": ["a large hound in a park"], "2": ["a dog in the park", "a dog"], "3": ["the"], "4": ["the", "a dog"]},
    )
    measured = Capture(soft=False, resources=str(meteor)).measure(captions)
    assert measured.items["1"] == pytest.approx(1.0)  # dog-hound, park-park; big-large; dog in park with hound in park
    # Objects of 2: precision 1 and recall 1/2 give F = 2/3; with the second reference F = 1; no attribute, no relation.
    assert measured.items["2"] == pytest.approx((0.5 * 2 / 3 / 1.2 + 0.5 / 1.2) / 2)
    assert measured.reasons == {"3": "its references have no element of this kind"}
    assert measured.items["4"] == pytest.approx(0.5 / 1.2)  # a reference that says nothing is left out
    objects = Capture("object", soft=False, resources=str(meteor)).measure(captions)
    assert objects.items["2"] == pytest.approx((2 / 3 + 1) / 2)
    assert "|synonyms:wordnet-3.0#" in str(measured.signature) and "|model:" not in str(measured.signature)


def test_an_explanation_lists_what_is_matched_missed_and_extra(meteor):
    captions = CaptionSet.of({"1": "a red dog and a ball"}, {"1": ["a big hound sees a cat", "a red hound"]})
    explanation = Capture(soft=False, resources=str(meteor)).explain(captions, "1")
    results = {(part.name, part.details["kind"]): part.details["result"] for part in explanation.parts}
    assert results[("dog", "object")] == "synonym" and results[("ball", "object")] == "extra"
    assert results[("dog, red", "attribute")] == "equal" and results[("cat", "object")] == "missed"
    assert results[("hound, big", "attribute")] == "missed" and results[("hound, see, cat", "relation")] == "missed"
    assert sum(part.adds for part in explanation.parts) == pytest.approx(explanation.value)
    assert "0.4167 · " in explanation.breakdown.formula and "precision" in str(explanation)


CODE = """
from captious.captions import CaptionSet
from captious.metrics.registry import parse
captions = CaptionSet.of({"1": "a woman and men near a dog house"}, {"1": ["a man with a doghouse, women and a dog"]})
print(repr(float(parse("capture(soft=no,resources=%s)").measure(captions).corpus)))
"""


def test_the_hash_seed_moves_nothing(meteor):
    def corpus(seed):
        command = [sys.executable, "-c", CODE % meteor]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, env=environment, text=True, capture_output=True, check=True).stdout

    assert corpus("1") == corpus("2") != ""


# FACTUAL


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A random T5 whose words are those of graphs."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("t5")
    words = ["<pad>", "</s>", "<unk>", "(", ")", ",", "is", *WORDS]
    model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(
        vocab_size=len(words), decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **sizes
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def test_a_written_graph_is_read():
    text = "( dog , is , red ) , ( dog , is , 2 ) , ( dog , run after , ball ) , ( dog , is , red ) , ( man , is"
    assert factual.read_graph(text) == (("ball",), ("dog",), ("dog", "red"), ("dog", "run after", "ball"))
    assert factual.read_graph("") == () and factual.read_graph("( dog ) , ( , is , red )") == (("dog",),)


def test_objects_of_a_written_graph_are_nouns_of_the_text_in_lemmas():
    sentence = (
        Word("Dogs", "NNS", "nsubj", 1, "dog"),
        Word("run", "VBP", "ROOT", 1, "run"),
        Word("red", "JJ", "", 1, "red"),
    )
    facts = [("Dogs", "red"), ("run", "red"), ("Dogs", "run", "cats"), ("dogs",)]
    assert list(normalize_facts(facts, [sentence])) == [("dog", "red"), ("dog",)]


def test_a_factual_model_parses_by_beam_search(t5):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    texts = ["a red dog", "the big man and a ball run"]
    with using(Runtime(device="cpu")):
        parser = factual.load_factual(str(t5))
        generated = parser._generate(texts)
    module = transformers.T5ForConditionalGeneration.from_pretrained(t5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(t5)
    for text, ours in zip(texts, generated, strict=True):  # one at a time, without padding
        ids = torch.tensor([tokenizer(f"Generate Scene Graph: {text}")["input_ids"]])
        theirs = module.generate(ids, num_beams=5, max_length=128, early_stopping=True)
        assert ours == tokenizer.decode(theirs[0], skip_special_tokens=True)


def test_capture_scores_with_a_factual_model(t5, meteor, monkeypatch):
    written = {"a red dog.": "( dog , is , red )", "Men play ball.": "( Men , play , ball )", "a hound.": "( hound )"}

    def generate(self, sentences):
        return [written[sentence] for sentence in sentences]

    monkeypatch.setattr(factual.Factual, "_generate", generate)
    captions = CaptionSet.of({"1": "a red dog. Men play ball."}, {"1": ["a red dog. Men play ball.", "a hound."]})
    with using(Runtime(device="cpu", cache=False)):
        measured = parse(f"capture(parser={t5},soft=no,resources={meteor})").measure(captions)
    # Equal to the first reference in all three kinds; of the second: objects 1/3 and 1, so F = 1/2.
    assert measured.corpus == pytest.approx((1 + 0.5 * 0.5 / 1.2) / 2)
    assert f"|parser:{t5.name}#" in str(measured.signature)


def test_a_factual_model_that_is_not_there_is_said(monkeypatch, tmp_path):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    from captious.models import hub

    def refuse(repository, patterns, complete, what):
        raise hub.Unreachable(f"{what}: not on this machine, and the hub cannot be reached")

    monkeypatch.setattr(hub, "fetch", refuse)
    with pytest.raises(InputError, match=r"flan-t5-base-VG-factual-sg.*hub cannot be reached.*parser=en_core_web_sm"):
        factual.load_factual(factual.PUBLISHED)


def test_a_folder_that_is_no_t5_is_refused(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="cannot be loaded as AutoModelForSeq2SeqLM"):
        factual.load_factual(str(tmp_path))
