"""When machine code begins to serve eager code: after a process has done so much that it pays.

The short forms of dispatch: `noticed` is told by tapes how many records they had. At `config.eager_records()` of them the code
is loaded, from the cache of objects if it is there, and put before Python's forms and operators (`core/forms.py`). It computes
nothing of its own: the same NumPy calls, the same records.

Operations that loop in Python (`heavy`) have a meter of their own: what they were asked for decides, or that LLVM is loaded by
now for a backward pass. They become programs of one operation, which give the same to rounding. All of it is counted, nothing
is timed, so a program gives the same bits each time it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape import config
from gradtape.ad.straight import COMPILERS, compare_by
from gradtape.core.forms import FORMS, MISS, hasten, serve_heavy
from gradtape.core.opdef import Op
from gradtape.core.record import NOBODY, leaf
from gradtape.core.tensor import Tensor, box
from gradtape.ops.elementwise import ADD, DIVIDE, MULTIPLY, SUBTRACT
from gradtape.ops.index import GETITEM
from gradtape.ops.matmul import MATMUL
from gradtape.trace.effects import TRACING_VARIABLES
from gradtape.variables.variable import Variable

# operator → (op, whether the other operand comes first, what runs on floats in the place of the op's `impl`)
OPERATORS: dict[str, tuple[Op, bool, Callable[..., Any] | None]] = {
    "__add__": (ADD, False, None), "__radd__": (ADD, True, None), "__sub__": (SUBTRACT, False, None),
    "__rsub__": (SUBTRACT, True, None), "__mul__": (MULTIPLY, False, None), "__rmul__": (MULTIPLY, True, None),
    "__truediv__": (DIVIDE, False, None), "__rtruediv__": (DIVIDE, True, None), "__matmul__": (MATMUL, False, np.matmul),
    "__getitem__": (GETITEM, False, None),
}  # fmt: skip
_LOCK = threading.Lock()
ELEMENTS = 1 << 25  # that they read: what they take for so many is about what loading LLVM and compiling does


class Meter:
    """Stands where programs of one operation will be, and tells by what was asked of it when they pay."""

    def __init__(self) -> None:
        self._left = ELEMENTS

    def __call__(self, arrays: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        self._left -= sum([a.size for a in arrays])
        if self._left < 0:
            with _LOCK:
                _serve_heavy()
        return MISS


def _serve_heavy() -> None:
    """Programs of one operation in the place of what loops in Python."""
    from gradtape.functions.one_op import OneOpPrograms

    if not Heat.served:
        Heat.served = True
        serve_heavy(OneOpPrograms)


class Heat:
    """How many more records make it pay; what was put in place, None if nothing was."""

    left = 0
    placed: dict[str, Any] | None = None
    served = False  # whether programs stand in the place of what loops in Python


def noticed(records: int) -> None:
    """A tape has ended with so many records."""
    Heat.left -= records
    if Heat.left < 0 and Heat.placed is None:
        with _LOCK:
            _place()


def _place() -> None:
    limit = config.eager_records()
    if limit is None or Heat.placed is not None:
        Heat.left = 1 << 62
        return
    try:
        from gradtape.backends.llvm.entry import form_code as code, wiring_code
        from gradtape.backends.llvm.entry.record_code import laid_out, state_of
        from gradtape.backends.llvm.runtime.symbols import available

        record = leaf((), ())
        sample = laid_out(box(np.ones(1), record), "_data", "_node") and laid_out(record, "keys", "nodes", "shape")
        if not available() or not sample or not laid_out(NOBODY, "keys", "covers", "records"):
            raise ImportError("objects have another layout here")
        if code.Readers.variable is not Variable:
            code.Readers.variable, code.Readers.tracing = Variable, TRACING_VARIABLES
            for name, (op, reflected, impl) in OPERATORS.items():
                code.add_operator(name, state_of(op, impl, getattr(Tensor, name)), reflected)
        operators = {name: code.operator(name) for name in OPERATORS}
        quick = [code.quick_form(kind, op) for kind, op, _ in FORMS]
    except (ImportError, OSError, RuntimeError):
        Heat.left = 1 << 62  # no machine code here: Python does the same
        return
    Heat.placed = {name: Tensor.__dict__.get(name) for name in OPERATORS}
    for name, operator in operators.items():
        setattr(Tensor, name, operator)
    for (_, _, call), builtin in zip(FORMS, quick, strict=True):
        hasten(call, builtin)
    compare_by(wiring_code.matcher)
    _serve_heavy()


def _remove() -> None:
    """Python's forms alone again."""
    for name, function in (Heat.placed or {}).items():
        if function is None:
            delattr(Tensor, name)
        else:
            setattr(Tensor, name, function)
    for _, _, call in FORMS:
        hasten(call, None)
    compare_by(None)
    Heat.placed = None


def _changed(limit: int | None) -> None:
    with _LOCK:
        if Heat.placed is not None:
            _remove()
        Heat.left, Heat.served = 1 << 62 if limit is None else limit, limit is None
        meter = None if limit is None else Meter()
        serve_heavy(lambda name: meter)


def _learned(*walk: Any) -> Any:
    from gradtape.functions.learned_walks import learned

    program = learned(*walk)
    if program is not None:  # what all of machine code needs is loaded now
        with _LOCK:
            _serve_heavy()
    return program


_changed(config.eager_records())
COMPILERS.append(_learned)
config.when_native_eager_changes(_changed)
