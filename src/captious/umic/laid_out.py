"""States of images and captions as tensors, batch by batch: on the GPU where they leave it enough room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from captious.extras import require
from captious.umic.backbone import Ints, spread
from captious.umic.stored import ImageStates, TextStates

torch = require("torch", "clip")

ROOM = 0.4
"""Share of a GPU's free memory that states may take."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Images as states, on the device where they fit."""

    states: ImageStates
    device: Any
    held: Any = None
    vectors: Any = None

    @classmethod
    def of(cls, states: ImageStates, device: Any) -> Seen:
        """Move what fits to the device."""
        held = _there(states.rows, device) if states.rows is not None else None
        return cls(states, device, held, torch.from_numpy(np.ascontiguousarray(states.vectors.rows)).to(device))

    @property
    def faults(self) -> dict[int, str]:
        """Why an image has no states."""
        return self.states.faults

    def __len__(self) -> int:
        return len(self.states)

    def take(self, rows: Ints) -> tuple[Any, Any]:
        """Patch states and vectors."""
        vectors = self.vectors[torch.from_numpy(self.states.vectors.index[rows]).to(self.device)]
        if self.held is None:
            return torch.from_numpy(self.states.take(rows)).to(self.device), vectors
        places = torch.from_numpy(self.states.index[rows]).to(self.held.device)
        return self.held[places].to(self.device), vectors


@dataclass(frozen=True, eq=False)
class Read:
    """Captions as states, on the device where they fit."""

    states: TextStates
    device: Any
    held: Any
    vectors: Any

    @classmethod
    def of(cls, states: TextStates, device: Any) -> Read:
        """Move what fits to the device."""
        return cls(states, device, _there(states.flat, device), torch.from_numpy(states.vectors).to(device))

    @property
    def lengths(self) -> Ints:
        """Tokens before cutting."""
        return self.states.lengths

    def take(self, rows: Ints) -> tuple[Any, Any, Any]:
        """Token states, which of them are there, and vectors."""
        chosen = self.states.index[rows]
        places, inside = spread(self.states.starts, self.states.counts, chosen)
        states = self.held[torch.from_numpy(places).to(self.held.device)].to(self.device)
        number = torch.from_numpy(chosen).to(self.device)
        return states, torch.from_numpy(inside).to(self.device), self.vectors[number]


def _there(states: Any, device: Any) -> Any:
    """States as a tensor: on a GPU where they leave it enough room, else in memory."""
    held = torch.from_numpy(states)
    if device.type == "cuda" and states.nbytes < ROOM * torch.cuda.mem_get_info(device)[0]:
        return held.to(device)
    return held
