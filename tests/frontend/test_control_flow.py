"""Eager control flow: values, structures, derivatives, and clear errors."""

import collections

import numpy as np
import pytest

import gradtape as gt

# -- branches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pred", [True, 1, np.bool_(True), np.array(True)])
def test_cond_takes_python_and_numpy_predicates(pred):
    assert gt.cond(pred, lambda: "yes", lambda: "no") == "yes"


def test_cond_takes_tensors_and_variables():
    assert gt.cond(gt.constant(False), lambda: 1, lambda: 2) == 2
    assert gt.cond(gt.Variable(True), lambda: 1, lambda: 2) == 1
    assert gt.cond(gt.constant(3) > 2, true_fn=lambda: (1, {"a": 2}), false_fn=lambda: None) == (1, {"a": 2})


def test_cond_gradient_follows_the_branch_taken():
    x = gt.Variable(-3.0)
    for value, expected in ((-3.0, -1.0), (3.0, 6.0)):
        x.assign(value)
        with gt.GradientTape() as tape:
            y = gt.cond(x > 0, lambda: x * x, lambda: -x)
        assert tape.gradient(y, x).numpy() == expected


def test_cond_errors():
    with pytest.raises(ValueError, match=r"cond: the predicate must be a scalar, got shape \[2\].*reduce_all"):
        gt.cond(gt.constant([True, False]), lambda: 1, lambda: 2)
    with pytest.raises(TypeError, match="cond: true_fn must be a function"):
        gt.cond(True, 1, lambda: 2)
    with pytest.raises(TypeError, match="cond: false_fn must be a function"):
        gt.cond(True, lambda: 1)
    with pytest.raises(TypeError, match="not a function; call it"):
        gt.cond(lambda: True, lambda: 1, lambda: 2)


def test_case_takes_the_first_true_one():
    x = gt.constant(5)
    pairs = [(x < 3, lambda: gt.constant(1)), (x < 8, lambda: gt.constant(2)), (x < 9, lambda: gt.constant(3))]
    assert gt.case(pairs).numpy() == 2
    assert gt.case(dict(pairs)).numpy() == 2
    assert gt.case([(x < 0, lambda: 1)], default=lambda: 7) == 7
    assert gt.case([(True, lambda: [4])]) == 4
    assert gt.case([(True, lambda: [4])], strict=True) == [4]


def test_case_errors():
    with pytest.raises(gt.errors.InvalidArgumentError, match="several predicates are true"):
        gt.case([(True, lambda: 1), (True, lambda: 2)], exclusive=True)
    with pytest.raises(gt.errors.InvalidArgumentError, match="no default"):
        gt.case([(False, lambda: 1)])
    with pytest.raises(TypeError, match="pairs"):
        gt.case([lambda: 1])
    with pytest.raises(TypeError, match="each branch must be a function"):
        gt.case([(True, 1)])


@pytest.mark.parametrize("compile", [lambda f: f, gt.function], ids=["eager", "compiled"])
def test_case_refuses_none_and_several_wherever_it_is_decided(compile):
    """Also where the predicates are known only when the function runs."""

    def chosen(x, **given):
        return gt.case([(x < 0.0, lambda: x * 2.0), (x < 1.0, lambda: x * 3.0)], **given)

    alone, exclusive = compile(chosen), compile(lambda x: chosen(x, exclusive=True))
    assert float(alone(gt.constant(-1.0))) == -2.0
    assert float(alone(gt.constant(0.5))) == float(exclusive(gt.constant(0.5))) == 1.5
    with pytest.raises(gt.errors.InvalidArgumentError, match="none of the predicates is true and there is no default"):
        alone(gt.constant(2.0))
    with pytest.raises(gt.errors.InvalidArgumentError, match="several predicates are true but exclusive=True"):
        exclusive(gt.constant(-1.0))


@pytest.mark.parametrize(
    "branches",
    [[lambda: 10, lambda: 20], [(0, lambda: 10), (1, lambda: 20)], {0: lambda: 10, 1: lambda: 20}],
    ids=["list", "pairs", "dict"],
)
def test_switch_case(branches):
    assert gt.switch_case(0, branches) == 10
    assert gt.switch_case(gt.constant(1), branches) == 20
    assert gt.switch_case(gt.Variable(1), branches) == 20
    assert gt.switch_case(5, branches) == 20
    assert gt.switch_case(-1, branches, default=lambda: 30) == 30


def test_switch_case_errors():
    with pytest.raises(TypeError, match="branch_index must be a scalar integer"):
        gt.switch_case(gt.constant(1.0), [lambda: 1])
    with pytest.raises(ValueError, match="empty"):
        gt.switch_case(0, [])
    with pytest.raises(TypeError, match="branch 0 must be a function"):
        gt.switch_case(0, [3])
    with pytest.raises(ValueError, match="repeated"):
        gt.switch_case(0, [(0, lambda: 1), (0, lambda: 2)])


# -- while_loop ------------------------------------------------------------------------------------------------------


