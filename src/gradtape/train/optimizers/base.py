"""What all optimizers share: checking gradients, clipping, weight decay, the learning rate, slots, and the step itself.

A subclass states its slots and one rule `update(xp, w, g, slots, rate)`. The rule runs on bare arrays, cut in pieces that
stay in the cache, when nobody records; on tensors, with recorded assignments, when a tape does, so that gradients flow
through the step. Augmented assignments serve both: `m += d` writes into an array and makes a new tensor. Everything is
checked before the first variable changes.

Sparse gradients give exactly what the equal dense gradient would. Rules that leave alone a row whose gradient is zero
(`rowwise`: SGD without momentum, Adagrad; both without weight decay) touch only the rows of an `IndexedSlices`; slots
that decay must be swept whole, as in Keras, and take the densified gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gradtape.core.dispatch import convert
from gradtape.core.hinting import Hinting
from gradtape.core.record import SCOPE
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.dtypes import float64
from gradtape.ops.elementwise import cast
from gradtape.tape.gradient_tape import GradientTape
from gradtape.trace.effects import active
from gradtape.train.optimizers.buffers import bind, is_plain, writable
from gradtape.train.optimizers.clip_settings import Clipping
from gradtape.train.optimizers.gradients import Rows, as_parts, checked_pairs, from_parts, part_dtype, plain_gradient
from gradtape.train.optimizers.numbers import ARRAYS, TENSORS, Numbers, RuleValue
from gradtape.train.optimizers.schedules import LearningRate, LearningRateSchedule, Rate
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable

PIECE = 65536  # elements per piece of a rule on bare arrays: temporaries stay in the cache


class Optimizer(Hinting):
    """Base class of the optimizers.

    A subclass sets `slot_names`, may override `slot_value`, `scaled` and `rowwise`, and defines `update`.

    >>> class SignDescent(gt.optimizers.Optimizer):
    ...     def update(self, xp, w, g, slots, rate):
    ...         return w - rate * xp.sign(g), ()
    >>> w = gt.Variable([1.0, -2.0])
    >>> _ = SignDescent(0.5).apply_gradients([(w * 1.0, w)])
    >>> w.numpy()
    array([ 0.5, -1.5], dtype=float32)
    """

    _ELSEWHERE: ClassVar[dict[str, str]] = {
        "step": "use apply_gradients(zip(tape.gradient(loss, variables), variables))",
        "zero_grad": "leave it out: gradients are values that tape.gradient gives, nothing is added up in variables",
        "param_groups": "use one optimizer for each group, or learning_rate",
        "state_dict": "use gt.train.Checkpoint(optimizer=optimizer)",
    }
    _INTERNAL = "checkpoint_defer checkpoint_state"
    slot_names: tuple[str, ...] = ()
    _exact: float | None

    def __init__(
        self, learning_rate: LearningRate, weight_decay: float | None = None, clipnorm: float | None = None,
        clipvalue: float | None = None, global_clipnorm: float | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self.name = type(self).__name__.lower() if name is None else name
        self._clipping = Clipping(clipnorm, clipvalue, global_clipnorm)
        self.weight_decay = weight_decay
        self._iterations = Variable(np.int64(0), trainable=False, name="iterations")
        self._set_rate(learning_rate)
        self._variables: list[Variable] = []
        self._slots: dict[int, tuple[Variable, ...]] = {}
        self._undecayed: list[Variable] = []
        self._undecayed_words: tuple[str, ...] = ()
        self._deferred: dict[str, Any] = {}

    # -- for subclasses ------------------------------------------------------------------------------------------

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        """The new value and the new slots, from the old ones, written with operators and `xp` only.

        `w`, the slots and the rule's own temporaries may be changed by augmented assignment (`w -= …`), `g` never.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update(xp, w, g, slots, rate)")

    def scaled(self, rate: Rate, step: int | RuleValue) -> Any:
        """What `update` receives as rate in step number `step` (1, 2, …): where bias corrections go."""
        return rate

    def slot_value(self, name: str) -> float:
        """What a slot is filled with at the beginning."""
        return 0.0

    @property
    def rowwise(self) -> bool:
        """Whether a zero gradient leaves value and slots alone, so that sparse gradients need only their rows."""
        return False

    # -- hyperparameters -----------------------------------------------------------------------------------------

    @property
    def iterations(self) -> Variable:
        """How many steps were made."""
        return self._iterations

    @property
    def clipnorm(self) -> float | None:
        return self._clipping.norm

    @property
    def clipvalue(self) -> float | None:
        return self._clipping.value

    @property
    def global_clipnorm(self) -> float | None:
        return self._clipping.global_norm

    @property
    def learning_rate(self) -> Any:
        """The variable that holds the learning rate, or the schedule's value at the present step. Can be set."""
        if isinstance(self._rate, Variable):
            return self._rate
        rate = self._current_rate()
        return rate if isinstance(rate, Tensor) else box(np.float32(rate))

    @learning_rate.setter
    def learning_rate(self, value: LearningRate) -> None:
        own = isinstance(self._rate, Variable) and self._exact is not None
        if own and not callable(value) and not isinstance(value, Variable):
            self._exact = float(value)  # what is no number is refused by its own words
            self._rate.assign(np.float32(self._exact))
        else:
            self._set_rate(value)

    lr = learning_rate

    def _set_rate(self, value: LearningRate) -> None:
        # `_rate`: a Variable or a callable. `_exact`: the float behind our own float32 variable, so that float64
        # training is not disturbed by the rounding of its learning rate
        self._exact = None
        self._takes_step = False
        if (isinstance(value, Variable) and not value.shape) or callable(value):
            self._rate: Any = value
            self._takes_step = callable(value) and not isinstance(value, LearningRateSchedule) and _wants_argument(value)
            return
        number: Any = convert(value)._data if isinstance(value, (Tensor, Readable)) else value
        try:
            self._exact = float(number)
        except (TypeError, ValueError):
            wanted = "a number, a schedule or a function (variables are given to apply_gradients)"
            raise ValueError(f"{type(self).__name__}: learning_rate must be {wanted}, got {number!r}") from None
        self._rate = Variable(np.float32(self._exact), trainable=False, name="learning_rate")

    def _current_rate(self) -> Any:
        """A Python float where it is known, else a tensor."""
        rate = self._rate
        if isinstance(rate, LearningRateSchedule):
            return rate.rate(self._iterations.read())
        if not isinstance(rate, Variable):
            value = rate(self._iterations.read()) if self._takes_step else rate()
            return value if isinstance(value, (Tensor, Readable)) else float(value)
        tracer = active()
        if tracer is not None and self._exact is not None and id(rate) not in tracer.variables:
            return tracer.number_input(self, "learning rate", self._plain_rate)
        if self._exact is not None and is_plain(rate) and ((node := rate._tensor._node) is None or not node.keys):
            return self._plain_rate()
        return rate

    def _plain_rate(self) -> float:
        """The learning rate as the number that was given, unless the variable was assigned another."""
        value = self._rate._stored._data
        # 0.1 in float32 is another number than 0.1: float64 training uses what the user wrote.
        return self._exact if np.float32(self._exact) == value else float(value)  # type: ignore[return-value]

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Leave these variables, and those whose name contains one of `var_names`, out of the weight decay."""
        self._undecayed.extend(var_list or ())
        self._undecayed_words += tuple(var_names or ())

    def _decays(self, variable: Variable) -> bool:
        if not self.weight_decay:
            return False
        if any(word in variable.name for word in self._undecayed_words):
            return False
        return not any(other is variable for other in self._undecayed)

    # -- slots ---------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> list[Variable]:
        """The optimizer's own state: iterations, learning rate, then the slots of each variable."""
        own = [self._iterations, *([self._rate] if self._exact is not None else [])]
        return own + [slot for v in self._variables for slot in self._slots[id(v)]]

    def build(self, variables: Iterable[Variable]) -> None:
        """Make the slots of these variables now; the first step would do it otherwise."""
        for variable in variables:
            if id(variable) not in self._slots:
                self._slots[id(variable)] = self._new_slots(variable, len(self._variables))
                self._variables.append(variable)

    def _new_slots(self, variable: Variable, index: int) -> tuple[Variable, ...]:
        shape, dtype = part_dtype(variable)
        label = variable.name.removesuffix(":0")
        slots = []
        for name in self.slot_names:
            value = np.full(shape, self.slot_value(name), dtype)
            # Slots are saved by the order of their variables: names need not be unique, and objects differ from run to run.
            key = f"slots/{index}/{name}"
            if key in self._deferred:
                loaded, source = self._deferred[key]
                if loaded.shape != value.shape or loaded.dtype != value.dtype:
                    raise ValueError(
                        f"{self.name}: the slot '{name}' of variable '{variable.name}' has shape {value.shape}, dtype "
                        f"{value.dtype.name}, but {source} holds shape {loaded.shape}, dtype {loaded.dtype.name}; build "
                        "the optimizer with the variables in the order they were saved"
                    )
                value = loaded
            slots.append(Variable(value, trainable=False, name=f"{label}/{name}"))
        for name in self.slot_names:
            self._deferred.pop(f"slots/{index}/{name}", None)
        return tuple(slots)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_slots": [self._slots[id(v)] for v in self._variables]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # copies and pickles have variables of their own: their slots are found again by the new identities
        vars(self).update(state)
        self._slots = {id(v): slots for v, slots in zip(self._variables, state["_slots"], strict=True)}

    def checkpoint_state(self) -> dict[str, Variable]:
        """Name → variable, for checkpoints: slots are numbered in the order their variables were first seen."""
        state = {"iterations": self._iterations}
        if self._exact is not None:
            state["learning_rate"] = self._rate
        for index, variable in enumerate(self._variables):
            for name, slot in zip(self.slot_names, self._slots[id(variable)], strict=True):
                state[f"slots/{index}/{name}"] = slot
        return state

    def checkpoint_defer(self, name: str, value: ArrayLike, source: str) -> bool:
        """Keep a slot's saved value until its variable is first seen; False when the name is no slot of this class."""
        parts = name.split("/")
        if len(parts) != 3 or parts[0] != "slots" or parts[2] not in self.slot_names:
            return False
        self._deferred[name] = (np.array(value), source)
        return True

    # -- the step ------------------------------------------------------------------------------------------------

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], name: str | None = None) -> Variable:
        """Make one step with pairs (gradient, variable); pairs whose gradient is None are left out, with a warning.

        Raises:
            ValueError: when no gradient is left, or one does not fit its variable. Nothing has changed then.
        """
        pairs = checked_pairs(grads_and_vars, self.name)
        self.build([variable for _, variable in pairs])
        with np.errstate(all="ignore"):
            rate = self._current_rate()
            # Nobody records and nothing is traced: the rule runs on the arrays themselves and writes into the variables' own
            # buffers.
            if SCOPE.get() is None and not (isinstance(rate, Tensor) and rate.wraps) and all(is_plain(v) for _, v in pairs):
                self._step_on_arrays(pairs, rate if isinstance(rate, float) else float(rate))
            else:
                self._step_on_tensors(pairs, rate)
        for _, variable in pairs:
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable.read()))
        return self._iterations

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None) -> Variable:
        """`apply_gradients` with two lists; without variables, those given to `build`."""
        variables = self._variables if trainable_variables is None else list(trainable_variables)
        if len(grads) != len(variables):
            raise ValueError(f"{self.name}: {len(grads)} gradients for {len(variables)} variables")
        return self.apply_gradients(zip(grads, variables, strict=True))

    def minimize(
        self, loss: Tensor | Callable[[], Tensor], var_list: Iterable[Variable] | Callable[[], Iterable[Variable]],
        tape: GradientTape | None = None, name: str | None = None,
    ) -> Variable:  # fmt: skip
        """Compute the gradients of `loss` and make one step.

        Args:
            loss: a function without arguments, or a tensor computed in the block of `tape`.
            var_list: variables, or a function that gives them.
            tape: recorded the loss when it is a tensor.
        """
        return self.apply_gradients(self.compute_gradients(loss, var_list, tape))

    def compute_gradients(
        self, loss: Tensor | Callable[[], Tensor], var_list: Iterable[Variable] | Callable[[], Iterable[Variable]],
        tape: GradientTape | None = None,
    ) -> list[tuple[Any, Variable]]:  # fmt: skip
        """The pairs (gradient, variable) that `minimize` would apply."""
        if not callable(loss) and tape is None:
            raise ValueError(
                f"{self.name}: the loss is a tensor, so minimize needs the tape that recorded it: "
                "minimize(loss, variables, tape=tape); or give a function that computes the loss"
            )
        if isinstance(var_list, Variable):
            raise TypeError(
                f"{self.name}: var_list is one variable, not a list of them: minimize(loss, [{var_list.name[:-2]}])"
            )
        if callable(loss):
            tape = GradientTape() if tape is None else tape
            with tape:
                loss = loss()  # which may make variables
        variables = list(var_list() if callable(var_list) else var_list)
        return list(zip(tape.gradient(loss, variables), variables, strict=True))  # type: ignore[union-attr]

    # -- on bare arrays ------------------------------------------------------------------------------------------

    def _step_on_arrays(self, pairs: list[tuple[Any, Variable]], rate: float) -> None:
        step = int(self._iterations._tensor._data) + 1
        scaled = float(self.scaled(rate, step))
        gradients = [plain_gradient(g, v, self.rowwise and not self._decays(v)) for g, v in pairs]
        if self._clipping:
            gradients = self._clipping.clipped(gradients, ARRAYS)
        for g, (_, variable) in zip(gradients, pairs, strict=True):
            decay = rate * self.weight_decay if self._decays(variable) else 0.0  # type: ignore[operator]
            if isinstance(g, Rows):
                self._update_rows(variable, g, scaled)
            elif not variable._tensor._data.shape and variable._tensor._data.dtype.kind != "c":
                self._update_scalar(variable, g, scaled, decay)
            else:
                self._update_array(variable, g, scaled, decay)
        bind(self._iterations, np.int64(step))

    def _update_scalar(self, variable: Variable, g: RuleValue, rate: float, decay: float) -> None:
        slots = self._slots[id(variable)]
        w = variable._tensor._data
        value, new = self.update(ARRAYS, w - w * decay if decay else w, g, [s._tensor._data for s in slots], rate)
        bind(variable, w.dtype.type(value))
        for slot, content in zip(slots, new, strict=True):
            bind(slot, w.dtype.type(content))

    def _update_array(self, variable: Variable, g: RuleValue, rate: float, decay: float) -> None:
        own = (variable, *self._slots[id(variable)])
        targets = [writable(v) for v in own]
        # A large array goes through the rule in pieces: its temporaries then stay in the cache, which is most of the time of a
        # step.
        if g.size <= PIECE and targets[0].dtype.kind != "c":
            self._update_piece(targets, g, rate, decay)
        else:
            flat = [as_parts(t).reshape(-1) for t in targets]
            g = g.reshape(-1)
            for start in range(0, g.size, PIECE):
                piece = slice(start, start + PIECE)
                self._update_piece([f[piece] for f in flat], g[piece], rate, decay)
        for v, target in zip(own, targets, strict=True):
            bind(v, target if target.shape else target[()])

    def _update_piece(self, own: list[Any], g: RuleValue, rate: float, decay: float) -> None:
        """Write the new values into the arrays `own`: value and slots, or equal parts of them."""
        w, *slots = own
        if decay:
            w -= w * decay
        value, new = self.update(ARRAYS, w, g, slots, rate)
        for old, content in zip(own, (value, *new), strict=True):
            if content is not old:
                old[...] = content

    def _update_rows(self, variable: Variable, g: Rows, rate: float) -> None:
        own = (variable, *self._slots[id(variable)])
        targets = [writable(v) for v in own]
        w, *slots = (as_parts(t)[g.indices] for t in targets)
        value, new = self.update(ARRAYS, w, g.values, slots, rate)
        for v, target, content in zip(own, targets, (value, *new), strict=True):
            as_parts(target)[g.indices] = content
            bind(v, target)

    # -- on tensors, recorded ------------------------------------------------------------------------------------

    def _step_on_tensors(self, pairs: list[tuple[Any, Variable]], rate: Rate) -> None:
        counter = self._iterations.read()
        step = cast(counter, float64) + 1.0 if counter.wraps else int(counter) + 1
        # In float64, so that a rate held in float32 or computed by a schedule does not decide the precision of the step.
        if not isinstance(rate, float):
            rate = cast(convert(rate), float64)
        scaled = self.scaled(rate, step)
        gradients = [from_parts(g.to_dense() if isinstance(g, IndexedSlices) else g, v) for g, v in pairs]
        if self._clipping:
            gradients = self._clipping.clipped(gradients, TENSORS)
        for g, (_, variable) in zip(gradients, pairs, strict=True):
            w = from_parts(variable.read(), variable)
            slots = self._slots[id(variable)]
            if self._decays(variable):
                w = w - w * _as(rate * self.weight_decay, w)  # type: ignore[operator]
            value, new = self.update(TENSORS, w, g, [s.read() for s in slots], _as(scaled, w))
            Variable.assign(variable, _whole(value, variable))  # gradients of replicas are summed: no aggregation
            for slot, content in zip(slots, new, strict=True):
                Variable.assign(slot, content)
        Variable.assign(self._iterations, counter + np.int64(1))

    def __repr__(self) -> str:
        rate = self._exact if self._exact is not None else self._rate
        return f"<gt.optimizers.{type(self).__name__} learning_rate={rate!r}>"


def _wants_argument(function: Callable[..., Any]) -> bool:
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _as(number: Rate, like: Tensor) -> Any:
    """A tensor scalar in the dtype of the values it meets; Python floats are weak already."""
    return cast(number, like.dtype) if isinstance(number, Tensor) else number


def _whole(parts: Tensor, variable: Variable) -> Any:
    from gradtape.ops.elementwise import complex as complex_of

    if not variable.dtype.is_complex:
        return cast(parts, variable.dtype)
    return complex_of(parts[..., 0], parts[..., 1])
