"""NumPy detours lost gradients without a word: a watched tensor stored into an array, lists of tensors made into arrays,
methods of arrays, functions that return plain numbers. They are refused with the line and the cure, or carried.

Each function below is one detour. None may run to the end on a watched tensor, and all of them do on values nobody watches."""

import math
import operator
import re
import traceback
import warnings

import numpy as np
import pytest
import scipy.special
import scipy.stats

import gradtape as gt

# -- stores ----------------------------------------------------------------------------------------------------------


def item(x):
    r = np.empty(3)
    r[0] = x[0] ** 2


def item_of_matrix(x):
    r = np.empty((2, 2))
    r[0, 1] = x[0]


def single_precision(x):
    r = np.empty(3, np.float32)
    r[0] = x[0]


def complex_item(x):
    r = np.empty(3, complex)
    r[0] = x[0]


def integer_item(x):
    r = np.zeros(3, int)
    r[0] = x[0]


def piece(x):
    r = np.empty(4)
    r[1:3] = x[:2] * 2


def everything(x):
    r = np.empty(3)
    r[...] = x


def spread_scalar(x):
    r = np.empty(3)
    r[:] = x[0]


def masked(x):
    r = np.zeros(3)
    r[r == 0] = x[0]


def chosen(x):
    r = np.zeros(3)
    r[[0, 2]] = x[:2]


def list_of_items(x):
    r = np.zeros(2)
    r[:] = [x[0], x[1]]


def unpacked(x):
    r = np.zeros(2)
    r[0], r[1] = x[0], x[1]


def loop_target(x):
    r = np.zeros(2)
    for r[0] in x:
        pass


def field(x):
    r = np.zeros(2, dtype=[("a", float)])
    r["a"] = x[:2]


def real_part(x):
    r = np.zeros(3, complex)
    r.real = x


def flat_attribute(x):
    r = np.zeros(3)
    r.flat = x


def flat_item(x):
    r = np.zeros(3)
    r.flat[0] = x[0]


def added_item(x):
    r = np.zeros(3)
    r[0] += x[0]


def added_piece(x):
    r = np.zeros(3)
    r[...] += x


def setitem_method(x):
    r = np.zeros(3)
    r.__setitem__(0, x[0])


def setitem_function(x):
    r = np.zeros(3)
    operator.setitem(r, 0, x[0])


STORES = [
    item, item_of_matrix, single_precision, complex_item, integer_item, piece, everything, spread_scalar, masked, chosen,
    list_of_items, unpacked, loop_target, field, real_part, flat_attribute, flat_item, added_item, setitem_method,
    setitem_function,
]  # fmt: skip

# -- lists, functions and methods ------------------------------------------------------------------------------------


def list_of_scalars(x):
    return np.array([x[0], x[1]])


def list_of_vectors(x):
    return np.array([x, 2 * x])


def nested_list(x):
    return np.array([[x[0], 0.0], [0.0, x[1]]])


def list_with_dtype(x):
    return np.array([x[0], x[1]], dtype=np.float64)


def mixed_list(x):
    return np.array([1.0, x[0]])


def asarray_of_list(x):
    return np.asarray([x, x])


def asarray_of_name(x):
    rows = [x, x]
    return np.asarray(rows)


def asarray_of_comprehension(x):
    return np.asarray([x * i for i in range(3)])


def array_of_generated(x):
    return np.array(list(x * i for i in range(3)))  # noqa: C400  (as people write it)


class Holder:
    """Something with a list in it."""


def asarray_of_attribute(x):
    holder = Holder()
    holder.rows = [x]
    return np.asarray(holder.rows)


def tuple_of_tensors(x):
    return np.asarray((x, x), np.float64)


def full(x):
    return np.full(3, x[0])


def row(x):
    return np.r_[x[0], x[1]]


def columns(x):
    return np.c_[x, x]


def sum_of_list(x):
    return np.sum([x[0], x[1]])


