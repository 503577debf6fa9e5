"""Scene graphs of captions as tuples: objects, attributes of objects, and relations between them.

The rules are those of SPICE's parser (Schuster et al. 2015, as bundled with SPICE), which reads Universal Dependencies
with collapsed prepositions and propagated conjuncts. A parse of spaCy is first converted to that form.

The order of the tuples is that of the rules; merging of tuples depends on it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from captious.syntax.parsing import Parse

# (object,), (object, attribute) or (subject, relation, object), in lemmas.
Fact = tuple[str, ...]

_TWO_WORDS = """
across from, along with, alongside of, apart from, as for, as from, as of, as per, as to, aside from, away from, based
on, close by, close to, contrary to, compared to, compared with, except for, exclusive of, far from, followed by,
inside of, irrespective of, next to, near to, off of, out of, outside of, owing to, preliminary to, preparatory to,
previous to, pursuant to, subsequent to, regardless of, thanks to, together with, such as, due to, because of, instead
of, prior to, according to
"""
_THREE_WORDS = """
by means of, in accordance with, in addition to, in case of, in front of, in lieu of, in place of, in spite of,
on account of, on behalf of, on top of, with regard to, with respect to
"""
TWO_WORDS = frozenset(" ".join(one.split()) for one in _TWO_WORDS.split(","))
# Prepositions of several words.
THREE_WORDS = frozenset(" ".join(one.split()) for one in _THREE_WORDS.split(","))

_AFTER_ARTICLE = """
lot assortment number couple bunch handful litany sheaf slew dozen series variety multitude wad clutch wave mountain
array spate string ton range plethora heap sort form kind type version bit pair triple total
"""
_ALONE = """
lots many several plenty tons dozens multitudes mountains loads pairs tens hundreds thousands millions billions
trillions
"""
_BEFORE_ARTICLE = """
some all both neither everyone nobody one two three four five six seven eight nine ten hundred thousand million
billion trillion
"""
AFTER_ARTICLE = frozenset(_AFTER_ARTICLE.split())
ALONE = frozenset(_ALONE.split())
# Words that quantify the noun after *of*: after *a*, without an article, and before a determiner.
BEFORE_ARTICLE = frozenset(_BEFORE_ARTICLE.split())

_SINGULAR = """
i me myself mine my yourself he him himself his she her herself hers it itself its one oneself
"""
_PLURAL = """
jeans pants shorts trousers tights leggings overalls pajamas scissors clothes goggles binoculars slacks headquarters
news people
"""
# Pronouns that refer to singular nouns only.
SINGULAR_PRONOUNS = frozenset(_SINGULAR.split())
# Nouns that are their own lemma.
PLURAL_ONLY = frozenset(_PLURAL.split())
# Wrong lemmas of spaCy that are frequent in captions, corrected.
LEMMAS = {"rid": "ride"}


def facts(parses: Iterable[Parse], legacy_fragments: bool = False) -> tuple[Fact, ...]:
    """Extract the tuples of a caption, without repetitions, from the parses of its sentences.

    ``legacy_fragments`` omits what the original's parser misses in lower-case fragments without a period, such as
    *a man riding a horse*: relations of an -ing form after the singular noun that is the root.
    """
    tuples = (fact for parse in parses for fact in _Graph.of(parse).list_facts(legacy_fragments))
    return tuple(dict.fromkeys(tuples))


@dataclass
class _Graph:
    """The dependency graph of a sentence: labelled edges between token indices."""

    words: list[str]
    tags: list[str]
    lemmas: list[str]
    dependents: dict[int, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    roots: list[int] = field(default_factory=list)
    fragment: bool = False
    """Whether it begins in lower case and does not end in a period."""
    case: dict[int, str] = field(default_factory=dict)
    """The preposition of a noun that replaces *be*: *is on the couch*."""

    @classmethod
    def of(cls, parse: Parse) -> _Graph:
        """Build the graph of a parse: collapse prepositions, propagate conjuncts, replace quantifiers and pronouns."""
        parse = _repair_root_verb(parse)
        tags = [_get_tag(parse, index) for index in range(len(parse))]
        lemmas = [get_lemma(word.text, tag, word.lemma) for word, tag in zip(parse, tags, strict=True)]
        fragment = bool(parse) and parse[0].text.islower() and parse[-1].tag != "."
        graph = cls([word.text.lower() for word in parse], tags, lemmas, fragment=fragment)
        _Conversion(parse, graph).run()
        graph._replace_quantifiers()
        graph._replace_pronouns()
        return graph

    # Queries of the rules.

    def is_noun(self, index: int) -> bool:
        return self.tags[index].startswith("NN")

    def is_plural(self, index: int) -> bool:
        return self.tags[index] in ("NNS", "NNPS")

    def get_children(self, index: int, *labels: str) -> list[int]:
        return [child for label, child in self.dependents.get(index, ()) if label in labels]

    def find_objects(self, index: int) -> Iterator[tuple[str, int]]:
        """Yield the nouns that are objects of a predicate or follow its prepositions, each with the preposition."""
        for label, child in self.dependents.get(index, ()):
            if self.is_noun(child):
                if label in ("dobj", "iobj"):
                    yield "", child
                elif label.startswith("nmod:"):
                    yield label[5:] if label not in ("nmod:poss", "nmod:agent") else "", child

    def find_subjects(self, index: int) -> list[int]:
        return [child for child in self.get_children(index, "nsubj") if self.is_noun(child)]

    def format_predicate(self, index: int) -> str:
        """Return the lemma with its particle; an empty text for *be*."""
        lemma = "" if self.lemmas[index] == "be" else self.lemmas[index]
        particle = next((self.words[child] for child in self.get_children(index, "prt")), "")
        return f"{lemma} {particle}".strip()

    # Rewriting.

    def find_incoming(self, index: int) -> list[tuple[int, str]]:
        return [(head, label) for head, edges in self.dependents.items() for label, child in edges if child == index]

    def add_edge(self, head: int, label: str, child: int) -> None:
        if (label, child) not in self.dependents[head]:
            self.dependents[head].append((label, child))

    def move_edges(self, index: int, target: int) -> None:
        """Redirect the incoming edges of a token to another."""
        for head, label in self.find_incoming(index):
            self.dependents[head].remove((label, index))
            if head != target:
                self.add_edge(head, label, target)
        self.roots = [target if root == index else root for root in self.roots]

    def _replace_quantifiers(self) -> None:
        """Replace quantifying nouns: in *a couple of birds*, *birds* takes the place of *couple*, which becomes its
        count.
        """
        for index, word in enumerate(self.words):
            if self.words[index + 1 : index + 2] != ["of"]:
                continue
            inner = next((child for child in self.get_children(index, "nmod:of") if child > index), None)
            if inner is None or not (self.is_noun(inner) or self.tags[inner].startswith("PRP")):
                continue
            left = sorted(child for _, child in self.dependents.get(index, ()) if child < index)
            articles = [child for child in left if self.words[child] in ("a", "an")]
            following = self.tags[index + 2] if index + 2 < len(self.tags) else ""
            before_article = following in ("DT", "PRP", "PRP$", "PDT", "WDT")
            alone = word in ALONE or (word[:-1].isdigit() and word.endswith("s"))
            if word in AFTER_ARTICLE and articles:
                first = articles[0]
            elif alone or (before_article and (word in BEFORE_ARTICLE or word.isdigit())):
                first = left[0] if left else index
            else:
                continue
            self.dependents[index].remove(("nmod:of", inner))
            self.move_edges(index, inner)
            self.add_edge(inner, "qmod", first)

    def _replace_pronouns(self) -> None:
        """Replace a pronoun by the first noun of a breadth-first search from the root, if that noun precedes it."""
        for index, tag in enumerate(self.tags):
            if index and tag in ("PRP", "PRP$") and index not in self.roots and self.find_incoming(index):
                antecedent = self._find_first_noun(singular=self.words[index] in SINGULAR_PRONOUNS)
                if antecedent is not None and antecedent < index:
                    for head, label in self.find_incoming(index):
                        self.dependents[head].remove((label, index))
                        self.add_edge(head, label, antecedent)

    def _find_first_noun(self, singular: bool) -> int | None:
        queue, visited = deque(self.roots), set(self.roots)
        while queue:
            index = queue.popleft()
            if self.is_noun(index) and not (singular and self.is_plural(index)):
                return index
            for _, child in sorted(self.dependents.get(index, ()), key=lambda edge: edge[1]):
                if child not in visited:
                    visited.add(child)
                    queue.append(child)
        return None

    # The rules, in their order.

    def list_facts(self, legacy_fragments: bool) -> Iterator[Fact]:
        """Yield the tuples of the sentence."""
        lemma, indices = self.lemmas, range(len(self.words))
        for predicate in indices:
            yield from self._list_subject_relations(predicate)
        for noun in indices:
            yield from self._list_participle_relations(noun, legacy_fragments)
        for predicate in indices:
            yield from self._list_attributes(predicate)
        for head in indices:
            yield from ((lemma[head], lemma[child]) for child in self.get_children(head, "amod"))
        for adjective in indices:
            if self.tags[adjective].startswith("J"):
                yield from ((lemma[subject], lemma[adjective]) for subject in self.get_children(adjective, "nsubj"))
        for head in indices:
            yield from self._list_noun_relations(head)
        for verb in indices:
            for agent in self.get_children(verb, "nmod:agent"):
                for subject in self.get_children(verb, "nsubjpass"):
                    if self.is_noun(agent) and self.is_noun(subject):
                        yield lemma[agent], self.format_predicate(verb), lemma[subject]
        for noun in indices:
            if self.is_plural(noun) and (count := self._find_count(noun)) is not None:
                yield lemma[noun], lemma[count]
        compound = set()
        for head in indices:
            for child in self.get_children(head, "compound"):
                if self.is_noun(head) and self.is_noun(child):
                    compound |= {head, child}
                    yield lemma[head], lemma[child]
        yield from ((lemma[noun],) for noun in indices if self.is_noun(noun) and noun not in compound)

    def _list_subject_relations(self, predicate: int) -> Iterator[Fact]:
        if self.get_children(predicate, "cop"):
            return
        for subject in self.find_subjects(predicate):
            for preposition, target in self.find_objects(predicate):
                yield self._make_relation(subject, f"{self.format_predicate(predicate)} {preposition}", target)

    def _list_participle_relations(self, noun: int, legacy_fragments: bool) -> Iterator[Fact]:
        missed = legacy_fragments and self.fragment and noun in self.roots and not self.is_plural(noun)
        for verb in self.get_children(noun, "acl"):
            if self.tags[verb].startswith("V") and not (missed and self.tags[verb] == "VBG"):
                for preposition, target in self.find_objects(verb):
                    yield self._make_relation(noun, f"{self.format_predicate(verb)} {preposition}", target)

    def _list_attributes(self, predicate: int) -> Iterator[Fact]:
        copula = bool(self.get_children(predicate, "cop"))
        if not copula and any(True for _ in self.find_objects(predicate)):
            return
        for subject in self.find_subjects(predicate):
            if predicate in self.case:
                yield self._make_relation(subject, self.case[predicate], predicate)
            elif self.lemmas[predicate] != "be":
                yield self.lemmas[subject], self.lemmas[predicate]

    def _list_noun_relations(self, head: int) -> Iterator[Fact]:
        if not self.is_noun(head):
            return
        for label, child in self.dependents.get(head, ()):
            if label == "nmod:poss":
                if self.is_noun(child):
                    yield self._make_relation(child, "have", head)
            elif label.startswith("nmod:") and label != "nmod:agent":
                yield self._make_relation(head, label[5:], child)

    def _find_count(self, noun: int) -> int | None:
        numbers = sorted(self.get_children(noun, "nummod"))
        if numbers and numbers[0] < noun:
            return numbers[0]
        return next(iter(self.get_children(noun, "qmod")), None)

    def _make_relation(self, subject: int, label: str, target: int) -> Fact:
        label = label.strip()
        return self.lemmas[subject], label.removeprefix("be ") if label != "be" else label, self.lemmas[target]


class _Conversion:
    """The conversion of spaCy's tree to the edges of a graph."""

    def __init__(self, parse: Parse, graph: _Graph) -> None:
        self.parse, self.graph = parse, graph
        self.below: dict[int, list[int]] = defaultdict(list)
        for index, word in enumerate(parse):
            if word.head != index:
                self.below[word.head].append(index)
        self.predicate_of: dict[int, int] = {}  # the predicate that replaces a form of *be*
        self.used: set[int] = set()  # tokens whose own edge is not added: prepositions and promoted predicates

    def run(self) -> None:
        """Fill the graph."""
        for index in range(len(self.parse)):
            self._promote(index)
        for index, word in enumerate(self.parse):
            if word.head == index:
                self.graph.roots.append(self._resolve(index))
            elif index not in self.used and word.dependency != "conj":
                self._add_edge(index)
        self.graph.roots = list(dict.fromkeys(self.graph.roots))
        for index, word in enumerate(self.parse):
            if word.dependency == "conj":
                self._add_conjunct(self._resolve(index), self._resolve(word.head))

    def _resolve(self, index: int) -> int:
        """Return the predicate that replaces a form of *be*; any other token is returned as it is."""
        return self.predicate_of.get(index, index)

    def _find_dependents(self, index: int, *labels: str) -> list[int]:
        return [child for child in self.below[index] if self.parse[child].dependency in labels]

    def _get_text(self, index: int) -> str:
        return self.graph.words[index]

    def _promote(self, index: int) -> None:
        """Promote the predicate of *be* to its place: *is red*, *is a chef*, *is on the couch*."""
        word = self.parse[index]
        if word.lemma != "be" or not self.graph.tags[index].startswith("V") or word.dependency in ("aux", "auxpass"):
            return
        if self._find_dependents(index, "expl"):
            return
        for child in self._find_dependents(index, "acomp"):
            for preposition in self._find_dependents(child, "prep"):
                phrase = f"{self._get_text(child)} {self._get_text(preposition)}"
                if phrase in TWO_WORDS and (targets := self._find_dependents(preposition, "pobj")):
                    self._replace_be(index, targets[0], phrase, (child, preposition))
                    return
            self._replace_be(index, child, "", ())
            return
        for child in self._find_dependents(index, "attr"):
            self._replace_be(index, child, "", ())
            return
        for preposition in self._find_dependents(index, "prep"):
            phrase, target, path = self._read_phrase(preposition)
            if preposition > index and target is not None:
                self._replace_be(index, target, phrase, path)
                return

    def _replace_be(self, be: int, predicate: int, case: str, path: tuple[int, ...]) -> None:
        self.predicate_of[be] = predicate
        self.used |= {predicate, *path}
        self.graph.add_edge(predicate, "cop", be)
        if case:
            self.graph.case[predicate] = case

    def _read_phrase(self, preposition: int) -> tuple[str, int | None, tuple[int, ...]]:
        """Return a preposition, perhaps of several words, its object, and the tokens of the phrase."""
        text = self._get_text(preposition)
        for inner in self._find_dependents(preposition, "prep", "pcomp"):
            joined = f"{text} {self._get_text(inner)}"
            if targets := self._find_dependents(inner, "pobj"):
                return joined if joined in TWO_WORDS else self._get_text(inner), targets[0], (preposition, inner)
        targets = self._find_dependents(preposition, "pobj")
        if not targets:
            return text, None, (preposition,)
        middle = targets[0]
        for inner in self._find_dependents(middle, "prep"):
            joined = f"{text} {self._get_text(middle)} {self._get_text(inner)}"
            further = self._find_dependents(inner, "pobj")
            if joined in THREE_WORDS and (preposition, inner) == (middle - 1, middle + 1) and further:
                return joined, further[0], (preposition, middle, inner)
        before = [child for child in self.below[preposition] if child == preposition - 1]
        if before and f"{self._get_text(before[0])} {text}" in TWO_WORDS:
            return f"{self._get_text(before[0])} {text}", middle, (preposition, before[0])
        return text, middle, (preposition,)

    def _add_edge(self, index: int) -> None:
        word, graph = self.parse[index], self.graph
        head, label = self._resolve(word.head), word.dependency
        if label == "prep" or (label == "dative" and graph.tags[index] in ("IN", "TO")):
            self._add_preposition(index)
        elif label == "agent":
            passive = bool(self._find_dependents(word.head, "auxpass"))
            for target in self._find_dependents(index, "pobj"):
                graph.add_edge(head, "nmod:agent" if passive else "nmod:by", target)
        elif label == "compound":
            while self.parse[head].dependency == "compound" and self.parse[head].head != head:
                head = self.parse[head].head
            graph.add_edge(head, label, index)
        elif label == "poss":
            graph.add_edge(head, "nmod:poss", self._resolve(index))
        elif label == "dative":
            graph.add_edge(head, "iobj", index)
        elif label == "relcl":
            graph.add_edge(head, "acl:relcl", self._resolve(index))
        elif label == "attr" and self._find_dependents(word.head, "expl"):
            graph.add_edge(head, "nsubj", index)
        elif label != "pobj":
            graph.add_edge(head, label, self._resolve(index))

    def _add_preposition(self, index: int) -> None:
        head = self.parse[index].head
        phrase, target, path = self._read_phrase(index)
        if target is None:
            return
        # "parked next to the house": the phrase depends on the verb, not on "next".
        above = self.parse[head]
        joined = f"{self._get_text(head)} {phrase}"
        if joined in TWO_WORDS and head == index - 1 and above.dependency in ("advmod", "amod", "prt", "acomp"):
            phrase, head = joined, above.head
            self.used.add(path[0])
        self.used |= {*path, target}
        self.graph.add_edge(self._resolve(head), f"nmod:{phrase}", target)

    def _add_conjunct(self, index: int, first: int) -> None:
        """Copy the incoming edges of the first conjunct to another, and its subjects to a predicate without one."""
        graph = self.graph
        for head, label in graph.find_incoming(first):
            if head != index and label not in ("cop", "case"):
                graph.add_edge(head, label, index)
        tag = graph.tags[index]
        if tag.startswith(("VB", "JJ")) and not graph.get_children(index, "nsubj", "nsubjpass"):
            passive = bool(graph.get_children(index, "auxpass"))
            for label, subject in list(graph.dependents.get(first, ())):
                if label in ("nsubj", "nsubjpass"):
                    active = tag in ("VB", "VBZ", "VBP") or tag.startswith("JJ")
                    label = "nsubjpass" if passive else "nsubj" if active else label
                    graph.add_edge(index, label, subject)


