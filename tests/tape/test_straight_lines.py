"""Backward passes that were written down: the same answers and records as the walk, to the last bit; and what ends them."""

import contextlib
import gc
import weakref

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad import straight
from gradtape.ad.straight import Unwritable, Wiring
from gradtape.core.tensor import Tensor
from gradtape.functions import learned_walks
from tests.harness.cases import all_cases, tensor
from tests.harness.derivatives import differentiable
from tests.harness.numeric import random_like
from tests.harness.seeds import in_sample
from tests.tape.test_native_forms import Account, forms


@contextlib.contextmanager
def compiling(runs):
    """What is written down is compiled after so many runs."""
    kept = straight.RUNS, straight.FEWEST_RUNS
    straight.RUNS = straight.FEWEST_RUNS = runs
    try:
        yield
    finally:
        straight.RUNS, straight.FEWEST_RUNS = kept


@contextlib.contextmanager
def learning(after):
    """Walks are written down when they have come so often; None: never."""
    straight._RECURRENCES.clear()
    gt.config.learn_gradients(after is not None, after=after or 0)
    try:
        yield
    finally:
        gt.config.learn_gradients(True)
        straight._RECURRENCES.clear()


def lessons():
    return [lesson for question in straight._RECURRENCES.values() for lesson in question.lessons]


@pytest.fixture(params=[False, True], ids=["compared by Python", "compared by machine code"], autouse=True)
def comparing(request):
    if request.param:
        pytest.importorskip("llvmlite")
    with forms(request.param):
        yield request.param


# -- random programs, asked again and again --------------------------------------------------------------------------

UNARY = [gt.sin, gt.tanh, gt.exp, gt.square, gt.sigmoid, gt.nn.relu, gt.negative, gt.stop_gradient, gt.identity]
BINARY = [gt.add, gt.subtract, gt.multiply, gt.maximum, lambda x, y: x / (2.0 + y * y), lambda x, y: gt.where(x > y, x, y)]
SHAPED = [
    lambda x: gt.reduce_sum(x, -1, True), lambda x: gt.reduce_mean(x, 0, True), lambda x: gt.reshape(x, x.shape),
    lambda x: x[:1], lambda x: gt.concat([x[1:], x[:1]], 0), lambda x: gt.gather(x, [0, 2, 2]),
    lambda x: gt.cumsum(x), lambda x: x @ x,
    lambda x: gt.reduce_max(x, 1, True), lambda x: gt.transpose(x), lambda x: x * 2.0 + 1, lambda x: x[1] + x[:, 1],
    lambda x: gt.stack(gt.unstack(x)), lambda x: gt.pad(x, [[1, 0], [0, 0]])[:3], lambda x: x**3,
]  # fmt: skip


def program(seed):
    """A function of a list of 3 × 3 matrices, the same each time it is called."""

    def run(leaves):
        rng = np.random.default_rng(seed)
        pool = list(leaves)
        for _ in range(12):
            x, y = (pool[rng.integers(len(pool))] for _ in range(2))
            kind = rng.integers(3)
            if kind == 0:
                out = UNARY[rng.integers(len(UNARY))](x)
            elif kind == 1:
                out = BINARY[rng.integers(len(BINARY))](x, y)
            else:
                out = SHAPED[rng.integers(len(SHAPED))](x) + gt.zeros((3, 3), x.dtype)
            pool.append(out)
        y = gt.identity(pool[-2])
        if rng.integers(2):
            y[0] = pool[-1][1]
        return gt.reduce_sum(pool[-1] * pool[-3]) + gt.reduce_sum(y)

    return run


def asked(seed, times):
    """What a tape answers each time, with other numbers, and what an outer tape records of that."""
    f = program(seed)
    rng = np.random.default_rng(seed)
    kind = [np.float32, np.float64][rng.integers(2)]
    nested, persistent, scale = (bool(rng.integers(2)) for _ in range(3))
    lines = []
    for _ in range(times):
        told = Account()
        first, second = (rng.standard_normal((3, 3)).astype(kind) for _ in range(2))
        leaves = [gt.constant(0.3 * first), gt.Variable(second)]
        with gt.GradientTape() if nested else contextlib.nullcontext() as outer:
            if nested:
                outer.watch(leaves[0])
            with gt.GradientTape(persistent=persistent) as inner:
                inner.watch(leaves[0])
                y = f(leaves)
            answers = inner.gradient(y, leaves, output_gradients=y * 2.0 if scale else None)
            total = [gt.reduce_sum(a * a) for a in answers if isinstance(a, Tensor)]
        lines.append([told.word(a) for a in answers])
        if nested:
            for entry in outer.records:
                told.record(entry, gt.core.record.CLOCK.now)
            lines.append(told.lines)
            lines.append([told.word(a) for a in outer.gradient(total, leaves)])
        inner.close()
    return lines


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.filterwarnings("ignore")
def test_random_walks_have_the_same_answers(seed):
    with learning(None):
        expected = asked(seed, 4)
        assert lessons() == []
    with learning(1):
        assert asked(seed, 4) == expected


