"""Tensors and other people's arrays: DLPack without copies, safetensors of other programs, SciPy's sparse matrices, pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import gradtape as gt
from gradtape.core import dlpack

# -- DLPack --------------------------------------------------------------------------------------------------------------


def address(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


def test_exported_memory_is_the_tensors_own_and_read_only() -> None:
    t = gt.constant(np.arange(6.0).reshape(2, 3))
    array = np.from_dlpack(t)
    assert address(array) == address(t.numpy())
    assert not array.flags.writeable
    assert address(np.from_dlpack(t, copy=True)) != address(t.numpy())


def test_old_consumers_get_a_copy() -> None:
    t = gt.constant([1.0, 2.0])

    class Old:
        __dlpack_device__ = t.__dlpack_device__

        def __dlpack__(self, **_: Any) -> Any:
            return t.__dlpack__()

    array = np.from_dlpack(Old())
    assert address(array) != address(t.numpy())
    with pytest.raises(BufferError, match=r"DLPack before 1\.0"):
        t.__dlpack__(copy=False)


@pytest.mark.parametrize("kind", [gt.constant, gt.Variable], ids=["tensor", "variable"])
def test_jax_asks_as_an_old_consumer_and_never_writes(kind: Any) -> None:
    """JAX 0.10's `from_dlpack` names no version."""
    t = kind(np.arange(3.0))
    asking: dict[str, Any] = {"__name__": "jax._src.dlpack"}
    exec("def capsule(array): return array.__dlpack__(stream=None)", asking)

    class Asked:
        __dlpack_device__ = t.__dlpack_device__

        def __dlpack__(self, **_: Any) -> Any:
            return asking["capsule"](t)

    array = np.from_dlpack(Asked())
    assert address(array) == address(t.numpy())
    (t if kind is gt.constant else t.assign_add([1.0, 1.0, 1.0]))[0] = 5.0  # a new version: what was given away stays
    assert array.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int8", "bool"])
def test_borrowed_memory(dtype: str) -> None:
    source = np.ones((2, 3)).astype(dtype)
    borrowed = gt.from_dlpack(source, copy=False)
    assert address(borrowed.numpy()) == address(source)
    assert borrowed.dtype.name == dtype
    borrowed[0, 0] = np.zeros((), dtype)  # a new version: what was borrowed is not written to
    assert source[0, 0] == 1
    kept = gt.from_dlpack(source)
    source[1, 1] = 0
    assert kept.numpy()[1, 1] == 1


