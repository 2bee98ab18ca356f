"""The compiled workloads, in the order of their table, and the series of their scaling plots."""

from __future__ import annotations

from benchmarks.workload import Series, Workload
from benchmarks.workloads.compiled import (
    attention,
    black_scholes,
    chains,
    conv,
    gmm,
    higher_order,
    least_squares,
    logsumexp,
    lstm,
    lstm_tiny,
    mlp,
    nbody,
    nested_ad,
    nested_loops,
    newton,
    numpy_programs,
    ode,
    scalar_loop,
    solvers,
    stencils,
    suites,
    trivial,
)

WORKLOADS: tuple[Workload, ...] = (
    *trivial.WORKLOADS,
    *scalar_loop.WORKLOADS,
    *nested_loops.WORKLOADS,
    *newton.WORKLOADS,
    *lstm_tiny.WORKLOADS,
    *stencils.WORKLOADS,
    *solvers.WORKLOADS,
    *nbody.WORKLOADS,
    *nested_ad.WORKLOADS,
    *logsumexp.WORKLOADS,
    *least_squares.WORKLOADS,
    *black_scholes.WORKLOADS,
    *gmm.WORKLOADS,
    *ode.WORKLOADS,
    *mlp.WORKLOADS,
    *lstm.WORKLOADS,
    *attention.WORKLOADS,
    *conv.WORKLOADS,
    *higher_order.WORKLOADS,
    *suites.WORKLOADS,
    *numpy_programs.WORKLOADS,
)
SERIES: tuple[Series, ...] = (
    Series(
        "compiled_loop",
        "Compiled loop of scalar operations",
        "turns of the loop",
        tuple((10**k, scalar_loop.of_length(10**k)) for k in range(2, 7)),
        table="compiled",
    ),
    Series(
        "compiled_size",
        "Compiled chain of 10 operations on vectors",
        "elements of each vector",
        tuple((10**k, chains.of_size(10**k)) for k in range(1, 8)),
        table="compiled",
    ),
    Series(
        "compiled_tracing",
        "First call of a function with a Python loop",
        "turns of the Python loop",
        tuple((n, chains.of_python_loop(n)) for n in (10, 30, 100, 300, 1000, 3000)),
        table="compiled",
        what="first",
    ),
)
