"""Losses that need more than their logits: connectionist temporal classification, and losses on sampled classes.

Composites: the recursion of CTC is written in gradtape's ops, one step per frame, so derivatives of any order are those of the
recursion itself. Sampled classes have no derivative; what is computed from their weights has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradtape.core.arguments import integral, of_rank, promoted, real_floats, real_numbers, whole
from gradtape.core.dispatch import convert
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Integer, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.sampling import integers, normal

# -- connectionist temporal classification -------------------------------------------------------------------------------

_NEVER = -1e30  # the logarithm of a probability of zero: finite, so that differences of two such are no NaN


def _log_add(*terms: Tensor) -> Tensor:
    """log Σ exp, of terms that may all be as good as impossible."""
    stacked = stack(terms, 0)
    return reduce_logsumexp(stacked, 0)


@composite(
    samples=lambda: [
        Sample(np.array([[1, 2], [1, 1]]), normal(5, 2, 3), np.array([2, 2]), np.array([5, 4])),
        Sample(np.array([[1, 2, 0]]), normal(1, 4, 3), np.array([2]), np.array([4]), False),
        Sample(np.array([[0, 1]]), normal(3, 1, 3), np.array([1]), np.array([3]), blank_index=-1),
        Sample(np.array([[1, 2]]), normal(4, 1, 3), np.array([0]), np.array([4])),
        Sample(np.array([[1, 2]]), normal(4, 3), np.array([2]), np.array([4]), raises=(ValueError, "rank 3")),
        Sample(np.array([[1, 2]]), normal(4, 2, 3), np.array([2]), np.array([4]), raises=(ValueError, "batch")),
        Sample(
            np.array([[1, 2]]), normal(4, 1, 3), np.array([2]), np.array([4]), blank_index=3, raises=(ValueError, "blank_index")
        ),
    ]
)
def ctc_loss(
    labels: TensorLike, logits: TensorLike, label_length: TensorLike, logit_length: TensorLike, logits_time_major: bool = True,
    unique: object = None, blank_index: int | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of each label sequence under all its alignments (Graves et al. 2006).

    Args:
        labels: integers (batch, longest label); what lies beyond `label_length` does not count.
        logits: (frames, batch, classes), or (batch, frames, classes) with `logits_time_major=False`.
        label_length: how many labels each sequence has.
        logit_length: how many frames each sequence has.
        blank_index: the class that stands for "no label"; 0 by default, negative ones count from the end.

    A sequence with too few frames for its labels has a loss of about 1e30.

    >>> loss = gt.nn.ctc_loss([[1]], gt.zeros((2, 1, 2)), label_length=[1], logit_length=[2])
    >>> loss.numpy().round(4)  # three of four paths spell "1"
    array([0.2877], dtype=float32)
    """
    op = "ctc_loss"
    labels = cast(of_rank(integral(labels, "labels", op), 2, "labels", op, most=2), "int64")
    logits = of_rank(real_floats(logits, "logits", op), 3, "logits", op, most=3)
    if not logits_time_major:
        logits = transpose(logits, (1, 0, 2))
    frames, batch, classes = logits.shape
    longest = labels.shape[1]
    if not fits(labels.shape[:1], (batch,)):
        raise InvalidArgumentError(f"{op}: {labels.shape[0]} rows of labels for a batch of {batch}")
    if frames.__class__ is not int or longest.__class__ is not int:
        raise InvalidArgumentError(f"{op}: the number of frames and of labels must be known while tracing: pad them")
    blank = 0 if blank_index is None else whole(blank_index, "blank_index", op)
    blank += int(classes) if blank < 0 else 0
    if not 0 <= blank < classes:
        raise InvalidArgumentError(f"{op}: blank_index {blank_index} is not one of {classes} classes of the logits")
    lengths = _lengths(label_length, "label_length", batch, longest, op)
    seen = _lengths(logit_length, "logit_length", batch, frames, op)
    labels = where(grid(longest, 1, 2) < expand_dims(lengths, 1), labels, fill_like(labels, blank))  # what is beyond is padding
    labels = check_range(labels, classes, op, "labels value")
    # blanks between the labels and at both ends: state 2k is the blank before label k, state 2k + 1 label k
    states = 2 * longest + 1
    extended = reshape(stack([fill_like(labels, blank), labels], 2), (batch, 2 * longest))
    extended = pad(extended, [(0, 0), (0, 1)], constant_values=blank)
    log_probabilities = log_softmax(logits, -1)
    emitted = gather(log_probabilities, tile(expand_dims(extended, 0), (frames, 1, 1)), axis=2, batch_dims=2)
    # a label may follow the one before it directly unless they are equal: then there must be a blank between them
    before = pad(extended, [(0, 0), (2, 0)], constant_values=-1)[:, :states]
    # (it is a label by its place: one that names the class of blanks is emitted like any other)
    skips = logical_and(not_equal(extended, before), equal(mod(grid(states, 1, 2), 2), 1))
    skips = logical_and(skips, grid(states, 1, 2) >= 2)
    impossible = zeros_like(extended, logits.dtype) + _NEVER
    alpha = where(grid(states, 1, 2) < 1, zeros_like(impossible), impossible)  # before the first frame nothing has been said
    # α_t(s): the log-probability of all alignments of the first t frames that are in state s. One stays in a state, comes from
    # the one before it, or skips a blank; frames beyond the length of a sequence leave its α alone.
    for t in range(frames):
        one = pad(alpha, [(0, 0), (1, 0)], constant_values=_NEVER)[:, :states]
        two = where(skips, pad(alpha, [(0, 0), (2, 0)], constant_values=_NEVER)[:, :states], impossible)
        alpha = where(expand_dims(t < seen, 1), _log_add(alpha, one, two) + emitted[t], alpha)
    # the sequence ends in its last label or in the blank behind it
    last = expand_dims(2 * lengths, 1)
    place = grid(states, 1, 2)
    ends = logical_or(equal(place, last), equal(place, last - 1))
    return -reduce_logsumexp(where(ends, alpha, impossible), 1)


