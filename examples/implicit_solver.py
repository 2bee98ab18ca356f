"""Differentiate through solvers that run until they have converged: Newton's method and bisection.

Kepler's equation M = E - e sin E has no closed solution E(M, e), but the implicit function theorem gives its derivatives:
dE/dM = 1 / (1 - e cos E) and dE/de = sin E / (1 - e cos E). The tape finds the same numbers by following the loop.
"""

import math

import numpy as np

import gradtape as gt


def newton(mean, eccentricity):
    """E by Newton's method; how many rounds it takes depends on the values."""
    e, rounds = mean, 0
    change = gt.constant(np.float64(1.0))
    while abs(change) > 1e-14:
        change = (e - eccentricity * gt.sin(e) - mean) / (1.0 - eccentricity * gt.cos(e))
        e = e - change
        rounds += 1
    return e, rounds


def bisection_then_newton(mean, eccentricity):
    """E found by halving an interval, a loop of branches, then polished by one Newton step that carries the derivative."""
    low, high, rounds = mean - 1.0, mean + 1.0, 0
    while high - low > 1e-10:
        middle = (low + high) / 2
        if middle - eccentricity * gt.sin(middle) < mean:
            low = middle
        else:
            high = middle
        rounds += 1
    e = gt.stop_gradient((low + high) / 2)
    return e - (e - eccentricity * gt.sin(e) - mean) / (1.0 - eccentricity * gt.cos(e)), rounds


def main() -> float:
    worst = 0.0
    for solve in (newton, bisection_then_newton):
        mean, eccentricity = gt.Variable(np.float64(0.8)), gt.Variable(np.float64(0.6))
        with gt.GradientTape() as tape:
            e, rounds = solve(mean, eccentricity)
        found = [float(g) for g in tape.gradient(e, [mean, eccentricity])]
        bottom = 1.0 - 0.6 * math.cos(float(e))
        exact = [1.0 / bottom, math.sin(float(e)) / bottom]
        error = max(abs(a - b) for a, b in zip(found, exact, strict=True))
        worst = max(worst, error)
        print(f"{solve.__name__}: E = {float(e):.12f} after {rounds} rounds")
        print(f"   dE/dM = {found[0]:.12f}, dE/de = {found[1]:.12f}; off the exact ones by {error:.1e}")
    assert worst < 1e-8
    return worst


if __name__ == "__main__":
    main()
