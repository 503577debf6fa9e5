"""The picture cache: each picture painted once, whatever is killed, full or shared."""

import errno

import numpy as np
import pytest
from tests.models.painters.painting import Mixer

from captious.models import store as stores
from captious.models.painters import BLACK, Prompt, get_pictures, imagine, list_pictures
from captious.models.store import close_stores
from captious.options import Runtime, using


@pytest.fixture
def mixer():
    return Mixer


@pytest.fixture
def encoder(colors):
    return colors("colors")


def test_equal_texts_are_painted_once_and_vectors_have_unit_length(mixer, encoder):
    painter = mixer()
    found = imagine(painter, encoder, ["red", "blue", "red"], [0, 1])
    assert sorted(painter.painted) == [Prompt("blue", 0), Prompt("blue", 1), Prompt("red", 0), Prompt("red", 1)]
    assert (found.index[0] == found.index[2]).all() and found.index.shape == (3, 2)
    assert found.rows[found.index[0, 0]].tolist() == [1, 0, 0, 0]
    assert found.rows[found.index[1, 1]] == pytest.approx([0, 0.5**0.5, 0.5**0.5, 0], abs=1e-6)


def test_a_second_run_paints_nothing_and_another_encoder_neither(mixer, encoder, colors):
    first = imagine(mixer(), encoder, ["red", "blue"], [0, 1])
    close_stores()
    painter = mixer()
    again = imagine(painter, encoder, ["red", "blue"], [0, 1])
    imagine(painter, colors("another"), ["red", "blue"], [0, 1])
    assert painter.painted == []
    assert (again.rows[again.index] == first.rows[first.index]).all()
    other = mixer("ba9876543210")
    imagine(other, encoder, ["red"], [0])
    imagine(painter, encoder, ["red"], [2])
    assert other.painted == [Prompt("red", 0)] and painter.painted == [Prompt("red", 2)]


def test_what_could_not_be_painted_is_remembered_with_its_reason(mixer, encoder):
    for painter in (mixer(), mixer()):
        found = imagine(painter, encoder, ["black red", "hm", "red"], [0])
        assert found.codes[:, 0].tolist() == [BLACK, 3, 0] and found.index[:, 0].tolist() == [-1, -1, 0]
        assert "black picture" in found.fault(0) and "nothing that this painter can draw" in found.fault(1)
        assert found.fault(2) == ""
        close_stores()
    assert painter.painted == []


def test_a_kill_loses_nothing_that_was_painted(mixer, encoder):
    class Killed(mixer):
        def paint(self, prompts):
            for number, batch in enumerate(super().paint(prompts)):
                if number == 3:
                    raise KeyboardInterrupt
                yield batch

    texts = ["red", "green", "blue", "red green", "red blue"]
    with pytest.raises(KeyboardInterrupt):
        imagine(Killed(), encoder, texts, [0])
    close_stores()
    painter = mixer()
    imagine(painter, encoder, texts, [0])
    assert [prompt.text for prompt in painter.painted] == ["red green", "red blue"]


def test_a_full_disk_says_so_and_the_work_goes_on(mixer, encoder, monkeypatch):
    imagine(mixer(), encoder, ["red"], [0])
    close_stores()
    before = stores.list_stores(stores.get_cache_root())

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    lines = []
    with monkeypatch.context() as patch, using(Runtime(log=lines.append)):
        patch.setattr(stores, "write_segment", full)
        found = imagine(mixer(), encoder, ["red", "blue"], [0])
    assert (found.index >= 0).all() and any("No space left on device" in line for line in lines)
    close_stores()
    after = stores.list_stores(stores.get_cache_root())
    assert [(one.kind, one.rows, one.damaged) for one in after] == [(one.kind, one.rows, {}) for one in before]


def test_two_processes_see_each_others_pictures(mixer, encoder):
    first, second = mixer(), mixer()
    running = get_pictures(first, [Prompt("red", 0), Prompt("blue", 0)])
    next(running)
    running.close()  # the other process was stopped; what it wrote is there
    close_stores()
    texts, _ = list_pictures(second, [Prompt("red", 0), Prompt("blue", 0), Prompt("red", 0)])
    assert second.painted == [Prompt("blue", 0)] and (texts[0] == texts[2]).all()
    assert texts[1][0, 0].tolist() == [0, 0, 255]


def test_the_cache_lists_pictures_and_prunes_them(mixer, encoder):
    imagine(mixer(), encoder, ["red", "blue"], [0, 1])
    close_stores()
    held = {holding.kind: holding for holding in stores.list_stores(stores.get_cache_root())}
    assert held["pictures"].encoder == "mixer" and held["pictures"].rows == 4
    assert held["painted-0123456789ab"].rows == 4
    stores.remove(stores.get_cache_root(), lambda holding: holding.encoder == "mixer")
    assert "pictures" not in {holding.kind for holding in stores.list_stores(stores.get_cache_root())}


def test_without_a_cache_nothing_is_written(mixer, encoder):
    with using(Runtime(cache=False)):
        found = imagine(mixer(), encoder, ["red"], [0])
    assert np.isfinite(found.rows).all() and not stores.list_stores(stores.get_cache_root())


def test_what_is_missing_is_painted_in_one_go_however_the_cache_is_read(mixer, monkeypatch):
    painter, calls = mixer(), []
    list(get_pictures(painter, [Prompt("red", 0), Prompt("red", 3)]))
    plain = painter.paint
    monkeypatch.setattr("captious.models.painters.CHUNK_BYTES", 2 * 4 * 4 * 3)
    monkeypatch.setattr(painter, "paint", lambda prompts: calls.append([one.seed for one in prompts]) or plain(prompts))
    found = [
        place for batch in get_pictures(painter, [Prompt("red", seed) for seed in range(5)]) for place in batch.indices
    ]
    assert calls == [[1, 2, 4]] and sorted(found) == [0, 1, 2, 3, 4]
