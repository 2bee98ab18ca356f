"""Connectionist temporal classification against an enumeration of all paths; losses on sampled classes by their definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradtape as gt

RNG = np.random.default_rng(11)


def spelled(path, blank):
    """What a path of classes says: repetitions count once, blanks not at all."""
    return [c for c, _ in itertools.groupby(path) if c != blank]


def by_enumeration(label, logits, blank):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    paths = itertools.product(range(logits.shape[1]), repeat=len(logits))
    total = sum(np.prod([p[t, c] for t, c in enumerate(path)]) for path in paths if spelled(path, blank) == list(label))
    return -np.log(total)


@pytest.mark.parametrize("blank", [None, 1, -1])
@pytest.mark.parametrize("major", [True, False])
def test_ctc_against_all_paths(blank, major):
    index = 0 if blank is None else blank % 3
    first, second = (c for c in range(3) if c != index)
    labels = np.array([[first, first, 0], [second, first, 0], [first, 0, 0], [0, 0, 0]])
    lengths, frames = np.array([2, 2, 1, 0]), np.array([5, 4, 2, 3])
    logits = RNG.normal(size=(5, 4, 3))
    given = logits if major else logits.transpose(1, 0, 2)
    expected = [by_enumeration(labels[i, : lengths[i]], logits[: frames[i], i], index) for i in range(4)]
    ours = gt.nn.ctc_loss(labels, given, lengths, frames, major, blank_index=blank)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    compiled = gt.function(lambda x: gt.nn.ctc_loss(labels, x, lengths, frames, major, blank_index=blank))
    np.testing.assert_allclose(compiled(gt.constant(given)), expected, rtol=1e-12)


def test_ctc_emits_a_label_that_names_the_class_of_blanks():
    """As many frames as labels: the labels themselves are the only alignment, whatever they are."""
    logits = RNG.normal(size=(4, 1, 3))
    log_probabilities = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    labels = [1, 2, 0, 2]
    expected = -sum(log_probabilities[t, 0, label] for t, label in enumerate(labels))
    np.testing.assert_allclose(gt.nn.ctc_loss([labels], logits, [4], [4]), [expected], rtol=1e-12)


def test_ctc_too_few_frames_is_impossible_and_has_no_nan():
    x = gt.constant(RNG.normal(size=(2, 1, 3)))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.nn.ctc_loss([[1, 1]], x, [2], [2])
    assert float(y[0]) > 1e29
    assert np.isfinite(tape.gradient(y, x).numpy()).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_ctc_does_not_look_beyond_the_lengths(compiled):
    """As TensorFlow: labels are padded with anything, and of no frames nothing is the only reading."""
    loss = gt.function(gt.nn.ctc_loss) if compiled else gt.nn.ctc_loss
    x = gt.constant(RNG.normal(size=(4, 3, 5)))
    padded, zeros = np.array([[1, -1, 99], [4, 1, -7], [-1, -1, -1]]), np.array([[1, 0, 0], [4, 1, 0], [0, 0, 0]])
    lengths, frames = np.array([1, 2, 0]), np.array([4, 3, 0])
    ours = loss(padded, x, lengths, frames).numpy()
    np.testing.assert_array_equal(ours, loss(zeros, x, lengths, frames))
    assert ours[2] == 0.0
    assert float(loss([[1]], x[:, :1], [1], [0])[0]) > 1e29
    np.testing.assert_array_equal(loss(zeros[2:], x[:0, :1], [0], [0]), [0.0])


def test_sampled_softmax_of_all_classes_is_the_softmax():
    classes, features = 6, 4
    w, b, x = RNG.normal(size=(classes, features)), RNG.normal(size=classes), RNG.normal(size=(3, features))
    labels = np.array([[0], [3], [5]])
    everything = (np.arange(classes), np.ones((3, 1)), np.ones(classes))
    ours = gt.nn.sampled_softmax_loss(w, b, labels, x, classes, classes, sampled_values=everything)
    expected = gt.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], x @ w.T + b)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_nce_by_its_definition():
    w, b, x = RNG.normal(size=(6, 4)), RNG.normal(size=6), RNG.normal(size=(2, 4))
    labels, drawn = np.array([[1], [4]]), np.array([0, 2])
    true_count, drawn_count = np.full((2, 1), 0.3), np.array([0.5, 0.2])
    logits = x @ w.T + b

    def softplus(z):
        return np.log1p(np.exp(z))

    expected = [
        softplus(-(logits[i, labels[i, 0]] - np.log(0.3))) + softplus(logits[i, drawn] - np.log(drawn_count)).sum()
        for i in range(2)
    ]
    ours = gt.nn.nce_loss(w, b, labels, x, 2, 6, sampled_values=(drawn, true_count, drawn_count))
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_drawn_classes_have_their_chances(compiled):
    gt.random.set_seed(3)

    def draw():
        return gt.random.log_uniform_candidate_sampler([[0]], 1, 3, True, 8)

    draw = gt.function(draw) if compiled else draw
    counts, rounds = np.zeros(8), 1500
    for _ in range(rounds):
        classes, true_expected, expected = draw()
        assert len(set(classes.numpy().tolist())) == 3
        counts[classes.numpy()] += 1
    # expected counts of drawing without replacement, to the accuracy of counting and of the formula
    every = gt.random.log_uniform_candidate_sampler([list(range(8))], 8, 3, True, 8)[1].numpy()[0]
    np.testing.assert_allclose(counts / rounds, every, atol=0.06)
    assert float(every.sum()) == pytest.approx(3.0, abs=1e-5)
    assert true_expected.shape == (1, 1)
    assert expected.shape == (3,)
    with pytest.raises(ValueError, match="cannot draw 9 different classes of 8"):
        gt.random.uniform_candidate_sampler([[0]], 1, 9, True, 8)


def test_places_of_maxima_are_found_there():
    x = RNG.normal(size=(2, 5, 6, 3))
    for padding in ("VALID", "SAME"):
        values, places = gt.nn.max_pool_with_argmax(x, 3, 2, padding, include_batch_in_index=True)
        np.testing.assert_array_equal(x.ravel()[places.numpy()], values.numpy())
        each = gt.nn.max_pool_with_argmax(x, 3, 2, padding, output_dtype=gt.int32)[1].numpy()
        np.testing.assert_array_equal(x[1].ravel()[each[1]], values.numpy()[1])
