"""Programs people write to learn something: models, losses and training loops in TensorFlow's spelling."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import TOLERANCE, close, numeric_gradient, tape_gradient, wide

RNG = np.random.default_rng(5)
X = RNG.normal(size=(32, 3))
Y = np.tanh(X @ [1.0, -2.0, 0.5]) + 0.1


class Dense(gt.Module):
    def __init__(self, inputs, outputs, activation=None, name=None):
        super().__init__(name=name)
        self.w = gt.Variable(np.random.default_rng(inputs * 31 + outputs).normal(size=(inputs, outputs)) * 0.4, name="w")
        self.b = gt.Variable(np.zeros(outputs), name="b")
        self.activation = activation

    def __call__(self, x):
        y = gt.matmul(x, self.w) + self.b
        return y if self.activation is None else self.activation(y)


class Net(gt.Module):
    def __init__(self, sizes=(3, 8, 1)):
        super().__init__()
        last = len(sizes) - 2
        self.layers = [Dense(a, b, None if i == last else gt.tanh) for i, (a, b) in enumerate(itertools.pairwise(sizes))]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def fit(model, optimizer, steps=60):
    losses = []
    for _ in range(steps):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(gt.square(model(X)[:, 0] - Y))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize(
    "make",
    [
        lambda: gt.optimizers.SGD(0.1),
        lambda: gt.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        lambda: gt.optimizers.Adam(0.02),
        lambda: gt.optimizers.AdamW(0.02, weight_decay=1e-4),
        lambda: gt.optimizers.RMSprop(0.01),
        lambda: gt.optimizers.Adagrad(0.2),
        lambda: gt.optimizers.Lion(0.005),
        lambda: gt.optimizers.Adam(gt.optimizers.schedules.ExponentialDecay(0.05, 20, 0.8)),
        lambda: gt.optimizers.Adam(0.02, global_clipnorm=1.0),
    ],
)
def test_a_network_of_modules_learns(make):
    losses = fit(Net(), make())
    assert losses[-1] < 0.3 * losses[0]


def test_linear_regression_by_hand_matches_least_squares():
    w, b = gt.Variable(gt.zeros((3, 1), gt.float64)), gt.Variable(np.zeros(1))
    for _ in range(800):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean((X @ w + b - Y[:, None]) ** 2)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.2 * dw)
        b.assign_sub(0.2 * db)
    exact = np.linalg.lstsq(np.c_[X, np.ones(32)], Y, rcond=None)[0]
    close(np.r_[w.numpy()[:, 0], b.numpy()], exact, 1e-8)


def test_logistic_regression_gradient_is_known():
    labels = (Y > 0).astype(np.float64)
    w = wide([0.3, -0.2, 0.1])
    with gt.GradientTape() as tape:
        tape.watch(w)
        logits = gt.linalg.matvec(X, w)
        loss = gt.reduce_sum(gt.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    close(tape.gradient(loss, w), X.T @ (1 / (1 + np.exp(-X @ w.numpy())) - labels), 1e-10)


def test_softmax_classifier_on_integer_labels():
    labels = gt.constant(RNG.integers(0, 4, 32))
    weights = gt.Variable(RNG.normal(size=(3, 4)))
    optimizer = gt.optimizers.Adam(0.1)
    first = last = None
    for _ in range(30):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(gt.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=X @ weights))
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        first, last = first or float(loss), float(loss)
    assert last < first
    accuracy = gt.reduce_mean(gt.cast(gt.equal(gt.argmax(X @ weights, axis=-1), labels), gt.float32))
    assert 0 <= float(accuracy) <= 1


def test_convolutional_network():
    images = RNG.normal(size=(4, 8, 8, 1))
    k0 = RNG.normal(size=(3, 3, 1, 2)) * 0.5
    head = RNG.normal(size=(32, 3))

    def loss(kernel):
        h = gt.nn.softplus(gt.nn.conv2d(images, kernel, strides=1, padding="SAME"))
        h = gt.nn.avg_pool(h, ksize=2, strides=2, padding="VALID")
        logits = gt.matmul(gt.reshape(h, (4, -1)), head)
        return gt.reduce_mean(gt.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1, 2, 0], logits=logits))

    close(tape_gradient(loss, k0), numeric_gradient(loss, k0), TOLERANCE)


def test_recurrent_network_over_a_python_loop():
    wx, sequence = RNG.normal(size=(2, 4)) * 0.5, RNG.normal(size=(3, 20, 2))

    def loss(wh):
        h = gt.zeros((3, 4), gt.float64)
        for t in range(sequence.shape[1]):
            h = gt.tanh(gt.matmul(sequence[:, t], wx) + gt.matmul(h, wh))
        return gt.reduce_sum(h**2)

    wh = RNG.normal(size=(4, 4)) * 0.5
    close(tape_gradient(loss, wh), numeric_gradient(loss, wh), TOLERANCE)


def test_lstm_with_scan_and_dictionary_state():
    weights = RNG.normal(size=(5, 12)) * 0.4
    sequence = RNG.normal(size=(6, 2, 2))

    def loss(w):
        def step(state, x):
            gates = gt.matmul(gt.concat([x, state["h"]], axis=1), w)
            i, f, o, g = gt.split(gates, 4, axis=1)
            c = gt.sigmoid(f) * state["c"] + gt.sigmoid(i) * gt.tanh(g)
            return {"h": gt.sigmoid(o) * gt.tanh(c), "c": c}

        zero = gt.zeros((2, 3), gt.float64)
        return gt.reduce_sum(gt.scan(step, gt.constant(sequence), initializer={"h": zero, "c": zero})["h"] ** 2)

    close(tape_gradient(loss, weights), numeric_gradient(loss, weights), TOLERANCE)


def test_causal_attention():
    def attention(x):
        q, k, v = x, x * 0.5, x * x
        scores = gt.matmul(q, k, transpose_b=True) / gt.sqrt(gt.cast(gt.shape(x)[-1], x.dtype))
        mask = gt.linalg.band_part(gt.ones((5, 5), x.dtype), -1, 0)
        scores = gt.where(mask > 0, scores, -np.inf)
        return gt.reduce_sum(gt.matmul(gt.nn.softmax(scores, axis=-1), v) ** 2)

    x = RNG.normal(size=(2, 5, 3))
    close(tape_gradient(attention, x), numeric_gradient(attention, x), TOLERANCE)


def test_transformer_block_with_layer_norm_and_residuals():
    def block(x):
        heads = gt.transpose(gt.reshape(x, (2, 4, 2, 3)), (0, 2, 1, 3))
        attention = gt.nn.softmax(gt.einsum("bhid,bhjd->bhij", heads, heads))
        mixed = gt.reshape(gt.transpose(gt.einsum("bhij,bhjd->bhid", attention, heads), [0, 2, 1, 3]), (2, 4, 6))
        y = gt.nn.layer_norm(x + mixed, scale=np.linspace(0.5, 1.5, 6), offset=np.zeros(6))
        return gt.reduce_sum(gt.nn.gelu(y) * np.arange(6.0))

    x = RNG.normal(size=(2, 4, 6))
    close(tape_gradient(block, x), numeric_gradient(block, x), TOLERANCE)


def test_variational_autoencoder_step():
    gt.random.set_seed(3)
    encoder, decoder = Dense(3, 4), Dense(2, 3)
    optimizer = gt.optimizers.Adam(0.02)
    losses = []
    for _ in range(150):
        with gt.GradientTape() as tape:
            mean, logvar = gt.split(encoder(X), num_or_size_splits=2, axis=1)
            z = mean + gt.exp(0.5 * logvar) * gt.random.normal(mean.shape, dtype=gt.float64)
            kl = -0.5 * gt.reduce_sum(1 + logvar - mean**2 - gt.exp(logvar), axis=1)
            loss = gt.reduce_mean(gt.reduce_sum((decoder(z) - X) ** 2, axis=1) + 0.05 * kl)
        variables = encoder.trainable_variables + decoder.trainable_variables
        grads = tape.gradient(loss, variables)
        assert all(g is not None for g in grads)
        optimizer.apply_gradients(zip(grads, variables, strict=True))
        losses.append(float(loss))
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


def test_embedding_gradients_are_sparse_and_applied_sparsely():
    table = gt.Variable(RNG.normal(size=(1000, 4)))
    before = table.numpy().copy()
    with gt.GradientTape() as tape:
        rows = gt.nn.embedding_lookup(table, [3, 7, 3])
        loss = gt.reduce_sum(rows**2)
    g = tape.gradient(loss, table)
    assert isinstance(g, gt.IndexedSlices)
    (clipped,), norm = gt.clip_by_global_norm([g], 0.5)
    assert isinstance(clipped, gt.IndexedSlices)
    assert float(norm) > 0.5
    gt.optimizers.SGD(1.0).apply_gradients([(g, table)])
    changed = np.flatnonzero((table.numpy() != before).any(axis=1))
    assert changed.tolist() == [3, 7]
    close(table.numpy()[3], before[3] - 4 * before[3])


def test_skip_gram_with_negative_sampling():
    vectors, contexts = gt.Variable(RNG.normal(size=(50, 8)) * 0.1), gt.Variable(RNG.normal(size=(50, 8)) * 0.1)
    optimizer = gt.optimizers.Adam(0.05)
    losses = []
    for _ in range(25):
        with gt.GradientTape() as tape:
            v = gt.gather(vectors, [1, 2, 3])
            positive = gt.reduce_sum(v * gt.gather(contexts, [4, 5, 6]), axis=1)
            negative = gt.reduce_sum(v * gt.gather(contexts, [7, 8, 9]), axis=1)
            loss = gt.reduce_sum(gt.nn.softplus(-positive) + gt.nn.softplus(negative))
        optimizer.minimize(loss, [vectors, contexts], tape=tape)
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]


def test_maml_with_an_inner_update_by_arithmetic():
    def loss(w, shift):
        return gt.reduce_mean((gt.tanh(X @ w) - Y - shift) ** 2)

    def adapted(w):
        with gt.GradientTape() as inner:
            inner.watch(w)
            support = loss(w, 0.3)
        return loss(w - 0.5 * inner.gradient(support, w), 0.1)

    w0 = np.array([0.1, 0.2, -0.3])
    close(tape_gradient(adapted, w0), numeric_gradient(adapted, w0), TOLERANCE)


def test_physics_informed_network_third_derivative():
    w = np.linspace(0.3, 1.2, 5)
    x0 = np.linspace(-1, 1, 4)

    def residual(w):
        x = gt.constant(x0)
        with gt.GradientTape() as t3:
            t3.watch(x)
            with gt.GradientTape() as t2:
                t2.watch(x)
                with gt.GradientTape() as t1:
                    t1.watch(x)
                    u = gt.reduce_sum(gt.sin(x[:, None] * w), axis=1)
                du = t1.gradient(u, x)
            ddu = t2.gradient(du, x)
        return gt.reduce_sum((t3.gradient(ddu, x) + u * du) ** 2)

    close(tape_gradient(residual, w), numeric_gradient(residual, w), TOLERANCE)


def test_gradient_penalty_of_a_critic():
    critic = Net()
    with gt.GradientTape() as tape:
        x = gt.constant(X)
        with gt.GradientTape() as inner:
            inner.watch(x)
            score = critic(x)
        slopes = inner.gradient(score, x)
        penalty = gt.reduce_mean((gt.norm(slopes, axis=1) - 1.0) ** 2)
    grads = tape.gradient(penalty, critic.trainable_variables)
    assert [g is None for g in grads] == [v.name.startswith("b") and v.shape == (1,) for v in critic.trainable_variables]


def test_per_example_gradients_three_ways():
    w = gt.Variable([0.5, -1.0, 2.0], dtype=gt.float64)

    def loss(x, y):
        return (gt.reduce_sum(x * w) - y) ** 2

    def one(pair):
        with gt.GradientTape() as tape:
            value = loss(*pair)
        return tape.gradient(value, w)

    data = (gt.constant(X), gt.constant(Y))
    mapped = gt.vectorized_map(one, data)
    looped = gt.map_fn(one, data, fn_output_signature=gt.float64)
    with gt.GradientTape() as tape:
        losses = gt.square(gt.linalg.matvec(X, w) - Y)
    close(mapped, looped)
    close(tape.jacobian(losses, w), mapped)


def test_gradient_clipping_in_a_loop():
    model = Net()
    with gt.GradientTape() as tape:
        loss = 1e4 * gt.reduce_mean((model(X)[:, 0] - Y) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    clipped, norm = gt.clip_by_global_norm(grads, 5.0)
    close(norm, np.sqrt(sum(float(gt.reduce_sum(g**2)) for g in grads)))
    close(gt.linalg.global_norm(clipped), 5.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_with_loss_scaling(dtype):
    w = gt.Variable(np.float32([1.0, -2.0, 0.5]))
    scale = 128.0
    with gt.GradientTape() as tape:
        half = gt.cast(w, dtype)
        loss = gt.reduce_mean(gt.square(gt.linalg.matvec(gt.cast(X, dtype), half) - gt.cast(Y, dtype)))
        scaled = gt.cast(loss, gt.float32) * scale
    g = tape.gradient(scaled, w) / scale
    assert g.dtype == gt.float32
    exact = 2 * X.T @ (X @ [1.0, -2.0, 0.5] - Y) / 32
    np.testing.assert_allclose(g.numpy(), exact, rtol=0.06, atol=0.06)


def test_nested_dictionary_parameters():
    params = {"layer": [{"w": gt.Variable([[1.0, 2.0]]), "b": gt.Variable([0.5])}], "scale": gt.Variable(2.0)}
    with gt.GradientTape() as tape:
        y = params["scale"] * gt.reduce_sum(params["layer"][0]["w"] + params["layer"][0]["b"])
    g = tape.gradient(y, params)
    assert set(g) == {"layer", "scale"}
    close(g["layer"][0]["w"], np.float32([[2.0, 2.0]]))
    updated = gt.nest.map_structure(lambda v, d: v - 0.1 * d, params, g)
    close(updated["layer"][0]["b"], np.float32([0.5 - 0.1 * 4.0]), 1e-6)


def test_a_dataclass_holds_the_parameters():
    @dataclasses.dataclass
    class Parameters:
        w: gt.Variable
        b: gt.Variable

    p = Parameters(gt.Variable(3.0), gt.Variable(1.0))
    with gt.GradientTape() as tape:
        y = p.w**2 + p.b
    close(tape.gradient(y, [p.w, p.b]), np.float32([6.0, 1.0]))


def test_checkpoint_in_the_middle_of_training(tmp_path):
    def batch(model, optimizer):
        return fit(model, optimizer, 5)

    model, optimizer = Net(), gt.optimizers.Adam(0.05)
    batch(model, optimizer)
    checkpoint = gt.train.Checkpoint(model=model, optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "run"))
    expected = batch(model, optimizer)
    other, again = Net(), gt.optimizers.Adam(0.05)
    gt.train.Checkpoint(model=other, optimizer=again).restore(path)
    close(batch(other, again), expected)


def test_models_are_copied_and_pickled():
    model = Net()
    fit(model, gt.optimizers.SGD(0.1), 3)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(twin(X), model(X).numpy())
        twin.layers[0].w.assign_add(gt.ones_like(twin.layers[0].w))
        assert float(gt.reduce_max(gt.abs(twin(X) - model(X)))) > 1e-3


def test_batch_normalisation_with_moving_averages():
    moving = gt.Variable(np.zeros(3), trainable=False)
    gamma = gt.Variable(np.ones(3))
    with gt.GradientTape() as tape:
        mean, variance = gt.nn.moments(gt.constant(X), axes=[0])
        moving.assign(0.9 * moving + 0.1 * mean)
        y = gt.nn.batch_normalization(X, mean, variance, offset=None, scale=gamma, variance_epsilon=1e-5)
        loss = gt.reduce_sum(y**3)
    assert tape.gradient(loss, gamma).shape == (3,)
    close(moving.numpy(), 0.1 * X.mean(axis=0))


def test_dropout_is_scaled_and_differentiated():
    x = gt.Variable(np.ones((100, 100)))
    with gt.GradientTape() as tape:
        y = gt.nn.dropout(x, rate=0.25, seed=3)
        loss = gt.reduce_sum(y)
    g = tape.gradient(loss, x).numpy()
    assert sorted(set(np.round(np.unique(g), 6))) == [0.0, np.round(1 / 0.75, 6)]
    close(g, y.numpy())


def test_mixture_of_gaussians_by_gradient():
    data = np.r_[RNG.normal(-2, 0.5, 60), RNG.normal(2, 0.7, 60)]

    def negative_log_likelihood(p):
        means, log_scales, logits = gt.unstack(gt.reshape(p, (3, 2)))
        z = (data[:, None] - means) * gt.exp(-log_scales)
        log_p = -0.5 * z**2 - log_scales - 0.5 * np.log(2 * np.pi) + gt.nn.log_softmax(logits)
        return -gt.reduce_sum(gt.reduce_logsumexp(log_p, axis=1))

    p = np.array([-1.0, 1.5, 0.1, -0.2, 0.3, 0.0])
    g = tape_gradient(negative_log_likelihood, p)
    np.testing.assert_allclose(g.numpy(), numeric_gradient(negative_log_likelihood, p), rtol=1e-6, atol=1e-5)


def test_policy_gradient_with_rewards_from_a_simulator():
    gt.random.set_seed(0)
    logits = gt.Variable(np.zeros(3))
    optimizer = gt.optimizers.SGD(0.3)
    for _ in range(80):
        with gt.GradientTape() as tape:
            log_p = gt.nn.log_softmax(logits)
            actions = gt.random.categorical(log_p[None, :], 16)[0]
            rewards = np.where(actions.numpy() == 2, 1.0, 0.0)  # a simulator outside the tape
            loss = -gt.reduce_mean(gt.gather(log_p, actions) * (rewards - rewards.mean()))
        optimizer.apply_gradients([(tape.gradient(loss, logits), logits)])
    assert int(gt.argmax(logits)) == 2


def test_contrastive_loss_with_l2_normalised_pairs():
    other = RNG.normal(size=(6, 4))

    def loss(x):
        a, b = gt.math.l2_normalize(x, axis=1), gt.math.l2_normalize(other, axis=1)
        similarity = gt.matmul(a, b, transpose_b=True) / 0.1
        return gt.reduce_mean(gt.nn.softmax_cross_entropy_with_logits(labels=np.eye(6), logits=similarity))

    x = RNG.normal(size=(6, 4))
    close(tape_gradient(loss, x), numeric_gradient(loss, x), TOLERANCE)


def test_teacher_forcing_with_tensor_array():
    targets = RNG.normal(size=(5,))

    def loss(w):
        outputs = gt.TensorArray(gt.float64, size=5)
        h = gt.constant(np.float64(0.1))
        for t in range(5):
            h = gt.tanh(w[0] * h + w[1] * targets[max(t - 1, 0)])
            outputs = outputs.write(t, h)
        return gt.reduce_sum((outputs.stack() - targets) ** 2)

    w = np.array([0.7, -0.4])
    close(tape_gradient(loss, w), numeric_gradient(loss, w), TOLERANCE)


def test_graph_network_with_segment_sums():
    sources, targets = np.array([0, 1, 2, 3, 3]), np.array([1, 2, 0, 1, 2])

    def loss(features):
        messages = gt.gather(features, sources) * gt.sigmoid(gt.gather(features, targets))
        summed = gt.math.unsorted_segment_sum(messages, targets, num_segments=4)
        return gt.reduce_sum(gt.tanh(summed) ** 2)

    x = RNG.normal(size=(4, 3))
    close(tape_gradient(loss, x), numeric_gradient(loss, x), TOLERANCE)


def test_weight_tying_and_frozen_layers():
    model = Net((3, 3, 3))
    model.layers[1].w = model.layers[0].w
    with gt.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(model.layers[0].w)
        y = gt.reduce_sum(model(X))
    dw, db = tape.gradient(y, [model.layers[0].w, model.layers[0].b])
    assert dw.shape == (3, 3)
    assert db is None
    assert len(model.trainable_variables) == 3
