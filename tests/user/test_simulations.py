"""Programs people write to compute something: physics, statistics, numerics, and the Python around them."""

from __future__ import annotations

import contextlib
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse.linalg

import gradtape as gt
from tests.tape.util import TOLERANCE, check_orders, close, numeric_gradient, tape_gradient, wide

RNG = np.random.default_rng(11)


def checked(f, x):
    close(tape_gradient(f, x), numeric_gradient(f, x), TOLERANCE)


def test_runge_kutta_solver_with_a_fixed_step():
    def pendulum(p):
        state = gt.stack([p[0], gt.zeros((), gt.float64)])

        def slope(s):
            return gt.stack([s[1], -p[1] * gt.sin(s[0])])

        for _ in range(20):
            k1 = slope(state)
            k2 = slope(state + 0.05 * k1)
            k3 = slope(state + 0.05 * k2)
            k4 = slope(state + 0.1 * k3)
            state = state + (0.1 / 6.0) * (k1 + 2 * k2 + 2 * k3 + k4)
        return state[0] ** 2

    check_orders(pendulum, [0.5, 2.0])


def test_adaptive_solver_with_data_dependent_steps():
    def decay(p):
        y, t, h = p[0] * 1.0, 0.0, 0.5
        while t < 2.0:
            step = min(h, 2.0 - t)
            euler = y - step * p[1] * y
            middle = y - 0.5 * step * p[1] * y
            heun = y - step * p[1] * middle
            if float(abs(heun - euler)) > 0.02:
                h = step / 2
                continue
            y, t, h = heun, t + step, h * 1.5
        return y**2

    checked(decay, [1.3, 0.9])


def test_scipy_integrates_and_gradtape_gives_the_jacobian():
    def rhs(y):
        return gt.stack([y[0] * (1.0 - y[1]), y[1] * (y[0] - 1.0)])

    jacobian = gt.jacobian(rhs)
    solution = scipy.integrate.solve_ivp(
        lambda t, y: rhs(gt.constant(y)).numpy(), (0, 1), [1.5, 0.5], method="BDF",
        jac=lambda t, y: np.asarray(jacobian(gt.constant(y))),
    )  # fmt: skip
    assert solution.success


def test_heat_equation_in_place():
    def energy(source):
        u = gt.zeros((8,), gt.float64)
        for _ in range(10):
            u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2]) + source
        return gt.reduce_sum(u**2)

    check_orders(energy, RNG.normal(size=6))


def test_bouncing_ball_with_branches():
    def height(p):
        y, v = p[0] * 1.0, p[1] * 1.0
        for _ in range(50):
            v -= 9.81 * 0.02
            y += v * 0.02
            if y < 0:
                y, v = -y, -0.8 * v
        return y

    checked(height, [1.0, 0.5])


def test_n_body_energy_and_forces():
    masses = np.array([1.0, 2.0, 0.5])

    def potential(x):
        d = x[:, None, :] - x[None, :, :]
        r2 = gt.reduce_sum(d**2, axis=-1) + np.eye(3)
        pairs = masses[:, None] * masses / gt.sqrt(r2)
        return -0.5 * gt.reduce_sum(gt.linalg.set_diag(pairs, gt.zeros(3, gt.float64)))

    check_orders(potential, RNG.normal(size=(3, 2)))


def test_leapfrog_hamiltonian_monte_carlo_step():
    def log_p(q):
        return -0.5 * gt.reduce_sum(q**2 * [1.0, 4.0])

    q, p = wide([0.3, 0.1]), wide([0.5, -0.4])
    energy = float(-log_p(q) + 0.5 * gt.reduce_sum(p**2))
    slope = gt.grad(log_p)
    for _ in range(50):
        p = p + 0.01 * slope(q)
        q = q + 0.02 * p
        p = p + 0.01 * slope(q)
    assert abs(float(-log_p(q) + 0.5 * gt.reduce_sum(p**2)) - energy) < 1e-3


def test_gaussian_process_marginal_likelihood():
    x, y = np.linspace(0, 1, 6), RNG.normal(size=6)

    def negative(p):
        length, noise = gt.exp(p[0]), gt.exp(p[1])
        k = gt.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise * np.eye(6)
        chol = gt.linalg.cholesky(k)
        alpha = gt.linalg.cholesky_solve(chol, y[:, None])
        return 0.5 * gt.reduce_sum(y * alpha[:, 0]) + gt.reduce_sum(gt.math.log(gt.linalg.diag_part(chol)))

    check_orders(negative, [-1.0, -1.5])


