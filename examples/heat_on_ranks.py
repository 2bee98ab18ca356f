"""Which heat source, given where it was measured? A plate whose rows are split over ranks, and the gradient through all steps.

`gradtape launch -n 4 examples/heat_on_ranks.py`: every rank has a block of rows; before each step neighbours exchange edges
inside the compiled loop, and the backward pass exchanges cotangents the same way. On one rank it is the undivided program.
"""

import numpy as np

import gradtape as gt

SIDE, STEPS = 24, 100
ranks = gt.distribute


@gt.function
def diffuse(u: gt.Tensor, conductivity: gt.Tensor) -> gt.Tensor:
    for _ in gt.range(STEPS):
        v = gt.pad(ranks.halo_exchange(u), [[0, 0], [1, 1]])
        u = u + conductivity * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * u)
    return u


def main() -> float:
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    whole = np.exp(-40 * ((x - 0.3) ** 2 + (y - 0.6) ** 2))
    own = np.array_split(np.arange(SIDE), ranks.size())[ranks.rank()]  # 24 rows: any number of ranks that divides it
    measured = diffuse(gt.constant(whole[own]), gt.constant(np.float64(0.2)))

    start = gt.Variable(np.zeros_like(whole[own]))  # local: every rank estimates its own rows
    conductivity = ranks.replicated(np.float64(0.15))  # one number, of which all ranks know a part
    for step in range(41):
        with gt.GradientTape() as tape:
            tape.watch(conductivity)
            misfit = ranks.all_reduce(gt.reduce_sum((diffuse(start, conductivity) - measured) ** 2))
        slope_start, slope_conductivity = tape.gradient(misfit, [start, conductivity])
        start.assign_sub(0.4 * slope_start)
        conductivity = ranks.replicated(conductivity - 1e-4 * slope_conductivity)
        if step % 10 == 0 and ranks.rank() == 0:
            print(f"step {step:2d}   misfit {float(misfit.numpy()):.6f}   conductivity {float(conductivity.numpy()):.4f}")
    assert float(misfit.numpy()) < 0.05
    return float(misfit.numpy())


if __name__ == "__main__":
    main()
