"""One rule source, two bindings: the same derivative rules on bare arrays and on tensors.

* `boxed`  the rule as written: its ops dispatch, so they are recorded, traced or batched.
* `raw`    the rule rebuilt once with globals in which every op name means its NumPy `impl`: first-order backward passes,
           which nobody records, run without tensors and without dispatch.

`careful` variants mask dead lanes (zero cotangent, non-finite partial); the walk uses them only when a plain pass gave a
non-finite result. `raw` plain rules assume real dtypes; complex tapes use the careful ones, which conjugate.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from itertools import product
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from gradtape.ad.sweep import SparseRows, Sweep, pull_part, stop
from gradtape.core import dispatch
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op, Rule
from gradtape.core.record import INTERNAL, RULES, SCOPE, RankKind, Record, join_kinds
from gradtape.core.recorded import PART, part_of
from gradtape.core.save_plan import expression, parameters, save_plan, shape_of
from gradtape.core.tensor import Tensor, box
from gradtape.dtypes import as_dtype
from gradtape.ops.create import zeros
from gradtape.ops.masking import conjugated_product, masked_product
from gradtape.ops.shape import unbroadcast

Pull = Callable[[Sweep, Record, Any], None]


# -- rebuilding a function on bare arrays --------------------------------------------------------------------------


def _raw_convert(value: Any, dtype: Any = None, hint: Any = None) -> Any:
    return np.asarray(value)[()] if isinstance(value, (list, tuple)) else value


def _raw_box(data: Any, node: Any = None) -> Any:
    return data


# what the doors between values and ops are on bare arrays
_memo: dict[Any, Any] = {
    dispatch.apply: lambda op, *inputs, **attrs: op.impl(*inputs, **attrs),
    dispatch.convert: _raw_convert,
    dispatch.promote: lambda *values: values,
} | dict.fromkeys((box, dispatch.twin, dispatch.created), _raw_box)


def raw(function: Rule) -> Rule:
    """`function` with every op it names (also through helpers) replaced by that op's `impl`."""
    known = _memo.get(function)
    if known is not None:
        return known
    op = getattr(function, "op", None)
    bare = op.impl if isinstance(op, Op) else getattr(function, "bare", None)  # `bare`: a helper says what it is on arrays
    if bare is not None:
        _memo[function] = bare
        return bare
    if function.__closure__:
        raise TypeError(f"rule {function.__qualname__} has free variables {function.__code__.co_freevars}; rules are closed")
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
    rebuilt = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    # noted before its names are looked up: helpers may call one another
    _memo[function] = rebuilt
    for name in global_names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            # NumPy and the standard library are bare already; a user's function is no part of a rule
            ours = isinstance(value, FunctionType) and value.__module__.startswith(("gradtape.ops", "gradtape.core"))
            namespace[name] = raw(value) if ours else value
    return rebuilt


def global_names(code: CodeType) -> set[str]:
    """Names a code object (and the functions inside it) may look up globally."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= global_names(constant)
    return names


# -- handing saved values to rules ---------------------------------------------------------------------------------


def reboxed(value: Any, node: Record | None) -> Any:
    """A saved value as the tensor it was, with its identity, so that the backward pass can itself be recorded: bare arrays
    become tensors again, wrappers get back their identity; Python numbers are what they were.

    A wrapper that the record's recorders do not know keeps the identity that recorders outside of it know.
    """
    if value.__class__ is np.ndarray or isinstance(value, (np.generic, np.ndarray)):
        return box(value, node)
    # a copy: the saved object may be the user's own tensor, whose identity must not change under him
    # (a kind among ranks is said of what nobody knows: the identity that recorders outside know says more)
    told = isinstance(value, Tensor) and node is not None and (value._node is None or node.__class__ is not RankKind)
    if told and value._node is not node:
        value = value.__copy__()
        value._node = node
    return value


def unseen(record: Record) -> Any:
    """What a saved input is that the record's recorders do not know: among several ranks its kind is remembered, which is that
    of all such inputs together."""
    if HOOKS.kind_of is None or record.when.__class__ is int:
        return None
    return join_kinds(map(HOOKS.kind_of, record.when[1]))  # type: ignore[index]


def inputs_of(record: Record, values: tuple[Any, ...], first: int) -> tuple[Any, ...]:
    """The inputs that an op with any number of them got, from the `first` on."""
    return tuple([reboxed(value, record.nodes[first + i] or unseen(record)) for i, value in enumerate(values)])


def parts(record: Record, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of an op with several, as parts of its record."""
    scope = SCOPE.get()
    # nobody who records now knows this record, so nobody could use the identity of its parts
    if scope is None or not any(key in scope.keys for key in record.keys):
        return tuple(reboxed(v, None) for v in values)
    return tuple(reboxed(v, part_of(scope, record, i, v)) for i, v in enumerate(values))