def test_kalman_filter_likelihood():
    observations = RNG.normal(size=12).cumsum()
    transition = np.array([[1.0, 0.1], [0.0, 1.0]])

    def negative(p):
        mean, cov = gt.zeros((2,), gt.float64), gt.eye(2, dtype=gt.float64)
        q, r = gt.exp(p[0]) * gt.eye(2, dtype=gt.float64), gt.exp(p[1])
        total = gt.zeros((), gt.float64)
        for z in observations:
            mean, cov = gt.linalg.matvec(transition, mean), transition @ cov @ transition.T + q
            s = cov[0, 0] + r
            gain, error = cov[:, 0] / s, z - mean[0]
            mean, cov = mean + gain * error, cov - gt.tensordot(gain, cov[0], axes=0)
            total += 0.5 * (gt.math.log(s) + error**2 / s)
        return total

    checked(negative, [0.1, -0.4])


def test_expectation_maximisation_through_its_steps():
    data = np.r_[RNG.normal(-2, 1, 20), RNG.normal(2, 1, 20)]

    def fitted(start):
        means = start
        for _ in range(5):
            weights = gt.nn.softmax(-0.5 * (data[:, None] - means) ** 2, axis=1)
            means = gt.reduce_sum(weights * data[:, None], axis=0) / gt.reduce_sum(weights, axis=0)
        return gt.reduce_sum(means * [1.0, 3.0])

    checked(fitted, [-0.5, 0.6])


def test_viterbi_like_recursion_with_logsumexp():
    scores = RNG.normal(size=(6, 3))

    def partition(transitions):
        alpha = gt.constant(scores[0])
        for row in scores[1:]:
            alpha = gt.reduce_logsumexp(alpha[:, None] + transitions, axis=0) + row
        return gt.reduce_logsumexp(alpha)

    check_orders(partition, RNG.normal(size=(3, 3)))


def test_newton_method_with_hessian():
    def rosenbrock(x):
        return gt.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    x = wide([0.8, 0.7, 0.5])
    for _ in range(30):
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = rosenbrock(x)
        step = gt.linalg.solve(tape.hessian(y, x), tape.gradient(y, x)[:, None])[:, 0]
        x = x - step
    close(x, np.ones(3), 1e-8)


def test_hessian_free_conjugate_gradients():
    a = RNG.normal(size=(5, 5))
    a = a @ a.T + 5 * np.eye(5)
    b = RNG.normal(size=5)

    def f(x):
        return 0.5 * gt.reduce_sum(x * gt.linalg.matvec(a, x)) - gt.reduce_sum(b * x)

    def product(v):
        _, (hv,) = gt.hvp(f, [gt.zeros(5, gt.float64)], [gt.constant(v.ravel())])
        return hv.numpy()

    operator = scipy.sparse.linalg.LinearOperator((5, 5), matvec=product, dtype=np.float64)
    x, failed = scipy.sparse.linalg.cg(operator, b, rtol=1e-12)
    assert not failed
    close(x, np.linalg.solve(a, b), 1e-8)


def test_scipy_minimises_with_exact_gradients():
    value_and_grad = gt.value_and_grad(lambda x: gt.reduce_sum((x - [1.0, -2.0]) ** 4) + gt.reduce_sum(x**2))
    result = scipy.optimize.minimize(value_and_grad, np.zeros(2), jac=True, method="BFGS")
    assert result.success
    close(value_and_grad(result.x)[1], np.zeros(2), 1e-4)


def test_implicit_differentiation_of_a_root():
    @gt.custom_gradient
    def root(a):
        x = np.sqrt(a.numpy()) if np.all(a.numpy() > 0) else np.nan  # any solver outside the tape
        x = gt.constant(x)

        def grad(upstream):
            return upstream / (2.0 * root(a))  # x² = a ⇒ dx/da = 1 / 2x, differentiable again

        return x, grad

    check_orders(lambda a: gt.reduce_sum(root(a) ** 3), [2.0, 0.5])


def test_fixed_point_iteration_until_it_converges():
    def fixed(p):
        x = gt.ones((), gt.float64)
        change = 1.0
        while change > 1e-13:
            new = gt.cos(p[0] * x)
            change, x = abs(float(new - x)), new
        return x

    checked(fixed, [0.7])


