"""Fit a line to noisy points by gradient descent, and compare with the exact least-squares solution."""

import numpy as np

import gradtape as gt


def main() -> float:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, size=200)
    y = 3.0 * x + 2.0 + 0.1 * random.normal(size=200)

    slope, intercept = gt.Variable(np.float64(0.0)), gt.Variable(np.float64(0.0))
    optimizer = gt.optimizers.SGD(learning_rate=0.3, momentum=0.5)
    for step in range(101):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean((slope * x + intercept - y) ** 2)
        gradients = tape.gradient(loss, [slope, intercept])
        optimizer.apply_gradients(zip(gradients, [slope, intercept], strict=True))
        if step % 25 == 0:
            print(f"step {step:3d}   loss {float(loss):.6f}   y = {float(slope):.4f} x + {float(intercept):.4f}")

    exact = np.polyfit(x, y, 1)
    difference = max(abs(float(slope) - exact[0]), abs(float(intercept) - exact[1]))
    print(f"least squares: y = {exact[0]:.4f} x + {exact[1]:.4f}; largest difference {difference:.1e}")
    assert difference < 1e-6
    return difference


if __name__ == "__main__":
    main()
