"""Numerics: root finders, linear solvers, factorisations, quadrature, series, recurrences and optimisers written by hand."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

MATRIX = [[2.0, 0.3, -0.2], [0.1, 1.7, 0.4], [0.3, -0.5, 2.2]]
SYMMETRIC = [[2.0, 0.3, -0.2], [0.3, 1.7, 0.4], [-0.2, 0.4, 2.2]]
VECTOR = [0.7, -0.4, 1.1]


@zoo([(2.0,), (7.3,)])
def newton_square_root(a):
    x = a
    for _ in range(8):
        x = 0.5 * (x + a / x)
    return x


@zoo([(2.0,), (7.3,)])
def newton_until_converged(a):
    x = a * 0.5 + 1.0
    while abs(x * x - a) > 1e-3:
        x = 0.5 * (x + a / x)
    return x


@zoo([(0.3, 0.8), (0.9, 0.1)])
def newton_with_a_tape_inside(a, b):
    x = gt.constant(0.5, gt.float64)
    for _ in gt.range(4):
        with gt.GradientTape() as tape:
            tape.watch(x)
            f = x**3 + a * x - b
        x = x - f / tape.gradient(f, x)
    return x


@zoo([(0.55,), (0.2,)])
def fixed_point_of_cosine(a):
    x = a
    n = 0
    while n < 30:
        new = gt.cos(x * a)
        if abs(new - x) < 1e-2:
            break
        x = new
        n += 1
    return x * a


@zoo([(2.0, 0.0, 3.0), (5.0, 1.0, 4.0)], order=0)
def bisection(a, low, high):
    for _ in range(20):
        middle = 0.5 * (low + high)
        if middle * middle < a:
            low = middle
        else:
            high = middle
    return low


@zoo([(2.0,), (5.0,)])
def secant_method(a):
    x0, x1 = a * 0.5, a
    for _ in range(5):
        f0, f1 = x0 * x0 - a, x1 * x1 - a
        x0, x1 = x1, x1 - f1 * (x1 - x0) / (f1 - f0)
    return x1


@zoo([([1.0, -0.5, 0.25, 2.0], 0.7), ([1.0], 0.7)])
def horner(coefficients, x):
    acc = x * 0.0
    for c in coefficients:
        acc = acc * x + c
    return acc


@zoo([(0.7, 6), (0.7, 1)])
def taylor_series_of_exp(x, n):
    term, total = 1.0, 1.0
    for k in range(1, n):
        term = term * x / k
        total = total + term
    return total


@zoo([(0.7,), (-1.2,)])
def taylor_until_small(x):
    term, total, k = x, x, 1.0
    while abs(term) > 1e-3:
        k = k + 1.0
        term = term * x / k
        total = total + term
    return total


@zoo([(1.0, 0.4), (1.7, 1.2)])
def arithmetic_geometric_mean(a, b):
    while abs(a - b) > 1e-4:
        a, b = 0.5 * (a + b), gt.sqrt(a * b)
    return a


@zoo([(0.4, 5), (1.3, 3)])
def continued_fraction(x, depth):
    y = 1.0
    for k in range(depth, 0, -1):
        y = 1.0 + k * x / y
    return y


@zoo([(0.4, 3), (0.9, 5), (0.9, 0)])
def chebyshev_recurrence(x, n):
    previous, current = 1.0, x
    if n == 0:
        return x * 0.0 + 1.0
    for _ in range(n - 1):
        previous, current = current, 2.0 * x * current - previous
    return current


@zoo([(0.2, 1.4), (-0.7, 0.3)])
def simpson_rule(a, b):
    n = 6
    h = (b - a) / n
    total = gt.exp(-a * a) + gt.exp(-b * b)
    for i in range(1, n):
        weight = 4.0 if i % 2 else 2.0
        total += weight * gt.exp(-((a + i * h) ** 2))
    return total * h / 3.0


@zoo([(0.2, 1.4, np.int32(5))])
def trapezoid_with_a_tensor_count(a, b, n):
    h = (b - a) / gt.cast(n, gt.float64)
    total = 0.5 * (gt.sin(a) + gt.sin(b))
    for i in gt.range(1, n):
        total = total + gt.sin(a + gt.cast(i, gt.float64) * h)
    return total * h


@zoo([(MATRIX, VECTOR)])
def jacobi_iteration(m, b):
    d = gt.linalg.diag_part(m)
    x = b / d
    for _ in range(6):
        x = (b - m @ x + d * x) / d
    return x


@zoo([(MATRIX, VECTOR)])
def gauss_seidel_in_place(m, b):
    x = gt.zeros([3], gt.float64)
    for _ in gt.range(4):
        for i in range(3):
            s = b[i]
            for j in range(3):
                if j != i:
                    s = s - m[i, j] * x[j]
            x[i] = s / m[i, i]
    return x


@zoo([(MATRIX, VECTOR)])
def gaussian_elimination(m, b):
    a = m * 1.0
    x = b * 1.0
    for k in range(3):
        for i in range(k + 1, 3):
            f = a[i, k] / a[k, k]
            a[i] -= f * a[k]
            x[i] -= f * x[k]
    for k in reversed(range(3)):
        x[k] = (x[k] - gt.reduce_sum(a[k, k + 1 :] * x[k + 1 :])) / a[k, k]
    return x


@zoo([(SYMMETRIC,)])
def cholesky_by_hand(m):
    lower = gt.zeros([3, 3], gt.float64)
    for i in range(3):
        for j in range(i + 1):
            s = m[i, j] - gt.reduce_sum(lower[i, :j] * lower[j, :j])
            if i == j:
                lower[i, j] = gt.sqrt(s)
            else:
                lower[i, j] = s / lower[j, j]
    return lower


@zoo([(SYMMETRIC, np.int32(3))])
def cholesky_in_staged_loops(m, n):
    lower = gt.zeros([3, 3], gt.float64)
    for i in gt.range(n):
        for j in gt.range(i + 1):
            s = m[i, j]
            for k in gt.range(j):
                s -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, j] = gt.sqrt(s)
            else:
                lower[i, j] = s / lower[j, j]
    return lower


@zoo([(MATRIX,)])
def gram_schmidt(m):
    basis = []
    for v in m:
        for q in basis:
            v = v - gt.reduce_sum(q * v) * q
        basis.append(v / gt.sqrt(gt.reduce_sum(v * v)))
    return gt.stack(basis)


@zoo([(SYMMETRIC, VECTOR)])
def power_iteration(m, v):
    for _ in gt.range(5):
        v = gt.linalg.matvec(m, v)
        v = v / gt.sqrt(gt.reduce_sum(v * v))
    return gt.reduce_sum(v * gt.linalg.matvec(m, v))


@zoo([(SYMMETRIC, VECTOR)])
def conjugate_gradients(m, b):
    x = b * 0.0
    r = b
    p = r
    rs = gt.reduce_sum(r * r)
    k = 0
    while rs > 1e-3 and k < 3:
        mp = gt.linalg.matvec(m, p)
        alpha = rs / gt.reduce_sum(p * mp)
        x = x + alpha * p
        r = r - alpha * mp
        new = gt.reduce_sum(r * r)
        p = r + (new / rs) * p
        rs = new
        k += 1
    return x


@zoo([(MATRIX, 5), (MATRIX, 0), (MATRIX, 1)])
def matrix_power_by_squaring(m, n):
    result = gt.eye(3, dtype=gt.float64)
    while n:
        if n % 2:
            result = result @ m
        m = m @ m
        n //= 2
    return result * 0.01


@zoo([(0.9, np.int32(13)), (0.9, np.int32(0))])
def power_by_squaring_of_a_tensor_exponent(x, n):
    result = gt.ones([], gt.float64)
    while n > 0:
        if n % 2 == 1:
            result = result * x
        x = x * x
        n = n // 2
    return result


@zoo([([0.9, -0.4],), ([2.0, 1.0],)])
def gradient_descent_by_hand(p):
    x, y = p
    for _ in gt.range(5):
        gx = 2.0 * (x - 1.0) + 0.3 * y
        gy = 4.0 * y + 0.3 * x
        x = x - 0.1 * gx
        y = y - 0.1 * gy
    return x * x + y


@zoo([([0.9, -0.4],), ([-1.3, 1.1],)])
def line_search_by_backtracking(p):
    def f(q):
        return gt.reduce_sum(q * q * q * q) + gt.reduce_sum(q * q)

    with gt.GradientTape() as tape:
        tape.watch(p)
        start = f(p)
    g = tape.gradient(start, p)
    step = 1.0
    while f(p - step * g) > start - 0.1 * step * gt.reduce_sum(g * g):
        step = step * 0.5
    return p - step * g


@zoo([(0.3, 1.1), (2.1, 0.2)])
def golden_section_shrinks(a, b):
    for _ in range(4):
        c = b - 0.618 * (b - a)
        d = a + 0.618 * (b - a)
        if gt.cos(c) * c < gt.cos(d) * d:
            b = d
        else:
            a = c
    return a * b


@zoo([([0.0, 0.4, 1.0, 1.3], [0.2, 0.9, -0.3, 0.5], 0.7)])
def lagrange_interpolation(xs, ys, t):
    total = 0.0
    for i, (x, y) in enumerate(zip(xs, ys)):
        term = y
        for j, other in enumerate(xs):
            if i != j:
                term = term * (t - other) / (x - other)
        total += term
    return total


@zoo([([0.2, 0.9, -0.3, 0.5], 0.3), ([0.2, 0.9, -0.3, 0.5], 0.8)])
def de_casteljau(points, t):
    p = points
    for _ in range(3):
        p = (1.0 - t) * p[:-1] + t * p[1:]
    return p[0]


@zoo([(0.5, 1.2), (1.5, 0.4)])
def richardson_extrapolation(x, h):
    table = [[(gt.sin(x + h) - gt.sin(x - h)) / (2.0 * h)]]
    for i in range(1, 3):
        h = h * 0.5
        row = [(gt.sin(x + h) - gt.sin(x - h)) / (2.0 * h)]
        for j in range(i):
            row.append(row[j] + (row[j] - table[i - 1][j]) / (4.0 ** (j + 1) - 1.0))
        table.append(row)
    return table[-1][-1]


@zoo([([0.2, 0.9, -0.3, 0.5],)])
def discrete_fourier_transform_by_loops(v):
    real, imaginary = [], []
    for k in range(4):
        a, b = 0.0, 0.0
        for n in range(4):
            angle = 2.0 * np.pi * k * n / 4
            a = a + v[n] * np.cos(angle)
            b = b - v[n] * np.sin(angle)
        real.append(a)
        imaginary.append(b)
    return gt.stack(real) ** 2 + gt.stack(imaginary) ** 2


@zoo([(1.7, 0.4), (0.2, 1.9)])
def adaptive_quadrature(a, b):
    def f(t):
        return gt.exp(-t * t)

    def rule(lo, hi):
        return (hi - lo) / 6.0 * (f(lo) + 4.0 * f(0.5 * (lo + hi)) + f(hi))

    total = a * 0.0
    lo, h = a, (b - a) * 0.5
    count = 0
    while count < 6 and abs(b - lo) > 1e-6:
        if abs(rule(lo, lo + h) - rule(lo, lo + 0.5 * h) - rule(lo + 0.5 * h, lo + h)) > 1e-3:
            h = h * 0.5
        else:
            total = total + rule(lo, lo + h)
            lo = lo + h
        count += 1
    return total


@zoo([(0.3, 0.9), (1.3, -0.2)])
def complex_arithmetic_by_pairs(x, y):
    zr, zi = x * 0.0, x * 0.0
    n = 0
    while n < 6 and zr * zr + zi * zi < 4.0:
        zr, zi = zr * zr - zi * zi + 0.3 * x, 2.0 * zr * zi + 0.3 * y
        n += 1
    return zr * zi
