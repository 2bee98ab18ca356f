"""What is said when ranks do not get on: the operation a rank was in, at which line, and the error that names both."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from gradtape.core.record import user_frame
from gradtape.dtypes import as_dtype
from gradtape.errors import OpError

UPWARDS, DOWNWARDS = 32766, 32765  # tags of edges: above those of users, below what every MPI allows

DIGEST = 1000003  # a prime: digests are polynomials of it
ALIKE = "Every rank must call the same operations between all ranks in the same order"


class RankError(OpError, RuntimeError):
    """An operation between ranks that cannot succeed: another rank failed, ended, or does something else."""


def dtype_digest(dtype: np.dtype[Any]) -> int:
    """A dtype as a number that is the same on all ranks."""
    return crc32(dtype.str.encode())


def message_digest(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """What is sent, as a number that native code can compute, too."""
    return functools.reduce(lambda digest, size: (digest * DIGEST + size) & (1 << 64) - 1, shape, dtype_digest(dtype))


class Statement:
    """One operation between ranks, as this rank calls it: all ranks with one shape and dtype, unless it is a `message`, which
    has a receiver, a sender (-1: nobody) and a tag."""

    can_fail = False
    __slots__ = ("bytes", "dest", "digest", "dtype", "frame", "name", "shape", "source", "tag")

    def __init__(self, name: str, x: Any, message: tuple[int, int, int] | None = None) -> None:
        self.name = name
        self.shape = np.shape(x)
        self.dtype = x.dtype
        self.bytes = x.nbytes
        self.dest, self.source, self.tag = message or (-1, -1, -1)
        self.digest = message_digest(self.shape, x.dtype) if message else crc32(f"{name}{self.shape}{x.dtype.str}".encode())
        self.frame = user_frame(2)

    @property
    def alike(self) -> bool:
        """Whether all ranks call it."""
        return self.tag < 0

    @property
    def key(self) -> Any:
        """What its words follow from."""
        return self.digest, self.name, self.frame.f_code, self.frame.f_lineno

    @property
    def line(self) -> str:
        """The user's line; of a program that runs as Python source, that of its operation."""
        place = self.frame.f_globals.get("__places__", {}).get(self.frame.f_lineno)
        return f"{self.frame.f_code.co_filename}:{self.frame.f_lineno}" if place is None else str(place.operation.loc)

    @property
    def words(self) -> str:
        """The operation and its operand."""
        return f"{self.name} of {as_dtype(self.dtype).name}{list(self.shape)}"

    def __str__(self) -> str:
        return f"{self.words} at {self.line}"


class ProgramStatement:
    """A compiled program that begins or ends: `digest` says which operations between ranks it has, or has done."""

    alike, bytes = True, 0

    def __init__(self, words: str, line: str, digest: int, can_fail: bool = False) -> None:
        self.words, self.line, self.digest, self.can_fail = words, line, digest, can_fail

    @property
    def key(self) -> Any:
        """What its words follow from."""
        return self.words, self.line

    def __str__(self) -> str:
        return f"{self.words} at {self.line}"
