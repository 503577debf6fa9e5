"""The five kinds: what each is made of, at which rates, and what happens where it cannot be made."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captious.edits.lexicon import CaptionCorpus, Lexicon
from captious.errors import InputError
from captious.train.negative_records import describe_changes, iterate_records
from captious.train.negatives import KINDS, check_kinds, make_negatives
from captious.train.similar_images import Neighbors, SimilarImages

WORDS = [
    "dog",
    "cat",
    "horse",
    "dogs",
    "cats",
    "red",
    "big",
    "small",
    "runs",
    "sleeps",
    "jumps",
    "a",
    "the",
    "in",
    "with",
    "two",
    "quickly",
    ".",
]
CAPTIONS = st.dictionaries(
    st.text("abcxyz0", min_size=1, max_size=4),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join), min_size=1, max_size=3),
    min_size=1,
    max_size=8,
)


def plain(text):
    """Words in small letters, without punctuation: what makes two captions the same."""
    return [word.strip(".").lower() for word in text.split() if word.strip(".")]


def listed(made):
    return {(row["id"], row["caption"], row["kind"]): row for row in iterate_records(made)}


@settings(max_examples=150, deadline=None)
@given(captions=CAPTIONS, seed=st.integers(0, 5))
def test_what_holds_for_every_negative(tagger, captions, seed):
    corpus = CaptionCorpus.of(captions)
    lexicon = Lexicon.of(corpus, tagger)
    made = make_negatives(corpus, seed=seed, lexicon=lexicon)
    assert len(made) == len(corpus) * len(KINDS)
    for number, image in enumerate(made.ids):
        if made.actual[number] < 0:
            assert made.texts[number] == "" and made.source[number] == -1
            continue
        caption, negative = corpus.texts[made.caption[number]], made.texts[number]
        own = [plain(text) for text in captions[image]]
        assert plain(negative) and plain(negative) not in own
        done, kind = describe_changes(made, number), KINDS[made.actual[number]]
        words, left = Counter(caption.split()), Counter(negative.split())
        if kind in ("hard", "random"):
            assert done["from"] != image and negative in captions[done["from"]]
        elif "shuffled" in done:
            assert words == left
        elif kind == "shuffle":
            assert len(done["deleted"]) == words.total() - left.total() >= 1 and left < words
        elif kind == "substitute":
            old, new = caption.split(), negative.split()
            changed = [[a, b] for a, b in zip(old, new, strict=True) if a != b]
            assert changed == done["replaced"] and changed
            tags = tagger([[word] for pair in changed for word in pair])
            assert tags[::2] == tags[1::2] and all(tag[0][0] in "NVJ" for tag in tags)
        else:
            double, gone = done.get("doubled", []), done.get("deleted", [])
            assert double or gone
            assert left == words + Counter(double) - Counter(gone)


def test_a_caption_gets_the_same_negatives_in_any_order_and_the_same_again(pets, tagger):
    texts = {key: list(pets.texts[pets.offsets[i] : pets.offsets[i + 1]]) for i, key in enumerate(pets.ids)}
    first = make_negatives(pets, seed=3, tagger=tagger, per=2)
    turned = CaptionCorpus.of(dict(reversed(texts.items())))
    second = make_negatives(turned, tuple(reversed(KINDS)), seed=3, tagger=tagger, per=2)
    assert listed(first) == listed(second)
    assert next(iterate_records(second))["id"] == "6"
    assert listed(make_negatives(pets, seed=4, tagger=tagger)) != listed(make_negatives(pets, seed=3, tagger=tagger))
    assert (
        listed(make_negatives(pets, ("repeat",), seed=3, tagger=tagger)).items()
        <= listed(make_negatives(pets, seed=3, tagger=tagger)).items()
    )


def test_copies_of_a_kind_differ(pets, tagger):
    made = make_negatives(pets, ("random",), per=30, tagger=tagger)
    assert made.caption.tolist() == np.repeat(np.arange(12), 30).tolist()
    # Ten captions of other images, all equally likely: thirty draws that are all the same have a chance of 10**-29.
    assert len(set(made.texts[:30])) > 3


def test_a_word_with_punctuation_keeps_it_and_a_first_word_keeps_its_capital(tagger):
    corpus = CaptionCorpus.of({"1": ['Dogs, "cat".'], "2": ["cats horse"]})
    made = make_negatives(corpus, ("substitute",), per=20, tagger=tagger, seed=1)
    # Each tag has two words, so what replaces a word is known.
    assert set(made.texts[:20]) == {'Cats, "cat".', 'Dogs, "horse".', 'Cats, "horse".'}
    assert set(made.texts[20:]) == {"dogs horse", "cats cat", "dogs cat"}
    assert all(
        pair in (["Dogs", "Cats"], ["cat", "horse"])
        for n in range(20)
        for pair in describe_changes(made, n)["replaced"]
    )


def test_rates_are_the_originals(tagger):
    size = 1500
    corpus = CaptionCorpus.of(
        {f"{i}": [f"the red dog runs in a park quickly number{i}"] for i in range(size)}
        | {"x": ["a big cat sleeps", "horse horse horse horse small jumps"]}
    )
    lexicon = Lexicon.of(corpus, tagger)
    made = make_negatives(corpus, ("substitute", "shuffle", "repeat"), lexicon=lexicon)
    per_kind = {kind: [] for kind in made.kinds}
    for number in range(len(made)):
        if made.ids[number] != "x":
            per_kind[made.kinds[made.kind[number]]].append(describe_changes(made, number))

    def near(count, trials, chance):
        assert abs(count / trials - chance) < 4 * np.sqrt(chance * (1 - chance) / trials), (count / trials, chance)

    # Four content words; given at least one, each is changed with chance p / (1 - (1 - p)**4).
    replaced = Counter(old for done in per_kind["substitute"] for old, _ in done["replaced"])
    for word in ("red", "dog", "runs", "park"):
        near(replaced[word], size, 0.29 / (1 - 0.71**4))
    edited = per_kind["repeat"]
    doubled = Counter(word for done in edited for word in done.get("doubled", []))
    deleted = Counter(word for done in edited for word in done.get("deleted", []))
    for word in ("red", "dog", "runs", "park"):
        near(doubled[word] + deleted[word], size, 0.3 / (1 - 0.7**4))
    near(doubled.total(), doubled.total() + deleted.total(), 0.5)
    shuffled = [done for done in per_kind["shuffle"] if "shuffled" in done]
    near(len(shuffled), size, 0.5)
    gone = Counter(word for done in per_kind["shuffle"] for word in done.get("deleted", []))
    near(gone["quickly"], size - len(shuffled), 0.3 / (1 - 0.7**9))
    # "dog" gives way to the other nouns by how often they stand: park 1500 times, horse 4, cat 1.
    instead = Counter(new for done in per_kind["substitute"] for old, new in done["replaced"] if old == "dog")
    near(instead["park"], instead.total(), 1500 / 1505)


def test_a_word_is_replaced_with_chance_29_in_100_not_30(tagger):
    corpus = CaptionCorpus.of(
        {f"{i}": ["the red dog runs in a park"] for i in range(6000)} | {"x": ["a big cat sleeps"]}
    )
    made = make_negatives(corpus, ("substitute",), per=20, tagger=tagger)
    rows = np.flatnonzero(made.caption != len(corpus) - 1)
    share = np.diff(made.changes)[rows].sum() / (4 * len(rows))
    # 0.3889, with a standard error of 0.0007; a chance of .3 would give 0.3948.
    assert abs(share - 0.29 / (1 - 0.71**4)) < 4 * np.sqrt(0.25 / (4 * len(rows)))


def test_hard_negatives_come_from_the_three_images_most_alike_half_by_half(tagger):
    size = 400
    corpus = CaptionCorpus.of({f"{i:03}": [f"dog number{i}", f"cat number{i}"] for i in range(size)})
    step = np.arange(size)[:, None]
    words = Neighbors((step + np.array([1, 2, 3])) % size, np.ones((size, 3)))
    pictures = Neighbors((step + np.array([11, 12, 13])) % size, np.ones((size, 3)))
    made = make_negatives(corpus, ("hard",), per=10, near=SimilarImages(words, pictures), tagger=tagger)
    gap = (corpus.image[made.source] - corpus.image[made.caption]) % size
    by = np.array([describe_changes(made, number)["by"] for number in range(len(made))])
    assert set(gap[by == "cider"]) == {1, 2, 3} and set(gap[by == "image"]) == {11, 12, 13}
    assert abs((by == "image").mean() - 0.5) < 4 * np.sqrt(0.25 / len(made))
    share = np.bincount(gap)[[1, 2, 3, 11, 12, 13]] / len(made)
    assert abs(share - 1 / 6).max() < 4 * np.sqrt(5 / 36 / len(made))


def test_images_alike_by_their_vectors(pets, tagger):
    vectors = dict(zip(pets.ids, np.eye(6), strict=True)) | {"2": np.array([1.0, 0.1, 0, 0, 0, 0])}
    near = SimilarImages.of(pets, vectors)
    assert near.pictures.index[0, 0] == 1 and near.pictures.index[1, 0] == 0
    with pytest.raises(InputError, match="5 rows of features for 6 images"):
        SimilarImages.of(pets, np.eye(5))
    with pytest.raises(InputError, match="no image has a vector among the 1 given"):
        SimilarImages.of(pets, {"nobody": np.ones(3)})


def test_what_cannot_be_made_falls_back_and_is_counted(tagger):
    # "1" has no content word, "2" one word only, "3" none at all.
    corpus = CaptionCorpus.of({"1": ["quickly and with"], "2": ["dog"], "3": [""], "4": ["a cat sleeps"]})
    made = make_negatives(corpus, ("substitute", "shuffle", "repeat"), tagger=tagger)
    assert made.counts() == {
        "substitute": {"substitute": 2, "shuffle": 1, "random": 1},
        "shuffle": {"shuffle": 2, "random": 2},
        "repeat": {"repeat": 2, "shuffle": 1, "random": 1},
    }
    found = listed(made)
    assert found["2", "dog", "repeat"]["negative"] == "dog dog"
    assert found["2", "dog", "substitute"]["negative"] == "cat"
    assert found["1", "quickly and with", "repeat"]["fallback"] == "shuffle"
    assert found["3", "", "shuffle"]["fallback"] == "random" and found["3", "", "shuffle"]["negative"]
    assert "" not in made.texts


def test_a_single_image_has_only_what_can_be_made_from_its_captions(tagger):
    corpus = CaptionCorpus.of({"1": ["quickly and with", "quickly"]})
    made = make_negatives(corpus, ("hard", "random"), tagger=tagger)
    assert made.counts() == {
        "hard": {"hard": 0, "shuffle": 1, "none": 1},
        "random": {"random": 0, "shuffle": 1, "none": 1},
    }
    assert len(list(iterate_records(made))) == 2 and made.texts[2:] == ["", ""]


def test_a_corpus_too_small_to_be_alike_falls_back_to_random(tagger):
    # Two images: every n-gram they share is in all images, so that idf makes it weightless.
    made = make_negatives(CaptionCorpus.of({"1": ["a dog runs"], "2": ["a dog sleeps"]}), ("hard",), tagger=tagger)
    assert made.counts() == {"hard": {"hard": 0, "random": 2}}


def test_a_deleted_full_stop_or_a_caption_in_other_case_is_no_negative(tagger):
    corpus = CaptionCorpus.of({"1": ["dog ."], "2": ["Dog", "a red cat"], "3": ["dog", "DOG."]})
    made = make_negatives(corpus, ("shuffle", "random"), per=20, tagger=tagger)
    for number, image in enumerate(made.ids):
        if image in "13":
            assert plain(made.texts[number]) in (["a", "red", "cat"],)


def test_a_made_caption_is_never_another_of_the_image(tagger):
    corpus = CaptionCorpus.of({"1": ["red dog", "dog", "red", "dog red", "cat dog"], "2": ["a cat"]})
    for kind in ("shuffle", "repeat", "substitute"):
        made = make_negatives(corpus, (kind,), per=50, tagger=tagger)
        own = [["red", "dog"], ["dog"], ["red"], ["dog", "red"], ["cat", "dog"]]
        assert not any(plain(text) in own for text in made.texts[:250])


def test_legacy_counts_a_word_replaced_by_itself(tagger):
    corpus = CaptionCorpus.of({str(i): ["the dog"] for i in range(300)} | {"x": ["the cat"]})
    assert make_negatives(corpus, ("substitute",), tagger=tagger).counts()["substitute"]["substitute"] == 301
    legacy = make_negatives(corpus, ("substitute",), tagger=tagger, legacy=True)
    same = sum(describe_changes(legacy, number)["replaced"] == [["dog", "dog"]] for number in range(301))
    # "cat" is one of 301 nouns: about one dog in three hundred gives way to it.
    assert same > 280
    assert legacy.texts[0] in ("the dog", "the cat")


def test_the_only_word_of_its_tag_cannot_be_replaced(tagger):
    made = make_negatives(CaptionCorpus.of({"1": ["the dog"], "2": ["a dog"]}), ("substitute",), tagger=tagger)
    assert made.counts()["substitute"]["substitute"] == 0


def test_names_of_kinds():
    assert check_kinds(["hard", " hard", "repeat "]) == ("hard", "repeat")
    with pytest.raises(InputError, match="unknown kind of negative 'sufle'"):
        check_kinds(["sufle"])
    with pytest.raises(InputError, match="no kind of negative named"):
        check_kinds([""])
    with pytest.raises(InputError, match="contains no captions"):
        make_negatives(CaptionCorpus.of({}))
