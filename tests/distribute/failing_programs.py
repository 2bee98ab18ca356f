"""Programs in which ranks do not get on; `python -m` this module NAME on several ranks runs one of them."""

import os
import sys
import time

import numpy as np

import gradtape as gt

ranks = gt.distribute
ME = ranks.rank()


def raises() -> None:
    ranks.all_reduce(1.0)
    if ME == 1:
        raise ValueError("rank one gives up")
    ranks.all_reduce(2.0)


def ends_early() -> None:
    ranks.all_reduce(1.0)
    if ME != 1:
        ranks.all_reduce(2.0)


def exits() -> None:
    if ME == 1:
        sys.exit(3)
    ranks.barrier()


def other_operation() -> None:
    x = gt.constant(np.ones(3))
    ranks.all_reduce(x) if ME == 0 else ranks.broadcast(x)


def other_shape() -> None:
    ranks.all_reduce(np.ones(3 + ME))


def other_dtype() -> None:
    ranks.all_reduce(np.ones(3, np.float32 if ME else np.float64))


def other_dtype_of_a_message() -> None:
    if ME == 0:
        ranks.send(np.ones(3), dest=1)
    else:
        ranks.recv((3,), source=0, dtype="float32")


def message_and_sum() -> None:
    x = gt.constant(np.ones(3))
    ranks.all_reduce(x) if ME == 0 else ranks.recv((3,), source=0)


def message_nobody_takes() -> None:
    if ME == 0:
        ranks.send(np.ones(3), dest=1)
    ranks.barrier()


@gt.function
def _summed(x, n):  # type: ignore[no-untyped-def]
    for _ in gt.range(n):
        x = ranks.all_reduce(x * 0.5)
    return x


def other_program() -> None:
    @gt.function
    def f(x):  # type: ignore[no-untyped-def]
        y = ranks.all_reduce(x * 2.0)
        return y if ranks.rank() == 0 else ranks.all_gather(y)

    f(gt.constant(np.ones(3)))


def other_shape_in_a_program() -> None:
    _summed(gt.constant(np.ones(3 + ME)), 4)


def compiled_ends_early() -> None:
    x = gt.constant(np.ones(3))
    _summed(x, 4)
    if ME == 0:
        _summed(x, 4)


def other_length() -> None:
    _summed(gt.constant(np.ones(3)), gt.constant(5 + ME))
    ranks.barrier()


def other_turns() -> None:
    """As many operations on both ranks in the end, but not the same ones."""

    @gt.function
    def f(x, n, m):  # type: ignore[no-untyped-def]
        for _ in gt.range(n):
            x = ranks.all_reduce(x * 0.5)
        for _ in gt.range(m):
            x = ranks.all_reduce(x * 0.5, "max")
        return x

    print("numbers", f(gt.constant(np.ones(3)), gt.constant(5 + ME), gt.constant(5 - ME)).numpy())


def failure_is_caught(goes_on: bool = False) -> None:
    @gt.function
    def f(x, limit):  # type: ignore[no-untyped-def]
        for _ in gt.range(1000):
            x = ranks.all_reduce(x)
            gt.debugging.assert_less(x, limit, message="too large")
        return x

    try:
        f(gt.constant(np.array(1.0)), gt.constant(1e300 if ME == 0 else 100.0))
    except ValueError:
        print("caught")
        if goes_on:
            ranks.all_reduce(1.0)


def caught_failure_goes_on() -> None:
    failure_is_caught(goes_on=True)


def slow() -> None:
    """Rank 1 takes its time in each turn, and comes to the error that all have seconds after rank 0."""

    def late(x):  # type: ignore[no-untyped-def]
        time.sleep(2.5 * ME)
        return x

    @gt.function
    def f(x, n, limit):  # type: ignore[no-untyped-def]
        for _ in gt.range(n):
            x = ranks.all_reduce(gt.numpy_function(late, [x], gt.float64))
        x = gt.numpy_function(late, [x], gt.float64)
        gt.debugging.assert_less(x, limit, message="too large")
        return x

    x, n = gt.constant(np.array(1.75)), gt.constant(2)
    try:
        f(x, n, gt.constant(1.0, gt.float64))
    except ValueError:
        print("caught")
    print(float(f(x, n + 1, gt.constant(1e300, gt.float64))))


