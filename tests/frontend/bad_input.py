"""Calls with a wrong argument, for each name that programs written for TensorFlow, NumPy and the array API standard need: the
call, and words of the message that name the argument.

The letters are tensors: `VALUES`. Every call is a mistake of its own: a wrong type, rank, size, axis, option, dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_RNG = np.random.default_rng(0)
VALUES: dict[str, Any] = {
    "v": np.arange(4.0), "m": _RNG.normal(size=(3, 3)), "r": _RNG.normal(size=(2, 3)), "s": np.array(2.0),
    "i": np.array([0, 1, 2]), "c": _RNG.normal(size=(3, 3)) + 1j, "e": np.zeros(0), "b": np.array([True, False, True, True]),
    "t": _RNG.normal(size=(1, 4, 4, 1)), "d": _RNG.normal(size=(1, 3, 3, 3, 1)), "f": _RNG.normal(size=(2, 2, 2, 1, 1)),
    "k": _RNG.normal(size=(3, 4)), "q": _RNG.normal(size=(5, 2, 3)), "w": _RNG.normal(size=(6, 3)), "z": np.zeros((0, 3)),
    "cv": np.arange(4) + 1j, "g": np.zeros(6),
}  # fmt: skip

MISTAKES: dict[str, list[tuple[str, str]]] = {
    "Tensor.reshape": [
        ("m.reshape(2, 2)", "reshape"), ("m.reshape('a')", "shape"), ("m.reshape(-1, -1)", "shape"),
        ("m.reshape(1.5, 6)", "shape"), ("m.reshape(9, order='Q')", "order"),
    ],
    "Tensor.ravel": [
        ("m.ravel('Q')", "order"),
    ],
    "Tensor.flatten": [
        ("m.flatten('Q')", "order"),
    ],
    "Tensor.transpose": [
        ("m.transpose(0, 0)", "axes|perm"), ("m.transpose(0, 1, 2)", "axes|perm"), ("m.transpose('a')", "axes|perm"),
        ("m.transpose(0, 5)", "axes|perm"),
    ],
    "Tensor.sum": [
        ("m.sum(axis=2)", "axis"), ("m.sum('a')", "axis"), ("m.sum(axis=(0, 0))", "axis"), ("m.sum(axis=1.5)", "axis"),
        ("m.sum(dtype='nope')", "dtype"),
    ],
    "Tensor.mean": [
        ("m.mean(axis=2)", "axis"), ("m.mean(axis='a')", "axis"), ("m.mean(dtype='nope')", "dtype"),
    ],
    "Tensor.max": [
        ("m.max(axis=2)", "axis"), ("m.max(axis='a')", "axis"), ("e.max()", "empty|no elements|zero"),
    ],
    "Tensor.min": [
        ("e.min()", "empty|no elements|zero"), ("m.min(axis=-3)", "axis"),
    ],
    "Tensor.std": [
        ("m.std(axis=2)", "axis"), ("m.std(axis='a')", "axis"), ("m.std(ddof='a')", "ddof"),
        ("m.std(dtype='nope')", "dtype"),
    ],
    "Tensor.var": [
        ("m.var(ddof='a')", "ddof"),
    ],
    "Tensor.dot": [
        ("m.dot(r)", "dot|shape"), ("m.dot('a')", "dot"), ("m.dot(None)", "dot"), ("v.dot(i)", "dot|shape"),
    ],
    "Tensor.clip": [
        ("m.clip('a', 1)", "min"), ("m.clip(0, 'a')", "max"), ("m.clip(v)", "min|shape"),
    ],
    "Tensor.fill": [
        ("m.fill('a')", "fill|value"), ("m.fill(v)", "fill|value|shape"), ("m.fill(None)", "fill|value"),
    ],
    "Tensor.all": [
        ("m.all(axis=2)", "axis"),
    ],
    "Tensor.any": [
        ("m.any(axis='a')", "axis"), ("m.any(axis=(0,0))", "axis"),
    ],
    "Tensor.astype": [
        ("m.astype('nope')", "dtype|nope"), ("m.astype(3)", "dtype"), ("m.astype(gt.float32, casting='nope')", "casting"),
        ("m.astype(gt.int32, casting='safe')", "casting"),
    ],
    "Tensor.copy": [
        ("m.copy('Q')", "order"),
    ],
    "Tensor.swapaxes": [
        ("m.swapaxes(0, 2)", "axis"),
    ],
    "Tensor.squeeze": [
        ("m.squeeze(0)", "axis|squeeze"), ("m.squeeze(5)", "axis|squeeze"),
    ],
    "Tensor.repeat": [
        ("m.repeat(-1)", "repeats"), ("m.repeat('a')", "repeats"), ("v.repeat([1, 2])", "repeats"),
        ("m.repeat(2, axis=5)", "axis"), ("m.repeat(1.5)", "repeats"),
    ],
    "Tensor.cumsum": [
        ("m.cumsum(axis=2)", "axis"), ("m.cumsum(axis='a')", "axis"),
    ],
    "Tensor.cumprod": [
        ("m.cumprod(axis=2)", "axis"),
    ],
    "Tensor.trace": [
        ("v.trace()", "trace|axis|rank"), ("m.trace(axis1=5)", "axis"), ("m.trace('a')", "offset"),
    ],
    "Tensor.round": [
        ("m.round('a')", "decimals"),
    ],
    "Tensor.take": [
        ("m.take(20)", "indices|index"), ("m.take('a')", "indices|index"), ("m.take(1.5)", "indices|index"),
        ("m.take(0, axis=5)", "axis"), ("m.take([0], mode='nope')", "mode"),
    ],
    "Tensor.compress": [
        ("m.compress('a')", "condition"), ("m.compress([True], axis=5)", "axis"),
    ],
    "Tensor.diagonal": [
        ("v.diagonal()", "diag|rank|axis"), ("m.diagonal(axis1=0, axis2=0)", "axis"), ("m.diagonal('a')", "offset"),
    ],
    "Tensor.argmax": [
        ("m.argmax(axis=2)", "axis"), ("e.argmax()", "empty|no elements"), ("m.argmax('a')", "axis"),
    ],
    "Tensor.argsort": [
        ("m.argsort(axis=2)", "axis"), ("m.argsort('a')", "axis"), ("m.argsort(kind='nope')", "kind"),
    ],
    "Tensor.searchsorted": [
        ("v.searchsorted('a')", "v"), ("m.searchsorted(1.0)", "rank|sorted"), ("v.searchsorted(1.0, side='up')", "side"),
    ],
    "Tensor.sort": [
        ("m.sort(axis=2)", "axis"), ("m.sort(kind='nope')", "kind"),
    ],
    "Tensor.partition": [
        ("m.partition(7)", "kth"), ("m.partition('a')", "kth"),
    ],
    "Tensor.put": [
        ("m.put([20], 1.0)", "indices|index"), ("m.put('a', 1.0)", "indices|index"),
        ("m.put([0], 1.0, mode='nope')", "mode"),
    ],
    "Tensor.mT": [
        ("v.mT", "mT|rank|axes"),
    ],
    "np.cov": [
        ("np.cov(d)", "1 or 2 axes"), ("np.cov(m, ddof='a')", "ddof"), ("np.cov(m, fweights=[1.5, 1, 1])", "fweights"),
        ("np.cov(m, fweights=[1, 1])", "fweights"), ("np.cov(m, aweights=[1.0])", "aweights"),
        ("np.cov(m, aweights=[-1.0, 1, 1])", "aweights"), ("np.cov(m, fweights=[-1, 1, 1])", "fweights"),
        ("np.cov(m, fweights=[[1], [1], [1]])", "fweights"), ("np.cov('a', m)", "m|y|str"),
        ("np.cov(m, v)", "m|y|observations|shape"), ("np.cov(m, 'a')", "y"),
    ],
    "np.corrcoef": [
        ("np.corrcoef(d)", "1 or 2 axes"),
    ],
    "np.histogram": [
        ("np.histogram(m, 0)", "bins"), ("np.histogram(m, -3)", "bins"), ("np.histogram(m, [3.0, 1.0])", "bins"),
        ("np.histogram(m, [[1.0, 2.0]])", "bins"), ("np.histogram(m, 1.5)", "bins"),
        ("np.histogram(m, 3, (1.0, 0.0))", "range"), ("np.histogram(m, 3, (0.0, np.inf))", "range"),
        ("np.histogram(m, 3, 'ab')", "range"), ("np.histogram(m, 3, (1.0,))", "range"),
        ("np.histogram(m, 3, weights=v)", "weights"), ("np.histogram(c, 3)", "complex"),
        ("np.histogram(m, 3, weights='a')", "weights"),
        ("np.histogram(gt.constant([np.nan,1.0])+0*s, 3)", "finite|range|nan"),
    ],
    "np.select": [
        ("np.select([m > 0], [m, m])", "condlist|conditions"), ("np.select([m], [m])", "condlist|conditions|bool"),
        ("np.select([m > 0], ['a'])", "choicelist|choices|str"), ("np.select([m > 0], [v])", "shape|choicelist|broadcast"),
        ("np.select(m > 0, m, 'a')", "default"), ("np.select([m > 0], [m], 'a')", "default"),
    ],
    "np.gradient": [
        ("np.gradient(m, edge_order=3)", "edge_order"), ("np.gradient(m, 'a')", "spacing|varargs"),
        ("np.gradient(m, axis=5)", "axis"), ("np.gradient(gt.constant([1.0])*s)", "elements|gradient"),
        ("np.gradient(m, axis='a')", "axis"), ("np.gradient(m, axis=(0, 0))", "axis"),
        ("np.gradient(m, 1.0, 2.0, 3.0)", "spacing"), ("np.gradient(m, [1.0, 2.0], axis=0)", "coordinates|spacing"),
        ("np.gradient(e)", "elements|gradient"), ("np.gradient(r, edge_order=2, axis=0)", "elements|edge_order"),
        ("np.gradient('a', s)", "f|str"), ("np.gradient(v, [[1.0], [2.0], [3.0], [4.0]])", "spacing|coordinates"),
    ],
    "np.partition": [
        ("np.partition(m, 9)", "kth"), ("np.partition(m, 'a')", "kth"), ("np.partition(m, 1.5)", "kth"),
        ("np.partition(m, 1, axis=5)", "axis"), ("np.partition(m, 1, kind='nope')", "kind"),
        ("np.partition(s, 0)", "rank|axis|scalar"), ("np.partition(m, 1, axis='a')", "axis"), ("np.partition(e, 0)", "kth"),
    ],
    "np.argpartition": [
        ("np.argpartition(m, 9)", "kth"),
    ],
    "np.einsum": [
        ("np.einsum(m, [0, 77])", "from 0 to 51"), ("np.einsum(m, [0])", "einsum"), ("np.einsum(m, [0, 'a'])", "einsum"),
        ("np.einsum(m, [0, 1], [2])", "einsum"), ("np.einsum(m, [0, 1], v, [1, 2])", "einsum"),
        ("np.einsum(m, 3)", "einsum"), ("np.einsum('ij,jk', m)", "einsum"), ("np.einsum('i', m)", "einsum"),
        ("np.einsum('ij->ik', m)", "einsum"), ("np.einsum('i?', m)", "einsum"), ("np.einsum(m)", "einsum"),
        ("np.einsum(m, [0, -1])", "einsum"), ("np.einsum('ij', 'ab', m)", "einsum"), ("np.einsum('ii', r)", "einsum"),
        ("np.einsum('ij,ij', m, r)", "einsum"),
    ],
    "np.linalg.eig": [
        ("np.linalg.eig(v)", "rank|matri"), ("np.linalg.eig(r)", "square"), ("np.linalg.eig(s)", "rank|matri"),
        ("np.linalg.eig(b)", "rank|matri"),
    ],
    "np.linalg.eigvals": [
        ("np.linalg.eigvals(r)", "square"),
    ],
    "np.linalg.matrix_rank": [
        ("np.linalg.matrix_rank(m, tol='a')", "tol"),
    ],
    "gt.linalg.matrix_rank": [
        ("gt.linalg.matrix_rank(v)", "matrix_rank.*rank 2"), ("gt.linalg.matrix_rank(s)", "matrix_rank"),
        ("gt.linalg.matrix_rank('a')", "matrix_rank|str"), ("gt.linalg.matrix_rank(m, tol='a')", "tol"),
        ("gt.linalg.matrix_rank(m, tol=v)", "tol"), ("gt.linalg.matrix_rank(m, tol=1j)", "tol"),
        ("gt.linalg.matrix_rank(None)", "matrix_rank"), ("gt.linalg.matrix_rank(b)", "matrix_rank"),
    ],
    "gt.linalg.logm": [
        ("gt.linalg.logm(v)", "logm"), ("gt.linalg.logm(r)", "square"), ("gt.linalg.logm('a')", "logm|str"),
        ("gt.linalg.logm(-gt.linalg.matmul(m, m, transpose_b=True))", "logm"), ("gt.linalg.logm(m*0)", "logm"),
        ("gt.linalg.logm(None)", "logm"), ("gt.linalg.logm(m * np.nan)", "logm"),
        ("gt.linalg.logm(gt.cast(m, gt.float16))", "logm"),
    ],
    "gt.linalg.tridiagonal_solve": [
        ("gt.linalg.tridiagonal_solve(k, v, 'rows')", "diagonals_format"),
        ("gt.linalg.tridiagonal_solve(v, v)", "diagonals"), ("gt.linalg.tridiagonal_solve(r, v)", "diagonals"),
        ("gt.linalg.tridiagonal_solve(k, s)", "rhs"), ("gt.linalg.tridiagonal_solve(k, i)", "rhs"),
        ("gt.linalg.tridiagonal_solve(k, 'a')", "rhs"), ("gt.linalg.tridiagonal_solve('a', v)", "diagonals"),
        ("gt.linalg.tridiagonal_solve([v, v], v, 'sequence')", "diagonals"),
        ("gt.linalg.tridiagonal_solve(k, v, 'sequence')", "diagonals"),
        ("gt.linalg.tridiagonal_solve([i, v, i[:2]], v, 'sequence')", "diagonals"),
        ("gt.linalg.tridiagonal_solve(r, v, 'matrix')", "diagonals"),
        ("gt.linalg.tridiagonal_solve(v, v, 'matrix')", "diagonals"),
        ("gt.linalg.tridiagonal_solve(k, v, perturb_singular=True)", "perturb_singular"),
        ("gt.linalg.tridiagonal_solve(k * 0, v)", "singular"),
        ("gt.linalg.tridiagonal_solve(k, gt.ones((4, 2)), transpose_rhs=True)", "rhs"),
        ("gt.linalg.tridiagonal_solve(gt.stack([k,k,k]), gt.ones((2, 4, 1)))", "rhs|batch|broadcast"),
        ("gt.linalg.tridiagonal_solve(None, v)", "diagonals"), ("gt.linalg.tridiagonal_solve(k, None)", "rhs"),
        ("gt.linalg.tridiagonal_solve(k, v, None)", "diagonals_format"),
        ("gt.linalg.tridiagonal_solve([s, v, s], v, 'sequence')", "diagonals"),
    ],
    "gt.linalg.tridiagonal_matmul": [
        ("gt.linalg.tridiagonal_matmul(k, v)", "rhs"), ("gt.linalg.tridiagonal_matmul(k, m)", "rhs"),
        ("gt.linalg.tridiagonal_matmul(k, v, 'rows')", "diagonals_format"),
        ("gt.linalg.tridiagonal_matmul(r, m)", "diagonals"), ("gt.linalg.tridiagonal_matmul('a', m)", "diagonals"),
        ("gt.linalg.tridiagonal_matmul(k, 'a')", "rhs"), ("gt.linalg.tridiagonal_matmul(None, m)", "diagonals"),
        ("gt.linalg.tridiagonal_matmul(gt.stack([k,k,k]), gt.ones((2, 4, 1)))", "rhs|batch|broadcast"),
        ("gt.linalg.tridiagonal_matmul([v, i, v], m, 'sequence')", "diagonals"),
        ("gt.linalg.tridiagonal_matmul([i[:1], v, i], gt.ones((4, 1)), 'sequence')", "diagonals"),
    ],
    "gt.linalg.banded_triangular_solve": [
        ("gt.linalg.banded_triangular_solve(k, v)", "rhs"), ("gt.linalg.banded_triangular_solve(k, m)", "rhs"),
        ("gt.linalg.banded_triangular_solve(v, m)", "bands"), ("gt.linalg.banded_triangular_solve('a', m)", "bands"),
        ("gt.linalg.banded_triangular_solve(m, 'a')", "rhs"), ("gt.linalg.banded_triangular_solve(None, m)", "bands"),
        ("gt.linalg.banded_triangular_solve(w, m)", "bands"), ("gt.linalg.banded_triangular_solve(z, m)", "bands"),
        ("gt.linalg.banded_triangular_solve(gt.stack([m, m]), gt.ones((3, 3, 1)))", "rhs|batch|broadcast"),
        ("gt.linalg.banded_triangular_solve(m * 0, m)", "singular"),
    ],
    "gt.nn.conv3d": [
        ("gt.nn.conv3d(t, f, 1, 'SAME')", "input"), ("gt.nn.conv3d(d, m, 1, 'SAME')", "filter"),
        ("gt.nn.conv3d(d, f, 0, 'SAME')", "strides"), ("gt.nn.conv3d(d, f, [1, 1], 'SAME')", "strides"),
        ("gt.nn.conv3d(d, f, 'a', 'SAME')", "strides"), ("gt.nn.conv3d(d, f, 1.5, 'SAME')", "strides"),
        ("gt.nn.conv3d(d, f, 1, 'EVEN')", "padding"), ("gt.nn.conv3d(d, f, 1, 3)", "padding"),
        ("gt.nn.conv3d(d, f, 1, [[0, 0], [1, 1]])", "padding"), ("gt.nn.conv3d(d, f, 1, None)", "padding"),
        ("gt.nn.conv3d(d, f, 1, 'SAME', 'NHWC')", "data_format"), ("gt.nn.conv3d(d, f, 1, 'SAME', 3)", "data_format"),
        ("gt.nn.conv3d(d, f, 1, 'SAME', dilations=0)", "dilations"),
        ("gt.nn.conv3d(d, f, 1, 'SAME', dilations='a')", "dilations"),
        ("gt.nn.conv3d(d, f, 1, 'SAME', dilations=[1, 1])", "dilations"),
        ("gt.nn.conv3d(d, f, [2, 1, 1, 1, 1], 'SAME')", "strides"), ("gt.nn.conv3d('a', f, 1, 'SAME')", "input"),
        ("gt.nn.conv3d(d, 'a', 1, 'SAME')", "filter"), ("gt.nn.conv3d(None, f, 1, 'SAME')", "input"),
        ("gt.nn.conv3d(gt.cast(d, gt.complex64), f, 1, 'SAME')", "input|complex"),
        ("gt.nn.conv3d(d, gt.ones((2, 2, 2, 3, 1), gt.float64), 1, 'SAME')", "filter"),
        ("gt.nn.conv3d(d, gt.ones((5, 2, 2, 1, 1), gt.float64), 1, 'VALID')", "fit"),
        ("gt.nn.conv3d(d, gt.ones((0, 2, 2, 1, 1), gt.float64), 1, 'VALID')", "filter"),
        ("gt.nn.conv3d(d, f, 1, 'SAME', dilations=-1)", "dilations"), ("gt.nn.conv3d(d, f, -1, 'SAME')", "strides"),
        ("gt.nn.conv3d(d, f, 1, [[0, 0], [-1, 1], [0, 0], [0, 0], [0, 0]])", "padding"),
        ("gt.nn.conv3d(d, f, 1, [[0, 0], ['a', 1], [0, 0], [0, 0], [0, 0]])", "padding"),
    ],
    "gt.nn.conv3d_transpose": [
        ("gt.nn.conv3d_transpose(d, f, (1, 7, 9, 6, 1), 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6), 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, 'a', 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6, 6, 6, 2), 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (2, 6, 6, 6, 1), 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (1, -6, 6, 6, 1), 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6, 6, 6, 1), 0)", "strides"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6, 6, 6, 1), 2, 'EVEN')", "padding"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6, 6, 6, 1), 2, 'SAME', 'NHWC')", "data_format"),
        ("gt.nn.conv3d_transpose(t, f, (1, 6, 6, 6, 1), 2)", "input"),
        ("gt.nn.conv3d_transpose(d, m, (1, 6, 6, 6, 1), 2)", "filter"),
        ("gt.nn.conv3d_transpose(d, gt.ones((2,2,2,1,3), gt.float64), (1, 6, 6, 6, 1), 2)", "input channels"),
        ("gt.nn.conv3d_transpose(d, f, None, 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6.5, 6, 6, 1), 2)", "output_shape"),
        ("gt.nn.conv3d_transpose(d, f, (1, 6, 6, 6, 1), 2, dilations=0)", "dilations"),
    ],
    "gt.nn.max_pool_with_argmax": [
        ("gt.nn.max_pool_with_argmax(m, 2, 2, 'SAME')", "input"), ("gt.nn.max_pool_with_argmax(t, 0, 2, 'SAME')", "ksize"),
        ("gt.nn.max_pool_with_argmax(t, [1, 2], 0, 'SAME')", "strides"),
        ("gt.nn.max_pool_with_argmax(t, 2, 2, 'EVEN')", "padding"),
        ("gt.nn.max_pool_with_argmax(t, 2, 2, 'SAME', 'NCHW')", "data_format"),
        ("gt.nn.max_pool_with_argmax(t, 2, 2, 'SAME', output_dtype=gt.float32)", "output_dtype"),
        ("gt.nn.max_pool_with_argmax(t, 2, 2, 'SAME', output_dtype='nope')", "output_dtype"),
        ("gt.nn.max_pool_with_argmax(t, 5, 2, 'VALID')", "fit"), ("gt.nn.max_pool_with_argmax('a', 2, 2, 'SAME')", "input"),
        ("gt.nn.max_pool_with_argmax(gt.cast(t, gt.complex64), 2, 2, 'SAME')", "complex"),
        ("gt.nn.max_pool_with_argmax(t, [2, 2, 2, 2], 2, 'SAME')", "ksize"),
        ("gt.nn.max_pool_with_argmax(t, 'a', 2, 'SAME')", "ksize"),
        ("gt.nn.max_pool_with_argmax(t, 2, 1.5, 'SAME')", "strides"),
        ("gt.nn.max_pool_with_argmax(None, 2, 1, 'SAME')", "input"),
        ("gt.nn.max_pool_with_argmax(t, 2, 2, [[0, 0], [3, 0], [0, 0], [0, 0]])", "padding"),
    ],
    "gt.nn.weighted_cross_entropy_with_logits": [
        ("gt.nn.weighted_cross_entropy_with_logits(v, m, 1.0)", "labels"),
        ("gt.nn.weighted_cross_entropy_with_logits('a', m, 1.0)", "labels"),
        ("gt.nn.weighted_cross_entropy_with_logits(m, 'a', 1.0)", "logits"),
        ("gt.nn.weighted_cross_entropy_with_logits(m, m, 'a')", "pos_weight"),
        ("gt.nn.weighted_cross_entropy_with_logits(m, m, v)", "pos_weight"),
        ("gt.nn.weighted_cross_entropy_with_logits(m, c, 1.0)", "logits"),
        ("gt.nn.weighted_cross_entropy_with_logits(c, m, 1.0)", "labels"),
        ("gt.nn.weighted_cross_entropy_with_logits(m, m, 1j)", "pos_weight"),
        ("gt.nn.weighted_cross_entropy_with_logits(m, None, 1.0)", "logits"),
        ("gt.nn.weighted_cross_entropy_with_logits(None, m, 1.0)", "labels"),
        ("gt.nn.weighted_cross_entropy_with_logits(v, s, 1.0)", "labels"),
    ],
    "gt.nn.ctc_loss": [
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], m, [2, 2], [5, 5])", "logits"),
        ("gt.nn.ctc_loss(i, q, [2, 2], [5, 5])", "labels"), ("gt.nn.ctc_loss([[1, 2]], q, [2, 2], [5, 5])", "labels"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2], [5, 5])", "label_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [5])", "logit_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [3, 2], [5, 5])", "label_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [6, 5])", "logit_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [-1, 2], [5, 5])", "label_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [-1, 5])", "logit_length"),
        ("gt.nn.ctc_loss([[1, 3], [1, 1]], q, [2, 2], [5, 5])", "labels"),
        ("gt.nn.ctc_loss([[1, -1], [1, 1]], q, [2, 2], [5, 5])", "labels"),
        ("gt.nn.ctc_loss([[1.5, 2], [1, 1]], q, [2, 2], [5, 5])", "labels"),
        ("gt.nn.ctc_loss('a', q, [2, 2], [5, 5])", "labels"), ("gt.nn.ctc_loss([[1, 2], [1, 1]], 'a', [2, 2], s)", "logits"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, 'a', [5, 5])", "label_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], 'a')", "logit_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2.5, 2], [5, 5])", "label_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [5.0, 5])", "logit_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [5, 5], blank_index=3)", "blank_index"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [5, 5], blank_index='a')", "blank_index"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [5, 5], blank_index=1.5)", "blank_index"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], [5, 5], blank_index=-4)", "blank_index"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], gt.cast(q, gt.complex64), [2, 2], [5, 5])", "logits"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, None, [5, 5])", "label_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [2, 2], None)", "logit_length"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q[:, :, :0], [2, 2], [5, 5])", "logits"),
        ("gt.nn.ctc_loss([[1, 2], [1, 1]], q, [[2, 2]], [5, 5])", "label_length"),
    ],
    "gt.nn.nce_loss": [
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 3, 6, sampled_values='abc')", "sampled_values"),
        ("gt.nn.nce_loss(w, gt.zeros(5, gt.float64), [[1], [2]], r, 3, 6)", "biases"),
        ("gt.nn.nce_loss(w, m, [[1], [2]], r, 3, 6)", "biases"), ("gt.nn.nce_loss(w, g, [[1], [6]], r, 3, 6)", "labels"),
        ("gt.nn.nce_loss(w, g, [[1], [-1]], r, 3, 6)", "labels"), ("gt.nn.nce_loss(w, g, [[1]], r, 3, 6)", "labels"),
        ("gt.nn.nce_loss(w, g, [[1, 2], [2, 2]], r, 3, 6)", "labels"),
        ("gt.nn.nce_loss(w, g, [[1.5], [2.0]], r, 3, 6)", "labels"), ("gt.nn.nce_loss(w, g, [[1], [2]], v, 3, 6)", "inputs"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], gt.ones((2, 4), gt.float64), 3, 6)", "inputs"),
        ("gt.nn.nce_loss(v, g, [[1], [2]], r, 3, 6)", "weights"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 0, 6)", "num_sampled"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 7, 6)", "num_sampled"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 'a', 6)", "num_sampled"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 3, 0)", "num_classes"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 3, 'a')", "num_classes"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 3, 9)", "num_classes"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 3, 6, num_true=0)", "num_true"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 3, 6, num_true='a')", "num_true"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 2, 6, sampled_values=([0, 9], [[1.0], [1.0]], [1.0, 1.0]))", "sampled_values"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 2, 6, sampled_values=([0, 1], [[1.0], [1.0]]))", "sampled_values"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 2, 6, sampled_values=([0, 1], [[1.0], [1.0]], [1.0]))", "sampled_values"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], r, 2, 6, sampled_values=([0, 1], [1.0, 1.0, 1.0], [1.0, 1.0]))", "sampled_values"),
        ("gt.nn.nce_loss([w, w], g, [[1], [2]], r, 3, 6)", "weights"),
        ("gt.nn.nce_loss('a', g, [[1], [2]], r, 3, 6)", "weights"),
        ("gt.nn.nce_loss(w, 'a', [[1], [2]], r, 3, 6)", "biases"), ("gt.nn.nce_loss(w, g, 'a', r, 3, 6)", "labels"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], 'a', 3, 6)", "inputs"),
        ("gt.nn.nce_loss(w, g, [[1], [2]], None, 3, 6)", "inputs"),
        ("gt.nn.nce_loss(w + 0j, g, [[1], [2]], r + 0j, 3, 6)", "weights"),
    ],
    "gt.nn.sampled_softmax_loss": [
        ("gt.nn.sampled_softmax_loss(w, g, [[1], [6]], r, 3, 6)", "labels"),
        ("gt.nn.sampled_softmax_loss(w, gt.zeros(5, gt.float64), [[1], [2]], r, 3, 6)", "biases"),
        ("gt.nn.sampled_softmax_loss(w, g, [[1], [2]], r, 3, 6, seed='a')", "seed"),
    ],
    "gt.signal.frame": [
        ("gt.signal.frame(s, 2, 1)", "signal"), ("gt.signal.frame('a', 2, 1)", "signal"),
        ("gt.signal.frame(v, 0, 1)", "frame_length"), ("gt.signal.frame(v, 2, -1)", "frame_step"),
        ("gt.signal.frame(v, 2.5, 1)", "frame_length"), ("gt.signal.frame(v, 2, 'a')", "frame_step"),
        ("gt.signal.frame(v, 2, 1, axis=1)", "axis"), ("gt.signal.frame(v, 2, 1, axis='a')", "axis"),
        ("gt.signal.frame(v, 2, 1, axis=1.5)", "axis"), ("gt.signal.frame(v, 2, 1, True, 'a')", "pad_value"),
        ("gt.signal.frame(v, 8, 1, True, v)", "pad_value"), ("gt.signal.frame(None, 2, 1)", "signal"),
        ("gt.signal.frame(v, v, 1)", "frame_length"), ("gt.signal.frame(v, True, 1)", "frame_length"),
        ("gt.signal.frame(v, None, 1)", "frame_length"), ("gt.signal.frame(v, [2, 3], 1)", "frame_length"),
        ("gt.signal.frame(v, np.array([2, 3]), 1)", "frame_length"),
    ],
    "gt.signal.overlap_and_add": [
        ("gt.signal.overlap_and_add(v, 1)", "signal"), ("gt.signal.overlap_and_add(m, 0)", "frame_step"),
        ("gt.signal.overlap_and_add(m, 1.5)", "frame_step"), ("gt.signal.overlap_and_add('a', 1)", "signal"),
        ("gt.signal.overlap_and_add(None, 1)", "signal"), ("gt.signal.overlap_and_add(m, v)", "frame_step"),
    ],
    "gt.signal.hann_window": [
        ("gt.signal.hann_window(4, 'a') + s", "periodic"),
    ],
    "gt.signal.kaiser_window": [
        ("gt.signal.kaiser_window(4, 'a') + s", "beta"), ("gt.signal.kaiser_window(4, None) + s", "beta"),
        ("gt.signal.kaiser_window(4, [1.0]) + s", "beta"),
    ],
    "gt.signal.kaiser_bessel_derived_window": [
        ("gt.signal.kaiser_bessel_derived_window(4, 'a') + s", "beta"),
        ("gt.signal.kaiser_bessel_derived_window(5) + s", "window_length"),
    ],
    "gt.signal.stft": [
        ("gt.signal.stft(s, 4, 2)", "signals"), ("gt.signal.stft('a', 4, 2)", "signals"),
        ("gt.signal.stft(cv, 4, 2)", "signals"), ("gt.signal.stft(v, 0, 2)", "frame_length"),
        ("gt.signal.stft(v, 4, 0)", "frame_step"), ("gt.signal.stft(v, 4, 2, 0)", "fft_length"),
        ("gt.signal.stft(v, 4, 2, 'a')", "fft_length"), ("gt.signal.stft(v, 4, 2, window_fn=3)", "window_fn"),
        ("gt.signal.stft(v, 4, 2, window_fn=lambda n, dtype: gt.ones(n + 1, dtype))", "window_fn"),
        ("gt.signal.stft(None, 4, 2)", "signals"), ("gt.signal.stft(v, 4, 2.5)", "frame_step"),
        ("gt.signal.stft(v, 4, 2, window_fn=lambda n, dtype: 'a')", "window_fn"),
    ],
    "gt.signal.inverse_stft": [
        ("gt.signal.inverse_stft(cv, 4, 2)", "stfts"), ("gt.signal.inverse_stft(m, 4, 2)", "stfts"),
        ("gt.signal.inverse_stft('a', 4, 2)", "stfts"), ("gt.signal.inverse_stft(c, 0, 2)", "frame_length"),
        ("gt.signal.inverse_stft(c, 4, 0)", "frame_step"), ("gt.signal.inverse_stft(c, 4, 2, 0)", "fft_length"),
        ("gt.signal.inverse_stft(c, 4, 2, window_fn=3)", "window_fn"),
        ("gt.signal.inverse_stft(c, 4, 2, window_fn=lambda n, dtype: gt.ones(n + 1, dtype))", "window_fn"),
        ("gt.signal.inverse_stft(None, 4, 2)", "stfts"),
    ],
    "gt.signal.inverse_stft_window_fn": [
        ("gt.signal.inverse_stft_window_fn(0)(4) + s", "frame_step"),
        ("gt.signal.inverse_stft_window_fn(2)(0) + s", "frame_length"),
        ("gt.signal.inverse_stft_window_fn(2, 3)(4) + s", "forward_window_fn"),
        ("gt.signal.inverse_stft_window_fn(2)(4, 'nope') + s", "dtype"),
        ("gt.signal.inverse_stft_window_fn(2, lambda n, dtype: gt.ones(n + 1, dtype))(4) + s", "forward_window_fn"),
    ],
    "gt.signal.dct": [
        ("gt.signal.dct(s)", "input"), ("gt.signal.dct('a')", "input"), ("gt.signal.dct(cv)", "input"),
        ("gt.signal.dct(v, 5)", "type"), ("gt.signal.dct(v, 'a')", "type"), ("gt.signal.dct(v, norm='unit')", "norm"),
        ("gt.signal.dct(v, norm=3)", "norm"), ("gt.signal.dct(v, 1, norm='ortho')", "norm|type 1"),
        ("gt.signal.dct(v, n=0)", "n must"), ("gt.signal.dct(v, n=1.5)", "n must"), ("gt.signal.dct(v, axis=1)", "axis"),
        ("gt.signal.dct(v, axis='a')", "axis"), ("gt.signal.dct(e)", "input"), ("gt.signal.dct(v[:1], 1)", "two"),
        ("gt.signal.dct(v, 1, 1)", "two"), ("gt.signal.dct(None)", "input"), ("gt.signal.dct(v, [2])", "type"),
        ("gt.signal.dct(v, norm=[1])", "norm"), ("gt.signal.dct(v, True)", "type"), ("gt.signal.dct(v, 2.0)", "type"),
    ],
    "gt.signal.idct": [
        ("gt.signal.idct(s)", "idct.*input"), ("gt.signal.idct(v, 5)", "idct.*type"),
        ("gt.signal.idct(v, [2])", "idct.*type"), ("gt.signal.idct(v, norm='unit')", "idct.*norm"),
        ("gt.signal.idct(v, n=0)", "idct.*n must"), ("gt.signal.idct(v, axis=3)", "idct.*axis"),
        ("gt.signal.idct(cv)", "idct.*input"), ("gt.signal.idct(e)", "idct.*input"), ("gt.signal.idct('a')", "idct.*input"),
    ],
    "gt.signal.linear_to_mel_weight_matrix": [
        ("gt.signal.linear_to_mel_weight_matrix(0) + s", "num_mel_bins"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 'a') + s", "num_spectrogram_bins"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 9, 'a') + s", "sample_rate"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 9, 8000, 200.0, 100.0) + s", "lower_edge_hertz"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 9, 8000, 'a') + s", "lower_edge_hertz"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 9, dtype=gt.int32) + s", "dtype"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 9, 0) + s", "sample_rate"),
        ("gt.signal.linear_to_mel_weight_matrix(4, 9, 8000, 100.0, None) + s", "upper_edge_hertz"),
    ],
    "gt.identity_n": [
        ("gt.identity_n(s)", "input"), ("gt.identity_n([None])", "input|None"),
    ],
    "gt.shape_n": [
        ("gt.shape_n(3)", "input"), ("gt.shape_n([s], out_type=gt.float32)", "out_type"),
        ("gt.shape_n([s], out_type='nope')", "out_type"), ("gt.shape_n([None])", "input|None"),
    ],
    "gt.get_static_value": [
        ("gt.get_static_value(None)", "tensor"), ("gt.get_static_value(object())", "tensor"),
    ],
    "gt.autograph.to_graph": [
        ("gt.autograph.to_graph('a')", "to_graph"),
    ],
    "gt.elementwise_grad": [
        ("gt.elementwise_grad(3)(v)", "elementwise_grad|function"),
        ("gt.elementwise_grad(lambda x: x**2)(i)", "integer|int"), ("gt.elementwise_grad(lambda x: x**2, 3)(v)", "argnum"),
        ("gt.elementwise_grad(lambda x: x**2, 'a')(v)", "argnum"),
    ],
    "gt.hessian_vector_product": [
        ("gt.hessian_vector_product(3)(v, v)", "hessian_vector_product|function"),
        ("gt.hessian_vector_product(lambda x: gt.reduce_sum(x**2))(v, i)", "vector|shape"),
        ("gt.hessian_vector_product(lambda x: x**2)(v, v)", "scalar"),
        ("gt.hessian_vector_product(lambda x: gt.reduce_sum(x**2), 2)(v, v)", "argnum"),
    ],
    "gt.IndexedSlices": [
        ("gt.IndexedSlices(v, [0, 1], dense_shape='a')", "dense_shape"), ("gt.IndexedSlices(v, 'a')", "indices"),
        ("gt.IndexedSlices(v, [0.5])", "indices"), ("gt.IndexedSlices(None, [0])", "values"),
    ],
    "gt.config.list_physical_devices": [
        ("gt.config.list_physical_devices(3)", "device_type"),
    ],
    "gt.config.list_logical_devices": [
        ("gt.config.list_logical_devices(3)", "device_type"),
    ],
    "gt.config.set_visible_devices": [
        ("gt.config.set_visible_devices('a')", "devices"),
    ],
    "gt.config.set_memory_growth": [
        ("gt.config.set_memory_growth('a', True)", "device"),
    ],
    "gt.config.experimental.set_memory_growth": [
        ("gt.config.experimental.set_memory_growth('a', True)", "device"),
    ],
    "gt.config.get_visible_devices": [
        ("gt.config.get_visible_devices(3)", "device_type"),
    ],
    "gt.config.get_device_details": [
        ("gt.config.get_device_details('a')", "device"),
    ],
    "gt.initializers.Zeros": [
        ("gt.initializers.Zeros()((2,), dtype=gt.string) + s", "dtype"),
    ],
    "gt.initializers.Orthogonal": [
        ("gt.initializers.Orthogonal()((3,)) + s", "shape"), ("gt.initializers.Orthogonal(gain='a')((2, 2)) + s", "gain"),
    ],
    "gt.initializers.Identity": [
        ("gt.initializers.Identity()((3,)) + s", "shape"), ("gt.initializers.Identity()((3, 3, 3)) + s", "shape"),
        ("gt.initializers.Identity(gain='a')((2, 2)) + s", "gain"),
    ],
    "gt.initializers.VarianceScaling": [
        ("gt.initializers.VarianceScaling(scale=-1.0)((2, 2)) + s", "scale"),
        ("gt.initializers.VarianceScaling(scale='a')((2, 2)) + s", "scale"),
        ("gt.initializers.VarianceScaling(mode='nope')((2, 2)) + s", "mode"),
        ("gt.initializers.VarianceScaling(distribution='nope')((2, 2)) + s", "distribution"),
    ],
    "gt.initializers.RandomNormal": [
        ("gt.initializers.RandomNormal(mean='a')((2,)) + s", "mean"),
        ("gt.initializers.RandomNormal(stddev='a')((2,)) + s", "stddev"),
        ("gt.initializers.RandomNormal(seed='a')((2,)) + s", "seed"),
    ],
    "gt.initializers.RandomUniform": [
        ("gt.initializers.RandomUniform(minval='a')((2,)) + s", "minval"),
        ("gt.initializers.RandomUniform(maxval='a')((2,)) + s", "maxval"),
    ],
    "gt.initializers.Constant": [
        ("gt.initializers.Constant('a')((2,)) + s", "value"),
        ("gt.initializers.Constant([1.0, 2.0, 3.0])((2,)) + s", "value"),
    ],
    "gt.initializers.TruncatedNormal": [
        ("gt.initializers.TruncatedNormal(stddev='a')((2, 2)) + s", "stddev"),
    ],
    "gt.initializers.GlorotUniform": [
        ("gt.initializers.GlorotUniform(seed='a')((2, 2)) + s", "seed"),
    ],
    "gt.initializers.get": [
        ("gt.initializers.get('nope')((2,)) + s", "nope"), ("gt.initializers.get(3)((2,)) + s", "get"),
    ],
    "gt.array_api.nextafter": [
        ("gt.array_api.nextafter(m, v)", "x1|x2|shape"), ("gt.array_api.nextafter(m, 'a')", "x2"),
        ("gt.array_api.nextafter(m, c)", "x2|complex"), ("gt.array_api.nextafter(m, None)", "x2"),
    ],
    "gt.array_api.unique_all": [
        ("gt.array_api.unique_all('a')", "x"), ("gt.array_api.unique_all(None)", "x"),
    ],
    "gt.array_api.unique_counts": [
        ("gt.array_api.unique_counts('a')", "x"), ("gt.array_api.unique_counts(None)", "x"),
    ],
    "gt.array_api.unique_inverse": [
        ("gt.array_api.unique_inverse('a')", "x"), ("gt.array_api.unique_inverse(None)", "x"),
    ],
    "gt.array_api.unique_values": [
        ("gt.array_api.unique_values('a')", "x"),
    ],
    "gt.array_api.fft.hfft": [
        ("gt.array_api.fft.hfft(s)", "x|rank|axis"), ("gt.array_api.fft.hfft(cv, n=0)", "n"),
        ("gt.array_api.fft.hfft(cv, n=1.5)", "n"), ("gt.array_api.fft.hfft(cv, axis=5)", "axis"),
        ("gt.array_api.fft.hfft(cv, norm='nope')", "norm"), ("gt.array_api.fft.hfft('a')", "x"),
        ("gt.array_api.fft.hfft(None)", "x"), ("gt.array_api.fft.hfft(cv, axis='a')", "axis"),
        ("gt.array_api.fft.hfft(e)", "x|n"),
    ],
    "gt.array_api.fft.ihfft": [
        ("gt.array_api.fft.ihfft(s)", "x|rank|axis"), ("gt.array_api.fft.ihfft(v, n=0)", "n"),
        ("gt.array_api.fft.ihfft(v, n='a')", "n"), ("gt.array_api.fft.ihfft(v, axis=5)", "axis"),
        ("gt.array_api.fft.ihfft(v, norm='nope')", "norm"), ("gt.array_api.fft.ihfft(cv)", "x|real"),
        ("gt.array_api.fft.ihfft(e)", "x|n"),
    ],
    "gt.array_api.fft.fftfreq": [
        ("gt.array_api.fft.fftfreq(0) + s", "n"), ("gt.array_api.fft.fftfreq(-3) + s", "n"),
        ("gt.array_api.fft.fftfreq(1.5) + s", "n"), ("gt.array_api.fft.fftfreq('a') + s", "n"),
        ("gt.array_api.fft.fftfreq(4, d='a') + s", "d"), ("gt.array_api.fft.fftfreq(4, dtype='nope') + s", "dtype"),
        ("gt.array_api.fft.fftfreq(4, dtype=gt.int32) + s", "dtype"),
        ("gt.array_api.fft.fftfreq(4, device='gpu') + s", "device"), ("gt.array_api.fft.fftfreq(4, d=0.0) + s", "d"),
    ],
    "gt.array_api.fft.rfftfreq": [
        ("gt.array_api.fft.rfftfreq(0) + s", "n"), ("gt.array_api.fft.rfftfreq('a') + s", "n"),
        ("gt.array_api.fft.rfftfreq(4, d='a') + s", "d"), ("gt.array_api.fft.rfftfreq(4, dtype=gt.int32) + s", "dtype"),
        ("gt.array_api.fft.rfftfreq(4, device='gpu') + s", "device"), ("gt.array_api.fft.rfftfreq(None) + s", "n"),
    ],
    "Tensor.to_device": [
        ("m.to_device('gpu')", "device"), ("m.to_device(3)", "device"), ("m.to_device(m.device, stream=1)", "stream"),
    ],
}  # fmt: skip

_LENGTHS = ("0", "-1", "2.5", "'a'", "None", "[4]")
_DTYPES = ("4, dtype=gt.int32", "4, dtype='nope'", "4, dtype=gt.complex64")
for _window in ("hann_window", "hamming_window", "kaiser_window", "kaiser_bessel_derived_window", "vorbis_window"):
    _rows = MISTAKES.setdefault(f"gt.signal.{_window}", [])
    _rows += [(f"gt.signal.{_window}({given}) + s", "window_length") for given in _LENGTHS]
    _rows += [(f"gt.signal.{_window}({given}) + s", "dtype") for given in _DTYPES]

_RANDOM = ("RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling", "GlorotUniform", "GlorotNormal", "HeNormal",
           "HeUniform", "LecunNormal", "LecunUniform", "Orthogonal")  # fmt: skip
for _name in ("Zeros", "Ones", "Identity", "Constant", *_RANDOM):
    _rows = MISTAKES.setdefault(f"gt.initializers.{_name}", [])
    _rows += [(f"gt.initializers.{_name}()({given}) + s", "shape") for given in ("'a'", "(2, -1)", "(2, 1.5)", "None")]
    _rows += [(f"gt.initializers.{_name}()((2, 2), dtype='nope') + s", "dtype")]
    if _name in _RANDOM:
        _rows += [(f"gt.initializers.{_name}()((2, 2), dtype=gt.int32) + s", "dtype")]
