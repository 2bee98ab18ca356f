"""Programs as NumPy users write them (arrays made with np.empty and filled in loops, slices updated in place), unchanged, on
tensors under a tape: the right gradient, or a refusal that names the line. Never a wrong number.

Each program is written with `np` only. It makes its arrays with np.*_like where NumPy allows a tensor to come out, or with
np.zeros and np.empty, where it cannot: those are refused, and run once their arrays are tensors (`make` says how)."""

import re
import traceback

import numpy as np
import pytest

import gradtape as gt

RNG = np.random.default_rng(9)


def jacobi_1d(a, make):
    """A stencil in time, two arrays in turn."""
    b = make.like(a)
    for _ in range(4):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3.0
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3.0
    return np.sum(a * a)


def heat_2d(a, make):
    """A stencil in a plane."""
    for _ in range(3):
        a[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
    return np.sum(np.sin(a))


def seidel(a, make):
    """Element by element, each with the new values before it."""
    n = a.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0
    return np.mean(a**2)


def cholesky(a, make):
    """The factor, row by row, in an array of its own."""
    n = a.shape[0]
    m = a @ a.T + 3.0 * np.eye(n)
    f = make.empty((n, n), fill=0.0)
    for i in range(n):
        for j in range(i):
            f[i, j] = (m[i, j] - np.dot(f[i, :j], f[j, :j])) / f[j, j]
        f[i, i] = np.sqrt(m[i, i] - np.dot(f[i, :i], f[i, :i]))
    return np.sum(np.log(np.diag(f)))


def durbin(r, make):
    """Levinson's recursion: an array read backwards while it is written."""
    y = make.like(r)
    alpha, beta = -r[0], 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] = y[:k] + alpha * np.flip(y[:k])
        y[k] = alpha
    return np.sum(y)


def floyd_warshall(d, make):
    """Shortest paths in place."""
    d = np.abs(d) + 0.5
    for k in range(d.shape[0]):
        d[:] = np.minimum(d[:], np.add.outer(d[:, k], d[k, :]))
    return np.sum(d)


def nbody(p, make):
    """Accelerations filled particle by particle."""
    acc = make.like(p)
    vel = make.like(p)
    for _ in range(2):
        for i in range(p.shape[0]):
            off = p - p[i]
            far = np.sum(off * off, axis=1) + 0.1
            acc[i] = np.sum(off / far[:, None] ** 1.5, axis=0)
        vel[...] += 0.1 * acc
        p[...] += 0.1 * vel
    return np.sum(p * p)


def gram_schmidt(a, make):
    """Columns made orthogonal one after the other."""
    q = make.like(a)
    for k in range(a.shape[1]):
        column = a[:, k]
        for j in range(k):
            column = column - np.dot(q[:, j], a[:, k]) * q[:, j]
        q[:, k] = column / np.sqrt(np.sum(column**2))
    return np.sum(q[:, 0] * q[:, -1] + q[:, 1] ** 3)


def conv_2d(x, make):
    """A convolution by hand into an empty array."""
    kernel = np.arange(4.0).reshape(2, 2) / 4.0
    out = make.empty((x.shape[0] - 1, x.shape[1] - 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(x[i : i + 2, j : j + 2] * kernel)
    return np.sum(np.tanh(out))


def histories(x, make):
    """A recurrence whose steps are kept in an array."""
    path = make.empty(6)
    path[0] = x[0]
    for i in range(1, 6):
        path[i] = np.cos(path[i - 1]) * x[1] + x[2]
    return np.sum(path**2) + path[-1]


def thomas(d, make):
    """Tridiagonal equations, forwards and backwards."""
    n = d.shape[0]
    c, x = make.like(d), make.like(d)
    scale = 4.0 + d[0] * d[0]
    c[0], x[0] = 1.0 / scale, d[0] / scale
    for i in range(1, n):
        pivot = 4.0 + d[i] * d[i] - c[i - 1]
        c[i] = 1.0 / pivot
        x[i] = (d[i] - x[i - 1]) / pivot
    for i in range(n - 2, -1, -1):
        x[i] -= c[i] * x[i + 1]
    return np.dot(x, x)


def scan_rows(a, make):
    """Rows collected in a list, then made into one array."""
    rows = []
    state = a[0]
    for i in range(a.shape[0]):
        state = np.tanh(state + a[i])
        rows.append(state)
    return np.sum(make.stacked(rows) ** 2)


class Plain:
    """np.empty and np.zeros, as the program was written for arrays."""

    like = staticmethod(lambda x: np.zeros(x.shape))
    stacked = staticmethod(np.array)

    @staticmethod
    def empty(shape, fill=np.nan):
        return np.full(shape, fill)


class Carried:
    """Tensors in their place."""

    like = staticmethod(np.zeros_like)
    stacked = staticmethod(np.stack)

    @staticmethod
    def empty(shape, fill=0.0):
        return gt.fill(shape, gt.constant(fill, gt.float64))


PROGRAMS = {
    jacobi_1d: (8,), heat_2d: (5, 5), seidel: (4, 4), cholesky: (4, 4), durbin: (5,), floyd_warshall: (4, 4), nbody: (3, 2),
    gram_schmidt: (4, 3), conv_2d: (4, 4), histories: (3,), thomas: (5,), scan_rows: (3, 2),
}  # fmt: skip
IN_TENSORS_ONLY = {heat_2d, seidel, floyd_warshall}  # they write into their argument alone, which is a tensor


def slope(program, x, make):
    """The gradient under a tape, of a copy that the program may change."""
    source = gt.constant(x)
    with gt.GradientTape() as tape:
        tape.watch(source)
        y = program(np.copy(source), make)
    return y, tape.gradient(y, source)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_with_arrays_that_are_tensors_the_gradient_is_right(program):
    x = RNG.normal(size=PROGRAMS[program]) * 0.3
    y, gradient = slope(program, x, Carried)
    np.testing.assert_allclose(y, program(x.copy(), Plain), rtol=1e-12)
    h, expected = 1e-6, np.empty(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = h
        expected[place] = (program(x + step, Plain) - program(x - step, Plain)) / (2 * h)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_they_were_written_they_are_right_or_refused_with_the_line(program):
    x = RNG.normal(size=PROGRAMS[program]) * 0.3
    if program in IN_TENSORS_ONLY:
        np.testing.assert_array_equal(slope(program, x, Plain)[1], slope(program, x, Carried)[1])
        return
    with pytest.raises((TypeError, ValueError)) as caught:
        slope(program, x, Plain)
    error, text = caught.value, ""
    while error is not None:
        text += "".join(traceback.format_exception_only(error))
        error = error.__cause__
    first = program.__code__.co_firstlineno
    last = max(line for _, _, line in program.__code__.co_lines() if line is not None)
    lines = [int(n) for n in re.findall(rf"{re.escape(__file__)}:(\d+)", text)]
    assert any(first <= line <= last for line in lines), text
    assert re.search(r"np\.zeros_like|gt\.stack", text)
