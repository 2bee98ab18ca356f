"""Programs that several ranks run together: `mpiexec -n N python -m` this module prints what they compute, as JSON.

On any number of ranks it must be the same, to rounding: training with data split over replicas, and equations whose domain is
split, stepped in compiled loops.
"""

import json
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.core.hooks import HOOKS
from gradtape.distribute.rank_kinds import is_replicated
from gradtape.ir.walk import program
from gradtape.passes.pipeline import prepared
from gradtape.train.checkpoint import file_content
from tests.harness.seeds import Asked, in_sample

ranks = gt.distribute
N, ME = ranks.size(), ranks.rank()
BATCH = 30  # divided by 1, 2 and 3; by 4 it is uneven


def mlp(steps: int) -> Any:
    """Eager, Adam, a strategy's names; 30 rows on 4 ranks are 8, 8, 7 and 7."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(BATCH, 6)), rng.integers(0, 3, BATCH)
    strategy = gt.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        start = np.random.default_rng(ME)  # ranks disagree, rank 0 is right
        layers = [(gt.Variable(start.normal(size=s) * 0.4), gt.Variable(np.zeros(s[1]))) for s in ((6, 8), (8, 3))]
        optimizer = gt.optimizers.Adam(0.01)
    variables = [v for pair in layers for v in pair]

    def step(x: Any, labels: Any) -> Any:
        with gt.GradientTape() as tape:
            hidden = gt.tanh(x @ layers[0][0] + layers[0][1])
            logits = hidden @ layers[1][0] + layers[1][1]
            each = gt.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = gt.reduce_sum(each) / BATCH
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = []
    for x_own, labels_own in strategy.experimental_distribute_dataset([(x, labels)] * steps):
        loss = strategy.run(step, args=(x_own, labels_own))
        losses.append(float(strategy.reduce("SUM", loss).numpy()))
    return losses


def lstm(steps: int) -> Any:
    """Compiled: the whole step is one program on each rank."""
    rng = np.random.default_rng(1)
    sequences, wanted = rng.normal(size=(BATCH, 5, 2)), rng.normal(size=(BATCH, 1))
    strategy = gt.distribute.MirroredStrategy()
    with strategy.scope():
        kernel, recurrent = gt.Variable(rng.normal(size=(2, 16)) * 0.3), gt.Variable(rng.normal(size=(4, 16)) * 0.3)
        out = gt.Variable(rng.normal(size=(4, 1)))
        optimizer = gt.optimizers.SGD(0.1)
    variables = [kernel, recurrent, out]

    @gt.function
    def step(x: Any, y: Any) -> Any:
        with gt.GradientTape() as tape:
            h = c = x[:, 0, :1] * gt.zeros((1, 4), gt.float64)
            for t in gt.range(5):
                i, f, g, o = gt.split(x[:, t] @ kernel + h @ recurrent, 4, axis=1)
                c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
                h = gt.sigmoid(o) * gt.tanh(c)
            loss = gt.distribute.all_reduce(gt.reduce_sum((h @ out - y) ** 2)) / BATCH
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    x, y = next(iter(strategy.experimental_distribute_dataset([(sequences, wanted)])))
    x, y = gt.constant(x), gt.constant(y)
    return [float(strategy.run(step, args=(x, y)).numpy()) for _ in range(steps)]


def heat(steps: int) -> Any:
    """∂u/∂t = k Δu on a square whose rows are split: the derivative of a functional in the initial state and in k."""
    side = 12
    whole = np.random.default_rng(2).normal(size=(side, side))

    @gt.function
    def final(u: Any, k: Any) -> Any:
        for _ in gt.range(steps):
            v = ranks.halo_exchange(u)
            v = gt.pad(v, [[0, 0], [1, 1]])
            u = u + k * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * u)
        return ranks.all_reduce(gt.reduce_sum(u**4))

    u, k = gt.constant(np.split(whole, N)[ME]), ranks.replicated(np.float64(0.01))
    with gt.GradientTape() as tape:
        tape.watch([u, k])
        energy = final(u, k)
    du, dk = tape.gradient(energy, [u, k])
    return [float(energy.numpy()), float(dk.numpy()), *ranks.all_gather(du).numpy().ravel().tolist()]


def halves(function: Any) -> set[str]:
    """The operations of a function's programs that begin here and are waited for there."""
    programs = [traced.program.block for traced in function._state.cache.all()]
    names = {o.op.name for block in programs for o in program(prepared(block))}
    return {name.removesuffix("_awaited") for name in names if name.endswith("_awaited")}


