"""A physics-informed network: solve u'' = -sin(x) on [0, π], u(0) = u(π) = 0, whose solution is u = sin(x).

The network never sees the solution. Its loss is the residual of the equation, which contains the second derivative of the
network in x; training differentiates that once more, in the weights.
"""

import numpy as np

import gradtape as gt


def main() -> float:
    random = np.random.default_rng(0)
    x = gt.constant(np.linspace(0.0, np.pi, 41)[:, None])
    w1, b1 = gt.Variable(random.normal(size=(1, 16))), gt.Variable(random.normal(size=16))
    w2, b2 = gt.Variable(random.normal(size=(16, 1)) / 4), gt.Variable(np.zeros(1))
    variables = [w1, b1, w2, b2]

    def u(x):
        # the factor makes the boundary values right whatever the weights are
        return x * (np.pi - x) * (gt.matmul(gt.tanh(gt.matmul(x, w1) + b1), w2) + b2)

    def residual():
        with gt.GradientTape() as second:
            second.watch(x)
            with gt.GradientTape() as first:
                first.watch(x)
                value = u(x)
            slope = first.gradient(value, x)
        return second.gradient(slope, x) + gt.sin(x)

    optimizer = gt.optimizers.Adam(gt.optimizers.schedules.CosineDecay(0.03, 600))
    for step in range(600):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(residual() ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        if step % 150 == 0:
            print(f"step {step:4d}   mean squared residual {float(loss):.2e}")
    error = float(np.max(np.abs(u(x).numpy() - np.sin(x.numpy()))))
    print(f"final residual {float(loss):.2e}; largest error of u against sin(x): {error:.1e}")
    assert error < 2e-2
    return error


if __name__ == "__main__":
    main()
