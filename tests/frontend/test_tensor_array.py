"""TensorArray: data flow through slots, in and after the tape's block; errors; no reference to tapes."""

import gc
import weakref

import numpy as np
import pytest

import gradtape as gt


def filled(x, n=3):
    ta = gt.TensorArray(gt.float32, size=n)
    for i in range(n):
        ta = ta.write(i, x**i)
    return ta


# -- values ----------------------------------------------------------------------------------------------------------


def test_write_read_stack():
    ta = gt.TensorArray(gt.float32, size=2)
    ta = ta.write(0, [1.0, 2.0])
    ta = ta.write(1, gt.constant([3.0, 4.0]))
    np.testing.assert_array_equal(ta.read(1).numpy(), [3.0, 4.0])
    np.testing.assert_array_equal(ta.stack().numpy(), [[1.0, 2.0], [3.0, 4.0]])
    assert ta.size().numpy() == 2
    assert ta.size().dtype == gt.int32
    assert len(ta) == 2
    assert ta.dtype == gt.float32
    assert ta.element_shape == (2,)
    assert not ta.dynamic_size


def test_write_alone_works_without_rebinding():
    ta = gt.TensorArray(gt.int32, size=2)
    assert ta.write(0, 5) is ta
    ta.write(1, 6)
    np.testing.assert_array_equal(ta.stack().numpy(), [5, 6])


def test_unwritten_slots_are_zeros():
    ta = gt.TensorArray(gt.float32, size=3).write(1, [7.0])
    np.testing.assert_array_equal(ta.stack().numpy(), [[0.0], [7.0], [0.0]])
    np.testing.assert_array_equal(ta.read(0).numpy(), [0.0])
    known = gt.TensorArray(gt.float64, size=2, element_shape=(2,))
    np.testing.assert_array_equal(known.stack().numpy(), np.zeros((2, 2)))
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"slot 0 was never written.*element_shape"):
        gt.TensorArray(gt.float32, size=1).read(0)


def test_dynamic_size_grows():
    ta = gt.TensorArray(gt.float32, size=0, dynamic_size=True)
    for i in range(5):
        ta = ta.write(i, float(i))
    ta = ta.write(7, 7.0)
    np.testing.assert_array_equal(ta.stack().numpy(), [0, 1, 2, 3, 4, 0, 0, 7])


def test_tensors_and_variables_as_indices():
    ta = gt.TensorArray(gt.float32, size=gt.constant(3))
    ta = ta.write(gt.constant(2), 1.0).write(gt.Variable(0, trainable=False), 2.0).write(np.int64(1), 3.0)
    assert ta.read(gt.constant(1)).numpy() == 3.0
    np.testing.assert_array_equal(ta.stack().numpy(), [2.0, 3.0, 1.0])


def test_unstack_gather_scatter_concat_split_identity():
    rows = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    ta = gt.TensorArray(gt.float32, size=3).unstack(rows)
    np.testing.assert_array_equal(ta.gather([2, 0]).numpy(), rows[[2, 0]])
    np.testing.assert_array_equal(ta.concat().numpy(), rows.reshape(-1))
    assert ta.identity() is ta
    ta = gt.TensorArray(gt.float32, size=4).scatter([3, 1, 0], rows)
    np.testing.assert_array_equal(ta.stack().numpy(), [rows[2], rows[1], [0, 0], rows[0]])
    ta = gt.TensorArray(gt.float32, size=2, infer_shape=False).split(rows, [1, 2])
    np.testing.assert_array_equal(ta.read(1).numpy(), rows[1:])
    np.testing.assert_array_equal(ta.concat().numpy(), rows)


def test_empty_arrays():
    assert gt.TensorArray(gt.float32, size=0, element_shape=(3,)).stack().shape == (0, 3)
    assert gt.TensorArray(gt.float32, size=0, element_shape=(3, 2)).concat().shape == (0, 2)
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"empty.*element_shape"):
        gt.TensorArray(gt.float32, size=0).stack()
    ta = gt.TensorArray(gt.float32, size=1, element_shape=(2,)).write(0, [1.0, 2.0])
    assert ta.gather(np.zeros(0, int)).shape == (0, 2)


def test_slots_keep_their_version():
    t = gt.constant([1.0, 2.0])
    ta = gt.TensorArray(gt.float32, size=1).write(0, t)
    t[0] = 9.0
    np.testing.assert_array_equal(ta.read(0).numpy(), [1.0, 2.0])
    r = ta.read(0)
    r[1] = 8.0
    np.testing.assert_array_equal(ta.read(0).numpy(), [1.0, 2.0])
    array = np.array([3.0], np.float32)
    ta = gt.TensorArray(gt.float32, size=1).write(0, array)
    array[0] = 4.0
    assert ta.read(0).numpy() == [3.0]


