"""Malformed files: a right one with one thing wrong, or no file at all.

A generator writes into the folder of its case and returns an `Input`: the path, what is odd about it, and whether it is
known to be wrong. What is known to be wrong must be refused, or accepted with a warning; of the rest it is only asked
that it ends well.
"""

import csv
import gzip
import io
import json
import math
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

SURROGATE = "\ud800 half a character"
WRONG, ODD = True, False


@dataclass(frozen=True)
class Input:
    """What stands on the command line, what is odd about it, and whether it must not pass in silence."""

    text: str
    what: str
    wrong: bool


def nested(depth, inner=1):
    """A list in a list in a list."""
    for _ in range(depth):
        inner = [inner]
    return inner


MARK = "<as it stands>"
# Numbers that Python does not write, but others do.
HUGE, LONG = f"{MARK}1e400{MARK}", f"{MARK}1{'0' * 400}{MARK}"
ANYTHING = (None, True, 0, -1, 1.5, math.nan, math.inf, HUGE, LONG, "", [], {}, [None], nested(50), nested(600))
ODD_TEXTS = ("\x00", "\x1b[31mred\x1b[0m", "a" * 200_000, "line\nbreak", "\u202e\u2066", "é" * 50, "a, b", '"', "|||")
# By kind of column: a value, and whether it must not pass in silence.
VALUES = {
    "text": [
        *((value, WRONG) for value in (None, True, 1.5, math.nan, HUGE, LONG, {}, [None], [1], [["a"]], nested(50))),
        *((value, WRONG) for value in (SURROGATE, [SURROGATE], "", " ", [])),
        *((value, ODD) for value in ODD_TEXTS),
    ],
    "texts": [
        *((value, WRONG) for value in (True, 3, math.inf, HUGE, LONG, {}, {"a": 1}, [None], [1], [["a"]], [math.nan])),
        *((value, WRONG) for value in (SURROGATE, ["a dog", SURROGATE], ["a dog", None], nested(50), nested(600))),
        *(([value], ODD) for value in ODD_TEXTS),
    ],
    "id": [
        *((value, WRONG) for value in (None, True, 1.5, math.nan, math.inf, HUGE, [], {}, [1], "", SURROGATE)),
        *((value, ODD) for value in (LONG, 10**30, "x\ny", "\x1b[31m", "a" * 5000, -1, "../../etc/passwd")),
    ],
    "name": [
        *((value, WRONG) for value in (True, math.inf, HUGE, [], {}, [1], SURROGATE)),
        *((value, ODD) for value in (None, "", 1.5, math.nan, LONG, "x\ny", "a" * 5000, -1)),
    ],
    "number": [
        *((value, WRONG) for value in (True, "x", math.inf, -math.inf, HUGE, LONG, {}, [[1]], "1e400", SURROGATE)),
        *((value, ODD) for value in (None, math.nan, 1e300, -1e300, "", "3")),
    ],
    "word": [
        *((value, WRONG) for value in ({}, SURROGATE, [[1]], nested(50))),
        *((value, ODD) for value in (None, True, 1.5, math.nan, HUGE, "", [], *ODD_TEXTS)),
    ],
    "any": [*((value, ODD) for value in (*ANYTHING, SURROGATE, *ODD_TEXTS))],
}


def dumped(value):
    """JSON, with numbers that Python does not write."""
    return json.dumps(value).replace(f'"{MARK}', "").replace(f'{MARK}"', "")


