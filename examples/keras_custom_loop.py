"""Keras layers, losses, metrics and an optimizer in a training loop of one's own: the tape is gradtape's, the step compiled."""

import numpy as np

import gradtape as gt

keras = gt.keras
keras.utils.set_random_seed(1)


def rings(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of three rings around the origin, and the ring."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, count)
    angle, radius = random.uniform(0, 2 * np.pi, count), 1.0 + labels + random.normal(scale=0.15, size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype("float32"), labels.astype("int32")


model = keras.Sequential([
    keras.Input((2,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(3),
])  # fmt: skip
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.01)
accuracy = keras.metrics.SparseCategoricalAccuracy()


@gt.function
def step(x, labels):
    with gt.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_of(labels, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    accuracy.update_state(labels, logits)
    return loss


x, labels = rings(1024, seed=0)
optimizer.build(model.trainable_variables)
for epoch in range(10):
    accuracy.reset_state()
    order = np.random.default_rng(epoch).permutation(len(x))
    for batch in order.reshape(-1, 64):
        loss = step(gt.constant(x[batch]), gt.constant(labels[batch]))
    print(f"epoch {epoch}: loss {float(loss):.3f}, accuracy {float(accuracy.result()):.3f}")

assert step.experimental_get_tracing_count() == 1
test_x, test_labels = rings(256, seed=1)
right = float(np.mean(np.argmax(model(test_x).numpy(), 1) == test_labels))
print(f"accuracy on new points: {right:.3f}")
assert right > 0.95
