"""Generated shards are read as they were meant, and are the same for the same seed."""

import pytest
from lab.scale.make_shards import make_shards

from captious.io.images import open_image
from captious.io.shards import expand, read_shard


@pytest.mark.parametrize("format", ["tar", "parquet", "jsonl", "jsonl.gz"])
@pytest.mark.parametrize("source", ["scenes", "words"])
def test_every_item_is_read_once(tmp_path, format, source):
    paths = make_shards(tmp_path / "a", 3, 5, format, source, size=32)
    contents = [read_shard(shard) for shard in expand(tmp_path / "a")]
    assert [len(content.captions) for content in contents] == [5, 5, 5] and not any(one.faults for one in contents)
    ids = [key for content in contents for key in content.captions.ids]
    assert ids == [f"{number:09d}" for number in range(15)]
    first = contents[0].captions.item(0)
    assert len(first.references) == 5
    if format == "tar":
        images = [image for content in contents for image in content.captions.images]
        assert {open_image(image).size for image in images} == {(32, 32)}
        assert len({image.value for image in images}) == 15
    again = make_shards(tmp_path / "b", 3, 5, format, source, size=32)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_shards_do_not_depend_on_how_many_there_are(tmp_path):
    few, more = make_shards(tmp_path / "a", 1, 5, "jsonl"), make_shards(tmp_path / "b", 2, 5, "jsonl")
    assert few[0].read_bytes() == more[0].read_bytes()
