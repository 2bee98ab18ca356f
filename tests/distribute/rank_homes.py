"""A derivative means the same wherever its source lives: `mpiexec -n N python -m` this module prints, as JSON, what differs.

Sources are arguments, captured tensors, tensors made in a function, variables; replicated, local, or made of numbers (which
count as local once they are watched). Tapes stand in loops, branches, calls and rules. The target is Σ own · x², the sum over
ranks, once as a replicated value and once as a local one, which stands for that sum: so its derivative is 2 x Σ own in a
replicated x, and 2 x own in a local one. Eager code and both backends must give that.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import Asked, in_sample

ranks = gt.distribute
N, ME = ranks.size(), ranks.rank()
OWN = np.array([1.0 + ME, 0.5 - ME])
TOTAL = sum(np.array([1.0 + r, 0.5 - r]) for r in range(N))
START = np.array([0.3, -0.7])
STEP = 0.01

TARGETS: dict[str, Callable[[Any], Any]] = {
    "replicated target": lambda x: ranks.all_reduce(gt.reduce_sum(x * x * OWN)),
    "local target": lambda x: gt.reduce_sum(x * x * OWN),
}


def slope(target: Any, x: Any) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = target(x)
    return tape.gradient(y, x)


def _plain(target: Any, x: Any) -> Any:
    return slope(target, x)


def _of_an_intermediate(target: Any, x: Any) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
        z = target(y)
    return tape.gradient(z, y)


def _with_output_gradients(target: Any, x: Any) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = target(x) * 0.5
    return tape.gradient(y, x, output_gradients=gt.constant(2.0, gt.float64))


def _in_a_branch(target: Any, x: Any) -> Any:
    y = x * 0.0
    if ranks.all_reduce(gt.reduce_sum(x * x)) > 0.0:
        y = slope(target, x)
    return y


def _in_a_loop(target: Any, x: Any) -> Any:
    y = gt.zeros((2,), gt.float64)
    for _ in gt.range(2):
        y = y + slope(target, x) / 2.0
    return y


def _in_a_while(target: Any, x: Any) -> Any:
    y, i = gt.zeros((2,), gt.float64), gt.constant(0)
    while i < 2:
        y, i = y + slope(target, x) / 2.0, i + 1
    return y


def _in_a_function(target: Any, x: Any) -> Any:
    return gt.function(lambda x: slope(target, x))(x)


def _captured_by_a_function(target: Any, x: Any) -> Any:
    return gt.function(lambda: slope(target, x))()


def _recomputed(target: Any, x: Any) -> Any:
    return gt.recompute_grad(lambda x: slope(target, x))(x)


def _of_a_recomputed(target: Any, x: Any) -> Any:
    return slope(gt.recompute_grad(target), x)


def _of_a_function(target: Any, x: Any) -> Any:
    return slope(gt.function(target), x)


def _of_a_loop(target: Any, x: Any) -> Any:
    def repeated(x: Any) -> Any:
        y = gt.constant(0.0, gt.float64)
        for _ in gt.range(2):
            y = y + target(x) / 2.0
        return y

    return slope(repeated, x)


def _rule_with_a_tape(target: Any, x: Any) -> Any:
    """What the tape inside gives for a replicated argument is the whole derivative: it counts once."""

    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        def rule(upstream: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = target(x)
            return tape.gradient(y, x, output_gradients=upstream)

        return target(x), rule

    return slope(ruled, x)


def _rule_of_a_tape_around(target: Any, x: Any) -> Any:
    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = target(x)
        return y, lambda upstream: tape.gradient(y, x, output_gradients=upstream)

    return slope(ruled, x)


def _rule_with_a_scaled_tape(target: Any, x: Any) -> Any:
    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        def rule(upstream: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = target(x) * upstream
            return tape.gradient(y, x) * 1.0

        return target(x), rule

    return slope(ruled, x)


def _rule_by_hand(target: Any, x: Any) -> Any:
    """Shares: the upstream cotangent of a replicated value is summed over ranks, that of a local one is its own."""

    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        whole = ranks.all_reduce if target is TARGETS["replicated target"] else lambda upstream: upstream
        return target(x), lambda upstream: whole(upstream) * 2.0 * x * OWN

    return slope(ruled, x)


def _rule_recomputed(target: Any, x: Any) -> Any:
    return slope(lambda x: gt.recompute_grad(lambda x: _ruled(target)(x))(x), x)


def _ruled(target: Any) -> Any:
    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        return target(x), lambda upstream: slope(lambda x: target(x) * upstream, x)

    return ruled


def _second(target: Any, x: Any) -> Any:
    """(the derivative of Σ ∂/∂x, which is what x was multiplied with)"""
    return slope(lambda x: gt.reduce_sum(slope(target, x)), x) * x


def _descent(target: Any, x: Any) -> Any:
    for _ in gt.range(3):
        x = x - STEP * slope(target, x)
    return x


def _python_descent(target: Any, x: Any) -> Any:
    for _ in range(12):
        x = x - STEP * slope(target, x)
    return x


def _while_descent(target: Any, x: Any) -> Any:
    i = gt.constant(0)
    while i < 3:
        x, i = x - STEP * slope(target, x), i + 1
    return x


CONSTRUCTS = (
    _plain, _of_an_intermediate, _with_output_gradients, _in_a_branch, _in_a_loop, _in_a_while, _in_a_function,
    _captured_by_a_function, _recomputed, _of_a_recomputed, _of_a_function, _of_a_loop, _rule_with_a_tape,
    _rule_of_a_tape_around, _rule_with_a_scaled_tape, _rule_by_hand, _rule_recomputed, _second,
)  # fmt: skip
DESCENTS = {_descent: 3, _python_descent: 12, _while_descent: 3}


def values(kind: str) -> Any:
    """The source, as it is made outside of a function or inside."""
    if kind == "replicated":
        return ranks.replicated(START)
    return gt.constant(START + 0.1 * ME) if kind == "local" else gt.constant([0.3, -0.7], gt.float64)


def programs(construct: Any, target: Any, kind: str) -> Iterator[tuple[str, Any]]:
    """(home, a call that gives the derivative, given what makes a function of a function)."""
    outside = values(kind)
    yield "argument", lambda wrap: wrap(lambda x: construct(target, x))(outside)
    yield "item of an argument", lambda wrap: wrap(lambda x: construct(target, x["x"]))({"x": outside, "y": gt.constant(1.0)})
    yield "captured", lambda wrap: wrap(lambda: construct(target, outside))()
    yield "made inside", lambda wrap: wrap(lambda: construct(target, values(kind)))()
    yield "computed of an argument", lambda wrap: wrap(lambda x: construct(target, x * 2.0 - x))(outside)
    yield "computed of a captured one", lambda wrap: wrap(lambda: construct(target, outside * 2.0 - outside))()
    if kind != "number":
        variable = _variable(kind)
        yield "variable", lambda wrap: wrap(lambda: construct(target, variable))()
        yield "variable as an argument", lambda wrap: wrap(lambda x: construct(target, x))(variable)
    if construct is _plain:
        yield "argument after others", lambda wrap: _in_turn(wrap(lambda x: construct(target, x)), lambda f, x: f(x), outside)
        kept: dict[str, Any] = {}
        yield "item that changed", lambda wrap: _in_turn(wrap(lambda: construct(target, kept["x"])), _put(kept), outside)


def _in_turn(function: Any, call: Any, x: Any) -> Any:
    """What the last of several calls gives: each of these is of another kind, and comes twice."""
    for other in (ranks.replicated(START), gt.constant(START), gt.constant([1.0, 2.0], gt.float64), x):
        answer = [call(function, other) for _ in range(3)][-1]
    return answer


def _put(kept: dict[str, Any]) -> Any:
    def call(function: Any, x: Any) -> Any:
        kept["x"] = x
        return function()

    return call


def changing() -> None:
    """State that is replicated in the first turn of a loop and local then: turns that can be told apart are, others refused."""

    def known(x: Any) -> Any:
        for _ in gt.range(3):
            x = slope(TARGETS["local target"], x) * OWN
        return x

    def unknown(x: Any, n: Any) -> Any:
        for _ in gt.range(n):
            x = slope(TARGETS["local target"], x) * OWN
        return x

    x = ranks.replicated(START)
    np.testing.assert_allclose(gt.function(known)(x), known(x), rtol=1e-12)
    local = gt.constant(START)
    np.testing.assert_allclose(gt.function(unknown)(local, gt.constant(3)), unknown(local, gt.constant(3)), rtol=1e-12)
    if N > 1:
        refused = "`x`, of which a derivative in this loop is taken, is replicated in the first turn and local in later ones"
        with pytest.raises(gt.errors.InvalidArgumentError, match=refused):
            gt.function(unknown)(x, gt.constant(3))


def _variable(kind: str) -> Any:
    if kind == "local":
        return gt.Variable(START + 0.1 * ME)
    with ranks.MirroredStrategy().scope():
        return gt.Variable(START)


def expected(construct: Any, kind: str) -> Any:
    x, weight = START + (0.1 * ME if kind == "local" else 0.0), TOTAL if kind == "replicated" else OWN
    if construct not in DESCENTS:
        return 2.0 * x * weight
    for _ in range(DESCENTS[construct]):
        x = x - STEP * 2.0 * x * weight
    return x


def main() -> None:
    """Every construct × target × kind × home × way of running it."""
    ways: dict[str, Any] = {
        "eager": lambda f: f,
        "numpy": lambda f: gt.function(f, jit_compile=False),
        "native": gt.function,
    }
    changing()
    wrong, count = {}, 0
    for construct in (*CONSTRUCTS, *DESCENTS):
        for name, target in TARGETS.items():
            for kind in ("replicated", "local", "number"):
                for home, call in programs(construct, target, kind):
                    if construct in DESCENTS and "variable" in home:
                        continue  # a name that is a variable at first and a tensor then
                    for way, wrap in ways.items():
                        label = f"{construct.__name__}, {name}, {kind} source, {home}, {way}"
                        chosen = in_sample(label, 18) if way == "native" else in_sample(label.rpartition(",")[0], 6)
                        if not chosen and label not in sys.argv:
                            continue
                        count += 1
                        answer = call(wrap)
                        if not np.allclose(answer, expected(construct, kind), rtol=1e-12, atol=1e-13):
                            wrong[label] = f"rank {ME}: {np.asarray(answer)} for {expected(construct, kind)}"
                        if np.asarray(ranks.all_reduce(np.array(label in wrong), "max")) and label not in wrong:
                            wrong[label] = "wrong on another rank"
    if ME == 0:
        print(json.dumps({"count": count, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    Asked.programs = 10**6 if "--all" in sys.argv else 0
    main()
