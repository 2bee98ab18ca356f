"""gradtape again, computing compiled values without gradients: what a gradient costs on top is the ratio to this column."""

from __future__ import annotations

from benchmarks.peers.gradtape import set_threads as set_threads, to_numpy as to_numpy, version as version
from benchmarks.workloads import BY_NAME

STEPS = {workload.key: workload.primal for workload in BY_NAME.values() if workload.primal is not None}