def test_while_loop_values_and_structure():
    i, total = gt.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), (0, 0))
    assert (i.numpy(), total.numpy()) == (4, 6)
    out = gt.while_loop(lambda i, d: i < 2, lambda i, d: [i + 1, {"a": d["a"] * 2.0}], [0, {"a": gt.constant(1.0)}])
    assert isinstance(out, list)
    assert out[1]["a"].numpy() == 4.0
    (single,) = gt.while_loop(lambda i: i < 3, lambda i: i + 1, [gt.constant(0)])
    assert single.numpy() == 3
    pair = collections.namedtuple("pair", "a b")
    named = gt.while_loop(lambda p: p.a < 3, lambda p: (pair(p.a + 1, p.b * 2),), (pair(gt.constant(0), gt.constant(1)),))
    assert named[0].b.numpy() == 8


def test_while_loop_never_entered_returns_the_start():
    (x,) = gt.while_loop(lambda x: x < 0, lambda x: x * 2, [gt.constant(1.0)])
    assert x.numpy() == 1.0


def test_while_loop_maximum_iterations():
    (i,) = gt.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=5)
    assert i.numpy() == 5
    (i,) = gt.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=gt.constant(2))
    assert i.numpy() == 2


def test_while_loop_gradient_with_dynamic_count():
    x = gt.Variable(1.5)
    with gt.GradientTape() as tape:
        _, y = gt.while_loop(lambda i, y: y < 10.0, lambda i, y: (i + 1, y * x), (0, gt.constant(1.0)))
    n = 6  # 1.5⁶ is the first power above 10
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), n * 1.5 ** (n - 1), rtol=1e-6)


def test_while_loop_third_derivative_through_matmul():
    a = np.array([[0.5, 0.2], [0.1, 0.4]])

    def power(x):
        return gt.while_loop(lambda i, m: i < 3, lambda i, m: (i + 1, m @ (x * a)), (0, gt.constant(np.eye(2))))[1]

    x = gt.Variable(np.float64(2.0))
    with gt.GradientTape() as t3:
        with gt.GradientTape() as t2:
            with gt.GradientTape() as t1:
                y = gt.reduce_sum(power(x))
            g1 = t1.gradient(y, x)
        g2 = t2.gradient(g1, x)
    total = np.linalg.matrix_power(a, 3).sum()
    np.testing.assert_allclose(t3.gradient(g2, x).numpy(), 6.0 * total)


def test_while_loop_with_tensor_array():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        ta = gt.TensorArray(gt.float32, size=3)
        _, ta = gt.while_loop(lambda i, ta: i < 3, lambda i, ta: (i + 1, ta.write(i, x ** gt.cast(i, gt.float32))), (0, ta))
    assert tape.gradient(ta.stack(), x).numpy() == 5.0


def test_while_loop_variable_as_loop_variable_is_read():
    v = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        (y,) = gt.while_loop(lambda y: y < 10.0, lambda y: (y * y,), [v])
    assert isinstance(y, gt.Tensor)
    assert y.numpy() == 16.0
    assert tape.gradient(y, v).numpy() == 32.0
    assert v.numpy() == 2.0


def test_while_loop_back_prop_false():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        (y,) = gt.while_loop(lambda y: y < 10.0, lambda y: (y * x,), [gt.constant(1.0)], back_prop=False)
    assert tape.gradient(y, x) is None


def test_while_loop_errors():
    with pytest.raises(ValueError, match="while_loop: iteration 1 of body returned another structure"):
        gt.while_loop(lambda a, b: True, lambda a, b: (a,), (1, 2))
    with pytest.raises(TypeError, match="another structure"):
        gt.while_loop(lambda a: True, lambda a: [(1, 2)], ([1, 2],))
    with pytest.raises(ValueError, match="loop_vars"):
        gt.while_loop(lambda: True, lambda: (), [])
    with pytest.raises(ValueError, match="scalar"):
        gt.while_loop(lambda a: a > 0, lambda a: a, [gt.constant([1.0, 2.0])])
    with pytest.raises(TypeError, match="body must be a function"):
        gt.while_loop(lambda a: True, 3, [1])


def test_while_loop_shape_invariants():
    body = lambda i, x: (i + 1, gt.concat([x, x], 0))  # noqa: E731
    _, x = gt.while_loop(
        lambda i, x: i < 3, body, (0, gt.ones((1, 2))), shape_invariants=(gt.TensorShape([]), gt.TensorShape([None, 2]))
    )
    assert x.shape == (8, 2)
    with pytest.raises(ValueError, match=r"loop variable 1 has shape \(2, 2\).*invariant"):
        gt.while_loop(
            lambda i, x: i < 3, body, (0, gt.ones((1, 2))), shape_invariants=(gt.TensorShape([]), gt.TensorShape([1, 2]))
        )
    with pytest.raises(ValueError, match="1 shapes for 2 loop variables"):
        gt.while_loop(lambda i, x: i < 3, body, (0, gt.ones((1, 2))), shape_invariants=(gt.TensorShape([]),))


# -- map_fn, scan, folds -----------------------------------------------------------------------------------------------


