"""`ForwardAccumulator`: derivatives along one direction, carried with the computation.

It is a recorder like a tape, but keeps tangents instead of records: one per tensor version it knows, dropped when the
version dies. Tangents are computed in ops, so tapes and outer accumulators see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from gradtape import tree
from gradtape.ad.binding import reboxed
from gradtape.ad.forward import jvp_of
from gradtape.core.dispatch import PART, convert
from gradtape.core.record import (
    WATCHING,
    Record,
    Recorder,
    RecordingScope,
    TapeKey,
    current_scope,
    enter_scope,
    leaf,
    past_of_leaf,
    scope_of,
)
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.ops.create import zeros_like
from gradtape.tape.tape_messages import Mode, UnconnectedGradients, warn_not_differentiable
from gradtape.trace.tracing import lift
from gradtape.tree import Structure
from gradtape.variables.variable import Variable, unwrapped


class ForwardAccumulator(Recorder):
    """Computes Jacobian-vector products while the function runs.

    >>> x = gt.constant([2.0, 3.0])
    >>> with gt.autodiff.ForwardAccumulator(primals=x, tangents=gt.constant([1.0, 0.0])) as acc:
    ...     y = gt.reduce_sum(x * x)
    >>> acc.jvp(y).numpy()
    np.float32(4.0)

    Args:
        primals: a tensor or variable, or a structure of them.
        tangents: directions, same structure, shapes and dtypes.
    """

    slow = True

    def __init__(self, primals: Structure, tangents: Structure) -> None:
        self.key = TapeKey(holds=False)
        self.level = 0
        # weak: a tangent lives as long as the version it belongs to
        self._tangents: WeakKeyDictionary[Record, Any] = WeakKeyDictionary()
        self._variables: dict[int, tuple[Variable, Any]] = {}
        self._recording = False
        tree.assert_same_structure(primals, tangents)
        for primal, tangent in zip(tree.flatten(primals), tree.flatten(tangents), strict=True):
            with WATCHING:
                self._watch(primal, tangent)

    def _watch(self, given: object, tangent: TensorLike) -> None:
        primal = unwrapped(given)
        if not isinstance(primal, (Tensor, Variable)):
            kind = type(primal).__name__
            raise ValueError(f"ForwardAccumulator: primals must be tensors or variables, got {kind} {primal!r}")
        if not primal.dtype.is_differentiable:
            warn_not_differentiable("ForwardAccumulator: the primal", primal)
        direction = convert(tangent, hint=primal.dtype)
        if tuple(direction.shape) != tuple(primal.shape) or direction.dtype != primal.dtype:
            raise ValueError(
                f"ForwardAccumulator: the tangent has shape {tuple(direction.shape)} and dtype {direction.dtype.name}, "
                f"its primal {tuple(primal.shape)} and {primal.dtype.name}; they must agree"
            )
        if isinstance(primal, Variable):
            self._variables[id(primal)] = (primal, direction)
            primal.watched_by([self], current_scope())
            return
        # while a function is traced: only a value of the program can be followed through its regions
        lift(primal)
        node = primal._node
        # a version that only closed tapes knew may be given a new identity: nobody looks for the old one
        if node is None or not any(key.open for key in node.keys):
            node = primal._node = leaf((self.key,), primal.shape, past_of_leaf(node))
        elif self.key not in node.keys:
            node.keys = (*(key for key in node.keys if key.open), self.key)
        self._tangents[node] = direction

    def __enter__(self) -> ForwardAccumulator:
        if self._recording:
            raise ValueError("this accumulator is already recording")
        self._recording = True
        self.level = current_scope().level
        enter_scope(current_scope().with_recorder(self))
        return self

    def __exit__(self, *exc: object) -> None:
        enter_scope(current_scope().without(self))
        self._recording = False

    def __del__(self) -> None:
        self.key.open = False

    def jvp(self, primals: Structure, unconnected_gradients: Mode = UnconnectedGradients.NONE) -> Any:
        """The tangent of each tensor in `primals`; None (or zeros) where the direction does not reach it."""
        mode = UnconnectedGradients(unconnected_gradients)
        return tree.map_structure(lambda p: self._tangent_of(p, mode), primals)

    def _tangent_of(self, primal: object, mode: UnconnectedGradients) -> Any:
        if isinstance(primal, Variable):
            node = primal._tensor._node
        elif isinstance(primal, Tensor):
            node = primal._node
        else:
            raise ValueError(f"jvp: expected a tensor or variable, got {type(primal).__name__}")
        tangent = self._known(node)
        if tangent is not None:
            return tangent
        if mode is UnconnectedGradients.RAISE:
            raise ValueError("jvp: this tensor is not connected to the primals")
        return zeros_like(primal) if mode is UnconnectedGradients.ZERO else None

    # -- the protocol of recorders ---------------------------------------------------------------------------------

    def watches(self, variable: Variable) -> bool:
        """Called by variables when read: only primals are followed."""
        return id(variable) in self._variables

    def add_version(self, variable: Variable, node: Record) -> None:
        """Called by variables: another leaf of a primal moves in the same direction."""
        if id(variable) in self._variables:
            self._tangents[node] = self._variables[id(variable)][1]

    def carry(self, old: Record | None, new: Record) -> None:
        """A version under a new identity keeps its tangent."""
        tangent = self._known(old)
        if tangent is not None:
            self._tangents[new] = tangent

    def recorded(
        self, record: Record, inputs: Sequence[Any], nodes: Sequence[Record | None], out: Tensor | tuple[Tensor, ...]
    ) -> None:
        """Called by dispatch after each operation on a version this accumulator knows."""
        tangents = tuple(self._known(n) for n in nodes)
        if all(t is None for t in tangents):
            return
        # with their identities: tapes around differentiate the tangent, too (forward over reverse)
        tensors = tuple(reboxed(x, n) for x, n in zip(inputs, nodes, strict=True))
        outside = self._outside()
        for recorder in outside.recorders:
            # what follows is a derivative, not the user's own line: profiles and pictures count it apart
            recorder.recorded_derivative(None, 0)
        with scope_of(outside):
            tangent = jvp_of(record.op, tensors, tangents, out, record.attrs or {})
        if tangent is None:
            return
        self._tangents[record] = tangent  # a tuple for several outputs, whose versions are parts of the record

    def meets_world(self, world: Record) -> None:
        """Other ranks may move where this one does not: it takes its part in what they compute."""
        self._tangents[world] = convert(0.0)

    def carries(self, node: Record) -> bool:
        """Whether a version has a tangent here."""
        return self._known(node) is not None

    def _known(self, node: Record | None) -> Any:
        """The tangent of a version; of one output of several, its part of the owner's."""
        # Parts of an operation with several outputs have no entry: one tuple is kept for all of them, with the record.
        own = None if node is None else self._tangents.get(node)
        if own is not None or node is None or node.op is not PART or not node.nodes:
            return own
        whole = self._tangents.get(node.nodes[0])  # type: ignore[arg-type]  # a part always has its owner
        return None if whole is None else whole[node.attrs["index"]]  # type: ignore[index]

    def _outside(self) -> RecordingScope:
        """Tapes, and the accumulators entered before this one."""
        scope = current_scope()
        # Its own tangents are not carried through themselves; accumulators around it differentiate what it computes.
        place = next((i for i, r in enumerate(scope.recorders) if r is self), len(scope.recorders))
        kept = tuple(r for i, r in enumerate(scope.recorders) if r.key.holds or i < place)
        return RecordingScope(kept, scope.batches)
