"""The staged grammars: by hand, and tree for tree against NLTK's RegexpParser."""

import random

import pytest

from captious.errors import InputError
from captious.syntax.chunking import build_tree, format_chunks, outline

AS_NLTK_READS_THEM = {
    "code": """
        NP: {<DT>?<JJ>*<NN|NNS|NNP|NNPS>+}
        VP: {<VB.*><NP|PP|CLAUSE>*}
        PP: {<IN><NP>}
        CLAUSE: {<NP><VP>}
        CONJ: {<CC><NP|VP|PP|CLAUSE>+}
    """,
    "paper": """
        NP: {<DT>?<JJ.*>*<NN.*>+}
        VP: {<VB.*><NP|PP|CLAUSE>+$}
        PP: {<IN><NP>}
        CLAUSE: {<NP><VP>}
        CONJ: {<CC><NP|VP|PP|CLAUSE>}
    """,
}
TAGS = [
    *(3 * ["DT", "JJ", "IN", "NN"]),
    "NN",
    "JJR",
    "JJS",
    "NNS",
    "NNP",
    "NNPS",
    "VB",
    "VBZ",
    "VBG",
    "VBN",
    "CC",
    "CC",
]
TAGS += ["RB", ",", ".", "TO", "PRP", "RP", "CD", "PRP$", "''"]


@pytest.mark.parametrize("grammar", ["code", "paper"])
def test_trees_are_those_of_nltk(grammar):
    nltk = pytest.importorskip("nltk")
    parser = nltk.RegexpParser(AS_NLTK_READS_THEM[grammar])
    draw = random.Random(7)

    def nested(parsed):
        return tuple((node.label(), nested(node)) if isinstance(node, nltk.Tree) else int(node[0]) for node in parsed)

    for _ in range(3000):
        tags = draw.choices(TAGS, k=draw.randint(1, 24))
        expected = nested(parser.parse([(str(number), tag) for number, tag in enumerate(tags)]))
        assert build_tree(tags, grammar) == expected, tags


def test_a_verb_takes_noun_phrases_only_for_the_others_are_not_there_yet():
    words = ["A", "man", "rides", "a", "horse", "on", "sand"]
    tags = ["DT", "NN", "VBZ", "DT", "NN", "IN", "NN"]
    assert format_chunks(words, tags) == "[CLAUSE [NP A man] [VP rides [NP a horse]]] [PP on [NP sand]]"


def test_the_papers_verb_phrase_needs_the_end_of_the_sentence():
    tags = ["DT", "NN", "VBZ", "DT", "NN"]
    assert outline([tags], "paper") == ["c____"]
    assert outline([[*tags, "."]], "paper") == ["n_Vn_o"]
    assert outline([[*tags, "."]], "code") == ["c____o"]


def test_the_papers_noun_phrase_takes_comparatives_and_its_conjunction_one_phrase():
    assert outline([["DT", "JJR", "NN"]], "code") == ["Djn"]
    assert outline([["DT", "JJR", "NN"]], "paper") == ["n__"]
    tags = ["CC", "NN", "IN", "NN"]
    assert outline([tags], "code") == ["k___"]
    assert outline([tags], "paper") == ["k_p_"]


def test_sentences_do_not_run_into_each_other():
    assert outline([["DT"], ["NN"], [], ["VBZ"], ["NN"]]) == ["D", "n", "", "v", "n"]
    assert outline([]) == []
    assert outline([[]]) == [""]


def test_an_unknown_grammar_is_named():
    with pytest.raises(InputError, match="unknown grammar 'coed', expected code or paper; did you mean 'code'"):
        outline([["NN"]], "coed")
