"""Published region features: databases that LMDB 0.9.36 wrote, in UNITER's layout, become files of each image.

The two databases have 40 images of 12 or 100 regions of 16 numbers, so that the tree has a branch page and long values
are on overflow pages. Image i has the features i + r / 128 in region r, in half precision; confidence falls evenly from
0.9 to 0.1. One has msgpack records with arrays as msgpack-numpy writes them, the other .npz files.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from captious.errors import InputError
from captious.models.region_database import convert_regions, read_entries, read_feature_record

HERE = Path(__file__).parent


@pytest.fixture(params=["plain", "compressed"])
def database(request, tmp_path):
    folder = tmp_path / "feat_th0.2_max100_min10"
    folder.mkdir()
    (folder / "data.mdb").write_bytes(gzip.decompress((HERE / f"regions-{request.param}.mdb.gz").read_bytes()))
    return folder


def test_every_image_becomes_a_file(database, tmp_path):
    assert convert_regions(database, tmp_path / "butd", "number") == 40
    assert {path.name for path in (tmp_path / "butd").iterdir()} == {f"{number}.npz" for number in range(40)}
    for number in (0, 7, 39):
        with np.load(tmp_path / "butd" / f"{number}.npz") as arrays:
            regions = 100 if number % 5 == 0 else 12
            expected = np.full((regions, 16), number) + np.arange(regions)[:, None] / 128
            assert arrays["features"].dtype == np.float16 and arrays["norm_bb"].shape == (regions, 6)
            np.testing.assert_allclose(arrays["features"], expected, rtol=1e-3, atol=0)
            np.testing.assert_allclose(arrays["conf"], np.linspace(0.9, 0.1, regions), atol=5e-4)


def test_the_number_of_regions_comes_from_the_file_next_to_the_database(database, tmp_path):
    counts = {f"coco_val2014_{number:012d}.npz": 11 for number in range(40)}
    (tmp_path / "nbb_th0.2_max100_min10.json").write_text(json.dumps(counts))
    convert_regions(database, tmp_path / "butd")
    with np.load(tmp_path / "butd" / "coco_val2014_000000000005.npz") as arrays:
        assert len(arrays["features"]) == len(arrays["norm_bb"]) == len(arrays["conf"]) == 11


def test_a_converted_file_is_what_umic_reads(database, tmp_path):
    pytest.importorskip("torch")
    from captious.models.uniter import read_regions

    convert_regions(database, tmp_path / "butd", "number")
    features, boxes = read_regions(tmp_path / "butd" / "5.npz", 16)
    # conf = 0.9 - 0.8 i / 99 is above 0.2 for i < 86.6: 87 regions
    assert features.shape == (87, 16) and boxes.shape == (87, 7)


@pytest.mark.parametrize("cut", [0, 10, 4096, 50_000])
def test_a_database_that_is_cut_short_is_one_line(database, tmp_path, cut):
    path = database / "data.mdb"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"data\.mdb: "):
        convert_regions(database, tmp_path / "butd")
    assert not (tmp_path / "butd").exists()


def test_what_is_no_database_or_no_record_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"no data\.mdb here"):
        list(read_entries(tmp_path))
    with pytest.raises(InputError, match="not a record of region features"):
        read_feature_record(b"\x93\x01\x02", "x")
