"""Object vocabularies: CHAIR's five steps by hand, its word list, and vocabularies of one's own."""

import gzip
import json

import pytest

from captious.errors import InputError
from captious.syntax.objects import ObjectFinder, open_vocabulary

ORIGINAL = ObjectFinder(open_vocabulary())
REPAIRED = ObjectFinder(open_vocabulary("coco-repaired"))


def named(text, finder=ORIGINAL):
    return [mention.category for mention in finder.find([text])[0].mentions]


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("A man and a woman ride two horses.", ["person", "person", "horse"]),  # repetitions and order are kept
        ("A horse-drawn carriage", []),  # hyphenated words stay whole
        ("two hot dogs and a dog", ["hot dog", "dog"]),
        ("He stands at home plate on a train track.", []),  # phrases that only hide their parts
        ("a baby elephant, an adult bear, a passenger train", ["elephant", "bear", "train"]),
        ("a glass of wine; a wine glass", ["wine glass"]),  # singularize makes glas of glass, which the list knows
        ("a toilet with its seat up", ["toilet"]),  # a toilet's seat is no chair
        ("a toilet. Later, a seat", ["toilet"]),  # anywhere in the caption
        ("a toilet seat and a seat", ["toilet"]),
        ("a bus and buses", ["bus"]),  # only the plural is found: bus becomes bu
        ("a motor bike", []),  # the original has it with a space before it
        ("an iPhone and a cheesecake", []),
        ("a stove top oven", ["oven", "oven"]),  # three words are never joined
        ("the ties of his bow", ["tie"]),  # ties becomes ty
        ("A TV on a Desk", ["tv", "dining table"]),
        ("", []),
    ],
)
def test_what_the_original_finds(text, objects):
    assert named(text) == objects


def test_the_repaired_list_finds_what_the_original_loses():
    text = "a bus, a motor bike, an iPhone, a cheesecake, a stove top oven, tennis rackets and ties"
    assert named(text) == ["oven", "oven", "tennis racket"]
    assert named(text, REPAIRED) == ["bus", "motorcycle", "cell phone", "cake", "oven", "tennis racket"]


def test_a_mention_has_its_place_in_the_text():
    text = "A man sits. Two Hot Dogs lie on a plate."
    (objects,) = ORIGINAL.find([text])
    assert [(text[one.start : one.stop], one.sentence) for one in objects.mentions] == [("man", 0), ("Hot Dogs", 1)]
    assert objects.tokens == 11  # A man sits . Two hot-dogs lie on a plate .
    assert objects.categories == {"person", "hot dog"}


def test_wordnet_finds_verbs_that_are_nouns_in_the_list():
    assert named("People are seated", ObjectFinder(open_vocabulary(), "wordnet")) == ["person", "chair"]


@pytest.mark.shared_data
def test_the_words_are_those_of_the_original(shared_data):
    with gzip.open(shared_data / "chair" / "words.json.gz", "rt") as file:
        words = json.load(file)
    repaired, original = REPAIRED.vocabulary, ORIGINAL.vocabulary
    assert {word.strip().lower(): category for word, category in words["inverse"].items()} == repaired.objects
    assert list(original.categories) == words["categories"]
    lost = {word for word in words["inverse"] if word not in original.objects}
    assert lost == {" motor bike", " cheesecake", "iPhone", "stove top oven"}
    meant = {phrase: "bow tie" if phrase == "bow tie" else word for phrase, word in words["double"].items()}
    assert original.phrases == {phrase: word for phrase, word in meant.items() if phrase != "stove top oven"}


@pytest.mark.shared_data
def test_the_two_stored_examples_word_by_word(shared_data):
    with gzip.open(shared_data / "chair" / "standalone_example.json.gz", "rt") as file:
        examples = json.load(file)["sentences"]
    for example in examples:
        (objects,) = ORIGINAL.find([example["caption"]])
        assert [one.category for one in objects.mentions] == example["mscoco_generated_words"]
        tokens = [token.lower() for token in _tokens(example["caption"])]
        (lemmas,) = ORIGINAL.lemmatize([tokens], [example["caption"]])
        assert [word for word, _, _ in ORIGINAL.vocabulary.join_phrases(lemmas)] == example["words"]


