"""One rule source, two bindings: the same derivative rules on bare arrays and on tensors.

* `boxed`  the rule as written: its ops dispatch, so they are recorded, traced or batched.
* `raw`    the rule rebuilt once with globals in which every op name means its NumPy `impl`: first-order backward passes,
           which nobody records, run without tensors and without dispatch.

`careful` variants mask dead lanes (zero cotangent, non-finite partial); the walk uses them only when a plain pass gave a
non-finite result. `raw` plain rules assume real dtypes; complex tapes use the careful ones, which conjugate.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from gradtape.ops import dispatch
from gradtape.ops.opdef import Op, Rule
from gradtape.ops.plan import parameters, save_plan
from gradtape.ops.record import INTERNAL, SCOPE, Record
from gradtape.ops.recorded import PART, part_of
from gradtape.ops.tensor import Tensor, box

Bound = Callable[[Any, Record], Any]


class BoundRules:
    """The reverse rules of one op in one binding: either one function per input, or one joint function."""

    __slots__ = ("add_into", "broadcasts", "in_place", "inputs", "joint", "steps")

    def __init__(self, inputs: tuple[Bound | None, ...], joint: Callable[..., Any] | None, broadcasts: bool = False) -> None:
        self.inputs = inputs
        self.joint = joint
        self.broadcasts = broadcasts  # an answer may have to be summed down to the shape of its input
        self.steps = tuple((i, rule) for i, rule in reversed(list(enumerate(inputs))) if rule is not None)  # as the walk goes
        self.add_into: Callable[..., None] | None = None  # (buffer, ct, rec), bare arrays only
        self.in_place: Callable[..., None] | None = None  # (ct, rec), bare arrays only


# -- rebuilding a function on bare arrays --------------------------------------------------------------------------


def _raw_apply(op: Op, *inputs: Any, **attrs: Any) -> Any:
    return op.impl(*inputs, **attrs)


def _raw_apply_one(op: Op, x: Any, attrs: dict[str, Any]) -> Any:
    return op.impl(x, **attrs)


def _raw_convert(value: Any, dtype: Any = None, hint: Any = None) -> Any:
    return np.asarray(value)[()] if isinstance(value, (list, tuple)) else value


def _raw_promote(*values: Any) -> tuple[Any, ...]:
    return values


def _raw_box(data: Any, node: Any = None) -> Any:
    return data


_memo: dict[Any, Any] = {
    box: _raw_box,
    dispatch.apply: _raw_apply,
    dispatch.apply_one: _raw_apply_one,
    dispatch.apply_two: _raw_apply,
    dispatch.convert: _raw_convert,
    dispatch.promote: _raw_promote,
    dispatch.twin: _raw_box,
    dispatch.created: _raw_box,
}


def raw(function: Rule) -> Rule:
    """`function` with every op it names (also through helpers) replaced by that op's `impl`."""
    known = _memo.get(function)
    if known is not None:
        return known
    op = getattr(function, "op", None)
    if isinstance(op, Op):
        _memo[function] = op.impl
        return op.impl
    if function.__closure__:
        raise TypeError(f"rule {function.__qualname__} has free variables {function.__code__.co_freevars}; rules are closed")
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
    rebuilt = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    _memo[function] = rebuilt
    for name in global_names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            namespace[name] = raw(value) if _is_ours(value) else value
    return rebuilt


