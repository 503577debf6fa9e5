"""METEOR with its own tables equals the Java original."""

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.metrics.meteor.engine import TASKS, count, score
from captious.text.ngram_tables import TextTable

# Candidate, references, counts, and the scores of the four tasks, recorded from meteor-1.5.jar as in pycocoevalcap 1.2:
#   java -Xmx2G -jar meteor-1.5.jar - - -stdio -l en -norm -t TASK, a line SCORE for each and EVAL for all.
GOLDEN = [
    ("a man riding a wave on a surfboard",
     ["a surfer rides a large wave in the ocean", "a person on a surf board riding a wave"],
     "8 9 4 4 2 2 4 4 0 0 0 0 1 1 0 0 1 1 0 0 3 8 8", 0.388011709232, 0.700978040523, 0.799769633266, 0.658149195955),
    ("a group of people standing around a kitchen",
     ["several people are gathered in a kitchen", "people standing in a kitchen preparing food"],
     "8 7 4 3 2 2 2 2 0 0 0 0 0 0 0 0 0 0 0 0 2 4 4", 0.252234805028, 0.439460601996, 0.458772938897, 0.40537909013),
    ("two dogs are playing in the snow",
     ["a couple of dogs play in snow", "two puppies having fun outside in winter"],
     "7 7 4 3 2 2 1 1 0 0 0 0 0 0 0 0 1 2 2 2 2 6 7", 0.412387779486, 0.799986397927, 0.774113975307, 0.601561939861),
    ("a photo of a cat sitting on top of a car",
     ["a picture showing a cat on a car", "a cat is lying on the hood of an automobile"],
     "11 8 6 4 2 2 4 4 0 0 0 0 0 0 0 0 1 1 1 0 4 8 7", 0.334773474444, 0.607403357429, 0.633740573922, 0.539287730036),
    ("a little girl is blowing out candles", ["a young child blows out the candles on her birthday cake"],
     "7 11 3 5 1 1 2 2 1 1 0 0 0 0 0 0 1 1 0 0 4 5 5", 0.168129408307, 0.330210640055, 0.344625465067, 0.195127336737),
    ("the woman 's dress is black-and-white", ["a lady wears a black and white dress"],
     "9 8 5 3 3 3 1 1 0 0 0 0 0 0 0 0 1 1 0 0 3 5 5", 0.302947137465, 0.527656609555, 0.493464068823, 0.35870121489),
    ("a train that is on the tracks near the station",
     ["the train is parked at the station", "a railway train pulling into a station"],
     "10 7 6 4 2 2 3 3 0 0 0 0 0 0 0 0 0 0 0 0 4 5 5", 0.278959745537, 0.425573195589, 0.425097904392, 0.314721510865),
    ("men were running through the fields", ["a man runs through a field", "the guys ran across the grass"],
     "6 6 2 2 0 0 0 0 2 2 0 0 0 0 0 0 2 2 1 2 2 5 6", 0.302450184019, 0.769293074383, 0.472181134991, 0.395315721958),
    ("an elephant and a baby elephant walk in front of the trees",
     ["a baby elephant walking with an adult elephant before some trees"],
     "12 11 6 4 4 4 2 2 1 1 0 0 0 0 0 0 1 1 1 0 5 9 8", 0.327652122475, 0.610239158258, 0.555130027942, 0.42252163925),
    ("a the a the a the dog a the a", ["the a the a the a cat the a the"],
     "10 10 9 9 0 0 8 8 0 0 0 0 0 0 0 0 0 0 0 0 3 8 8", 0.337916300763, 0.625420762412, 0.719707396551, 0.658149195955),
    ("u.s. soldiers at no. 5 , mr. smith 's house ...", ["american soldiers at mr. smith 's house"],
     "13 8 6 3 3 3 3 3 0 0 0 0 0 0 0 0 2 2 0 0 2 8 8", 0.439609636627, 0.774630986177, 0.666113105925, 0.680694298115),
    ("", ["a dog runs"], "0 3 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", 0.0, 0.0, 0.0, 0.0),
    ("a dog runs", ["", "a cat sleeps"],
     "3 3 1 1 0 0 1 1 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1", 0.057142857143, 0.097058823529, 0.188709677419, 0.1),
]  # fmt: skip
CORPUS = {
    "rank": 0.29932343840003317, "adq": 0.5700158369147773, "hter": 0.5652266015974058, "li": 0.46422563247031773,
}  # fmt: skip


