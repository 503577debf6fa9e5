"""A small example of every metric, for the contract test: its written forms, and files where it needs any.

One set of captions serves all. Images are plain colors and encoders are the `ColorEncoder` of tests/conftest.py, so
that CLIP-like metrics run without weights; BERT, UMIC, METEOR and the style model are tiny ones, written into a folder.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.metrics.calibrated import CalibratedInput, Calibration
from captious.options import Runtime, using
from captious.stats.calibration import Curve, Errors
from captious.stats.ridge import Ridge

WORDS = ("a", "the", "red", "green", "blue", "dog", "cat", "ball", "on", "runs", "sits", "two", "fine", "grey", "day")
COLORS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
ITEMS = 12
# Ids of the items that some metrics cannot score.
BROKEN = {
    "no candidates",
    "no references",
    "one candidate",
    "no image",
    "broken image",
    "blank",
    "no style",
    "no objects",
}
# Numbers of candidates of the items that have not three.
CANDIDATES = {"no candidates": 0, "one candidate": 1}


def captions(folder: Path) -> CaptionSet:
    """Twelve plain items of three candidates and two references, and items that lack something."""
    from PIL import Image

    generator = np.random.default_rng(1)

    def text() -> str:
        return " ".join(generator.choice(WORDS, size=generator.integers(2, 9)).tolist())

    for name, color in COLORS.items():
        Image.new("RGB", (8, 6), color).save(folder / f"{name}.png")
    (folder / "broken.png").write_bytes(b"not an image")
    ids = [*(str(number) for number in range(ITEMS)), *sorted(BROKEN)]
    candidates: dict[str, list[str]] = {key: [text() for _ in range(3)] for key in ids}
    references = {key: [text() for _ in range(2)] for key in ids}
    columns = {
        "image": [str(folder / f"{list(COLORS)[number % 3]}.png") for number in range(len(ids))],
        "style": [("gloomy", "happy")[number % 2] for number in range(len(ids))],
        "source": [text() for _ in ids],
        "error_probability": [[0.2, 0.92, 0.9][: CANDIDATES.get(key, 3)] for key in ids],
        "number": [number % 4 for number in range(len(ids))],
        "objects": [[("dog",), ("dog", "sports ball"), ("cat",), ()][number % 4] for number in range(len(ids))],
    }
    candidates["no candidates"], references["no references"] = [], []
    candidates["one candidate"], candidates["blank"] = [text()], ["  ", "a dog", "a cat"]
    columns["image"][ids.index("no image")] = None
    columns["image"][ids.index("broken image")] = str(folder / "broken.png")
    columns["style"][ids.index("no style")] = None
    columns["objects"][ids.index("no objects")] = None
    return CaptionSet.of(candidates, references, columns)


def dense_captions(plain: CaptionSet) -> CaptionSet:
    """The same captions as events of videos: predictions of 4 seconds every 3 seconds, and references of two files."""
    events = [[[3.0 * number, 3.0 * number + 4] for number in range(count)] for count in plain.candidates.counts]
    references = [
        [[0.5 * item, 0.5 * item + 5], [2.0, 7.0]][:count] for item, count in enumerate(plain.references.counts)
    ]
    columns = {
        "events": tuple(events),
        "reference_events": tuple(references),
        "reference_files": tuple(list(range(count)) for count in plain.references.counts.tolist()),
    }
    return replace(plain, columns=columns, settings={"events": "video", "files": "one.json+two.json"})


# Metrics of dense captions, which are tested on `dense_captions`.
EVENT_METRICS = ("densecap", "soda")


def style_model(folder: Path) -> Path:
    from captious.metrics.style.fitting import fit
    from captious.metrics.style.model_files import save

    corpus = [("gloomy", "a grey day on the grey ball"), ("happy", "a fine day a red dog runs")]
    save(fit(corpus), folder / "tiny.style")
    return folder / "tiny.style"


def meteor_data(folder: Path) -> Path:
    from tests.metrics.meteor.conftest import write_source

    return write_source(folder / "meteor")


def spice_original(folder: Path) -> Path:
    rows = [
        {"image_id": key, "scores": {"All": {"f": number / 50}, "Color": {"f": None if number % 3 else number / 40}}}
        for number, key in enumerate([*map(str, range(ITEMS)), *sorted(BROKEN)])
    ]
    (folder / "spice.json").write_text(json.dumps(rows))
    return folder / "spice.json"


def error_probabilities(folder: Path) -> Path:
    """Probabilities for three candidates of each item, one of which is above FENSE's threshold in every other item."""
    rows = [
        {"id": key, "error_probability": [0.1, 0.95 if number % 2 else 0.9, 0.3][: CANDIDATES.get(key, 3)]}
        for number, key in enumerate([*map(str, range(ITEMS)), *sorted(BROKEN)])
    ]
    (folder / "errors.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "errors.jsonl"


def detector(folder: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.models.fluency_checkpoint import write_detector

    return write_detector(folder / "detector", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])


def bert(folder: Path) -> Path:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    folder = folder / "bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=12, **shape)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=12).save_pretrained(folder)
    return folder


def bleurt(folder: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.metrics.bleurt_checkpoint import write_checkpoint

    return write_checkpoint(folder / "bleurt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS], embedding_size=8)


def umic(folder: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from captious.models.fusion import make_fusion

    with using(Runtime(device="cpu")):
        make_fusion("captious-mini", width=16).save(folder)
    return folder


def polos(folder: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.metrics.polos_checkpoint import write_polos

    return write_polos(folder / "polos")


def calibration(folder: Path, inputs: Sequence[str], fit: Curve | Ridge, form: str, column: str = "") -> Path:
    """A calibration with made-up numbers: ratings from 1 to 5, and 40 images."""
    known = [
        CalibratedInput(name, name, -1.0, 2.0, 0.0, 1.0, elsewhere=name == column) for name in (*inputs, column) if name
    ]
    errors = Errors(0.5, 0.4, 0.3, 0.6)
    facts = ((1.0, 5.0), "rating", 160, 40, 2.0, errors, 0.9, 0.8, 0.9, "ratings.jsonl", "0123456789ab")
    Calibration(tuple(known), form, fit, *facts).save(folder / "file.cal")
    return folder / "file.cal"


def line(folder: Path) -> Path:
    return calibration(folder, ["rouge"], Curve((0.0, 1.0), (1.5, 4.5)), "line")


def ridge(folder: Path) -> Path:
    """A metric with a corpus state, one without, and a column of values that were computed elsewhere."""
    fit = Ridge(3.0, (0.6, 0.3, 0.1), (0.2, 0.3, 1.0), (0.2, 0.1, 1.0), 1.0)
    return calibration(folder, ["cider", "bleu(n=2)"], fit, "ridge", "number")


def object_rows(folder: Path) -> Path:
    rows = [{"id": key, "objects": ["dog", "cat"][: number % 3]} for number, key in enumerate(map(str, range(ITEMS)))]
    (folder / "objects.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "objects.jsonl"


def amber_annotations(folder: Path) -> Path:
    rows = [{"id": number, "truth": ["dog", "ball", "dog"], "hallu": ["cat", "bird"]} for number in range(ITEMS)]
    (folder / "annotations.json").write_text(json.dumps(rows))
    (folder / "relation.json").write_text(json.dumps({"dog": ["puppy"], "ball": [], "cat": [], "bird": [], "day": []}))
    (folder / "safe_words.txt").write_text("day\n")
    return folder


def expert_prompt(folder: Path) -> Path:
    (folder / "prompt.txt").write_text("Caption: {caption}\nA number, please.")
    return folder / "prompt.txt"


def prompt(folder: Path) -> Path:
    (folder / "prompt.txt").write_text("Candidates:\n{candidates}\nReference captions:\n{references}\nJSON, please.")
    return folder / "prompt.txt"


QUESTIONS = (
    {"question": "Which animal is there?", "choices": ["dog", "cat", "bird"], "answer": "dog", "category": "animal"},
    {"question": "Is there a ball?", "choices": ["yes", "no"], "answer": "yes", "category": "thing", "parents": ["1"]},
    {"question": "Which color is there?", "choices": ["red", "blue"], "answer": "red", "category": "color"},
)


def question_rows(folder: Path) -> Path:
    rows = [{"id": key, "questions": QUESTIONS[: 1 + number % 3]} for number, key in enumerate(map(str, range(ITEMS)))]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "questions.jsonl"


def checklist(folder: Path) -> Path:
    rows = [
        {"id": key, "channel": "instance", "question": f"Does the caption mention {word}?"}
        for key in map(str, range(ITEMS))
        for word in ("dog", "red", "cat")
    ]
    (folder / "checklist.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "checklist.jsonl"


def propositions(folder: Path) -> Path:
    lines = ["item_id,text,proposition_id,dependency,category_broad,question_natural_language"]
    for key in map(str, range(ITEMS)):
        lines += [f"{key},x,1,0,entity,Is there a cat?", f"{key},x,2,1,attribute,Is it red?"]
        lines += [f"{key},x,3,0,entity,Is there a dog?"]
    (folder / "dsg.csv").write_text("\n".join(lines) + "\n")
    return folder / "dsg.csv"


def dsg_answers(folder: Path) -> Path:
    lines = ["t2i_model,item_id,question,question_id,dependency_id,answer"]
    for number, key in enumerate([*map(str, range(ITEMS)), "no image"]):
        lines += [f"sd,{key},Is there a dog?,1,0,{'no' if number % 3 else 'yes'}", f"sd,{key},Is it red?,2,1,yes"]
    (folder / "answers.csv").write_text("\n".join(lines) + "\n")
    return folder / "answers.csv"


def mixer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every painter of ImaginE is a `Mixer`, whose pictures have the colors of the text."""
    from tests.models.painters.painting import Mixer

    painter = Mixer()
    monkeypatch.setattr("captious.metrics.imagine.load_painter", lambda name, options: painter)


def judge(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat model of a judge is a function that answers as ``ANSWERS`` of tests/metrics/judges says."""
    from tests.metrics.judges.answers import ANSWERS
    from tests.models.chat.stub import StubModel

    if name in ANSWERS:
        StubModel(ANSWERS[name]).install(monkeypatch)


# Metrics whose encoder is a `ColorEncoder`.
COLOR_METRICS = (
    "clipscore",
    "refclipscore",
    "pacscore",
    "refpacscore",
    "longclip",
    "specs",
    "specs_routed",
    "emscore",
    "imagine",
)

# Written forms of each metric; a name in braces is a file that a function of this module writes.
EXAMPLES = {
    "bleu": ("bleu(n=1)", "bleu(n=4)", "bleu(tokenizer=13a)"),
    "rouge": ("rouge", "rouge(best=f)"),
    "rouge_n": ("rouge_n(n=2)", "rouge_n(n=1,value=recall,over=mean)"),
    "cider": ("cider", "cider(variant=plain)"),
    "meteor": ("meteor(resources={meteor})", "meteor(task=li,modules=exact+stem,resources={meteor})"),
    "spice": ("spice(resources={meteor})", "spice(subset=object,synsets=no,matching=one-to-one)"),
    "spice_original": ("spice_original(file={original})", "spice_original(file={original},subset=color)"),
    "spider": (
        "spider(resources={meteor})",
        "spider(best=yes,value=cider,resources={meteor})",
        "spider(fluency={errors},best=yes,resources={meteor})",
        "spider(spice={original},fluency=error_probability)",
    ),
    "capture": (
        "capture(weights={bert},resources={meteor})",
        "capture(subset=attribute,synonyms=no,soft=no,stop_words=no)",
    ),
    "chair": (
        *(f"chair(value={value})" for value in ("s", "i", "recall", "precision", "f1", "words", "tokens")),
        "chair(value=i,references=yes,lemmas=wordnet,truth_lemmas=singularize,count=distinct,max_words=4)",
        "chair(value=s,vocabulary=coco-repaired,last_sentence=drop,objects={objects})",
    ),
    "amber": (
        *(f"amber(value={value},annotations={{amber}},vectors=none)" for value in ("chair", "cover", "hal", "cog")),
        "amber(value=cog,annotations={amber},vectors=none,cog=nouns)",
    ),
    "aloha": (
        "aloha(weights={bert})",
        "aloha(weights={bert},detections=yes,unmatched=ignore)",
        "aloha(model=stub,weights={bert})",
    ),
    "bertscore": ("bertscore(weights={bert})", "bertscore(weights={bert},idf=refs,value=recall,baseline=0.1)"),
    "bleurt": ("bleurt(weights={bleurt})", "bleurt(weights={bleurt},over=mean,limit=12,activation=gelu_new)"),
    "sbert": ("sbert(weights={bert})", "sbert(weights={bert},over=mean)"),
    "fense": ("fense(weights={bert})", "fense(weights={bert},fluency={detector},threshold=0.5,penalty=0.5)"),
    "densecap": (
        "densecap(value=meteor,resources={meteor})",
        "densecap(value=meteor,rules=2018,files=2,resources={meteor})",
        "densecap(value=bleu-2,files=each)",
        "densecap(value=rouge,tiou=0.5,most=2)",
        "densecap(value=cider)",
        "densecap(value=cider,idf=all,files=each)",
        "densecap(value=precision)",
        "densecap(value=recall,files=each)",
        "densecap(value=f,files=each)",
    ),
    "soda": (
        "soda(score=meteor(resources={meteor}))",
        "soda(score=rouge,roles=exchanged,files=best)",
        "soda(value=recall,score=iou,files=merged)",
        "soda(value=precision,score=cider,files=2)",
    ),
    "div_n": ("div_n(n=2)", "div_n(n=3,strict=yes)"),
    "repetition": ("repetition(n=2)", "repetition(n=4,tokenizer=ptb)"),
    "diversity": ("diversity(n=1)", "diversity(n=2)"),
    "rep_diversity": ("rep_diversity",),
    "distinct_n": ("distinct_n(n=2)", "distinct_n(n=2,over=corpus)"),
    "mbleu": ("mbleu(n=4)",),
    "selfcider": ("selfcider",),
    "lsa": ("lsa",),
    "vocab_size": ("vocab_size",),
    "words": ("words",),
    "novelty": ("novelty",),
    "onlystyle": ("onlystyle(model={style})", "onlystyle(model={style},style=happy,unseen=skip,short=skip)"),
    "stylecider": ("stylecider(model={style})", "stylecider(model={style},references=max,tf=yes,scale=10)"),
    "clipscore": ("clipscore(weights=colors)", "clipscore(weights=short,value=raw)"),
    "refclipscore": ("refclipscore(weights=colors)", "refclipscore(weights=turned,clip_text=no)"),
    "pacscore": ("pacscore(weights=colors)", "pacscore(weights=colors,plus=yes)"),
    "refpacscore": ("refpacscore(weights=colors)", "refpacscore(weights=colors,plus=yes)"),
    "longclip": ("longclip(weights=short)",),
    "specs": ("specs(weights=colors)", "specs(weights=turned,value=paper)"),
    "specs_routed": tuple(
        f"specs_routed(short=colors,long=short,under=7,scale={scale})" for scale in ("unit", "own", "matched")
    ),
    # Values in batches, which rules=code has, depend on the neighbors of an item.
    "emscore": (
        "emscore(weights=colors)",
        "emscore(weights=short,against=video,value=full_p,coarse=0.25,special=none)",
        "emscore(weights=colors,against=references,value=fine_f,idf=refs)",
        "emscore(weights=turned,value=coarse)",
        "emscore(weights=colors,against=video,value=full_r,idf=candidates,rules=code,batch=1)",
    ),
    "umic": ("umic(weights={umic})",),
    # Values in batches depend on the neighbors of an item, so that parts of a set are refused.
    "polos": ("polos(weights={polos})",),
    "calibrated": (
        "calibrated(file={line})",
        "calibrated(file={line},value=low)",
        "calibrated(file={ridge})",
        "calibrated(file={ridge},value=high)",
    ),
    "imagine": (
        "imagine(kind=image,painter=mixer,weights=colors,seeds=2)",
        "imagine(kind=text&image,painter=mixer,weights=colors,seeds=2,against=source)",
    ),
    "clair": ("clair(model=stub)", "clair(model=stub,prompt={prompt})", "clair(model=stub,reason=no)"),
    "fleur": (
        "fleur(model=stub)",
        "fleur(model=stub,renormalize=yes,why=yes)",
        "fleur(model=stub,context=references,answer=yes-no)",
        "fleur(model=stub,smoothing=samples,samples=3)",
        "fleur(model=stub,preset=expert,prompt={expert})",
    ),
    "reffleur": ("reffleur(model=stub)", "reffleur(model=stub,smoothing=none)"),
    "gpt4eval": ("gpt4eval(model=stub)", "gpt4eval(model=stub,value=ratio,swap=yes)"),
    "gveval": ("gveval(model=stub)", "gveval(model=stub,mode=references)", "gveval(model=stub,mode=image,samples=2)"),
    "faithscore": ("faithscore(model=stub)", "faithscore(model=stub,level=sentence)"),
    "rlaifv": ("rlaifv(model=stub)", "rlaifv(model=stub,value=rejected)", "rlaifv(model=stub,value=probability)"),
    "dcscore": ("dcscore(model=stub)", "dcscore(model=stub,value=recall,samples=2,sharing=all)"),
    "captionqa": (
        "captionqa(model=stub,questions={questions})",
        "captionqa(model=stub,value=accuracy,questions={questions},ask=together)",
        "captionqa(model=stub,value=cannot,questions={questions},category=animal,yes_no=original,credit=0.1)",
    ),
    "capeval": (
        "capeval(model=stub,questions={checklist})",
        "capeval(model=stub,value=precision,questions={checklist},ask=each)",
        "capeval(model=stub,value=f1,questions={checklist},schema=yes,missing=skip)",
    ),
    "vdc": ("vdc(model=stub,questions={questions})", "vdc(model=stub,value=score,questions={questions})"),
    "autodq": (
        "autodq(model=stub)",
        "autodq(model=stub,value=recall,empty=one)",
        "autodq(model=stub,value=precision,schema=yes)",
    ),
    "tifa": ("tifa(model=stub,questions={questions})",),
    "dsg": (
        "dsg(model=stub,questions={propositions})",
        "dsg(model=stub,questions={propositions},dependencies=no)",
        "dsg(answers={answers})",
    ),
    "vqascore": ("vqascore(model=stub)", "vqascore(model=stub,normalize=yes)"),
}

FILES = {
    "prompt": prompt,
    "expert": expert_prompt,
    "questions": question_rows,
    "checklist": checklist,
    "propositions": propositions,
    "answers": dsg_answers,
    "objects": object_rows,
    "amber": amber_annotations,
    "original": spice_original,
    "errors": error_probabilities,
    "detector": detector,
    "meteor": meteor_data,
    "bert": bert,
    "bleurt": bleurt,
    "style": style_model,
    "umic": umic,
    "polos": polos,
    "line": line,
    "ridge": ridge,
}
