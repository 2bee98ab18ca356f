"""The short way of a call: a program that ran before as native code, arguments that are read by generated code.

The native entry compares dtypes and shapes itself, so no key is made: what does not fit gives `MISS`, and the call goes the
long way (`engine.py`), which also raises whatever there is to raise. A program with effects that fails half-way must not print
or draw twice: it says itself what went wrong. Plain tapes may record; other recorders get the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from gradtape.core.record import CLOCK, SCOPE, Record, Unwatched, VariableKey, past_of, pasts
from gradtape.core.tensor import Tensor
from gradtape.functions.argument_reader import MISS, ArgumentReader, NotReadableError
from gradtape.functions.cache import Traced
from gradtape.functions.compiled import FUNCTION, input_kinds, orders
from gradtape.functions.program import Program
from gradtape.functions.signature import Binder, BoundCall
from gradtape.functions.templates import Output, filled
from gradtape.ir.types import ListSpec


class FastCall:
    """How to run one program: `check` (None or whether its guards hold), then `run(*args, **kwargs)` where nobody records and
    `record(*args, **kwargs)` where tapes may. Both give `MISS` for a call that they cannot serve."""

    __slots__ = ("_binder", "_writer", "check", "record", "run", "traced")

    def __init__(self, traced: Traced, writer: _CallWriter, binder: Binder) -> None:
        program = writer.program
        self.traced = traced
        # a variable is a tensor whose type machine code compares; in the place of other captures there may be anything now
        only_variables = all(capture.kind in ("variable", "versions") for capture in program.captures)
        self.check: Callable[[], bool] | None = program.guards.check if only_variables else traced.check
        self._writer = writer
        self._binder = binder
        self.run: Callable[..., Any] = self._first_run
        self.record: Callable[..., Any] = self._first_recorded

    def _defined(self, body: list[str]) -> Callable[..., Any]:
        function = self._binder.define(body, self._writer.space)
        exclusive = self._writer.program.exclusive
        return function if exclusive is None else exclusive.alone(function)

    def _first_run(self, *args: Any, **kwargs: Any) -> Any:
        """`run` before it is written."""
        if self._writer.program.compiled.native is None:
            return MISS  # only halves were compiled so far
        self.run = self._defined(self._writer.run())
        return self.run(*args, **kwargs)

    def _first_recorded(self, *args: Any, **kwargs: Any) -> Any:
        """`record` before it is written: most programs never meet a tape."""
        self.record = self._defined(self._writer.record())
        return self.record(*args, **kwargs)


def fast_call(traced: Traced, call: BoundCall, binder: Binder) -> FastCall | None:
    """The short way of a program for calls like this one; None if it has none."""
    program = traced.program
    if not program.compiled.is_native:
        return None
    try:
        return FastCall(traced, _CallWriter(traced, ArgumentReader(call, binder)), binder)
    except NotReadableError:
        return None


class _Containers(NamedTuple):
    """What write-backs need of a call (`engine.Caller`): its lists and dicts."""

    containers: tuple[Any, ...]


class _CallWriter:
    """The bodies of the functions of a `FastCall`. All names but those of parameters begin with `_gt_`."""

    def __init__(self, traced: Traced, reader: ArgumentReader) -> None:
        program: Program = traced.program
        self.program = program
        self.reader = reader
        # between sizes that are open (other ranks have no answer, and machine code refuses them), or kinds among processes
        if traced.constraints or program.kinds:
            reader.space["_gt_fits"] = traced.fits
            condition = f"_gt_fits(({', '.join(reader.tensors)},))"
            reader.lines += ["try:", f"    if not {condition}: return _gt_miss", "except _gt_error: return _gt_miss"]
        self.captures = [f"_gt_capture{i}" for i in range(len(program.captures))]
        self.outs = [f"_gt_out{i}" for i in range(len(program.block.results))]
        self.space: dict[str, Any] = {
            **reader.space, "_gt_filled": filled, "_gt_actions": program.actions, "_gt_error": Exception,
            "_gt_Containers": _Containers, "_gt_past": _Provenance(),
        }  # fmt: skip
        self._result = self._filled(program.result)

    def run(self) -> list[str]:
        """Nobody records."""
        self.space["_gt_entry"] = self.program.compiled.attempt
        lines = [
            *self._begin(), f"_gt_results = _gt_entry({', '.join([f'{name}._data' for name in self._inputs()])})",
            "if _gt_results.__class__ is not _gt_tuple: return _gt_miss",
        ]  # fmt: skip
        nodes = [f"{name}._node" for name in self._inputs()]
        if nodes:
            unknown = " and ".join([f"{node} is None" for node in nodes])
            lines.append(f"_gt_node = None if {unknown} else _gt_past(({', '.join(nodes)},))")
        for i, out in enumerate(self.outs):
            lines += [
                f"{out} = _gt_Tensor()",
                f"{out}._data = _gt_results[{i}]",
                f"{out}._node = {'_gt_node' if nodes else None}",
            ]
        lines.append(f"_gt_outs = [{', '.join(self.outs)}]")
        if (tell := self.program.compiled.tell_kinds) is not None:
            self.space["_gt_tell"] = tell
            lines.append(f"_gt_tell([{', '.join(nodes)}], _gt_outs)")
        return [*lines, *self._end()]

    def record(self) -> list[str]:
        """Plain tapes may record. What is watched here is nearly always known to all of them: then no loop looks at it."""
        inputs = self._inputs()
        taped = _TapedRun(self.program)
        self.space |= {"_gt_taped": taped, "_gt_known": taped.known, "_gt_scope_of": SCOPE.get, "_gt_orders": orders}
        nodes = [f"_gt_node{i}" for i in range(len(inputs))]
        common = "".join([f" and ({node} is None or {node}.keys is _gt_keys)" for node in nodes])
        pattern = "".join([f"{node} is None, " for node in nodes]) + "_gt_scope.orders or _gt_orders(_gt_scope),"
        known = "".join([f"{node}, " for node in nodes])
        lines = [
            *self._begin(), *[f"{node} = {name}._node" for node, name in zip(nodes, inputs, strict=True)],
            "_gt_scope = _gt_scope_of()", "_gt_keys = None if _gt_scope is None or _gt_scope.batches else _gt_scope.fast",
            f"_gt_run = _gt_known.get(({pattern})) if _gt_keys is not None{common} else None",
            f"if _gt_run is None: _gt_outs = _gt_taped(({''.join([f'{name}, ' for name in inputs])}))",
            f"else: _gt_outs = _gt_run(_gt_scope, ({known}), ({''.join([f'{name}._data, ' for name in inputs])}))",
            "if _gt_outs is None: return _gt_miss",
        ]  # fmt: skip
        if self.outs:
            lines.append(f"{', '.join(self.outs)}, = _gt_outs")
        return [*lines, *self._end()]

    def _inputs(self) -> list[str]:
        return [*self.reader.tensors, *self.captures]

    def _begin(self) -> list[str]:
        """Take the call apart and read the captures."""
        lines = list(self.reader.lines)
        for name, capture in zip(self.captures, self.program.captures, strict=True):
            if capture.kind == "variable":
                self.space[f"{name}_of"] = capture.target  # a weak reference; the long way says that a variable is gone
                lines += [f"{name} = {name}_of()", f"if {name} is None: return _gt_miss", f"{name} = {name}.read_own()"]
            else:
                self.space[f"{name}_of"] = capture.tensor
                lines.append(f"{name} = {name}_of()")
            lines.append(f"if {name}.__class__ is not _gt_Tensor: return _gt_miss")
        return lines

    def _end(self) -> list[str]:
        """Write back, and give the result."""
        lines = []
        if self.program.actions:
            tensors = "".join([f"{name}, " for name in self.reader.tensors])
            containers = "".join([f"{name}, " for name in self.reader.containers])
            lines = [
                f"_gt_caller = _gt_Containers(({containers}))",
                f"for _gt_action in _gt_actions: _gt_action(_gt_outs, ({tensors}), _gt_caller)",
            ]
        return [*lines, f"return {self._result}"]

    def _filled(self, part: Any) -> str:
        """The expression for a part of the result's template: `filled` without its loops."""
        kind = part.__class__
        if kind is Output and part.number is None and not isinstance(self.program.block.results[part.index].type, ListSpec):
            return self.outs[part.index]
        if kind is list or kind is tuple:
            inside = "".join([self._filled(item) + ", " for item in part])
            return f"[{inside}]" if kind is list else f"({inside})"
        if kind is dict and all(key.__class__ is str for key in part):
            return f"{{{', '.join([f'{key!r}: {self._filled(value)}' for key, value in part.items()])}}}"
        name = f"_gt_part{len(self.space)}"
        self.space[name] = part
        return name if kind in (str, int, float, bool, type(None)) else f"_gt_filled({name}, _gt_outs)"


