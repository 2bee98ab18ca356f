"""Two networks against each other, with two tapes: a generator learns the distribution that a discriminator knows."""

import numpy as np

import gradtape as gt

keras = gt.keras
layers = keras.layers
keras.utils.set_random_seed(3)
RANDOM = np.random.default_rng(0)


def network(inputs: int, outputs: int):
    hidden = [layers.Dense(32, activation="tanh") for _ in range(2)]
    return keras.Sequential([keras.Input((inputs,)), *hidden, layers.Dense(outputs)])


generator, discriminator = network(4, 2), network(2, 1)
for_generator, for_discriminator = keras.optimizers.Adam(2e-3, 0.5), keras.optimizers.Adam(2e-3, 0.5)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
for model, optimizer in ((generator, for_generator), (discriminator, for_discriminator)):
    optimizer.build(model.trainable_variables)


@gt.function
def step(real, noise):
    with gt.GradientTape() as first, gt.GradientTape() as second:
        fake = generator(noise, training=True)
        on_real, on_fake = discriminator(real, training=True), discriminator(fake, training=True)
        wins = loss_of(gt.ones_like(on_real), on_real) + loss_of(gt.zeros_like(on_fake), on_fake)
        fools = loss_of(gt.ones_like(on_fake), on_fake)
    ours, theirs = generator.trainable_variables, discriminator.trainable_variables
    gradients, others = first.gradient(fools, ours), second.gradient(wins, theirs)
    for_generator.apply_gradients(zip(gradients, ours, strict=True))
    for_discriminator.apply_gradients(zip(others, theirs, strict=True))
    return fools, wins


def real(count: int) -> np.ndarray:
    """A bell around (2, -1), narrower in its second coordinate."""
    return (np.array([2.0, -1.0]) + RANDOM.normal(size=(count, 2)) * [1.0, 0.5]).astype("float32")


def noise(count: int) -> np.ndarray:
    return RANDOM.normal(size=(count, 4)).astype("float32")


for turn in range(1500):
    fools, wins = step(gt.constant(real(128)), gt.constant(noise(128)))
    if turn % 300 == 0:
        print(f"step {turn}: generator {float(fools):.3f}, discriminator {float(wins):.3f}")

made = generator(noise(4096)).numpy()
print(f"mean {made.mean(0).round(2)}, deviation {made.std(0).round(2)}")
assert step.experimental_get_tracing_count() == 1
assert np.abs(made.mean(0) - [2.0, -1.0]).max() < 0.4