def overlapped(steps: int) -> Any:
    """The inner rows of a block are stepped while its edges travel; on both backends, with the derivative."""
    whole = np.random.default_rng(6).normal(size=(48, 512))

    def final(u: Any, k: Any) -> Any:
        for _ in gt.range(steps):
            wide = ranks.halo_exchange(u)
            new = gt.zeros_like(u)
            new[1:-1] = u[1:-1] + k * (u[2:] + u[:-2] - 2.0 * u[1:-1])
            new[:1] = u[:1] + k * (wide[2:3] + wide[:1] - 2.0 * u[:1])
            new[-1:] = u[-1:] + k * (wide[-3:-2] + wide[-1:] - 2.0 * u[-1:])
            u = new
        return ranks.all_reduce(gt.reduce_sum(u**4))

    answers = []
    for jit_compile in (True, False):
        run = gt.function(final, jit_compile=jit_compile)
        u, k = gt.constant(np.split(whole, N)[ME]), ranks.replicated(np.float64(0.1))
        with gt.GradientTape() as tape:
            tape.watch([u, k])
            energy = run(u, k)
        du, dk = tape.gradient(energy, [u, k])
        answers += [float(energy.numpy()), float(dk.numpy()), ranks.all_gather(du).numpy()[::7, ::101].tolist()]
        assert halves(run) == (set() if N == 1 else {"swap_edges"}), halves(run)
    return answers


