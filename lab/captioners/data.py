"""The packed file as training pairs: an image, a style and a caption as word numbers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lab.captioners.pack import STYLES, restore

PAD, START, END, UNKNOWN = range(4)
# Words of a caption; 95 % of them are shorter.
LONGEST = 20
# Words of a dense caption.
LONGEST_DENSE = 16
# A word of fewer training captions is unknown.
RARE = 3
# Style of a caption that has none.
NO_STYLE = -1


def words_of(caption: str) -> list[str]:
    """Return words in lower case, without punctuation.

    >>> words_of("a dog 's life , well-deserved .")
    ['a', 'dog', 's', 'life', 'well-deserved']
    """
    return re.findall(r"[a-z0-9]+(?:['-][a-z0-9]+)*", caption.lower())


class Vocabulary:
    """Words by number, the most frequent first, after the four special ones."""

    def __init__(self, captions: Iterable[str]) -> None:
        count = Counter(word for caption in captions for word in set(words_of(caption)))
        frequent = sorted((word for word in count if count[word] >= RARE), key=lambda word: (-count[word], word))
        self.words = ["<pad>", "<start>", "<end>", "<unknown>", *frequent]
        self.number = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, caption: str, longest: int = LONGEST) -> list[int]:
        """Return word numbers and the end."""
        return [self.number.get(word, UNKNOWN) for word in words_of(caption)[:longest]] + [END]

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the words up to the end."""
        words = []
        for number in numbers:
            if number in (END, PAD):
                break
            words.append(self.words[number])
        return " ".join(words)


class Inputs(NamedTuple):
    """What captioners read of some images, a row each."""

    regions: torch.Tensor
    pooled: torch.Tensor
    dense: torch.Tensor
    """Words of the borrowed captions: images × captions × words."""
    style: torch.Tensor


class Batch(NamedTuple):
    """Some training pairs; the words of each end with END and are filled up with PAD."""

    inputs: Inputs
    words: torch.Tensor


@dataclass(frozen=True)
class Pairs:
    """Pairs of image, style and caption."""

    data: Data
    image: torch.Tensor
    style: torch.Tensor
    words: torch.Tensor
    lengths: torch.Tensor

    def batches(self, size: int, order: torch.Tensor) -> Iterator[Batch]:
        """Yield batches in an order of the pairs, each as wide as its longest caption."""
        for chosen in order.split(size):
            width = int(self.lengths[chosen].max())
            on_device = chosen.to(self.data.device)
            yield Batch(
                self.data.read_inputs(self.image[on_device], self.style[on_device]), self.words[on_device, :width]
            )

    def __len__(self) -> int:
        return len(self.lengths)


class Data:
    """Images with their features, the vocabulary of the training captions, and the pairs of each split."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        with np.load(path) as stored:
            arrays = dict(stored)
        self.device = torch.device(device)
        self.rows = json.loads(arrays["rows"].tobytes())
        self.regions = torch.from_numpy(restore(arrays, "regions_").astype(np.float16)).to(device)
        self.pooled = torch.from_numpy(restore(arrays, "pooled_")[:, 0].astype(np.float16)).to(device)
        training = [row[style] for row in self.rows if row["split"] == "train" for style in STYLES]
        self.vocabulary = Vocabulary(training)
        self.dense = self._fill([self._borrow(row["neighbours"]) for row in self.rows])

    def _borrow(self, neighbours: Sequence[int]) -> list[list[int]]:
        """Return a factual caption of each neighbour, as words."""
        captions = [self.rows[index]["factual"][0] for index in neighbours]
        return [self.vocabulary.encode(caption, LONGEST_DENSE) for caption in captions]

    def _fill(self, captions: list[list[list[int]]]) -> torch.Tensor:
        rows = [torch.tensor(words) for several in captions for words in several]
        words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        return words.reshape(len(captions), -1, words.shape[1]).to(self.device)

    def images(self, split: str) -> list[int]:
        """Return the indices of the images of a split."""
        return [index for index, row in enumerate(self.rows) if row["split"] == split]

    def read_inputs(self, image: torch.Tensor, style: torch.Tensor) -> Inputs:
        """Return what captioners read of these images."""
        return Inputs(self.regions[image].float(), self.pooled[image].float(), self.dense[image], style)

    def pairs(self, split: str) -> Pairs:
        """Return a pair for each image and style."""
        owners = [(image, style) for image in self.images(split) for style in range(len(STYLES))]
        return self._pair(owners, [self.rows[image][STYLES[style]] for image, style in owners])

    def factual_pairs(self) -> Pairs:
        """Return the training images with their factual captions, which have no style."""
        captions = [(image, caption) for image in self.images("train") for caption in self.rows[image]["factual"]]
        return self._pair([(image, NO_STYLE) for image, _ in captions], [caption for _, caption in captions])

    def _pair(self, owners: list[tuple[int, int]], captions: list[str]) -> Pairs:
        image, style = torch.tensor(owners, device=self.device).T
        rows = [torch.tensor(self.vocabulary.encode(caption)) for caption in captions]
        words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(self.device)
        return Pairs(self, image, style, words, torch.tensor([len(caption) for caption in rows]))