def test_map_fn():
    np.testing.assert_array_equal(gt.map_fn(lambda x: x * x, gt.constant([1.0, 2.0, 3.0])).numpy(), [1, 4, 9])
    out = gt.map_fn(lambda p: {"sum": p[0] + p[1], "pair": (p[0], p[1])}, (gt.constant([1, 2]), gt.constant([3, 4])))
    np.testing.assert_array_equal(out["sum"].numpy(), [4, 6])
    np.testing.assert_array_equal(out["pair"][1].numpy(), [3, 4])
    assert gt.map_fn(lambda x: gt.ones((2, 3)) * x, [1.0, 2.0]).shape == (2, 2, 3)
    typed = gt.map_fn(lambda x: gt.cast(x, gt.float64), gt.constant([1, 2]), fn_output_signature=gt.float64)
    assert typed.dtype == gt.float64
    assert gt.map_fn(lambda x: gt.cast(x, gt.float64), gt.constant([1, 2]), dtype=gt.float64).dtype == gt.float64


def test_map_fn_empty_and_errors():
    empty = gt.zeros((0, 2))
    spec = gt.TensorSpec([3], gt.float64)
    assert gt.map_fn(lambda x: x, empty, fn_output_signature=spec).shape == (0, 3)
    assert gt.map_fn(lambda x: x[:1] * 2, empty).shape == (0, 1)  # what a row would have given
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"\[2, 3\] rows"):
        gt.map_fn(lambda p: p[0], (gt.ones(2), gt.ones(3)))
    with pytest.raises(ValueError, match="scalar"):
        gt.map_fn(lambda x: x, gt.constant(1.0))
    with pytest.raises(ValueError, match="dtype float32, the signature says int32"):
        gt.map_fn(lambda x: x, gt.ones(2), fn_output_signature=gt.int32)
    with pytest.raises(ValueError, match=r"shape \(\), the signature says \(3,\)"):
        gt.map_fn(lambda x: x, gt.ones(2), fn_output_signature=gt.TensorSpec([3]))
    with pytest.raises(ValueError, match="row 1 returned another structure"):
        gt.map_fn(lambda x: x if float(x) < 1.5 else (x, x), gt.constant([1.0, 2.0]))


def test_map_fn_gradient_orders_one_and_two():
    x = gt.Variable([1.0, 2.0, 3.0])
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            y = gt.map_fn(lambda v: v**3, x)
        g = inner.gradient(y, x)
    np.testing.assert_allclose(g.numpy(), [3, 12, 27])
    np.testing.assert_allclose(outer.gradient(g, x).numpy(), [6, 12, 18])
    with gt.GradientTape() as tape:
        y = gt.map_fn(lambda v: v**3, x, back_prop=False)
    assert tape.gradient(y, x) is None


def test_scan():
    np.testing.assert_array_equal(gt.scan(lambda a, x: a + x, gt.constant([1, 2, 3, 4])).numpy(), [1, 3, 6, 10])
    np.testing.assert_array_equal(gt.scan(lambda a, x: a + x, [1, 2, 3], initializer=10).numpy(), [11, 13, 16])
    reverse = gt.scan(lambda a, x: a + x, [1, 2, 3, 4], reverse=True)
    np.testing.assert_array_equal(reverse.numpy(), [10, 9, 7, 4])
    fib = gt.scan(lambda a, _: (a[1], a[0] + a[1]), np.zeros(5), initializer=(np.array(0), np.array(1)))
    np.testing.assert_array_equal(fib[0].numpy(), [1, 1, 2, 3, 5])
    assert gt.scan(lambda a, x: a, gt.zeros((0,)), initializer=gt.ones(2)).shape == (0, 2)


def test_folds():
    assert gt.foldl(lambda a, x: 10 * a + x, gt.constant([1, 2, 3])).numpy() == 123
    assert gt.foldr(lambda a, x: 10 * a + x, gt.constant([1, 2, 3])).numpy() == 321
    assert gt.foldl(lambda a, x: a + x, gt.zeros((0,)), initializer=5.0).numpy() == 5.0
    total = gt.foldl(lambda a, e: a + e[0] * e[1], (gt.constant([1.0, 2.0]), gt.constant([3.0, 4.0])), initializer=0.0)
    assert total.numpy() == 11.0


def test_fold_errors():
    for fold in (gt.foldl, gt.foldr, gt.scan):
        with pytest.raises(gt.errors.InvalidArgumentError, match="no rows and there is no initializer"):
            fold(lambda a, x: a + x, gt.zeros((0,)))
        with pytest.raises((ValueError, TypeError), match="another structure"):
            fold(lambda a, x: (a, x), gt.constant([1.0, 2.0]))
        with pytest.raises(TypeError, match="fn must be a function"):
            fold(None, [1.0])


def test_foldl_over_a_list_second_order():
    x = gt.Variable(2.0)
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            y = gt.foldl(lambda a, c: a * x + c, gt.constant([1.0, 2.0, 3.0]))  # x² + 2x + 3
        g = inner.gradient(y, x)
    assert g.numpy() == 6.0
    assert outer.gradient(g, x).numpy() == 2.0


def test_scan_gradient():
    x = gt.Variable([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        y = gt.scan(lambda a, v: a * v, x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [1 + 2 + 6, 1 + 3, 2])
