"""How variables start: shapes, spreads, seeds, and what is refused; the machine that `gt.config` describes."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt

init = gt.initializers
RANDOM = ["RandomUniform", "RandomNormal", "TruncatedNormal", "VarianceScaling", "GlorotUniform", "GlorotNormal", "HeUniform",
          "HeNormal", "LecunUniform", "LecunNormal", "Orthogonal"]  # fmt: skip


def test_fixed_values():
    assert init.Zeros()((2, 3), gt.int32).dtype == gt.int32
    np.testing.assert_array_equal(init.Ones()([2]), [1.0, 1.0])
    np.testing.assert_array_equal(init.Constant(3)((2, 2), "float64"), np.full((2, 2), 3.0))
    np.testing.assert_array_equal(init.Constant([1, 2, 3, 4])((2, 2)), [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(init.Identity(2.0)((2, 3)), [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])


@pytest.mark.parametrize("name", RANDOM)
def test_seeds(name):
    kind = getattr(init, name)
    a, b, c = (kind(seed=s)((6, 4), "float64").numpy() for s in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
    assert a.dtype == np.float64
    gt.random.set_seed(5)
    first = kind()((6, 4)).numpy()
    assert (kind()((6, 4)).numpy() != first).any()
    gt.random.set_seed(5)
    np.testing.assert_array_equal(kind()((6, 4)).numpy(), first)
    again = kind.from_config(kind(seed=1).get_config())
    np.testing.assert_array_equal(again((6, 4), "float64").numpy(), a)
    assert repr(again).startswith(name + "(")


@pytest.mark.parametrize(("name", "variance"), [
    ("GlorotUniform", 2 / (40 + 90)), ("GlorotNormal", 2 / (40 + 90)), ("HeUniform", 2 / 40), ("HeNormal", 2 / 40),
    ("LecunUniform", 1 / 40), ("LecunNormal", 1 / 40),
])  # fmt: skip
def test_variances(name, variance):
    w = getattr(init, name)(seed=3)((40, 90), "float64").numpy()
    assert w.var() == pytest.approx(variance, rel=0.1)
    taps = getattr(init, name)(seed=3)((2, 5, 4, 9), "float64").numpy()  # ten taps: 40 inputs and 90 outputs again
    assert taps.var() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 3, 4)])
def test_orthogonal(shape):
    w = init.Orthogonal(2.0, seed=1)(shape, "float64").numpy().reshape(-1, shape[-1])
    small = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(small, 4.0 * np.eye(len(small)), atol=1e-12)


def test_in_a_function_each_call_draws_anew():
    f = gt.function(lambda: init.GlorotNormal()((3, 2)))
    assert (f().numpy() != f().numpy()).any()


def test_by_name():
    assert isinstance(init.get("glorot_uniform"), init.GlorotUniform)
    assert isinstance(init.get("HeNormal"), init.HeNormal)
    assert isinstance(init.get(init.Zeros), init.Zeros)
    one = init.Ones()
    assert init.get(one) is one
    assert init.get(None) is None
    assert gt.random_normal_initializer is init.RandomNormal
    assert init.he_normal is init.HeNormal


@pytest.mark.parametrize(("call", "text"), [
    (lambda: init.get("glorot"), "no initializer 'glorot'; there are zeros, ones"),
    (lambda: init.Identity()((2,)), "shape of two numbers, got (2,)"),
    (lambda: init.Orthogonal()((2,)), "two or more numbers, got (2,)"),
    (lambda: init.Constant([1, 2])((3,)), "value has 2 elements, which do not fill the shape (3,)"),
    (lambda: init.RandomNormal()((2,), gt.int32), "RandomNormal: dtype must be a floating type, got int32"),
    (lambda: init.VarianceScaling(mode="in"), "mode must be 'fan_in', 'fan_out' or 'fan_avg'"),
    (lambda: init.VarianceScaling(scale=0.0), "scale must be positive"),
    (lambda: init.VarianceScaling(distribution="cauchy"), "distribution must be"),
    (lambda: gt.config.set_visible_devices([], "CPU"), "the CPU cannot be hidden"),
    (lambda: gt.config.set_visible_devices(gt.config.PhysicalDevice("/physical_device:GPU:0", "GPU")), "there is no device"),
])  # fmt: skip
def test_refusals(call, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the text is compared)
        call()
    assert text in str(caught.value)


def test_the_machine():
    (cpu,) = gt.config.list_physical_devices()
    assert gt.config.list_physical_devices("GPU") == []
    assert gt.config.list_logical_devices("CPU")[0].name == "/device:CPU:0"
    gt.config.set_visible_devices(cpu)
    gt.config.set_visible_devices([], "GPU")
    for gpu in gt.config.experimental.list_physical_devices("GPU"):
        gt.config.experimental.set_memory_growth(gpu, True)
    before = gt.config.threads()
    gt.config.threading.set_intra_op_parallelism_threads(1)
    assert (gt.config.threads(), gt.config.threading.get_intra_op_parallelism_threads()) == (1, 1)
    gt.config.threading.set_intra_op_parallelism_threads(0)  # as many as there are
    assert gt.config.threads() == before
    assert gt.Variable(1.0).initializer is None


def test_without_a_home_directory_nothing_is_kept(monkeypatch):
    from gradtape import config

    monkeypatch.setitem(config.settings, "native_cache", None)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(config.os.path, "expanduser", lambda path: path)  # what it says for a user that nobody knows
    assert config.native_cache_directory() is None