def test_a_borrowed_tensor_is_differentiated_and_assigned() -> None:
    source = np.array([1.0, 2.0])
    x = gt.from_dlpack(source, copy=False)
    v = gt.Variable(x)
    v.assign_add([1.0, 1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.function(lambda x: gt.reduce_sum(x**3))(x)
    np.testing.assert_allclose(tape.gradient(y, x), [3.0, 12.0])
    assert source.tolist() == [1.0, 2.0]


def test_bfloat16_travels_as_itself() -> None:
    pytest.importorskip("ml_dtypes")
    t = gt.constant([1.5, -2.0], gt.bfloat16)
    for options in ({}, {"max_version": (1, 0)}):
        capsule = t.__dlpack__(**options)
        assert dlpack._type_code(capsule).value == 4
    back = gt.from_dlpack(_Of(t), copy=False)
    assert back.dtype == gt.bfloat16
    assert gt.cast(back, gt.float32).numpy().tolist() == [1.5, -2.0]
    assert address(back.numpy().view(np.uint16)) == address(t.numpy().view(np.uint16))


class _Of:
    """A library of its own, around a tensor."""

    def __init__(self, tensor: gt.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    t = gt.constant([1.0, 2.0])
    theirs = module.from_dlpack(t) if library == "torch" else module.numpy.from_dlpack(t)
    assert gt.from_dlpack(theirs).numpy().tolist() == [1.0, 2.0]
    assert gt.from_dlpack(theirs, copy=False).numpy().tolist() == [1.0, 2.0]


# -- files ---------------------------------------------------------------------------------------------------------------


def test_a_file_of_another_program(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({"layer.weight": np.ones((2, 3), "float32"), "step": np.array(7)}, tmp_path / "a", {"format": "pt"})
    loaded = gt.load(tmp_path / "a")
    assert sorted(loaded) == ["layer.weight", "step"]
    assert loaded["layer.weight"].shape == (2, 3)
    assert int(loaded["step"]) == 7
    with gt.GradientTape() as tape:
        tape.watch(loaded["layer.weight"])
        y = gt.reduce_sum(loaded["layer.weight"] ** 2)
    assert tape.gradient(y, loaded["layer.weight"]).numpy().tolist() == [[2.0] * 3] * 2


def test_half_precision_of_another_program(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("safetensors")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "b").write_bytes(len(header).to_bytes(8, "little") + header + bytes([0x80, 0x3F, 0x00, 0x40]))
    assert gt.cast(gt.load(tmp_path / "b")["w"], gt.float32).numpy().tolist() == [1.0, 2.0]


# -- sparse matrices -----------------------------------------------------------------------------------------------------

DENSE = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, -3.0]])
KINDS = [
    scipy.sparse.csr_array,
    scipy.sparse.csc_array,
    scipy.sparse.coo_array,
    scipy.sparse.csr_matrix,
    scipy.sparse.dia_array,
]


def eager(f: Any) -> Any:
    return f


@pytest.mark.parametrize("run", [eager, gt.function])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_sparse_times_tensor(kind: Any, shape: tuple[int, ...], run: Any) -> None:
    a, x = kind(DENSE), gt.constant(np.random.default_rng(0).normal(size=shape))
    product = run(lambda x: gt.reduce_sum(gt.sin(a @ x)))
    reference = lambda x: gt.reduce_sum(gt.sin(gt.linalg.matvec(DENSE, x) if x.ndim == 1 else DENSE @ x))  # noqa: E731
    np.testing.assert_allclose(product(x), reference(x), rtol=1e-12)
    np.testing.assert_allclose(gt.grad(product)(x), gt.grad(reference)(x), rtol=1e-12)
    np.testing.assert_allclose(gt.hessian(product)(x), gt.hessian(reference)(x), rtol=1e-12)


@pytest.mark.parametrize("run", [eager, gt.function])
@pytest.mark.parametrize("shape", [(2,), (4, 2), (3, 4, 2)])
def test_tensor_times_sparse(shape: tuple[int, ...], run: Any) -> None:
    a, x = scipy.sparse.csr_array(DENSE), gt.constant(np.random.default_rng(1).normal(size=shape))
    product = run(lambda x: x @ a)
    np.testing.assert_allclose(product(x), x.numpy() @ DENSE, rtol=1e-12)
    np.testing.assert_allclose(
        gt.grad(lambda x: gt.reduce_sum(product(x) ** 2))(x), 2 * x.numpy() @ DENSE @ DENSE.T, rtol=1e-12
    )


def test_variables_forward_mode_and_batches() -> None:
    a, v = scipy.sparse.csr_array(DENSE), gt.Variable(np.array([1.0, 2.0, 3.0]))
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(a @ v)
    np.testing.assert_allclose(tape.gradient(y, v), DENSE.sum(axis=0))
    _, tangent = gt.jvp(lambda x: a @ x, [v.value()], [gt.constant(np.array([1.0, 0.0, 1.0]))])
    np.testing.assert_allclose(tangent, DENSE @ [1.0, 0.0, 1.0])
    rows = np.random.default_rng(2).normal(size=(5, 3))
    np.testing.assert_allclose(gt.vectorized_map(lambda x: a @ x, gt.constant(rows)), rows @ DENSE.T, rtol=1e-12)


def test_sparse_shapes_that_do_not_fit() -> None:
    a = scipy.sparse.csr_array(DENSE)
    for call in (lambda: a @ gt.ones((2,)), lambda: gt.ones((3,)) @ a):
        with pytest.raises(gt.errors.InvalidArgumentError, match="a sparse matrix and a tensor do not fit"):
            call()


def test_an_empty_sparse_matrix() -> None:
    assert (scipy.sparse.csr_array((2, 3)) @ gt.ones((3,))).numpy().tolist() == [0.0, 0.0]


# -- tables and plots ----------------------------------------------------------------------------------------------------


def test_pandas_takes_tensors() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": gt.constant([1.0, 2.0]), "b": gt.constant([3, 4])})
    assert frame["a"].tolist() == [1.0, 2.0]
    assert pandas.Series(gt.Variable([1.0])).tolist() == [1.0]
    assert gt.constant(frame["a"]).numpy().tolist() == [1.0, 2.0]
    for kind in (gt.constant, gt.Variable):  # places of a table, too
        frame.loc[0, "a"] = kind(5.0)
        frame.iloc[1, 0] = kind(6.0)
        frame.loc[frame.a > 5.5, "b"] = kind([8])
        assert frame.to_numpy().tolist() == [[5.0, 3.0], [6.0, 8.0]]
        frame.loc[:, "a"] = kind([1.0, 2.0])
        frame.at[1, "b"] = kind(4)
        assert frame.to_numpy().tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_matplotlib_takes_tensors() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    (line,) = pyplot.plot(gt.constant([0.0, 1.0]), gt.Variable([2.0, 3.0]))
    assert line.get_ydata().tolist() == [2.0, 3.0]
    pyplot.imshow(gt.ones((2, 2)))
    assert [bar.get_height() for bar in pyplot.bar(gt.range(2), gt.constant([2.0, 3.0]))] == [2.0, 3.0]
    pyplot.close("all")


def test_none_and_texts_are_broadcast_as_numpy_does() -> None:
    """What matplotlib does with the bars of a chart."""
    height, width, none, hatch, hatches = np.broadcast_arrays(gt.constant([1.0, 2.0]), 0.8, None, "/", ["x", "o"])
    assert height.numpy().tolist() == [1.0, 2.0]
    assert width.numpy().tolist() == [np.float32(0.8)] * 2
    assert [part.tolist() for part in (none, hatch, hatches)] == [[None, None], ["/", "/"], ["x", "o"]]


def test_operators_of_pandas_leave_tensors_to_us_and_the_rest_is_refused_where_a_tape_watches() -> None:
    pandas = pytest.importorskip("pandas")
    series, w = pandas.Series([1.0, 2.0, 3.0]), gt.Variable(np.array([1.0, 2.0, 3.0]))
    frame = pandas.DataFrame({"a": series})
    for product in (lambda: series * w, lambda: w * series, lambda: gt.function(lambda v: series * v)(w)):
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(product())
        assert tape.gradient(y, w).numpy().tolist() == [1.0, 2.0, 3.0]
    with gt.GradientTape():
        assert pandas.Series(w * 2.0).sum() == 12.0  # on purpose, as np.asarray(w) is
        assert len(series.apply(lambda number: number * w[0])) == 3
        for lost in (lambda: frame.T @ w, lambda: series.dot(w), lambda: frame.__setitem__("b", w)):
            with pytest.raises(TypeError, match=r"test_interchange.py:.* pandas.* its gradient would be lost"):
                lost()


def test_functions_of_scikit_learn_take_no_watched_tensor() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    w = gt.Variable([1.0, 2.0, 3.0])
    assert metrics.mean_squared_error(np.ones(3), w) == pytest.approx(5 / 3)
    with gt.GradientTape(), pytest.raises(TypeError, match=r"gives sklearn's .* a tensor that a tape watches"):
        metrics.mean_squared_error(np.ones(3), w)
