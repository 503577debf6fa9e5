"""Families of cases that found something: written forms of metrics, changed runs, tars, dense captions and videos."""

import gzip
import io
import json
import os
import re
import tarfile
import typing
from dataclasses import fields
from pathlib import Path

from tests.fuzz.inputs import ANYTHING, ODD, SURROGATE, WRONG, Blob, Input, dumped, odd_place, png, written

from captious.metrics.registry import METRICS, get_metric_class

# The clips that the guide shows.
CLIPS = Path(__file__).parents[2] / "docs" / "clips"
# For parameters that are numbers or switches.
EXTREMES = (
    *(
        "0",
        "-1",
        "1001",
        "1000000000",
        "1" + "0" * 30,
        "2.5",
        "1e308",
        "-1e308",
        "1e-320",
        "inf",
        "-inf",
        "nan",
        "-0.0",
    ),
    *("", " ", "x", "yes", "none", "0x10", "1_000", "1,5", "٣", "9" * 400),
)
# For parameters that are names or paths.
TEXTS = (
    *("/", ".", "..", "~", "~nobody-here/x", "/dev/zero", "/dev/random", "/dev/null", "/proc/self/mem", "nowhere.idf"),
    *(
        "os:system",
        "lab.toy:nosuch",
        "http://127.0.0.1:9/v1",
        "s3://nosuch/x",
        "no/such",
        "a" * 5000,
        "\udcff",
        "\x1b[31m",
    ),
    *("", " ", "a=b", "(", ")", "'", '"', "refs", "nan", "{}", "%s", "a\nb", "ptb", "../../x"),
)


class MetricText:
    """The written form of a metric with a number that no formula takes, or a path where nothing of the sort is."""

    def right(self, folder, name):
        """A metric as it should be."""
        return "rouge"

    def spoiled(self, rng, folder, name):
        """One or two parameters of any metric, with anything as their values."""
        metric = rng.choice(sorted(METRICS))
        kinds = typing.get_type_hints(get_metric_class(metric))
        parameters = [field.name for field in fields(get_metric_class(metric)) if field.init]
        chosen = rng.sample(parameters, min(len(parameters), rng.choice((1, 1, 1, 2))))
        values = [f"{one}={self._value(rng, folder, kinds[one])}" for one in chosen]
        text = f"{metric}({','.join(values)})"
        return Input(text, f"{text[:60]!r}", ODD)

    def _value(self, rng, folder, kind):
        if rng.random() < 0.15:
            return odd_place(rng, folder, rng.choice(("", ".idf", ".style", ".pt", ".json"))).text
        return rng.choice(TEXTS if "str" in str(kind) and rng.random() < 0.8 else EXTREMES)


def change_fact(rng, record):
    """Change or remove one value anywhere in a record; return what was done."""
    holder, key, steps = record, None, []
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = rng.choice(keys)
        steps.append(str(key))
        if not isinstance(holder[key], (dict, list)) or not holder[key] or rng.random() < 0.2:
            break
        holder = holder[key]
    if rng.random() < 0.2:
        del holder[key]
        what = "is missing"
    else:
        texts = (*TEXTS, SURROGATE, "clair(model=m)", "imagine(painter=os:system)", "../../etc/passwd", "rouge")
        value = rng.choice((*ANYTHING, *texts, 2**70, -(2**70), 1e308))
        holder[key] = value
        what = f"is {value!r:.40}"
    return f"{'.'.join(steps)} {what}"