def test_clear_after_read():
    ta = gt.TensorArray(gt.float32, size=1).write(0, 1.0)
    assert ta.read(0).numpy() == ta.read(0).numpy() == 1.0
    ta = gt.TensorArray(gt.float32, size=1, clear_after_read=True).write(0, 1.0)
    ta.read(0)
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"already read.*clear_after_read=False"):
        ta.read(0)
    assert ta.write(0, 2.0).read(0).numpy() == 2.0


# -- errors ----------------------------------------------------------------------------------------------------------


def test_errors_change_nothing():
    ta = gt.TensorArray(gt.float32, size=2)
    with pytest.raises(IndexError, match=r"index 2 is not in an array of size 2.*dynamic_size=True"):
        ta.write(2, 1.0)
    with pytest.raises(gt.errors.OutOfRangeError, match="index -1"):
        ta.write(-1, [1.0, 2.0])
    assert ta.element_shape.rank is None
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"dtype float32.*dtype int32.*gt.cast"):
        ta.write(0, gt.constant(1))
    ta.write(0, 1.0)
    with pytest.raises(ValueError, match=r"shape \(2,\).*infer_shape=False"):
        ta.write(1, [1.0, 2.0])
    with pytest.raises(IndexError, match="read: index 5"):
        ta.read(5)
    with pytest.raises(IndexError, match="gather: index 2"):
        ta.gather([0, 2])
    with pytest.raises(TypeError, match="not an integer index"):
        ta.write(0.5, 1.0)
    with pytest.raises(ValueError, match=r"4 rows do not fit.*size=4"):
        ta.unstack([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(IndexError):
        ta.scatter([0, 7], [5.0, 6.0])
    with pytest.raises(ValueError, match="2 indices for 1 rows"):
        ta.scatter([0, 1], [5.0])
    with pytest.raises(ValueError, match=r"lengths \[1, 1\] add up to 2"):
        gt.TensorArray(gt.float32, size=2).split([1.0, 2.0, 3.0], [1, 1])
    np.testing.assert_array_equal(ta.stack().numpy(), [1.0, 0.0])
    with pytest.raises(ValueError, match="handle"):
        gt.TensorArray(gt.float32, handle=object())
    with pytest.raises(ValueError, match="negative"):
        gt.TensorArray(gt.float32, size=-1)
    with pytest.raises(ValueError, match="scalars cannot be joined"):
        ta.concat()


def test_given_element_shape_is_checked():
    ta = gt.TensorArray(gt.float32, size=2, element_shape=(None, 2), infer_shape=False)
    ta.write(0, [[1.0, 2.0]]).write(1, [[1.0, 2.0], [3.0, 4.0]])
    assert ta.concat().shape == (3, 2)
    with pytest.raises(ValueError, match="elements have shape"):
        ta.write(0, [1.0])


def test_closed_array():
    ta = gt.TensorArray(gt.float32, size=1).write(0, 1.0)
    ta.close()
    ta.close()
    for call in (lambda: ta.read(0), ta.stack, lambda: ta.write(0, 1.0), ta.size, ta.concat):
        with pytest.raises(gt.errors.FailedPreconditionError, match="closed"):
            call()


# -- derivatives -----------------------------------------------------------------------------------------------------


def test_gradient_inside_the_block():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(filled(x).stack())
    assert tape.gradient(y, x).numpy() == 5.0


def test_stack_after_the_block_stays_connected():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        ta = filled(x)
    y = ta.stack()
    assert tape.gradient(y, x).numpy() == 5.0


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda ta: ta.read(2), 4.0),
        (lambda ta: ta.gather([2, 2, 1]), 9.0),
        (lambda ta: ta.stack(), 5.0),
    ],
)
def test_every_read_after_the_block(read, expected):
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        ta = filled(x)
    assert tape.gradient(read(ta), x).numpy() == expected


def test_concat_unstack_split_scatter_after_the_block():
    x = gt.Variable([1.0, 2.0, 3.0, 4.0])
    with gt.GradientTape(persistent=True) as tape:
        split = gt.TensorArray(gt.float32, size=2, infer_shape=False).split(x * x, [1, 3])
        rows = gt.TensorArray(gt.float32, size=4).unstack(x * x)
        scattered = gt.TensorArray(gt.float32, size=6).scatter([5, 0, 0, 2], x * x)
    np.testing.assert_allclose(tape.gradient(split.concat(), x).numpy(), [2, 4, 6, 8])
    np.testing.assert_allclose(tape.gradient(rows.stack(), x).numpy(), [2, 4, 6, 8])
    np.testing.assert_allclose(tape.gradient(scattered.stack(), x).numpy(), [2, 0, 6, 8])


