"""Variable: reading, assigning, slices, scattered updates, names, copies; what tapes see of each."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import gradtape as gt


def gradient(run, *sources, **options):
    with gt.GradientTape(**options) as tape:
        y = run()
    return tape.gradient(y, list(sources))


# -- making ----------------------------------------------------------------------------------------------------------


def test_initial_values_and_dtypes():
    assert gt.Variable(1.0).dtype == gt.float32
    assert gt.Variable(1).dtype == gt.int32
    assert gt.Variable(np.ones(2)).dtype == gt.float64
    assert gt.Variable([1, 2], dtype=gt.float64).dtype == gt.float64
    assert gt.Variable(lambda: gt.ones((2, 3))).shape == (2, 3)
    assert gt.Variable(gt.Variable(3.0)).numpy() == 3.0
    with pytest.raises(ValueError, match="initial_value"):
        gt.Variable()
    with pytest.raises(ValueError, match="incompatible"):
        gt.Variable([1.0, 2.0], shape=[3])


def test_attributes():
    v = gt.Variable([[1.0, 2.0]], name="weights", constraint=abs)
    assert v.name == "weights:0"
    assert v.trainable
    assert (v.ndim, v.size, len(v)) == (2, 2, 1)
    assert v.shape == v.get_shape() == (1, 2)
    assert v.constraint is abs
    assert v.is_initialized()
    assert "CPU" in v.device
    assert not gt.Variable(1).trainable
    assert not gt.Variable(1.0, trainable=False).trainable
    assert gt.Variable(1.0).name != gt.Variable(1.0).name
    with pytest.raises(AttributeError):
        v.trainable = False


def test_initial_array_is_copied():
    array = np.array([1.0, 2.0])
    v = gt.Variable(array)
    array[0] = 9.0
    assert v.numpy()[0] == 1.0
    source = gt.constant([1.0, 2.0])
    v = gt.Variable(source)
    v.assign_add([1.0, 1.0])
    assert source.numpy().tolist() == [1.0, 2.0]


def test_reading_forms():
    v = gt.Variable([1.0, 2.0])
    for read in (v.value(), v.read_value(), gt.convert_to_tensor(v), gt.identity(v)):
        assert isinstance(read, gt.Tensor)
        assert read.numpy().tolist() == [1.0, 2.0]
    assert float(gt.Variable(2.5)) == 2.5
    assert int(gt.Variable(3)) == 3
    assert complex(gt.Variable(1j)) == 1j
    assert bool(gt.Variable(True))
    assert [1, 2, 3][gt.Variable(1)] == 2
    assert [float(x) for x in v] == [1.0, 2.0]
    assert np.asarray(v).tolist() == [1.0, 2.0]
    assert v.sparse_read([1, 1]).numpy().tolist() == [2.0, 2.0]
    assert v.gather_nd([[1], [0]]).numpy().tolist() == [2.0, 1.0]


def test_snapshots_survive_assignments():
    v = gt.Variable([1.0, 2.0])
    value, array, kept = v.value(), v.numpy(), v * 1.0
    for change in (lambda: v.assign([5.0, 6.0]), lambda: v.assign_add([1.0, 1.0]), lambda: v[0].assign(9.0)):
        change()
        assert value.numpy().tolist() == [1.0, 2.0]
        assert array.tolist() == [1.0, 2.0]
        assert kept.numpy().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        v.numpy()[0] = 0.0


def test_operators():
    v = gt.Variable([1.0, 2.0])
    np.testing.assert_allclose((2.0 * v + v / 2.0 - v**2 + (-v) + abs(v)).numpy(), [1.5, 1.0])
    np.testing.assert_array_equal((v > 1.5).numpy(), [False, True])
    np.testing.assert_allclose((np.array([1.0, 1.0], np.float32) - v).numpy(), [0.0, -1.0])
    m = gt.Variable([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose((m @ m).numpy(), [[7, 10], [15, 22]])
    assert (v == v).numpy().all()
    assert (v == None) is False  # noqa: E711


# -- assigning -------------------------------------------------------------------------------------------------------


def test_assign_family_returns_the_variable():
    v = gt.Variable([1.0, 2.0])
    assert v.assign([3.0, 4.0]) is v
    assert v.assign_add([1.0, 1.0]) is v
    assert v.assign_sub([2.0, 2.0]) is v
    assert v.numpy().tolist() == [2.0, 3.0]
    v.assign(gt.Variable([7.0, 8.0]))
    assert v.numpy().tolist() == [7.0, 8.0]
    v.assign([1, 2])
    assert v.dtype == gt.float32
    v += 1.0
    assert isinstance(v, gt.Tensor)


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_assign_errors_name_the_variable_and_change_nothing(method):
    v = gt.Variable([1.0, 2.0], name="bias")
    with pytest.raises(ValueError, match=rf"{method}: variable 'bias:0' has shape \(2,\) but the value has shape \(3,\)"):
        getattr(v, method)([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=rf"{method}: variable 'bias:0' has dtype float32.*dtype float64.*gt\.cast"):
        getattr(v, method)(gt.constant(np.ones(2)))
    with pytest.raises(ValueError, match="bias"):
        getattr(v, method)(1.0)
    with pytest.raises(ValueError, match="None"):
        getattr(v, method)(None)
    assert v.numpy().tolist() == [1.0, 2.0]


def test_assigned_array_is_copied():
    v = gt.Variable([1.0, 2.0])
    array = np.array([3.0, 4.0], np.float32)
    v.assign(array)
    array[0] = 9.0
    assert v.numpy()[0] == 3.0
    t = gt.constant([5.0, 6.0])
    v.assign(t)
    t[0] = 0.0
    v.assign_add([1.0, 1.0])
    assert v.numpy().tolist() == [6.0, 7.0]
    assert t.numpy().tolist() == [0.0, 6.0]


def test_updates_outside_tapes_reuse_the_buffer():
    v = gt.Variable(np.zeros(100))
    place = v._tensor._data.__array_interface__["data"][0]
    for _ in range(3):
        v.assign_add(np.ones(100))
    assert v._tensor._data.__array_interface__["data"][0] == place
    held = v.value()
    v.assign_add(np.ones(100))
    assert held.numpy()[0] == 3.0


def test_gradient_flows_through_assignments():
    v, x = gt.Variable(2.0), gt.Variable(3.0)

    def run():
        v.assign_add(x)  # 5
        return v * v

    with pytest.warns(gt.GradientWarning, match="v|Variable"):
        gv, gx = gradient(run, v, x)
    assert gx.numpy() == 10.0
    assert gv.numpy() == 10.0
    v.assign(2.0)
    gv, gx = gradient(run, v, x, through_assignments=True)
    assert (gv.numpy(), gx.numpy()) == (10.0, 10.0)
    v.assign(2.0)
    gv, gx = gradient(run, v, x, through_assignments=False)
    assert gv.numpy() == 10.0
    assert gx is None


def test_second_order_through_assignment():
    v, x = gt.Variable(0.0), gt.Variable(3.0)
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            v.assign(x * x)
            y = v * x  # x³
        g = inner.gradient(y, x)
    assert g.numpy() == 27.0
    assert outer.gradient(g, x).numpy() == 18.0


def test_leaf_versions_add_up():
    v = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = v * v
        v.assign(5.0)
        z = y + 3.0 * v
    assert tape.gradient(z, v).numpy() == 4.0 + 3.0


def test_non_trainable_variables_are_watched_on_request_only():
    v = gt.Variable(2.0, trainable=False)
    assert gradient(lambda: v * v, v) == [None]
    with gt.GradientTape() as tape:
        tape.watch(v)
        y = v * v
    assert tape.gradient(y, v).numpy() == 4.0


# -- parts -----------------------------------------------------------------------------------------------------------


def test_slice_reading_and_assigning():
    v = gt.Variable(np.arange(6.0).reshape(2, 3))
    assert v[1, 2].numpy() == 5.0
    assert isinstance(v[0], gt.Tensor)
    assert v[0, 1:].assign([10.0, 20.0]) is v
    v[1].assign_add([1.0, 1.0, 1.0])
    v[1, 0].assign_sub(2.0)
    v[0, 0] = 7.0
    assert v.numpy().tolist() == [[7, 10, 20], [2, 5, 6]]
    v[[0, 1], [0, 2]].assign([0.0, 0.0])
    assert v.numpy().tolist() == [[0, 10, 20], [2, 5, 0]]
    with pytest.raises(ValueError, match="broadcast"):
        v[0].assign([1.0, 2.0])
    with pytest.raises(IndexError):
        v[5].assign(1.0)
    assert v.numpy().tolist() == [[0, 10, 20], [2, 5, 0]]
    with pytest.raises(AttributeError):
        (v[0] * 1.0).assign([1.0, 1.0, 1.0])


def test_slice_of_variable_in_arithmetic_is_a_plain_tensor():
    v = gt.Variable([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        part = v[1:]
        y = gt.reduce_sum(part * part)
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), [0, 4, 6])
    assert type(v[0] + v[1]) is gt.Tensor
    assert str(v[0]) == "gt.Tensor(1.0, shape=(), dtype=float32)"


def test_gradients_of_slice_assignment():
    v, x = gt.Variable([1.0, 2.0, 3.0]), gt.Variable(4.0)

    def run():
        v[1].assign(x * x)
        return gt.reduce_sum(v * v)

    gv, gx = gradient(run, v, x, through_assignments=True)
    np.testing.assert_allclose(gv.numpy(), [2.0, 0.0, 6.0])
    assert gx.numpy() == 4 * 4.0**3


SCATTER = {
    "scatter_add": lambda row, u: row + u,
    "scatter_sub": lambda row, u: row - u,
    "scatter_mul": lambda row, u: row * u,
    "scatter_div": lambda row, u: row / u,
    "scatter_max": np.maximum,
    "scatter_min": np.minimum,
    "scatter_update": lambda row, u: u,
}


@pytest.mark.parametrize("method", SCATTER)
def test_scatter_methods(method):
    start = np.arange(1.0, 9.0).reshape(4, 2)
    updates = np.array([[2.0, 10.0], [5.0, 0.5]])
    v = gt.Variable(start)
    delta = gt.IndexedSlices(gt.constant(updates), gt.constant([3, 0]))
    assert getattr(v, method)(delta) is v
    want = start.copy()
    for row, update in zip((3, 0), updates, strict=True):
        want[row] = SCATTER[method](want[row], update)
    np.testing.assert_allclose(v.numpy(), want)


def test_repeated_rows_add_up():
    v = gt.Variable(np.zeros((2, 1)))
    v.scatter_add(gt.IndexedSlices(gt.constant(np.array([[1.0], [2.0], [4.0]])), gt.constant([1, 1, 0])))
    assert v.numpy().tolist() == [[4.0], [3.0]]


def test_scatter_nd_methods():
    v = gt.Variable(np.zeros((2, 3)))
    v.scatter_nd_add([[0, 1], [0, 1], [1, 2]], np.array([1.0, 2.0, 4.0]))
    assert v.numpy().tolist() == [[0, 3, 0], [0, 0, 4]]
    v.scatter_nd_sub([[1, 2]], np.array([1.0]))
    v.scatter_nd_update([[0, 0]], np.array([9.0]))
    v.scatter_nd_max([[0, 1], [0, 2]], np.array([1.0, 5.0]))
    v.scatter_nd_min([[0, 0]], np.array([2.0]))
    assert v.numpy().tolist() == [[2, 3, 5], [0, 0, 3]]


def test_scatter_add_is_differentiated():
    v, x = gt.Variable(np.ones((3, 1))), gt.Variable(np.array([[2.0]]))

    def run():
        v.scatter_add(gt.IndexedSlices(x * x, gt.constant([1])))
        return gt.reduce_sum(v * v)

    gv, gx = gradient(run, v, x, through_assignments=True)
    np.testing.assert_allclose(gv.numpy(), [[2.0], [10.0], [2.0]])
    np.testing.assert_allclose(gx.numpy(), [[2 * 5.0 * 4.0]])


# -- sparse gradients --------------------------------------------------------------------------------------------------


def test_indexed_slices_arithmetic():
    rows = gt.IndexedSlices(gt.constant([[1.0], [2.0], [4.0]]), gt.constant([1, 0, 1]), (3, 1))
    dense = np.array([[2.0], [5.0], [0.0]])
    assert rows.shape == (3, 1)
    assert rows.dtype == gt.float32
    assert rows.ndim == 2
    np.testing.assert_allclose(rows.to_dense().numpy(), dense)
    np.testing.assert_allclose(np.asarray(rows), dense)
    for scaled in (rows * 2.0, 2.0 * rows, rows * gt.constant(2.0), rows / 0.5):
        assert isinstance(scaled, gt.IndexedSlices)
        np.testing.assert_allclose(scaled.numpy(), 2 * dense)
    assert isinstance(-rows, gt.IndexedSlices)
    np.testing.assert_allclose((-rows).numpy(), -dense)
    np.testing.assert_allclose((rows + 1.0).numpy(), dense + 1)
    np.testing.assert_allclose((1.0 - rows).numpy(), 1 - dense)
    np.testing.assert_allclose((rows * dense).numpy(), dense * dense)
    np.testing.assert_allclose((rows + rows).numpy(), 2 * dense)
    np.testing.assert_allclose(rows[1].numpy(), [5.0])
    np.testing.assert_allclose(gt.reduce_sum(rows).numpy(), 7.0)
    assert "dense_shape" in repr(rows)
    assert {rows: 1}[rows] == 1
    with pytest.raises(ValueError, match="dense_shape"):
        gt.IndexedSlices(gt.ones((1, 1)), [0]).to_dense()


def test_gather_gradient_is_sparse():
    table = gt.Variable(gt.ones((4, 2)))
    (g,) = gradient(lambda: gt.reduce_sum(gt.gather(table, [1, 3, 1])), table)
    assert isinstance(g, gt.IndexedSlices)
    np.testing.assert_allclose(g.numpy()[:, 0], [0, 2, 0, 1])


# -- copies, names, memory ---------------------------------------------------------------------------------------------


def test_deepcopy_copy_and_pickle():
    v = gt.Variable([1.0, 2.0], trainable=False, name="state", constraint=abs)
    deep = copy.deepcopy(v)
    back = pickle.loads(pickle.dumps(v))
    for twin in (deep, back):
        assert isinstance(twin, gt.Variable)
        assert twin.name == "state:0"
        assert not twin.trainable
        twin.assign([5.0, 6.0])
    assert deep.constraint is abs
    assert v.numpy().tolist() == [1.0, 2.0]
    shared = copy.deepcopy([v, v])
    assert shared[0] is shared[1]
    with gt.name_scope("elsewhere"):
        assert copy.deepcopy(v).name == "state:0"
        assert pickle.loads(pickle.dumps(v)).name == "state:0"


def test_deepcopy_inside_a_tape_is_independent():
    v = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        twin = copy.deepcopy(v)
        y = v * twin
    gv, gt_ = tape.gradient(y, [v, twin])
    assert (gv.numpy(), gt_.numpy()) == (2.0, 2.0)


def test_printing():
    v = gt.Variable([1.0], name="w")
    assert repr(v) == "<gt.Variable 'w:0' shape=(1,) dtype=float32, numpy=array([1.], dtype=float32)>"
    assert str(v) == repr(v)
    assert f"{gt.Variable(1.25):.1f}" in ("1.2", "1.3")
    assert f"{v}" == str(v)


def test_hash_and_ref():
    a, b = gt.Variable(1.0), gt.Variable(1.0)
    assert len({a, b}) == 2
    assert a.ref() == a.ref()
    assert a.ref() != b.ref()
    assert a.ref().deref() is a
    assert {a.ref(): 1}[a.ref()] == 1


def test_variable_is_freed_without_the_collector():
    gc.disable()
    try:
        v = gt.Variable([1.0, 2.0])
        with gt.GradientTape() as tape:
            y = v * v
            v.assign(y)
            v[0].assign(1.0)
        gone = weakref.ref(v)
        del v, tape, y
        assert gone() is None
    finally:
        gc.enable()


def test_training_loop_keeps_memory_flat():
    v = gt.Variable(np.ones(10))
    for _ in range(50):
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(v * v)
        v.assign_sub(0.1 * tape.gradient(loss, v))
    node = v._tensor._node
    assert node is None or not node.nodes
    np.testing.assert_allclose(v.numpy(), 0.8**50 * np.ones(10))


def test_custom_attributes_are_allowed():
    v = gt.Variable(1.0)
    v.note = "mine"
    assert v.note == "mine"
