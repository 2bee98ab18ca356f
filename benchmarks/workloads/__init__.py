"""All workloads: those of the two tables in their order, and the series of the scaling plots."""

from __future__ import annotations

from benchmarks.workload import Series, Workload
from benchmarks.workloads import compiled, jacobian, lenet, mlp, rnn, scalar_loop, second_order, single_op, small_vectors

WORKLOADS: tuple[Workload, ...] = (
    *single_op.WORKLOADS,
    *scalar_loop.WORKLOADS,
    *small_vectors.WORKLOADS,
    *mlp.WORKLOADS,
    *lenet.WORKLOADS,
    *rnn.WORKLOADS,
    *second_order.WORKLOADS,
    *jacobian.WORKLOADS,
    *compiled.WORKLOADS,
)
SERIES: tuple[Series, ...] = (
    Series(
        "loop",
        "Python loop of scalar operations",
        "turns of the loop, 4 operations each",
        tuple((10**k, scalar_loop.of_length(10**k)) for k in range(2, 6)),
    ),
    Series(
        "size",
        "Chain of 10 operations on vectors",
        "elements of each vector",
        tuple((10**k, small_vectors.of_size(10**k)) for k in range(1, 8)),
    ),
    *compiled.SERIES,
)
BY_NAME = {workload.name: workload for workload in (*WORKLOADS, *(w for series in SERIES for _, w in series.points))}