class _Provenance:
    """What the results of an unrecorded call keep in mind of the versions they were computed from, for `tape.explain`."""

    __slots__ = ("_nodes", "_past")

    def __init__(self) -> None:
        self._nodes: tuple[Record | None, ...] = ()
        self._past: Unwatched | None = None

    def __call__(self, nodes: tuple[Record | None, ...]) -> Unwatched | None:
        if CLOCK.open:  # some tape may be asked why it does not know the results: where they came from matters
            return past_of(FUNCTION, nodes)
        if nodes != self._nodes:
            self._past = past_of(FUNCTION, nodes)
            # the identities of variables are always the same; versions are not to be kept alive
            self._nodes = nodes if all(node is None or node.__class__ is VariableKey for node in nodes) else ()
        return self._past


class _TapedRun:
    """Runs a program under tapes: `taped(inputs)` are its outputs as recorded tensors, None where it cannot. `known` are ways
    that served before, functions of (scope, nodes, arrays), by which inputs are not watched and by orders of derivatives."""

    __slots__ = ("_compiled", "_is_plain", "_types", "known")

    def __init__(self, program: Program) -> None:
        self._compiled = program.compiled
        # an input for the versions of a variable is one more version at each reading: it must not be read twice
        self._is_plain = all(capture.kind != "versions" for capture in program.captures) and not program.has_effects()
        self._types = [param.type.dtype for param in program.block.params]
        self.known: dict[tuple[bool | int, ...], Callable[..., list[Tensor] | None]] = {}

    def __call__(self, inputs: tuple[Tensor, ...]) -> list[Tensor] | None:
        scope = SCOPE.get()
        if scope is None or scope.fast is None or scope.batches or not self._is_plain:
            return None
        keys, known = scope.keys, set(scope.keys)
        nodes: list[Record | None] = []
        unknown: list[Record] = []
        for tensor in inputs:
            node = tensor._node
            if node is not None and node.keys is not keys:
                if not known.isdisjoint(node.keys):
                    return None
                unknown.append(node)  # nobody here knows it: it has a past at most
                node = None
            nodes.append(node)
        pattern = *[node is None for node in nodes], orders(scope)
        run = self.known.get(pattern) or self._find(pattern)
        if run is None:
            return None
        past = pasts(FUNCTION, unknown, known) if unknown else ()
        return run(scope, nodes, tuple([t._data for t in inputs]), past, input_kinds(inputs, known))

    def _find(self, pattern: tuple[bool | int, ...]) -> Callable[..., list[Tensor] | None] | None:
        """The levels for these inputs, if a call made them before and they are machine code."""
        watched = frozenset(i for i, dtype in enumerate(self._types) if not pattern[i] and dtype.is_differentiable)
        levels = self._compiled.known_levels(watched, pattern[-1]) if watched else None
        if levels is None or levels.native is None:
            return None
        run = self.known[pattern] = partial(levels.taped, self._compiled, levels.native)
        return run
