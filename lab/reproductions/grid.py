"""Table 5 of SPECS on photographs: the grid of its settings, one axis at a time, after a LongCLIP stage.

    python -m lab.reproductions grid prepare --minilm parts/minilm --out gpu-data/specs   # 7 MB, once
    python -m lab.reproductions grid run --data gpu-data/specs --out grid                 # a GPU: minutes
    python -m lab.reproductions grid show                                                 # the tables of the stored run

The photographs are Flickr8k's, as stored features of DINOv2-S (their 256 largest principal components); the image
tower is locked, its head learns. The text tower has the first three layers of MiniLM and the word pieces that the
captions use, stored in 4 bits; all of it learns. A seed trains a CLIP on the images outside the dev and test splits,
from it a LongCLIP on the five captions of an image joined to one, and from that one model for each setting of SPECS.
Every number is of the test split. A wrong detail is a sentence of another image.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from lab.benchmarks.measure import table
from lab.reproductions.photographs import SHARED, sentence

from captious.models._model_tokenizers import read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import wrap
from captious.models.dual import DualEncoder, DualHeads, DualModule
from captious.probes.retrieval import rank_both_ways
from captious.probes.specificity import Steps
from captious.probes.vectors import Vectors
from captious.stats.correlation import Moments, WithinImage
from captious.stats.kendall import Kendall
from captious.train._contrast import LongShort, SoftContrast, cut_first_sentence
from captious.train._data import Example, tokenize_texts
from captious.train._loop import make_optimizer, prepare_batches, set_train_mode
from captious.train._objective import Objective
from captious.train._schedule import EpochPlan, compute_rate
from captious.train._specs import Chains, Margin, NegativeUnits, SpecsObjective, build_chains
from captious.train._towers import Towers, lock, normalize
from captious.train.training_options import Settings

COMPONENTS, LAYERS, TOKENS, GROUP, LEVELS = 256, 3, 248, 32, 7
# The settings of photographs.py, for two towers of which the image tower is locked.
CLIP = Settings(epochs=30, batch_size=512, head_lr=1e-3, weight_decay=0.1, beta2=0.98, clip_norm=1.0)
# Of the text tower; the best on the dev split is taken.
RATES = (1e-4, 3e-4, 6e-4)
LONG = Settings(epochs=6, batch_size=200, lr=1e-4, warmup_steps=20)
SPECS = Settings(epochs=5, batch_size=128, lr=3e-5, warmup_steps=40)
ENCODED = 512
# What three seeds gave on an H200.
STORED = Path(__file__).with_name("grid_runs")


@dataclass(frozen=True)
class Setting:
    """One setting of SPECS' training; the defaults are the published best."""

    weights: tuple[float, float, float] = (1.0, 8.0, 0.8)
    lr: float = 1.0
    """The learning rate, as a share of the best one: 1e-5 in the paper, 3e-5 here."""
    margin: str = "code"
    units: str = "logit"
    shuffle: float = 0.9


BEST = "best: 1:8:0.8, hinge in logits, 90 % shuffled"
# Table 5's axes; those after "more" are not in the paper.
GRID = {
    BEST: Setting(),
    "weights 1:8:0.6": Setting(weights=(1.0, 8.0, 0.6)),
    "weights 1:9:0.8": Setting(weights=(1.0, 9.0, 0.8)),
    "a tenth of the learning rate": Setting(lr=0.1),
    "half of the learning rate": Setting(lr=0.5),
    "fixed margin 0.001": Setting(margin="0.001"),
    "50 % shuffled": Setting(shuffle=0.5),
    "100 % shuffled": Setting(shuffle=1.0),
    "more: hinge in cosines": Setting(units="cosine"),
    "more: fixed margin 0.001 in cosines": Setting(margin="0.001", units="cosine"),
    "more: margins of the batch, as the paper": Setting(margin="paper"),
    "more: three times the learning rate": Setting(lr=3.0),
    "more: weights 1:1:1": Setting(weights=(1.0, 1.0, 1.0)),
    "more: nothing shuffled": Setting(shuffle=0.0),
}
# SR_pos, SR_neg and their average in Table 5; LongCLIP* is of Table 1.
PUBLISHED = {
    "CLIP": (62.61, 68.28, 65.44),
    "LongCLIP": (58.64, 77.03, 67.83),
    BEST: (95.37, 90.37, 92.87),
    "weights 1:8:0.6": (85.85, 82.33, 84.09),
    "weights 1:9:0.8": (87.39, 86.59, 86.99),
    "a tenth of the learning rate": (77.22, 68.64, 72.93),
    "half of the learning rate": (83.57, 76.54, 80.55),
    "fixed margin 0.001": (80.18, 65.80, 72.99),
    "50 % shuffled": (83.12, 87.33, 85.22),
    "100 % shuffled": (87.27, 83.11, 85.19),
}


