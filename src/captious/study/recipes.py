"""The benchmarks people report on, each as one value; a user adds one with a TOML file (see `recipe.from_toml`)."""

from __future__ import annotations

from captious.study.recipe import Layout, Recipe

_COCO = ("val2014.jsonl.gz", "../coco/val2014.jsonl.gz", "captions_val2014.json", "../coco/karpathy_test.jsonl")

FLICKR8K_EXPERT = Recipe(
    name="flickr8k-expert",
    title="Flickr8k-Expert: 5,664 captions of 1,000 images, three experts each",
    layouts=(
        Layout(
            "expert.jsonl", ("captions.jsonl",), image="image", caption="caption", rating="ratings", images="images"
        ),
        Layout("ExpertAnnotations.txt", ("Flickr8k.token.txt",), format="flickr8k", images="Flicker8k_Dataset"),
        Layout("flickr8k.json", format="clipscore", images="images"),
    ),
    own="drop",
    tau="c",
    scale=(1, 4),
    expected=16_992,
    source="Flickr8k_text.zip of Hodosh et al. (ExpertAnnotations.txt, Flickr8k.token.txt), or flickr8k.json of "
    "jmhessel/clipscore",
    citation="Hodosh, Young, Hockenmaier 2013, JAIR 47",
    notes=("averaging the three experts first gives other numbers: not done",),
)

FLICKR8K_CF = Recipe(
    name="flickr8k-cf",
    title="Flickr8k-CF: 47,830 image–caption pairs, share of yes votes of three or more crowd workers",
    layouts=(
        Layout(
            "crowdflower.jsonl", ("captions.jsonl",), image="image", caption="caption", rating="rating", images="images"
        ),
        Layout("CrowdFlowerAnnotations.txt", ("Flickr8k.token.txt",), format="flickr8k", images="Flicker8k_Dataset"),
        Layout("crowdflower_flickr8k.json", format="clipscore", images="images"),
    ),
    own="unreference",
    tau="b",
    scale=(0, 1),
    expected=47_830,
    source="Flickr8k_text.zip of Hodosh et al. (CrowdFlowerAnnotations.txt, Flickr8k.token.txt), or "
    "crowdflower_flickr8k.json of jmhessel/clipscore",
    citation="Hodosh, Young, Hockenmaier 2013, JAIR 47",
)

COMPOSITE = Recipe(
    name="composite",
    title="Composite: 3,995 images of Flickr8k, Flickr30k and COCO, three captions each, correctness 1 to 5",
    layouts=(
        Layout("composite.jsonl", image="image", caption="caption", rating="rating", system="system"),
        Layout("composite.json", format="clipscore"),
    ),
    tau="c",
    scale=(1, 5),
    expected=11_985,
    source="the AMT_eval folder of Aditya et al., made into rows of image, caption, rating and references",
    citation="Aditya et al. 2015, arXiv:1511.03292",
    notes=("papers differ on candidates equal to a reference (UMIC keeps them): see references above",),
)

PASCAL50S = Recipe(
    name="pascal50s",
    title="Pascal-50S: 4 × 1,000 caption pairs (HC, HI, HM, MM), the caption that most of 48 people prefer",
    kind="pairs",
    layouts=(Layout("pairs.jsonl", image="image", caption="captions", category="category", preferred="preferred"),),
    expected=4_000,
    source="Vedantam et al., vrama91.github.io/cider, made into rows of image, captions, preferred, category and "
    "references",
    citation="Vedantam, Zitnick, Parikh 2015, CVPR",
    notes=("the mean is the unweighted mean of the categories",),
)

CAPEVAL1K = Recipe(
    name="capeval1k",
    title="CapEval1k: 1,000 captions of 250 COCO images by four models, human score 0 to 1",
    layouts=(Layout("capeval1k.jsonl", _COCO, id="id", image="image", caption="caption", rating="human"),),
    tau="c",
    scale=(0, 1),
    expected=1_000,
    source="hwanheelee1993/UMIC (capeval1k), references from COCO val2014",
    citation="Lee et al. 2021, ACL",
    notes=("the paper reports tau-b under a protocol that is not quite clear; both variants are printed",),
)

THUMB = Recipe(
    name="thumb",
    title="THumB 1.0: 500 COCO images, four models and a human caption each",
    layouts=(
        Layout("mscoco_THumB-1.0.jsonl", _COCO, image="image", caption="hyp", rating="human_score", system="SYS"),
        Layout(
            "mscoco/mscoco_THumB-1.0.jsonl", _COCO, image="image", caption="hyp", rating="human_score", system="SYS"
        ),
    ),
    own="unreference",
    tau="b",
    source="jungokasai/THumB (mscoco/mscoco_THumB-1.0.jsonl), references from COCO val2014",
    citation="Kasai et al. 2022, NAACL",
)

DECAPBENCH = Recipe(
    name="decapbench",
    title="DeCapBench-style ratings of long captions: the same images described by several models",
    layouts=(
        Layout(
            "ratings.jsonl", ("references.jsonl",), image="image", caption="caption", rating="rating", system="system"
        ),
        Layout("ratings.jsonl", image="image", caption="caption", rating="rating", system="system"),
    ),
    rows="mean",
    tau="b",
    source="rows of image, system, caption, rating (a number or one per rater), and references if a metric needs them",
    citation="Ye et al. 2025, ICLR",
    notes=("sample tau: Kendall within each image, averaged over images; 1−R² with the metric's own sum of squares",),
)

IIW = Recipe(
    name="iiw",
    title="ImageInWords side-by-sides: which of two long descriptions is better, on five points",
    kind="pairs",
    layouts=(
        Layout("side_by_side.jsonl", image="image", caption="captions", category="aspect", preferred="preferred"),
    ),
    source="google/imageinwords, datasets/*/data.jsonl (the fields iiw-human-sxs-*), made into rows of image, captions,"
    " aspect and preferred: 0 or 1, or null for a tie of the people, which is left out",
    citation="Garg et al. 2024, EMNLP",
)

RECIPES = {
    recipe.name: recipe
    for recipe in (FLICKR8K_EXPERT, FLICKR8K_CF, COMPOSITE, PASCAL50S, CAPEVAL1K, THUMB, DECAPBENCH, IIW)
}