# -- pulls ---------------------------------------------------------------------------------------------------------

# operations whose cotangents are not a matter of rules on saved values: parts, regions, compiled functions
OWN_PULLS: dict[Op, Pull] = {PART: pull_part}


def joint_pull(rule: Callable[[Record, Any, tuple[bool, ...]], Any]) -> Pull:
    """The pull of a rule(record, ct, needed) that answers for all inputs at once; `ct` is as it arrived."""

    def pull(sweep: Sweep, record: Record, ct: Any) -> None:
        nodes = record.nodes
        sweep.add_all(nodes, rule(record, ct, tuple([node in sweep.needed for node in nodes])))

    return pull


class Binding(dict[Op, Pull]):
    """Op → its pull, written on first use: a function (sweep, record, ct) that carries the cotangent of the record's output to
    those inputs that are needed. `cut`: no derivative flows through assignments to variables."""

    def __init__(self, boxed: bool, careful: bool, cut: bool) -> None:
        super().__init__()
        self.key = boxed, careful, cut
        self.boxed = boxed
        self.careful = careful
        self.cut = cut

    def __missing__(self, op: Op) -> Pull:
        pull = OWN_PULLS.get(op)
        if pull is None:
            stops = not op.differentiable or (self.cut and op.assigns)
            # decided once, when the pull is written: the walk itself asks nothing about an op
            pull = stop if stops else PullWriter(op, self.boxed, self.careful).pull()
        self[op] = pull
        return pull


BINDINGS = {key: Binding(*key) for key in product((False, True), repeat=3)}  # (boxed, careful, cut)


class RuleWriter:
    """Writes calls of an op's rules in one binding as Python source. What they are called with has names: the cotangent `ct`,
    the record `rec`; `real`: whether no value is complex, as a condition. `space` gets what the text refers to, under names
    that end in `suffix`."""

    ct, rec, real, suffix = "ct", "rec", "sweep.real", ""

    def __init__(self, op: Op, boxed: bool, careful: bool) -> None:
        self.op = op
        self.boxed = boxed
        self.careful = careful
        times = masked_product if careful else conjugated_product
        self.space: dict[str, Any] = {
            "reboxed": reboxed, "unseen": unseen, "inputs_of": inputs_of, "parts": parts, "filled": _filled,
            "ndarray": np.ndarray, "times": self._bound(times), "reduce_to": self._bound(unbroadcast),
        }  # fmt: skip

    def _bound(self, rule: Rule) -> Rule:
        return rule if self.boxed else raw(rule)

    def share(self, index: int) -> str | None:
        """Source text of what the cotangent gives to input `index`; None if there is no derivative."""
        return self._product(index) if self.op.kind == "elementwise" else self._adjoint(index)

    def _adjoint(self, index: int) -> str | None:
        rule = self.op.vjps[index]
        return None if rule is None else self.call(f"rule{index}", rule)

    def _product(self, index: int) -> str | None:
        """The cotangent times the conjugated partial."""
        partial = self.op.partials[index]
        product = self.op.products[index] if self.op.products else None
        ct = self.ct
        if partial is None:
            return None
        if not callable(partial):
            return {1: ct, -1: f"-{ct}"}.get(partial, f"{ct} * {partial!r}")
        # a product written by hand is quicker, but multiplies before anybody can mask: not in a careful walk
        if product is not None and not self.careful:
            return self.call(f"product{index}", product)
        value = self.call("" if _returns_argument(partial) else f"partial{index}", partial)
        if self.careful:
            return f"times({ct}, {value})"
        # Real tapes need no conjugation, which would be one more operation in a program. Bare arrays of complex tapes never
        # come here: they take the careful rules.
        return f"{ct} * {value} if {self.real} else times({ct}, {value})" if self.boxed else f"{ct} * {value}"

    def call(self, name: str, rule: Rule) -> str:
        """Source text of a call of `rule`, each parameter fetched from (ct, rec); without a name, the argument itself."""
        arguments = ", ".join([self.argument(parameter) for parameter in parameters(rule)])
        if not name:
            return f"({arguments})"
        # these are written for arrays in the first place: there is nothing to rebind
        self.space[name + self.suffix] = rule if name in ("add_into", "in_place", "sparse_rows") else self._bound(rule)
        return f"{name}{self.suffix}({arguments})"

    def argument(self, parameter: str) -> str:
        """Source text of what a rule gets for a parameter."""
        plan = save_plan(self.op)
        shaped = shape_of(parameter, self.op.args)
        if parameter in ("ct", "needed", "buffer"):
            return self.ct if parameter == "ct" else parameter
        if shaped is not None:
            return f"{self.rec}.nodes[{self.op.args.index(shaped)}].shape"
        if parameter in plan.names:
            entry = plan.names[parameter]
            index, spec = plan.entries[entry]
            return self.saved(f"{self.rec}.saved[{entry}]", index) if not spec else f"{self.rec}.saved[{entry}]"
        return f"{self.rec}.attrs" if parameter == "attrs" else f"{self.rec}.attrs[{parameter!r}]"

    def saved(self, value: str, index: int) -> str:
        """Source text of a saved value (of input `index`; -1: the output) as this binding takes it."""
        if not self.boxed:
            return value
        rec = self.rec
        if index < 0:
            return f"reboxed({value}, {rec})" if self.op.outputs == 1 else f"parts({rec}, {value})"
        several = self.op.args[index].startswith("*")
        return f"inputs_of({rec}, {value}, {index})" if several else f"reboxed({value}, {rec}.nodes[{index}] or unseen({rec}))"


