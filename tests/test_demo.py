import captious
from captious.options import Resampling
from captious.render._plots import find_plot


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
    (chart,) = find_plot(study.document()).charts
    (series,) = chart.series
    best = study.estimates[study.order[0]][study.statistic]
    assert series.x[0] == "1 · CIDEr-D" and series.low[0] == 100 * best.low
    assert len(find_plot(study.document(), "scatter").charts) == 2
    assert repr(study) == "<Study demo: ROUGE-L, CIDEr-D by tau_b>"
    assert study.to_arrow()["metric"].to_pylist() == ["CIDEr-D", "ROUGE-L"]
    markup = study._repr_html_()
    assert "<svg" in markup and "<script" not in markup and "system τ" in markup