@pytest.mark.parametrize("number", range(len(GOLDEN)))
def test_counts_equal_the_originals(meteor_tables, number):
    candidate, references, counts, *_ = GOLDEN[number]
    found = count([candidate], [references], meteor_tables, TASKS["rank"])
    assert found.table[0].astype(int).tolist() == [int(value) for value in counts.split()]


@pytest.mark.parametrize("task", TASKS)
def test_scores_of_every_task_equal_the_originals(meteor_tables, task):
    found = count([row[0] for row in GOLDEN], [row[1] for row in GOLDEN], meteor_tables, TASKS[task])
    values = [row[3 + list(TASKS).index(task)] for row in GOLDEN]
    assert score(found.table, TASKS[task]) == pytest.approx(values, abs=1e-11)
    assert float(score(found.table.sum(axis=0), TASKS[task])) == pytest.approx(CORPUS[task], abs=1e-14)


# Every 60th of the 5,822 rated captions of Flickr8k-Expert against the five references of its image, and the corpus,
# from pycocoevalcap 1.2: PTBTokenizer, then Meteor().compute_score.
FLICKR8K = [
    0.176847920, 0.093841642, 0.084289746, 0.087452976, 0.125206212, 0.077083730, 0.069379523, 0.000000000, 0.111538462,
    0.088073394, 0.081300144, 0.078883969, 0.173094250, 0.111683813, 0.061381074, 0.083979617, 0.080630257, 0.102175329,
    0.054119175, 0.280742490, 0.226129245, 0.110578033, 0.061538462, 0.112369792, 0.433754605, 0.220915920, 0.069349845,
    0.229678129, 0.129292929, 0.052287582, 0.055081652, 0.209934125, 0.038677705, 0.053691275, 0.070546737, 0.049382716,
    0.159137433, 0.058662205, 0.174270133, 0.165286418, 0.130832412, 0.030828516, 0.074666667, 0.038834951, 0.038834932,
    0.300980359, 0.226673279, 0.195827563, 0.076855895, 0.081355932, 0.049645941, 0.080492838, 0.122674085, 0.131112410,
    0.139805755, 0.140147578, 0.303539081, 0.266521460, 0.032440261, 0.179406446, 0.000000000, 0.056423174, 0.111671324,
    0.061174557, 0.037122970, 0.168688980, 0.020151134, 0.107165541, 0.167044135, 0.866666667, 0.159986131, 0.065503703,
    0.168593799, 0.074198874, 0.035955056, 0.084154799, 0.181548029, 0.058895706, 0.099096570, 0.430150910, 0.199455053,
    0.062580673, 0.074316940, 0.143227395, 0.140514027, 0.111627907, 0.159436188, 0.233777606, 0.081841432, 0.102658180,
    1.000000000, 0.087081869, 0.158218735, 0.084035187, 0.049396682, 0.112676056, 0.111883224, 0.071098449,
]  # fmt: skip
FLICKR8K_CORPUS = 0.11803511878242523
# Every 60th of COCO's Karpathy test images, the first caption against the others, in the same way.
COCO = [
    0.229122392, 0.281513293, 0.355552851, 0.226476981, 0.303483245, 0.203805722, 0.417706046, 0.109923664, 0.344106891,
    0.195465846, 0.189431564, 0.326867515, 0.150799128, 0.164948454, 0.273736196, 0.181356809, 0.147800282, 0.172929775,
    0.253338253, 0.056737589, 0.158398230, 0.173698059, 0.170212766, 0.164948661, 0.257059176, 0.274357248, 0.162028330,
    0.366619602, 0.407290535, 0.447670282, 0.218903314, 0.217070491, 0.170436361, 0.311846609, 0.222338283, 0.206220242,
    0.323544699, 0.152172592, 0.407611445, 0.360757507, 0.380789330, 0.363064591, 0.212835090, 0.339904939, 0.181116446,
    0.411044720, 0.311621598, 0.369808771, 0.209523810, 0.235776939, 0.270313802, 0.240610018, 0.283893468, 0.426382140,
    0.228099051, 0.344710065, 0.208832687, 0.234163405, 0.171604643, 0.215107138, 0.244117625, 0.209362719, 0.253954107,
    0.338344689, 0.140925947, 0.394618693, 0.323140322, 0.252659074, 0.176488001, 0.143964462, 0.125842697, 0.118308275,
    0.099717690, 0.261511145, 0.248744949, 0.147828135, 0.226250022, 0.398965033, 0.303432837, 0.278592754, 0.373112233,
    0.339642636, 0.175812507, 0.510479603,
]  # fmt: skip
COCO_CORPUS = 0.24394402270857163


