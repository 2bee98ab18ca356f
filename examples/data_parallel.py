"""Train a small classifier on any number of ranks: `gradtape launch -n 4 examples/data_parallel.py`, or plainly, on one.

The data are split, the variables are the same everywhere, and the losses do not depend on the number of ranks.
"""

import numpy as np

import gradtape as gt

BATCH = 60


def spirals(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, count)
    radius = random.uniform(0.1, 1.0, count)
    angle = 4.0 * radius + labels * 2.1 + 0.1 * random.normal(size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), labels


def main() -> float:
    points, labels = spirals(300)
    strategy = gt.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        random = np.random.default_rng(1)
        sizes = ((2, 32), (32, 32), (32, 3))
        weights = [gt.Variable(random.normal(size=size) * np.sqrt(2.0 / size[0])) for size in sizes]
        biases = [gt.Variable(np.zeros(size[1])) for size in sizes]
        optimizer = gt.optimizers.Adam(0.01)
    variables = [*weights, *biases]

    @gt.function(reduce_retracing=True)
    def step(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        with gt.GradientTape() as tape:
            for w, b in zip(weights[:-1], biases[:-1], strict=True):
                x = gt.nn.relu(x @ w + b)
            logits = x @ weights[-1] + biases[-1]
            each = gt.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = gt.reduce_sum(each) / BATCH  # of this rank: the gradient is that of the sum over all ranks
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    total = np.inf
    for epoch in range(41):
        order = np.random.default_rng(epoch).permutation(len(points))  # the same on all ranks
        batches = [(points[rows], labels[rows]) for rows in np.split(order, len(points) // BATCH)]
        losses = [
            strategy.reduce("SUM", strategy.run(step, args=(gt.constant(x), gt.constant(y))))
            for x, y in strategy.experimental_distribute_dataset(batches)
        ]
        total = float(np.mean([loss.numpy() for loss in losses]))
        if epoch % 10 == 0 and gt.distribute.rank() == 0:
            print(f"epoch {epoch:2d}   loss {total:.6f}   on {strategy.num_replicas_in_sync} ranks")
    assert total < 0.2, total
    return total


if __name__ == "__main__":
    main()
