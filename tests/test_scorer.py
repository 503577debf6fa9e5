"""A scorer gives each caption of a batch the value that evaluating it alone would, with references prepared once."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import captious
from captious import InputError, Scorer
from captious.text.idf import DocumentFrequency

REFERENCES = {
    "1": ["a black dog runs on the grass", "the dog is running"],
    "2": ["two cats sleep on a sofa", "cats asleep on the couch", "a pair of sleeping cats"],
    "3": ["a man rides a wave on a surfboard"],
}
IDS = ["2", "1", "2", "3"]
CAPTIONS = ["two cats sleep", "a dog runs on grass", "a cat on the sofa, asleep", "zebras"]


@pytest.mark.parametrize(
    "metric", ["bleu(n=2)", "rouge", "rouge_n(n=1)", "meteor", "cider(idf=CORPUS)", "novelty(CORPUS)"]
)
def test_a_value_is_that_of_the_caption_evaluated_alone(metric, tmp_path, compiled_meteor):
    if metric == "meteor":
        pytest.importorskip("pycocoevalcap", reason="METEOR's tables are not here: pip install 'captious[meteor]'")
    if "CORPUS" in metric:
        metric = metric.replace("CORPUS", str(_corpus(tmp_path, metric.startswith("novelty"))))
    scores = Scorer(metric, references=REFERENCES)(IDS, CAPTIONS)
    alone = [
        captious.evaluate({key: text}, metric, resampling=captious.Resampling(0), references={key: REFERENCES[key]})
        for key, text in zip(IDS, CAPTIONS, strict=True)
    ]
    (values,) = scores.values()
    np.testing.assert_allclose(values, [next(iter(report)).values[0] for report in alone], rtol=1e-12)


def _corpus(folder, captions):
    if captions:
        path = folder / "training.json"
        path.write_text('{"1": "two cats sleep", "2": "a horse"}')
        return path
    items = captious.CaptionSet.of(dict.fromkeys(REFERENCES, ()), REFERENCES)
    DocumentFrequency.of(items).save(folder / "corpus.idf")
    return folder / "corpus.idf"


def test_document_frequencies_are_those_of_all_references_not_of_the_batch():
    whole = {**{key: texts[0] for key, texts in REFERENCES.items()}, "2": "a cat on the sofa"}
    expected = captious.evaluate(whole, "cider", references=REFERENCES)["cider"].items["2"]
    assert Scorer("cider", references=REFERENCES)(["2"], ["a cat on the sofa"])["cider"][0] == pytest.approx(expected)


def test_the_cider_of_pycocoevalcap_with_fixed_document_frequencies():
    """The way of self-critical training: its scorer takes document frequencies and their number from elsewhere."""
    from pycocoevalcap.cider.cider_scorer import CiderScorer

    corpus = CiderScorer()
    for texts in REFERENCES.values():
        corpus += (texts[0], texts)
    corpus.compute_doc_freq()
    values = []
    for key, text in zip(IDS, CAPTIONS, strict=True):
        one = CiderScorer()
        for (
            _
        ) in REFERENCES:  # three times, because the scorer takes the number of items from the length of its own list
            one += (text, REFERENCES[key])
        one.document_frequency = corpus.document_frequency
        values.append(one.compute_cider()[0])
    ours = Scorer("cider(tokenizer=whitespace)", references=REFERENCES)(IDS, CAPTIONS)["CIDEr-D"]
    np.testing.assert_allclose(ours, values, rtol=1e-12)


def test_a_list_of_captions_for_each_id_gives_a_row_for_each_id():
    scorer = Scorer("rouge, bleu(n=1)", references=REFERENCES)
    rows = scorer([2, 1], [["two cats", "a sofa"], ["a dog", "dogs"]])
    flat = scorer([2, 2, 1, 1], ["two cats", "a sofa", "a dog", "dogs"])
    assert rows["rouge"].shape == (2, 2)
    assert rows["rouge"].ravel().tolist() == flat["rouge"].tolist()
    assert rows["BLEU-1"].ravel().tolist() == flat["bleu"].tolist()


def test_ids_may_be_numbers_arrays_or_tensors():
    import torch

    scorer = Scorer("rouge", references={1: ["a dog"], 2: ["a cat"]})
    for ids in ([1, 2], np.array([1, 2]), torch.tensor([1, 2]), list(torch.tensor([1, 2])), ("1", "2")):
        assert scorer(ids, ["a dog", "a dog"])["rouge"][0] == 1
    assert 1 in scorer and "1" in scorer and 7 not in scorer and len(scorer) == 2


def test_a_pickled_scorer_gives_the_same_values():
    scorer = Scorer("cider, bleu, rouge", references=REFERENCES)
    copy = pickle.loads(pickle.dumps(scorer))
    first, second = scorer(IDS, CAPTIONS), copy(IDS, CAPTIONS)
    assert list(first) == list(second)
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])


def test_threads_can_share_a_scorer():
    scorer = Scorer("cider, bleu(n=4), rouge", references=REFERENCES)
    batches = [
        ([key] * 3, [f"a {word}", f"{word} runs", word]) for key in REFERENCES for word in ("dog", "cat", "wave")
    ]
    expected = [scorer(*batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for scores, wanted in zip(pool.map(lambda batch: scorer(*batch), batches * 8), expected * 8, strict=True):
            for key in wanted:
                np.testing.assert_array_equal(scores[key], wanted[key])


def test_workers_of_a_data_loader_score_captions():
    from torch.utils.data import DataLoader, Dataset

    class Rewards(Dataset):
        def __init__(self, scorer):
            self.scorer = scorer

        def __len__(self):
            return len(IDS)

        def __getitem__(self, index):
            return self.scorer([IDS[index]], [CAPTIONS[index]])["cider"][0]

    scorer = Scorer("cider", references=REFERENCES)
    loader = DataLoader(Rewards(scorer), batch_size=2, num_workers=1, multiprocessing_context="fork")
    rewards = np.concatenate([batch.numpy() for batch in loader])
    np.testing.assert_allclose(rewards, scorer(IDS, CAPTIONS)["cider"])


def test_images_are_found_by_id(sample_images):
    scorer = Scorer("clipscore(weights=captious-mini)", images=sample_images)
    ids = list(sample_images)
    scores = scorer([ids[0], ids[1], ids[0]], ["a red circle", "a blue square", "a red circle"])["clipscore"]
    assert scores[0] == scores[2] != scores[1]


@pytest.fixture
def sample_images(tmp_path):
    from PIL import Image

    paths = {}
    for name, color in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (64, 64), color).save(tmp_path / f"{name}.png")
        paths[name] = str(tmp_path / f"{name}.png")
    return paths


def test_a_signature_says_what_moves_the_values():
    (signature,) = Scorer("cider", references=REFERENCES).signatures.values()
    assert signature.startswith("cider|tok:ptb.1|variant:d|idf:refs:3:")
    assert "|items:3|refs:1-3|" in signature


@pytest.mark.parametrize(
    ("ids", "captions", "message"),
    [
        (["1"], ["a", "b"], "2 captions for 1 ids, expected one caption, or one list of captions, per id"),
        (["9"], ["a"], "1 ids (9) are not in the scorer, which has 1, 2, 3"),
        (["1", "2"], [["a"], ["b", "c"]], "from 1 to 2 captions per id"),
        (["1"], [None], "captions of id '1' are None, expected a list"),
        (["a dog"], [1], "1 ids (a dog) are not in the scorer, which has 1, 2, 3"),
        (["1", "2"], ["a", 3], "id '2': a caption is of type int, expected a string"),
        ("1", ["a"], "ids are '1', expected a list"),
        (["1"], "a dog", "captions are 'a dog', expected a list"),
    ],
)
def test_a_wrong_batch_is_refused_in_one_line(ids, captions, message):
    with pytest.raises(InputError) as error:
        Scorer("rouge", references=REFERENCES)(ids, captions)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("metrics", "arguments", "message"),
    [
        ("mbleu(n=4)", {"references": REFERENCES}, "compares several captions of an item"),
        ("rouge", {}, "no references, expected them by id"),
        ("clipscore(captious-mini)", {"references": REFERENCES}, "needs images"),
        ("rouge", {"images": {"1": "a.png"}}, "needs references"),
    ],
)
def test_a_scorer_that_could_score_nothing_is_refused(metrics, arguments, message):
    with pytest.raises(InputError, match=message):
        Scorer(metrics, **arguments)


def test_an_empty_batch_gives_empty_arrays():
    assert Scorer("rouge, cider, bleu(n=4)", references=REFERENCES)([], [])["rouge"].shape == (0,)


@pytest.mark.parametrize("metric", ["densecap", "soda(score=rouge)"])
def test_metrics_of_all_events_of_a_video_are_refused(metric):
    with pytest.raises(InputError, match="scores all events of a video together, and a scorer scores single captions"):
        Scorer(metric, references={"1": ["a dog"]})
