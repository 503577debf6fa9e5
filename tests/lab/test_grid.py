"""SPECS's grid on photographs: weights in 4 bits, and the page against the stored runs."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from lab.reproductions.grid import BEST, GROUP, LEVELS, STORED, pack_weights, read_runs, show, unpack_weights

PAGE = Path(__file__).parents[2] / "docs" / "results" / "photographs.md"


def test_weights_in_four_bits_are_near_the_weights():
    matrix = np.random.default_rng(0).standard_normal((6, 4 * GROUP)).astype(np.float32)
    codes, scale = pack_weights(matrix)
    assert codes.nbytes == matrix.size / 2 and scale.shape == (6, 4)
    step = np.abs(matrix.reshape(6, 4, GROUP)).max(axis=2, keepdims=True) / LEVELS
    error = np.abs(unpack_weights(codes, scale) - matrix).reshape(6, 4, GROUP)
    assert (error <= 0.5 * step + 1e-2).all() and error.mean() > 0


def test_the_page_has_the_numbers_of_the_stored_runs():
    runs = read_runs(STORED)
    assert all(len(values) == 3 for numbers in runs.values() for values in numbers.values() if values is not None)
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").split("## The grid")[1].splitlines():
        cells = [re.sub(r"\*[^*]*:\*|\*", "", cell).strip() for cell in line.strip("|").split("|")]
        rows.setdefault(cells[0], cells[1:])
    names = {"CLIP": "CLIP", "LongCLIP": "LongCLIP", "1 : 8 : 0.8, the published best": BEST}
    names |= {"1 : 8 : 0.6": "weights 1:8:0.6", "1 : 9 : 0.8": "weights 1:9:0.8", "1 : 1 : 1": "more: weights 1:1:1"}
    names |= {"hinges in cosines": "more: hinge in cosines", "50 % shuffled": "50 % shuffled"}
    for shown, name in names.items():
        for cell, key in zip(rows[shown], ("sr_pos", "sr_neg", "average"), strict=False):
            values = np.array(runs[name][key])
            assert cell == f"{values.mean():.1f} ± {values.std(ddof=1):.1f}", (shown, key)
        assert rows[shown][4] == f"{np.mean(runs[name]['wrong_image_average']):.1f}"
        gain = np.array(runs[name]["average"]) - np.array(runs[BEST]["average"])
        if rows[shown][3]:
            assert rows[shown][3].replace("−", "-") == f"{gain.mean():+.1f} ± {gain.std(ddof=1):.1f}"
    assert "95.37 / 90.37 / 92.87" in show(STORED)
