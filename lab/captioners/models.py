"""Two captioners, each in three forms: without style, with the style as a token, with the style inside attention.

Both attend over the vectors of an image. In the form ``token`` the style is the first word, in place of START. In the
form ``attention`` the style is one more vector to attend to at every word. In the form ``none`` the model sees captions
of both styles and is told neither. The paper gives the style differently: as a one-hot vector to UPDOWN and
Multi-UPDOWN, as words of the input text to SVinVL.
"""

from __future__ import annotations

import torch
from torch import nn

from lab.captioners.data import LONGEST, PAD, START
from lab.captioners.pack import STYLES

FORMS = ("none", "token", "attention")
# What a decoder carries from word to word, one row for each caption under way.
State = tuple[torch.Tensor, ...]


class Captioner(nn.Module):
    """What both share: vectors of the image, vectors of words, and the style."""

    def __init__(self, words: int, vectors: int, features: int, form: str, width: int, dropout: float) -> None:
        super().__init__()
        self.form, self.words = form, words
        self.project = nn.Sequential(nn.Linear(features, width), nn.LayerNorm(width), nn.Dropout(dropout))
        self.place = nn.Parameter(torch.zeros(vectors, width))
        self.embed = nn.Sequential(nn.Embedding(words + len(STYLES), width, PAD), nn.Dropout(dropout))
        self.tag = nn.Embedding(len(STYLES), width)
        self.output = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout), nn.Linear(width, words))

    def first(self, style: torch.Tensor) -> torch.Tensor:
        """The word that starts a caption: START, or the style, whose numbers follow those of the words."""
        return self.words + style if self.form == "token" else torch.full_like(style, START)

    def memory(self, features: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """What is attended to: the vectors of the image, and in one form the style."""
        vectors = self.project(features) + self.place
        return torch.cat([vectors, self.tag(style)[:, None]], dim=1) if self.form == "attention" else vectors

    def start(self, features: torch.Tensor, style: torch.Tensor) -> State:
        """The state before the first word."""
        raise NotImplementedError

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """The logits of the word that follows, and the state after it."""
        raise NotImplementedError


class UpDown(Captioner):
    """Top-down attention (Anderson et al. 2018): one LSTM looks where to attend, a second one writes."""

    def __init__(self, words: int, vectors: int, features: int, form: str, width: int = 512) -> None:
        super().__init__(words, vectors, features, form, width, dropout=0.3)
        self.look = nn.LSTMCell(3 * width, width)
        self.write = nn.LSTMCell(2 * width, width)
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def start(self, features: torch.Tensor, style: torch.Tensor) -> State:
        memory = self.memory(features, style)
        mean = memory[:, : features.shape[1]].mean(dim=1)
        zeros = torch.zeros_like(mean)
        return memory, self.key(memory), mean, zeros, zeros, zeros, zeros

    def hidden(self, word: torch.Tensor, state: State) -> State:
        """The state after a word; the last but one tensor predicts the next word."""
        memory, keys, mean, look, look_cell, write, write_cell = state
        look, look_cell = self.look(torch.cat([write, mean, self.embed(word)], dim=1), (look, look_cell))
        energy = self.energy(torch.tanh(keys + self.query(look)[:, None]))
        attended = (torch.softmax(energy, dim=1) * memory).sum(dim=1)
        write, write_cell = self.write(torch.cat([attended, look], dim=1), (write, write_cell))
        return memory, keys, mean, look, look_cell, write, write_cell

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        state = self.hidden(word, state)
        return self.output(state[-2]), state

    def forward(self, features: torch.Tensor, style: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The logits of every word, each from the true words before it."""
        state, outputs = self.start(features, style), []
        for word in torch.cat([self.first(style)[:, None], words[:, :-1]], dim=1).unbind(dim=1):
            state = self.hidden(word, state)
            outputs.append(state[-2])
        return self.output(torch.stack(outputs, dim=1))


class Transformer(Captioner):
    """A small Transformer decoder whose words attend to the words before them and to the image."""

    def __init__(self, words: int, vectors: int, features: int, form: str, width: int = 256) -> None:
        super().__init__(words, vectors, features, form, width, dropout=0.3)
        layer = nn.TransformerDecoderLayer(width, 4, 4 * width, dropout=0.3, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, num_layers=3)
        self.position = nn.Parameter(torch.randn(LONGEST + 1, width) * 0.02)

    def start(self, features: torch.Tensor, style: torch.Tensor) -> State:
        memory = self.memory(features, style)
        return memory, torch.empty(len(memory), 0, dtype=torch.long, device=memory.device)

    def hidden(self, words: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """The last layer's vector at each of the words."""
        length = words.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=words.device).triu(diagonal=1)
        inputs = self.embed(words) + self.position[:length]
        return self.decoder(inputs, memory, tgt_mask=later, tgt_is_causal=True)

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        memory, words = state[0], torch.cat([state[1], word[:, None]], dim=1)
        return self.output(self.hidden(words, memory)[:, -1]), (memory, words)

    def forward(self, features: torch.Tensor, style: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The logits of every word, each from the true words before it."""
        inputs = torch.cat([self.first(style)[:, None], words[:, :-1]], dim=1)
        return self.output(self.hidden(inputs, self.memory(features, style)))


ARCHITECTURES = {"updown": UpDown, "transformer": Transformer}
