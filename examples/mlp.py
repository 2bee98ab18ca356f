"""A two-layer network learns to tell handwritten-like digits apart: seven-segment digits with noisy strokes."""

import numpy as np

import gradtape as gt

SEGMENTS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Brightness of the seven segments, and the digit."""
    random = np.random.default_rng(seed)
    clean = np.array([[int(s) for s in row] for row in SEGMENTS], np.float32)
    labels = random.integers(0, 10, size=count)
    return clean[labels] + random.normal(scale=0.2, size=(count, 7)).astype(np.float32), labels


class Dense(gt.Module):
    def __init__(self, inputs: int, outputs: int, seed: int) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        self.w = gt.Variable((random.normal(size=(inputs, outputs)) / np.sqrt(inputs)).astype(np.float32))
        self.b = gt.Variable(np.zeros(outputs, np.float32))

    def __call__(self, x):
        return gt.matmul(x, self.w) + self.b


class Network(gt.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = Dense(7, 32, seed=1)
        self.output = Dense(32, 10, seed=2)

    def __call__(self, x):
        return self.output(gt.tanh(self.hidden(x)))


def cross_entropy(logits, labels):
    """Mean of -log p(label)."""
    chosen = gt.reduce_sum(logits * gt.one_hot(labels, 10), axis=1)
    return gt.reduce_mean(gt.reduce_logsumexp(logits, axis=1) - chosen)


def main() -> float:
    images, labels = digits(2000, seed=0)
    unseen, truth = digits(1000, seed=1)
    network, optimizer = Network(), gt.optimizers.Adam(0.01)
    order = np.random.default_rng(2)
    for epoch in range(15):
        for batch in np.split(order.permutation(2000), 20):
            with gt.GradientTape() as tape:
                loss = cross_entropy(network(images[batch]), labels[batch])
            variables = network.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        right = float(np.mean(np.argmax(network(unseen).numpy(), axis=1) == truth))
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}   loss {float(loss):.4f}   accuracy on unseen digits {right:.1%}")
    assert right > 0.95
    return right


if __name__ == "__main__":
    main()
