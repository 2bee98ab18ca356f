"""One place per operation: the `Op` object and the constructors its author uses.

A rule (partial, vjp, jvp) is a plain function whose PARAMETER NAMES say what it needs, so the tape saves nothing else:

* an input's name (`x`)      the value of that input
* `x_spec`                   only its shape and dtype (`.shape`, `.dtype`, `.ndim`)
* `out`, `out_spec`          the output (a tuple when there are several)
* `ct`                       the cotangent (in a vjp), a tuple when there are several outputs
* `t` / `tangents`           the tangent of this input / of all inputs, None where absent (in a jvp / joint jvp)
* `needed`                   which inputs a joint vjp must answer (tuple of bool)
* any attribute's name       that attribute

Rules are written in gradtape's own ops and Python operators and are closed: no free variables, no tape, no NumPy. They
run unchanged on tensors (recorded, traced, batched) and, rebound by `ops/binding.py`, on bare arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Rule = Callable[..., Any]
SampleMaker = Callable[[], Iterable["Sample"]]


class Sample:
    """One example call of an op: `Sample(x, y, axis=1)`; the tests of the op are generated from it.

    Float arrays in `args` (also inside a list argument) are differentiated in the generated tests unless their
    position stands in `fixed`. `raises` marks an error sample: (exception type, text the message must contain).
    `kinks=True` marks a point where the derivative is a convention, so finite differences are not compared.
    """

    __slots__ = ("args", "fixed", "kinks", "kwargs", "raises")

    def __init__(
        self,
        *args: Any,
        fixed: tuple[int, ...] = (),
        raises: tuple[type[Exception], str] | None = None,
        kinks: bool = False,
        **kwargs: Any,
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.fixed = fixed
        self.raises = raises
        self.kinks = kinks


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """A primitive operation. Frozen; compared by identity; found through `ops/registry.py`."""

    name: str
    kind: str
    args: tuple[str, ...]  # input names; a last one starting with "*" takes any number of inputs
    impl: Rule  # forward on bare arrays: impl(*arrays, **attrs)
    infer: Rule  # type rule: infer(*specs, **attrs) -> TensorSpec or tuple of them
    call: Rule | None = None  # how a sample's arguments reach the op: the public function (default: apply)
    partials: tuple[Any, ...] = ()  # elementwise: one per input; a rule, a number, or None (no derivative)
    products: tuple[Rule | None, ...] = ()  # elementwise, optional: ct times the conjugated partial, if cheaper that way
    vjps: tuple[Rule | None, ...] = ()  # one per input
    vjp: Rule | None = None  # joint: all inputs at once
    jvps: tuple[Rule | None, ...] = ()
    jvp: Rule | None = None
    batch: Rule | None = None  # batch(op, flags, inputs, attrs) -> output(s) with the batch axis first
    samples: SampleMaker | None = None
    outputs: int = 1  # 0: a tuple whose length depends on the inputs
    weak: bool = False  # binary arithmetic that takes Python numbers as they are
    floating: bool = False  # integer inputs are converted to the default float first
    reason: str = ""  # nondiff: why there is no derivative
    add_into: Rule | None = None  # add_into(buffer, ct, ...): adds the cotangent of input 0 to a buffer, on bare arrays
    in_place: Rule | None = None  # in_place(ct, ...): turns ct, on bare arrays, into the cotangent of input 0
    linear_inputs: tuple[str, ...] = ()  # multilinear / linear: jvp is the op itself in these inputs
    skeleton: Rule | None = None  # skeleton(attrs): what a record keeps of them for `explain` when its values are freed
    effect: bool = False  # does something besides its results: keeps its place, is never removed, merged or run twice

    @property
    def differentiable(self) -> bool:
        return self.kind != "nondiff"

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        from gradtape.ops.registry import op_by_name

        return op_by_name, (self.name,)

    def __deepcopy__(self, memo: Any) -> Op:
        return self


def _count(name: str, args: tuple[str, ...], *tables: tuple[Any, ...]) -> None:
    for table in tables:
        if table and len(table) != len(args):
            raise TypeError(f"op {name}: {len(args)} inputs but {len(table)} rules")


def elementwise(
    name: str,
    args: str,
    impl: Rule,
    *partials: Any,
    infer: Rule | None = None,
    products: tuple[Rule | None, ...] = (),
    samples: SampleMaker | None = None,
    call: Rule | None = None,
    weak: bool = False,
    floating: bool = False,
) -> Op:
    """A lane-wise op from its partial derivatives (a rule or a number; None where an input has no derivative).

    VJP (ct · conj(partial)), JVP (partial · t), broadcasting, batching and the masking of dead lanes are derived.
    Only holomorphic functions qualify for complex inputs; abs, real, angle and the like are `general`.
    """
    from gradtape.ops import batching, inference

    names = tuple(args.split())
    _count(name, names, partials, products)
    return Op(
        name, "elementwise", names, impl, infer or inference.elementwise, call=call, partials=partials,
        products=products, batch=batching.elementwise, samples=samples, weak=weak, floating=floating,
    )  # fmt: skip


def linear(
    name: str,
    args: str,
    impl: Rule,
    adjoint: Rule,
    *,
    infer: Rule,
    batch: Rule | None,
    samples: SampleMaker | None = None,
    call: Rule | None = None,
    outputs: int = 1,
    add_into: Rule | None = None,
    skeleton: Rule | None = None,
) -> Op:
    """An op linear in all its inputs together (one input, or a variadic list): `adjoint` is its conjugate transpose.

    The adjoint takes `ct` and whatever it names; for a variadic op it returns one cotangent per input.
    """
    names = tuple(args.split())
    joint = names[-1].startswith("*") or len(names) > 1
    return Op(
        name, "linear", names, impl, infer, call=call, vjp=adjoint if joint else None,
        vjps=() if joint else (adjoint,), batch=batch, samples=samples, outputs=outputs, linear_inputs=names,
        add_into=add_into, skeleton=skeleton,
    )  # fmt: skip


def multilinear(
    name: str,
    args: str,
    impl: Rule,
    *adjoints: Rule | None,
    infer: Rule,
    batch: Rule | None,
    samples: SampleMaker | None = None,
    call: Rule | None = None,
    add_into: Rule | None = None,
) -> Op:
    """An op linear in each input separately (products, convolutions, gathers): one adjoint per input, None if fixed.

    The JVP in an input is the op itself with the tangent in its place.
    """
    names = tuple(args.split())
    _count(name, names, adjoints)
    inputs = tuple(n for n, adjoint in zip(names, adjoints, strict=True) if adjoint is not None)
    return Op(
        name, "multilinear", names, impl, infer, call=call, vjps=adjoints, batch=batch, samples=samples,
        linear_inputs=inputs, add_into=add_into,
    )  # fmt: skip


def general(
    name: str,
    args: str,
    impl: Rule,
    *,
    infer: Rule,
    batch: Rule | None,
    vjps: tuple[Rule | None, ...] = (),
    vjp: Rule | None = None,
    jvps: tuple[Rule | None, ...] = (),
    jvp: Rule | None = None,
    samples: SampleMaker | None = None,
    call: Rule | None = None,
    outputs: int = 1,
    floating: bool = False,
    in_place: Rule | None = None,
    skeleton: Rule | None = None,
) -> Op:
    """Any differentiable op: per-input `vjps` or one joint `vjp`; without a jvp the vjp is transposed."""
    names = tuple(args.split())
    _count(name, names, vjps, jvps)
    if not vjps and vjp is None:
        raise TypeError(f"op {name}: a general op needs vjps or a joint vjp")
    return Op(
        name, "general", names, impl, infer, call=call, vjps=vjps, vjp=vjp, jvps=jvps, jvp=jvp, batch=batch,
        samples=samples, outputs=outputs, floating=floating, in_place=in_place, skeleton=skeleton,
    )  # fmt: skip


def nondiff(
    name: str,
    args: str,
    impl: Rule,
    *,
    infer: Rule,
    reason: str,
    batch: Rule | None,
    samples: SampleMaker | None = None,
    call: Rule | None = None,
    outputs: int = 1,
) -> Op:
    """An op without a derivative, and the reason `explain` gives for it."""
    return Op(
        name, "nondiff", tuple(args.split()), impl, infer, call=call, batch=batch, samples=samples, outputs=outputs,
        reason=reason,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Composite:
    """A public function written in other ops, with the samples its generated tests use."""

    name: str
    function: Rule
    samples: SampleMaker
    differentiable: bool = True


def composite(samples: SampleMaker, differentiable: bool = True) -> Callable[[Rule], Rule]:
    """Declare a public function that is a plain function of other ops: its tests come from `samples`."""

    def declare(function: Rule) -> Rule:
        function.composite = Composite(function.__name__, function, samples, differentiable)  # type: ignore[attr-defined]
        return function

    return declare