def mean_of_list(x):
    return np.mean([x, x], axis=0)


def concatenated_lists(x):
    return np.concatenate([[x[0]], [x[1]]])


def dot_of_list(x):
    return np.dot([x[0], x[1]], [1.0, 2.0])


def where_of_lists(x):
    return np.where([True, False], [x[0], x[1]], [0.0, 0.0])


def ufunc_of_list(x):
    return np.add([x[0], x[1]], 1.0)


def operator_with_list(x):
    return np.ones(2) * [x[0], x[1]]


def product_with_list(x):
    return np.eye(2) @ [x[0], x[1]]


def from_iterator(x):
    return np.fromiter((x[i] for i in range(3)), float)


def arange(x):
    return np.arange(0.0, x[0], 0.5)


def dot_method(x):
    return np.eye(3).dot(x)


def dot_method_of_name(x):
    a = np.eye(3)
    return a.dot(x)


def dot_method_of_attribute(x):
    holder = Holder()
    holder.a = np.eye(3)
    return holder.a.dot(x)


def fill_method(x):
    r = np.zeros(3)
    r.fill(x[0])


def put_method(x):
    r = np.zeros(3)
    r.put([0], x[0])


def draw(x):
    rng = np.random.default_rng(0)
    return rng.normal(x[0], 1.0)


def draw_at_once(x):
    return np.random.default_rng(0).normal(x)


def vectorized(x):
    return np.vectorize(lambda a: a)(x)


def polynomial(x):
    return np.vander([x[0], x[1]])


def density(x):
    return scipy.stats.norm.logpdf(x)


def density_location(x):
    return scipy.stats.norm.logpdf(1.0, loc=x[0])


def log_sum(x):
    return scipy.special.logsumexp(x)


CONVERSIONS = [
    list_of_scalars, list_of_vectors, nested_list, list_with_dtype, mixed_list, asarray_of_list, asarray_of_name,
    asarray_of_comprehension, array_of_generated, asarray_of_attribute, tuple_of_tensors, full, row, columns, sum_of_list,
    mean_of_list, concatenated_lists, dot_of_list, where_of_lists, ufunc_of_list, operator_with_list, product_with_list,
    from_iterator, arange, dot_method, dot_method_of_name, dot_method_of_attribute, fill_method, put_method, draw, draw_at_once,
    vectorized, polynomial, density, density_location, log_sum,
]  # fmt: skip
X = np.array([1.0, 2.0, 3.0])
# found by arrays that dispatch to tensors, so refused also when nobody watches
ALWAYS = {added_piece}


def words(error):
    """A message with its causes: NumPy wraps some errors in its own."""
    return "".join(traceback.format_exception_only(error)) + (words(error.__cause__) if error.__cause__ else "")


@pytest.mark.parametrize("detour", [*STORES, *CONVERSIONS, *ALWAYS], ids=lambda f: f.__name__)
@pytest.mark.parametrize("home", ["tensor", "variable", "forward"])
def test_a_detour_of_a_watched_tensor_is_refused_with_its_line(detour, home):
    x = gt.Variable(X) if home == "variable" else gt.constant(X)
    recorder = gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) if home == "forward" else gt.GradientTape()
    with recorder:
        if home == "tensor":
            recorder.watch(x)
        with pytest.raises((TypeError, ValueError)) as caught:
            detour(x)
    first = detour.__code__.co_firstlineno
    lines = {int(n) for n in re.findall(rf"{re.escape(__file__)}:(\d+)", words(caught.value))}
    if detour is flat_item:  # NumPy drops what the conversion said
        lines = {caught.tb.tb_next.tb_lineno}
    assert any(first < line <= first + 4 for line in lines), words(caught.value)


