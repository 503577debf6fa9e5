"""Runs whose files were changed after they were written: compare and gate refuse them, or the change moves nothing."""

import json
import random

import pyarrow.parquet as pq
import pytest

import captious
from captious import CaptionSet, InputError, Resampling
from captious.runs.folder import write_parquet

QUICK = Resampling(samples=50)
WORDS = list("abcdefghijklmnopq")


def system(seed):
    rng = random.Random(seed)
    references = {str(number): [" ".join(random.Random(number).sample(WORDS, 9))] for number in range(60)}
    return CaptionSet.of({key: " ".join(rng.sample(WORDS, 8)) for key in references}, references)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in {"base": 1, "new": 2}.items():
        captious.evaluate(system(seed), "cider,rouge", resampling=QUICK).save(folder / name)
    return folder


def gate(folder):
    return captious.gate(folder / "base", folder / "new", margin="1%", resampling=QUICK).to_json()


@pytest.mark.parametrize("kind", ["items", "rows"])
def test_a_flipped_bit_moves_no_verdict(runs, kind):
    """Bits all over the file: each is refused in one line, or moves nothing, such as one in the name of the writer."""
    (path,) = (runs / "new" / kind).glob("*.parquet")
    content, expected, rng = path.read_bytes(), gate(runs), random.Random(7)
    refused = 0
    try:
        for _ in range(40):
            damaged = bytearray(content)
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            try:
                assert gate(runs) == expected
            except InputError as error:
                refused += "\n" not in str(error)
    finally:
        path.write_bytes(content)
    assert refused > 10


def test_pages_have_checksums_that_are_verified(runs):
    """A bit near the end of the largest page of numbers."""
    (path,) = (runs / "new" / "rows").glob("*.parquet")
    content = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    first = max(columns, key=lambda one: one.total_compressed_size)
    damaged = bytearray(content)
    start = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
    damaged[start + first.total_compressed_size - 3] ^= 4
    path.write_bytes(damaged)
    try:
        for use in (gate, lambda folder: captious.compare([folder / "base", folder / "new"], permutations=5)):
            with pytest.raises(InputError, match=r"rows.*\.parquet: is damaged, expected the scores of captious"):
                use(runs)
    finally:
        path.write_bytes(content)


def test_a_value_that_contradicts_the_marker_is_refused(runs):
    """Items written again with a number of another system, checksums and all; and a marker with another value."""
    (path,) = (runs / "new" / "rows").glob("*.parquet")
    marker = runs / "new" / "captious-run.json"
    content, record = path.read_bytes(), marker.read_text()
    (other,) = (runs / "base" / "rows").glob("*.parquet")
    match = r"new: cider is [\d.]+ over the stored items, the marker says [\d.]+; it was changed or damaged"
    try:
        path.write_bytes(write_parquet(pq.read_table(other)))
        with pytest.raises(InputError, match=match):
            gate(runs)
        path.write_bytes(content)
        facts = json.loads(record)
        facts["metrics"][0]["value"] += 0.001
        marker.write_text(json.dumps(facts))
        with pytest.raises(InputError, match=match):
            captious.open_run(runs / "new")
    finally:
        path.write_bytes(content)
        marker.write_text(record)
    assert captious.open_run(runs / "new")


def test_a_tampered_value_is_not_printed_beside_its_interval(runs, run):
    marker = runs / "new" / "captious-run.json"
    record = marker.read_text()
    facts = json.loads(record)
    facts["metrics"][0]["value"] = 5.0
    marker.write_text(json.dumps(facts))
    try:
        for arguments in ((), ("--explain", 7)):
            code, out, error = run("score", runs / "new", *arguments)
            assert code == 2 and not out and "over the stored items, the marker says 5; it was changed" in error
    finally:
        marker.write_text(record)


def test_a_run_without_checksums_is_still_read(runs):
    """An earlier captious wrote none."""
    for path in (runs / "new").rglob("*.parquet"):
        content = path.read_bytes()
        pq.write_table(pq.read_table(path), path, compression="zstd")
        assert gate(runs)
        path.write_bytes(content)