def _repair_root_verb(parse: Parse) -> Parse:
    """Repair a parse such as *A red bus drives down the street* with *drives* as a plural noun: it is the verb.

    No plural follows *a*, so the noun before it is the subject, and the dependents before that noun belong to it.
    """
    for index, word in enumerate(parse):
        if word.tag != "NNS" or word.dependency != "ROOT" or not index:
            continue
        below = [number for number, other in enumerate(parse) if other.head == index and number < index]
        if parse[index - 1].dependency == "compound" and any(
            parse[number].text.lower() in ("a", "an") for number in below
        ):
            words = list(parse)
            words[index] = word._replace(tag="VBZ")
            for number in below:
                words[number] = words[number]._replace(head=index - 1)
            words[index - 1] = parse[index - 1]._replace(dependency="nsubj", head=index)
            return tuple(words)
    return parse


def _get_tag(parse: Parse, index: int) -> str:
    """Return the tag of a token; a plural noun with a subject or auxiliary (*a bus drives*) is a verb."""
    tag = parse[index].tag
    if tag.startswith("NN"):
        below = {word.dependency for word in parse if word.head == index and word is not parse[index]}
        if below & {"nsubj", "aux"} and not below & {"det", "amod", "poss"}:
            return "VBZ"
    return tag


def get_lemma(text: str, tag: str, lemma: str) -> str:
    """Return the parser's lemma of a noun or verb, with a few corrections; any other word is only lower-cased."""
    word = text.lower()
    if tag.startswith(("NNP", "JJ", "RB")) or word in PLURAL_ONLY or not tag.startswith(("NN", "VB")):
        return word
    return LEMMAS.get(lemma.lower(), lemma.lower())
