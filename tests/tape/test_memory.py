"""Memory goes at once, without the garbage collector; what is unused leaves early; what is needed never does."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.record import RecordList
from tests.harness.memory import allocated, growth, tracing
from tests.tape.util import close, sweeping_always, wide

BIG = 200_000  # doubles: 1.6 MB


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.freeze()  # the collections of the test need not look through what other tests left alive
    gc.disable()
    yield
    gc.enable()


class Grown:
    """Bytes allocated since the block began, and its peak."""

    def __enter__(self):
        self._tracing = tracing()
        self._tracing.__enter__()
        return self

    def __exit__(self, *exc):
        self._tracing.__exit__(*exc)

    @property
    def now(self):
        return allocated()

    @property
    def settled(self):
        """Bytes without Python's lists of free small objects."""
        gc.collect()
        return self.now

    @property
    def peak(self):
        return tracemalloc.get_traced_memory()[1]


def work(x, steps=10):
    y = x
    for _ in range(steps):
        y = gt.exp(y * 0.01)
    return y


def test_del_tape_frees_at_once():
    x = gt.Variable(np.ones(BIG))
    with Grown() as grown:
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(work(x))
        assert grown.now > 10 * BIG * 8
        alive = weakref.ref(tape)
        del tape
        assert alive() is None
        assert grown.now < BIG * 8
    assert float(y) > 0


def test_close_frees_at_once_and_twice_is_fine():
    x = gt.Variable(np.ones(BIG))
    with Grown() as grown:
        with gt.GradientTape(persistent=True) as tape:
            y = gt.reduce_sum(work(x))
        tape.gradient(y, x)
        tape.close()
        tape.close()
        assert grown.now < BIG * 8


def test_a_one_shot_gradient_frees_the_saved_values():
    x = gt.Variable(np.ones(BIG))
    with Grown() as grown:
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(work(x))
        g = tape.gradient(y, x)
        assert grown.now < 2.5 * BIG * 8  # the gradient itself
    assert g.shape == (BIG,)


def test_a_one_shot_gradient_frees_what_a_custom_rule_captured():
    @gt.custom_gradient
    def heavy(x):
        table = np.ones(4 * BIG)
        return x * 1.0, lambda upstream: upstream * float(table[0])

    x = gt.Variable(1.0)
    with Grown() as grown:
        with gt.GradientTape() as tape:
            y = heavy(x)
        assert grown.now > 3 * BIG * 8
        tape.gradient(y, x)
        assert grown.now < BIG * 8


def test_gradients_of_gradients_on_a_persistent_tape_leave_nothing():
    x = wide(np.ones(BIG))
    with Grown() as grown:
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = gt.reduce_sum(x**3)
        g = tape.gradient(y, x)
        h = tape.gradient(g, x)
        alive = weakref.ref(tape)
        del tape, g, h, y
        assert alive() is None
        assert grown.now < BIG * 8


def test_an_exception_inside_the_block_leaves_nothing():
    x = gt.Variable(np.ones(BIG))
    with Grown() as grown:
        try:
            with gt.GradientTape() as tape:
                work(x)
                alive = weakref.ref(tape)
                raise KeyError
        except KeyError:
            pass
        del tape
        assert alive() is None
        assert grown.now < BIG * 8
        assert not (x * 2.0)._node.keys  # nobody records any more


def test_a_failed_operation_inside_the_block_leaves_nothing():
    x = gt.Variable(np.ones(BIG))
    with Grown() as grown:
        with gt.GradientTape() as tape:
            y = work(x)
            with pytest.raises(ValueError, match="add"):
                _ = y + gt.ones(3, gt.float64)
        alive = weakref.ref(tape)
        del tape, y
        assert alive() is None
        assert grown.now < BIG * 8


def test_results_outlive_the_tape_without_holding_its_records():
    x = gt.Variable(np.ones(BIG))
    with Grown() as grown:
        kept = []
        for _ in range(5):
            with gt.GradientTape() as tape:
                y = gt.reduce_sum(work(x))
            kept.append(y)
            del tape
        assert grown.now < BIG * 8


def test_adding_up_losses_outside_the_tape_stays_flat():
    x = gt.Variable(np.ones(100))
    total = gt.constant(0.0, gt.float64)

    def step():
        nonlocal total
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(x * x)
        tape.gradient(loss, x)
        total = total + loss

    assert growth(step, 200) < 20_000
    close(total, 100_000.0)


