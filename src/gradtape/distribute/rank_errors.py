"""What is said when ranks do not get on: the operation a rank was in, at which line, and the error that names both."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.record import user_frame
from gradtape.dtypes import as_dtype
from gradtape.errors import OpError


class RankError(OpError, RuntimeError):
    """An operation between ranks that cannot succeed: another rank failed, ended, or does something else."""


class Statement:
    """One operation between ranks, as this rank calls it. `alike`: all ranks must call it with one shape and dtype."""

    __slots__ = ("alike", "bytes", "dtype", "frame", "name", "shape")

    def __init__(self, name: str, x: Any, alike: bool = True) -> None:
        self.name = name
        self.shape = np.shape(x)
        self.dtype = x.dtype
        self.bytes = x.nbytes
        self.alike = alike
        self.frame = user_frame(2)

    @property
    def line(self) -> str:
        """The user's line."""
        return f"{self.frame.f_code.co_filename}:{self.frame.f_lineno}"

    @property
    def words(self) -> str:
        """The operation and its operand."""
        return f"{self.name} of {as_dtype(self.dtype).name}{list(self.shape)}"

    def __str__(self) -> str:
        return f"{self.words} at {self.line}"
