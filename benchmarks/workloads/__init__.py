"""All workloads, in the order of the report."""

from __future__ import annotations

from benchmarks.workload import Workload
from benchmarks.workloads import mlp, rnn, scalar_loop, second_order, single_op, small_vectors

WORKLOADS: tuple[Workload, ...] = (
    *single_op.WORKLOADS,
    *scalar_loop.WORKLOADS,
    *small_vectors.WORKLOADS,
    *mlp.WORKLOADS,
    *rnn.WORKLOADS,
    *second_order.WORKLOADS,
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