def _lengths(value: TensorLike, argument: str, batch: int, longest: int, op: str) -> Tensor:
    """How much of each row counts: one integer a row, between 0 and the length of the rows."""
    lengths = of_rank(integral(value, argument, op), 1, argument, op, most=1)
    if not fits(lengths.shape, (batch,)):
        raise InvalidArgumentError(f"{op}: {argument} needs one number for each of {batch} rows, got {lengths.shape[0]}")
    return check_range(cast(lengths, "int64"), longest + 1, op, argument)


def fill_like(labels: Tensor, value: int) -> Tensor:
    """As many of one class."""
    return zeros_like(labels) + value


# -- losses on sampled classes -------------------------------------------------------------------------------------------


def _expected(probabilities: Array, num_sampled: int, unique: bool) -> Array:
    """How often each class is expected among the samples, for drawing with or without replacement."""
    if not unique:
        return probabilities * num_sampled
    # drawn until `num_sampled` are different: the number of draws whose expected count of different classes is that
    low, high = float(num_sampled), float(num_sampled)
    while -np.expm1(high * np.log1p(-probabilities)).sum() < num_sampled * (1.0 - 1e-9) and high < 1e18:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = -np.expm1(middle * np.log1p(-probabilities)).sum() >= num_sampled
        low, high = (low, middle) if enough else (middle, high)
    return -np.expm1(high * np.log1p(-probabilities))


def _candidates(
    probabilities: Array, true_classes: TensorLike, num_sampled: Integer, unique: bool, seed: int | None, op: str
) -> tuple[Tensor, Tensor, Tensor]:
    count, num_sampled = len(probabilities), whole(num_sampled, "num_sampled", op, least=1)
    if unique and num_sampled > count:
        raise InvalidArgumentError(f"{op}: num_sampled: cannot draw {num_sampled} different classes of {count}")
    true_classes = check_range(integral(true_classes, "true_classes", op), count, op, "true_classes value")
    seed = None if seed is None else whole(seed, "seed", op)
    chances = convert(np.log(probabilities).astype(np.float32))
    if unique:  # the largest of independently disturbed log-probabilities (Gumbel): as drawn without replacement
        noise = random.uniform((count,), minval=np.finfo(np.float32).tiny, seed=seed)
        sampled = cast(top_k(chances - log(-log(noise)), num_sampled)[1], "int64")
    else:
        sampled = random.categorical(expand_dims(chances, 0), num_sampled, "int64", seed)[0]
    expected = convert(_expected(probabilities, num_sampled, unique).astype(np.float32))
    return sampled, gather(expected, true_classes), gather(expected, sampled)


