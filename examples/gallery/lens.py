"""A lens designed by tracing rays

Rays refract at two surfaces, each a polynomial of even powers. Where a ray meets a surface is found by Newton's method
in a `while` loop; the spot they make on the screen is made small by Gauss and Newton's method with the exact Jacobian.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from _command import run

import gradtape as gt

GLASS, THICK, SCREEN = 1.5, 0.5, 4.0


def sag(c: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
    return c[0] * y**2 + c[1] * y**4 + c[2] * y**6


def slope(c: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
    return 2.0 * c[0] * y + 4.0 * c[1] * y**3 + 6.0 * c[2] * y**5


def meet(c: gt.Tensor, place: float, x: gt.Tensor, y: gt.Tensor, dx: gt.Tensor, dy: gt.Tensor) -> tuple[gt.Tensor, gt.Tensor]:
    """Where rays from (x, y) along (dx, dy) meet the surface x = place + sag(y)."""
    t = (place - x) / dx
    gap = x + t * dx - place - sag(c, y + t * dy)
    turns = 0
    while gt.reduce_max(abs(gap)) > 1e-13 and turns < 20:
        t = t - gap / (dx - slope(c, y + t * dy) * dy)
        turns += 1
        gap = x + t * dx - place - sag(c, y + t * dy)
    return x + t * dx, y + t * dy


def refract(c: gt.Tensor, y: gt.Tensor, dx: gt.Tensor, dy: gt.Tensor, ratio: float) -> tuple[gt.Tensor, gt.Tensor]:
    """Snell's law at the surface's normal."""
    m = slope(c, y)
    length = gt.sqrt(1.0 + m**2)
    nx, ny = -1.0 / length, m / length
    cosine = -(nx * dx + ny * dy)
    inside = gt.sqrt(1.0 - ratio**2 * (1.0 - cosine**2))
    return ratio * dx + (ratio * cosine - inside) * nx, ratio * dy + (ratio * cosine - inside) * ny


@gt.function
def trace(c: gt.Tensor, heights: gt.Tensor) -> gt.Tensor:
    x, y = gt.zeros_like(heights) - 0.5, heights
    dx, dy = gt.ones_like(heights), gt.zeros_like(heights)
    points = [gt.stack([x, y])]
    for surface, place, ratio in ((c[0], 0.0, 1.0 / GLASS), (c[1], THICK, GLASS)):
        x, y = meet(surface, place, x, y, dx, dy)
        points.append(gt.stack([x, y]))
        dx, dy = refract(surface, y, dx, dy, ratio)
    points.append(gt.stack([gt.zeros_like(x) + SCREEN, y + (SCREEN - x) / dx * dy]))
    return gt.stack(points)


def solve(quick: bool) -> dict[str, Any]:
    heights = gt.constant(np.linspace(-0.9, 0.9, 11 if quick else 31))

    @gt.function
    def miss(flat: gt.Tensor) -> gt.Tensor:
        return trace(gt.reshape(flat, (2, 3)), heights)[-1, 1]

    sphere = np.array([[0.14, 0.0, 0.0], [-0.14, 0.0, 0.0]])
    slopes = gt.jacobian(miss)
    answer = scipy.optimize.least_squares(
        lambda c: miss(gt.constant(c)).numpy(),
        sphere.ravel(),
        jac=lambda c: slopes(gt.constant(c)).numpy(),
        xtol=1e-15,
        ftol=1e-15,
        max_nfev=50,
    )
    before, after = (float(np.sqrt(np.mean(miss(gt.constant(c.ravel())).numpy() ** 2))) for c in (sphere, answer.x))
    assert after < 0.02 * before, (before, after)
    paths = [trace(gt.constant(c.reshape(2, 3)), heights).numpy() for c in (sphere, answer.x)]
    return {"summary": f"spot {before:.3f} → {after:.1e}", "paths": paths, "shapes": [sphere, answer.x.reshape(2, 3)]}


def draw(left: Any, right: Any, paths: Any, shapes: Any) -> None:
    y = np.linspace(-1.0, 1.0, 100)
    for axes, path, shape, title in zip((left, right), paths, shapes, ("parabolas", "found"), strict=True):
        axes.plot(path[:, 0], path[:, 1], c="tab:red", lw=0.5)
        for c, place in zip(shape, (0.0, THICK), strict=True):
            axes.plot(place + np.asarray(sag(c, y)), y, c="tab:blue", lw=2)
        axes.axvline(SCREEN, c="k", lw=1)
        axes.set_title(title)


if __name__ == "__main__":
    run(solve, draw, columns=2)