def rows(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def measured(pairs, tables):
    """Values of all items from the tokens of captious, and the value of the corpus."""
    captions = CaptionSet.of(
        {number: candidate for number, (candidate, _) in enumerate(pairs)},
        {number: references for number, (_, references) in enumerate(pairs)},
    )
    table = TextTable.of(captions)
    texts = [" ".join(table.words(caption)) for caption in range(len(table.lengths))]
    groups = [texts[a:b] for a, b in zip(table.first_caption[:-1], table.first_caption[1:], strict=True)]
    found = count([group[0] for group in groups], [group[1:] for group in groups], tables, TASKS["rank"])
    return score(found.table, TASKS["rank"]), float(score(found.table.sum(axis=0), TASKS["rank"]))


@pytest.mark.shared_data
def test_flickr8k_expert_has_the_originals_values_and_published_correlations(shared_data, meteor_tables):
    from scipy.stats import kendalltau

    rated = rows(shared_data / "flickr8k/expert.jsonl")
    images = {row["id"]: row["references"] for row in rows(shared_data / "flickr8k/captions.jsonl")}
    values, corpus = measured([(row["caption"], images[row["image"]]) for row in rated], meteor_tables)
    assert values[::60] == pytest.approx(FLICKR8K, abs=1e-9)
    assert corpus == pytest.approx(FLICKR8K_CORPUS, abs=1e-12)
    foreign = [(row, value) for row, value in zip(rated, values, strict=True)
               if row["caption_of"].split("#")[0] != row["image"]]  # fmt: skip
    given = [rating for row, _ in foreign for rating in row["ratings"]]
    said = [value for row, value in foreign for _ in row["ratings"]]
    assert len(given) == 16_992
    assert 100 * kendalltau(said, given, variant="c")[0] == pytest.approx(41.82, abs=0.03)
    assert 100 * kendalltau(said, given, variant="b")[0] == pytest.approx(41.54, abs=0.03)


@pytest.mark.shared_data
def test_coco_has_the_originals_values(shared_data, meteor_tables):
    pairs = [(row["references"][0], row["references"][1:]) for row in rows(shared_data / "coco/karpathy_test.jsonl")]
    values, corpus = measured(pairs, meteor_tables)
    assert values[::60] == pytest.approx(COCO, abs=1e-9)
    # One item of 5,000 differs: after "... Wii U." at a line's end Java's tokenizer looks into the next caption.
    assert corpus == pytest.approx(COCO_CORPUS, abs=1e-6)


OPTIONS = {"rank": (), "adq": ("-t", "adq"), "modules": ("-m", "exact stem synonym")}


@pytest.fixture(scope="module")
def original():
    """A thousand captions, and what the original prints of them with each of the options, all run at once."""
    if shutil.which("java") is None:
        pytest.skip("Java is not on the PATH")
    # Captions of a few words each: repeated words make the search choose, and no reference is like another.
    rng = np.random.default_rng(7)
    words = "a a a the man woman dog dogs puppy is are running runs ran on in front of top photo picture red big"
    captions = [" ".join(rng.choice(words.split(), rng.integers(0, 14)).tolist()) for _ in range(1000)]
    candidates, references = captions[:250], [captions[250 + i :: 250] for i in range(250)]
    lines = "".join(
        f"SCORE ||| {' ||| '.join(group)} ||| {candidate}\n"
        for candidate, group in zip(candidates, references, strict=True)
    )
    folder = Path(find_spec("pycocoevalcap").submodule_search_locations[0]) / "meteor"

    def answer(options):
        command = ["java", "-Xmx2G", "-jar", "meteor-1.5.jar", "-", "-", "-stdio", "-l", "en", "-norm", *options]
        run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", cwd=folder, check=True)
        return np.array([[float(value) for value in line.split()] for line in run.stdout.splitlines()])

    with ThreadPoolExecutor(len(OPTIONS)) as pool:
        return candidates, references, dict(zip(OPTIONS, pool.map(answer, OPTIONS.values()), strict=True))


@pytest.mark.java
@pytest.mark.parametrize("name", OPTIONS)
def test_the_running_original_agrees(meteor_tables, original, name):
    candidates, references, answers = original
    printed, options = answers[name], OPTIONS[name]
    whole = (printed[:, 20] == 1) & (printed[:, 21:] == printed[:, :2]).all(axis=1)
    printed[whole, 20] = 0
    task = options[1] if "-t" in options else "rank"
    modules = options[1].split() if "-m" in options else ("exact", "stem", "synonym", "paraphrase")
    found = count(candidates, references, meteor_tables, TASKS[task], modules)
    assert np.array_equal(found.table, printed)