def test_they_are_used():
    x = gt.Variable([1.0, 2.0])

    def step():
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(gt.sin(x) * x)
        return tape.gradient(y, x).numpy()

    with learning(3):
        want, *_ = [step() for _ in range(3)]
        (lesson,) = lessons()
        calls = []
        run, lesson.run = lesson.run, lambda *given: calls.append(given) or run(*given)
        assert step().tolist() == want.tolist()
        assert len(calls) == 1


def test_what_ran_often_is_compiled(comparing):
    """A program answers when it is due, the straight lines where a constant is another, and `explain` says who."""
    x, scale = gt.Variable([1.0, 2.0]), 3.0

    def step():
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(gt.sin(x) * scale)
        return tape.gradient(y, x).numpy(), tape.explain(y, x)

    with learning(1), compiling(2):
        said = [step()[1].computed.split(":")[0] for _ in range(5)]
        code = "machine code" if comparing else "straight-line code"
        assert said == ["straight-line code", "straight-line code", *[code] * 3]
        assert f"computed by {code}" in str(step()[1])
        (lesson,) = lessons()
        assert (lesson.program is None) or (lesson.program.hits, lesson.program.misses) == (3, 0)
        scale = 4.0
        np.testing.assert_allclose(step()[0], 4.0 * np.cos([1.0, 2.0]), rtol=1e-6)
        assert lesson.program is None or (lesson.program.hits, lesson.program.misses) == (3, 1)
        x = gt.Variable(np.array([1.0, 2.0]))  # of another dtype
        assert step()[0].dtype == np.float64
        for _ in range(40):
            step()
        assert lesson.program is None  # of no use any more


def test_compiled_walks_repeat_to_the_last_bit(comparing):
    x = gt.Variable(np.linspace(0.0, 1.0, 400).reshape(20, 20))

    def step():
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(gt.tanh(x @ x) * gt.exp(x))
        return tape.gradient(y, x).numpy().tobytes()

    with learning(1), compiling(1):
        answers = [step() for _ in range(8)]
    assert len(set(answers[3:])) == 1


def test_a_defect_of_the_compiler_is_told_and_walked(comparing, monkeypatch):
    """The user has the gradient all the same."""
    if not comparing:
        pytest.skip("nothing is compiled")
    x = gt.Variable([1.0, 2.0])

    def broken(*arguments):
        raise KeyError("a defect")

    def steps():
        for _ in range(4):
            with gt.GradientTape() as tape:
                y = gt.reduce_sum(gt.square(x))
            np.testing.assert_allclose(tape.gradient(y, x).numpy(), [2.0, 4.0])

    monkeypatch.setattr(learned_walks, "executable", broken)
    with learning(1), compiling(1), pytest.warns(UserWarning, match="could not be compiled, please report it: KeyError"):
        steps()


def test_other_wirings_are_walked():
    """The same operations at the same line, put together in another way, or asked in another way."""
    a, b = gt.Variable([1.0, 2.0]), gt.Variable([3.0, 5.0])

    def step(first, second, sources, size=2):
        with gt.GradientTape() as tape:
            y = gt.reduce_sum((first * second + a)[:size])
        return [None if g is None else g.numpy().tolist() for g in tape.gradient(y, sources)]

    cases = [(a, b, [a, b]), (b, a, [a, b]), (a, a, [a, b]), (b, b, [a, b]), (a, b, [b, a]), (b, b, [b, a]), (a, b, [a, b], 1)]
    with learning(None):
        expected = [step(*case) for case in cases]
    with learning(1):
        for _ in range(3):
            assert [step(*case) for case in cases] == expected


def test_shapes_of_leaves_count():
    """What is broadcast has the shape of no record."""
    x = gt.constant(np.ones((2, 3)))

    def step(shape):
        b = gt.Variable(np.ones(shape))
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(x * b)
        return tape.gradient(y, b).numpy().tolist()

    shapes = [(2, 3), (3,), (2, 1), (1, 3), (1, 1), ()]
    with learning(None):
        expected = [step(shape) for shape in shapes]
    with learning(1):
        for _ in range(3):
            assert [step(shape) for shape in shapes] == expected


