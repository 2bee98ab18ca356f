"""SciPy's optimizers with exact gradients: `value_and_grad` gives what `minimize(..., jac=True)` wants."""

import numpy as np
from scipy.optimize import minimize

import gradtape as gt


def rosenbrock(x):
    return gt.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def main() -> float:
    start = np.full(10, -1.2)
    result = minimize(gt.value_and_grad(rosenbrock), start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    blind = minimize(lambda x: float(rosenbrock(gt.constant(x))), start, method="L-BFGS-B", options={"maxiter": 500})
    error = float(np.max(np.abs(result.x - 1.0)))
    print(f"with exact gradients: {result.nfev} evaluations, largest error {error:.1e}")
    print(f"with SciPy's finite differences: {blind.nfev} evaluations, largest error {np.max(np.abs(blind.x - 1.0)):.1e}")
    assert result.success
    assert error < 1e-3
    assert result.nfev < blind.nfev
    return error


if __name__ == "__main__":
    main()
