"""Shared beginnings: the same features and gradients as separate encoding, for every shape of sharing."""

import numpy as np
import pytest
import torch

from captious.train import _packing as packing


def texts_of(encoder, *texts):
    return [row[:length] for row, length in zip(*encoder.tokenize(list(texts)), strict=True)]


GROUPS = [
    ("the left is red. the right is blue. that is all.", "the left is red. the right is blue.", "the left is red.",
     "the left is red. blue is right the."),
    ("red and blue", "red and blue", "red", "red red red"),
    ("there is a picture", "the left is white. the right is red.", "the left is white.", "the left is white. all that"),
    ("", "a", "a b c", "green"),
]  # fmt: skip


def test_features_equal_separate_encoding(encoder):
    groups = [texts_of(encoder, *group) for group in GROUPS]
    packed = packing.pack(groups, room=32, pad=encoder.pad)
    found = packing.encode_packed(encoder.module, packed)
    alone = [encoder.text_tensor(torch.from_numpy(text)[None])[0] for group in groups for text in group]
    assert torch.allclose(found, torch.stack(alone), atol=1e-5)


@pytest.mark.parametrize("room", [1, 24, 500])
def test_gradients_equal_separate_encoding(encoder, room):
    groups = [texts_of(encoder, *group) for group in GROUPS]
    weights = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))

    def slopes(features):
        encoder.module.zero_grad()
        (features * weights).sum().backward()
        return {name: one.grad.clone() for name, one in encoder.module.named_parameters() if one.grad is not None}

    together = slopes(packing.encode_packed(encoder.module, packing.pack(groups, room, encoder.pad)))
    texts = [text for group in groups for text in group]
    apart = slopes(torch.cat([encoder.text_tensor(torch.from_numpy(text)[None]) for text in texts]))
    assert together.keys() == apart.keys()
    for name, slope in apart.items():
        assert torch.allclose(together[name], slope, atol=1e-5, rtol=1e-4), name


def test_a_prefix_costs_one_token(encoder):
    full, base = texts_of(encoder, "the left is red. the right is blue.", "the left is red.")
    (tree,) = packing.build_trees([full, base])
    assert [branch.size for branch in tree] == [len(full), 1]
    assert tree[1].tokens[tree[1].fork :].tolist() == [encoder.end]


def test_what_shares_little_gets_its_own_tree(encoder):
    group = texts_of(encoder, *GROUPS[2])
    found = packing.build_trees(group)
    assert [[branch.number for branch in tree] for tree in found] == [[0], [1, 2, 3]]


def test_nobody_sees_padding_or_another_tree():
    groups = [[np.array([8, 1, 2, 9]), np.array([8, 1, 9])], [np.array([8, 3, 9])]]
    packed = packing.pack(groups, room=16)
    assert packed.ids.shape == (1, 8)
    seen = packed.visible()[0].int().tolist()
    assert seen == [
        # 8  1  2  9 |9| 8  3  9   (trunk, END of the branch, the other tree)
        [1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1, 1, 1],
    ]
    assert packed.positions[0].tolist() == [0, 1, 2, 3, 2, 0, 1, 2]
    padded = packing.pack([[np.array([8, 1, 9])]], room=3)
    assert padded.visible()[0, 3:].int().tolist() == [[0] * at + [1] + [0] * (7 - at) for at in range(3, 8)]


def test_rows_are_filled_largest_first():
    assert packing._assign_rows([5, 9, 4, 1, 5], room=10) == [[1, 3], [0, 4], [2]]