def as_csv(rows, delimiter=","):
    """Rows as delimited text; lists as JSON."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer.writerow(names)
    for row in rows:
        cells = (row.get(name, "") for name in names)
        writer.writerow([dumped(cell) if isinstance(cell, (list, dict, float)) else cell for cell in cells])
    return file.getvalue()


def as_parquet(rows):
    """Rows as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def written(folder, name, content):
    """A file of the case."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return str(path)


# Places that are no regular file.


def odd_place(rng, folder, suffix):
    """A path where no ordinary file is."""
    kind = rng.choice(sorted(PLACES))
    return Input(PLACES[kind](folder, suffix), kind, WRONG)


def _folder(folder, suffix):
    (folder / f"a-folder{suffix}").mkdir()
    return str(folder / f"a-folder{suffix}")


def _pipe(folder, suffix):
    os.mkfifo(folder / f"pipe{suffix}")
    return str(folder / f"pipe{suffix}")


def _loop(folder, suffix):
    (folder / f"loop{suffix}").symlink_to(folder / f"loop{suffix}")
    return str(folder / f"loop{suffix}")


def _broken_link(folder, suffix):
    (folder / f"link{suffix}").symlink_to(folder / "nowhere")
    return str(folder / f"link{suffix}")


def _link_to_a_device(folder, suffix):
    (folder / f"zero{suffix}").symlink_to("/dev/zero")
    return str(folder / f"zero{suffix}")


PLACES = {
    "a folder": _folder,
    "a named pipe": _pipe,
    "a symlink loop": _loop,
    "a broken link": _broken_link,
    "a link to /dev/zero": _link_to_a_device,
    "nowhere": lambda folder, suffix: str(folder / f"nowhere{suffix}"),
    "nowhere, with a line break": lambda folder, suffix: str(folder / f"no\nwhere{suffix}"),
    "below a file": lambda folder, suffix: f"{written(folder, 'file', 'x')}/below{suffix}",
    "/dev/zero": lambda folder, suffix: "/dev/zero",
    "/dev/random": lambda folder, suffix: "/dev/random",
    "/dev/urandom": lambda folder, suffix: "/dev/urandom",
    "/dev/full": lambda folder, suffix: "/dev/full",
    "/dev/null": lambda folder, suffix: "/dev/null",
    "the name of nobody": lambda folder, suffix: f"~nobody-here/x{suffix}",
    "a name too long": lambda folder, suffix: str(folder / ("a" * 300 + suffix)),
    "bytes that are no UTF-8": lambda folder, suffix: str(folder / f"\udcff{suffix}"),
}


# Rows of a table.


class Table:
    """Rows of known columns, to be spoiled in one place."""

    def __init__(self, rows, kinds, required=(), unique=(), formats=("json", "jsonl", "csv", "tsv", "parquet")):
        self.rows, self.kinds, self.required, self.unique = rows, kinds, required, unique
        self.formats = formats

    def right(self, folder, name):
        """The file as it should be."""
        return written(folder, f"{name}.jsonl", self._text(self.rows, "jsonl"))

    def spoiled(self, rng, folder, name):
        """A wrong or an odd file."""
        ways = [self._value] * 5 + [self._bytes] * 4 + [self._row] * 2 + [self._resolve]
        return rng.choice(ways)(rng, folder, name)

    def _resolve(self, rng, folder, name):
        return odd_place(rng, folder, rng.choice((".json", ".jsonl", ".csv", ".parquet", "")))

    def _text(self, rows, format):
        if format == "jsonl":
            return "".join(dumped(row) + "\n" for row in rows)
        if format == "parquet":
            return as_parquet(rows)
        return dumped(rows) if format == "json" else as_csv(rows, "\t" if format == "tsv" else ",")

    def _value(self, rng, folder, name):
        """One cell has a value of another type, or one that no computer can hold."""
        rows = [dict(row) for row in self.rows]
        column = rng.choice([*self.kinds, "extra"])
        value, wrong = rng.choice(VALUES[self.kinds.get(column, "any")])
        rng.choice(rows)[column] = value
        format = rng.choice([one for one in self.formats if one in ("json", "jsonl")])
        path = written(folder, f"{name}.{format}", self._text(rows, format))
        return Input(path, f"{format}: {column} is {dumped(value)[:40]}", wrong)

    def _row(self, rng, folder, name):
        """A row that is none, lacks a column, or occurs twice."""
        rows = [dict(row) for row in self.rows]
        index = rng.randrange(len(rows))
        format = rng.choice([one for one in self.formats if one in ("json", "jsonl")])
        kind = rng.choice(("none", "lacks", "all lack", "twice"))
        wrong = WRONG
        if kind == "none":
            rows[index] = rng.choice([None, 1, "text", [1, 2], math.nan, True])
            what = f"a row is {dumped(rows[index])}"
        elif kind == "twice":
            rows.append(rows[index])
            what, wrong = "a row occurs twice", bool(self.unique)
        else:
            column = rng.choice(list(self.kinds))
            for row in rows if kind == "all lack" else [rows[index]]:
                row.pop(column, None)
            what, wrong = f"{column} is missing ({kind})", column in self.required
        return Input(written(folder, f"{name}.{format}", self._text(rows, format)), f"{format}: {what}", wrong)

    def _bytes(self, rng, folder, name):
        """The bytes of the file are cut, of another encoding or another format."""
        kind = rng.choice(sorted(DAMAGES))
        content, suffix, wrong = DAMAGES[kind](rng, self)
        if not any(suffix.startswith(f".{format}") for format in self.formats) and suffix not in ("", ".xlsx"):
            content, suffix, wrong = b"", ".jsonl", WRONG
        return Input(written(folder, f"{name}{suffix}", content), kind, wrong)


def _cut(content, rng):
    return content[: rng.randrange(1, max(2, len(content) - 8))]


def _spoil(text, rng):
    """Random bytes in the middle."""
    content = bytearray(text.encode())
    for _ in range(rng.randrange(1, 8)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


def _csv_lines(table):
    return as_csv(table.rows).split("\r\n")


def _twice(table, rng):
    """A column that occurs twice, with other values in the second."""
    lines = as_csv(table.rows).splitlines()
    column = rng.choice(list(table.kinds))
    return "\n".join([f"{lines[0]},{column}", *(f"{line},other" for line in lines[1:] if line)]) + "\n"


def _deep(depth):
    return "[" * depth + "]" * depth


# Bytes, ending of the name, and whether it must not pass in silence.
DAMAGES = {
    "empty": lambda rng, t: (b"", rng.choice((".json", ".csv", ".jsonl", ".parquet", "")), WRONG),
    "spaces": lambda rng, t: (b" \n\t\n ", rng.choice((".json", ".csv", ".jsonl", "")), WRONG),
    "NUL bytes": lambda rng, t: (b"\x00" * 64, rng.choice((".json", ".csv", ".jsonl", ".tsv", "")), WRONG),
    "random bytes": lambda rng, t: (rng.randbytes(200), rng.choice((".json", ".csv", ".parquet", "")), WRONG),
    "UTF-16": lambda rng, t: (t._text(t.rows, "json").encode("utf-16"), ".json", ODD),
    "UTF-16 without a byte-order mark": lambda rng, t: (t._text(t.rows, "json").encode("utf-16-le"), ".json", WRONG),
    "Latin-1": lambda rng, t: (t._text(t.rows, "json").encode()[:-3] + b"\xe9\xff}]", ".json", WRONG),
    "a byte-order mark": lambda rng, t: (b"\xef\xbb\xbf" + t._text(t.rows, "jsonl").encode(), ".jsonl", ODD),
    "CRLF": lambda rng, t: (t._text(t.rows, "jsonl").replace("\n", "\r\n"), ".jsonl", ODD),
    "gzip": lambda rng, t: (gzip.compress(t._text(t.rows, "jsonl").encode()), ".jsonl.gz", ODD),
    "gzip cut short": lambda rng, t: (_cut(gzip.compress(t._text(t.rows, "jsonl").encode()), rng), ".jsonl.gz", WRONG),
    "gzip in name only": lambda rng, t: (t._text(t.rows, "jsonl"), ".jsonl.gz", ODD),
    "gzip with a wrong checksum": lambda rng, t: (
        gzip.compress(t._text(t.rows, "jsonl").encode())[:-8] + b"12345678",
        ".jsonl.gz",
        WRONG,
    ),
    "parquet": lambda rng, t: (as_parquet(t.rows), ".parquet", ODD),
    "parquet cut short": lambda rng, t: (as_parquet(t.rows)[:-20], ".parquet", WRONG),
    "parquet with random bytes": lambda rng, t: (
        as_parquet(t.rows)[:60] + rng.randbytes(40) + as_parquet(t.rows)[100:],
        ".parquet",
        ODD,
    ),
    "JSON in a parquet name": lambda rng, t: (t._text(t.rows, "json"), ".parquet", WRONG),
    "CSV in a JSON name": lambda rng, t: (as_csv(t.rows), ".json", WRONG),
    "JSON cut short": lambda rng, t: (_cut(t._text(t.rows, "json"), rng), ".json", WRONG),
    "JSON with random bytes": lambda rng, t: (_spoil(t._text(t.rows, "json"), rng), ".json", ODD),
    "JSON Lines with random bytes": lambda rng, t: (_spoil(t._text(t.rows, "jsonl"), rng), ".jsonl", ODD),
    "CSV with random bytes": lambda rng, t: (_spoil(as_csv(t.rows), rng), ".csv", ODD),
    "a JSON scalar": lambda rng, t: (
        rng.choice(("null", "1", '"text"', "true", "NaN", "1e400", "Infinity", "-0")),
        rng.choice((".json", ".jsonl")),
        WRONG,
    ),
    "an empty JSON list": lambda rng, t: ("[]", ".json", WRONG),
    "an empty JSON object": lambda rng, t: ("{}", ".json", WRONG),
    "empty JSON objects": lambda rng, t: ("[{}, {}]", ".json", WRONG),
    "JSON nested deeply": lambda rng, t: (_deep(rng.choice((100, 990, 5000, 100_000))), ".json", WRONG),
    "an object nested deeply": lambda rng, t: (
        '{"a":' * (depth := rng.choice((100, 990, 50_000))) + "1" + "}" * depth,
        rng.choice((".json", ".jsonl")),
        WRONG,
    ),
    "a long number": lambda rng, t: ("[" + "9" * 5000 + "]", ".json", WRONG),
    "CSV of a header only": lambda rng, t: (",".join(t.kinds) + "\n", ".csv", WRONG),
    "CSV with a column twice": lambda rng, t: (_twice(t, rng), ".csv", WRONG),
    "CSV with a short row": lambda rng, t: ("\r\n".join([*_csv_lines(t)[:2], "x"]) + "\r\n", ".csv", WRONG),
    "CSV with an open quote": lambda rng, t: ("\r\n".join([*_csv_lines(t)[:2], '"x']), ".csv", WRONG),
    "CSV without names": lambda rng, t: (",,,\n1,2,3,4\n", ".csv", WRONG),
    "CSV with a huge cell": lambda rng, t: (
        "\r\n".join([*_csv_lines(t)[:1], ",".join(["a" * 300_000] * len(t.rows[0]))]),
        ".csv",
        ODD,
    ),
    "a stub of a spreadsheet": lambda rng, t: (b"PK\x03\x04" + b"\x00" * 40, ".xlsx", WRONG),
    "an image": lambda rng, t: (png(), rng.choice((".json", ".csv", "")), WRONG),
    "a pickle": lambda rng, t: (b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94.", "", WRONG),
}


# Files that are no tables.


class Blob:
    """A file of another sort: right bytes, to be spoiled."""

    def __init__(self, content, suffix, sealed=False):
        self.content, self.suffix, self.sealed = content, suffix, sealed

    def right(self, folder, name):
        """The file as it should be."""
        return written(folder, f"{name}{self.suffix}", self.content)

    def spoiled(self, rng, folder, name):
        """A file that is cut, spoiled, or something else."""
        kind = rng.choice(("place", "empty", "cut", "spoiled", "text", "deep", "list", "random", "zeros", "utf-16"))
        if kind == "place":
            return odd_place(rng, folder, self.suffix)
        head = self.content.split(b"\n", 1)[0]
        content, wrong = {
            "empty": (b"", WRONG),
            "cut": (_cut(self.content, rng), WRONG if self.sealed else ODD),
            "spoiled": (self._flipped(rng), WRONG if self.sealed else ODD),
            "text": (b"nothing of the sort\n", WRONG if self.sealed else ODD),
            "deep": (_deep(rng.choice((1000, 50_000))).encode(), WRONG),
            "list": (b"[1, 2, 3]\n", WRONG),
            "random": (rng.randbytes(500), WRONG),
            "zeros": (bytes(500), WRONG),
            "utf-16": (head.decode("latin-1").encode("utf-16"), WRONG if self.sealed else ODD),
        }[kind]
        return Input(written(folder, f"{name}{self.suffix}", content), f"{self.suffix}: {kind}", wrong)

    def _flipped(self, rng):
        content = bytearray(self.content)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return bytes(content)


# Folders of images.


def png(width=6, height=5, depth=8, color=2, pixels=None):
    """A PNG file, its header as asked for; pixels that fit the default size."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    pixels = zlib.compress(b"".join(b"\x00" + b"\x40\x80\xc0" * 6 for _ in range(5))) if pixels is None else pixels
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _deep_png():
    return png(6, 5, 16, 0, zlib.compress(b"".join(b"\x00" + bytes(range(12)) for _ in range(5))))