def test_ten_thousand_unused_evaluations_in_one_block_stay_flat():
    x = gt.Variable(np.ones(1000))
    with gt.GradientTape() as tape:
        for k in range(10_000):
            gt.reduce_sum(gt.exp(x) * x)
            if k % 100 == 99:
                saved = sum(v.nbytes for r in tape.records for v in r.saved if isinstance(v, np.ndarray))
                assert saved < 10_000_000  # 80 MB otherwise
        y = gt.reduce_sum(x * x)
    close(tape.gradient(y, x), 2 * np.ones(1000))


def test_unused_evaluations_stay_flat_under_two_tapes():
    x = gt.Variable(np.ones(1000))
    with Grown() as grown:
        with gt.GradientTape() as outer, gt.GradientTape() as inner:
            for _ in range(2000):
                gt.reduce_sum(gt.exp(x) * x)
            assert grown.peak < 15_000_000  # 48 MB otherwise
            y = gt.reduce_sum(x * x)
        close(inner.gradient(y, x), 2 * np.ones(1000))
        close(outer.gradient(y, x), 2 * np.ones(1000))


def test_forward_mode_of_a_long_loop_needs_constant_memory():
    x = wide(np.ones(1000))
    with Grown() as grown:
        with gt.autodiff.ForwardAccumulator(x, wide(np.ones(1000))) as acc:
            y = x
            for _ in range(1000):
                y = gt.sin(y) * 1.01
                gt.exp(y)
            assert grown.peak < 600_000  # each step makes several arrays of 8 kB: 24 MB
        assert acc.jvp(y) is not None


def test_accumulator_is_freed_at_once():
    x = wide(np.ones(BIG))
    with Grown() as grown:
        with gt.autodiff.ForwardAccumulator(x, wide(np.ones(BIG))) as acc:
            y = work(x)
        alive = weakref.ref(acc)
        del acc, y
        assert alive() is None
        assert grown.now < BIG * 8


def test_many_dropped_gradients_of_a_persistent_tape_stay_flat():
    x = wide(np.ones(10_000))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
    tape.gradient(y, x)
    with Grown() as grown:
        for _ in range(2000):
            tape.gradient(y, x)
        assert grown.now < 20_000_000  # each leaves 80 kB of seeds while its record lives: 160 MB


def test_custom_gradient_in_fresh_closures_does_not_grow():
    x = gt.Variable(np.ones(10))
    w = gt.Variable(np.ones(10))

    def step():
        @gt.custom_gradient
        def scaled(t):
            return t * w, lambda upstream: upstream * 2.0

        with gt.GradientTape() as tape:
            y = gt.reduce_sum(scaled(x))
        return tape.gradient(y, [x, w])

    for _ in range(20):
        step()
    with Grown() as grown:
        for _ in range(50):
            step()
        before = grown.settled
        for _ in range(1000):
            step()
        assert gc.collect() == 0  # no cycles
        assert grown.settled - before < 30_000


def test_recompute_closures_do_not_grow():
    x = gt.Variable(np.ones(10))

    def step():
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(gt.recompute_grad(lambda t: gt.exp(t) * x)(x))
        return tape.gradient(y, x)

    for _ in range(20):
        step()
    with Grown() as grown:
        for _ in range(50):
            step()
        before = grown.settled
        for _ in range(500):
            step()
        assert gc.collect() == 0  # no cycles
        assert grown.settled - before < 30_000


def test_functional_forms_do_not_grow():
    x = wide(np.ones(10))

    def step():
        gt.grad(lambda t: gt.reduce_sum(t**3))(x)
        gt.jacobian(lambda t: t**3)(x)
        gt.hessian(lambda t: gt.reduce_sum(t**3))(x)
        gt.hvp(lambda t: gt.reduce_sum(t**3), [x], [x])
        gt.vjp(lambda t: t**2, x)[1](x)

    for _ in range(10):
        step()
    with Grown() as grown:
        for _ in range(10):
            step()
        before = grown.settled
        for _ in range(100):
            step()
        assert gc.collect() == 0  # no cycles
        assert grown.settled - before < 30_000


def test_jacobian_and_hessian_free_their_tape():
    x = wide(np.ones(30))
    for persistent in (False, True):
        with gt.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = gt.reduce_sum(x**3)
            z = x**2
        if persistent:
            tape.hessian(y, x)
            tape.jacobian(z, x)
        else:
            tape.hessian(y, x)
        alive = weakref.ref(tape)
        del tape
        assert alive() is None


