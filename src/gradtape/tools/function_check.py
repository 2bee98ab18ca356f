"""`function(check=True)`: run the program and the Python function from the same state, compare results and gradients.

The state that is put back between the two runs: all variables, the random streams, and the lists, dicts, attributes and
arrays that can be reached from the arguments, the object, closure variables and the globals the function names. What the
Python run prints is dropped. Nothing is left changed: the call itself runs afterwards.
"""

from __future__ import annotations

import contextlib
import gc
import io
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.record import NOBODY, scope_of
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.errors import FunctionMismatchError
from gradtape.functions.outside_arrays import NumpyContent
from gradtape.functions.signature import Binder, BoundCall, Leaf
from gradtape.functions.staging.places import Content, DictContent, SetContent, content_of
from gradtape.ops.generator import Generator
from gradtape.ops.random_state import STATE
from gradtape.ops.reduce import reduce_sum
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tree import Structure
from gradtape.variables.variable import Variable

_REACH = 20_000  # objects looked at, at most


# -- comparing --------------------------------------------------------------------------------------------------------


def compare(
    name: str, target: Callable[..., Any], program: Callable[[Any], Any], call: BoundCall, leaves: Sequence[Leaf]
) -> None:
    """Raise `FunctionMismatchError` when program and Python function differ, in results or in gradients.

    `program(tensors)` runs the traced program on the call with other tensors.
    """
    names = [leaf.name for leaf in leaves if leaf.kind == "tensor"]
    state = StateCopy([target, call.args, call.kwargs])
    rebuild = call.rebuild(Binder(target))

    def python(tensors: list[Tensor]) -> Any:
        args, kwargs = rebuild(tensors)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return target(*args, **kwargs)

    try:
        with scope_of(NOBODY):
            wanted, slopes = _run(python, call.tensors)
            after = state.assigned()
            state.restore()
            given, given_slopes = _run(program, call.tensors)
            given_after = state.assigned()
    finally:
        state.restore()
    _same_structure(name, wanted, given)
    for place, (a, b) in enumerate(zip(_flat(wanted), _flat(given), strict=True)):
        _same(f"`{name}`: output{f' {place}' if len(_flat(wanted)) > 1 else ''}", a, b)
    for label, a, b in zip(names, slopes, given_slopes, strict=True):
        _same(f"`{name}`: the gradient with respect to `{label}`", a, b)
    for variable, before in state.values:
        key = id(variable)
        _same(f"`{name}`: variable '{variable.name}' after the call", after.get(key, before), given_after.get(key, before))


def _run(function: Callable[..., Any], tensors: Sequence[Tensor]) -> tuple[Any, list[Any]]:
    """The result and the gradients of the sum of its floating parts, for each input (None: not differentiable)."""
    inputs = [box(t._data) for t in tensors]
    watched = [t for t in inputs if t.dtype.is_differentiable]
    with GradientTape() as tape:
        for t in watched:
            tape.watch(t)
        # Both runs see the same tensors and are differentiated with respect to them, so all gradients can be compared one by
        # one.
        leaves = [box(t._data, t._node) for t in inputs]  # `x[i] = v` inside the function must not rebind the sources
        result = function(leaves)
        floats = [convert(y) for y in tree.flatten(result) if _differentiable(y)]
        total = None
        for y in floats:
            part = reduce_sum(y)
            total = part if total is None or part.dtype != total.dtype else total + part
    if total is None or not watched:
        return result, [None] * len(inputs)
    slopes = iter(tape.gradient(total, watched))
    return result, [next(slopes) if t.dtype.is_differentiable else None for t in inputs]


def _differentiable(value: object) -> bool:
    return _is_tensor(value) and value.dtype.is_differentiable


def _flat(result: Structure) -> list[Any]:
    return tree.flatten(result)


def _same_structure(name: str, wanted: Structure, given: Structure) -> None:
    try:
        tree.assert_same_structure(wanted, given, check_types=False)
    except (ValueError, TypeError) as error:
        raise FunctionMismatchError(f"`{name}`: Python and the traced program return different structures: {error}") from None


