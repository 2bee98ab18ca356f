"""Code written for the array API standard died on tensors or was misled by them: the namespace was no module (not hashable,
without a name), names were missing, `asarray(x, copy=True)` gave the tensor itself, and `asarray(0.1, dtype=float64)` was the
nearest float32. The standard is checked function by function in tests/standard."""

from types import ModuleType

import pytest

import gradtape as gt

xp = gt.constant(1.0).__array_namespace__()
MISSING = "nextafter unique_all unique_counts unique_inverse fft.hfft fft.ihfft fft.fftfreq fft.rfftfreq linalg.matrix_rank"


def test_the_namespace_is_a_module_with_a_name_and_a_hash():
    assert isinstance(xp, ModuleType)
    assert xp.__name__ == "gradtape.array_api"
    assert xp in {xp}
    assert xp is gt.array_api is gt.Variable(1.0).__array_namespace__()


@pytest.mark.parametrize("name", MISSING.split())
def test_names_that_were_missing(name):
    space = xp
    for part in name.split("."):
        space = getattr(space, part)
    assert callable(space)
    assert hasattr(gt.Tensor, "to_device")


def test_copies_do_not_alias():
    x = xp.asarray([1.0, 2.0])
    y = xp.asarray(x, copy=True)
    y[0] = 5.0
    assert x.numpy().tolist() == [1.0, 2.0]


def test_python_numbers_keep_their_precision():
    assert float(xp.asarray(0.1, dtype=xp.float64)) == 0.1
    assert xp.asarray([0.1, 1], dtype=xp.float64).numpy().tolist() == [0.1, 1.0]
    assert float(xp.full((), 0.1, dtype=xp.float64)) == 0.1
    assert float(xp.asarray(1e300, dtype=xp.float64)) == 1e300
    assert int(xp.asarray(2**63, dtype=xp.uint64)) == int(gt.constant(2**63)) == 2**63