def sums_behind_the_backward_pass(steps: int) -> Any:
    """Derivatives of the last layers are added up over ranks while those of the first are computed; on both backends."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(24, 96)), rng.normal(size=(24, 96))
    strategy = gt.distribute.MirroredStrategy()
    own = [gt.constant(part) for part in next(iter(strategy.experimental_distribute_dataset([(x, y)])))]
    answers = []
    for jit_compile in (True, False):
        with strategy.scope():
            start, shapes = np.random.default_rng(8), ((96, 96), (96, 296), (296, 96))  # the last two fill a bucket
            layers = [gt.Variable(start.normal(size=shape) * 0.1) for shape in shapes]
            optimizer = gt.optimizers.SGD(0.01)

        @gt.function(jit_compile=jit_compile)
        def step(x: Any, y: Any, layers: Any = layers, optimizer: Any = optimizer) -> Any:
            with gt.GradientTape() as tape:
                hidden = gt.tanh(x @ layers[0]) @ layers[1]
                loss = gt.reduce_sum((gt.tanh(hidden) @ layers[2] - y) ** 2) / 24
            optimizer.apply_gradients(zip(tape.gradient(loss, layers), layers, strict=True))
            return loss

        answers += [float(strategy.reduce("SUM", strategy.run(step, args=own)).numpy()) for _ in range(3)]
        answers += [v.numpy()[::37, ::41].tolist() for v in layers]
        assert halves(step) == (set() if N == 1 else {"all_sum"}), halves(step)
    return answers


def eager_sums(steps: int) -> Any:
    """Sums over ranks begin during the backward pass: sources of every kind, and ranks that do different things."""
    rng, strategy = np.random.default_rng(9), ranks.MirroredStrategy()
    with strategy.scope():
        table, w, unused = gt.Variable(rng.normal(size=(40, 8))), gt.Variable(rng.normal(size=(8, 8))), gt.Variable(np.ones(3))
        single, half = gt.Variable(np.ones(8, np.float32)), gt.Variable(np.ones(8), dtype=gt.bfloat16)
        first_rows, scale = gt.Variable(np.ones(8)), gt.Variable(2.0, dtype=gt.float64)
        large = gt.Variable(rng.normal(size=(8, 9000)))  # more than a bucket
    variables = [large, table, w, unused, single, w, half, first_rows, scale]
    (own,) = strategy.experimental_distribute_dataset([np.arange(12)])
    answers: list[Any] = []
    for kind in ("plain", "branches", "communicates", "not finite", "assigned", "target"):
        with gt.GradientTape(through_assignments=True) as tape:
            x = gt.gather(table, own % 5) @ w * scale
            if kind == "assigned":
                scale.assign(scale * 1.5)
                x = x * scale
            if kind == "branches" and min(own) < 3:
                x = x + first_rows * gt.constant((own[:, None] < 3) * 1.0)
            if kind == "not finite":  # sqrt(0) has an infinite slope in a lane that nobody takes, on the first rank
                r = (gt.constant(own * 1.0)[:, None] * w[:1]) ** 2
                x = x + gt.where(r > 0.1, gt.sqrt(r), 0.0)
            loss = gt.reduce_sum(gt.tanh(x)) + gt.reduce_sum(gt.sin(x @ large)) * 1e-3
            loss += gt.cast(gt.reduce_sum(single) * len(own), gt.float64) + gt.cast(gt.reduce_sum(half * len(own)), gt.float64)
            if kind == "communicates":
                loss = ranks.all_reduce(loss) * gt.reduce_sum(w) + ranks.all_reduce(gt.reduce_sum(x)) ** 2
        before = getattr(HOOKS.world, "sums_posted", 0)
        slopes = tape.gradient([loss, scale] if kind == "target" else loss, variables)
        posted = getattr(HOOKS.world, "sums_posted", 0) - before
        assert posted == (0 if N == 1 or kind == "branches" else 3), (kind, posted)  # two dtypes, and one that is large
        answers += [[-1.0] if s is None else np.asarray(s, np.float64).ravel()[::13].tolist() for s in slopes]
    return answers


def gauss_seidel(steps: int) -> Any:
    """Red and black points in turn, until little changes: a `while` whose condition all ranks share."""
    side = 12
    right = np.random.default_rng(3).normal(size=(side, 6))
    rows = np.arange(side)[:, None] + np.arange(6)[None, :]
    red = (rows % 2 == 0).astype(np.float64)

    @gt.function
    def solve(f: Any, mask: Any, omega: Any) -> Any:
        u = gt.zeros_like(f)
        change = gt.constant(1.0, gt.float64)
        count = 0
        while change > 1e-12 and count < steps:
            before = u
            for colour in (mask, 1.0 - mask):
                v = gt.pad(ranks.halo_exchange(u), [[0, 0], [1, 1]])
                mean = (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] + f) / 4.5
                u = u + omega * colour * (mean - u)
            change = ranks.all_reduce(gt.reduce_max(gt.abs(u - before)), "max")
            count += 1
        return u, count

    f, mask, omega = gt.constant(np.split(right, N)[ME]), gt.constant(np.split(red, N)[ME]), ranks.replicated(np.float64(1.1))
    with gt.GradientTape() as tape:
        tape.watch([f, omega])
        u, count = solve(f, mask, omega)
        energy = ranks.all_reduce(gt.reduce_sum(u**3))
    df, domega = tape.gradient(energy, [f, omega])
    return [int(count), float(energy.numpy()), float(domega.numpy()), *ranks.all_gather(df).numpy().ravel().tolist()]


def aggregated(steps: int) -> Any:
    """What replicas assign to a variable becomes one value: a mean, a sum, what rank 0 has; eagerly and compiled."""
    strategy = gt.distribute.MirroredStrategy()
    kinds = gt.distribute.VariableAggregation
    with strategy.scope():
        mean, total, first = (
            gt.Variable(np.zeros(3), trainable=False, aggregation=kind)
            for kind in (kinds.MEAN, kinds.SUM, kinds.ONLY_FIRST_REPLICA)
        )

        def step(x: Any) -> Any:
            mean.assign(gt.reduce_mean(x, axis=0))
            total.assign_add(gt.reduce_sum(x, axis=0))
            first.assign(ranks.broadcast(x[0] + 1.0) * 2.0)
            return mean + total

        rows = np.random.default_rng(4).normal(size=(24, 3))
        (own,) = strategy.experimental_distribute_dataset([rows])
        for run in (step, gt.function(step)):
            for _ in range(min(steps, 2)):
                strategy.run(run, args=(gt.constant(own),))
        first.assign_sub(strategy.run(lambda: first * 0.5))
    return [v.numpy().tolist() for v in (mean, total, first)]


def read_together(steps: int) -> Any:
    """Each replica counts for itself; read outside of replicas, it is what all have counted. Eagerly and compiled."""
    strategy = gt.distribute.MirroredStrategy()
    kinds, on_read = gt.distribute.VariableAggregation, gt.distribute.VariableSynchronization.ON_READ
    with strategy.scope():
        total, mean, first = (
            gt.Variable(np.zeros(3), synchronization=on_read, aggregation=kind)
            for kind in (kinds.SUM, kinds.MEAN, kinds.ONLY_FIRST_REPLICA)
        )
        count = gt.Variable(0, synchronization="ON_READ", aggregation="SUM")
    assert not total.trainable

    def step(x: Any) -> Any:
        total.assign_add(gt.reduce_sum(x, axis=0))
        mean.assign_add(gt.reduce_mean(x, axis=0))
        first.assign(ranks.broadcast(x[0]) * (1.0 + ME))
        count.assign_add(len(x))
        return total * 1.0 - total.read_value()  # both are the replica's own

    compiled, reading = gt.function(step), gt.function(lambda: total * 2.0)
    (own,) = strategy.experimental_distribute_dataset([np.random.default_rng(4).normal(size=(24, 3))])
    zeros = [strategy.run(run, args=(gt.constant(own),)).numpy().tolist() for run in (step, compiled)]
    answers = [*zeros, reading().numpy().tolist(), *(v.numpy().tolist() for v in (total, mean, first, count))]
    alone = strategy.run(reading).numpy()  # traced anew: here it is the replica's own
    answers += [ranks.all_reduce(alone).numpy().tolist(), reading().numpy().tolist(), float(total[0]), int(count)]
    saved = file_content(gt.train.Checkpoint(total=total, count=count))[0]
    answers += [np.asarray(saved[name]).tolist() for name in sorted(saved)]
    for variable in (total, mean, count):  # what is assigned outside of replicas is what is read
        variable.assign(variable + 3)
        variable.assign_add(gt.ones_like(variable) * 2)
    step_outside = gt.function(lambda: total.assign_sub([1.0, 1.0, 1.0]))
    step_outside()
    total[1].assign(7.0)
    local = strategy.experimental_local_results(total)[0]
    sums = [ranks.all_reduce(local), strategy.reduce("SUM", total)]
    return [*answers, *(v.numpy().tolist() for v in (total, mean, count, *sums))]


def in_both_contexts(steps: int) -> Any:
    """One compiled function, called outside of replicas first, then in them: what it does there is another thing."""
    strategy = gt.distribute.MirroredStrategy()
    with strategy.scope():
        v = gt.Variable(np.zeros(3), aggregation=gt.distribute.VariableAggregation.SUM)

    @gt.function
    def assigned(x: Any) -> Any:
        v.assign(x)
        return v + (0.0 if ranks.get_replica_context() is None else 100.0)

    rows = np.arange(36.0).reshape(12, 3)
    with strategy.scope():
        outside = assigned(ranks.replicated(rows[0])).numpy().tolist()
    (own,) = strategy.experimental_distribute_dataset([rows])
    inside = strategy.run(assigned, args=(gt.constant(own.sum(axis=0)),)).numpy().tolist()
    return [outside, inside, v.numpy().tolist()]


def fed(steps: int) -> Any:
    """Data that differ between ranks however they come: shards and shares of datasets, in and outside of functions."""
    strategy, rows = ranks.MirroredStrategy(), gt.data.Dataset.from_tensor_slices(np.arange(12.0))
    with strategy.scope():
        w = gt.Variable(np.full(1, 2.0))

    def slope(x: Any) -> Any:
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(w**2 * x)
        return tape.gradient(loss, w)

    # in one order, that of rank 0, though ranks disagree
    shuffled = strategy.experimental_distribute_dataset(rows.shuffle(12, seed=ME).batch(5))

    @gt.function
    def epoch() -> Any:
        total = gt.zeros((1,), gt.float64)
        for x in shuffled:
            total += strategy.run(slope, args=(x,))
        return total

    answers = [slope(x).numpy().tolist() for x in rows.batch(12).map(lambda x: x[ME::N])]
    answers += [sum(slope(x) for x in rows.shard(N, ME).batch(1)).numpy().tolist()]
    answers += [sum(slope(x) for x in shuffled).numpy().tolist(), epoch().numpy().tolist()]
    for others in ([np.float64(ME), np.float64(N - ME)], gt.from_dlpack(np.array([ME, N - ME * 1.0]))):
        answers += [(slope(others) / N**2).numpy().tolist()]
    answers += [slope(gt.numpy_function(lambda: np.float64(ME == 0), [], gt.float64)).numpy().tolist()]
    return answers


def drawn(steps: int) -> Any:
    """Random numbers: replicas draw their own, also as data; outside all draw the same, before and after; variables that a
    function makes in a replica start alike."""
    strategy, layer = ranks.MirroredStrategy(), gt.Module()
    with strategy.scope():
        w = gt.Variable(np.ones(3))
    layer.v = None

    def noise() -> Any:
        return gt.random.normal((3,), dtype=gt.float64)

    @gt.function
    def lazily() -> Any:
        if layer.v is None:
            layer.v = gt.Variable(noise())
        return layer.v * 1.0

    def slope() -> Any:
        with gt.GradientTape() as tape:
            x = noise()
            loss = gt.reduce_sum(w * x)
        return tape.gradient(loss, w) - ranks.all_reduce(x)

    alike = [noise(), gt.function(noise)()]
    own = [strategy.run(noise), strategy.run(gt.function(noise))]
    alike += [noise(), strategy.run(lazily), layer.v.read_value()]
    same = [bool(np.ptp(ranks.all_gather(x[None]).numpy(), axis=0).max() == 0.0) for x in (*alike, *own)]
    assert same == [True] * 5 + [N == 1] * 2, same
    return [strategy.run(slope).numpy().tolist()]


def jacobians(steps: int) -> Any:
    """Of replicated and local values, of once and twice; a persistent tape, too."""
    w, x = ranks.replicated(np.array([1.0, 2.0])), gt.constant(np.split(np.arange(24.0).reshape(12, 2), N)[ME])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([w, x])
        y = ranks.all_reduce(gt.reduce_sum(gt.sin(w * x), axis=0))
        slope = tape.gradient(y, w)
    blocks = [tape.jacobian(y, w), tape.jacobian(slope, w), ranks.all_gather(tape.jacobian(y, x), axis=1)]
    with gt.GradientTape() as outer:
        outer.watch(w)
        with gt.GradientTape() as inner:
            inner.watch(w)
            energy = ranks.all_reduce(gt.reduce_sum(ranks.halo_exchange(x)[1:-1] * w**3))
        slope = inner.gradient(energy, w)
    return [block.numpy().tolist() for block in (*blocks, outer.jacobian(slope, w))]


def kinds(steps: int) -> Any:
    """What is known of values that no tape records: arrays that a function makes, results of one, sums of gradients."""
    strategy, rows = ranks.MirroredStrategy(), np.split(np.arange(24.0).reshape(12, 2), N)[ME]
    with strategy.scope():
        w, optimizer = gt.Variable(np.array([2.0, 3.0])), gt.optimizers.SGD(1e-3)

    def twice() -> Any:
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                loss = gt.reduce_sum(w**3 * np.asarray(rows.sum(axis=0)))
            slope = inner.gradient(loss, w)
            length = gt.reduce_sum(slope * slope)
        return outer.gradient(length, w)

    def slope_of(scale: Any) -> Any:
        with gt.GradientTape() as tape:
            loss = ranks.all_reduce(gt.reduce_sum(w * rows)) * scale
        return tape.gradient(loss, w)

    def accumulated() -> Any:
        total = gt.zeros_like(w)
        for row in (rows, rows * 2.0):
            with gt.GradientTape() as tape:
                loss = gt.reduce_sum(w**2 * row)
            total = total + tape.gradient(loss, w)
        clipped, _ = gt.clip_by_global_norm([total / 2.0], 1e3)
        optimizer.apply_gradients([(clipped[0], w)])
        optimizer.apply_gradients([(gt.zeros((2,), gt.float64), w)])
        return w * 1.0

    summed = gt.function(lambda x: ranks.all_reduce(gt.reduce_sum(x)))
    answers = [strategy.run(f).numpy().tolist() for f in (twice, gt.function(twice))]
    answers += [slope_of(summed(gt.constant(rows))).numpy().tolist() for _ in range(3)]  # the long way, then the short one
    return answers + [strategy.run(f).numpy().tolist() for f in (accumulated, gt.function(accumulated))]


OWN = np.array(1.0 + ME)
STEPS = {
    "local_by_an_array": lambda a, b, x: (a + ranks.all_reduce(x) * OWN, b),
    "array_under_the_sum": lambda a, b, x: (a + ranks.all_reduce(x * OWN), b),
    "summed": lambda a, b, x: (a + ranks.all_reduce(x * x), b),
    "summed_beside_local": lambda a, b, x: (a + ranks.all_reduce(x * x), b + x),
    "made_local": lambda a, b, x: (a + ranks.all_reduce(x) * x, b),
    "exchanged": lambda a, b, x: (b, a + ranks.all_reduce(x * x)),
    "local_by_the_other": lambda a, b, x: (a + b, b + x),
    "gathered": lambda a, b, x: (a + gt.reduce_sum(ranks.all_gather(gt.reshape(x * x, [1]))), b * 0.5),
    "replaced": lambda a, b, x: (ranks.broadcast(x) * 3.0, a),
}


def _for(step: Any, a: Any, b: Any, x: Any) -> Any:
    for _ in gt.range(3):
        a, b = step(a, b, x)
    return a


def _python_for(step: Any, a: Any, b: Any, x: Any) -> Any:
    for _ in range(12):
        a, b = step(a, b, x)
    return a


def _while(step: Any, a: Any, b: Any, x: Any) -> Any:
    i = gt.constant(0)
    while i < 3:
        a, b = step(a, b, x)
        i += 1
    return a


def _branch_in_a_loop(step: Any, a: Any, b: Any, x: Any) -> Any:
    for i in gt.range(3):
        if i > 0:
            a, b = step(a, b, x)
    return a


def _call(step: Any, a: Any, b: Any, x: Any) -> Any:
    inner = gt.function(step)
    a, b = inner(a, b, x)
    return inner(a, b, x)[0]


def _recomputed(step: Any, a: Any, b: Any, x: Any) -> Any:
    return gt.recompute_grad(step)(a, b, x)[0]


def _rule_of_a_tape_around(step: Any, a: Any, b: Any, x: Any) -> Any:
    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = step(a, b, x)[0]
        return y, lambda upstream: tape.gradient(y, x, output_gradients=upstream, unconnected_gradients="zero")

    return ruled(x)


def _rule_with_a_tape(step: Any, a: Any, b: Any, x: Any) -> Any:
    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        def rule(upstream: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = step(a, b, x)[0]
            return tape.gradient(y, x, output_gradients=upstream, unconnected_gradients="zero")

        return step(a, b, x)[0], rule

    return ruled(x)


def _rule_with_a_tape_on_a_product(step: Any, a: Any, b: Any, x: Any) -> Any:
    """The same derivative, asked for in another way, of what is replicated inside."""

    def product(x: Any) -> Any:
        shared = ranks.broadcast(x)
        return step(a, shared, x)[0] * shared

    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        def rule(upstream: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = product(x) * upstream
            return tape.gradient(y, x, unconnected_gradients="zero")

        return product(x), rule

    return ruled(x)


def _rule_with_a_collective(step: Any, a: Any, b: Any, x: Any) -> Any:
    @gt.custom_gradient
    def ruled(x: Any) -> Any:
        return ranks.all_reduce(x * x) / 2.0, lambda upstream: ranks.all_reduce(upstream) * x

    return step(a * ruled(x), b, ruled(x))[0]


def _rule_with_a_tape_recomputed(step: Any, a: Any, b: Any, x: Any) -> Any:
    return gt.recompute_grad(lambda a, b, x: _rule_with_a_tape(step, a, b, x))(a, b, x)


def _slope(step: Any, a: Any, b: Any, x: Any) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = step(a, b, x)[0]
        y = y * y
    return a + tape.gradient(y, x, unconnected_gradients="zero")


def _slope_in_a_branch(step: Any, a: Any, b: Any, x: Any) -> Any:
    if ranks.all_reduce(x) > 0.0:
        a = _slope(step, a, b, x)
    return a


def _slope_recomputed(step: Any, a: Any, b: Any, x: Any) -> Any:
    return gt.recompute_grad(lambda a, b, x: _slope(step, a, b, x))(a, b, x)


CONSTRUCTS = (_for, _python_for, _while, _branch_in_a_loop, _call, _recomputed)
RULES = (
    _rule_of_a_tape_around, _rule_with_a_tape, _rule_with_a_tape_on_a_product, _rule_with_a_collective,
    _rule_with_a_tape_recomputed, _slope_in_a_branch, _slope_recomputed,
)  # fmt: skip
SHIFT = 1e-5


def through_constructs(steps: int) -> Any:
    """What is replicated in eager code is so behind the loops, branches, calls and rules of a program: no stray factor of N."""
    x = gt.constant(0.3 + 0.1 * ME, gt.float64)

    def gradient(function: Any) -> float:
        with gt.GradientTape() as tape:
            tape.watch(x)
            target = function(x)
        return float(tape.gradient(target, x, unconnected_gradients="zero"))

    for construct in (*CONSTRUCTS, *RULES):
        for name, step in STEPS.items():
            # (on one rank every value is the same on all: that has nothing to tell but that it runs)
            if not in_sample(f"{construct.__name__} {name}", 3 if N > 1 else 9):
                continue
            one = gt.constant(1.0, gt.float64)
            program, inside, given = _programs(construct, step, one)
            label = f"{construct.__name__}, {name}, rank {ME} of {N}"
            expected = gradient(program)
            answers = [
                gradient(gt.function(program)),
                gradient(gt.function(program, jit_compile=False)),
                float(gt.function(inside)(x)),
                float(gt.function(given, jit_compile=False)(one, x)),
            ]
            np.testing.assert_allclose(answers, expected, rtol=1e-12, err_msg=label)
            if construct in RULES:
                np.testing.assert_allclose(expected, _difference(program, x), rtol=1e-7, atol=1e-7, err_msg=label)
    return []


def _programs(construct: Any, step: Any, one: Any) -> tuple[Any, Any, Any]:
    """A program that captures `one`; one that asks for its gradient itself; and one that is given `one`."""

    def program(x: Any) -> Any:
        return construct(step, one, one * 2.0, x)

    def inside(x: Any) -> Any:
        return given(one, x)

    def given(one: Any, x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            target = construct(step, one, one * 2.0, x)
        return tape.gradient(target, x, unconnected_gradients="zero")

    return program, inside, given


def _difference(program: Any, x: Any) -> float:
    """The derivative of the global function in the number of this rank, by differences."""
    with gt.GradientTape() as tape:
        tape.watch(x)
        shared = is_replicated(program(x))

    def value(who: int, shift: float) -> float:
        target = program(x + (shift if who == ME else 0.0))
        return float(target if shared else ranks.all_reduce(target))

    return [(value(who, SHIFT) - value(who, -SHIFT)) / (2 * SHIFT) for who in range(N)][ME]


def managed(steps: int) -> Any:
    """All ranks save, one writes: what is kept is whole, and the same for all."""
    folder = f"{tempfile.gettempdir()}/gradtape-{int(ranks.broadcast(np.int64(os.getpid())))}"
    v = gt.Variable(np.arange(3.0))
    checkpoint = gt.train.Checkpoint(v=v)
    manager = gt.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    for _ in range(4):
        v.assign_add(np.ones(3))
        manager.save()
    kept = [int(name.rpartition("-")[2]) for name in sorted(os.listdir(folder)) if "-" in name]
    v.assign(v * 0.0)
    checkpoint.restore(manager.latest_checkpoint)
    restored = ranks.all_reduce(v, "min").numpy().tolist()
    try:
        gt.distribute.save_checkpoint(checkpoint, f"{folder}/nowhere/state")
        raise AssertionError("nobody can write there")
    except (gt.errors.NotFoundError, gt.errors.FailedPreconditionError):
        ranks.barrier()
    if ME == 0:
        shutil.rmtree(folder)
    return [kept, restored]


def metrics(steps: int) -> Any:
    """Keras metrics count in replicas and add up over them; a thorough run only, since Keras takes seconds to load."""
    strategy = ranks.MirroredStrategy()
    with strategy.scope():
        mean, accuracy = gt.metrics.Mean(), gt.metrics.SparseCategoricalAccuracy()
    rng = np.random.default_rng(11)
    data = rng.normal(size=12), rng.integers(0, 3, 12), rng.normal(size=(12, 3))
    for x, labels, logits in strategy.experimental_distribute_dataset([data] * 2):
        strategy.run(mean.update_state, args=(x,))
        strategy.run(gt.function(accuracy.update_state), args=(gt.constant(labels), gt.constant(logits)))
    answers = [round(float(metric.result()), 6) for metric in (mean, accuracy)]
    mean.reset_state()
    strategy.run(mean.update_state, args=(gt.constant([2.0]),))
    return [*answers, float(mean.result())]


def newton(steps: int) -> Any:
    """A tape in a compiled loop, whose derivative a tape around it takes: both ways in which the step depends on `a`."""
    strategy = ranks.MirroredStrategy()
    with strategy.scope():
        a = gt.Variable(np.array(0.3))

    @gt.function
    def slope(own: Any) -> Any:
        with gt.GradientTape() as outer:
            b, x = own * a, gt.ones_like(own)
            for _ in gt.range(3):
                with gt.GradientTape() as tape:
                    tape.watch(x)
                    f = x**3 + b * x - 0.8
                x = x - f / tape.gradient(f, x)
        return outer.gradient(x, a)

    (own,) = strategy.experimental_distribute_dataset([np.linspace(1.0, 1.4, 12)])
    return [float(strategy.run(slope, args=(gt.constant(own),)))]


def ring(steps: int) -> Any:
    """A compiled program that only sends messages: round the ring and home again."""

    @gt.function
    def around(x: Any) -> Any:
        for _ in gt.range(2):
            x = ranks.sendrecv(gt.sin(x), dest=(ME + 1) % N, source=(ME - 1) % N)
            x = ranks.sendrecv(x, dest=(ME - 1) % N, source=(ME + 1) % N)
        return x

    x = gt.constant(np.split(np.arange(12.0), N)[ME])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = around(x)
    return [*ranks.all_gather(y).numpy().tolist(), *ranks.all_gather(tape.gradient(y, x)).numpy().tolist()]


def fewer_rows_than_ranks(steps: int) -> Any:
    """A last batch of two rows on four ranks: two replicas have none."""
    strategy = gt.distribute.MirroredStrategy()
    with strategy.scope():
        w = gt.Variable(np.ones((3, 1)))
        optimizer = gt.optimizers.SGD(0.01)

    def step(x: Any) -> Any:
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum((x @ w - 1.0) ** 2) / 6
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    rows = np.arange(6.0).reshape(2, 3)
    for own in strategy.experimental_distribute_dataset([np.tile(rows, (3, 1)), *[rows] * steps]):
        loss = strategy.reduce("SUM", strategy.run(step, args=(gt.constant(own),)))
    return [float(loss.numpy()), *w.numpy().ravel().tolist()]


PROGRAMS = {
    "aggregated": aggregated,
    "overlapped": overlapped,
    "sums_behind_the_backward_pass": sums_behind_the_backward_pass,
    "eager_sums": eager_sums,
    "read_together": read_together,
    "in_both_contexts": in_both_contexts,
    "fewer_rows_than_ranks": fewer_rows_than_ranks,
    "fed": fed,
    "drawn": drawn,
    "jacobians": jacobians,
    "kinds": kinds,
    "through_constructs": through_constructs,
    "managed": managed,
    "ring": ring,
    "newton": newton,
    "mlp": mlp,
    "lstm": lstm,
    "heat": heat,
    "gauss_seidel": gauss_seidel,
}

if __name__ == "__main__":
    lengths = {"mlp": 200, "lstm": 200, "heat": 1000, "gauss_seidel": 1000} if "--long" in sys.argv else {}
    lengths = {"fewer_rows_than_ranks": 5, "overlapped": 20, "mlp": 12, "lstm": 8, "heat": 40, "gauss_seidel": 15, **lengths}
    programs = {**PROGRAMS, "metrics": metrics} if "--long" in sys.argv and find_spec("keras") else PROGRAMS
    Asked.programs = 10**6 if "--long" in sys.argv else 0
    named = [name for name in programs if name in sys.argv] or programs
    answers = {name: programs[name](lengths.get(name, 2)) for name in named}
    if ME == 0:
        print(json.dumps(answers), flush=True)
