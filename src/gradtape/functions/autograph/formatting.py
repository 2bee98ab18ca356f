"""The run time of f-strings: parts are formatted in order; a staged value waits until the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.functions.staging.staged_builtins import StagedText, holds_staged
from gradtape.trace.effects import active

CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


def part(value: Any, conversion: int, spec: Any) -> Any:
    """`{value!conversion:spec}`: text, or what is needed to make it later."""
    if active() is not None and (holds_staged(value) or not isinstance(spec, str)):
        return value, conversion, spec
    if conversion in CONVERSIONS:
        value = CONVERSIONS[conversion](value)
    return format(value, spec)


def fstring(parts: tuple[Any, ...]) -> Any:
    """The joined text of an f-string."""
    for piece in parts:
        if not isinstance(piece, str):
            return StagedText(parts)
    return "".join(parts)