def _same(what: str, wanted: Structure, given: Structure) -> None:
    if (wanted is None) != (given is None):
        raise FunctionMismatchError(f"{what}: {_text(wanted)} in Python, {_text(given)} in the traced program")
    if wanted is None or not (_is_data(wanted) and _is_data(given)):
        return
    a, b = np.asarray(_data(wanted)), np.asarray(_data(given))
    if a.shape != b.shape or (a.dtype != b.dtype and _is_tensor(wanted)):
        raise FunctionMismatchError(
            f"{what}: shape {a.shape}, dtype {a.dtype} in Python; shape {b.shape}, dtype {b.dtype} in the traced program"
        )
    if a.dtype.kind not in "fcV":
        close = a == b
    else:
        kind = np.complex128 if a.dtype.kind == "c" else np.float64
        # The program may add in another order: what is a rounding error is measured by the precision and the largest number.
        epsilon = np.finfo(a.dtype).eps if a.dtype.kind in "fc" else 2.0**-7
        a, b = a.astype(kind), b.astype(kind)
        scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
        close = np.isclose(b, a, rtol=1e3 * epsilon, atol=1e3 * epsilon * scale, equal_nan=True)
    if not np.all(close):
        place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(close))[0])
        where = f" at index {place}" if a.ndim else ""
        raise FunctionMismatchError(
            f"{what} differs{where}: {np.atleast_1d(a)[place]} in Python, {np.atleast_1d(b)[place]} in the traced program. "
            "The function uses something its trace cannot see: `explain()` lists reads that are not guarded"
        )


def _is_tensor(value: object) -> TypeGuard[Tensor | Variable]:
    return isinstance(value, (Tensor, Readable))


def _is_data(value: object) -> bool:
    return isinstance(value, (Tensor, Readable, np.ndarray, np.generic, bool, int, float, complex))


def _data(value: object) -> Any:
    return value.numpy() if _is_tensor(value) else value


def _text(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


# -- state ------------------------------------------------------------------------------------------------------------


class StateCopy:
    """The state a function may change, to be put back."""

    def __init__(self, roots: Sequence[Any]) -> None:
        self.values = [(v, v._tensor) for v in gc.get_objects() if v.__class__ is Variable]
        self._seed, self._streams = STATE._seed, {key: list(stream) for key, stream in STATE._streams.items()}
        held = _reachable(roots)
        self._generators = [(value, value.state) for value in held if isinstance(value, Generator)]
        self._places = [(place, place.read()) for value in held if (place := _place(value)) is not None]

    def assigned(self) -> dict[int, Any]:
        """The values of the variables that were assigned since, by the variable's identity."""
        return {id(v): v._tensor for v, before in self.values if v._tensor is not before}

    def restore(self) -> None:
        """Put everything back."""
        for variable, tensor in self.values:
            variable._tensor = tensor
        STATE._seed = self._seed
        STATE._streams = {key: list(stream) for key, stream in self._streams.items()}
        for generator, state in self._generators:
            generator.reset(state)
        for place, before in self._places:
            if _changed(place, before):
                place.write(before)


def _place(value: Any) -> Any:
    """Where what can be changed in a value is kept, if not in a variable or a generator: of an object, its attributes."""
    if isinstance(value, (Variable, Generator)):
        return None
    if isinstance(value, np.ndarray):
        return NumpyContent(value) if value.flags.writeable else None
    return content_of(value) or DictContent(vars(value))


def _changed(place: Content, before: Any) -> bool:
    """Whether a place may hold something else: a dict or set that does not is left alone, and keeps its order."""
    now = place.target
    if isinstance(place, SetContent):
        return bool(now != before)
    return not isinstance(place, DictContent) or len(now) != len(before) or any(
        a is not b or now[a] is not before[a] for a, b in zip(now, before, strict=True)
    )  # fmt: skip


def _reachable(roots: Sequence[Any]) -> list[Any]:
    """The objects with changeable content that a function can get at."""
    waiting = list(roots)
    seen: set[int] = set()
    holders: list[Any] = []
    while waiting and len(seen) < _REACH:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (ModuleType, type, BuiltinFunctionType, str, bytes, int, float)):
            continue
        seen.add(id(value))
        if isinstance(value, (list, tuple, set, frozenset)):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, MethodType):
            waiting += (value.__self__, value.__func__)
        elif isinstance(value, FunctionType):
            waiting.extend(_held_by(value))
        elif isinstance(value, (np.ndarray, Tensor, Variable, Generator)):
            holders.append(value)
            continue
        elif type(value).__module__.split(".")[0] not in ("gradtape", "numpy") or hasattr(value, "trainable_variables"):
            if not hasattr(value, "__dict__"):
                continue
            waiting.extend(vars(value).values())
            holders.append(value)
        if isinstance(value, (list, dict, set)):
            holders.append(value)
    return holders


def _held_by(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]
