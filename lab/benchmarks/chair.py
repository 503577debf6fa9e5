"""CHAIR on 20,000 captions: processor seconds of captious and of a plain implementation of the original's steps.

    PYTHONPATH=. python lab/benchmarks/chair.py

Captions are those of `../shared/data/chair`, repeated with a number behind each so that no two are equal; both read
them, find their objects and count CHAIR_S and CHAIR_I. The plain one follows the published code: NLTK's word tokenizer
on sentences, singularize for every word, and loops over the words; its words and rules are captious' own.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import time
from itertools import count, cycle, islice
from pathlib import Path

from measure import in_process, table

SHARED = Path(os.environ.get("CAPTIOUS_SHARED_DATA", "../shared/data")) / "chair"
FILES = ("opera_llava-1.5_greedy", "opera_instructblip_greedy", "pope_llava_brief", "pope_mplug_short")
NUMBER = 20_000
_ENDS = re.compile(r"""(?<=[.!?])\s+|(?<=[.!?]["')])\s+""")


def captions() -> tuple[dict[str, str], dict[str, list[str]]]:
    """Captions by id, and the objects of their images."""
    with gzip.open(SHARED / "coco2014_objects.jsonl.gz", "rt", encoding="utf-8") as file:
        truth = {row["id"]: row["instances"] + row["captions"] for row in map(json.loads, file)}
    rows = []
    for name in FILES:
        with gzip.open(SHARED / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows += [json.loads(line) for line in file]
    chosen = list(islice(zip(count(), cycle(rows)), NUMBER))
    texts = {str(number): f"{row['caption']} {number}" for number, row in chosen}
    return texts, {str(number): sorted(set(truth[row["id"]])) for number, row in chosen}


def ours(texts: dict[str, str], objects: dict[str, list[str]]) -> list[float]:
    """CHAIR_S and CHAIR_I by captious."""
    from captious import CaptionSet
    from captious.metrics.chunks import measure_all
    from captious.metrics.registry import parse_all

    whole = CaptionSet.of(texts, columns={"objects": [objects[key] for key in texts]})
    return [one.corpus for one in measure_all(whole, parse_all("chair(value=s),chair(value=i)")).values()]


def plain(texts: dict[str, str], objects: dict[str, list[str]]) -> list[float]:
    """The same by the steps of the published code, without a memo."""
    from nltk.tokenize.destructive import NLTKWordTokenizer

    from captious.syntax.lemmas import singularize
    from captious.syntax.objects import open_vocabulary

    vocabulary, tokenizer = open_vocabulary(), NLTKWordTokenizer()
    singular = singularize.__wrapped__
    captions = wrong_captions = mentions = wrong = 0
    for key, text in texts.items():
        tokens = [token for sentence in _ENDS.split(text.lower()) for token in tokenizer.tokenize(sentence)]
        words = [singular(token) for token in tokens]
        joined, index = [], 0
        while index < len(words):
            pair = " ".join(words[index : index + 2])
            joined.append(vocabulary.phrases.get(pair, words[index]))
            index += 2 if pair in vocabulary.phrases else 1
        if "toilet" in joined and "seat" in joined:
            joined = [word for word in joined if word != "seat"]
        named = [vocabulary.objects[word] for word in joined if word in vocabulary.objects]
        absent = [name for name in named if name not in objects[key]]
        captions, wrong_captions = captions + 1, wrong_captions + bool(absent)
        mentions, wrong = mentions + len(named), wrong + len(absent)
    return [wrong_captions / captions, wrong / mentions]


def main() -> None:
    """One process for each."""
    if len(sys.argv) > 1:
        texts, objects = captions()
        job = {"ours": ours, "plain": plain}[sys.argv[1]]
        job(dict(islice(texts.items(), 10)), objects)  # imports
        start = time.process_time()
        values = job(texts, objects)
        print(json.dumps({"seconds": time.process_time() - start, "values": values}))
        return
    results = {name: in_process(__file__, name) for name in ("ours", "plain")}
    rows = [["program", "processor seconds", "captions a second", "CHAIR_S", "CHAIR_I"]]
    for name, result in results.items():
        values = [f"{100 * value:.2f}" for value in result["values"]]
        rows.append([name, f"{result['seconds']:.2f}", f"{NUMBER / result['seconds']:,.0f}", *values])
    print(table(rows))
    print(f"\nratio {results['plain']['seconds'] / results['ours']['seconds']:.1f}")


if __name__ == "__main__":
    main()