def _tiff():
    import numpy as np
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.arange(30, dtype=np.int32).reshape(5, 6) * 1_000_000).save(buffer, "TIFF")
    return buffer.getvalue()


PICTURES = {
    "empty": (lambda: b"", WRONG),
    "text": (lambda: b"not an image", WRONG),
    "cut": (lambda: png()[:50], WRONG),
    "a bomb": (lambda: png(30_000, 30_000), WRONG),
    "a huge header": (lambda: png(2**31 - 1, 2**31 - 1), WRONG),
    "no pixels": (lambda: png(0, 0), WRONG),
    "a strip": (lambda: png(20_000, 1), WRONG),
    "16 bits": (_deep_png, ODD),
    "int32 TIFF": (_tiff, ODD),
}


class Folder:
    """A folder of images, one of which is spoiled."""

    def __init__(self, names, content=None):
        self.names, self.content = names, content or png()

    def right(self, folder, name):
        """The folder as it should be."""
        (folder / name).mkdir()
        for one in self.names:
            (folder / name / one).write_bytes(self.content)
        return str(folder / name)

    def spoiled(self, rng, folder, name):
        """A folder with a wrong image, or no folder."""
        if rng.random() < 0.2:
            return odd_place(rng, folder, "")
        path = Path(self.right(folder, name))
        image = path / rng.choice(self.names)
        image.unlink()
        kind = rng.choice([*sorted(PICTURES), *sorted(PLACES)])
        if kind in PICTURES:
            content, wrong = PICTURES[kind]
            image.write_bytes(content())
            return Input(str(path), f"an image is {kind}", wrong)
        target = PLACES[kind](folder, image.suffix)
        there = os.path.lexists(target) and kind != "a folder"  # a folder within a folder is no image
        if there:
            image.symlink_to(target)
        return Input(str(path), f"an image is {kind}", WRONG if there else ODD)