def prepare(flickr: Path, composite: Path, minilm: Path, out: Path) -> None:
    """Write what a run needs: features of the photographs, the texts with people's ratings, and the text tower."""
    out.mkdir(parents=True, exist_ok=True)
    ids, rows = _prepare_images(flickr, out)
    known = {name: number for number, name in enumerate(ids)}
    split = {name: set((flickr / f"{name}_ids.txt").read_text().split()) for name in ("dev", "test")}
    captions = [json.loads(line) for line in (flickr / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    texts: dict[str, Any] = {"train": [], "dev": [], "test": []}
    for row in captions:
        if row["id"] in known:
            where = next((name for name, keys in split.items() if row["id"] in keys), "train")
            texts[where].append([known[row["id"]], row["references"]])
    expert = [json.loads(line) for line in (flickr / "expert.jsonl").read_text(encoding="utf-8").splitlines()]
    with gzip.open(composite, "rt", encoding="utf-8") as lines:
        rated = [json.loads(line) for line in lines]
    texts["expert"] = [[known[row["image"]], row["caption"], row["ratings"]] for row in expert]
    texts["composite"] = [[known[row["image"]], row["caption"], row["rating"]] for row in rated]
    with gzip.GzipFile(out / "texts.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(texts, separators=(",", ":")).encode())
    every = [text for name in split | {"train": None} for _, each in texts[name] for text in each]
    every += [row[1] for name in ("expert", "composite") for row in texts[name]]
    pieces = _prepare_text_tower(minilm, every, out)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{rows} photographs, {len(every):,} texts, {pieces:,} word pieces: {size / 1e6:.1f} MB in {out}/")


def _prepare_images(flickr: Path, out: Path) -> tuple[list[str], int]:
    """Write the principal components of the stored features, in 8 bits."""
    with np.load(flickr / "dinov2_small.npz") as stored:
        ids, features = stored["ids"].tolist(), stored["features"] * stored["scale"]
    centered = features - features.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    turned = centered @ vectors[:, : -COMPONENTS - 1 : -1]
    scale = np.abs(turned).max(axis=0) / 127
    np.savez_compressed(out / "images.npz", features=np.round(turned / scale).astype(np.int8), scale=scale)
    kept = float((turned**2).sum() / (centered**2).sum())
    print(f"{COMPONENTS} components keep {100 * kept:.1f} % of the variance of the features")
    return [name if name.endswith(".jpg") else f"{name}.jpg" for name in ids], len(ids)


def _prepare_text_tower(minilm: Path, texts: Sequence[str], out: Path) -> int:
    """Write the first layers of MiniLM, with the word pieces that the texts use, in 4 bits."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    encodings = Tokenizer.from_file(str(minilm / "tokenizer.json")).encode_batch([*texts, *map(sentence, texts)])
    used = sorted({number for encoding in encodings for number in encoding.ids} | {0, 100, 101, 102, 103})
    definition = json.loads((minilm / "tokenizer.json").read_text(encoding="utf-8"))
    by_number = {number: piece for piece, number in definition["model"]["vocab"].items()}
    new = {old: number for number, old in enumerate(used)}
    definition["model"]["vocab"] = {by_number[old]: number for old, number in new.items()}
    definition["truncation"] = definition["padding"] = None
    for token in definition["added_tokens"]:
        token["id"] = new[token["id"]]
    for _, token in sorted(definition["post_processor"].get("special_tokens", {}).items()):
        token["ids"] = [new[old] for old in token["ids"]]
    for side in ("sep", "cls"):
        if side in definition["post_processor"]:
            token, old = definition["post_processor"][side]
            definition["post_processor"][side] = [token, new[old]]
    (out / "tokenizer.json").write_text(json.dumps(definition, ensure_ascii=False), encoding="utf-8")
    config = json.loads((minilm / "config.json").read_text(encoding="utf-8"))
    config |= {"vocab_size": len(used), "num_hidden_layers": LAYERS, "max_position_embeddings": TOKENS}
    (out / "config.json").write_text(json.dumps(config), encoding="utf-8")
    arrays: dict[str, Any] = {}
    for name, array in load_file(minilm / "model.safetensors").items():
        name = name.removeprefix("bert.")
        if (name.startswith("encoder.layer.") and int(name.split(".")[2]) >= LAYERS) or "pooler" in name:
            continue
        if name == "embeddings.position_ids":
            continue
        array = array[used] if "word_embeddings" in name else array
        array = array[:TOKENS] if "position_embeddings" in name else array
        if array.ndim == 2:
            arrays[f"{name}:codes"], arrays[f"{name}:scale"] = pack_weights(array)
        else:
            arrays[name] = array.astype(np.float16)
    np.savez_compressed(out / "text.npz", **arrays)
    return len(used)


def pack_weights(matrix: Any) -> tuple[Any, Any]:
    """Return a matrix in 4 bits, two numbers a byte, and the scale of each group of 32 numbers.

    >>> unpack_weights(*pack_weights(np.linspace(-7, 7, 64).reshape(2, 32)))[1, -3:].round(1).tolist()
    [7.0, 7.0, 7.0]
    """
    groups = matrix.reshape(len(matrix), -1, GROUP)
    scale = np.abs(groups).max(axis=2, keepdims=True) / LEVELS
    codes = (np.round(groups / np.where(scale > 0, scale, 1)) + LEVELS).astype(np.uint8).reshape(len(matrix), -1)
    return codes[:, ::2] | codes[:, 1::2] << 4, scale[..., 0].astype(np.float16)


def unpack_weights(packed: Any, scale: Any) -> Any:
    """Return the matrix of `pack_weights`, up to rounding."""
    codes = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1).astype(np.float32) - LEVELS
    return (codes.reshape(len(packed), -1, GROUP) * scale[..., None].astype(np.float32)).reshape(len(packed), -1)


class StoredFeatures(torch.nn.Module):
    """An image tower whose outputs are stored already."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=width, image_size=1, model_type="stored")


@dataclass
class Data:
    """What `prepare` wrote; an image is its row among the features."""

    features: Any
    texts: dict[str, Any]
    folder: Path

    @classmethod
    def read(cls, folder: Path, limit: int = 0) -> Data:
        """Read the folder; ``limit`` keeps so many images of each split, for a trial."""
        with np.load(folder / "images.npz") as stored:
            features = torch.from_numpy((stored["features"] * stored["scale"]).astype(np.float32))
        with gzip.open(folder / "texts.json.gz", "rt", encoding="utf-8") as file:
            texts = json.load(file)
        if limit:
            texts = {name: rows[:limit] for name, rows in texts.items()}
        return cls(features, texts, folder)

    def make_encoder(self, seed: int, device: str) -> DualEncoder:
        """Make the two towers with new heads; the image tower is locked."""
        import transformers

        torch.manual_seed(seed)
        with np.load(self.folder / "text.npz") as stored:
            arrays = {name: stored[name] for name in stored.files if ":" not in name}
            matrices = sorted({name.partition(":")[0] for name in stored.files if ":" in name})
            arrays |= {name: unpack_weights(stored[f"{name}:codes"], stored[f"{name}:scale"]) for name in matrices}
        config = transformers.BertConfig.from_pretrained(self.folder)
        text = transformers.BertModel(config, add_pooling_layer=False)
        state = {name: torch.from_numpy(np.asarray(array, np.float32)) for name, array in arrays.items()}
        left = text.load_state_dict(state, strict=False)
        if [name for name in left.missing_keys if not name.endswith("position_ids")] or left.unexpected_keys:
            raise SystemExit(f"{self.folder}/text.npz does not fit its config.json: {left}")
        shape = DualHeads(image_pooling="pooler")
        module = DualModule(StoredFeatures(self.features.shape[1]), text, shape)
        tokenizer = read_tokenizer(self.folder, TOKENS)
        plain = wrap(module, tokenizer, ImagePreprocessing(1, 1), "stored+minilm", device, "fp32")
        values = {name: value for name, value in vars(plain).items() if not name.startswith("_")}
        encoder = DualEncoder(**values, shape=shape)
        lock(encoder, ("image",))
        return encoder

    def make_towers(self, encoder: DualEncoder) -> Towers:
        """Return towers that know the features of every photograph."""
        towers = Towers(encoder, None, ("image",))  # type: ignore[arg-type] - no picture is opened
        towers.add_image_features(range(len(self.features)), self.features)
        return towers

    def list_long(self, name: str) -> list[Example]:
        """The captions of an image as one text of five sentences."""
        rows = [(image, tuple(map(sentence, texts))) for image, texts in self.texts[name]]
        return [Example(str(image), Path(str(image)), (" ".join(units),), units) for image, units in rows]


def fit(objective: Objective, settings: Settings, seed: int) -> float:
    """Train an objective to the end; return the seconds."""
    started, encoder = time.perf_counter(), objective.model
    batch = min(settings.batch_size or 1, len(objective))
    plan = EpochPlan(len(objective), batch, settings.accumulate, settings.epochs or 1, seed)
    warmup, kind = min(settings.warmup_steps, plan.steps // 5), encoder.device.type
    torch.manual_seed(seed)
    optimizer = make_optimizer(encoder.module, settings, kind)
    set_train_mode(encoder.module)
    for step, batches in enumerate(prepare_batches(plan, objective, 0, 1)):
        for group in optimizer.param_groups:
            group["lr"] = (settings.lr or 0.0) * compute_rate(step, plan.steps, warmup) * group["times"]
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            loss = objective.parts(batches)["loss"]
        loss.backward()
        if settings.clip_norm:
            torch.nn.utils.clip_grad_norm_(encoder.module.parameters(), settings.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()
    encoder.module.eval()
    return time.perf_counter() - started


def choose_clip(data: Data, seed: int, settings: Settings, device: str) -> tuple[DualEncoder, dict[str, float]]:
    """Train a CLIP at each learning rate; return the one with the highest recall at 1 on the dev split."""
    started, best, recalls = time.perf_counter(), data.make_encoder(seed, device), {}
    for rate in RATES:
        encoder = data.make_encoder(seed, device)
        train_clip(data, encoder, seed, replace(settings, lr=rate))
        with torch.no_grad():
            judge = Judge(data, encoder)
            judge.encode_images()
            recall = judge.retrieve("dev")
        recalls[rate] = (recall["short_to_image_r1"] + recall["image_to_short_r1"]) / 2
        if recalls[rate] == max(recalls.values()):
            best = encoder
    chosen = {
        "seconds": time.perf_counter() - started,
        **{f"dev_recall_{rate:g}": one for rate, one in recalls.items()},
    }
    return best, chosen


def train_clip(data: Data, encoder: DualEncoder, seed: int, settings: Settings) -> float:
    """Contrast of images with their five captions, half of each target as similar as the captions are."""
    rows = data.texts["train"]
    first = np.cumsum([0, *(len(texts) for _, texts in rows)])
    captions = tokenize_texts(encoder, [text for _, texts in rows for text in texts])
    images = np.array([image for image, _ in rows])
    towers = data.make_towers(encoder)
    objective = SoftContrast(towers, captions, first, images, seed, gather=False, per_image=5, soften=0.5)
    return fit(objective, settings, seed)


def train_long(data: Data, encoder: DualEncoder, seed: int, settings: Settings) -> float:
    """The LongCLIP stage: joined captions, and their first sentences with coarse features of the images."""
    examples = data.list_long("train")
    encoder.logit_scale.data.fill_(4.6052)
    long = tokenize_texts(encoder, [example.captions[0] for example in examples])
    short = tokenize_texts(encoder, [cut_first_sentence(example.captions[0]) for example in examples])
    images = np.array([int(example.id) for example in examples])
    return fit(LongShort(data.make_towers(encoder), long, short, images, gather=False), settings, seed)


def train_specs(data: Data, encoder: DualEncoder, seed: int, setting: Setting, settings: Settings) -> float:
    """The specificity training under one setting."""
    examples = data.list_long("train")
    images = np.array([int(example.id) for example in examples])
    chains, rows = build_chains(examples, images, NegativeUnits("dataset", setting.shuffle, seed=seed), encoder)
    full = tokenize_texts(encoder, [examples[row].captions[0] for row in rows])
    objective = SpecsObjective(
        data.make_towers(encoder), full, chains, setting.weights, Margin.named(setting.margin), units=setting.units
    )  # type: ignore[arg-type]
    return fit(objective, replace(settings, lr=setting.lr * (settings.lr or 0.0)), seed)


@dataclass
class Judge:
    """The test split: specificity, retrieval, and people's ratings of captions."""

    data: Data
    encoder: DualEncoder
    chains: Chains = field(init=False)

    def __post_init__(self) -> None:
        examples = self.data.list_long("test")
        images = np.array([int(example.id) for example in examples])
        negatives = NegativeUnits("dataset", 0.0, seed=42)
        self.chains, _ = build_chains(examples, images, negatives, self.encoder)

    def measure(self) -> dict[str, float]:
        """All numbers of a model."""
        with torch.no_grad():
            self.encode_images()
            return {**self._rate_specificity(), **self.retrieve("test"), **self._agree()}

    def encode_images(self) -> None:
        """Compute the vectors of all photographs."""
        towers = self.data.make_towers(self.encoder)
        every = towers.make_image_batch(np.arange(len(self.data.features)))
        self.images = normalize(towers.images(every)).float().cpu().numpy()

    def _encode(self, tokens: Sequence[Any]) -> Any:
        towers = Towers(self.encoder, None, ("image",))  # type: ignore[arg-type]
        order = np.argsort([len(one) for one in tokens], kind="stable")
        parts = []
        for at in range(0, len(order), ENCODED):
            batch = towers.make_text_batch([[tokens[row]] for row in order[at : at + ENCODED]])
            parts.append(normalize(towers.texts(batch)).float().cpu().numpy())
        rows = np.empty((len(order), parts[0].shape[1]), np.float32)
        rows[order] = np.concatenate(parts)
        return rows

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        lists = tokenize_texts(self.encoder, texts)
        return self._encode([self.chains.frame.around(lists[row]) for row in range(len(lists))])

    def _rate_specificity(self) -> dict[str, float]:
        """Rates over all steps, with the right images and, as a control, each with that of the next caption."""
        tokens, owner = [], []
        for row, count in enumerate(self.chains.usable.tolist()):
            triplets = self.chains.make_triplets(np.full(count, row), np.arange(count))
            tokens += [triplets[0][0], *(right for _, right, _ in triplets), *(wrong for _, _, wrong in triplets)]
            owner += [row] * (2 * count + 1)
        texts, usable = self._encode(tokens), np.asarray(self.chains.usable, np.int64)
        rates = {}
        for name, shown in (("", self.chains.images), ("wrong_image_", np.roll(self.chains.images, -1))):
            values = np.einsum("ij,ij->i", texts, self.images[shown[owner]]).astype(np.float64)
            positive, negative = 100 * Steps.of(values, usable + 1, usable).hits().mean(axis=0)
            both = (positive + negative) / 2
            rates |= {f"{name}sr_pos": positive, f"{name}sr_neg": negative, f"{name}average": both}
        return rates

    def retrieve(self, split: str) -> dict[str, float]:
        """Return recall at 1 among the images of a split, by single captions and by all five as one text."""
        rows, rates = self.data.texts[split], {}
        images = self.images[[image for image, _ in rows]]
        long = [[" ".join(map(sentence, texts))] for _, texts in rows]
        for name, lists in (("short", [texts for _, texts in rows]), ("long", long)):
            owner = np.repeat(np.arange(len(rows)), [len(texts) for texts in lists])
            texts = self._encode_texts([text for texts in lists for text in texts])
            to_image, to_text = rank_both_ways(Vectors.of(images), Vectors.of(texts), owner)
            rates[f"{name}_to_image_r1"] = 100 * float(to_image.hits(1).mean())
            rates[f"image_to_{name}_r1"] = 100 * float(to_text.hits(1).mean())
        return rates

    def _agree(self) -> dict[str, float]:
        """Return tau-c on Flickr8k-Expert, each rating a row; the numbers of Table 6 on Composite's Flickr8k."""
        numbers = {}
        for name in ("expert", "composite"):
            rows = self.data.texts[name]
            image = np.array([row[0] for row in rows])
            cosines = np.einsum("ij,ij->i", self._encode_texts([row[1] for row in rows]), self.images[image])
            values, cluster = cosines.astype(np.float64), np.unique(image, return_inverse=True)[1]
            one = np.ones((int(cluster.max()) + 1, 1))
            if name == "expert":
                rater = np.repeat(np.arange(len(rows)), [len(row[2]) for row in rows])
                ratings = np.array([rating for row in rows for rating in row[2]], np.float64)
                tau = Kendall.of(values[rater], ratings, cluster=cluster[rater])
                numbers["expert_tau_c"] = 100 * float(tau(one)["tau_c"][0])
                continue
            human = np.array([row[2] for row in rows], np.float64)
            moments = Moments.of((values + 1) / 2, human, cluster, len(one), (1.0, 5.0))(one)
            numbers["composite_pcc"] = float(moments["pearson"][0])
            numbers["composite_one_minus_r2"] = float(moments["one_minus_r2"][0])
            numbers["composite_tau_b"] = float(Kendall.of(values, human, cluster=cluster)(one)["tau_b"][0])
            within = WithinImage.of(values, human, cluster, len(one))(one)
            numbers["composite_sample_tau"] = float(within["sample_tau"][0])
        return numbers


def run_seed(data: Data, out: Path, seed: int, device: str, short: bool) -> None:
    """Train and measure all models of a seed; the file is written anew after each of them."""
    clip, long, specs = (replace(one, epochs=1) if short else one for one in (CLIP, LONG, SPECS))
    found: dict[str, Any] = {}

    def keep(name: str, trained: DualEncoder, facts: Mapping[str, float]) -> None:
        scale = float(trained.logit_scale.detach().exp())
        found[name] = {**facts, "scale": scale, **Judge(data, trained).measure()}
        (out / f"seed-{seed}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(
            f"seed {seed}: {name}: " + " ".join(f"{key} {value:.2f}" for key, value in found[name].items()), flush=True
        )

    encoder, facts = choose_clip(data, seed, clip, device)
    keep("CLIP", encoder, facts)
    keep("LongCLIP", encoder, {"seconds": train_long(data, encoder, seed, long)})
    for name, setting in GRID.items():
        copied = copy.deepcopy(encoder)
        keep(name, copied, {"seconds": train_specs(data, copied, seed, setting, specs)})


def read_runs(out: Path) -> dict[str, dict[str, list[float]]]:
    """Every number of every model, one for each seed that has it."""
    runs: dict[str, dict[str, list[float]]] = {}
    for path in sorted(out.glob("seed-*.json")):
        for name, numbers in json.loads(path.read_text(encoding="utf-8")).items():
            for key, value in numbers.items():
                runs.setdefault(name, {}).setdefault(key, []).append(value)
    return runs


def show(out: Path) -> str:
    """The tables: means over seeds ± their standard deviation, beside the published numbers."""
    runs = read_runs(out)
    rates = ["sr_pos", "sr_neg", "average", "wrong_image_average", "short_to_image_r1", "image_to_short_r1"]
    people = ["expert_tau_c", "composite_pcc", "composite_one_minus_r2", "composite_tau_b", "composite_sample_tau"]
    first = [
        ["setting", "SR_pos", "SR_neg", "average", "average, wrong image", "R@1 →image", "R@1 →caption", "published"]
    ]
    second = [["model", "Expert τ-c", "PCC", "1−R²", "τ-b", "sample τ"]]
    for name, numbers in runs.items():
        published = " / ".join(f"{one:.2f}" for one in PUBLISHED.get(name, ()))
        first.append([name, *(_spread(numbers, key, 2) for key in rates), published])
        if people[0] in numbers:
            second.append([name, _spread(numbers, people[0], 2), *(_spread(numbers, key, 3) for key in people[1:])])
    return f"{table(first)}\n\n{table(second)}"


def _spread(numbers: Mapping[str, Sequence[float]], key: str, decimals: int) -> str:
    values = np.array(numbers.get(key, ()))
    spread = f" ± {values.std(ddof=1):.{decimals}f}" if len(values) > 1 else ""
    return f"{values.mean():.{decimals}f}{spread}" if len(values) else "–"


def run(options: argparse.Namespace) -> None:
    """All seeds, each in a process of its own: they share the GPU."""
    options.out.mkdir(parents=True, exist_ok=True)
    if len(options.seeds) == 1:
        torch.set_num_threads(4)
        data = Data.read(options.data, options.limit)
        run_seed(data, options.out, options.seeds[0], options.device, bool(options.limit))
        return
    shared = [
        f"--data={options.data}",
        f"--out={options.out}",
        f"--limit={options.limit}",
        f"--device={options.device}",
    ]
    command = [sys.executable, "-m", "lab.reproductions", "grid", "run", *shared]
    running = [subprocess.Popen([*command, f"--seeds={seed}"]) for seed in options.seeds]
    failed = [seed for seed, process in zip(options.seeds, running, strict=True) if process.wait()]
    print(show(options.out))
    if failed:
        raise SystemExit(f"seeds that failed: {failed}")


def _read_seeds(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Prepare, run or show."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.reproductions grid",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["prepare", "run", "show"])
    parser.add_argument("--flickr", type=Path, default=SHARED / "flickr8k")
    parser.add_argument("--composite", type=Path, default=SHARED / "umic_published" / "composite_flickr8k.jsonl.gz")
    parser.add_argument("--minilm", type=Path, help="the folder minilm that lab/reproductions/parts.py wrote")
    parser.add_argument("--data", type=Path, default=Path("gpu-data/specs"), help="what prepare wrote")
    parser.add_argument("--out", type=Path, help="what to write, or for show a folder that run wrote")
    parser.add_argument("--seeds", type=_read_seeds, default=[0, 1, 2], metavar="0,1,2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int, default=0, help="a trial on so many images of each split, one epoch")
    options = parser.parse_args()
    if options.what == "show":
        print(show(options.out or STORED))
        return
    if options.out is None or (options.what == "prepare" and options.minilm is None):
        raise SystemExit("prepare needs --out FOLDER and --minilm FOLDER, run needs --out FOLDER")
    if options.what == "prepare":
        prepare(options.flickr, options.composite, options.minilm, options.out)
    else:
        run(options)


if __name__ == "__main__":
    main()
