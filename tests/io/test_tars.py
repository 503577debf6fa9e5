"""Samples of webdataset tars, as writers make them and as crawls leave them."""

import gzip
import io
import json
import pickle
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captious.captions import ImageData
from captious.errors import InputError
from captious.io.shards import Shard, expand, read_shard
from captious.io.tars import read_tar
from captious.options import Reading

JPEG = b"\xff\xd8 not decoded"


def tar(files, format=tarfile.PAX_FORMAT):
    """A tar of (name, content), as Python writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 1.5  # webdataset writes parts of a second, which need a header more
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def sample(key, caption="a dog", /, **fields):
    parts = [("jpg", JPEG), ("json", json.dumps(fields).encode() if fields else None), ("txt", caption)]
    return [
        (f"{key}.{ending}", part.encode() if isinstance(part, str) else part)
        for ending, part in parts
        if part is not None
    ]


@pytest.fixture
def shard(tmp_path):
    def write(files, name="0.tar"):
        content = files if isinstance(files, bytes) else tar(files)
        (tmp_path / name).write_bytes(content)
        return Shard("0", str(tmp_path / name), len(content))

    return write


def test_a_sample_is_the_members_of_one_key(shard):
    first = sample("000", "a dog\n", url="http://x", references=["the dog"], style="plain")
    content = read_shard(shard(first + sample("001", "a cat", references=["cats"])))
    captions = content.captions
    assert captions.ids == ("000", "001") and not content.faults
    assert list(captions.candidates) == [("a dog",), ("a cat",)]
    assert list(captions.references) == [("the dog",), ("cats",)]
    assert captions.columns["url"] == ("http://x", None) and captions.columns["style"] == ("plain", None)
    assert isinstance(captions.images[0], ImageData) and captions.images[0].value == JPEG
    assert str(captions.images[0]).endswith("0.tar: key '000': .jpg")


def test_what_img2dataset_writes(shard):
    """Its JSON holds the caption again, the key without a folder, and nulls."""
    fields = {
        "caption": "a dog",
        "url": "http://x/1.jpg",
        "key": "000000001",
        "status": "success",
        "error_message": None,
    }
    fields |= {"width": 256, "height": 256, "original_width": 640, "exif": "{}", "sha256": "ab"}
    captions = read_shard(shard(sample("000000001", "a dog", **fields))).captions
    assert captions.ids == ("000000001",) and list(captions.candidates) == [("a dog",)]
    assert "caption" not in captions.columns and captions.columns["status"] == ("success",)


def test_folders_belong_to_the_key(shard):
    files = [
        ("./train/0.a.txt", b"ignored"),
        *sample("./train/0", "one"),
        *sample("val/0", "two"),
        ("val/0.seg.png", b""),
    ]
    assert read_shard(shard(files)).captions.ids == ("train/0", "val/0")


class CountedFile(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    bytes_read = 0

    def read(self, size=-1):
        content = super().read(size)
        self.bytes_read += len(content)
        return content


@pytest.mark.parametrize("images", [False, True])
def test_images_are_not_read_before_somebody_looks_at_them(images):
    file = CountedFile(tar([("0.txt", b"a dog"), ("0.png", b"x" * 1_000_000), ("1.json", b'{"style": "calm"}')]))
    rows = list(read_tar(file, "0.tar", Reading(), images, pytest.fail))
    assert file.bytes_read < 20_000
    if images:
        assert rows[0].fields["image"].value == b"x" * 1_000_000 and file.bytes_read > 1_000_000
    assert [row.fields.get("caption", row.fields.get("style")) for row in rows] == ["a dog", "calm"]
    assert ["image" in row.fields for row in rows] == [images, images]


@pytest.mark.parametrize("name", ["0.tar", "0.tar.gz"])
def test_images_are_read_from_the_file_as_long_as_there_are_captions(shard, name):
    content = tar(sample("0") + sample("1"))
    captions = read_shard(shard(gzip.compress(content) if name.endswith("gz") else content, name)).captions
    image = captions.images[1]
    file = image.parts._file
    assert image.parts is captions.images[0].parts and image.value == image.content() == JPEG
    again = pickle.loads(pickle.dumps(image))
    assert type(again) is ImageData and (again.value, str(again)) == (JPEG, str(image))
    del captions
    assert not file.closed
    del image
    assert file.closed


def test_the_first_caption_and_image_by_ending_are_used(shard):
    files = [("0.png", b"png"), ("0.JPG", b"jpg"), ("0.cap", b"third"), ("0.caption", b"second"), ("0.txt", b"first")]
    captions = read_shard(shard(files)).captions
    assert captions.candidates[0] == ("first",) and captions.images[0].value == b"jpg"
    captions = read_shard(shard(files[:1] + files[2:4])).captions
    assert captions.candidates[0] == ("second",) and captions.images[0].value == b"png"


def test_columns_choose_among_the_members_and_the_fields_of_the_json(shard):
    one = shard(sample("0", "alt text", blip="a dog", url="http://x"))

    def parts(**columns):
        captions = read_shard(one, Reading(**columns)).captions
        return captions.ids[0], captions.candidates[0], captions.references[0]

    assert parts() == ("0", ("alt text",), ())
    assert parts(candidate_column="blip") == ("0", ("a dog",), ())
    assert parts(candidate_column="blip", references_column="txt") == ("0", ("a dog",), ("alt text",))
    assert parts(candidate_column="txt", references_column="blip", id_column="url") == (
        "http://x",
        ("alt text",),
        ("a dog",),
    )


def test_the_json_may_name_the_key_and_hold_several_captions(shard):
    captions = read_shard(
        shard([("0.json", b'{"__key__": "seven", "captions": ["a dog", "dogs"], "image_id": 3}')])
    ).captions
    assert captions.ids == ("seven",) and captions.candidates[0] == ("a dog", "dogs")


def test_members_of_a_key_need_not_stand_together(shard):
    files = sample("0", "zero") + sample("1", "one")
    captions = read_shard(shard(files[::2] + files[1::2])).captions
    assert captions.ids == ("0", "1") and [image.value for image in captions.images] == [JPEG, JPEG]


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_every_dialect_of_tar(shard, format):
    names = ["short", f"{'folder/' * 15}key", "ü" * 20 if format != tarfile.USTAR_FORMAT else "u"]
    if format != tarfile.USTAR_FORMAT:
        names.append("x" * 300)
    content = tar([(f"{name}.txt", name.encode()) for name in names], format)
    captions = read_shard(shard(content)).captions
    assert captions.ids == tuple(names) and [one for (one,) in captions.candidates] == names


def test_folders_links_and_hidden_files_are_no_samples(shard):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind in (("a.b", tarfile.DIRTYPE), ("l.txt", tarfile.SYMTYPE), ("h.txt", tarfile.LNKTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.b/0.txt"
            archive.addfile(info)
        for name in ("a.b/0.txt", "a.b/._0.txt", "README"):
            info = tarfile.TarInfo(name)
            info.size = 5
            archive.addfile(info, io.BytesIO(b"a dog"))
    result = read_shard(shard(buffer.getvalue()))
    assert result.captions.ids == ("a.b/0",) and not result.faults


@pytest.mark.parametrize("name", ["0.tar.gz", "0.tgz", "0.tar"])
def test_a_compressed_tar(shard, name):
    one = shard(gzip.compress(tar(sample("0"))), name)
    assert read_shard(one).captions.ids == ("0",)
    assert expand(one.address) == (Shard("0", one.address, one.size),)


def test_what_is_whole_before_the_cut_is_read(shard):
    content = tar(sample("0", "zero") + sample("1", "one"))
    start = content.rindex(JPEG)
    result = read_shard(shard(content[: start + 5]))
    assert result.captions.ids == ("0",) and result.faults == {"truncated tar": 1}
    assert result.examples["truncated tar"].endswith(
        f"0.tar: is cut short after {start + 5:,} bytes; the members before are used"
    )


@pytest.mark.parametrize("length", [1024, 1025, 1535, 1536], ids=["between", "header", "header", "content"])
def test_a_cut_anywhere_is_seen_by_the_missing_end(shard, length):
    content = tar([("0.txt", b"zero"), ("1.txt", b"one")], tarfile.USTAR_FORMAT)
    result = read_shard(shard(content[:length]))
    assert result.captions.ids == ("0",) and result.faults == {"truncated tar": 1}


def test_what_comes_before_a_damaged_header_is_read(shard):
    content = bytearray(tar([("0.txt", b"zero"), ("1.txt", b"one")], tarfile.USTAR_FORMAT))
    content[1024:1030] = b"broken"
    result = read_shard(shard(bytes(content)))
    assert result.captions.ids == ("0",) and result.faults == {"damaged tar": 1}
    assert "no header with a valid checksum at byte 1,024 of" in result.examples["damaged tar"]


def with_size(content, member, size):
    """The tar with another size in the header of a member; all members before have one block."""
    content, start = bytearray(content), 1024 * member
    content[start + 124 : start + 136] = b"%011o\0" % size
    content[start + 148 : start + 156] = b" " * 8
    content[start + 148 : start + 156] = b"%06o\0 " % sum(content[start : start + 512])
    return bytes(content)


TEXTS = {"0": "a dog runs on the grass", "1": "a cat sits", "2": "the last one"}


@pytest.mark.parametrize("member", range(3))
@pytest.mark.parametrize("size", [0, 1, 5, 22, 24, 30, 500, 512, 513, 600, 1024, 1100, 1500, 2000, 2560, 1_000_000])
def test_a_header_that_lies_about_the_size_changes_no_caption_and_is_reported(shard, member, size):
    whole = tar([(f"{key}.txt", text.encode()) for key, text in TEXTS.items()], tarfile.USTAR_FORMAT)
    assert not read_shard(shard(whole)).faults
    try:
        result = read_shard(shard(with_size(whole, member, size)))
    except InputError as error:
        assert "nothing of the shard can be used" in str(error)
        return
    assert str(member) not in result.captions.ids and result.faults
    assert all(result.captions[key].candidate == TEXTS[key] for key in result.captions.ids)


def test_several_tars_in_one_file_are_reported(shard):
    """``cat a.tar b.tar`` makes a file of which only the first is read, by tar itself too."""
    result = read_shard(shard(tar(sample("0")) + tar(sample("1"))))
    assert result.captions.ids == ("0",) and result.faults == {"content after the end of a tar": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_caption_in_utf16_is_read_with_its_mark_and_refused_without(shard, encoding):
    result = read_shard(shard([("0.txt", "a dog".encode(encoding)), *sample("1", "a cat")]))
    marked = encoding == "utf-16"
    assert result.captions.candidates[0] == (("a dog",) if marked else ("a cat",))
    assert result.faults == ({} if marked else {"caption contains a null character": 1})


def test_the_column_of_the_json_may_be_named_where_some_samples_have_caption_files(shard):
    files = [*sample("0", "a dog", text="one"), *sample("1", None, text="two")]
    assert read_shard(shard(files)).captions.ids == ("0",)
    result = read_shard(shard(files), Reading(candidate_column="text"))
    assert list(result.captions.candidates) == [("one",), ("two",)] and not result.faults


def test_a_name_that_is_twice_in_a_json_is_counted(shard):
    result = read_shard(shard([("0.json", b'{"caption": "a", "caption": "b"}'), ("1.json", b'{"caption": "c"}')]))
    assert result.captions.ids == ("1",) and result.faults == {"JSON cannot be read": 1}


def test_what_comes_before_the_damage_of_a_compressed_tar_is_read(shard):
    import random

    noise = random.Random(1)
    files = [(f"{number}.txt", noise.randbytes(300).hex().encode()) for number in range(100)]
    result = read_shard(shard(gzip.compress(tar(files))[:-5000], "0.tar.gz"))
    assert 0 < len(result.captions) < 100
    assert result.faults["damaged gzip"] == 1


def test_samples_that_cannot_be_used_are_counted_by_reason(shard):
    files = [
        *sample("good", "a dog"),
        *sample("image alone", None),
        ("class alone.cls", b"7"),
        *sample("latin", b"caf\xe9"),
        ("json none.json", b"{'caption': 'x'}"),
        ("json list.json", b"[1]"),
        *sample("json beside", "kept")[:1],
        ("json beside.json", b"{"),
        ("json beside.txt", b"kept"),
        *sample("without", None, url="http://x"),
        *sample("in the json", None, text="words in the picture"),
        *sample("good", "again"),
    ]
    result = read_shard(shard(files))
    assert result.captions.ids == ("good", "json beside")
    assert result.captions.candidates[0] == ("a dog",)
    assert result.faults == {
        "no candidate caption": 3,
        "caption is not UTF-8": 1,
        "JSON cannot be read": 3,
        "no caption file, where other samples have one": 1,
        "member occurs twice": 2,
    }
    assert read_shard(shard([("0.json", b'{"caption": null}'), ("1.json", b'{"caption": "a dog"}')])).faults == {
        "caption is null": 1
    }
    name = shard([]).address
    assert result.examples["no candidate caption"] == (
        f"{name}: key 'image alone': no candidate caption: found .jpg, expected one of .txt, .caption, .cap, .json"
    )
    assert result.examples["caption is not UTF-8"].startswith(f"{name}: key 'latin': .txt: line 1: byte 0xe9")


def test_the_faults_are_the_same_without_images(shard):
    files = [*sample("0"), *sample("1", None), ("2.jpg", JPEG)]
    assert read_shard(shard(files), images=False).faults == read_shard(shard(files)).faults


def test_an_id_that_two_samples_have_is_counted(shard):
    files = [(f"{number}.json", b'{"__key__": "same", "caption": "caption %d"}' % number) for number in range(3)]
    result = read_shard(shard(files))
    assert list(result.captions.candidates) == [("caption 0",)]
    assert result.faults == {"id … occurs more than once": 2}


def test_a_name_that_is_not_utf8_is_counted(shard):
    content = tar([("good.txt", b"a dog"), ("bad-X.txt", b"a cat")], tarfile.USTAR_FORMAT)
    header = bytearray(content[1024:1536])
    header[4] = 0xFF
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    result = read_shard(shard(content[:1024] + header + content[1536:]))
    assert result.captions.ids == ("good",) and list(result.faults.values()) == [1]
    assert "contains half a character" in next(iter(result.faults))


def test_a_tar_without_samples_is_a_shard_without_an_item(shard):
    for content in (b"", tar([]), b"\0" * 1024):
        result = read_shard(shard(content))
        assert len(result.captions) == 0 and result.faults == {"a shard without an item": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no tar at all" * 100, r"0\.tar: is not a tar file \(.*\)"),
        (b"short", r"0\.tar: is not a tar file \(5 bytes, expected a header of 512\)"),
        (
            tar([("0.jpg", JPEG)]),
            r"0\.tar: key '0': no candidate caption: found \.jpg, .*; nothing of the shard can be used",
        ),
    ],
)
def test_a_shard_of_no_use_is_refused_in_one_line(shard, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_shard(shard(content))
    assert "\n" not in str(caught.value)


WHOLE = tar(sample("a/0", "zero", references=["x"]) + sample("a/1", "one") + sample("x" * 150, "two"))


def assert_ends_well(folder, content, name="0.tar"):
    """Reading ends with captions and counted faults, or with one line."""
    (folder / name).write_bytes(content)
    try:
        result = read_shard(Shard("0", str(folder / name), len(content)))
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert len(set(result.captions.ids)) == len(result.captions)
    assert all(number > 0 for number in result.faults.values()) and result.faults.keys() == result.examples.keys()
    assert len(result.captions) or result.faults


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_cut_or_changed_tar_ends_well(tmp_path_factory, data):
    content = bytearray(WHOLE[: data.draw(st.integers(0, len(WHOLE)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            start = data.draw(st.integers(0, len(content) - 1))
            noise = data.draw(st.binary(min_size=1, max_size=20))
            content[start : start + len(noise)] = noise
    folder = tmp_path_factory.mktemp("tar")
    assert_ends_well(folder, bytes(content))
    assert_ends_well(folder, gzip.compress(WHOLE)[: len(content)], "0.tar.gz")


@given(content=st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_bytes_end_well(tmp_path_factory, content):
    assert_ends_well(tmp_path_factory.mktemp("tar"), content)


@given(name=st.binary(min_size=1, max_size=99), caption=st.binary(max_size=50), fields=st.binary(max_size=50))
@settings(max_examples=100, deadline=None)
def test_any_members_end_well(tmp_path_factory, name, caption, fields):
    stem = name.decode("utf-8", "surrogateescape")
    content = tar([(f"{stem}.txt", caption), (f"{stem}.json", fields), ("0.txt", b"a dog")], tarfile.GNU_FORMAT)
    assert_ends_well(tmp_path_factory.mktemp("tar"), content)
