"""One place per operation: the `Op` object and the constructors its author uses.

A rule (partial, vjp, jvp) is a plain function whose PARAMETER NAMES say what it needs, so the tape saves nothing else:

* an input's name (`x`)      the value of that input
* `x_shape`                  in the vjp of `x` itself: only its shape, which its version knows, so nothing is saved
* `x_spec`                   only its shape and dtype (`.shape`, `.dtype`, `.ndim`)
* `out`, `out_spec`          the output (a tuple when there are several)
* `ct`                       the cotangent (in a vjp), a tuple when there are several outputs
* `t` / `tangents`           the tangent of this input / of all inputs, None where absent (in a jvp / joint jvp)
* `needed`                   which inputs a joint vjp must answer (tuple of bool)
* any attribute's name       that attribute; `attrs`: all of them

Rules are written in gradtape's own ops and Python operators and are closed: no free variables, no tape, no NumPy. They
run unchanged on tensors (recorded, traced, batched) and, rebound by `ad/binding.py`, on bare arrays.

`expand` is closed in the same way: what the op means in simpler ops. A backend that has no code of its own for an op writes the
expansion in its place (`ad/expansion.py`), fused with what stands around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any, TypedDict, TypeVar, Unpack

from gradtape.core import inference
from gradtape.core.hooks import HOOKS

Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)
SampleMaker = Callable[[], Iterable["Sample"]]


# The unit is half a product, so that what is cheaper than a product has a number too.
class Cost(IntEnum):
    """What computing an element costs, in halves of a product: what is kept and what is computed again is chosen by it."""

    FREE = 0  # a view, a size
    LIGHT = 1  # done while the operand is read: a sign, a comparison, a cast
    CHEAP = 2  # a sum, a product
    DIVISION = 8
    DEAR = 40  # a transcendental function, and whatever is never done twice to save memory


class Memory(Enum):
    """Whose memory an array result has: whether a later op may write to it. The samples of the op are held to it."""

    FRESH = auto()  # nobody else's; of a list: a new list, of which inputs other than the list itself may be items
    VIEW = auto()  # result i is input i, seen otherwise: each element of the input stands in it at most once
    SHARED = auto()  # perhaps that of any input, or of nobody who may write to it
    ITEM = auto()  # that of an item of the list it was given


class Fails(Enum):
    """For which values, its types being right, an op raises: such an op is not run before it is known to be needed."""

    NEVER = auto()
    INTEGERS = auto()  # for integers only: division by 0, negative powers
    VALUES = auto()  # an index out of range, a singular matrix, a check


class Sample:
    """One example call of an op: `Sample(x, y, axis=1)`; the tests of the op are generated from it.

    Float arrays in `args` (also inside a list argument) are differentiated in the generated tests unless their
    position stands in `fixed`. `raises` marks an error sample: (exception type, text the message must contain).
    `kinks=True` marks a point where the derivative is a convention, so finite differences are not compared.
    """

    __slots__ = ("args", "fixed", "kinks", "kwargs", "raises")

    def __init__(
        self, *args: Any, fixed: tuple[int, ...] = (), raises: tuple[type[Exception], str] | None = None, kinks: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
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
    cost: Cost = Cost.DEAR
    memory: Memory = Memory.FRESH
    fails: Fails = Fails.NEVER
    overwrites: Rule | None = (
        None  # called like `impl`: writes the result over input 0, which nobody needs any more, and gives it
    )
    expand: Rule | None = None  # the op in simpler ops, called like `impl` but on tensors; None from it: not for these inputs
    # how a sample's arguments reach the op, if not by the function of its name, nor as inputs, then attributes as in `infer`
    call: Rule | None = None
    partials: tuple[Any, ...] = ()  # elementwise: one per input; a rule, a number, or None (no derivative)
    products: tuple[Rule | None, ...] = ()  # elementwise, optional: ct times the conjugated partial, if cheaper that way
    vjps: tuple[Rule | None, ...] = ()  # one per input
    vjp: Rule | None = None  # joint: all inputs at once
    jvps: tuple[Rule | None, ...] = ()
    jvp: Rule | None = None
    batch: Rule | None = None  # batch(op, flags, inputs, attrs) -> output(s) with the batch axis first; see `batching.rule_of`
    alike: bool = False  # the same for all examples of a batch: what `batch` gives has no batch axis
    samples: SampleMaker | None = None
    outputs: int = 1  # 0: a tuple whose length depends on the inputs
    weak: bool = False  # binary arithmetic that takes Python numbers as they are
    floating: bool = False  # integer inputs are converted to the default float first
    reason: str = ""  # nondiff: why there is no derivative
    add_into: Rule | None = None  # add_into(buffer, ct, ...): adds the cotangent of input 0 to a buffer, on bare arrays
    sparse_rows: Rule | None = None  # sparse_rows(ct, ...): input 0's cotangent as (values, indices, shape), or None
    in_place: Rule | None = None  # in_place(ct, ...): turns ct, on bare arrays, into the cotangent of input 0
    linear_inputs: tuple[str, ...] = ()  # multilinear / linear: jvp is the op itself in these inputs
    skeleton: Rule | None = None  # skeleton(attrs): what a record keeps of them for `explain` when its values are freed
    assigns: bool = False  # the write of a value into a variable: a tape may stop there
    signature: tuple[Any, ...] = ()  # region: its regions, then what of them must agree; see `ops/structured.py`
    effect: bool = False  # does something besides its results: keeps its place, is never removed, merged or run twice

    @property
    def differentiable(self) -> bool:
        return self.kind != "nondiff"

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return HOOKS.op_by_name, (self.name,)

    def __deepcopy__(self, memo: object) -> Op:
        return self


# Typed keywords, passed on as they are: a misspelt fact is an error of mypy and of `Op`, not a fact that nobody reads.
class Common(TypedDict, total=False):
    """What every constructor takes: see the fields of `Op`. A fact that is left out is the default of `Op`."""

    cost: Cost
    fails: Fails
    overwrites: Rule | None
    expand: Rule | None
    samples: SampleMaker | None
    call: Rule | None


class Facts(Common, total=False):
    """What all constructors but `linear` take, too: an op that only moves elements must say whose memory they are in."""

    memory: Memory


def _count(name: str, args: tuple[str, ...], *tables: tuple[Any, ...]) -> None:
    for table in tables:
        if table and len(table) != len(args):
            raise TypeError(f"op {name}: {len(args)} inputs but {len(table)} rules")


def elementwise(
    name: str, args: str, impl: Rule, *partials: Any, infer: Rule | None = None, products: tuple[Rule | None, ...] = (),
    weak: bool = False, floating: bool = False, **facts: Unpack[Facts],
) -> Op:  # fmt: skip
    """A lane-wise op from its partial derivatives (a rule or a number; None where an input has no derivative).

    VJP (ct · conj(partial)), JVP (partial · t), broadcasting, batching and the masking of dead lanes are derived.
    Only holomorphic functions qualify for complex inputs; abs, real, angle and the like are `general`.
    """
    names = tuple(args.split())
    _count(name, names, partials, products)
    return Op(
        name, "elementwise", names, impl, infer or inference.elementwise, partials=partials, products=products,
        weak=weak, floating=floating, **facts,
    )  # fmt: skip


def linear(
    name: str, args: str, impl: Rule, adjoint: Rule, *, infer: Rule, memory: Memory, batch: Rule | None, outputs: int = 1,
    add_into: Rule | None = None, skeleton: Rule | None = None, assigns: bool = False, **facts: Unpack[Common],
) -> Op:  # fmt: skip
    """An op linear in all its inputs together (one input, or a variadic list): `adjoint` is its conjugate transpose.

    The adjoint takes `ct` and whatever it names; for a variadic op it returns one cotangent per input.
    """
    names = tuple(args.split())
    joint = names[-1].startswith("*") or len(names) > 1
    return Op(
        name, "linear", names, impl, infer, memory=memory, vjp=adjoint if joint else None,
        vjps=() if joint else (adjoint,), batch=batch, outputs=outputs, linear_inputs=names,
        add_into=add_into, skeleton=skeleton, assigns=assigns, **facts,
    )  # fmt: skip


def multilinear(
    name: str, args: str, impl: Rule, *adjoints: Rule | None, infer: Rule, batch: Rule | None, add_into: Rule | None = None,
    sparse_rows: Rule | None = None, **facts: Unpack[Facts],
) -> Op:  # fmt: skip
    """An op linear in each input separately (products, convolutions, gathers): one adjoint per input, None if fixed.

    The JVP in an input is the op itself with the tangent in its place.
    """
    names = tuple(args.split())
    _count(name, names, adjoints)
    inputs = tuple(n for n, adjoint in zip(names, adjoints, strict=True) if adjoint is not None)
    return Op(
        name, "multilinear", names, impl, infer, vjps=adjoints, batch=batch, linear_inputs=inputs, add_into=add_into,
        sparse_rows=sparse_rows, **facts,
    )  # fmt: skip


def general(
    name: str, args: str, impl: Rule, *, infer: Rule, batch: Rule | None, vjps: tuple[Rule | None, ...] = (),
    vjp: Rule | None = None, jvps: tuple[Rule | None, ...] = (), jvp: Rule | None = None, outputs: int = 1,
    floating: bool = False, in_place: Rule | None = None, skeleton: Rule | None = None, **facts: Unpack[Facts],
) -> Op:  # fmt: skip
    """Any differentiable op: per-input `vjps` or one joint `vjp`; without a jvp the vjp is transposed."""
    names = tuple(args.split())
    _count(name, names, vjps, jvps)
    if not vjps and vjp is None:
        raise TypeError(f"op {name}: a general op needs vjps or a joint vjp")
    return Op(
        name, "general", names, impl, infer, vjps=vjps, vjp=vjp, jvps=jvps, jvp=jvp, batch=batch,
        outputs=outputs, floating=floating, in_place=in_place, skeleton=skeleton, **facts,
    )  # fmt: skip


def nondiff(
    name: str, args: str, impl: Rule, *, infer: Rule, reason: str, batch: Rule | None, alike: bool = False, outputs: int = 1,
    **facts: Unpack[Facts],
) -> Op:  # fmt: skip
    """An op without a derivative, and the reason `explain` gives for it."""
    names = tuple(args.split())
    return Op(name, "nondiff", names, impl, infer, batch=batch, alike=alike, outputs=outputs, reason=reason, **facts)


@dataclass(frozen=True, eq=False, slots=True)
class Composite:
    """A public function written in other ops, with the samples its generated tests use."""

    name: str
    function: Rule
    samples: SampleMaker
    differentiable: bool = True


def composite(samples: SampleMaker, differentiable: bool = True) -> Callable[[F], F]:
    """Declare a public function that is a plain function of other ops: its tests come from `samples`."""

    def declare(function: F) -> F:
        function.composite = Composite(function.__name__, function, samples, differentiable)  # type: ignore[attr-defined]
        return function

    return declare
