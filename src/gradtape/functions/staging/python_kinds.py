"""What Python asks about a value's kind (`is None`, `is True`, `isinstance`, `type`, `hasattr`) where the path decides it.

A number of the program is a Python number to the user's code, and a `Maybe` is None on some paths; Python would ask the
stand-in, which is neither. Each question is asked of everything the value may be, and is a flag of the program where the
answers differ. Of a number that is an integer on one path and a float on the other, the program does not keep which it was:
such a question is refused. What is a number here and a tensor there is a tensor.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from gradtape.core.dispatch import convert
from gradtape.core.record import user_location
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import OperatorNotAllowedInGraphError
from gradtape.functions.staging.branches import stage_if_exp, truth
from gradtape.functions.staging.joins import python_kinds
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.dims import Dim
from gradtape.ops.compare import equal, logical_not
from gradtape.trace.weak import WeakTensor

_PROGRAMS = (Tensor, Readable)
_NUMBERS = (*_PROGRAMS, bool, int, float, complex)


def by_path(value: Any, question: Callable[[Any], Any]) -> Any:
    """The answer to a question about a value: of one that may be None, what holds on the path that is taken."""
    if value.__class__ is not Maybe or value.missing is not None:
        return question(value)
    there, missing = by_path(value.value, question), question(None)
    if there is missing:
        return there
    if missing is False and there is True:
        return value.flag
    if missing is True and there is False:
        return logical_not(value.flag)
    return stage_if_exp(value.flag, lambda: there, lambda: missing)


def is_singleton(value: Any, singleton: bool | None) -> Any:
    """`value is None`, `value is True`, `value is False`."""

    def question(part: Any) -> Any:
        if singleton is None or not isinstance(part, WeakTensor):
            return part is singleton
        _one_kind(part, f"`is {singleton}`")
        # Python has one True: the number of the program is that object where it holds
        return False if not part.dtype.is_bool else part if singleton else logical_not(part)

    return by_path(value, question)


def is_member(value: Any, member: IntEnum) -> Any:
    """`value is member` of an enumeration, whose members are numbers in a program: there is one object for each number."""

    def question(part: Any) -> Any:
        if not isinstance(part, WeakTensor) or type(member) not in python_kinds(part):
            return part is member
        _one_kind(part, f"`is {member!s}`")
        return truth(convert(equal(part, int(member))))

    return by_path(value, question)


def is_instance(value: Any, kinds: Any, *stand_ins: tuple[type, type]) -> Any:
    """`isinstance(value, kinds)`; `stand_ins` are classes of the tracer, with what they are to Python."""

    def question(part: Any) -> Any:
        if isinstance(part, WeakTensor):
            answers = {issubclass(kind, kinds) for kind in python_kinds(part)}
            return answers.pop() if len(answers) == 1 else issubclass(_one_kind(part, "isinstance"), kinds)
        seen = next((seen for own, seen in ((Dim, int), *stand_ins) if part.__class__ is own), None)
        return isinstance(part, kinds) if seen is None else issubclass(seen, kinds)

    return by_path(value, question)


def has_attribute(value: Any, name: str) -> Any:
    """`hasattr(value, name)` of a value of the program: a number has what Python's numbers have."""
    return by_path(value, lambda part: hasattr(part.python_type if isinstance(part, WeakTensor) else part, name))


def type_of(value: Any) -> type:
    """`type(value)`, which must not depend on the path."""
    if value.__class__ is Maybe and value.missing is None:
        raise OperatorNotAllowedInGraphError(
            f"{user_location()}: the type of a value that may be None is asked for; whether it is None is known only when the "
            "function runs: ask `is None` or isinstance instead"
        )
    return _one_kind(value, "type") if isinstance(value, WeakTensor) else type(value)


def is_equal(left: Any, right: Any) -> Any:
    """Whether a search in a list stops at this item: None is equal to None only."""

    def compared(a: Any, b: Any) -> Any:
        if a is None or b is None or a is b:  # Python, too, asks who it is first
            return a is b
        if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
            return truth(convert(equal(a, b)))
        if is_sequence(a) and a.__class__ is b.__class__:
            return ordered(operator.eq, a, b)
        return False if isinstance(a, _PROGRAMS) or isinstance(b, _PROGRAMS) else bool(a == b)

    return by_path(left, lambda a: by_path(right, lambda b: compared(a, b)))


def is_sequence(value: Any) -> bool:
    """Whether Python compares a value item by item, and its items are known."""
    return value.__class__ in (list, tuple) and staged_items(value) is None


def ordered(operate: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`left < right`, `left == right`, … of two lists or tuples: the first items that differ decide, else the lengths."""
    if operate in (operator.eq, operator.ne) and len(left) != len(right):
        return operate is operator.ne
    result: Any = operate(len(left), len(right))
    for a, b in reversed(list(zip(left, right, strict=False))):
        alike, after = is_equal(a, b), result
        if alike is True:
            continue
        decide = functools.partial(_decided, operate, a, b)
        result = decide() if alike is False else stage_if_exp(alike, functools.partial(_same, after), decide)
    return result


def _decided(operate: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if operate in (operator.eq, operator.ne):
        return operate is operator.ne
    return ordered(operate, a, b) if is_sequence(a) and a.__class__ is b.__class__ else operate(a, b)


def _same(value: Any) -> Any:
    return value


def _one_kind(value: Tensor, asked: str) -> type:
    kinds = python_kinds(value)
    if len(kinds) == 1:
        return next(iter(kinds))
    names = " or ".join(sorted(kind.__name__ for kind in kinds))
    raise OperatorNotAllowedInGraphError(
        f"{user_location()}: {asked} asks for the kind of a value that is {names}, by the path that is taken; which one is "
        "known only when the function runs. Give it one kind before the branch or loop (gt.constant), or keep a flag of your "
        "own"
    )