class ChangedRun:
    """A run in which one fact, one column or one file is not what captious wrote."""

    def right(self, folder, name):
        """The folder as it should be: eight items with images beside them."""
        from tests.fuzz.cases import CAPTIONS, IDS, others

        from captious import CaptionSet, Resampling, evaluate

        images = [written(folder, f"{key}.png", png()) for key in IDS]
        captions = CaptionSet.of(
            dict(zip(IDS, CAPTIONS, strict=True)), {key: others(i) for i, key in enumerate(IDS)}, {"image": images}
        )
        evaluate(captions, "rouge,bleu(n=2),cider,vocab_size", resampling=Resampling(samples=5)).save(folder / name)
        return str(folder / name)

    def spoiled(self, rng, folder, name):
        """A changed fact of the marker or the summary, a changed table, or a file that is something else."""
        path = Path(self.right(folder, name))
        files = sorted(one for one in path.rglob("*") if one.suffix in (".json", ".parquet"))
        file = rng.choice([path / "captious-run.json", *files])
        way = rng.choice(
            (self._fact, self._fact, self._fact, self._file)
            if file.suffix == ".json"
            else (self._table,) * 3 + (self._file,)
        )
        return Input(str(path), f"{file.relative_to(path)}: {way(rng, file, folder)}", ODD)

    def _fact(self, rng, file, folder):
        """One value anywhere in the JSON is something else, or is missing."""
        record = json.loads(file.read_text(encoding="utf-8"))
        what = change_fact(rng, record)
        file.write_text(json.dumps(record))
        return what

    def _table(self, rng, file, folder):
        """One column of a Parquet file is missing, twice, of another type, or of other values."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(file)
        index = rng.randrange(table.num_columns)
        column, rows = table.column_names[index], table.num_rows
        numbers = (float("nan"), float("inf"), -1e308, 0.0)
        columns = {
            "missing": None,
            "text": pa.array(["x"] * rows),
            "odd text": pa.array([rng.choice([one for one in TEXTS if one.isprintable()])] * rows),
            "numbers": pa.array([rng.choice(numbers)] * rows),
            "null": pa.nulls(rows),
            "lists": pa.array([[1.0, float("nan")]] * rows),
            "texts": pa.array([["a dog", None]] * rows),
            "bytes": pa.array([b"\xff\x00"] * rows),
            "objects": pa.array([{"a": 1}] * rows),
            "times": pa.array([0] * rows, pa.timestamp("ns")),
        }
        way = rng.choice((*columns, "renamed", "twice", "fewer rows", "rows twice", "no rows", "metadata"))
        if way in columns:
            made = columns[way]
            table = table.remove_column(index) if made is None else table.set_column(index, column, made)
        elif way == "renamed":
            other = rng.choice(("id", "x", "", "rouge", "clair(model=m)", "reasons", "\u202e"))
            table = table.rename_columns([other if i == index else one for i, one in enumerate(table.column_names)])
        elif way == "twice":
            table = table.append_column(column, table.column(index))
        elif way == "metadata":
            table = table.replace_schema_metadata({b"captious": rng.choice((b"", b"{}", b"[1]", b"\xff", b"null"))})
        else:
            table = {"fewer rows": table.slice(1), "no rows": table.slice(0, 0)}.get(way, pa.concat_tables([table] * 2))
        pq.write_table(table, file)
        return f"column {column!r:.40} is {way}"

    def _file(self, rng, file, folder):
        """The file is cut, something else, a link elsewhere, or not there."""
        odd = Blob(file.read_bytes(), file.suffix, sealed=True).spoiled(rng, folder, "spoiled")
        file.unlink()
        if os.path.lexists(odd.text):
            file.symlink_to(odd.text)
        return odd.what


class Tar:
    """A webdataset tar of captions with references and images: a member, a header or a byte is not as it should be."""

    names = (
        "a/../../x.txt",
        "/etc/x.txt",
        "",
        ".",
        "x" * 300 + ".txt",
        "ü.txt",
        "0.txt",
        "\udcff.txt",
        "a b.json",
        "0.0.txt",
    )
    contents = (
        *(
            b"",
            b" ",
            b"\x00" * 20,
            b"\xff\xfe" + "a dog".encode("utf-16-le"),
            b"caf\xe9",
            b"a dog\n\na cat",
            b"[" * 5000,
        ),
        *(b'{"caption": null}', b'{"caption": ["a", 1]}', b'{"caption": "a", "caption": "b"}', b'{"caption": 1e400}'),
        *(
            b'["a dog"]',
            b"null",
            b'{"references": "x", "caption": {"a": 1}}',
            b"['a dog' 'a cat']",
            b"a" * 300_000,
        ),
    )

    def right(self, folder, name):
        """The tar as it should be."""
        return written(folder, f"{name}.tar", _tar(self._members()))

    def _members(self):
        from tests.fuzz.cases import CAPTIONS, IDS, others

        members = []
        for index, key in enumerate(IDS):
            record = json.dumps({"id": key, "references": others(index)}).encode()
            members += [(f"{key}.txt", CAPTIONS[index].encode()), (f"{key}.json", record), (f"{key}.png", png())]
        return members

    def spoiled(self, rng, folder, name):
        """A tar with another member, another header, or other bytes."""
        way = rng.choice(
            ("member", "content", "kind", "header", "cut", "flipped", "gzip", "twice", "after", "format", "place")
        )
        if way == "place":
            return odd_place(rng, folder, ".tar")
        members, suffix = self._members(), ".tar"
        index = rng.randrange(len(members))
        if way == "member":
            members[index] = (rng.choice(self.names), members[index][1])
        elif way == "content":
            members[index] = (members[index][0], rng.choice(self.contents))
        elif way == "twice":
            members.append(members[index])
        content = _tar(members, index if way == "kind" else None, rng)
        if way == "header":
            content = _other_header(content, rng)
        elif way == "cut":
            content = content[: rng.randrange(len(content))]
        elif way == "flipped":
            changed = bytearray(content)
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            content = bytes(changed)
        elif way == "gzip":
            content, suffix = gzip.compress(content), ".tar.gz"
            content = content[: rng.randrange(1, len(content))] if rng.random() < 0.5 else content + rng.randbytes(50)
        elif way == "after":
            content += rng.choice((content, b"x" * 700, bytes(10_000), rng.randbytes(2000)))
        elif way == "format":
            suffix = rng.choice((".tar.gz", ".jsonl", ".parquet", ".tgz", ".csv"))
        return Input(written(folder, f"{name}{suffix}", content), f"tar: {way}", ODD)


class Events:
    """Dense captions: predictions, or references of the same videos; one value, or the bytes, are something else."""

    def __init__(self, record):
        self.record = record

    def right(self, folder, name):
        """The file as it should be."""
        return written(folder, f"{name}.json", json.dumps(self.record))

    def spoiled(self, rng, folder, name):
        """A file with another value, other times, other bytes, or no file."""
        way = rng.choice(("fact", "fact", "times", "times", "bytes", "gzip"))
        content = json.dumps(self.record)
        if way == "bytes":
            return Blob(content.encode(), ".json").spoiled(rng, folder, name)
        if way == "gzip":
            packed = gzip.compress(content.encode())
            packed = packed[: rng.randrange(1, len(packed))] if rng.random() < 0.7 else packed + rng.randbytes(9)
            return Input(written(folder, f"{name}.json.gz", packed), "gzip cut, or with more after it", ODD)
        if way == "fact":
            record = json.loads(content)
            what = change_fact(rng, record)
            return Input(written(folder, f"{name}.json", dumped(record)), what, ODD)
        numbers = [match.span() for match in re.finditer(r"(?<=[\[ ])[0-9.]+(?=[,\]])", content)]
        start, end = rng.choice(numbers)
        value, wrong = rng.choice(self.times)
        return Input(written(folder, f"{name}.json", content[:start] + value + content[end:]), f"time {value}", wrong)

    times = (
        *((value, WRONG) for value in ("NaN", "Infinity", "-1", "1e400", "null", '"3"', "true", "[]", "9" * 400)),
        *((value, ODD) for value in ("1e308", "1e12", "0", "-0.0", "1e-320", "9" * 20, "9" * 5000)),
    )


class Clips:
    """A folder of videos, one of which is cut, damaged, of another kind, or no file."""

    names = ("cats.mp4", "bird.mp4", "two-shots.mp4")

    def right(self, folder, name):
        """The folder as it should be."""
        import pytest

        pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
        (folder / name).mkdir()
        for one in self.names:
            (folder / name / one).write_bytes((CLIPS / one).read_bytes())
        return str(folder / name)

    def spoiled(self, rng, folder, name):
        """A folder with a wrong video, or no folder."""
        if rng.random() < 0.1:
            return odd_place(rng, folder, "")
        path = Path(self.right(folder, name))
        clip = path / rng.choice(self.names)
        content = clip.read_bytes()
        way = rng.choice(("bytes", "bytes", "cut", "box", "box", "other", "vectors", "place"))
        clip.unlink()
        if way == "place":
            target = odd_place(rng, folder, ".mp4")
            if os.path.lexists(target.text):
                clip.symlink_to(target.text)
            return Input(str(path), f"{clip.name}: {target.what}", WRONG)
        if way == "vectors":
            clip = clip.with_suffix(".npy")
            clip.write_bytes(rng.choice(VECTORS)())
        elif way == "other":
            clip.write_bytes(rng.choice((b"", b"\x00", b"#EXTM3U\nfile:///etc/passwd\n", png(), rng.randbytes(900))))
        elif way == "cut":
            clip.write_bytes(content[: rng.randrange(len(content))])
        else:
            changed = bytearray(content)
            if way == "box":  # the numbers of one box
                box = content.find(rng.choice((b"stts", b"stsz", b"stco", b"stsd", b"mdhd", b"tkhd", b"trun", b"avcC")))
                first = max(0, box)
                changed[first - 4 : first + 24] = changed[first - 4 : first + 4] + rng.randbytes(20)
            for _ in range(rng.randrange(1, 20) if way == "bytes" else 0):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            clip.write_bytes(bytes(changed))
        return Input(str(path), f"{clip.name}: {way}", ODD)


def _make_vectors(array, cut=None):
    """The bytes of a ``.npy`` file."""
    import numpy as np

    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()[:cut]


def _claim(shape):
    """A ``.npy`` file whose header promises an array that is not there."""
    content = _make_vectors([[0.5] * 128])
    return content.replace(b"(1, 128)", shape.ljust(8).encode())


VECTORS = (
    lambda: _make_vectors([[0.5] * 128]),
    lambda: _make_vectors([[0.0] * 128]),
    lambda: _make_vectors([[float("nan")] * 128]),
    lambda: _make_vectors([[1e300] * 128]),
    lambda: _make_vectors([[0.5] * 7]),
    lambda: _make_vectors([0.5] * 128),
    lambda: _make_vectors([["a"]]),
    lambda: _make_vectors([[{}, set()]]),
    lambda: _make_vectors([[0.5] * 128], -9),
    lambda: _claim("(9**9,9)"),
    lambda: _claim("(99999999999, 128)"),
    lambda: _claim("(-1, 128)"),
)


def _tar(members, odd=None, rng=None):
    """A tar of (name, content); the member of number ``odd`` is no ordinary file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, (name, content) in enumerate(members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if number == odd:
                info.type = rng.choice(
                    (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
                )
                info.linkname, info.size = rng.choice(("/etc/passwd", "../x", name, "0.txt")), 0
            archive.addfile(info, io.BytesIO(content) if info.size else None)
    return buffer.getvalue()


def _other_header(content, rng):
    """A header with another size, type or time, and a checksum that fits."""
    changed = bytearray(content)
    start = 512 * rng.randrange(len(content) // 512)
    sizes = (
        b"77777777777\0",
        b"00000000000\0",
        b"-0000000001\0",
        b"\x80" + b"\xff" * 11,
        b"zzzzzzzzzzz\0",
        b"00000001000\0",
    )
    if rng.random() < 0.7:
        changed[start + 124 : start + 136] = rng.choice(sizes)
    else:
        changed[start + 156] = rng.randrange(256)
    changed[start + 148 : start + 156] = b" " * 8
    changed[start + 148 : start + 156] = b"%06o\0 " % sum(changed[start : start + 512])
    return bytes(changed)
