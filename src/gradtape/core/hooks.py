"""What the run time of an operation needs of rooms above it: one object, its fields filled once by those who define them.

`core/` knows no family of operations. Where it cannot do without one (a list with tensors in it is stacked, a number takes
another dtype), it asks this object, whose every field says who fills it. A field nobody filled is an AttributeError.
Results are typed Any: the classes they have are defined by modules that import this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class ProgramTrace(Protocol):
    """The program being traced, as far as lower rooms ask it; `trace/tracing.py` has the class, and says what each one is for.

    The callables are set by the room that traces functions; None where nobody wants to be asked.
    """

    @property
    def follows_constants(self) -> bool: ...
    @property
    def array(self) -> Callable[[Any], Any] | None: ...
    @property
    def lift(self) -> Callable[[Any], None] | None: ...
    @property
    def is_input(self) -> Callable[[Any], bool]: ...
    @property
    def value_of(self) -> Callable[[Any], Any] | None: ...
    @property
    def before_write(self) -> Callable[[Any], None] | None: ...
    @property
    def after_write(self) -> Callable[[Any], None] | None: ...
    @property
    def tape_watches(self) -> Callable[[Any, Any], None] | None: ...
    @property
    def tape_asked(self) -> Callable[[Any, Any], None] | None: ...
    def emit(self, op: Any, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any: ...
    def check_sizes(self, op: Any, results: Sequence[Any]) -> None: ...


class Hooks:
    """The fields; classes in `quick` and `weak` are looked up in hot paths, so these two are plain dicts."""

    __slots__ = (
        "among_ranks", "array_kind", "broadcast_to", "cast", "cast_op", "check_gradient", "dimension", "identity", "kind_of",
        "numbers", "op_by_name", "opened", "over_batch", "quick", "rank_kind", "reshape", "result_kinds", "rule_shares",
        "scipy_rule", "stack", "weak", "world",
    )  # fmt: skip
    # -- families of ops
    cast_op: Any  # ops/elementwise.py
    cast: Callable[[Any, Any], Any]  # ops/elementwise.py: a value in another dtype, recorded
    stack: Callable[[Any], Any]  # ops/shape.py: packs lists that contain tensors
    reshape: Callable[[Any, tuple[Any, ...]], Any]  # ops/shape.py
    broadcast_to: Callable[[Any, tuple[Any, ...]], Any]  # ops/shape.py
    identity: Callable[[Any], Any]  # ops/stop.py
    dimension: Callable[..., Any]  # ops/staged.py: a symbolic dimension as a scalar
    op_by_name: Callable[[str], Any]  # ops/__init__.py: where pickle finds an op again
    scipy_rule: Callable[[Any, Any], Any]  # interop/protocols.py: what a function of SciPy is on tensors
    # -- several processes
    world: Any  # ops/collective.py: one rank alone; distribute/ puts the ranks of an MPI run in its place
    array_kind: Any  # core/record.py: what tensors made of NumPy arrays remember among several ranks; None where there is one
    among_ranks: Callable[..., Any] | None  # distribute/: what a derivative means among several ranks; None where there is one
    check_gradient: Callable[[Any, Any], None] | None  # distribute/: refuses one that a variable of all ranks must not get
    result_kinds: Callable[[Any], Any] | None  # distribute/: what marks results of a compiled program; None where there is one
    kind_of: Any  # distribute/: the kind of a version among several ranks; None where there is one
    rank_kind: Any  # distribute/: that of a tensor, traced or not; None where there is one
    rule_shares: Callable[[Any], Any] | None  # distribute/: what makes shares of ranks of the answers of a rule; None likewise
    # -- tracing
    # functions/staging: the list value behind a Python list whose items live in a program, and its length where known
    opened: Callable[[Any], tuple[Any, int | None] | None]
    numbers: Callable[..., Any]  # trace/weak.py: a list of numbers, some of them the program's, as a tensor; else None
    over_batch: Callable[..., Any]  # ad/batch_regions.py: a structured operation on batched operands
    quick: dict[type, Callable[..., Any]]  # class → quick(op, x[, y]): a short way for elementwise ops. trace/fast_path.py
    weak: dict[type, Callable[[list[Any]], tuple[Any, ...]]]  # classes that stand for Python numbers → promotion. trace/weak.py

    def __init__(self) -> None:
        self.quick = {}
        self.weak = {}
        self.array_kind = self.among_ranks = self.check_gradient = self.kind_of = self.result_kinds = None
        self.rank_kind = self.rule_shares = None
        self.opened = lambda values: None  # until a function is traced there is no such list
        self.numbers = lambda values, dtype, hint: None


HOOKS = Hooks()
