import captious
from captious.options import Resampling


def test_the_demo_has_captions_references_images_and_ratings():
    demo = captious.demo()
    assert list(demo.systems) == ["parrot", "sloppy", "solid", "expert"]
    assert all(len(captions) == 60 and None not in captions.images for captions in demo.systems.values())
    assert all((captions.references.counts == 5).all() for captions in demo.systems.values())
    assert demo.ratings.values.shape == (240, 5) and demo.ratings.captions.images[0].endswith("1001.png")
    assert repr(demo.ratings) == "<Ratings demo: 240 items, 5 raters>" and len(repr(demo)) < 100


def test_a_study_of_the_demo_draws_itself():
    study = captious.correlate(
        captious.demo().ratings, "rouge,cider", resampling=Resampling(samples=100), permutations=50
    )
    points = study.plot().to_dict()["data"]["values"]
    best = study.estimates[study.order[0]][study.statistic]
    assert points[0]["row"] == "1 · CIDEr-D" and points[0]["low"] == 100 * best.low
    assert len(study.plot("scatter").to_dict()["concat"]) == 2
    assert repr(study) == "<Study demo: ROUGE-L, CIDEr-D by tau_b>"
    assert study.to_arrow()["metric"].to_pylist() == ["CIDEr-D", "ROUGE-L"]
    markup = study._repr_html_()
    assert "<svg" in markup and "<script" not in markup and "system τ" in markup
