"""The paper's three captioners, each told the style or not.

UPDOWN      attention over the regions of an image; the style is a vector beside each word
Multi-UPDOWN two such decoders, one over the regions, one over dense captions, added at every word
SVinVL      a BERT over caption, style and dense captions as text, and regions; trained by masked words

All are smaller than the paper's (512 units in place of 1,024 and 2,048; 4 layers of 384 in place of BERT base), and
begin from random weights: those of VinVL are not at hand. A captioner without style sees captions of both styles and
is told neither.
"""

from __future__ import annotations

import torch
from torch import nn

from lab.captioners.data import LONGEST, LONGEST_DENSE, NO_STYLE, PAD, START, Batch, Inputs
from lab.captioners.pack import DENSE, STYLES

FORMS = ("style", "none")
# What a decoder carries from word to word, one row for each caption under way.
State = tuple[torch.Tensor, ...]


class Captioner(nn.Module):
    """What all share: vectors of words, and the search's view of a decoder."""

    def __init__(self, words: int, form: str, width: int, dropout: float) -> None:
        super().__init__()
        self.words, self.told, self.width = words, form == "style", width
        self.leave = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout))
        self.output = nn.Linear(width, words)

    def predict(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the logits of words from a decoder's vectors."""
        return self.output(self.leave(vectors))

    def start(self, inputs: Inputs) -> State:
        """Return the state before the first word."""
        raise NotImplementedError

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """Return the logits of the word that follows, and the state after it."""
        raise NotImplementedError

    def compute_loss(self, batch: Batch, smoothing: float, sampling: float) -> torch.Tensor:
        """Return the loss to train on."""
        raise NotImplementedError


def cross_entropy(logits: torch.Tensor, words: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Return the cross-entropy per word; padding does not count."""
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), words.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )


class TopDown(nn.Module):
    """A decoder with top-down attention (Anderson et al. 2018): one LSTM looks where to attend, a second one writes."""

    def __init__(self, width: int, inputs: int) -> None:
        super().__init__()
        self.look = nn.LSTMCell(inputs, width)
        self.write = nn.LSTMCell(2 * width, width)
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def forward(self, word: torch.Tensor, pooled: torch.Tensor, memory: State, hidden: State) -> State:
        """Return both LSTMs' states after a word; the third tensor predicts the next one."""
        vectors, keys, missing = memory
        look, look_cell, write, write_cell = hidden
        look, look_cell = self.look(torch.cat([write, pooled, word], dim=1), (look, look_cell))
        energy = self.energy(torch.tanh(keys + self.query(look)[:, None])).masked_fill(missing, float("-inf"))
        attended = (torch.softmax(energy, dim=1) * vectors).sum(dim=1)
        return look, look_cell, *self.write(torch.cat([attended, look], dim=1), (write, write_cell))


class UpDown(Captioner):
    """UPDOWN with the style as a vector that joins every word (Shuster et al. 2019)."""

    def __init__(
        self, words: int, regions: int, features: int, pooled: int, form: str, width: int = 512, dropout: float = 0.5
    ) -> None:
        super().__init__(words, form, width, dropout)
        self.embed = nn.Sequential(nn.Embedding(words, width, PAD), nn.ReLU(), nn.Dropout(dropout))
        self.project = nn.Sequential(nn.Linear(features, width), nn.LayerNorm(width), nn.Dropout(dropout))
        self.place = nn.Parameter(torch.zeros(regions, width))
        self.pool = nn.Sequential(nn.Linear(pooled, width), nn.LayerNorm(width), nn.Dropout(dropout))
        if self.told:
            self.tag = nn.Sequential(nn.Embedding(len(STYLES), width), nn.Linear(width, width))
        self.image = TopDown(width, (4 if self.told else 3) * width)

    def start(self, inputs: Inputs) -> State:
        vectors = self.project(inputs.regions) + self.place
        zeros = vectors.new_zeros(len(vectors), self.width)
        missing = torch.zeros(*vectors.shape[:2], 1, dtype=torch.bool, device=vectors.device)
        # A captioner without style has a vector of no numbers.
        style = self.tag(inputs.style) if self.told else zeros[:, :0]
        return zeros, zeros, zeros, zeros, style, self.pool(inputs.pooled), vectors, self.image.key(vectors), missing

    def advance(self, word: torch.Tensor, state: State) -> State:
        """Return the state after a word; its third tensor predicts the next word."""
        style, pooled, *memory = state[4:9]
        known = torch.cat([self.embed(word), style], dim=1)
        return *self.image(known, pooled, tuple(memory), state[:4]), *state[4:]

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        state = self.advance(word, state)
        return self.predict(state[2]), state

    def forward(self, inputs: Inputs, words: torch.Tensor, sampling: float = 0.0) -> torch.Tensor:
        """Return the logits of every word, each from the true words before it, or at times from the model's own."""
        state, outputs = self.start(inputs), []
        word = torch.full_like(words[:, 0], START)
        for true in words.unbind(dim=1):
            state = self.advance(word, state)
            outputs.append(state[2])
            word = self._sample(true, state[2], sampling) if sampling else true
        return self.predict(torch.stack(outputs, dim=1))

    @torch.no_grad()
    def _sample(self, true: torch.Tensor, output: torch.Tensor, sampling: float) -> torch.Tensor:
        """Return the true words, some replaced by words drawn from the model (scheduled sampling)."""
        own = torch.multinomial(torch.softmax(self.predict(output), dim=1), 1)[:, 0]
        return torch.where((torch.rand_like(output[:, 0]) < sampling) & (true != PAD), own, true)

    def compute_loss(self, batch: Batch, smoothing: float, sampling: float) -> torch.Tensor:
        return cross_entropy(self(batch.inputs, batch.words, sampling), batch.words, smoothing)


class MultiUpDown(UpDown):
    """Multi-UPDOWN (Li et al. 2021): UPDOWN over the regions and over five dense captions at once.

    One LSTM reads the dense captions. Its last hidden states are the pooled vector of the second decoder, its cell
    states at every word what that attends to. The states of both decoders are added after every word.
    """

    def __init__(
        self, words: int, regions: int, features: int, pooled: int, form: str, width: int = 512, dropout: float = 0.5
    ) -> None:
        super().__init__(words, regions, features, pooled, form, width, dropout)
        self.read = nn.LSTMCell(width, width)
        self.project_text = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.Dropout(dropout))
        self.pool_text = nn.Sequential(nn.Linear(DENSE * width, width), nn.LayerNorm(width), nn.Dropout(dropout))
        self.text = TopDown(width, (4 if self.told else 3) * width)

    def start(self, inputs: Inputs) -> State:
        images, number, length = inputs.dense.shape
        words = inputs.dense.flatten(0, 1)
        hidden = cell = inputs.pooled.new_zeros(len(words), self.width)
        cells = []
        for word, vector in zip(words.unbind(dim=1), self.embed(words).unbind(dim=1), strict=True):
            after = self.read(vector, (hidden, cell))
            # A caption that has ended keeps its state.
            there = (word != PAD)[:, None]
            hidden, cell = torch.where(there, after[0], hidden), torch.where(there, after[1], cell)
            cells.append(cell)
        vectors = self.project_text(torch.stack(cells, dim=1).reshape(images, number * length, self.width))
        pooled = self.pool_text(hidden.reshape(images, number * self.width))
        missing = (inputs.dense == PAD).reshape(images, number * length, 1)
        return *super().start(inputs), pooled, vectors, self.text.key(vectors), missing

    def advance(self, word: torch.Tensor, state: State) -> State:
        known = torch.cat([self.embed(word), state[4]], dim=1)
        image = self.image(known, state[5], state[6:9], state[:4])
        text = self.text(known, state[9], state[10:], state[:4])
        return *(one + other for one, other in zip(image, text, strict=True)), *state[4:]


class Block(nn.Module):
    """A layer of a Transformer whose queries attend to a context that includes them."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before = nn.LayerNorm(width)
        self.query, self.both, self.mix = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, vectors: torch.Tensor, context: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        """Return the vectors after attention to the context where it is visible (images × 1 × queries × context)."""
        context = self.before(context)
        query = self._split(self.query(context[:, -vectors.shape[1] :]))
        key, value = (self._split(part) for part in self.both(context).chunk(2, dim=2))
        # PyTorch's fused attention has no deterministic gradient.
        energy = (query @ key.transpose(2, 3) / query.shape[3] ** 0.5).masked_fill(~visible, float("-inf"))
        shares = nn.functional.dropout(torch.softmax(energy, dim=3), self.dropout, self.training)
        attended = shares @ value
        vectors = vectors + self.mix(attended.transpose(1, 2).flatten(2))
        return vectors + self.think(vectors)

    def _split(self, vectors: torch.Tensor) -> torch.Tensor:
        return vectors.unflatten(2, (self.heads, -1)).transpose(1, 2)


class SVinVL(Captioner):
    """SVinVL: VinVL with the style and dense captions as text in place of object tags.

    One Transformer reads caption, text and regions. Words of the caption attend to those before them, to the text and
    to the regions, which do not attend back. A MASK predicts the word that it hides.
    """

    def __init__(
        self,
        words: int,
        regions: int,
        features: int,
        pooled: int,
        form: str,
        width: int = 384,
        dropout: float = 0.1,
        layers: int = 4,
    ) -> None:
        super().__init__(words, form, width, dropout)
        # The styles are words of the text; MASK is the last word.
        self.mask = words + len(STYLES)
        self.embed = nn.Embedding(self.mask + 1, width, PAD)
        self.position = nn.Embedding(LONGEST + 2, width)
        self.text_position = nn.Embedding(1 + DENSE * (LONGEST_DENSE + 1), width)
        self.place = nn.Embedding(regions, width)
        self.project = nn.Linear(features, width)
        self.enter = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout))
        self.blocks = nn.ModuleList(Block(width, max(1, width // 64), dropout) for _ in range(layers))
        for embedding in (self.embed, self.position, self.text_position, self.place):
            nn.init.normal_(embedding.weight, std=0.02)
        # The words that are read and those that are written share their vectors.
        self.output = nn.Linear(width, self.mask + 1)
        self.output.weight = self.embed.weight

    def predict(self, vectors: torch.Tensor) -> torch.Tensor:
        return super().predict(vectors)[..., : self.words]

    def start(self, inputs: Inputs) -> State:
        """Return the vectors of text and regions before each layer, which of them are visible, and no words yet."""
        hidden = torch.full_like(inputs.style, not self.told, dtype=torch.bool) | (inputs.style == NO_STYLE)
        style = torch.where(hidden, PAD, self.words + inputs.style)
        text = torch.cat([style[:, None], inputs.dense.flatten(1)], dim=1)
        vectors = self.embed(text) + self.text_position.weight[: text.shape[1]]
        vectors = self.enter(torch.cat([vectors, self.project(inputs.regions) + self.place.weight], dim=1))
        visible = torch.cat([text != PAD, text.new_ones(inputs.regions.shape[:2], dtype=torch.bool)], dim=1)
        layers = [vectors]
        for block in self.blocks[:-1]:
            layers.append(block(layers[-1], layers[-1], visible[:, None, None]))
        return *layers, visible, text[:, :0]

    def read(self, words: torch.Tensor, position: torch.Tensor, order: torch.Tensor, state: State) -> torch.Tensor:
        """Return the last layer's vectors of words at their positions, which see each other as ``order`` has it."""
        layers, visible = state[: len(self.blocks)], state[-2]
        seen = torch.cat(
            [visible[:, None].expand(-1, words.shape[1], -1), order.expand(len(words), *order.shape)], dim=2
        )
        vectors = self.enter(self.embed(words) + self.position(position))
        for block, memory in zip(self.blocks, layers, strict=True):
            vectors = block(vectors, torch.cat([memory, vectors], dim=1), seen[:, None])
        return vectors

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        words = torch.cat([state[-1], word[:, None]], dim=1)
        hidden = torch.cat([words, torch.full_like(word, self.mask)[:, None]], dim=1)
        position = torch.arange(hidden.shape[1], device=word.device)
        order = position <= position[:, None]
        return self.predict(self.read(hidden, position, order, state)[:, -1]), (*state[:-1], words)

    def forward(self, inputs: Inputs, words: torch.Tensor, sampling: float = 0.0) -> torch.Tensor:
        """Return the logits of every word, each from a MASK after the true words before it."""
        length = words.shape[1]
        before = torch.cat([torch.full_like(words[:, :1], START), words[:, :-1]], dim=1)
        place = torch.arange(length, device=words.device)
        earlier, itself = place <= place[:, None], place == place[:, None]
        # First the true words, then a MASK for each: a MASK sees the true words before it and itself.
        order = torch.cat(
            [torch.cat([earlier, torch.zeros_like(earlier)], dim=1), torch.cat([earlier, itself], dim=1)], dim=0
        )
        both = torch.cat([before, torch.full_like(words, self.mask)], dim=1)
        vectors = self.read(both, torch.cat([place, place + 1]), order, self.start(inputs))
        return self.predict(vectors[:, length:])

    def compute_loss(self, batch: Batch, smoothing: float, sampling: float) -> torch.Tensor:
        hidden, targets = self.hide(batch.words)
        hidden = torch.cat([torch.full_like(hidden[:, :1], START), hidden], dim=1)
        position = torch.arange(hidden.shape[1], device=hidden.device)
        order = position <= position[:, None]
        vectors = self.read(hidden, position, order, self.start(batch.inputs))[:, 1:]
        # Most words are not hidden: predict only those that are.
        chosen = targets != PAD
        return cross_entropy(self.predict(vectors[chosen]), targets[chosen], smoothing)

    def hide(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return captions with some words hidden, and the hidden words with PAD elsewhere.

        As in Oscar: 15 % of a caption's words with its end, at least one and at most three; of these, 8 of 10 become
        MASK, 1 of 10 another word, and 1 of 10 stays.
        """
        length = (words != PAD).sum(dim=1)
        number = torch.round(0.15 * (length + 1)).clamp(1, 3)
        rank = torch.rand(words.shape, device=words.device).masked_fill(words == PAD, 2.0).argsort(dim=1).argsort(dim=1)
        chosen = (rank < number[:, None]) & (words != PAD)
        fate = torch.rand(words.shape, device=words.device)
        other = torch.randint(START + 1, self.words, words.shape, device=words.device)
        replaced = torch.where(fate < 0.8, self.mask, torch.where(fate < 0.9, other, words))
        return torch.where(chosen, replaced, words), torch.where(chosen, words, PAD)


ARCHITECTURES: dict[str, type[Captioner]] = {"updown": UpDown, "multi-updown": MultiUpDown, "svinvl": SVinVL}