def test_fft_loss_and_complex_parameters():
    signal = RNG.normal(size=16)

    def loss(w):
        spectrum = gt.signal.rfft(signal * w)
        return gt.reduce_sum(gt.abs(spectrum) ** 2 * np.linspace(0, 1, 9))

    check_orders(loss, RNG.normal(size=16))


def test_complex_gradient_descent_finds_the_root():
    z = gt.Variable(1.0 + 1.0j, dtype=gt.complex128)
    optimizer = gt.optimizers.SGD(0.05)
    for _ in range(300):
        with gt.GradientTape() as tape:
            loss = gt.abs(z * z + 4.0) ** 2
        optimizer.apply_gradients([(tape.gradient(loss, z), z)])
    close(z.numpy(), 2.0j, 1e-6)


def test_quantum_state_evolution():
    pauli = np.array([[0, 1], [1, 0]], np.complex128)

    def excited(p):
        h = gt.cast(p[0], gt.complex128) * pauli + gt.cast(p[1], gt.complex128) * np.diag([1.0, -1.0]).astype(np.complex128)
        state = gt.linalg.matvec(gt.linalg.expm(-1j * h), gt.constant(np.array([1.0, 0.0], np.complex128)))
        return gt.abs(state[1]) ** 2

    checked(excited, [0.7, 0.3])


def test_rendering_with_masks_and_sorting():
    def image(depths):
        order = gt.argsort(depths)
        colours = gt.gather(gt.constant(np.array([1.0, 2.0, 3.0])), order)
        alphas = gt.sigmoid(gt.gather(depths, order))
        through = gt.math.cumprod(1.0 - alphas, exclusive=True)
        return gt.reduce_sum(colours * alphas * through)

    check_orders(image, [0.3, -0.2, 0.9])


def test_optimal_transport_by_sinkhorn():
    cost = RNG.random((4, 5))

    def transport(c):
        f, g = gt.zeros(4, gt.float64), gt.zeros(5, gt.float64)
        for _ in range(10):
            f = -0.1 * gt.reduce_logsumexp((g[None, :] - c) / 0.1, axis=1) + 0.1 * np.log(0.25)
            g = -0.1 * gt.reduce_logsumexp((f[:, None] - c) / 0.1, axis=0) + 0.1 * np.log(0.2)
        return gt.reduce_sum(gt.exp((f[:, None] + g - c) / 0.1) * c)

    checked(transport, cost)


def test_option_price_greeks():
    def price(p):
        spot, sigma, rate = p[0], p[1], p[2]
        d1 = (gt.math.log(spot / 100.0) + (rate + 0.5 * sigma**2)) / sigma
        cdf = lambda x: 0.5 * gt.math.erfc(-x / np.sqrt(2.0))  # noqa: E731  (as in a notebook)
        return spot * cdf(d1) - 100.0 * gt.exp(-rate) * cdf(d1 - sigma)

    check_orders(price, [105.0, 0.2, 0.03])


def test_numpy_code_runs_unchanged():
    def model(x):
        y = np.sin(x) * np.exp(-(x**2))
        z = np.concatenate([y, np.cumsum(y)])
        return np.sum(np.where(z > 0, z, 0.1 * z)) + np.linalg.norm(x) + np.einsum("i,i", x, y) + np.dot(x, x)

    check_orders(model, [0.3, -0.8, 1.2])


def test_generators_and_comprehensions():
    def windows(x, n):
        for i in range(len(x) - n + 1):
            yield x[i : i + n]

    def loss(x):
        return sum(gt.reduce_prod(w) for w in windows(x, 3)) + max(w[0] * w[1] for w in windows(x, 2))

    checked(loss, [0.3, 1.2, -0.7, 0.9])


def test_python_builtins_on_tensors():
    def f(x):
        a, b, *rest = x
        return sum([a * b, abs(rest[0]), pow(a, 2), divmod(b, 0.8)[1], round(a), -b, +a]) / len(x)

    x = [1.3, 2.1, -0.4]
    checked(f, x)


def test_threads_share_a_model():
    w = gt.Variable(RNG.normal(size=3))

    def work(seed):
        x = np.random.default_rng(seed).normal(size=3)
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(gt.sin(w * x))
        return tape.gradient(y, w).numpy(), np.cos(w.numpy() * x) * x

    with ThreadPoolExecutor(4) as pool:
        for found, expected in pool.map(work, range(200)):
            close(found, expected)


