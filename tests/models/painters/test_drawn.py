"""The drawn painter: what a caption states holds in its scene, what it leaves open varies with the seed."""

import numpy as np
import pytest
from lab.toy import make
from lab.toy.captions import Fact, judge
from lab.toy.painter import Drawn, scene_of, stated

from captious.models.painters import NOTHING, Prompt


def picture(text, seed=0, size=48):
    (found,) = Drawn.of(size).paint([Prompt(text, seed)])
    return found.pixels[0], int(found.codes[0])


@pytest.mark.parametrize("seed", [0, 3])
def test_every_statement_of_the_samples_captions_holds_in_the_scene(seed):
    sample = make(items=40, seed=5)
    for scene in sample.scenes():
        for name in ("expert", "solid", "sloppy"):
            said = sample.prediction_of(scene, name)
            found = scene_of(said.text, seed)
            assert judge(said.facts, found).wrong == 0, said.text


def test_a_scene_shows_only_what_is_named():
    found = scene_of("a red ball to the left of two dogs", 0)
    assert {thing.kind for thing in found.things} == {"ball", "dog"}


def test_what_is_left_open_varies_with_the_seed_and_what_is_stated_does_not():
    scenes = [scene_of("a red ball near some trees", seed) for seed in range(12)]
    balls = [next(thing for thing in scene.things if thing.kind == "ball") for scene in scenes]
    trees = [next(thing for thing in scene.things if thing.kind == "tree") for scene in scenes]
    assert {ball.color for ball in balls} == {"red"} and {ball.count for ball in balls} == {1}
    assert len({ball.size for ball in balls}) > 1 and len({ball.column for ball in balls}) > 1
    assert len({scene.setting for scene in scenes}) > 1
    assert {tree.count for tree in trees} == {2, 3}  # some trees: more than one, and no kind has more than its most


def test_texts_that_state_the_same_have_the_same_picture():
    one, two = picture("There's a red ball in the snow."), picture("a red ball is seen on a snowy day")
    assert (one[0] == two[0]).all()
    assert (one[0] != picture("a blue ball in the snow")[0]).any()
    assert (picture("a ball", 1)[0] == picture("a ball", 1)[0]).all()


def test_a_text_without_articles_is_understood():
    facts = stated("red ball left of dogs")
    assert Fact("color", "ball", "red") in facts and Fact("relation", "ball", "left of", "dog") in facts
    assert not any(fact.aspect == "count" and fact.kind == "dog" for fact in facts)


def test_a_setting_alone_is_drawn_and_nothing_is_not():
    pixels, code = picture("in a field")
    assert code == 0 and pixels.any() and scene_of("in a field").things == ()
    pixels, code = picture("the economy grew by three percent")
    assert code == NOTHING and not pixels.any()


def test_contradictions_are_drawn_as_far_as_they_go():
    assert scene_of("a kite above a tree and a tree above a kite").things


def test_fingerprint_and_shape_follow_the_size():
    small, large = Drawn.of(32), Drawn.of(64)
    assert small.fingerprint != large.fingerprint and small.shape == (32, 32, 3)
    assert Drawn.of(32).fingerprint == small.fingerprint
    (found,) = small.paint([Prompt("a ball", 0)])
    assert found.pixels.shape == (1, 32, 32, 3) and found.pixels.dtype == np.uint8
