"""Writes the table of WordNet lemmas that `captious.syntax.lemmas` reads.

    python -m lab.lemmas --wordnet /usr/share/wordnet --words amber-words.txt

WordNet 3.0 is Debian's `wordnet-base`. The table has every form that inflects a word of CHAIR's vocabulary, or is one,
and whose lemma is another word; `--words` adds words of files, one per line (AMBER's), as nouns. A form that WordNet's
rules cannot lead to one of these words changes no object, whatever its lemma.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from captious.syntax.lemmas import DETACHMENTS, WORDNET_LEMMAS
from captious.syntax.objects import open_vocabulary

FILES = {"n": "noun", "v": "verb", "a": "adj"}
NOTICE = (
    "Lemmas of WordNet 3.0, Copyright 2006 by Princeton University. All rights reserved. THIS SOFTWARE AND DATABASE IS "
    'PROVIDED "AS IS" AND PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES, EXPRESS OR IMPLIED. BY WAY OF '
    "EXAMPLE, BUT NOT LIMITATION, PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES OF MERCHANT-ABILITY OR "
    "FITNESS FOR ANY PARTICULAR PURPOSE OR THAT THE USE OF THE LICENSED SOFTWARE, DATABASE OR DOCUMENTATION WILL NOT "
    "INFRINGE ANY THIRD PARTY PATENTS, COPYRIGHTS, TRADEMARKS OR OTHER RIGHTS. Permission to use, copy, modify and "
    "distribute this software and database and its documentation for any purpose and without fee or royalty is granted "
    "under the WordNet license: https://wordnet.princeton.edu/license-and-commercial-use"
)


class WordNet:
    """The lemmas of a folder of WordNet 3.0, and its exceptions."""

    def __init__(self, folder: Path) -> None:
        self.lemmas = {part: set(_first_words(folder / f"index.{name}")) for part, name in FILES.items()}
        self.exceptions = {part: dict(_exceptions(folder / f"{name}.exc")) for part, name in FILES.items()}

    def lemma(self, form: str, part: str) -> str:
        """The shortest base of a form that is in WordNet, as NLTK's ``WordNetLemmatizer`` chooses it."""
        known = self.lemmas[part]
        if form in self.exceptions[part]:
            bases = [form, *self.exceptions[part][form]]
            return min((base for base in bases if base in known), key=len, default=form)
        reduced = list(_reduced([form], part))
        bases = [form, *reduced]
        while bases:
            if found := [base for base in bases if base in known]:
                return min(found, key=len)
            reduced = list(_reduced(reduced, part))
            bases = reduced
        return form

    def forms(self, word: str, part: str) -> set[str]:
        """The word, what WordNet's rules reduce to it, and its irregular forms."""
        inflected = {
            word[: len(word) - len(base)] + end for end, base in DETACHMENTS[part] if not base or word.endswith(base)
        }
        irregular = {form for form, bases in self.exceptions[part].items() if word in bases}
        return {word} | inflected | irregular


def _reduced(forms: Iterable[str], part: str) -> Iterator[str]:
    for form in forms:
        for end, base in DETACHMENTS[part]:
            if form.endswith(end):
                yield form[: -len(end)] + base


def _first_words(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            yield line.split()[0]


def _exceptions(path: Path) -> Iterator[tuple[str, list[str]]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        form, *bases = line.split()
        yield form, bases


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of WordNet 3.0")
    parser.add_argument("--words", type=Path, action="append", default=[], help="file of nouns, one per line")
    parser.add_argument("--out", type=Path, default=WORDNET_LEMMAS)
    options = parser.parse_args()
    wordnet = WordNet(options.wordnet)
    known = open_vocabulary("coco-repaired").known_words
    nouns = {word for path in options.words for word in path.read_text(encoding="utf-8").split()}
    table = {}
    for part in FILES:
        words = known | nouns if part == "n" else known
        forms = {form for word in words for form in wordnet.forms(word, part)}
        lemmas = {form: wordnet.lemma(form, part) for form in sorted(forms)}
        table[part] = {form: lemma for form, lemma in lemmas.items() if lemma != form}
    text = json.dumps({"notice": NOTICE, "lemmas": table}, indent=0, ensure_ascii=False)
    options.out.write_text(text + "\n", encoding="utf-8")
    print(f"{options.out}: {', '.join(f'{len(lemmas):,} {FILES[part]} forms' for part, lemmas in table.items())}")


if __name__ == "__main__":
    main()
