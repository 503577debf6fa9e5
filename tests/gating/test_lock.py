"""Lock files: the same verdicts as the run that they were written from, and nothing else is replaced or believed."""

import base64
import json
import zlib

import pytest

import captious
from captious import CaptionSet, InputError, Resampling
from captious.gating import lock_system, read_lock, write_lock

QUICK = Resampling(samples=300)
TEXTS = ["a dog runs on the grass", "two cats sleep", "a red car", "people on a beach", "a bird in a tree"]


def captions(shift=0, name="captions", items=120):
    references = {str(number): [TEXTS[number % 5], f"photo of {TEXTS[number % 5]}"] for number in range(items)}
    return CaptionSet.of(
        {key: TEXTS[(int(key) + (shift if int(key) % 4 == 0 else 0)) % 5] for key in references}, references, name=name
    )


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "gate.lock.json"
    report = lock_system(path, captions(), "rouge,cider,bleu(n=4)", QUICK)
    assert len(report.measurements) == 3
    return path


def test_a_lock_file_gives_the_verdict_of_the_captions(lock):
    for shift in (0, 1):
        locked = captious.gate(lock, captions(shift), margin="1%", resampling=QUICK)
        direct = captious.gate(captions(), captions(shift), "rouge,cider,bleu(n=4)", "1%", resampling=QUICK)
        assert locked.rows == direct.rows and locked.changed == direct.changed == (0.25 if shift else 0)
        assert locked.paired and [one.id for one in locked.lost] == [one.id for one in direct.lost]
        assert all(one.base is None for one in locked.lost)
    assert locked.verdict == "worse"


def test_the_order_of_the_captions_does_not_matter_to_a_lock_file(lock):
    backwards = captions(1).take(range(119, -1, -1))
    first, second = (captious.gate(lock, one, margin="1%", resampling=QUICK) for one in (captions(1), backwards))
    assert first.to_json() == second.to_json()
    before = lock.read_bytes()
    lock_system(lock, captions().take(range(119, -1, -1)), resampling=QUICK)
    assert lock.read_bytes() == before


def test_without_statistics_the_values_are_fixed_numbers(tmp_path):
    """The bounds are then those of the new value itself: its resamples minus the expected value."""
    path = tmp_path / "values.json"
    lock_system(path, captions(), "rouge", QUICK, statistics=False)
    assert "rows" not in path.read_text() and "captions" not in json.loads(path.read_text())
    result = captious.gate(path, captions(1), margin=0.9, resampling=QUICK, interval="percentile")
    report = captious.evaluate(captions(1), "rouge", resampling=Resampling(300, level=0.9))
    row, interval = result.rows[0], report.intervals["rouge"]
    assert (row.low, row.high) == pytest.approx((interval.low - row.base, interval.high - row.base), abs=1e-12)
    assert not result.paired and result.changed is None and not result.lost and result.verdict == "pass"
    assert any("without the statistics of items" in line for line in result.warnings)


def test_metrics_of_the_lock_file_are_the_default(lock):
    assert [row.metric for row in captious.gate(lock, captions(), margin=0).rows] == ["rouge", "cider", "bleu(n=4)"]
    assert [row.metric for row in captious.gate(lock, captions(), "cider", 0).rows] == ["cider"]
    with pytest.raises(InputError, match=r"gate.lock.json: has no bleu\(n=1\), only rouge, cider, bleu\(n=4\)"):
        captious.gate(lock, captions(), "bleu", 0)
    lock_system(lock, captions(1), resampling=QUICK)
    assert list(read_lock(lock).metrics) == ["rouge", "cider", "bleu(n=4)"]
    lock_system(lock, captions(1), "cider", QUICK)
    assert list(read_lock(lock).metrics) == ["cider"]


def test_other_items_and_settings_are_refused(lock):
    with pytest.raises(InputError, match="has items:120, "):
        captious.gate(lock, captions(items=119), margin=0)
    other = captions()
    texts = {key: [*one[:1], "another text"] for key, one in zip(other.ids, other.references, strict=True)}
    changed = CaptionSet.of(dict(zip(other.ids, (one[0] for one in other.candidates), strict=True)), texts)
    with pytest.raises(InputError, match=r"rouge: .* are not scored on the same ids and references"):
        captious.gate(lock, changed, "rouge", 0)
    data = json.loads(lock.read_text())
    data["metrics"][0]["signature"]["settings"]["tok"] = "13a"
    lock.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"rouge: .* has tok:13a, .* has tok:ptb.1; expected the same"):
        captious.gate(lock, captions(), margin=0)


def test_another_version_is_said(lock):
    lock.write_text(lock.read_text().replace('"captious": "', '"captious": "0.0.', 1))
    result = captious.gate(lock, captions(), margin=0, resampling=QUICK)
    assert any("was written by captious 0.0." in line for line in result.warnings)


def test_only_a_lock_file_is_replaced(tmp_path):
    other = tmp_path / "predictions.json"
    other.write_text('{"1": "a dog"}')
    with pytest.raises(InputError, match="is not a lock file, expected one, or a name that is free"):
        write_lock(other, captious.evaluate(captions(), "rouge", resampling=Resampling(0)))
    assert other.read_text() == '{"1": "a dog"}'


def broken(change):
    def apply(data):
        change(data)
        return json.dumps(data)

    return apply


BOMB = base64.b64encode(zlib.compress(bytes(50_000_000), 9)).decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lambda data: '{"captious_lock": 1, ', "is not JSON"),
        (lambda data: '["captious_lock"]', "is not an object of JSON, expected a lock file"),
        (lambda data: '{"captious_lock": 2}', "captious_lock is 2, expected 1"),
        (lambda data: '{"captious_lock": 1}', "is not a whole lock file"),
        (lambda data: '{"captious_lock": 1, "metrics": []}', "contains no metric"),
        (broken(lambda data: data["metrics"][0].pop("value")), "is not a whole lock file"),
        (broken(lambda data: data["metrics"][0].update(value=None)), "is not a whole lock file"),
        (broken(lambda data: data["metrics"][0].update(value=float("nan"))), "is inconsistent"),
        (broken(lambda data: data["metrics"][0].update(metric="bleu(n=1)")), "is inconsistent"),
        (broken(lambda data: data["metrics"][0].update(rows="!!")), "the statistics of rouge are damaged"),
        (broken(lambda data: data["metrics"][0].update(rows=BOMB)), "the statistics of rouge are damaged"),
        (broken(lambda data: data["metrics"][0].update(width=3)), "the statistics of rouge are damaged"),
        (broken(lambda data: data["metrics"][0].update(unscored=[500])), "unscored item that does not exist"),
    ],
)
def test_a_damaged_lock_file_is_one_line(lock, text, message):
    lock.write_text(text(json.loads(lock.read_text())))
    with pytest.raises(InputError, match=message):
        captious.gate(lock, captions(), "rouge", 0, resampling=QUICK)
