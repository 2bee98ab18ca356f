"""`memory_limit`: loops are reversed with few states in memory. The peak falls with the limit, the gradient keeps its bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.numpy import checkpointed as checkpointing
from gradtape.ir.printer import to_text
from gradtape.ir.verify import verify
from gradtape.ir.walk import program
from gradtape.ops.registry import op_by_name
from tests.harness.peak_memory import peak_bytes
from tests.harness.program_parser import parse
from tests.harness.tolerances import ROUNDING

# bits are the same on the reference backend; machine code rounds a product and a sum once or twice, as its loops come out
pytestmark = [
    pytest.mark.usefixtures("reference_backend"),
    pytest.mark.filterwarnings("ignore:memory_limit cannot be met:gradtape.GradientWarning"),
]

W = np.array([0.3, -0.4, 0.5, 0.9, -0.2, 0.7, 0.1])
M = np.array([[0.2, -0.3, 0.1], [0.4, 0.1, -0.2], [-0.1, 0.3, 0.3]])


# -- programs ----------------------------------------------------------------------------------------------------------


def scanned(w, m):
    s = gt.zeros((3,), gt.float64)
    for v in w:
        s = gt.tanh(gt.linalg.matvec(m, s) + v)
    return gt.reduce_sum(s * s)


def unknown_count(w, m):
    s = gt.zeros((3,), gt.float64)
    n = 0
    while gt.reduce_sum(gt.abs(s)) < 5.0 and n < 40:
        s = gt.linalg.matvec(m, s) * 1.2 + w[n % 7]
        n += 1
    return gt.reduce_sum(s * s)


def nested(w, m):
    s = gt.zeros((3,), gt.float64)
    for i in gt.range(7):
        for j in gt.range(i + 1):
            s = gt.tanh(gt.linalg.matvec(m, s) + w[j] * w[i])
    return gt.reduce_sum(s * s)


def nested_whiles(w, m):
    s = w[0] * m[0]
    i = 0
    while i < 5:
        n = 0
        while gt.reduce_sum(s * s) < 2.0 and n < 6:
            s = s * 1.3 + w[i] * w[n]
            n += 1
        s = s * 0.5
        i += 1
    return gt.reduce_sum(s * s)


def branches(w, m):
    s = gt.zeros((3,), gt.float64)
    i = 0
    while i < 7:
        if w[i] > 0:
            s = gt.tanh(gt.linalg.matvec(m, s) + w[i])
        else:
            for j in gt.range(3):
                s = s * w[i] + m[j]
        i += 1
    return gt.reduce_sum(s * s)


def collects(w, m):
    found = []
    s = gt.zeros((3,), gt.float64)
    for v in w:
        s = gt.tanh(gt.linalg.matvec(m, s) + v)
        found.append(s * s)
    return gt.reduce_sum(gt.stack(found) ** 2)


def fills(w, m):
    a = gt.zeros((7, 3), gt.float64)
    for i in gt.range(7):
        a[i] = gt.tanh(w[i] * m[1])
        if i > 0:
            a[i] = a[i] + a[i - 1] * w[i]
    return gt.reduce_sum(a * a)


def two_loops(w, m):
    s = gt.zeros((3,), gt.float64)
    for v in w:
        s = gt.tanh(gt.linalg.matvec(m, s) + v)
    for i in gt.range(7):
        s = gt.tanh(gt.linalg.matvec(m, s) - w[i] * s)
    return gt.reduce_sum(s * s) + w[2]


def recomputed_inside(w, m):
    cell = gt.recompute_grad(lambda s, v: gt.tanh(gt.linalg.matvec(m, s) + v))
    s = gt.zeros((3,), gt.float64)
    for v in w:
        s = cell(s, v)
    return gt.reduce_sum(s * s)


def random(w, m):
    s = gt.zeros((3,), gt.float64)
    for v in w:
        s = gt.tanh(gt.linalg.matvec(m, s) + v * gt.random.normal((3,), dtype=gt.float64))
    return gt.reduce_sum(s * s)


def no_iterations(w, m):
    s = w[:3] * 2.0
    while gt.reduce_sum(s) > 100.0:
        s = gt.sin(s) * m[0]
    return gt.reduce_sum(s * s)


def custom(w, m):
    @gt.custom_gradient
    def doubled(x):
        return gt.sin(x), lambda ct: 2.0 * ct * x

    s = m[0]
    for v in w:
        s = doubled(s * v) + s
    return gt.reduce_sum(s * s)


def scanned_backwards(w, m):
    s = m[0]
    with gt.GradientTape() as tape:  # its backward pass is a loop from the last index to the first
        tape.watch(w)
        for v in w:
            s = gt.tanh(gt.linalg.matvec(m, s) + v)
        y = gt.reduce_sum(s * s)
    return gt.reduce_sum(gt.sin(tape.gradient(y, w)))


PROGRAMS = [
    scanned, unknown_count, nested, nested_whiles, branches, collects, fills, two_loops, recomputed_inside, random,
    no_iterations, custom,
]  # fmt: skip


def gradient(function, w=W, m=M):
    gt.random.set_seed(7)
    w, m = gt.constant(w), gt.constant(m)
    with gt.GradientTape() as tape:
        tape.watch([w, m])
        y = function(w, m)
    return [np.asarray(v) for v in (y, *tape.gradient(y, [w, m], unconnected_gradients="zero"))]


def second(function):
    gt.random.set_seed(7)
    w, m = gt.constant(W), gt.constant(M)
    with gt.GradientTape() as outer:
        outer.watch([w, m])
        with gt.GradientTape() as tape:
            tape.watch([w, m])
            y = function(w, m)
        first = tape.gradient(y, [w, m], unconnected_gradients="zero")
        total = gt.reduce_sum(first[0] ** 2) + gt.reduce_sum(gt.sin(first[1]))
    return [np.asarray(v) for v in outer.gradient(total, [w, m], unconnected_gradients="zero")]


def compiled(function, *args):
    return function.get_concrete_function(*args).program.compiled


def halves(function, *args, wanted=(0,)):
    made = compiled(function, *args)
    _, forward, backward = made.halves(frozenset(wanted), made.differentiable_outputs)
    return made, forward, backward


def peak(function, *args):
    """The most bytes alive at one time: in the forward half, or in the backward half with what was saved for it."""
    made, forward, backward = halves(function, *args)
    inputs = [t._data for t in args]
    outs = forward.run(inputs)
    count = len(made.block.results)
    saved, results = outs[count:], outs[:count]
    cts = [np.ones_like(results[i])[()] for i in made.differentiable_outputs]
    kept = sum(int(v.nbytes) for v in saved)
    return max(peak_bytes(forward.optimized, *inputs), kept + peak_bytes(backward.optimized, *saved, *cts))


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def checked_passes():
    config.debug_passes(True)
    yield
    config.debug_passes(False)


@pytest.mark.parametrize("limit", [0, 200, 800])
@pytest.mark.parametrize("make", PROGRAMS)
def test_the_gradient_has_the_same_bits(make, limit, checked_passes):
    expected = gradient(gt.function(make))
    for actual, wanted in zip(gradient(gt.function(make, memory_limit=limit)), expected, strict=True):
        assert np.array_equal(actual, wanted)


@pytest.mark.parametrize("limit", [0, 800])
@pytest.mark.parametrize("make", PROGRAMS)
def test_machine_code_gives_the_same_gradient(make, limit):
    expected = gradient(gt.function(make))
    for actual, wanted in zip(gradient(gt.function(make, memory_limit=limit, jit_compile=True)), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("make", [*PROGRAMS, scanned_backwards])
def test_second_derivatives(make):
    for actual, wanted in zip(second(gt.function(make, memory_limit=0)), second(gt.function(make)), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=ROUNDING, atol=ROUNDING)


def test_third_derivative():
    def f(w, n):
        s = w * 0.5
        for _ in gt.range(n):
            s = s * s + w
        return s

    def third(function):
        w, n = gt.constant(np.float64(0.4)), gt.constant(3)
        with gt.GradientTape() as a:
            a.watch(w)
            with gt.GradientTape() as b:
                b.watch(w)
                with gt.GradientTape() as c:
                    c.watch(w)
                    y = function(w, n)
                y = c.gradient(y, w)
            y = b.gradient(y, w)
        return float(a.gradient(y, w))

    assert third(gt.function(f, memory_limit=0)) == pytest.approx(third(f), rel=1e-12)


def test_a_gradient_taken_inside_the_function_is_limited_too():
    def f(w, m):
        with gt.GradientTape() as tape:
            tape.watch(w)
            y = unknown_count(w, m)
        return gt.reduce_sum(tape.gradient(y, w) * w)

    limited = gt.function(f, memory_limit=0)
    assert any(o.op.name == "checkpointed" for o in program(compiled(limited, gt.constant(W), gt.constant(M)).block))
    for actual, wanted in zip(gradient(limited), gradient(gt.function(f)), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=ROUNDING, atol=ROUNDING)


def test_jacobians_and_forward_mode():
    def f(w, m):
        s = m[0]
        for v in w:
            s = gt.tanh(gt.linalg.matvec(m, s) + v)
        return s

    def jacobian(function):
        w = gt.constant(W)
        with gt.GradientTape() as tape:
            tape.watch(w)
            y = function(w, gt.constant(M))
        return tape.jacobian(y, w).numpy()

    def pushed(function):
        w = gt.constant(W)
        with gt.autodiff.ForwardAccumulator(w, gt.constant(np.ones(7))) as acc:
            with gt.GradientTape() as tape:
                tape.watch(w)
                y = gt.reduce_sum(function(w, gt.constant(M)) ** 2)
            g = tape.gradient(y, w)
        return acc.jvp(g).numpy()

    np.testing.assert_allclose(pushed(gt.function(f, memory_limit=0)), pushed(f), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(jacobian(gt.function(f, memory_limit=0)), jacobian(f), rtol=ROUNDING, atol=ROUNDING)


def test_a_persistent_tape_can_ask_twice():
    w, m = gt.constant(W), gt.constant(M)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(w)
        y = gt.function(scanned, memory_limit=0)(w, m)
    assert np.array_equal(tape.gradient(y, w).numpy(), tape.gradient(y, w).numpy())


# -- memory ------------------------------------------------------------------------------------------------------------


def steps(x, n):
    s = x
    i = 0
    while i < n:
        s = gt.sin(s) * 1.1 + x
        i += 1
    return gt.reduce_sum(s * s)


LIMITS = [10**7, 300_000, 100_000, 10_000, 3_000]


def test_the_peak_falls_with_the_limit():
    x, n = gt.constant(np.linspace(0.1, 1.0, 10)), gt.constant(10_000)
    peaks = [peak(gt.function(steps, memory_limit=limit), x, n) for limit in LIMITS]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == len(peaks)
    unlimited = peak(gt.function(steps), x, n)
    assert peaks[0] <= 1.1 * unlimited
    for limit, found in zip(LIMITS[1:], peaks[1:], strict=True):
        assert found <= limit
    assert peaks[-1] < unlimited / 200


def test_the_least_peak_grows_like_the_logarithm_of_the_length():
    x = gt.constant(np.linspace(0.1, 1.0, 10))
    found = [peak(gt.function(steps, memory_limit=0), x, gt.constant(n)) for n in (64, 512, 4096)]
    assert found[2] - found[1] <= 2 * (found[1] - found[0])
    assert found[2] < 2500


def test_ten_thousand_steps_have_the_same_bits_under_every_limit():
    x, n = gt.constant(np.linspace(0.1, 1.0, 10)), gt.constant(10_000)

    def gradient_of(function):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = function(x, n)
        return tape.gradient(y, x).numpy()

    expected = gradient_of(gt.function(steps))
    for limit in (300_000, 10_000, 0):
        assert np.array_equal(gradient_of(gt.function(steps, memory_limit=limit)), expected)


def test_scalars_count_too():
    x, n = gt.constant(np.float64(0.3)), gt.constant(4000)
    peaks = [peak(gt.function(steps, memory_limit=limit), x, n) for limit in (10**5, 10**4, 10**3)]
    assert peaks[0] > 5 * peaks[1] > 20 * peaks[2] / 4


def test_nested_loops_share_the_limit():
    def f(x, n):
        s = x
        for _ in gt.range(n):
            for _ in gt.range(n):
                s = gt.sin(s) * 1.1 + x
        return gt.reduce_sum(s * s)

    x, n = gt.constant(np.linspace(0.1, 1.0, 50)), gt.constant(40)
    peaks = [peak(gt.function(f, memory_limit=limit), x, n) for limit in (10**6, 200_000, 50_000, 20_000)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] <= 20_000
    assert peak(gt.function(f), x, n) > 30 * peaks[-1]


def test_only_what_residuals_depend_on_is_state():
    def f(x, n):
        s, total, history = x, 0.0, gt.zeros((1000,), gt.float64)
        for i in gt.range(n):
            s = gt.sin(s) * 1.1
            history[i] = s
            total += s * s
        return total + history[3]

    _, _, backward = halves(gt.function(f, memory_limit=0), gt.constant(np.float64(0.3)), gt.constant(100))
    (found,) = [o for o in program(backward.block) if o.op.name == "checkpointed"]
    assert [v.type.shape for v in found.group("state")] == [()]


# -- what decides ------------------------------------------------------------------------------------------------------


def names(function, *args, wanted=(0, 1)):
    return {o.op.name for half in halves(function, *args, wanted=wanted)[1:] for o in program(half.block)}


def test_what_fits_is_kept():
    args = gt.constant(W), gt.constant(M)
    assert "checkpointed" not in names(gt.function(scanned, memory_limit=10**4), *args)
    assert "checkpointed" in names(gt.function(scanned, memory_limit=100), *args)
    assert "checkpointed" not in names(gt.function(scanned), *args)


def test_the_number_of_steps_run_again_is_bounded(monkeypatch):
    ran = []
    plan = checkpointing.plan
    monkeypatch.setattr(checkpointing, "plan", lambda *args: ran.append(plan(*args)) or ran[-1])
    x, n = gt.constant(np.float64(0.3)), gt.constant(2000)
    for limit in (0, 10**3, 10**4, 10**6):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.function(steps, memory_limit=limit)(x, n)
        tape.gradient(y, x)
    assert len(ran) == 4
    assert [way.advances for way in ran] == sorted((way.advances for way in ran), reverse=True)
    assert ran[0].advances <= 2000 * math.ceil(math.log2(2000))
    assert ran[-1].advances == 0


@pytest.mark.filterwarnings("default::gradtape.GradientWarning")
def test_a_limit_that_cannot_be_met_is_said_once_with_the_floor():
    x, n = gt.constant(np.linspace(0.1, 1.0, 10)), gt.constant(1000)
    f = gt.function(steps, memory_limit=100)

    def run_twice():
        for _ in range(2):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x, n)
            tape.gradient(y, x)

    text = r"memory_limit cannot be met.* 1000 iterations, and \d+ bytes are used"
    with pytest.warns(gt.GradientWarning, match=text) as said:
        run_twice()
    assert len(said) == 1
    assert said[0].filename == __file__


@pytest.mark.parametrize("bad", [-1, 1.5, True, "1"])
def test_a_limit_is_a_number_of_bytes(bad):
    with pytest.raises(ValueError, match="memory_limit is a number of bytes"):
        gt.function(steps, memory_limit=bad)
    with pytest.raises(ValueError, match="memory_limit is a number of bytes"):
        gt.recompute_grad(steps, memory_limit=bad)


def test_a_function_called_by_another_keeps_its_limit():
    inner = gt.function(unknown_count, memory_limit=0)

    @gt.function
    def outer(w, m):
        return inner(w, m) * 2.0

    assert "checkpointed" in names(outer, gt.constant(W), gt.constant(M))
    expected = gradient(gt.function(lambda w, m: unknown_count(w, m) * 2.0))
    assert all(np.array_equal(a, b) for a, b in zip(gradient(outer), expected, strict=True))


def test_explain_tells_of_loops_that_run_again():
    f = gt.function(unknown_count, memory_limit=0)
    gradient(f)
    assert "1 loops are run again in parts, within 0 bytes" in str(f.explain())


def test_unknown_sizes():
    @gt.function(input_signature=[gt.TensorSpec([None], gt.float64), gt.TensorSpec([], gt.int32)], memory_limit=500)
    def limited(x, n):
        return steps(x, n)

    for size in (3, 20):
        x, n = gt.constant(np.linspace(0.1, 1.0, size)), gt.constant(50)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, z = limited(x, n), gt.function(steps)(x, n)
        assert np.array_equal(tape.gradient(y, x).numpy(), tape.gradient(z, x).numpy())


# -- effects -----------------------------------------------------------------------------------------------------------


def test_effects_run_once(capsys):
    calls = []

    def seen(v):
        calls.append(float(v))
        return np.float64(v * 2.0)

    def f(w, m):
        s = m[0]
        for v in w:
            print("at", v)
            assert gt.reduce_sum(s) < 1e9
            s = gt.tanh(s * v + gt.numpy_function(seen, [v], gt.TensorSpec([], gt.float64)))
        return gt.reduce_sum(s * s)

    expected = gradient(gt.function(f))
    calls.clear()
    capsys.readouterr()
    actual = gradient(gt.function(f, memory_limit=0))
    assert all(np.array_equal(a, b) for a, b in zip(actual, expected, strict=True))
    assert calls == list(W)
    assert capsys.readouterr().out.count("at gt.Tensor") == len(W)


def test_an_inner_effect_is_a_reason_not_to_run_again_and_is_said():
    def f(w, m):
        s = m[0]
        for v in w:
            for u in w:
                s = gt.tanh(s * v + u * gt.random.normal((3,), dtype=gt.float64))
        return gt.reduce_sum(s * s)

    with pytest.warns(gt.GradientWarning, match="draw_key .* cannot run twice"):
        actual = gradient(gt.function(f, memory_limit=0))
    assert all(np.array_equal(a, b) for a, b in zip(actual, gradient(gt.function(f)), strict=True))


def test_an_error_in_the_second_run_names_the_users_line():
    def f(w, m):
        s = w
        for _ in gt.range(gt.cast(w[0] * 10.0, gt.int32)):
            s = gt.sin(s)
        return gt.reduce_sum(s)

    found = gradient(gt.function(f, memory_limit=0))
    assert all(np.array_equal(a, b) for a, b in zip(found, gradient(gt.function(f)), strict=True))


# -- recompute_grad ----------------------------------------------------------------------------------------------------


def test_recompute_grad_has_a_limit_of_its_own():
    def loop(w, m):
        s = m[0]
        for v in w:
            s = gt.tanh(gt.linalg.matvec(m, s) + v)
        return s

    def using(limit):
        @gt.function
        def f(w, m):
            return gt.reduce_sum(gt.recompute_grad(loop, memory_limit=limit)(w, m) ** 2)

        return f

    args = gt.constant(W), gt.constant(M)
    assert "checkpointed" in names(using(0), *args)
    assert "checkpointed" not in names(using(None), *args)
    expected = gradient(using(None))
    for limit in (0, 500, 10**6):
        assert all(np.array_equal(a, b) for a, b in zip(gradient(using(limit)), expected, strict=True))


def test_recompute_grad_in_eager_code():
    def f(x):
        s = x
        for _ in range(100):
            s = gt.sin(s) * 1.1 + x
        return gt.reduce_sum(s * s)

    x = gt.constant(np.linspace(0.1, 1.0, 50))

    def gradient_of(function):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x).numpy()

    assert np.array_equal(gradient_of(gt.recompute_grad(f, memory_limit=40_000)), gradient_of(f))


# -- the operation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nested, collects, scanned_backwards])
def test_its_text_parses_back(make):
    _, _, backward = halves(gt.function(make, memory_limit=0), gt.constant(W), gt.constant(M), wanted=(0, 1))
    verify(backward.block)
    text = to_text(backward.block)
    assert "checkpointed" in text
    assert to_text(parse(text, op_by_name)) == text
