"""A recurrent network trained by one compiled call: loops in loops, a tape inside, an optimizer, and early stopping.

The network reads sequences of any length (one program: the length is a symbol) and tells whether their sum is positive. The
training loop is part of the program too: it stops when the validation loss has not improved for a while, and puts the
best weights back.
"""

import numpy as np

import gradtape as gt

HIDDEN, PATIENCE = 12, 10


class Reader(gt.Module):
    """h ← tanh(h W + x U + b), once per symbol; the last h says the answer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.w = gt.Variable(0.3 * rng.normal(size=(HIDDEN, HIDDEN)))
        self.u = gt.Variable(0.3 * rng.normal(size=(1, HIDDEN)))
        self.b = gt.Variable(np.zeros(HIDDEN))
        self.out = gt.Variable(0.3 * rng.normal(size=(HIDDEN, 1)))
        self.best = [gt.Variable(v, trainable=False) for v in self.trainable_variables]

    @gt.function(input_signature=[gt.TensorSpec([None, None, 1], gt.float64)])
    def __call__(self, sequences):
        """Logits for a batch of sequences, time first."""
        h = gt.zeros((sequences.shape[1], HIDDEN), gt.float64)
        for x in sequences:
            h = gt.tanh(h @ self.w + x @ self.u + self.b)
        return (h @ self.out)[:, 0]


def loss_of(model, sequences, labels):
    return gt.reduce_mean(gt.nn.sigmoid_cross_entropy_with_logits(labels, model(sequences)))


@gt.function
def fit(model, optimizer, train, validation, max_rounds):
    """Train until the validation loss stops improving; gives that loss and the rounds it took."""
    best_loss, waited, rounds = float("inf"), 0, 0
    for _ in range(max_rounds):
        rounds += 1
        with gt.GradientTape() as tape:
            loss = loss_of(model, *train)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        current = loss_of(model, *validation)
        if current < best_loss:
            best_loss, waited = current, 0
            for kept, variable in zip(model.best, variables, strict=True):
                kept.assign(variable)
        else:
            waited += 1
        if waited >= PATIENCE:
            break
    for kept, variable in zip(model.best, model.trainable_variables, strict=True):
        variable.assign(kept)
    return best_loss, rounds


def data(rng: np.random.Generator, length: int, count: int) -> tuple[gt.Tensor, gt.Tensor]:
    sequences = rng.normal(size=(length, count, 1))
    return gt.constant(sequences), gt.constant((sequences.sum(axis=(0, 2)) > 0).astype(float))


def main() -> float:
    rng = np.random.default_rng(0)
    model, optimizer = Reader(rng), gt.optimizers.Adam(0.05)
    train, validation = data(rng, 6, 64), data(rng, 6, 256)
    before = float(loss_of(model, *validation))
    best, rounds = fit(model, optimizer, train, validation, gt.constant(300))
    print(f"validation loss {before:.3f} → {float(best):.3f} in {int(rounds)} rounds")
    assert float(best) < 0.5 * before
    assert int(rounds) < 300
    assert abs(float(loss_of(model, *validation)) - float(best)) < 1e-12  # the best weights are back

    right = {}
    for length in (3, 6, 12):  # lengths it was not trained on, with the same program
        sequences, labels = data(rng, length, 500)
        right[length] = float(np.mean((model(sequences).numpy() > 0) == labels.numpy()))
    print("right answers by length:", right)
    assert right[6] > 0.85
    assert model.__call__.experimental_get_tracing_count() == 1
    return right[6]


if __name__ == "__main__":
    main()
