"""An ODE solver with adaptive steps, compiled, and the parameters of a pendulum found from its measured motion.

The solver is a `while` loop: how many steps it takes, and how long they are, depends on the values. Rejected steps are tried
again with a shorter one. The gradient is that of the steps that were really taken, whatever their number.
"""

import numpy as np

import gradtape as gt


def pendulum(state, parameters):
    """θ'' = -ω² sin θ - γ θ'."""
    angle, speed = state
    return gt.stack([speed, -parameters[0] * gt.sin(angle) - parameters[1] * speed])


@gt.function
def solve(state, parameters, end, tolerance):
    """The state at time `end`, by the embedded pair of Bogacki and Shampine (orders 3 and 2)."""
    time, step = 0.0, 0.1
    taken, rejected = 0, 0
    slope = pendulum(state, parameters)
    while time < end:
        step = min(step, end - time)
        second = pendulum(state + 0.5 * step * slope, parameters)
        third = pendulum(state + 0.75 * step * second, parameters)
        proposal = state + step * (2.0 * slope + 3.0 * second + 4.0 * third) / 9.0
        last = pendulum(proposal, parameters)
        error = gt.reduce_max(gt.abs(step * (-5.0 * slope + 6.0 * second + 8.0 * third - 9.0 * last) / 72.0))
        if error < tolerance:
            time, state, slope = time + step, proposal, last
            taken += 1
        else:
            rejected += 1
        # how long the next step is decides where the solver looks, not what it finds: `float` keeps it out of the gradient
        step = step * float(gt.clip_by_value(0.9 * (tolerance / error) ** (1.0 / 3.0), 0.2, 3.0))
    return state, taken, rejected


def angle_and_slope(start, parameters, end, tolerance):
    """The angle at a time, and its gradient in the parameters."""
    with gt.GradientTape() as tape:
        tape.watch(parameters)
        angle = solve(start, parameters, end, tolerance)[0][0]
    return float(angle), tape.gradient(angle, parameters).numpy()


def main() -> float:
    start, tolerance = gt.constant(np.array([1.2, 0.0])), gt.constant(np.float64(1e-6))
    true = np.array([9.0, 0.4])
    end = gt.constant(np.float64(2.0))

    state, taken, rejected = solve(start, gt.constant(true), end, tolerance)
    print(f"angle {float(state[0]):.6f} after {int(taken)} steps and {int(rejected)} that were rejected")
    assert int(taken) > 50
    assert int(rejected) > 0

    _, slope = angle_and_slope(start, gt.constant(true), end, tolerance)
    differences = []
    for direction in np.eye(2) * 1e-3:
        high, low = (float(solve(start, gt.constant(true + sign * direction), end, tolerance)[0][0]) for sign in (1, -1))
        differences.append((high - low) / 2e-3)
    print("gradient in ω² and γ:", slope.round(4), "by differences:", np.round(differences, 4))
    assert np.allclose(slope, differences, atol=1e-3)

    times = [gt.constant(np.float64(t)) for t in (0.5, 1.0, 1.5, 2.0)]
    measured = np.array([angle_and_slope(start, gt.constant(true), t, tolerance)[0] for t in times])
    found = np.array([7.0, 0.0])
    for step in range(6):  # Gauss-Newton
        rows = [angle_and_slope(start, gt.constant(found), t, tolerance) for t in times]
        residual = measured - np.array([angle for angle, _ in rows])
        found = found + np.linalg.lstsq(np.array([slope for _, slope in rows]), residual, rcond=None)[0]
        print(f"step {step}: largest residual {np.abs(residual).max():.1e}, ω² = {found[0]:.6f}, γ = {found[1]:.6f}")
    error = float(np.abs(found - true).max())
    assert error < 1e-4
    assert solve.experimental_get_tracing_count() == 1  # one program for all of it
    return error


if __name__ == "__main__":
    main()