def test_overwritten_value_has_no_gradient_and_reread_adds():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        ta = gt.TensorArray(gt.float32, size=1)
        ta = ta.write(0, x)
        first = ta.read(0)
        ta = ta.write(0, ta.read(0) * x)
        y = first + ta.read(0) + ta.read(0)
    assert tape.gradient(y, x).numpy() == 1.0 + 4.0 * 3.0


def test_loop_carried_array_equals_finite_differences():
    def run(x, steps=20):
        ta = gt.TensorArray(gt.float64, size=steps + 1)
        ta.write(0, x)
        for i in range(steps):
            ta.write(i + 1, gt.sin(ta.read(i)) + 0.1 * ta.read(i // 2))
        return ta.stack()

    x = gt.constant(np.float64(0.7))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(run(x))
    h = 1e-6
    numeric = (run(np.float64(0.7 + h)).numpy().sum() - run(np.float64(0.7 - h)).numpy().sum()) / (2 * h)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), numeric, rtol=1e-7)


def test_second_order_after_both_blocks():
    x = gt.Variable(2.0)
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            ta = filled(x, 4)  # 1, x, x², x³
        y = ta.stack()  # outer records, inner is reached through the array
        first = inner.gradient(y, x)
    assert first.numpy() == 1 + 4 + 12
    assert outer.gradient(first, x).numpy() == 2 + 12


def test_nested_tapes_stacked_after_all():
    x = gt.Variable(2.0)
    with gt.GradientTape() as outer, gt.GradientTape() as inner:
        ta = filled(x)
    y = ta.stack()
    assert inner.gradient(y, x).numpy() == 5.0
    assert outer.gradient(y, x).numpy() == 5.0


def test_gradients_written_into_an_array():
    x = gt.Variable([1.0, 2.0])
    with gt.GradientTape() as outer:
        ta = gt.TensorArray(gt.float32, size=2)
        for i in range(2):
            with gt.GradientTape() as inner:
                y = gt.reduce_sum(x ** (i + 2))
            ta = ta.write(i, inner.gradient(y, x))
    np.testing.assert_allclose(outer.gradient(ta.stack(), x).numpy(), [2 + 6, 2 + 12])


def test_persistent_tape_can_be_asked_twice():
    x = gt.Variable(2.0)
    with gt.GradientTape(persistent=True) as tape:
        ta = filled(x)
    assert tape.gradient(ta.stack(), x).numpy() == 5.0
    assert tape.gradient(ta.gather([2]), x).numpy() == 4.0


def test_spent_and_closed_tapes_record_no_more():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        ta = filled(x)
    tape.gradient(ta.stack(), x)
    count = len(tape.records)
    ta.stack()
    assert len(tape.records) == count
    with gt.GradientTape(persistent=True) as tape:
        ta = filled(x)
    tape.close()
    assert ta.stack().numpy().tolist() == [1.0, 2.0, 4.0]
    assert len(tape.records) == 0


def test_paused_tape_stays_paused():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        ta = filled(x)
        with tape.stop_recording():
            y = ta.stack()
    assert tape.gradient(y, x) is None


def test_other_arrays_are_not_recorded_after_the_block():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * 3.0
    ta = gt.TensorArray(gt.float32, size=1).write(0, 1.0)
    count = len(tape.records)
    ta.stack()
    assert len(tape.records) == count
    assert tape.gradient(y, x).numpy() == 3.0


def test_array_does_not_keep_the_tape_alive():
    x = gt.Variable(2.0)
    gc.disable()
    try:
        with gt.GradientTape() as tape:
            ta = filled(x)
        alive = weakref.ref(tape)
        del tape
        assert alive() is None
    finally:
        gc.enable()
    np.testing.assert_array_equal(ta.stack().numpy(), [1.0, 2.0, 4.0])


def test_filling_is_linear_in_records():
    x = gt.Variable(1.0)
    with gt.GradientTape() as tape:
        ta = gt.TensorArray(gt.float32, size=0, dynamic_size=True)
        for i in range(500):
            ta = ta.write(i, x * 2.0)
    assert tape.gradient(ta.stack(), x).numpy() == 1000.0
    assert len(ta._tapes) == 1


def test_repr():
    ta = gt.TensorArray(gt.float32, size=2).write(0, [1.0])
    assert repr(ta) == "<gt.TensorArray: size=2, dtype=float32, element_shape=(1,)>"


def test_inside_vectorized_map_and_forward_mode():
    def f(x):
        ta = gt.TensorArray(gt.float64, size=3)
        for i in range(3):
            ta.write(i, x**i)
        return gt.reduce_sum(ta.stack(), axis=0)

    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(gt.vectorized_map(f, gt.constant(rows)).numpy(), 1 + rows + rows**2)
    x = gt.constant(rows[0])
    with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as acc:
        y = f(x)
    np.testing.assert_allclose(acc.jvp(y).numpy(), 1 + 2 * rows[0])
