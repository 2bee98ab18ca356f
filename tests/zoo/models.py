"""Models and losses: perceptrons, recurrent cells, attention, normalisation, mixtures, contrastive and ranking losses."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import Instance, stateful, zoo

RNG = np.random.default_rng(5)


def normal(*shape):
    return (0.5 * RNG.normal(size=shape)).tolist()


@zoo([(normal(2, 3), normal(3, 4), normal(4, 1))])
def perceptron(x, w1, w2):
    h = x
    for k, w in enumerate((w1, w2)):
        h = h @ w
        if k == 0:
            h = gt.tanh(h)
    return gt.reduce_mean(h * h)


@zoo([(normal(4, 2), normal(2, 3), normal(3, 3)), (normal(1, 2), normal(2, 3), normal(3, 3))])
def recurrent_network(xs, w, u):
    h = gt.zeros([3], gt.float64)
    for x in xs:
        h = gt.tanh(gt.linalg.matvec(gt.transpose(w), x) + gt.linalg.matvec(u, h))
    return h


@zoo([(normal(4, 2), normal(4, 8))])
def lstm(xs, w):
    h, c = gt.zeros([2], gt.float64), gt.zeros([2], gt.float64)
    outputs = []
    for x in xs:
        z = gt.linalg.matvec(gt.transpose(w), gt.concat([x, h], 0))
        i, f, g, o = gt.split(z, 4)
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        h = gt.sigmoid(o) * gt.tanh(c)
        outputs.append(h)
    return gt.stack(outputs), c


@zoo([(normal(3, 2), normal(4, 2), normal(4, 2), normal(4, 2))])
def gru(xs, wz, wr, wh):
    h = xs[0] * 0.0
    for x in xs:
        both = gt.concat([x, h], 0)
        z = gt.sigmoid(gt.linalg.matvec(gt.transpose(wz), both))
        r = gt.sigmoid(gt.linalg.matvec(gt.transpose(wr), both))
        new = gt.tanh(gt.linalg.matvec(gt.transpose(wh), gt.concat([x, r * h], 0)))
        h = (1.0 - z) * h + z * new
    return h


@zoo([(normal(5, 2), normal(2, 2), np.int32(3)), (normal(5, 2), normal(2, 2), np.int32(5))])
def dynamic_length_rnn(xs, u, length):
    h = gt.zeros([2], gt.float64)
    ta = gt.TensorArray(gt.float64, size=length)
    for t in gt.range(length):
        h = gt.tanh(xs[t] + gt.linalg.matvec(u, h))
        ta = ta.write(t, h)
    return gt.reduce_mean(ta.stack(), 0)


@zoo([(normal(3, 4), normal(3, 4), normal(3, 2))])
def attention(q, k, v):
    scores = q @ gt.transpose(k) / 2.0
    rows = []
    for i in range(3):
        weights = gt.nn.softmax(scores[i, : i + 1])
        rows.append(gt.reduce_sum(weights[:, None] * v[: i + 1], 0))
    return gt.stack(rows)


@zoo([(normal(3, 4), 2), (normal(3, 4), 1)])
def multi_head_self_attention(x, heads):
    width = x.shape[-1] // heads
    parts = []
    for h in range(heads):
        s = x[:, h * width : (h + 1) * width]
        parts.append(gt.nn.softmax(s @ gt.transpose(s)) @ s)
    return gt.concat(parts, -1)


@zoo([(normal(4, 3), True), (normal(4, 3), False)])
def normalisation_with_a_training_flag(x, training):
    if training:
        mean, variance = gt.nn.moments(x, [0])
    else:
        mean, variance = gt.zeros([3], gt.float64), gt.ones([3], gt.float64)
    return (x - mean) / gt.sqrt(variance + 1e-2)


@zoo([(normal(3, 4), np.array([2, 0, 1], np.int32))])
def cross_entropy_by_a_loop(logits, labels):
    total = 0.0
    for row, label in zip(logits, labels):
        total = total - (row[label] - gt.reduce_logsumexp(row))
    return total / len(labels)


@zoo([([0.3, 2.9, -1.8], [0.1, 0.2, 0.3])])
def huber_loss_by_branches(prediction, target):
    total = 0.0
    for p, t in zip(prediction, target):
        e = abs(p - t)
        if e < 1.0:
            total += 0.5 * e * e
        else:
            total += e - 0.5
    return total


@zoo([([0.9, -0.4, 0.3], [0.2, 0.5, -0.8], [0.85, -0.3, 0.2]), ([0.9, -0.4, 0.3], [0.8, -0.5, 0.4], [-0.85, 0.3, 0.2])])
def triplet_loss(anchor, positive, negative):
    near = gt.reduce_sum((anchor - positive) ** 2)
    far = gt.reduce_sum((anchor - negative) ** 2)
    margin = near - far + 0.5
    if margin > 0:
        return margin * margin
    return near * 0.1


@zoo([([0.9, -0.4, 0.3, 1.4], np.array([1, 0, 0, 1], np.int32))])
def pairwise_ranking_loss(scores, labels):
    total, pairs = 0.0, 0
    for i in range(4):
        for j in range(4):
            if labels[i] > labels[j]:
                total += gt.nn.softplus(scores[j] - scores[i])
                pairs += 1
    return total / float(pairs)


@zoo([(normal(5), [0.3, 0.6], [-0.5, 0.5])])
def mixture_log_likelihood(data, weights, means):
    total = 0.0
    for x in data:
        terms = [gt.math.log(w) - 0.5 * (x - m) ** 2 for w, m in zip(weights, means)]
        total += gt.reduce_logsumexp(gt.stack(terms))
    return total


@zoo([(normal(6), normal(3)), (normal(3), normal(2))])
def convolution_by_loops(signal, kernel):
    n, k = len(signal), len(kernel)
    out = gt.zeros([n - k + 1], gt.float64)
    for i in range(n - k + 1):
        for j in range(k):
            out[i] += signal[i + j] * kernel[j]
    return gt.nn.softplus(out)


@zoo([(normal(2, 4), normal(4), 3)])
def residual_blocks(x, scale, depth):
    for layer in range(depth):
        residual = x
        x = gt.tanh(x * scale + 0.1 * layer)
        x = residual + 0.5 * x
    return x


@zoo([(normal(3, 2), np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], np.int32))])
def message_passing(nodes, edges):
    for _ in range(2):
        new = []
        for i in range(3):
            acc = nodes[i] * 0.5
            for j in range(3):
                if edges[i, j] > 0:
                    acc = acc + gt.tanh(nodes[j])
            new.append(acc)
        nodes = gt.stack(new)
    return nodes


@zoo([(normal(4, 2), normal(2, 2))])
def k_means_objective(points, centers):
    total = 0.0
    for p in points:
        best = None
        for c in centers:
            d = gt.reduce_sum((p - c) ** 2)
            if best is None or d < best:
                best = d
        total += best
    return total


@zoo([(normal(5), np.int32(3)), (normal(5), np.int32(1))])
def exponential_smoothing_with_warmup(series, warmup):
    level = series[0]
    loss = 0.0
    for t in range(1, 5):
        error = series[t] - level
        if t > warmup:
            loss += error * error
        level = level + 0.3 * error
    return loss + level


@zoo([(normal(3, 2), normal(2, 2), 0.5), (normal(3, 2), normal(2, 2), 0.01)])
def deep_equilibrium_until_small_change(x, w, tolerance):
    z = x * 0.0
    n = 0
    while n < 6:
        new = gt.tanh(0.5 * z @ w + x)
        change = gt.reduce_max(abs(new - z))
        z = new
        n += 1
        if change < tolerance:
            break
    return z


@zoo([(normal(4), normal(4))])
def encoder_decoder_with_lists(x, w):
    hidden = []
    state = x[0] * 0.0
    for v in x:
        state = gt.tanh(state + v)
        hidden.append(state)
    out = []
    for weight in w:
        scores = gt.nn.softmax(gt.stack([h * state for h in hidden]))
        context = sum(s * h for s, h in zip(scores, hidden))
        state = gt.tanh(state * weight + context)
        out.append(state)
    return out


@stateful([(normal(2, 3),), (normal(2, 3),)])
def module_with_layers():
    class Dense(gt.Module):
        def __init__(self, n_in, n_out, seed):
            super().__init__()
            generator = np.random.default_rng(seed)
            self.w = gt.Variable(generator.normal(size=(n_in, n_out)) * 0.5, name="w")
            self.b = gt.Variable(np.zeros(n_out), name="b")

        def __call__(self, x):
            return x @ self.w + self.b

    class Net(gt.Module):
        def __init__(self):
            super().__init__()
            self.layers = [Dense(3, 4, 1), Dense(4, 2, 2)]

        def __call__(self, x):
            for k, layer in enumerate(self.layers):
                x = layer(x)
                if k < len(self.layers) - 1:
                    x = gt.tanh(x)
            return gt.nn.log_softmax(x)

    net = Net()
    return Instance(net.__call__, variables=net.trainable_variables)


@stateful([(normal(3, 2), True), (normal(3, 2), False), (normal(3, 2), True)])
def batch_normalisation_with_moving_averages():
    mean = gt.Variable(np.zeros(2), trainable=False)
    gamma = gt.Variable(np.array([1.0, 0.5]))

    def normalise(x, training):
        if training:
            batch = gt.reduce_mean(x, 0)
            mean.assign(0.9 * mean + 0.1 * batch)
        else:
            batch = mean.read_value()
        return (x - batch) * gamma

    return Instance(normalise, lambda: mean, (gamma,))


@stateful([(np.array([2, 0, 2], np.int32),), (np.array([1, 1, 0], np.int32),)], order=2)
def embedding_bag():
    table = gt.Variable(np.array([[0.1, 0.5], [0.9, -0.2], [0.3, 0.4]]))

    def embed(ids):
        total = gt.zeros([2], gt.float64)
        for i in ids:
            total = total + gt.sin(table[i])
        return total * gt.gather(table, ids)[0]

    return Instance(embed, variables=(table,))
