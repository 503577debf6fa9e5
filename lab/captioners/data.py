"""The packed file as training pairs: an image, a style and a caption as word numbers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lab.captioners.pack import STYLES

PAD, START, END, UNKNOWN = range(4)
# Words of a caption; 95 % of them are shorter.
LONGEST = 20
# A word of fewer training captions is unknown.
RARE = 3


def words_of(caption: str) -> list[str]:
    """Words in lower case, without punctuation.

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

    def encode(self, caption: str) -> list[int]:
        """Word numbers and the end."""
        return [self.number.get(word, UNKNOWN) for word in words_of(caption)[:LONGEST]] + [END]

    def decode(self, numbers: Iterable[int]) -> str:
        """The words up to the end."""
        words = []
        for number in numbers:
            if number in (END, PAD):
                break
            words.append(self.words[number])
        return " ".join(words)


class Batch(NamedTuple):
    """Some training pairs; the words of each end with END and are filled up with PAD."""

    features: torch.Tensor
    style: torch.Tensor
    words: torch.Tensor


@dataclass(frozen=True)
class Pairs:
    """All pairs of image, style and caption of one split."""

    features: torch.Tensor
    image: torch.Tensor
    style: torch.Tensor
    words: torch.Tensor
    lengths: torch.Tensor

    def batches(self, size: int, order: torch.Tensor) -> Iterator[Batch]:
        """Batches in an order of the pairs, each as wide as its longest caption."""
        for chosen in order.split(size):
            width = int(self.lengths[chosen].max())
            on_device = chosen.to(self.features.device)
            features = self.features[self.image[on_device]].float()
            yield Batch(features, self.style[on_device], self.words[on_device, :width])

    def __len__(self) -> int:
        return len(self.lengths)


class Data:
    """Images with their features, the vocabulary of the training captions, and the pairs of each split."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        with np.load(path) as stored:
            self.rows = json.loads(stored["rows"].tobytes())
            features = (stored["features"] * stored["scale"]).astype(np.float16)
        self.features = torch.from_numpy(features).to(device)
        training = [row[style] for row in self.rows if row["split"] == "train" for style in STYLES]
        self.vocabulary = Vocabulary(training)

    def images(self, split: str) -> list[int]:
        """The indices of the images of a split."""
        return [index for index, row in enumerate(self.rows) if row["split"] == split]

    def pairs(self, split: str) -> Pairs:
        """A pair for each image and style."""
        device = self.features.device
        owners = [(image, style) for image in self.images(split) for style in range(len(STYLES))]
        captions = [self.vocabulary.encode(self.rows[image][STYLES[style]]) for image, style in owners]
        image, style = torch.tensor(owners, device=device).T
        rows = [torch.tensor(caption) for caption in captions]
        words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)
        return Pairs(self.features, image, style, words, torch.tensor([len(caption) for caption in captions]))