class PullWriter(RuleWriter):
    """Writes the pull of one op in one binding: fetching saved values, the rule, un-broadcasting and adding up in one function,
    because a backward pass is little else."""

    def __init__(self, op: Op, boxed: bool, careful: bool) -> None:
        super().__init__(op, boxed, careful)
        self.lines = ["def pull(sweep, rec, ct):"]
        if op.outputs != 1:
            self.lines += [" if ct.__class__ is list:", f"  ct = filled(ct, rec, {boxed})"]

    def pull(self) -> Pull:
        op = self.op
        if op.vjp is not None:
            self.lines += [
                " nodes, needed = rec.nodes, sweep.needed",
                " needed = tuple([node in needed for node in nodes])",
                f" sweep.add_all(nodes, {self.call('rule', op.vjp)})",
            ]
        else:
            self.lines += [" nodes, needed, cts = rec.nodes, sweep.needed, sweep.cotangents"]
            # Input 0 last: its share may take over the memory of the cotangent (`_in_memory`), which the others still need.
            for index in reversed(range(len(op.args))):
                self._input(index)
        filename = f"<gradtape rule of {op.name}>"
        # tracebacks and the user's line are looked for behind these frames
        INTERNAL.add(filename)
        RULES.add(filename)
        exec(compile("\n".join(self.lines), filename, "exec"), self.space)  # noqa: S102  (our own template)
        pull: Pull = self.space["pull"]
        return pull

    def _input(self, index: int) -> None:
        """Lines for one input: `grad` is its share, added to what has arrived."""
        op = self.op
        expression = self.share(index)
        if expression is None:
            return
        lines = [f" node = nodes[{index}]", " if node in needed:"]
        shares = [f"grad = {expression}"]
        # with one argument there is nothing it could have been broadcast against
        if op.kind == "elementwise" and len(op.args) > 1:
            shares += ["if grad.shape != node.shape:", " grad = reduce_to(grad, node.shape)"]
        adding = ["if node in cts:", " sweep.add(node, grad)", "else:", " cts[node] = grad"]
        shares += adding if op.kind == "elementwise" else ["if grad is not None:", *[" " + line for line in adding]]
        for condition, quicker in self._in_memory() if index == 0 and not self.boxed else ():
            lines += [f"  if {condition}:", f"   {quicker}", "   return"]
        self.lines += lines + ["  " + line for line in shares]

    def _in_memory(self) -> Iterator[tuple[str, str]]:
        """(condition, statement): ways to answer for input 0, the last one looked at, that work on arrays in place. The texts
        that are evaluated are our own."""
        op = self.op
        if op.sparse_rows is not None:
            rows = self.call("sparse_rows", op.sparse_rows)
            # only a source may be answered by few rows: any rule further back would have to take them apart
            yield f"sweep.sparse and node.op is None and (rows := {rows}) is not None", "sweep.add(node, SparseRows(*rows))"
            self.space["SparseRows"] = SparseRows
        if op.add_into is not None:
            self.space["into"] = expression(f"lambda buffer, ct, rec: {self.call('add_into', op.add_into)}", self.space)
            yield "node.shape", "sweep.add_into(into, node, rec, ct)"
        if op.in_place is not None:
            self.space["change"] = expression(f"lambda ct, rec: {self.call('in_place', op.in_place)}", self.space)
            yield "ct.__class__ is ndarray", "sweep.change(change, node, rec, ct)"


def _returns_argument(rule: Rule) -> bool:
    """Whether the rule is `lambda x: x`: the partials of products are, and need no call."""
    return rule.__code__.co_argcount == 1 and rule.__code__.co_code == (lambda x: x).__code__.co_code


def _filled(slots: list[Any], record: Record, boxed: bool) -> tuple[Any, ...]:
    """Cotangents of all outputs, zeros where none arrived."""
    filled = []
    for ct, (shape, dtype) in zip(slots, record.shape, strict=True):
        none = zeros(shape, as_dtype(dtype)) if ct is None else None
        filled.append(ct if none is None else none if boxed else none._data)
    return tuple(filled)
