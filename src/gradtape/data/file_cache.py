"""`cache(filename)`: elements kept in a file after the first whole pass, for other processes too.

A pass writes beside the file, into a part of its own, which takes the file's name when the pass has come to its end: whoever
sees the file sees all of it, and one that is left early or killed leaves nothing that is read. What a killed process left is
removed by the next that writes. The file says which elements it has; one of other elements, or damaged, is refused in words. It
holds bytes only: reading it runs nobody's code.

Layout: a line of magic, the length of a text and the text, which describes the elements; chunks of consecutive elements of the
same shapes, each column as one array, with a checksum; a chunk of no elements whose length is the number of all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gradtape.core.strings import Text
from gradtape.core.typing import Array
from gradtape.data.elements import DatasetSpec, ElementStructure, Leaves
from gradtape.data.selecting import RepeatedStream
from gradtape.data.sources import TextRowsStream
from gradtape.data.streams import Stage, Step, StepStream, Stream, joined_rows
from gradtape.errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError

_MAGIC = b"gradtape dataset 1\n"
_LENGTH = struct.Struct("<Q")
_CHUNK = struct.Struct("<QQI")  # bytes of the columns, elements, checksum
_BYTES, _ELEMENTS = 1 << 20, 4096  # of a chunk, at most
_PARTS = itertools.count()


def described(structure: ElementStructure) -> bytes:
    """The elements in words, as the file keeps them."""
    return f"{structure.template!r}, {sys.byteorder} endian".encode()


def _checksum(data: bytes, count: int) -> int:
    return zlib.crc32(data, zlib.crc32(_LENGTH.pack(count)))


# -- columns of a chunk ------------------------------------------------------------------------------------------------


def _packed(column: Array) -> bytes:
    """Shape and values of a column; of strings, the lengths before the bytes."""
    shape = struct.pack(f"<Q{column.ndim}Q", column.ndim, *column.shape)
    if column.dtype != object:
        return shape + np.ascontiguousarray(column).tobytes()
    words = [bytes(word) for word in np.asarray(column).ravel()]
    return b"".join([shape, np.array([len(word) for word in words], np.int64).tobytes(), *words])


def _unpacked(data: bytes, place: int, dtype: np.dtype[Any]) -> tuple[Array, int]:
    """The column at a place, and where the next one begins."""
    (rank,) = _LENGTH.unpack_from(data, place)
    shape = struct.unpack_from(f"<{rank}Q", data, place + _LENGTH.size)
    place += _LENGTH.size * (1 + rank)
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind != "O":
        return np.frombuffer(data, dtype, count, place).reshape(shape), place + count * dtype.itemsize
    ends = np.cumsum(np.frombuffer(data, np.int64, count, place)).tolist()
    place += 8 * count
    column = np.empty(count, object)
    column[:] = [data[place + start : place + end] for start, end in itertools.pairwise([0, *ends])]
    return column.reshape(shape).view(Text), place + (ends[-1] if ends else 0)


# -- writing -----------------------------------------------------------------------------------------------------------


class PartialFile:
    """A file that is not whole yet, and what of it waits to be written."""

    def __init__(self, path: Path, structure: ElementStructure) -> None:
        self.path, self.count, self.waiting, self.bytes = path, 0, list[Leaves](), 0
        self.process = os.getpid()
        _swept(path)
        self.place = path.with_name(f"{path.name}.{socket.gethostname()}-{self.process}-{next(_PARTS)}.part")
        try:
            self.file: BinaryIO = self.place.open("xb")
        except FileNotFoundError:
            raise NotFoundError(f"Dataset.cache: there is no folder {str(path.parent)!r} for the file {path.name!r}") from None
        text = described(structure)
        self.file.write(_MAGIC + _LENGTH.pack(len(text)) + text)

    def add(self, element: Leaves) -> None:
        """One more element; those before it are written first if they have other shapes."""
        if self.waiting and any(a.shape != b.shape for a, b in zip(element, self.waiting[0], strict=True)):
            self._write()
        self.waiting.append(element)
        self.bytes += sum(leaf.nbytes if leaf.dtype != object else sum(map(len, leaf.flat)) for leaf in element)
        if self.bytes >= _BYTES or len(self.waiting) >= _ELEMENTS:
            self._write()

    def _write(self) -> None:
        if self.waiting:
            data = b"".join(map(_packed, joined_rows(self.waiting)))
            self.file.write(_CHUNK.pack(len(data), len(self.waiting), _checksum(data, len(self.waiting))) + data)
            self.count += len(self.waiting)
            self.waiting, self.bytes = [], 0

    def finish(self) -> None:
        """All elements are there: the part becomes the file, unless another pass was sooner."""
        self._write()
        self.file.write(_CHUNK.pack(self.count, 0, 0))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        if self.path.exists():
            self.drop()
        else:
            self.place.replace(self.path)

    def drop(self) -> None:
        """Nothing is kept."""
        if os.getpid() == self.process:  # not a copy in a forked one: the file is the other's, with what waits in its buffer
            self.file.close()
            self.place.unlink(missing_ok=True)


def _swept(path: Path) -> None:
    """Remove the parts of processes of this machine that are no more."""
    start = f"{path.name}.{socket.gethostname()}-"
    with contextlib.suppress(OSError):  # another process sweeps too, or the folder is missing, which is said by whoever writes
        for part in path.parent.iterdir():
            if part.name.startswith(start) and part.name.endswith(".part"):
                owner = part.name[len(start) :].split("-")[0]
                if owner.isdigit() and not _alive(int(owner)):
                    part.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name == "nt":
        return True  # there, asking ends the process
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


class WritingStream(StepStream):
    """A pass that writes what it gives."""

    def __init__(self, source: Stream, part: PartialFile) -> None:
        super().__init__(source)
        self.part: PartialFile | None = part

    def __next__(self) -> Leaves:
        part = self.part
        try:
            element = next(self.source)
            if part is not None:
                part.add(element)
        except StopIteration:
            if part is not None:
                self.part = None
                part.finish()
            raise
        return element

    def close(self) -> None:
        part, self.part = self.part, None
        if part is not None:
            part.drop()
        super().close()


# -- reading -----------------------------------------------------------------------------------------------------------


class ReadingStream(RepeatedStream):
    """A pass through a file, chunk after chunk."""

    def __init__(self, stage: FileCached) -> None:
        super().__init__(stage, None)
        self.path, self.given = stage.path, 0
        self.dtypes = [spec.dtype.dtype for spec in stage.structure.specs]
        self.file: BinaryIO = stage.path.open("rb")
        try:
            self.size = os.fstat(self.file.fileno()).st_size
            self._checked(described(stage.structure), stage.source.cardinality())
        except BaseException:
            self.file.close()
            raise

    def _checked(self, expected: bytes, elements: int) -> None:
        """Refuse a file of something else, before anything of it is used."""
        if self.file.read(len(_MAGIC)) != _MAGIC:
            raise InvalidArgumentError(f"Dataset.cache: {str(self.path)!r} is no file of this kind; give another name")
        (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
        description = self._bytes(length)
        if description != expected:
            raise InvalidArgumentError(
                f"Dataset.cache: the file {str(self.path)!r} is of another dataset: {description.decode(errors='replace')}; "
                f"this one's are {expected.decode()}. Delete the file, or give another name"
            )
        start = self.file.tell()
        self.file.seek(max(self.size - _CHUNK.size, start))
        count, nothing, checksum = _CHUNK.unpack(self._bytes(_CHUNK.size))
        if nothing or checksum:
            raise self._damaged()
        if elements >= 0 and count != elements:
            raise InvalidArgumentError(
                f"Dataset.cache: the file {str(self.path)!r} is of another dataset: it has {count} elements, this one has "
                f"{elements}. Delete the file, or give another name"
            )
        self.file.seek(start)

    def _bytes(self, count: int) -> bytes:
        if count > self.size - self.file.tell():  # before memory for it is asked for
            raise self._damaged()
        data = self.file.read(count)
        if len(data) != count:
            raise self._damaged()
        return data

    def _damaged(self) -> DataLossError:
        return DataLossError(f"Dataset.cache: the file {str(self.path)!r} is damaged after element {self.given}; delete it")

    def _opened(self) -> Stream:
        if self.current is None:
            if self.file.closed:
                raise StopIteration
            size, count, checksum = _CHUNK.unpack(self._bytes(_CHUNK.size))
            if not count:
                self.file.close()
                if size != self.given:
                    raise self._damaged()
                raise StopIteration
            data = self._bytes(size)
            if _checksum(data, count) != checksum:
                raise self._damaged()
            columns, place = [], 0
            for dtype in self.dtypes:
                column, place = _unpacked(data, place, dtype)
                columns.append(column)
            self.given += count
            self.current = TextRowsStream(tuple(columns), count)
        return self.current

    def close(self) -> None:
        self.file.close()
        super().close()


class FileCached(Step):
    """Elements that are read from a file if it is there, and written to it by a whole pass if not."""

    def __init__(self, source: Stage, path: Path) -> None:
        super().__init__(source)
        if any(isinstance(spec, DatasetSpec) for spec in source.structure.specs):
            raise UnimplementedError("Dataset.cache: datasets inside elements cannot be kept in a file; flat_map them first")
        self.path = path

    def open(self) -> Stream:
        if self.path.exists():
            return ReadingStream(self)
        return WritingStream(self.source.open(), PartialFile(self.path, self.structure))
