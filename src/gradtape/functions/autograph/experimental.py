"""`gt.autograph.experimental`: TensorFlow's names for marks and hints on converted code.

The hints are accepted so that code written for TensorFlow runs; loops here need none of them.
"""

from __future__ import annotations

import enum
from typing import Any

from gradtape.functions.autograph.convert import do_not_convert as do_not_convert


class Feature(enum.Enum):
    """Optional conversions, by TensorFlow's names. All that matter are always on."""

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"


def set_loop_options(
    parallel_iterations: int | None = None,
    swap_memory: bool | None = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Hints for the loop this call stands in: accepted, and not needed.

    >>> gt.autograph.experimental.set_loop_options(maximum_iterations=10)
    """


__all__ = [
    "Feature", "do_not_convert", "set_loop_options",
]  # fmt: skip


def __dir__() -> list[str]:  # completion offers no more
    return __all__