def all_catch() -> None:
    """An error that all ranks have alike does not part them."""
    step = gt.function(lambda x: gt.debugging.check_numerics(gt.math.log(ranks.all_reduce(x)), "halve the step"))
    for x in (-1.0, 1.0):
        try:
            print("log", step(gt.constant(np.array(x))).numpy())
        except ValueError:
            print("caught")
    ranks.barrier()


def backward_pass_raises() -> None:
    """In the middle of a backward pass whose first sums have begun; who catches that cannot go on alone."""
    with ranks.MirroredStrategy().scope():
        first, last = gt.Variable(np.ones((8, 8))), gt.Variable(np.ones((8, 9000)))

    @gt.custom_gradient
    def fragile(x):  # type: ignore[no-untyped-def]
        def slope(ct):  # type: ignore[no-untyped-def]
            if ME == 1:
                raise ValueError("no slope")
            return ct

        return x * 1.0, slope

    for _ in range(2):
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(fragile(gt.constant(np.ones((2, 8))) @ first) @ last)
        try:
            tape.gradient(loss, [first, last])
        except ValueError:
            print("caught")


def busy() -> None:
    if ME == 1:
        raise ValueError("rank one gives up")
    time.sleep(60)


def number_that_differs() -> None:
    w = ranks.replicated(np.array([1.0, 2.0]))
    with gt.GradientTape() as tape:
        tape.watch(w)
        loss = gt.reduce_sum(w) * (1.0 + ME)
    tape.gradient(loss, w)


def compiled_raises() -> None:
    @gt.function
    def f(x):  # type: ignore[no-untyped-def]
        for _ in gt.range(1000):
            x = ranks.all_reduce(x, "mean")
            gt.debugging.assert_less(x, 10.0, message="too large")
        return x

    f(gt.constant(np.array(1.0)))
    if ME == 1:
        raise ValueError("rank one gives up")
    f(gt.constant(np.array(1.0)))


def assigned_without_aggregation() -> None:
    strategy = ranks.MirroredStrategy()
    with strategy.scope():
        v = gt.Variable(0.0)
    strategy.run(lambda: v.assign(np.float32(ME)))


def local_gradient() -> None:
    strategy = ranks.MirroredStrategy()
    with strategy.scope():
        v, optimizer = gt.Variable([0.0]), gt.optimizers.SGD(1.0)
    strategy.run(lambda: optimizer.apply_gradients([(np.array([ME], np.float32), v)]))


def saves_alone() -> None:
    with ranks.MirroredStrategy().scope():
        checkpoint = gt.train.Checkpoint(v=gt.Variable(0.0))
    if ME == 0:
        checkpoint.save(os.devnull)
    ranks.barrier()


def more_ranks_than_rows() -> None:
    rows = gt.data.Dataset.from_tensor_slices(np.ones((1, 3))).batch(4)
    for x in ranks.MirroredStrategy().experimental_distribute_dataset(rows):
        print("numbers", x)


def sleeps() -> None:
    for _ in range(10_000):
        ranks.all_reduce(1.0)
        time.sleep(0.01)
        print(os.getpid(), flush=True)


def trains() -> None:
    """Goes on from the last checkpoint, whoever wrote it; the last line is the result."""
    strategy = ranks.MultiWorkerMirroredStrategy()
    x = np.random.default_rng(0).normal(size=(12, 3))
    with strategy.scope():
        w, count = gt.Variable(np.zeros(3)), gt.Variable(0, trainable=False)
        optimizer = gt.optimizers.Adam(0.05)
    checkpoint = gt.train.Checkpoint(w=w, count=count, optimizer=optimizer)
    if os.path.exists(sys.argv[2]):
        checkpoint.read(sys.argv[2])
    own = ranks.MirroredStrategy().experimental_distribute_dataset([x])
    (rows,) = own
    while int(count.numpy()) < 40:
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum((rows @ w[:, None] - 1.0) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        count.assign_add(1)
        ranks.save_checkpoint(checkpoint, sys.argv[2], shard_above=16 if sys.argv[3:] else None)
        print(os.getpid(), flush=True)
    print("result", w.numpy().tolist(), flush=True)


globals()[sys.argv[1]]()
