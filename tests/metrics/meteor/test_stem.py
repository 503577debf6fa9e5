"""The stemmer gives what the one inside meteor-1.5.jar gives."""

import pytest

from captious.metrics.meteor._stem import stem

# word:stem from org.tartarus.snowball.ext.englishStemmer of meteor-1.5.jar; all 172,605 words of METEOR's tables, COCO,
# Flickr8k and IIW were compared once, without a difference.
GOLDEN = """
riding:ride evening:even added:ad skies:sky dying:die organized:organ university:univers paste:past emergency:emerg
dogs:dog sitting:sit running:run hopping:hop hoped:hope flies:fli ties:tie cries:cri agreed:agre feed:feed
generously:generous communities:communiti arsenal:arsenal playing:play sayings:say youth:youth beautiful:beauti
happily:happili happy:happi hopefulness:hope conditional:condit rationalize:ration predication:predic triplicate:triplic
electricity:electr adjustment:adjust replacement:replac activate:activ relational:relat sensational:sensat gas:gas
news:news inning:inning proceeding:proceed succeed:succeed 's:'s surfer:surfer skateboarding:skateboard luggage:luggag
national:nation motorcycles:motorcycl controlling:control
"""


@pytest.mark.parametrize("pair", GOLDEN.split())
def test_stems_equal_the_originals(pair):
    word, expected = pair.split(":")
    assert stem(word) == expected


@pytest.mark.parametrize("word", ["", "a", "on", "\u00e9t\u00e9", "3.5", "..."])
def test_what_is_no_english_word_stays(word):
    assert stem(word) == word
