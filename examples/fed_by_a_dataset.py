"""A classifier trained on a pipeline: noisy spirals, shuffled, augmented on worker threads, batched and read ahead.

The whole epoch is one compiled function: its loop over the dataset is a loop of the program.
"""

import numpy as np

import gradtape as gt

gt.random.set_seed(1)


def spirals(count):
    """Points of two arms that turn around each other, and which arm each belongs to."""
    rng = np.random.default_rng(2)
    arm = rng.integers(0, 2, count)
    turn = rng.uniform(0.2, 1.0, count)
    angle = 4.0 * turn + np.pi * arm
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1)
    return points.astype(np.float32), arm.astype(np.float32)


def jittered(point, label):
    """A point moved a little: other numbers in every epoch, the same in every run."""
    return point + 0.02 * gt.random.normal([2]), label


points, labels = spirals(256)
train = (
    gt.data.Dataset.from_tensor_slices((points, labels))
    .shuffle(256)
    .map(jittered, num_parallel_calls=gt.data.AUTOTUNE)
    .batch(32)
    .prefetch(gt.data.AUTOTUNE)
)

w1, b1 = gt.Variable(gt.random.normal([2, 32])), gt.Variable(gt.zeros([32]))
w2, b2 = gt.Variable(gt.random.normal([32, 1], stddev=0.3)), gt.Variable(gt.zeros([1]))
variables = [w1, b1, w2, b2]
optimizer = gt.optimizers.Adam(0.03)


def logits(x):
    return gt.squeeze(gt.tanh(4.0 * (x @ w1 + b1)) @ w2 + b2, -1)


@gt.function
def epoch():
    total, batches = gt.constant(0.0), 0
    for x, y in train:
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(gt.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits(x)))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        total += loss
        batches += 1
    return total / float(batches)


first = float(epoch())
for _ in range(20):
    last = float(epoch())
right = np.mean((logits(points).numpy() > 0) == (labels > 0.5))
print(f"mean loss {first:.3f} in the first epoch, {last:.3f} in the last; {right:.1%} of the points on the right side")
assert right > 0.95
