"""Learning to learn: find a start from which one gradient step solves many tasks (model-agnostic meta-learning).

Each task is a line y = a x + b with a, b around (2, -1). The inner step is an ordinary optimizer step that assigns the
variables; the outer tape records the assignment, so the meta-gradient passes through it and its second derivatives.
"""

import numpy as np

import gradtape as gt


def tasks(count: int, random: np.random.Generator):
    for _ in range(count):
        a, b = 2.0 + 0.5 * random.normal(), -1.0 + 0.5 * random.normal()
        x = random.uniform(-1, 1, size=20)
        yield x, a * x + b


def loss_on(theta, x, y):
    return gt.reduce_mean((theta[0] * x + theta[1] - y) ** 2)


def adapt(theta, x, y) -> None:
    """One step of gradient descent on a task, in place."""
    with gt.GradientTape() as inner:
        loss = loss_on(theta, x, y)
    gt.optimizers.SGD(0.4).apply_gradients([(inner.gradient(loss, theta), theta)])


def adapted_loss(start, count: int, seed: int) -> float:
    """The mean loss after one step from `start`, over unseen tasks."""
    losses = []
    for x, y in tasks(count, np.random.default_rng(seed)):
        theta = gt.Variable(start)
        adapt(theta, x, y)
        losses.append(float(loss_on(theta, x, y)))
    return float(np.mean(losses))


def main() -> tuple[float, float]:
    random = np.random.default_rng(0)
    start = gt.Variable(np.zeros(2))
    meta = gt.optimizers.Adam(0.05)
    before = adapted_loss(start.numpy(), 100, seed=1)
    for _ in range(150):
        total = np.zeros(2)
        for x, y in tasks(4, random):
            theta = gt.Variable(start.numpy())
            with gt.GradientTape(through_assignments=True) as outer:
                outer.watch(theta)
                adapt(theta, x, y)
                loss = loss_on(theta, x, y)
            total += outer.gradient(loss, theta).numpy()  # with respect to the value before the inner step
        meta.apply_gradients([(total / 4, start)])
    after = adapted_loss(start.numpy(), 100, seed=1)
    print(f"meta-learned start: slope {float(start[0]):.2f}, intercept {float(start[1]):.2f} (tasks are centred at 2, -1)")
    print(f"loss after one step on unseen tasks: {before:.3f} from zero, {after:.3f} from the learned start")
    assert after < 0.2 * before
    assert np.allclose(start.numpy(), [2.0, -1.0], atol=0.35)
    return before, after


if __name__ == "__main__":
    main()
