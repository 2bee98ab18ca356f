"""Reverse mode of loops: a loop that also gives what its backward pass needs, and a scan that reads it from the last index on.

The residuals are lists with one item per iteration. Under a memory limit (`ad/budget.py`) a loop whose lists would be too
long gets another backward pass, which has the residuals of a few iterations at a time: see `ad/checkpointing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.ad.activity import loop_useful, loop_varied, varied
from gradtape.ad.budget import BUDGET, known_bytes, limited
from gradtape.ad.checkpointing import checkpointed_vjp
from gradtape.ad.replaying import replay
from gradtape.ad.reverse import Split, split
from gradtape.ad.sites import Site, region, zeros_for, zeros_of_type
from gradtape.ad.undo import Undoing, undoing
from gradtape.ir.dims import Dim, fresh_symbol
from gradtape.ir.graph import Operation
from gradtape.ir.sizes import sizes_of
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import staged
from gradtape.ops.list_values import joined_spec
from gradtape.ops.structured import SCAN, WHILE, loop_result, result_types
from gradtape.trace.sizing import witness
from gradtape.trace.tracing import TracedTensor, current_trace, traced, type_of

Tensors = Sequence[Any]


class Loop:
    """What of a loop takes part in a derivative: positions among the parameters (0 is the index) and results of its body."""

    def __init__(self, operation: Operation, wanted: set[int], seeded: set[int]) -> None:
        self.operation = operation
        self.body = body = operation.regions["body"]
        self.skipped = skipped = operation.layout.get("length", 0)
        self.carried, self.consts = carried, consts = operation.layout["carried"], operation.layout["consts"]
        live_params = loop_varied(operation, wanted)[0]
        live_results, live_operands = loop_useful(operation, seeded)
        # carried values with cotangents of their own: they move with what is wanted, and what is asked for depends on them
        self.active = [j for j in range(carried) if j + 1 in live_params and j in live_results]
        # operands that nothing asked for depends on get no cotangent, rather than zeros
        self.connected = {i for i in wanted if i in live_operands}
        self.first_const, self.first_x = 1 + carried, 1 + carried + consts
        self.want_consts = [p for p in range(self.first_const, self.first_x) if p - 1 + skipped in self.connected]
        self.want_xs = [p for p in range(self.first_x, len(body.params)) if p - 1 + skipped in self.connected]
        moving = varied(body, [body.params[i] for i in live_params])
        self.ys = [
            k for k in range(carried, len(body.results)) if loop_result(operation, k) in seeded and body.results[k] in moving
        ]

    @property
    def wanted(self) -> set[int]:
        """The parameters of the body that need cotangents."""
        return {*(j + 1 for j in self.active), *self.want_consts, *self.want_xs}

    @property
    def seeded(self) -> list[int]:
        """The results of the body that have cotangents."""
        return [*self.active, *self.ys]

    @property
    def free(self) -> set[int]:
        """The parameters of the body that the backward pass has anyway: the index and the constants."""
        return {0, *range(self.first_const, self.first_x)}

    @property
    def near(self) -> set[int]:
        """The parameters of the body that it can have again: the items of lists."""
        return set(range(self.first_x, len(self.body.params)))

    def length(self, inputs: Tensors) -> tuple[list[Any], Any]:
        """The number of iterations: the operand, if it is one, and the attribute."""
        if self.operation.op is WHILE:
            # a while loop counts its iterations: behind the carried values that is its result
            return [traced(self.operation.results[self.carried])], None
        return list(inputs[: self.skipped]), self.operation.attrs["length"]

    @property
    def backwards(self) -> bool:
        """Whether it runs from the last index to the first."""
        return bool(self.operation.attrs.get("reverse", False))

    def starts(self, inputs: Tensors, seeds: dict[int, Any]) -> list[Any]:
        """What the backward pass starts with: cotangents of active carried values, then zeros for those of constants."""
        ends = [seeds[j] if j in seeds else zeros_for(traced(self.operation.results[j])) for j in self.active]
        return [*ends, *(zeros_for(inputs[p - 1 + self.skipped]) for p in self.want_consts)]

    def answers(self, cts: Tensors, items: Tensors) -> dict[int, Any]:
        """The cotangents of operands from the results of the backward pass."""
        n, skipped = len(self.active), self.skipped
        # strict=False: behind them stand the sums for constants
        cotangents = {j + skipped: ct for j, ct in zip(self.active, cts, strict=False) if j + skipped in self.connected}
        cotangents.update({p - 1 + skipped: ct for p, ct in zip(self.want_consts, cts[n:], strict=True)})
        cotangents.update({p - 1 + skipped: ct for p, ct in zip(self.want_xs, items, strict=True)})
        return cotangents

    def resizes(self, j: int) -> bool:
        """Whether a carried value may have another size after an iteration."""
        param, result = self.body.params[j + 1].type, self.body.results[j].type
        return isinstance(param, TensorSpec) and any(
            isinstance(m, Dim) and m != n for m, n in zip(param.shape, result.shape, strict=True)
        )

    def ct_type(self, j: int, start: Any) -> Any:
        """The type of the cotangent of a carried value in the backward pass, where its last one is `start`."""
        param, last = self.body.params[j + 1].type, type_of(start)
        if isinstance(param, ListSpec):  # an iteration may replace items by others of another size
            return joined_spec(param, last)
        if not self.resizes(j):
            return last
        pairs = zip(param.shape, last.shape, strict=True)
        # it changes from iteration to iteration, so no name of the program around says it
        return TensorSpec([fresh_symbol("n") if isinstance(m, Dim) else d for m, d in pairs], last.dtype)

    def untold(self, half: Split) -> list[str]:
        """Sizes of carried values whose cotangents are zeros that the backward pass makes."""
        # zeros in the size the value had before the iteration: nothing else that is saved tells it
        alone = [j for j in self.active if self.resizes(j) and j + 1 not in half.answers]
        return list(dict.fromkeys(name for j in alone for name in sizes_of(self.body.params[j + 1])))

    def step(
        self, half: Split, saved: Tensors, own: dict[int, Any], cts: Tensors, seeds: Tensors
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """One iteration backwards: (cotangents, sums) from those after it, cotangents of the items of xs, arrays put back."""
        n = len(self.active)
        ends, sums = cts[:n], cts[n:]
        grads = replay(half.backward, [*saved, *(own[p] for p in half.params), *ends, *seeds])
        known = dict(zip(half.answers, grads, strict=False))
        carried = [known[j + 1] if j + 1 in known else self._zeros(j, end) for j, end in zip(self.active, ends, strict=True)]
        # a constant is used in every iteration: its cotangents add up
        totals = [s + known[p] if p in known else s for p, s in zip(self.want_consts, sums, strict=True)]
        return [*carried, *totals], [known[p] for p in self.want_xs], grads[len(half.answers) :]

    def _zeros(self, j: int, end: Any) -> Any:
        return zeros_of_type(self.body.params[j + 1].type) if self.resizes(j) else zeros_for(end)


def loop_vjp(site: Site, inputs: Tensors, wanted: set[int], seeds: dict[int, Any]) -> dict[int, Any]:
    """Cotangents of the operands of a while or scan."""
    loop = Loop(site.operation, wanted, set(seeds))
    half = _within_budget(loop)
    if half is None:
        steady = not any(loop.resizes(j) for j in range(loop.carried))  # else states of one size are no measure
        answers = checkpointed_vjp(site, loop, inputs, seeds) if steady else None
        if answers is not None:
            return answers
        half = split(loop.body, loop.wanted, loop.seeded, loop.free, loop.near)
    # of what only stands for leaf versions of a variable there may be none
    loop.want_consts = [p for p in loop.want_consts if p in half.answers]
    half, going = undoing(half, loop.carried)
    undone = going.carried() if going else []
    # changes the loop of the forward pass in place: what it saves are further results of it, one list each
    lists = _save_items(site, half, loop.untold(half))
    length, static = loop.length(inputs)
    used = [p for p in half.params if 0 < p < loop.first_x]  # constants the backward body reads
    items = [p for p in half.params if p >= loop.first_x]  # and lists
    groups = {
        "length": length,
        "carried": [*loop.starts(inputs, seeds), *(traced(loop.operation.results[j]) for j in undone)],
        "consts": [inputs[p - 1 + loop.skipped] for p in used],
        "xs": [
            *lists, *(inputs[p - 1 + loop.skipped] for p in items), *(seeds[loop_result(loop.operation, k)] for k in loop.ys)
        ],
    }  # fmt: skip
    item_types = [type_of(t).item for t in groups["xs"]]
    cts = [loop.ct_type(j, start) for j, start in zip(loop.active, groups["carried"], strict=False)]
    others = [type_of(t) for t in (*groups["carried"][len(cts) :], *groups["consts"])]
    types = [loop.body.params[0].type, *cts, *others, *item_types]
    layout = {"index": 1, "carried": len(groups["carried"]), "consts": len(used), "xs": len(item_types)}
    block = region(types, _backward_body(loop, half, used, items, layout, going, len(lists)), layout)
    attrs = {"length": static, "reverse": not loop.backwards}
    # the types of the results are those of the body, except where the size at the start is known by name
    given, result_layout = result_types(SCAN, {"body": block}, attrs)
    for k, j in enumerate(loop.active):
        if loop.resizes(j):  # at the start of the loop it had the size of what the loop was given
            given[k] = type_of(inputs[j + loop.skipped])
    results = current_trace().structured(SCAN, groups, {"body": block}, attrs, (given, result_layout))
    # behind them stand the arrays that were taken back to their first version
    count = len(results["carried"]) - len(undone)
    sums, backs = results["carried"][:count], results["carried"][count:]
    # whoever goes back through this loop as a part of an iteration of its own can have them
    current_trace().restored |= {
        loop.operation.results[j]: back._data for j, back in zip(undone, backs, strict=True) if back.__class__ is TracedTensor
    }
    return loop.answers(sums, results["ys"])


def _within_budget(loop: Loop) -> Split | None:
    """The body in two halves, residuals for all iterations; None if they take too much memory, or who knows how much."""
    budget = BUDGET.get()
    if budget is None:
        return split(loop.body, loop.wanted, loop.seeded, loop.free, loop.near)
    length = None if loop.operation.op is WHILE else loop.operation.attrs["length"]
    if not isinstance(length, int):
        return None
    # loops inside this one must not take from the budget for one iteration what is needed for all of them
    with limited(None):
        half = split(loop.body, loop.wanted, loop.seeded, loop.free, loop.near)
    size = known_bytes(half.forward.result_group("saved"))
    if size is None or not budget.take(length * size):
        return None
    return half


def _save_items(site: Site, half: Split, sizes: list[str]) -> list[TracedTensor]:
    """Augment a loop: its body also yields the residuals, and witnesses of these sizes, one list each."""
    operation = site.operation
    old = operation.regions["body"]
    new = half.forward
    outputs, saved = new.result_group("outputs"), new.result_group("saved")
    told = [Operation(staged.FILLED, (), [spec], attrs) for attrs, spec in map(witness, sizes)]
    for constant in told:
        new.append(constant)
    saved = [*saved, *(constant.result for constant in told)]
    new.layout = dict(old.layout)
    carried, count = old.result_layout["carried"], old.result_layout["ys"]
    new.give(carried=outputs[:carried], ys=[*outputs[carried : carried + count], *saved])
    operation.regions["body"] = new
    return site.extend([ListSpec(v.type) for v in saved])


def _backward_body(
    loop: Loop, half: Split, used: list[int], items: list[int], layout: dict[str, int], going: Undoing | None, kept: int
) -> Callable[..., Any]:
    """(index, cotangents of carried values, sums for constants, arrays to go back through, constants, `kept` residuals and
    witnesses, items, cotangents of ys) → one step."""
    count, m = layout["carried"], layout["consts"]
    n = count - (len(going.undos) if going else 0)
    first, last = count + m + kept, count + m + kept + len(items)

    def build(index: Any, *params: Any) -> dict[str, Any]:
        own = {0: index, **dict(zip([*used, *items], [*params[count : count + m], *params[first:last]], strict=True))}
        saved: list[Any] = list(params[count + m : count + m + len(half.saved)])
        before: list[Any] = []
        if going is not None:
            saved, before = going.versions(saved, index, params[n:count])
        carried, ys, backs = loop.step(half, saved, own, params[:n], params[last:])
        return {"carried": [*carried, *(backs.pop(0) if array is None else array for array in before)], "ys": ys}

    return build
