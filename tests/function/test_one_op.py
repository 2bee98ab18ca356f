"""Operations that eager code runs as programs of their own: the same values and errors; made only for what comes again."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.dispatch import apply
from gradtape.core.forms import HEAVY
from gradtape.functions import one_op
from gradtape.functions.one_op import OneOpPrograms
from gradtape.ops import registry
from tests.tape.test_native_forms import forms

pytest.importorskip("llvmlite")
OPS = {op.name: op for op in registry.OPS if op.name in HEAVY}


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch):
    monkeypatch.setattr(one_op, "ELEMENTS", 0)


def test_all_of_them_are_ops():
    assert set(OPS) == set(HEAVY)
    assert "conv" in HEAVY


@pytest.mark.parametrize("name", HEAVY)
def test_values(name, monkeypatch):
    monkeypatch.setattr(one_op, "AFTER", 2)
    op, ran = OPS[name], 0
    for sample in op.samples():
        if sample.raises is not None:
            continue
        for kind in (np.float64, np.float32):
            arrays = [np.asarray(a, kind if np.asarray(a).dtype.kind == "f" else None) for a in sample.args]
            if len(arrays) < len(op.args):  # where the maxima are
                arrays.append(OPS["max_pool"].impl(*arrays, **sample.kwargs))
            with forms(False):
                want = np.asarray(op.impl(*arrays, **sample.kwargs))
            programs = OneOpPrograms(name)
            programs(tuple(arrays), sample.kwargs)
            got = programs(tuple(arrays), sample.kwargs)
            ran += got is not one_op.MISS
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5 if kind is np.float32 else 1e-12, atol=1e-6)
    assert ran


def test_a_network_learns_the_same(monkeypatch):
    monkeypatch.setattr(one_op, "AFTER", 2)
    rng = np.random.default_rng(0)
    x = gt.constant(rng.standard_normal((2, 8, 8, 3)))
    filters = gt.Variable(rng.standard_normal((3, 3, 3, 4)))

    def step():
        with gt.GradientTape() as outer:
            with gt.GradientTape() as tape:
                h = gt.nn.max_pool2d(gt.nn.relu(gt.nn.conv2d(x, filters, 1, "SAME")), 2, 2, "VALID")
                y = gt.reduce_sum(gt.nn.avg_pool2d(h, 2, 2, "SAME") ** 2)
            slope = tape.gradient(y, filters)
            z = gt.reduce_sum(slope * slope)
        return [y.numpy(), slope.numpy(), outer.gradient(z, filters).numpy()]

    with forms(False):
        expected = step()
    with forms(True):
        for _ in range(4):
            for got, want in zip(step(), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-10)


def test_only_what_comes_again_is_compiled():
    programs = OneOpPrograms("pool_sum")
    geometry = {"ksize": (2,), "strides": (2,), "padding": ((0, 0),)}
    x = np.ones((1, 4, 1), np.float32)
    for _ in range(one_op.AFTER - 1):
        assert programs((x,), geometry) is one_op.MISS
    assert programs((x,), geometry).tolist() == [[[2.0], [2.0]]]
    assert programs((x[:, :2],), geometry) is one_op.MISS
    half = x.astype(np.float16)
    assert all(programs((half,), geometry) is one_op.MISS for _ in range(2 * one_op.AFTER))


def test_small_arrays_come_more_often_before_they_are_compiled(monkeypatch):
    monkeypatch.setattr(one_op, "ELEMENTS", 5 * 20)
    programs = OneOpPrograms("pool_sum")
    geometry = {"ksize": (2,), "strides": (2,), "padding": ((0, 0),)}
    x = np.ones((1, 4, 1), np.float32)
    for _ in range(5 * 20 // (x.size + 1) - 1):
        assert programs((x,), geometry) is one_op.MISS
    assert programs((x,), geometry) is not one_op.MISS


def overflow():
    x, w = (gt.constant(np.full(shape, 1e30, np.float32)) for shape in ((1, 4, 4, 1), (2, 2, 1, 1)))
    return gt.nn.conv2d(x, w, 1, "SAME")


def test_results_that_are_not_finite_are_told_as_in_eager_code(monkeypatch):
    monkeypatch.setattr(one_op, "AFTER", 2)
    with forms(True):
        for _ in range(4):
            with pytest.warns(RuntimeWarning, match="conv in .* is not finite"):
                overflow()
        assert any(known.__class__ is not int for known in HEAVY["conv"].quick._known.values())


def test_large_filters_are_left_to_blas(monkeypatch):
    monkeypatch.setattr(one_op, "AFTER", 1)
    geometry = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilations": (1, 1), "groups": 1}
    with forms(True):
        for channels, known in ((512, 0), (511, 1)):
            x, w, y = (np.ones(shape, np.float32) for shape in ((1, 1, 1, 513), (1, 1, 513, channels), (1, 1, 1, channels)))
            OPS["conv"].impl(x, w, **geometry)
            OPS["conv_input"].impl(y, w, space=(1, 1), **geometry)
            OPS["conv_filter"].impl(x, y, kernel=(1, 1), **geometry)
            assert [len(HEAVY[name].quick._known) for name in ("conv", "conv_input", "conv_filter")] == [known] * 3


MANY = """
import numpy as np, gradtape as gt
from gradtape.tape import native_forms
native_forms.ELEMENTS = 3_000
gt.config.native_eager(True)
x, w = gt.constant(np.ones((1, 10, 10, 1))), gt.constant(np.ones((2, 2, 1, 1)))
for turn in range(40):
    gt.nn.conv2d(x, w, 1, "SAME")
    if gt.core.forms.HEAVY["conv"].quick.__class__ is not native_forms.Meter:
        break
print(turn, gt.nn.max_pool2d.__name__, {place.quick.__class__.__name__ for place in gt.core.forms.HEAVY.values()})
"""


def test_what_they_read_decides_when_they_are_served():
    """Without a tape, in a process of its own; operations of files that are imported later are served as well."""
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1)[0] == str(3_000 // 104)
    assert "{'OneOpPrograms'}" in done.stdout


def test_errors_are_those_of_eager_code():
    x, w = gt.constant(np.ones((1, 2, 2, 1))), gt.constant(np.ones((3, 1, 1, 1)))
    attrs = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilations": (1, 1), "groups": 1}
    with forms(True):
        for _ in range(2 * one_op.AFTER):
            with pytest.raises(ValueError, match="does not fit"):
                apply(OPS["conv"], x, w, **attrs)


def test_an_impl_inside_its_own_program_runs_itself():
    programs = OneOpPrograms("pool_sum")
    programs._running.add(threading.get_ident())
    x = np.ones((1, 4, 1), np.float32)
    geometry = {"ksize": (2,), "strides": (2,), "padding": ((0, 0),)}
    assert all(programs((x,), geometry) is one_op.MISS for _ in range(2 * one_op.AFTER))