def test_a_paused_block_holds_no_tape():
    x = gt.Variable(1.0)
    with gt.GradientTape() as tape, tape.stop_recording():
        _ = x * x
    alive = weakref.ref(tape)
    del tape
    assert alive() is None


def test_an_error_in_gradient_holds_no_tape():
    x = gt.Variable(1.0)
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match="shape"):
        tape.gradient(y, x, output_gradients=[1.0, 2.0])
    alive = weakref.ref(tape)
    del tape
    assert alive() is None


# -- a record still needed is never dropped ---------------------------------------------------------------------------


def test_swept_programs_give_the_same_gradients(monkeypatch):
    def holders(x, v):
        """Values held only in a list, a dict, a closure, a variable, a TensorArray, a generator, an updated tensor."""
        kept = [gt.sin(x)]
        table = {"k": gt.cos(x) * kept[0]}
        late = lambda h=gt.exp(x * 0.1): h * table["k"]  # noqa: E731
        v.assign(late() * x)

        def stream():
            carried = v * 1.0
            while True:
                carried = carried * gt.sin(x)
                yield carried

        steps = stream()
        next(steps)
        array = gt.TensorArray(gt.float64, size=2)
        array.write(0, next(steps))
        array.write(1, kept[0] * 2.0)
        filled = gt.zeros(4, gt.float64)
        filled[1:3] = array.read(0)[:2]
        for _ in range(10):  # garbage between
            gt.exp(x) * gt.sin(x)
        return gt.reduce_sum(array.stack()) + gt.reduce_sum(filled**2) + gt.reduce_sum(next(steps))

    x = wide([0.3, 0.8, 1.2])
    answers = []
    for sweeping in (False, True):
        v = gt.Variable(np.zeros(3), trainable=False)
        with monkeypatch.context() as patch:
            if sweeping:
                patch.setattr(RecordList, "FLOOR", 0)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = holders(x, v)
            answers.append(tape.gradient(y, x).numpy())
    close(answers[1], answers[0])
    assert np.any(answers[0])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_sweeping_under_several_tapes(monkeypatch, count):
    x = wide([0.3, 0.8])
    with sweeping_always(monkeypatch):
        tapes = [gt.GradientTape() for _ in range(count)]
        for tape in tapes:
            tape.__enter__()
            tape.watch(x)
        parts = gt.split(gt.sin(x) * x, 2)
        y = gt.exp(parts[0] * parts[1]) + x[0]
        for tape in tapes:
            tape.__exit__(None, None, None)
    s, c, d = np.sin(x.numpy()), np.cos(x.numpy()), x.numpy()
    f = s * d
    df = s + c * d
    expected = np.exp(f[0] * f[1]) * np.array([df[0] * f[1], df[1] * f[0]]) + [1.0, 0.0]
    for tape in tapes:
        close(tape.gradient(y, x), expected)


def test_sweeping_with_pending_gradients(monkeypatch):
    x = wide(1.3)
    with sweeping_always(monkeypatch), gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        g = tape.gradient(x**5, x)  # the target itself is gone
        for _ in range(5):
            x * x
        h = tape.gradient(g * x, x)
        for _ in range(5):
            x * x
        third = tape.gradient(h, x)
        close(h, 25 * 1.3**4)
        close(third, 100 * 1.3**3)
    close(tape.gradient(third, x), 300 * 1.3**2)


def test_sweeping_with_nested_tapes(monkeypatch):
    x = wide(0.7)
    with sweeping_always(monkeypatch), gt.GradientTape() as first:
        first.watch(x)
        with gt.GradientTape() as second:
            second.watch(x)
            with gt.GradientTape() as third:
                third.watch(x)
                y = gt.sin(x) ** 2 * x
            g = third.gradient(y, x)
            for _ in range(5):
                gt.exp(x)
        h = second.gradient(g, x)
    close(h, 2 * np.sin(1.4) + 2 * 0.7 * np.cos(1.4))
    close(first.gradient(h, x), 6 * np.cos(1.4) - 4 * 0.7 * np.sin(1.4))


