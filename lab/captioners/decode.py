"""Beam search over a batch of images; a beam of one is greedy search."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lab.captioners.data import END, LONGEST, PAD, START, UNKNOWN, Inputs
from lab.captioners.models import Captioner

IMPOSSIBLE = float("-inf")
# No caption ends in one of these words, and none has a word twice in a row: the rules of Multi-UPDOWN's code.
BAD_ENDINGS = ("a", "an", "at", "for", "her", "his", "in", "of", "on", "that", "the", "this", "to", "with")


@torch.inference_mode()
def search(model: Captioner, inputs: Inputs, beam: int, bad_endings: Sequence[int] = ()) -> torch.Tensor:
    """Return the words of one caption for each image: of those on the beam at the end, the likeliest by word."""
    images, device = len(inputs.style), inputs.style.device
    state = tuple(part.repeat_interleave(beam, dim=0) for part in model.start(inputs))
    word = torch.full((images * beam,), START, device=device)
    # All captions on a beam are equal before the first word, so only the first of them may go on.
    scores = torch.full((images, beam), IMPOSSIBLE, device=device)
    scores[:, 0] = 0.0
    words = torch.empty(images, beam, 0, dtype=torch.long, device=device)
    ended = torch.zeros(images, beam, dtype=torch.bool, device=device)
    bad = torch.tensor(bad_endings, dtype=torch.long, device=device)
    for position in range(LONGEST + 1):
        logits, state = model.step(word, state)
        logits[:, [PAD, START, UNKNOWN]] = IMPOSSIBLE
        logits.scatter_(1, word[:, None], IMPOSSIBLE)
        logits[(torch.isin(word, bad) if position else torch.ones_like(word, dtype=torch.bool)), END] = IMPOSSIBLE
        likely = torch.log_softmax(logits.float(), dim=1).reshape(images, beam, -1)
        likely[ended] = IMPOSSIBLE
        likely[..., PAD] = torch.where(ended, 0.0, IMPOSSIBLE)
        scores, best = (scores[..., None] + likely).flatten(1).topk(beam, dim=1)
        parent, next_word = best // likely.shape[2], best % likely.shape[2]
        rows = (torch.arange(images, device=device)[:, None] * beam + parent).flatten()
        state = tuple(part[rows] for part in state)
        words = torch.cat([words.flatten(0, 1)[rows], next_word.reshape(-1, 1)], dim=1).reshape(images, beam, -1)
        ended = ended.flatten()[rows].reshape(images, beam) | (next_word == END)
        word = next_word.flatten()
        if bool(ended.all()):
            break
    length = (words != PAD).sum(dim=2)
    return words[torch.arange(images, device=device), (scores / length).argmax(dim=1)]
