"""Tables of English words: kinds of objects, colors, sizes, places, synonyms, spellings and verb forms."""

from __future__ import annotations

_KINDS = """
bicycle, car, motorcycle, airplane, bus, train, truck, boat
traffic light, fire hydrant, stop sign, parking meter, bench
bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe
backpack, umbrella, handbag, tie, suitcase
frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, surfboard, tennis racket
bottle, wine glass, cup, fork, knife, spoon, bowl
banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake
chair, couch, potted plant, bed, dining table, toilet
tv, laptop, mouse, remote, keyboard, cell phone
microwave, oven, toaster, sink, refrigerator
book, clock, vase, scissors, teddy bear, hair drier, toothbrush
"""
# COCO's categories by kind, as COCO groups them; a person has no sibling.
KINDS = tuple(tuple(line.split(", ")) for line in _KINDS.strip().splitlines())
SIBLINGS: dict[str, frozenset[str]] = {
    "person": frozenset(),
    **{one: frozenset(kind) - {one} for kind in KINDS for one in kind},
}
WITHOUT_ARTICLE = frozenset(["skis", "scissors", "broccoli"])

# Irregular plurals.
PLURALS = {
    "person": "people",
    "sheep": "sheep",
    "knife": "knives",
    "mouse": "mice",
    "sandwich": "sandwiches",
    "bus": "buses",
    "bench": "benches",
    "couch": "couches",
    "wine glass": "wine glasses",
    "toothbrush": "toothbrushes",
    **{name: name for name in WITHOUT_ARTICLE},
}

COLORS = ("red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "gray")
COLOR_NAMES = frozenset([*COLORS, "grey", "silver", "gold", "golden", "beige", "tan"])
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SIZES = {
    **dict.fromkeys(("large", "big", "huge", "giant", "enormous"), "tiny"),
    **dict.fromkeys(("small", "little", "tiny"), "huge"),
    "tall": "short",
    "short": "tall",
    "long": "short",
    "wide": "narrow",
    "narrow": "wide",
    "thick": "thin",
    "thin": "thick",
    "high": "low",
    "low": "high",
    "deep": "shallow",
    "shallow": "deep",
}
# Places and their opposites; earlier entries are searched first.
PLACES = {
    "in front of": "behind",
    "on top of": "under",
    "left": "right",
    "right": "left",
    "above": "below",
    "below": "above",
    "behind": "in front of",
    "beneath": "on top of",
    "underneath": "on top of",
    "under": "on",
    "inside": "outside",
    "outside": "inside",
    "on": "under",
    "over": "under",
}
_UNCOUNTED = """
air back background bottom center centre country countryside dark dirt distance dust fog foreground front grass gravel
ground ice left middle moon mud night ocean rain right sand sea seaside shade side sky smoke snow sun surf top water
wind world
"""
# Nouns with *the* for which *a* would change the meaning or be wrong English: *in a sand*, *to a left*.
UNCOUNTED = frozenset(_UNCOUNTED.split())
# Nouns that quantify the noun after *of*.
COLLECTIVES = frozenset(["pair", "couple", "group", "bunch", "set", "lot", "number", "piece", "slice", "herd", "row"])
# Words of symmetric relations: exchanging the two things does not make the caption wrong.
SYMMETRIC = frozenset(["and", "or", "with", "near", "beside", "next", "alongside", "between", "like", "as"])

_SYNONYMS = {
    "N": "couch sofa, couches sofas, bicycle bike, bicycles bikes, automobile car, automobiles cars, airplane plane, "
    "airplanes planes, child kid, children kids, rock stone, rocks stones, television tv, forest woods, "
    "sidewalk pavement, baby infant, handbag purse, luggage baggage, taxi cab, movie film, store shop, "
    "doctor physician, rug carpet, telephone phone, backpack knapsack, ocean sea, arena stadium, motorcycle motorbike, "
    "motorcycles motorbikes, policeman officer, background backdrop",
    "V": "leap jump, leaps jumps, leaping jumping, leaped jumped, talk speak, talks speaks, talking speaking, "
    "observing watching, observes watches, grinning smiling, hurling throwing, hurls throws, slumbering sleeping, "
    "located situated, scattered dispersed, purchasing buying",
    "J": "large big, small little, huge immense, quick fast, happy glad, damp moist, ill sick",
}
# Synonyms by (first letter of the tag, word), chosen by hand from pairs of one synset in METEOR's tables.
SYNONYMS: dict[tuple[str, str], str] = {}
for _tag, _pairs in _SYNONYMS.items():
    for _pair in _pairs.split(", "):
        _one, _two = _pair.split()
        SYNONYMS |= {(_tag, _one): _two, (_tag, _two): _one}

_SPELLINGS = """
color colour, colored coloured, colors colours, colorful colourful, gray grey, center centre, centered centred,
theater theatre, meter metre, meters metres, liter litre, harbor harbour, neighbor neighbour, favorite favourite,
neighborhood neighbourhood, flavor flavour, jewelry jewellery, traveler traveller, traveling travelling, plow plough,
tire tyre, tires tyres, aluminum aluminium, donut doughnut, donuts doughnuts, pajamas pyjamas, mustache moustache,
ax axe, fiber fibre, catalog catalogue, organized organised, recognize recognise, racket racquet, airplane aeroplane,
airplanes aeroplanes, armor armour, odor odour, parlor parlour, vapor vapour, honor honour, labor labour, mold mould,
skillful skilful, yogurt yoghurt, cozy cosy, gray-haired grey-haired, modeling modelling, canceled cancelled
"""
# American spellings to British ones and back, without words whose spelling depends on the meaning.
SPELLINGS: dict[str, str] = {}
for _pair in _SPELLINGS.replace("\n", " ").split(","):
    _american, _british = _pair.split()
    SPELLINGS |= {_american: _british, _british: _american}

_VERBS = """
walk talk play stand look eat hold fly jump cook watch read wait work rest float hang lean pull push kick throw catch
wash climb rain snow sleep drink feed fight fall grow clean cross reach touch smell follow carry show turn pass pour
draw paint sail surf
"""
_DROPPING_E = (
    "ride drive take make dance smile have skate bake chase pose dive leave gaze graze move prepare race slide"
)
_DOUBLING = "run sit swim cut put get set hit shop jog chop grab hug skip stir spin win"
_ENDING = {"watch": "watches", "catch": "catches", "wash": "washes", "cross": "crosses", "reach": "reaches"}
_ENDING |= {"touch": "touches", "push": "pushes", "pass": "passes", "fly": "flies", "carry": "carries"}
_ENDING |= {"have": "has"}


def _make_gerund(verb: str) -> str:
    if verb in _DROPPING_E.split():
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLING.split() else "") + "ing"


# The third person and the base of verbs, by their progressive form: *running*: (*runs*, *run*).
VERBS = {
    _make_gerund(verb): (_ENDING.get(verb, verb + "s"), verb)
    for verb in [*_VERBS.split(), *_DROPPING_E.split(), *_DOUBLING.split()]
}
PROGRESSIVES = {third: gerund for gerund, (third, _) in VERBS.items()}

_ADJECTIVES = """
beautiful colorful vivid detailed sharp clear bright stunning amazing lovely elegant modern natural realistic
professional artistic dramatic vibrant gorgeous fantastic wonderful impressive authentic charming serene majestic
delightful remarkable exquisite magnificent
"""
# Thirty adjectives of praise.
ADJECTIVES = tuple(_ADJECTIVES.split())
FUNCTION_TAGS = frozenset(["DT", "PDT", "IN", "TO", "CC", "PRP", "PRP$", "EX", "MD", "WDT", "WP", "POS"])
