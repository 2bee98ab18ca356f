"""Values that exist only in staged code: what may be missing, and lists that grow in loops.

`Maybe` is a name, attribute or item that was set on some paths only (or is None on some): a value together with a flag of
the program. Using it checks the flag when the program runs. `StagedItems` is what stands, alone, inside a Python list
whose items live in the program: so every alias of the list sees the same thing.
"""

from __future__ import annotations

from typing import Any

from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Readable
from gradtape.errors import OperatorNotAllowedInGraphError
from gradtape.ops import staged
from gradtape.ops.compare import logical_and, logical_not
from gradtape.trace.tracing import TracedList, current_trace


class Undefined:
    """A name that has no value yet."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<undefined {self.name}>"


class Maybe(Readable):
    """A value if `flag` (a traced bool) holds when the program runs, else missing: None, or an undefined name."""

    __slots__ = ("flag", "missing", "value")

    def __init__(self, flag: Any, value: Any, missing: Any) -> None:
        self.flag = flag
        self.value = value
        self.missing = missing  # None, or an Undefined

    def read(self) -> Any:
        """As an operand: the value, which must be a tensor."""
        return self.get()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.get(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.get()[key]

    def __bool__(self) -> bool:
        return bool(self.get())

    def __eq__(self, other: object) -> Any:
        # None is equal to None and to no number; of an array, the comparison has a shape, and None would not
        if self.missing is None and other is None:
            return logical_not(self.flag)
        if self.missing is None and getattr(self.value, "weak", False):
            return logical_and(self.flag, self.value == other)
        return self.get() == other

    def __ne__(self, other: object) -> Any:
        if self.missing is None and (other is None or getattr(self.value, "weak", False)):
            return logical_not(self == other)
        return self.get() != other

    def __hash__(self) -> int:
        raise OperatorNotAllowedInGraphError(
            "a value that may be None is a key or a member of a set: which others it equals is known only when the function "
            "runs. Use a list, or a branch on `is None`"
        )

    def get(self, name: str = "") -> Any:
        """The value; if it is missing when the program runs, the error Python would raise."""
        if isinstance(self.missing, Undefined):
            called = name or self.missing.name
            return self.need(
                UnboundLocalError, f"cannot access local variable '{called}' where it is not associated with a value"
            )
        return self.need(TypeError, f"{name or 'a value'} is None on the path that was taken, where a tensor is needed")

    def need(self, exception: type[Exception], text: str) -> Any:
        """The value; if it is missing when the program runs, this error."""
        require(self.flag, exception, text)
        return self.value

    def __repr__(self) -> str:
        return f"<maybe {self.value!r}>"


def require(flag: Any, exception: type[Exception], text: str) -> None:
    """Raise this error when the program runs and the flag does not hold."""
    current_trace().emit(staged.ASSERT, (flag,), {"template": (text,), "exception": exception})


class StagedItems:
    """The only item of a Python list whose real items are values of the program."""

    __slots__ = ("grown", "items", "length")

    def __init__(self, items: TracedList, length: int | None = None, grown: int | None = None) -> None:
        self.items = items
        self.length = length  # where it is known while tracing
        self.grown = grown  # by how many items, since the loop body around it began, where that is known

    def with_items(self, items: TracedList, more: int) -> StagedItems:
        """Other items, `more` of them than before."""
        return StagedItems(
            items, None if self.length is None else self.length + more, None if self.grown is None else self.grown + more
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise OperatorNotAllowedInGraphError(
            "this list is filled in a staged loop: its items are known only when the function runs. Use it in code that "
            "AutoGraph converts (append, pop, len, indexing, loops), or make a tensor of it with gt.stack(list)"
        )

    def __repr__(self) -> str:
        return "<items of a staged list>"


class PendingSize:
    """The only item of a TensorArray whose number of slots is known when the program runs, before the first write."""

    __slots__ = ("size",)

    def __init__(self, size: Any) -> None:
        self.size = size


def staged_items(value: Any) -> StagedItems | None:
    """The items of a list that lives in the program, None for any other value."""
    if value.__class__ is list and len(value) == 1 and value[0].__class__ is StagedItems:
        return value[0]
    return None


def _opened(values: Any) -> tuple[Any, int | None] | None:
    staged = staged_items(values)
    return None if staged is None else (staged.items, staged.length)


HOOKS.opened = _opened  # so that gt.stack, gt.concat, gt.add_n and conversions know such lists
