"""Keras's `compile` and `fit` on gradtape: a small convolutional network, validation, a callback, saving."""

import numpy as np

import gradtape as gt

keras = gt.keras
layers = keras.layers
keras.utils.set_random_seed(2)


def shapes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy 12 × 12 images of a bar, a cross or a square somewhere, and which."""
    random = np.random.default_rng(seed)
    images, labels = random.normal(scale=0.3, size=(count, 12, 12, 1)), random.integers(0, 3, count)
    for image, label in zip(images[..., 0], labels, strict=True):
        i, j = random.integers(0, 7, 2)
        part = image[i : i + 5, j : j + 5]
        if label == 0:
            part[2] += 1.0
        elif label == 1:
            part[2] += 1.0
            part[:, 2] += 1.0
        else:
            part[[0, -1]] += 1.0
            part[:, [0, -1]] += 1.0
    return images.astype("float32"), labels


model = keras.Sequential([
    keras.Input((12, 12, 1)),
    layers.Conv2D(12, 3, activation="relu"),
    layers.MaxPooling2D(2),
    layers.Conv2D(16, 3, activation="relu"),
    layers.GlobalMaxPooling2D(),
    layers.Dropout(0.1),
    layers.Dense(3, activation="softmax"),
])  # fmt: skip
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping("val_accuracy", patience=3, restore_best_weights=True)
history = model.fit(
    *shapes(960, 0), batch_size=64, epochs=8, validation_data=shapes(256, 1), callbacks=[stop], verbose=0
).history
for epoch, (loss, right) in enumerate(zip(history["loss"], history["val_accuracy"], strict=True)):
    print(f"epoch {epoch}: loss {loss:.3f}, validation accuracy {right:.3f}")
loss, right = model.evaluate(*shapes(256, 2), verbose=0)
print(f"accuracy on new images: {right:.3f}")
assert right > 0.9

model.save("shapes.keras")
again = keras.models.load_model("shapes.keras")
images, _ = shapes(8, 3)
assert np.array_equal(again.predict(images, verbose=0), model.predict(images, verbose=0))
print("saved, loaded, the same predictions")