def _tokens(text):
    from captious.syntax.sentences import split_sentences

    return [token for sentence in split_sentences(text) for token in sentence.tokens]


def test_a_vocabulary_of_lines(tmp_path):
    path = tmp_path / "tools.txt"
    path.write_text("# my objects\nhammer, Claw Hammer\n\nsaw , hand saw,hacksaw\npliers\n")
    vocabulary = open_vocabulary(str(path))
    assert vocabulary.categories == ("hammer", "saw", "pliers") and vocabulary.name == "tools.txt"
    text = "Two claw hammers, hand saws and pliers; he saw a tool."
    assert named(text, ObjectFinder(vocabulary)) == ["hammer", "saw", "pliers", "saw"]


def test_a_vocabulary_of_json(tmp_path):
    whole = {"objects": {"glass": ["wine glass"]}, "phrases": {"glass door": "door"}, "hidden": {}}
    (tmp_path / "whole.json").write_text(json.dumps(whole))
    (tmp_path / "flat.json").write_text(json.dumps({"glass": "glass", "wine glass": "glass"}))
    text = "wine glasses behind a glass door"
    assert named(text, ObjectFinder(open_vocabulary(str(tmp_path / "whole.json")))) == ["glass"]
    assert named(text, ObjectFinder(open_vocabulary(str(tmp_path / "flat.json")))) == ["glass", "glass"]


def test_a_phrase_of_three_words_is_found_before_one_of_two(tmp_path):
    (tmp_path / "words.txt").write_text("oven, stove top oven\nstove, stove top\n")
    finder = ObjectFinder(open_vocabulary(str(tmp_path / "words.txt")))
    assert named("a stove top oven and a stove top", finder) == ["oven", "stove"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.txt", "cat, feline\nlion, feline", "'feline' is a word of 'cat' and of 'lion', expected each word once"),
        ("a.txt", "cat, feline, feline", "'feline' is a word of 'cat' twice, expected each word once"),
        ("a.txt", "cat, feline\nfeline, cat", "'feline' is a word of 'cat' and of 'feline'"),
        ("a.txt", "cat\ncat, tom", "line 2: 'cat' begins an earlier line too"),
        ("a.txt", "cat,,tom", "line 1: an empty word"),
        ("a.txt", "# nothing\n", "no objects"),
        ("a.json", '{"cat": "feline", "feline": "cat"}', "a cycle, cat → feline → cat; expected"),
        ("a.json", '{"tom": "cat", "cat": "feline"}', "'tom' stands for 'cat', which stands for 'feline'"),
        ("a.json", '{"tom": "cat", "tom": "dog"}', "'tom' occurs twice"),
        ("a.json", '{"objects": {"cat": "tom"}}', "objects: 'cat' is 'tom', expected"),
        ("a.json", '{"objects": {"cat": []}, "phrases": {"tom": "cat"}}', "the phrase 'tom' is one word"),
        ("a.json", '{"objects": {"cat": []}, "hidden": {"dog": "cat"}}', "hidden has 'dog', which is not a word"),
        ("a.json", '{"objects": ', "is not a vocabulary"),
    ],
)
def test_a_vocabulary_that_says_two_things_is_refused(tmp_path, name, text, complaint):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        open_vocabulary(str(tmp_path / name))
    assert str(error.value).startswith(f"{tmp_path / name}: ") and complaint in str(error.value)


def test_unknown_names_have_the_nearest():
    with pytest.raises(InputError, match="no such file, expected coco, coco-repaired or a file; did you mean 'coco'"):
        open_vocabulary("cocoo")
    with pytest.raises(InputError, match=r"'sofaa' is not an object of the vocabulary coco.*did you mean 'sofa'"):
        open_vocabulary().category("sofaa")