def _is_ours(value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__module__.startswith("gradtape.ops")


def global_names(code: CodeType) -> set[str]:
    """Names a code object (and the functions inside it) may look up globally."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= global_names(constant)
    return names


# -- handing saved values to rules ---------------------------------------------------------------------------------


def unpack(record: Record, entry: int, index: int) -> Any:
    """A saved value (of input `index`; -1: the output) as the tensor it was, with its identity, so that the backward
    pass can itself be recorded."""
    value = record.saved[entry]
    if value.__class__ is not tuple:
        return reboxed(value, record.nodes[index]) if index >= 0 else _output(value, record)
    if index < 0:
        return parts(record, value)
    return tuple(reboxed(v, record.nodes[index + i]) for i, v in enumerate(value))


def reboxed(value: Any, node: Record | None) -> Any:
    """Bare arrays become tensors again, wrappers get back their identity; Python numbers are what they were.

    A wrapper that the record's recorders do not know keeps the identity that recorders outside of it know.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return box(value, node)
    if isinstance(value, Tensor) and node is not None and value._node is not node:
        value = value.__copy__()
        value._node = node
    return value


def _output(value: Any, node: Record) -> Any:
    """An output as its record kept it, before it had an identity."""
    if not isinstance(value, Tensor):
        return reboxed(value, node)
    twin = value.__copy__()
    twin._node = node
    return twin


def parts(record: Record, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of an op with several, as parts of its record."""
    scope = SCOPE.get()
    if scope is None or not any(key in scope.keys for key in record.keys):
        return tuple(reboxed(v, None) for v in values)
    return tuple(_output(v, part_of(scope, record, i, v)) for i, v in enumerate(values))


def _call(rule: str, names: tuple[str, ...], op: Op, boxed: bool) -> str:
    """Source text of a call of `rule` with each parameter fetched from (ct, rec)."""
    plan = save_plan(op)
    arguments = []
    for name in names:
        if name in ("ct", "needed", "buffer"):
            arguments.append(name)
        elif name in plan.names:
            entry = plan.names[name]
            index, spec = plan.entries[entry]
            arguments.append(f"unpack(rec, {entry}, {index})" if boxed and not spec else f"rec.saved[{entry}]")
        else:
            arguments.append(f"rec.attrs[{name!r}]")
    return f"{rule}({', '.join(arguments)})"


def _bind(op: Op, boxed: bool, careful: bool) -> BoundRules:
    from gradtape.ops.masking import conjugated_product, masked_product

    if not op.differentiable or op is PART:
        return BoundRules((), None)
    product = masked_product if careful else conjugated_product if boxed else None
    space: dict[str, Any] = {"unpack": unpack, "times": product if boxed or product is None else raw(product)}
    if op.vjp is not None:
        space["rule"] = op.vjp if boxed else raw(op.vjp)
        text = f"lambda ct, rec, needed: {_call('rule', parameters(op.vjp), op, boxed)}"
        return BoundRules((), _compile(text, space, op))
    inputs: list[Bound | None] = []
    for i in range(len(op.args)):
        if op.kind == "elementwise":
            inputs.append(_bind_partial(op, i, space, boxed, careful))
        elif (rule := op.vjps[i]) is None:
            inputs.append(None)
        else:
            space[f"rule{i}"] = rule if boxed else raw(rule)
            inputs.append(_compile(f"lambda ct, rec: {_call(f'rule{i}', parameters(rule), op, boxed)}", space, op))
    rules = BoundRules(tuple(inputs), None, broadcasts=op.kind == "elementwise" and len(inputs) > 1)
    if not boxed and op.add_into is not None:
        space["into"] = op.add_into
        call = _call("into", parameters(op.add_into), op, False)
        rules.add_into = _compile(f"lambda buffer, ct, rec: {call}", space, op)
    if not boxed and op.in_place is not None:
        space["in_place"] = op.in_place
        rules.in_place = _compile(f"lambda ct, rec: {_call('in_place', parameters(op.in_place), op, False)}", space, op)
    return rules


def _bind_partial(op: Op, i: int, space: dict[str, Any], boxed: bool, careful: bool) -> Bound | None:
    partial = op.partials[i]
    product = op.products[i] if op.products else None
    if partial is None:
        return None
    if not callable(partial):
        body = {1: "ct", -1: "-ct"}.get(partial, f"ct * {partial!r}")
    elif product is not None and not careful:
        space[f"product{i}"] = product if boxed else raw(product)
        body = _call(f"product{i}", parameters(product), op, boxed)
    else:
        space[f"partial{i}"] = partial if boxed else raw(partial)
        value = _call("" if _returns_argument(partial) else f"partial{i}", parameters(partial), op, boxed)
        body = f"times(ct, {value})" if boxed or careful else f"ct * {value}"
    bound: Bound = _compile(f"lambda ct, rec: {body}", space, op)
    return bound


def _returns_argument(rule: Rule) -> bool:
    """Whether the rule is `lambda x: x`: the partials of products are, and need no call."""
    return rule.__code__.co_argcount == 1 and rule.__code__.co_code == (lambda x: x).__code__.co_code


def _compile(text: str, space: dict[str, Any], op: Op) -> Any:
    filename = f"<gradtape rule of {op.name}>"
    INTERNAL.add(filename)
    return eval(compile(text, filename, "eval"), space)  # noqa: S307  (our own template)


class Binding(dict[Op, BoundRules]):
    """Op → its bound rules, bound on first use."""

    def __init__(self, boxed: bool, careful: bool) -> None:
        super().__init__()
        self.boxed = boxed
        self.careful = careful

    def __missing__(self, op: Op) -> BoundRules:
        rules = self[op] = _bind(op, self.boxed, self.careful)
        return rules


RAW = Binding(boxed=False, careful=False)
RAW_CAREFUL = Binding(boxed=False, careful=True)
BOXED = Binding(boxed=True, careful=False)
BOXED_CAREFUL = Binding(boxed=True, careful=True)