def uniform_candidate_sampler(
    true_classes: TensorLike, num_true: int, num_sampled: Integer, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Classes drawn with equal chances from [0, range_max), and how often the true and the drawn ones are expected.

    >>> classes, _, expected = gt.random.uniform_candidate_sampler([[0]], 1, 4, True, 4, seed=1)
    >>> sorted(classes.numpy().tolist()), expected.numpy().round(3).tolist()
    ([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0])
    """
    op = "uniform_candidate_sampler"
    count = whole(range_max, "range_max", op, least=1)
    return _candidates(np.full(count, 1.0 / count), true_classes, num_sampled, unique, seed, op)


def log_uniform_candidate_sampler(
    true_classes: TensorLike, num_true: int, num_sampled: Integer, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Classes drawn from [0, range_max) with chances log((k + 2)/(k + 1)): for classes sorted by falling frequency.

    >>> classes, _, _ = gt.random.log_uniform_candidate_sampler([[0]], 1, num_sampled=3, unique=True, range_max=10, seed=1)
    >>> classes.shape
    TensorShape([3])
    """
    op = "log_uniform_candidate_sampler"
    count = whole(range_max, "range_max", op, least=1)
    probabilities = np.log1p(1.0 / np.arange(1.0, count + 1.0)) / math.log(count + 1.0)
    return _candidates(probabilities, true_classes, num_sampled, unique, seed, op)


def _sampled_logits(
    weights: TensorLike, biases: TensorLike, labels: TensorLike, inputs: TensorLike, num_sampled: Integer, num_classes: Integer,
    num_true: int, sampled_values: Sequence[TensorLike] | None, remove_hits: bool, seed: int | None, op: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Logits (batch, true + sampled) with log-expected counts taken off, and their label distributions."""
    if isinstance(weights, (list, tuple)):
        raise InvalidArgumentError(f"{op}: sharded weights are not supported: give one tensor, gt.concat(weights, 0)")
    num_true = whole(num_true, "num_true", op, least=1)
    weights, inputs = promoted(op, weights=weights, inputs=inputs)
    weights = of_rank(real_floats(weights, "weights", op), 2, "weights", op, most=2)
    inputs = of_rank(real_floats(inputs, "inputs", op), 2, "inputs", op, most=2)
    biases = of_rank(real_numbers(biases, "biases", op, weights.dtype), 1, "biases", op, most=1)
    labels = cast(of_rank(integral(labels, "labels", op), 1, "labels", op, most=2), "int64")
    if labels.ndim == 1:
        labels = expand_dims(labels, -1)
    rows = weights.shape[0]
    for argument, tensor, wanted in (
        ("labels", labels, (inputs.shape[0], num_true)),
        ("inputs", inputs, (inputs.shape[0], weights.shape[1])),
        ("biases", biases, (rows,)),
    ):
        if not fits(tensor.shape, wanted):
            raise InvalidArgumentError(
                f"{op}: {argument} need the shape {wanted} beside weights of shape {tuple(weights.shape)} and inputs of shape "
                f"{tuple(inputs.shape)}, got {tuple(tensor.shape)}"
            )
    labels = check_range(labels, rows, op, "labels value")
    if sampled_values is None:
        num_classes = whole(num_classes, "num_classes", op, least=1)
        if rows.__class__ is int and num_classes > rows:
            raise InvalidArgumentError(f"{op}: num_classes is {num_classes}, the weights have {rows} rows")
        sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed)
    sampled, true_expected, sampled_expected = _drawn(sampled_values, labels, rows, op)
    true_w, true_b = gather(weights, labels), gather(biases, labels)
    true_logits = reduce_sum(expand_dims(inputs, 1) * true_w, -1) + true_b
    sampled_logits = inputs @ swap_last(gather(weights, sampled)) + gather(biases, sampled)
    if remove_hits:  # a class drawn by chance that is a true one does not count as a wrong one
        hits = reduce_any(equal(expand_dims(labels, 2), sampled), 1)
        sampled_logits = where(hits, zeros_like(sampled_logits) + _HIT, sampled_logits)
    true_logits = true_logits - log(cast(true_expected, weights.dtype))
    sampled_logits = sampled_logits - log(cast(sampled_expected, weights.dtype))
    distributions = concat([ones_like(true_logits) / float(num_true), zeros_like(sampled_logits)], 1)
    return concat([true_logits, sampled_logits], 1), distributions


def _drawn(sampled_values: Sequence[TensorLike], labels: Tensor, rows: int, op: str) -> tuple[Tensor, Tensor, Tensor]:
    """The drawn classes, and how often the true and the drawn ones are expected."""
    argument = "sampled_values"
    if not isinstance(sampled_values, (list, tuple)) or len(sampled_values) != 3:
        raise InvalidArgumentError(
            f"{op}: {argument} are three tensors: classes, expected counts of the true ones, expected counts of these"
        )
    sampled = of_rank(integral(sampled_values[0], argument, op), 1, argument, op, most=1)
    true_expected, expected = (stop_gradient(real_numbers(counts, argument, op)) for counts in sampled_values[1:])
    if not fits(true_expected.shape, labels.shape) or not fits(expected.shape, sampled.shape):
        raise InvalidArgumentError(
            f"{op}: the counts in {argument} need the shapes {tuple(labels.shape)} and {tuple(sampled.shape)}, got "
            f"{tuple(true_expected.shape)} and {tuple(expected.shape)}"
        )
    return check_range(cast(sampled, "int64"), rows, op, f"{argument} class"), true_expected, expected


_HIT = -1e30  # the logit of a class that is not to be chosen


def _given(samples: Array) -> tuple[Array, Array, Array]:
    return samples, np.full((2, 1), 2.0), np.full(len(samples), 3.0)


@composite(
    samples=lambda: [
        Sample(normal(5, 3), normal(5), integers(5, 2, 1), normal(2, 3), 3, 5, sampled_values=_given(np.array([0, 2, 4]))),
        Sample(normal(5, 3), normal(5), integers(5, 2, 2), normal(2, 3), 3, 5, raises=(ValueError, "labels need")),
    ]
)
def nce_loss(
    weights: TensorLike, biases: TensorLike, labels: TensorLike, inputs: TensorLike, num_sampled: Integer, num_classes: Integer,
    num_true: int = 1, sampled_values: Sequence[TensorLike] | None = None, remove_accidental_hits: bool = False,
    name: str = "nce_loss",
) -> Tensor:  # fmt: skip
    """Noise-contrastive estimation (Gutmann & Hyvärinen 2010): true classes against classes drawn at random.

    Args:
        weights: (classes, features), biases: (classes,).
        labels: integers (batch, num_true).
        inputs: (batch, features).
        num_sampled: how many classes are drawn for each batch, by `gt.random.log_uniform_candidate_sampler`, unless
            `sampled_values` (classes, expected counts of the true ones, expected counts of these) are given.

    >>> gt.random.set_seed(1)
    >>> gt.nn.nce_loss(gt.ones((6, 2)), gt.zeros(6), [[1], [2]], gt.ones((2, 2)), num_sampled=3, num_classes=6).shape
    TensorShape([2])
    """
    logits, wanted = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, remove_accidental_hits, None,
        "nce_loss",
    )  # fmt: skip
    return reduce_sum(sigmoid_cross_entropy_with_logits(wanted, logits), 1)


@composite(
    samples=lambda: [
        Sample(normal(5, 3), normal(5), integers(5, 2, 1), normal(2, 3), 3, 5, sampled_values=_given(np.array([0, 2, 4])))
    ]
)
def sampled_softmax_loss(
    weights: TensorLike, biases: TensorLike, labels: TensorLike, inputs: TensorLike, num_sampled: Integer, num_classes: Integer,
    num_true: int = 1, sampled_values: Sequence[TensorLike] | None = None, remove_accidental_hits: bool = True,
    seed: int | None = None, name: str = "sampled_softmax_loss",
) -> Tensor:  # fmt: skip
    """The softmax cross entropy over the true classes and some drawn at random: for very many classes."""
    logits, wanted = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, remove_accidental_hits, seed,
        "sampled_softmax_loss",
    )  # fmt: skip
    return softmax_cross_entropy_with_logits(wanted, logits)


from gradtape.ops import random
from gradtape.ops.activations import log_softmax
from gradtape.ops.compare import equal, logical_and, logical_or, not_equal
from gradtape.ops.create import fits, grid, ones_like, zeros_like
from gradtape.ops.elementwise import cast, log
from gradtape.ops.extending import pad, tile
from gradtape.ops.index import check_range, gather
from gradtape.ops.losses import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits
from gradtape.ops.matmul import swap_last
from gradtape.ops.reduce import reduce_any, reduce_logsumexp, reduce_sum
from gradtape.ops.select import mod, where
from gradtape.ops.shape import concat, expand_dims, reshape, stack, transpose
from gradtape.ops.sorting import top_k
from gradtape.ops.stop import stop_gradient
