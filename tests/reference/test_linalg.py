"""Decompositions through functions that do not depend on the choice of phases and signs, real and complex.

Each is run through the whole generated harness: values, first and second derivatives, JVP, batching.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.opdef import Composite, Sample
from gradtape.ops.sampling import definite, normal, spread
from tests.harness.cases import Case
from tests.harness.checks import CHECKS

linalg = gt.linalg


def _complex(*shape: int) -> Any:
    return normal(*shape) + 1j * normal(*shape)


def _hermitian(a: Any) -> Any:
    return a + np.conj(np.swapaxes(a, -1, -2)) + np.diag(np.arange(a.shape[-1]) * 3.0)


def _weights(vectors: Any) -> Any:
    count = int(vectors.shape[-1])
    return gt.constant((np.arange(count) + 1.0).astype(vectors.dtype.dtype))


def singular_subspaces(x: Any) -> Any:
    s, u, v = linalg.svd(x)
    w = _weights(u)
    return s, (u * w) @ linalg.adjoint(v), (u * w**2) @ linalg.adjoint(u), (v * w) @ linalg.adjoint(v)


def full_singular_subspaces(x: Any) -> Any:
    s, u, v = linalg.svd(x, full_matrices=True)
    k = int(s.shape[-1])
    left, right = u[..., k:], v[..., k:]
    return s, left @ linalg.adjoint(left), right @ linalg.adjoint(right), u[..., :k] @ linalg.adjoint(v[..., :k])


def full_qr(x: Any) -> Any:
    q, r = linalg.qr(x, full_matrices=True)
    k = int(x.shape[-1])
    return r[..., :k, :], q[..., :k], q[..., k:] @ linalg.adjoint(q[..., k:])


def eigenspaces(x: Any) -> Any:
    e, v = linalg.eigh(x)
    return e, (v * _weights(v)) @ linalg.adjoint(v)


def general_eigenspaces(x: Any) -> Any:
    e, v = linalg.eig(x)
    return e, (v * _weights(v)) @ linalg.adjoint(v), gt.abs(v)


def hermitian_cholesky(x: Any) -> Any:
    return linalg.cholesky((x + linalg.adjoint(x)) * 0.5)


def low_rank_pinv(x: Any, y: Any) -> Any:
    return linalg.pinv(gt.einsum("i,j->ij", x, y))


def polar_factor(x: Any) -> Any:
    _, u, v = linalg.svd(x)
    return u @ linalg.adjoint(v)


def matrix_norms(x: Any) -> Any:
    return (*(gt.norm(x, order, (0, 1)) for order in (1, 2, np.inf, "fro")), gt.norm(x, 3))


def three_operand_einsum(a: Any, b: Any, c: Any) -> Any:
    return gt.einsum("...ij,jk...,k->...i", a, b, c)


FUNCTIONS = {
    singular_subspaces: [Sample(_complex(3, 3)), Sample(_complex(4, 2)), Sample(_complex(2, 2, 3)), Sample(normal(3, 2))],
    full_singular_subspaces: [Sample(_complex(4, 2)), Sample(normal(2, 4)), Sample(normal(2, 3, 1))],
    full_qr: [Sample(_complex(4, 2)), Sample(normal(4, 2)), Sample(normal(2, 3, 2))],
    eigenspaces: [Sample(_hermitian(_complex(3, 3))), Sample(_hermitian(_complex(2, 2, 2)))],
    general_eigenspaces: [Sample(_complex(3, 3)), Sample(np.array([[0.0, 1.0, 0.2], [-1.0, 0.1, 0.3], [0.5, 0.2, 2.0]]))],
    hermitian_cholesky: [Sample(definite(3, 3) + 0.3j * np.array([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]))],
    low_rank_pinv: [Sample(normal(3), normal(2)), Sample(_complex(3), _complex(2))],
    polar_factor: [Sample(_complex(3, 2)), Sample(normal(2, 3))],
    matrix_norms: [Sample(spread(3, 4)), Sample(_complex(3, 2))],
    three_operand_einsum: [
        Sample(normal(2, 3, 4), normal(4, 5, 2), normal(5)),
        Sample(_complex(2, 3, 4), _complex(4, 5, 1), _complex(5)),
    ],
}
CASES = [
    Case(Composite(function.__name__, function, lambda samples=samples: samples), i, sample)
    for function, samples in FUNCTIONS.items()
    for i, sample in enumerate(samples)
]
PAIRS = [(case, check) for case in CASES for check in CHECKS if check.applies(case)]


@pytest.mark.parametrize(("case", "check"), PAIRS, ids=lambda p: getattr(p, "id", None) or p.name)
def test_invariants(case: Case, check: Any) -> None:
    check.run(case)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_bands_are_aligned_with_the_rows(lower, adjoint):
    """As in TensorFlow: element (i, j) of the matrix stands in column i of the row of its diagonal."""
    rng, n, count = np.random.default_rng(3), 5, 3
    bands = rng.normal(size=(2, count, n)) + 1j * rng.normal(size=(2, count, n))
    bands[:, 0 if lower else -1] += 4.0
    matrix = np.zeros((2, n, n), complex)
    for d in range(count):
        for i in range(n - d):
            if lower:
                matrix[:, i + d, i] = bands[:, d, i + d]
            else:
                matrix[:, i, i + d] = bands[:, count - 1 - d, i]
    rhs = rng.normal(size=(2, n, 2)) + 0j
    expected = np.linalg.solve(np.conj(matrix.swapaxes(1, 2)) if adjoint else matrix, rhs)
    np.testing.assert_allclose(gt.linalg.banded_triangular_solve(bands, rhs, lower, adjoint), expected, rtol=1e-12)