def test_a_version_watched_by_a_tape_that_did_not_record_it_survives_a_sweep(monkeypatch):
    x = wide([1.0, 2.0])
    with gt.GradientTape() as other:
        pass
    with sweeping_always(monkeypatch), gt.GradientTape() as tape:
        tape.watch(x)
        t = x * x
        other.watch(t)
        t[0] = t[1] * 3.0
        other.watch(t)  # another version of an object it knows
        for _ in range(3):
            gt.exp(x)
        y = gt.reduce_sum(t * t)
    close(tape.gradient(y, x), [0.0, (9 + 1) * 4 * 8.0])


def test_custom_gradients_survive_a_sweep_at_second_order(monkeypatch):
    v = gt.Variable(np.float64(2.0))

    @gt.custom_gradient
    def f(x):
        h = x * v  # held by the gradient function alone

        def grad(upstream, variables=None):
            assert variables is not None
            return upstream * h * h, [upstream * 0.0]

        return h * 1.0, grad

    x = wide(3.0)
    with sweeping_always(monkeypatch), gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
            for _ in range(3):
                gt.exp(x)
        g = inner.gradient(y, x)
        for _ in range(3):
            gt.exp(x)
    close(g, 36.0)
    close(outer.gradient(g, x), 2 * 6.0 * 2.0)


def test_sweeping_with_recompute_and_variables(monkeypatch):
    v, x = gt.Variable(np.float64(2.0)), wide(3.0)
    with sweeping_always(monkeypatch), gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.recompute_grad(lambda t: gt.sin(t * v) * t)(x * x)
        g = inner.gradient(y, x)
        for _ in range(3):
            gt.exp(x)
    q = 9.0
    f1 = np.sin(2 * q) + 2 * q * np.cos(2 * q)
    f2 = 4 * np.cos(2 * q) - 4 * q * np.sin(2 * q)
    close(g, f1 * 6.0)
    close(outer.gradient(g, x), f2 * 36.0 + f1 * 2.0)


def test_the_sweep_keeps_the_order_of_records(monkeypatch):
    x = wide(1.1)
    with sweeping_always(monkeypatch), gt.GradientTape() as tape:
        tape.watch(x)
        values = [x]
        for k in range(50):
            values.append(gt.sin(values[-1]) + values[k // 2])
            x * 2.0
        y = values[-1]
    place = {record: i for i, record in enumerate(tape.records)}
    for record, i in place.items():
        assert all(place[node] < i for node in record.nodes if node in place)
    assert tape.gradient(y, x) is not None


# -- size ------------------------------------------------------------------------------------------------------------


def test_a_million_records_without_recursion():
    x = gt.Variable(1.0)
    with gt.GradientTape() as tape:
        y = x
        for _ in range(1_000_000):
            y = y + 1.0
    assert len(tape.records) == 1_000_000
    g = tape.gradient(y, x)
    assert float(g) == 1.0
    del tape, y


def test_backward_work_is_linear_in_the_records(monkeypatch):
    from gradtape.ad import backward

    visited = []
    plain = backward.needed_records
    monkeypatch.setattr(backward, "needed_records", lambda r, w, p: visited.append(len(r)) or plain(r, w, p))
    x = gt.Variable(1.0)
    for n in (100, 200, 400):
        with gt.GradientTape() as tape:
            y = x
            for _ in range(n):
                y = y * 1.01
        tape.gradient(y, x)
    assert visited == [100, 200, 400]


PRODUCTS = {
    "a weight for every row": (lambda a, b: a @ b, (30, 30, 1, 64), (64, 64)),
    "a row for every weight": (lambda a, b: a @ b, (64, 64), (30, 30, 64, 1)),
    "both, along other axes": (lambda a, b: a @ b, (200, 1, 1, 64), (1, 2, 64, 64)),
    "einsum": (lambda a, b: gt.einsum("ijxk,kl->ijxl", a, b), (30, 30, 1, 64), (64, 64)),
    "tensordot": (lambda a, b: gt.tensordot(a, b, 1), (30, 30, 64), (64, 64)),
    "elements": (lambda a, b: a * b, (30, 30, 64), (64,)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_gradient_of_a_repeated_operand_is_a_contraction(name):
    """What was broadcast is summed by the product itself: no value of the size of all the products before their sum."""
    multiply, *shapes = PRODUCTS[name]
    a, b = (gt.constant(np.ones(shape, np.float32)) for shape in shapes)
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        out = multiply(a, b)
    tracemalloc.start()
    try:
        tape.gradient(out, [a, b])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * (a.nbytes + b.nbytes + out.nbytes)
