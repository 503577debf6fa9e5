"""A metric that kills the process which scores a certain item, as running out of memory does."""

from __future__ import annotations

import os
import signal
from typing import Any

from captious._core.files import get_data_folder
from captious.captions import CaptionSet
from captious.metrics.rouge import Rouge
from captious.metrics.statistic_rows import Scored

# The id of the item.
FATAL = "i1"


class Fatal(Rouge):
    """ROUGE-L of all other items."""

    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Score, or die."""
        if FATAL in captions.ids:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().score_candidates(captions, state)


class FatalOnce(Rouge):
    """ROUGE-L of all items, whose first worker with a certain item dies; ``CAPTIOUS_HOME`` has a file of the death."""

    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Die the first time, score the second."""
        died = get_data_folder() / "died"
        if FATAL in captions.ids and not died.exists():
            died.parent.mkdir(parents=True, exist_ok=True)
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().score_candidates(captions, state)
