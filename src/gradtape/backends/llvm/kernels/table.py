"""Which op is written how: the one place where the parts of this backend meet."""

from __future__ import annotations

from gradtape.backends.llvm.kernels import (
    callback_code,
    element_code,
    flat_places,
    fold_table,
    formulas,
    index_maps,
    integers,
    join_nests,
    joining,
    kernel_code,
    list_ops,
    native_lists,
    picking,
    pooling,
    pulling_code,
    rank_calls,
    reads,
    region_code,
    run_time_sizes,
    running,
    turning,
    value_checks,
    writes,
)
from gradtape.backends.llvm.kernels.native_program import Tables
from gradtape.backends.llvm.planning import complex_parts
from gradtape.backends.llvm.planning.lowering import Lowerings
from gradtape.backends.llvm.products import convolution, product_code, systems

FAMILIES = (
    formulas, integers, element_code, index_maps, reads, flat_places, writes, join_nests, joining, fold_table, running, picking,
    pooling, rank_calls, convolution, product_code, systems, run_time_sizes, value_checks, list_ops, region_code,
    complex_parts, turning, pulling_code,
)  # fmt: skip
LOWERINGS = Lowerings(*(family.LOWERINGS for family in FAMILIES))
TABLES = Tables(
    lowerings=LOWERINGS,
    patterns=lambda block, users: product_code.patterns(block, users) | writes.patterns(block, users),
    kernel=kernel_code.write_kernel,
    fill=kernel_code.fill,
    callback=callback_code.write_callback,
    failure=callback_code.write_failure,
    free_list=native_lists.free_list,
)