@pytest.mark.parametrize("detour", [*STORES, *CONVERSIONS], ids=lambda f: f.__name__)
def test_values_nobody_watches_go_where_they_like(detour):
    detour(gt.constant(X))
    detour(gt.Variable(X))
    x = gt.constant(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        detour(gt.stop_gradient(x))
        detour(gt.stop_gradient(x * x) * 2.0 - 5.0)
        with tape.stop_recording():
            detour(x)
    detour(x)


@pytest.mark.parametrize("store", STORES, ids=lambda f: f.__name__)
def test_a_store_says_the_cure(store):
    x = gt.constant(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises((TypeError, ValueError)) as caught:
            store(x)
    if store is not flat_item:
        assert re.search(r"np\.zeros_like\(x\)|make the array a tensor", words(caught.value))


def explicit(x):
    """Every way to leave a tape on purpose."""
    x.numpy(), np.asarray(x), np.array(x), np.asarray(x * 2.0), np.array(np.sin(x)), np.asarray(x, dtype=np.float32)
    np.array(x, copy=None), np.asanyarray(x), np.ascontiguousarray(x), np.array(x, np.float64)
    float(x[0]), int(x[0]), complex(x[0]), np.float64(x[0]), np.float32(x[0]), x[0].item(), bool(x[0] > 0)
    [float(v) for v in x], list(map(float, x)), f"{x[0]:.2f} {x}", str(x), "%f" % x[0], math.isfinite(x[0])  # noqa: UP031
    np.testing.assert_allclose(x, X)
    np.testing.assert_allclose([x[0], x[1]], X[:2])
    assert np.allclose([x[0]], [1.0])
    assert np.shape([x, x]) == (2, 3)
    holder = Holder()
    holder.value = x
    return np.asarray(holder.value)


@pytest.mark.parametrize("home", ["tensor", "variable"])
def test_leaving_on_purpose_stays_silent(home):
    x = gt.constant(X) if home == "tensor" else gt.Variable(X)
    with gt.GradientTape() as tape, warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.watch(x)
        np.testing.assert_array_equal(explicit(x), X)


def test_libraries_that_draw_get_the_values():
    """They convert lists of tensors, too: nothing they compute is differentiated."""
    space = {"__name__": "matplotlib.cbook", "np": np}
    exec(compile("def collect(items):\n    return np.mean([np.max(np.array(items)), items[0]])", "cbook.py", "exec"), space)
    x = gt.constant(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        assert space["collect"]([x[0], x[1]]) == 1.5


# -- carried ---------------------------------------------------------------------------------------------------------


def copied(x):
    r = np.zeros_like(x)
    np.copyto(r, x * x)
    return r


def copied_where(x):
    r = np.ones_like(x)
    np.copyto(r, x * x, where=np.array([True, False, True]))
    return r


def put_in(x):
    r = np.empty_like(x)
    np.put(r, [0, 2], x[:2] * 3.0)
    r[1] = 0.0
    return r


def put_by_mask(x):
    r = np.copy(x)
    np.putmask(r, X > 1.5, x * x)
    return r


def placed(x):
    r = np.copy(x)
    np.place(r, X > 1.5, x[:1])
    return r


def on_the_diagonal(x):
    r = np.zeros_like(x, shape=(3, 3))
    np.fill_diagonal(r, x * x)
    return r


def added_into(x):
    r = np.zeros_like(x)
    np.add(x, x, out=r)
    np.multiply(r, x, out=r)
    return r


def product_into(x):
    r = np.zeros_like(x)
    np.dot(np.arange(9.0).reshape(3, 3), x, out=r)
    return r


def filled_in_a_loop(x):
    r = np.empty_like(x)
    for i in range(3):
        r[i] = x[i] ** 2 + (r[i - 1] if i else 0.0)
    return r


def copy_changed(x):
    r = np.copy(x)
    r[1:] *= x[:2]
    return r * x


def full_like_changed(x):
    r = np.full_like(x, 2.0)
    r[0] = x[1]
    r[1:] *= x[1:]
    return r


def clipped_by_tensors(x):
    return (X * 2.0).clip(x * 0.5, x)


CARRIED = [
    copied, copied_where, put_in, put_by_mask, placed, on_the_diagonal, added_into, product_into, filled_in_a_loop,
    copy_changed, full_like_changed, clipped_by_tensors,
]  # fmt: skip


@pytest.mark.parametrize("program", CARRIED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["eager", "native", "interpreted"])
def test_what_is_written_into_tensors_is_recorded(program, mode):
    run = program if mode == "eager" else gt.function(program, jit_compile=mode == "native")
    weights = np.linspace(1.0, 2.0, program(X).size).reshape(program(X).shape)
    loss = lambda x: np.sum(np.cos(run(x)) * weights)  # noqa: E731
    plain = lambda x: np.sum(np.cos(program(x)) * weights)  # noqa: E731
    np.testing.assert_allclose(run(gt.constant(X)), program(X))
    h, unit = 1e-6, np.eye(3)
    expected = [(plain(X + h * e) - plain(X - h * e)) / (2 * h) for e in unit]
    x = gt.constant(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = loss(x)
    np.testing.assert_allclose(tape.gradient(y, x), expected, atol=1e-8)
    np.testing.assert_array_equal(x, X)
    slope = gt.grad(loss)
    second = gt.grad(lambda x: np.sum(slope(x) * weights.ravel()[:3]))(gt.constant(X))
    direction = weights.ravel()[:3]
    numeric = [((slope(gt.constant(X + h * e)) - slope(gt.constant(X - h * e))).numpy() @ direction) / (2 * h) for e in unit]
    np.testing.assert_allclose(second, numeric, atol=1e-6)


def test_writing_a_tensor_into_an_array_is_refused_by_name():
    x = gt.constant(X)
    for write in (
        lambda r: np.copyto(r, x), lambda r: np.put(r, [0], x), lambda r: np.place(r, r == 0, x),
        lambda r: np.putmask(r, r == 0, x), lambda r: np.add(x, x, out=r), lambda r: np.dot(np.eye(3), x, out=r),
    ):  # fmt: skip
        with pytest.raises(
            TypeError, match=r"a NumPy array cannot take the .* called at .*test_07_numpy_detours.py:\d+.*np.zeros_like"
        ):
            write(np.zeros(3))


# -- functions that return numbers -------------------------------------------------------------------------------------

NUMBERS = {
    "float": lambda x: float(x[0]) ** 2,
    "numpy": lambda x: np.sum(x.numpy() ** 2),
    "asarray": lambda x: np.asarray(x)[0] * 2.0,
    "item": lambda x: (x[0] ** 2).item(),
    "math": lambda x: math.sin(x[0]),
    "list": lambda x: x.tolist()[0],
}


@pytest.mark.filterwarnings("ignore:.*gives math.sin")
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("ask", ["grad", "value_and_grad", "jacobian", "hessian"])
def test_a_function_that_returns_a_number_computed_outside_is_refused(ask, name):
    with pytest.raises(
        TypeError, match=rf"^{ask}: the function returned a float(64)?, not a tensor.*test_07_numpy_detours.py:\d+"
    ):
        getattr(gt, ask)(NUMBERS[name])(gt.constant(X))


def test_so_does_vjp():
    with pytest.raises(TypeError, match=r"^vjp: the function returned a float"):
        gt.vjp(lambda x: float(x[0]), gt.constant(X))


def test_constants_and_piecewise_constants_have_zero_gradients():
    np.testing.assert_array_equal(gt.grad(lambda x: 3.0)(gt.constant(X)), np.zeros(3))
    np.testing.assert_array_equal(gt.grad(lambda x: 1.0 if x[0] > 0 else 2.0)(gt.constant(X)), np.zeros(3))
    np.testing.assert_array_equal(gt.grad(lambda x: float(len(x)))(gt.constant(X)), np.zeros(3))