def test_wirings_are_compared_alike():
    """Python's comparison and that of machine code, on all pairs of walks."""
    from gradtape.backends.llvm.entry.wiring_code import matcher

    walks = []
    for seed in range(6):
        leaves = [gt.constant(np.ones((3, 3))) for _ in range(2)]
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(leaves)
            y = program(seed % 3)(leaves)
        records = tuple(tape.records)
        for targets in ((y._node,), ()):
            for wanted in ((leaves[0]._node,), (leaves[1]._node, leaves[0]._node), (records[0],)):
                walks.append((tape, (records, targets, wanted)))
    for _, first in walks:
        with contextlib.suppress(Unwritable):
            wiring = Wiring(*first)
            assert wiring.matches(*first)
            for _, second in walks:
                assert matcher(wiring)(*second) is wiring.matches(*second)


def test_what_is_not_finite_is_walked_with_care():
    x = gt.Variable([0.0, 4.0])

    def step():
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(gt.where(x > 0.0, gt.sqrt(x), 0.0))
        return tape.gradient(y, x).numpy().tolist()

    with learning(1):
        assert [step() for _ in range(4)] == [[0.0, 0.25]] * 4


def test_a_rule_that_gives_nothing_ends_a_lesson():
    x = gt.Variable(2.0)

    @gt.custom_gradient
    def twice(v):
        return v * 2.0, lambda ct: ct * 2.0

    def step(f):
        with gt.GradientTape() as tape:
            y = f(x * x)
        return float(tape.gradient(y, x))

    with learning(1):
        assert [step(twice) for _ in range(4)] == [8.0] * 4
        assert lessons() == []


def test_lessons_hold_no_values():
    class Array(np.ndarray):
        pass

    with learning(1):
        references = []
        for _ in range(3):
            data = np.ones(1000).view(Array)
            references.append(weakref.ref(data))
            x = gt.constant(data)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = gt.reduce_sum(x * x)
            tape.gradient(y, x)
            del data, x, y, tape
        gc.collect()
        assert lessons()
        assert [r() for r in references] == [None] * 3


def test_lessons_are_few(monkeypatch):
    monkeypatch.setattr(straight, "MOST", 3)
    x = gt.Variable(1.0)
    with learning(1):
        for length in range(1, 12):
            with gt.GradientTape() as tape:
                y = x
                for _ in range(length):
                    y = y * x
            assert float(tape.gradient(y, x)) == length + 1
        assert len(straight._RECURRENCES) == 3


def test_large_cotangents_go_early():
    """As in the walk, a cotangent is let go when it was carried on."""
    import tracemalloc

    x = gt.constant(np.ones(200_000))

    def peak():
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(10):
                y = gt.negative(y)
            y = gt.reduce_sum(y)
        tracemalloc.start()
        try:
            tape.gradient(y, x)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    with learning(2):
        walked = peak()
        peak()
        assert lessons()
        assert peak() < walked + x.nbytes


@pytest.mark.parametrize("natively", [False, True], ids=["as Python", "as programs"])
@pytest.mark.parametrize("part", range(8))
def test_walks_of_every_operation(part, natively, comparing):
    """Each sample's gradient, asked until its walk is written down (or compiled), and once more: as without that."""
    if natively and not comparing:
        pytest.skip("machine code is off")
    cases = [case for case in all_cases() if case.differentiable and not case.fails]
    if natively or not comparing:
        # compiling takes longest, and a walk is the same whoever compares: the first sample of each op, and one in some of the
        # others; all in `make test-all`
        firsts = {case.name: case.id for case in reversed(cases)}
        cases = [case for case in cases if firsts[case.name] == case.id or in_sample(case.id, 4)]
    cases = cases[part::8]

    def gradients(case):
        xs = [tensor(x) for x in case.doubles()]
        with gt.GradientTape() as outer:
            outer.watch(xs)
            with gt.GradientTape() as inner:
                inner.watch(xs)
                outputs = differentiable(case.outputs(xs))
            first = inner.gradient(outputs, xs, output_gradients=_seeds(case, outputs), unconnected_gradients="zero")
            total = gt.add_n([gt.reduce_sum(gt.math.real(gt.convert_to_tensor(g)) ** 2) for g in first])
        return [gt.convert_to_tensor(g).numpy() for g in (*first, *outer.gradient(total, xs, unconnected_gradients="zero"))]

    compiled = 0
    for case in cases:
        with np.errstate(all="ignore"):
            gt.config.learn_gradients(False)
            expected = gradients(case)
            with learning(1), compiling(1 if natively else 10):  # nothing is known yet
                answers = [gradients(case) for _ in range(4 if natively else 3)]
                compiled += sum([lesson.program is not None and lesson.program.hits > 0 for lesson in lessons()])
        for answer in answers:
            for have, want in zip(answer, expected, strict=True):
                # (a convolution that came often runs as a program, which adds up in another order)
                np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-14, err_msg=case.id)
    assert not natively or compiled > len(cases) // 5  # (others call NumPy, decide while they run, or are complex)


def _seeds(case, outputs):
    generator = case.generator()
    return [tensor(random_like(generator, t._data).astype(t._data.dtype)) for t in outputs]