def test_a_tape_in_a_generator_does_not_leak_into_the_caller():
    def steps(v):
        with gt.GradientTape() as tape:
            y = v**2
            yield tape.gradient(y, v)

    v = gt.Variable(3.0)
    close(next(steps(v)), np.float32(6.0))
    with gt.GradientTape() as tape:
        z = v * 2.0
    close(tape.gradient(z, v), np.float32(2.0))


def test_long_loop_under_a_memory_limit():
    x = wide(RNG.normal(size=20_000))
    expected = None
    for limit in (None, 4_000_000):
        with gt.GradientTape(memory_limit=limit) as tape:
            tape.watch(x)
            y = x
            for _ in range(60):
                y = gt.sin(y) + 0.1 * x
            loss = gt.reduce_sum(y)
        g = tape.gradient(loss, x).numpy()
        expected = g if expected is None else expected
        close(g, expected)


def test_recompute_in_a_deep_stack():
    w = gt.Variable(RNG.normal(size=(6, 6)) * 0.3)
    x = gt.constant(RNG.normal(size=(4, 6)))

    def block(h):
        return gt.tanh(h @ w) + h

    def loss(layer):
        with gt.GradientTape() as tape:
            h = x
            for _ in range(8):
                h = layer(h)
            y = gt.reduce_sum(h**2)
        return tape.gradient(y, w)

    close(loss(gt.recompute_grad(block)), loss(block))


def test_forward_mode_sensitivity_of_a_simulation():
    def simulate(k):
        x = gt.ones((3,), gt.float64)
        for _ in range(30):
            x = x + 0.05 * gt.sin(k * x)
        return x

    k = gt.constant(np.float64(1.3))
    with gt.autodiff.ForwardAccumulator(k, gt.ones_like(k)) as acc:
        y = simulate(k)
    with gt.GradientTape() as tape:
        tape.watch(k)
        z = simulate(k)
    close(acc.jvp(y), tape.jacobian(z, k).numpy())


def test_total_outside_the_tape_and_logging():
    w = gt.Variable(0.5)
    total, out = 0.0, io.StringIO()
    for step in range(20):
        with gt.GradientTape() as tape:
            loss = (w - 3.0) ** 2
        w.assign_sub(0.1 * tape.gradient(loss, w))
        total += loss
        with contextlib.redirect_stdout(out):
            print(f"step {step:3d} loss {loss:8.4f} mean {total / (step + 1):.3f}")
    assert "step   0 loss   6.2500 mean 6.250" in out.getvalue()
    assert w.numpy() == pytest.approx(3.0, abs=0.05)


def test_gumbel_softmax_straight_through():
    logits = gt.Variable(np.array([0.1, 0.5, -0.3]))
    noise = -np.log(-np.log(RNG.random(3)))
    with gt.GradientTape() as tape:
        soft = gt.nn.softmax((logits + noise) / 0.5)
        hard = gt.one_hot(gt.argmax(soft), 3, dtype=gt.float64)
        y = gt.reduce_sum((hard + soft - gt.stop_gradient(soft)) * [1.0, 2.0, 3.0])
    s = soft.numpy()
    close(tape.gradient(y, logits), s * ([1.0, 2.0, 3.0] - s @ [1.0, 2.0, 3.0]) / 0.5)


def test_bilevel_optimisation_through_an_optimizer():
    rate = gt.Variable(0.1, dtype=gt.float64)
    w = gt.Variable(2.0, dtype=gt.float64)
    with gt.GradientTape(through_assignments=True) as outer:
        for _ in range(3):
            with gt.GradientTape() as inner:
                loss = w**4 / 4
            w.assign_sub(rate * inner.gradient(loss, w))
        final = w**2

    def by_hand(r):
        x = gt.constant(np.float64(2.0))
        for _ in range(3):
            x = x - r[0] * x**3
        return x**2

    close(outer.gradient(final, rate), numeric_gradient(by_hand, [0.1])[0], TOLERANCE)


def test_callbacks_in_other_threads_do_not_record():
    v = gt.Variable(2.0)
    log = []
    with gt.GradientTape() as tape:
        y = v * v
        worker = threading.Thread(target=lambda: log.append(float(y * 3)))
        worker.start()
        worker.join()
    close(tape.gradient(y, v), np.float32(4.0))
    assert log == [12.0]
