"""The registry is closed and complete: every op is listed, typed, batched, sampled, and has a rule or a reason."""

import importlib
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import gradtape
from gradtape.ad.binding import global_names
from gradtape.core import batching
from gradtape.core.opdef import Op
from gradtape.ops import registry
from tests.harness.cases import all_cases, samples_of
from tests.structure.modules import modules

# made outside the families: they carry Python functions or stand for one output of several, so no sample can describe them
PRIVATE = {"part", "custom", "numpy_function", "py_function", "function", "pull_open", "pull_more", "pull_item"}
NATIVE = "gradtape.backends.llvm."  # ops that backend makes for itself while it plans, never seen by a program

# ops whose batch rule runs a Python loop, none of them differentiable
LOOPED = {
    # the shape of the result depends on the values
    "where_true", "unique", "mask_indices", "extent", "range", "segment_count", "non_max_suppression",
    # one stream of random numbers per example
    "random_uniform", "random_normal", "random_truncated_normal", "random_integers", "random_bits", "random_gamma",
    "random_poisson", "random_binomial", "random_categorical", "random_permutation",
    # bookkeeping on index arrays
    "invert_permutation", "places_at", "winners_at",
}  # fmt: skip
# ops that fall back to the loop in some cases only
LOOPED_SOMETIMES: set[str] = set()


def namespaces() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in modules():
        if name.startswith("gradtape.keras"):  # an optional package is behind it; it defines no ops
            continue
        yield name, vars(importlib.import_module(name))


def test_every_op_is_registered() -> None:
    known = {*registry.OPS, *registry.PROGRAM_OPS}
    strays = {
        f"{module}.{name}"
        for module, space in namespaces()
        for name, value in space.items()
        if isinstance(value, Op) and value not in known and value.name not in PRIVATE and not module.startswith(NATIVE)
    }
    assert strays == set()


def test_every_composite_is_registered() -> None:
    known = {composite.function for composite in registry.COMPOSITES}
    strays = {
        f"{module}.{name}"
        for module, space in namespaces()
        for name, value in space.items()
        if isinstance(value, FunctionType) and "composite" in vars(value) and value not in known
    }
    assert strays == set()


def test_names_are_unique() -> None:
    composites = [c.name for c in registry.COMPOSITES]
    assert len(set(composites)) == len(composites)
    assert len({op.name for op in registry.OPS}) == len(registry.OPS)


# public functions of `gradtape.ops` that make constants or describe a tensor: nothing to differentiate, tested by hand
NOT_SAMPLED = {
    "as_dtype", "broadcast_dynamic_shape", "broadcast_static_shape", "constant", "convert_to_tensor", "eye", "is_tensor",
    "ones", "range", "rank", "register_tensor_conversion_function", "shape", "size", "zeros",
    # constants computed from Python numbers: compared with SciPy in tests/reference/test_signal.py
    "hamming_window", "inverse_stft_window_fn", "kaiser_bessel_derived_window", "kaiser_window",
    "linear_to_mel_weight_matrix", "vorbis_window",
    # random draws: their stateless siblings are sampled
    "random_brightness", "random_contrast", "random_crop", "random_flip_left_right", "random_flip_up_down", "random_hue",
    "random_saturation",
    # random draws: tests/reference/test_nn.py
    "log_uniform_candidate_sampler", "uniform_candidate_sampler",
    # the public function reads one triangle; its op is sampled on the average of both, which has ordinary derivatives
    "cholesky",
}  # fmt: skip


def codes_run_by_samples() -> set[Any]:
    """The code objects of all functions that run when every valid sample is called."""
    seen: set[Any] = set()
    sys.setprofile(lambda frame, event, arg: seen.add(frame.f_code) if event == "call" else None)
    try:
        with np.errstate(all="ignore"):
            for case in all_cases():
                if not case.fails:
                    case.call()
    finally:
        sys.setprofile(None)
    return seen


def test_every_public_function_is_sampled() -> None:
    """A function of `gradtape.ops` the user can call runs in the samples of some op or composite."""
    sampled = codes_run_by_samples()
    spaces = [gradtape, gradtape.math, gradtape.linalg, gradtape.nn, gradtape.signal, gradtape.image, gradtape.bitwise]
    loose = {
        name
        for space in spaces
        for name, value in ((name, getattr(space, name)) for name in dir(space))  # some are loaded when asked for
        if isinstance(value, FunctionType)
        and value.__module__.startswith(("gradtape.ops", "gradtape.core"))
        and value.__code__ not in sampled
        and not hasattr(value, "op")
        and name not in NOT_SAMPLED
        and not name.startswith("_")
    }
    assert loose == set()


def holes(op: Op) -> list[str]:
    missing = [part for part in ("impl", "infer", "samples") if getattr(op, part) is None]
    if op.batch is None and op.kind != "elementwise":  # whose rule is a default
        missing.append("batch")
    if not any(sample.raises is None for sample in samples_of(op)):
        missing.append("a valid sample")
    if op.differentiable and not (op.partials or op.vjps or op.vjp):
        missing.append("a rule")
    if not op.differentiable and not op.reason:
        missing.append("a reason")
    return missing


def test_every_op_is_complete() -> None:
    assert {op.name: holes(op) for op in registry.OPS if holes(op)} == {}


def test_every_composite_has_samples() -> None:
    assert [c.name for c in registry.COMPOSITES if all(s.raises is not None for s in samples_of(c))] == []


@pytest.mark.parametrize("op", registry.OPS, ids=lambda op: op.name)
def test_ops_pickle_by_name(op: Op) -> None:
    assert registry.op_by_name(op.name) is op


def mentions_loop(rule: Any, seen: set[Any]) -> bool:
    """Whether a batch rule, or a helper it calls, may fall back to `batching.looped`."""
    if rule is batching.looped:
        return True
    if not isinstance(rule, FunctionType) or rule in seen or not rule.__module__.startswith(("gradtape.ops", "gradtape.core")):
        return False
    seen.add(rule)
    names = global_names(rule.__code__)
    if "looped" in names:
        return True
    cells = [cell.cell_contents for cell in rule.__closure__ or ()]
    helpers = [v for n in names if (v := rule.__globals__.get(n)) is not None and "batch" in n]
    return any(mentions_loop(v, seen) for v in (*cells, *helpers))


def test_looped_ops_are_listed() -> None:
    always = {op.name for op in registry.OPS if op.batch is batching.looped}
    sometimes = {op.name for op in registry.OPS if op.name not in always and mentions_loop(op.batch, set())}
    assert always == LOOPED
    assert not any(registry.op_by_name(name).differentiable for name in always | sometimes)
    assert sometimes == LOOPED_SOMETIMES
