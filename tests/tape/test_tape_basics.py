"""What a tape gives back: structures, totals, intermediates, seeds, unconnected sources."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def test_product_with_a_constant_array():
    x = gt.constant([1.0, 2.0, 3.0])
    w = gt.constant([4.0, 5.0, 6.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * w
    close(tape.gradient(y, x), [4, 5, 6])


def test_python_loop_of_products():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = gt.constant(1.0)
        for _ in range(3):
            y = y * x
    close(tape.gradient(y, x), 12.0)


def test_a_loop_that_overwrites_its_result_keeps_the_last_one_only():
    x = gt.constant([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.constant(0.0)
        for i in range(3):
            z = x[i] * x[i]
    close(tape.gradient(z, x), [0, 0, 6])


def test_two_carried_values():
    a, b = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        p, q = a, b
        for _ in range(2):
            p, q = p * q, q + 1.0
    # p = a·b·(b+1)
    da, db = tape.gradient(p, [a, b])
    close(da, 12.0)
    close(db, 2.0 * (2 * 3 + 1))


def test_regression_on_data_that_lie_on_the_line_has_zero_gradient():
    w, b = gt.Variable(2.0), gt.Variable(1.0)
    x = gt.constant([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        loss = gt.reduce_mean((w * x + b - (2.0 * x + 1.0)) ** 2)
    dw, db = tape.gradient(loss, [w, b])
    assert float(dw) == 0.0
    assert float(db) == 0.0


def test_chain():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x**2
        z = y + x
    close(tape.gradient(z, x), 5.0)


def test_list_appended_inside_the_tape():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        parts = []
        for k in range(3):
            parts.append(x * float(k))
        y = parts[0] + parts[1] + parts[2]
    close(tape.gradient(y, x), 3.0)


@pytest.mark.parametrize(("value", "expected"), [(3.0, 6.0), (-3.0, -1.0)])
def test_branch_on_a_value(value, expected):
    x = gt.Variable(value)
    with gt.GradientTape() as tape:
        y = x * x if x > 0 else -x
    close(tape.gradient(y, x), expected)


def test_two_variables():
    x, y = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        z = x**2 + y**3
    dx, dy = tape.gradient(z, [x, y])
    close(dx, 4.0)
    close(dy, 27.0)


Pair = namedtuple("Pair", "left right")


def test_sources_keep_their_structure():
    a, b, c = (gt.Variable(v) for v in (1.0, 2.0, 3.0))
    with gt.GradientTape() as tape:
        y = a * b * c
    g = tape.gradient(y, {"z": (a,), "a": [b, Pair(c, a)]})
    assert isinstance(g, dict)
    assert list(g) == ["z", "a"]
    assert isinstance(g["z"], tuple)
    assert isinstance(g["a"][1], Pair)
    close(g["z"][0], 6.0)
    close(g["a"][0], 3.0)
    close(g["a"][1].left, 2.0)
    close(g["a"][1].right, 6.0)


def test_ordered_dict_of_sources():
    a, b = gt.Variable(1.0), gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = a * b
    g = tape.gradient(y, OrderedDict(second=b, first=a))
    assert type(g) is OrderedDict
    assert list(g) == ["second", "first"]
    close(g["second"], 1.0)
    close(g["first"], 2.0)


def test_empty_sources():
    x = gt.Variable(1.0)
    with gt.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, []) == []


def test_targets_of_any_structure_add_up():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        parts = {"a": x * x, "b": [x * 3.0, (x**3,)]}
    close(tape.gradient(parts, x), 4.0 + 3.0 + 12.0)


def test_one_target_given_twice_counts_twice():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    close(tape.gradient([y, y], x), 8.0)


def test_a_vector_target_is_summed():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x**2
    close(tape.gradient(y, x), [2.0, 4.0])


def test_a_repeated_source_is_answered_twice():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    first, second = tape.gradient(y, [x, x])
    close(first, 4.0)
    close(second, 4.0)


def test_intermediate_sources_give_total_derivatives():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        u = x * x
        v = u * 3.0
        y = u * v
    gx, gu, gv = tape.gradient(y, [x, u, v])
    close(gu, 6.0 * 4.0)  # y = 3u², v depends on u
    close(gv, 4.0)
    close(gx, 24.0 * 4.0)


def test_target_that_is_a_source_contributes_ones():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * 2.0
    gx, gy = tape.gradient([x, y], [x, y])
    close(gx, [3.0, 3.0])
    close(gy, [1.0, 1.0])


def test_target_equal_to_its_only_source():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
    close(tape.gradient(x, x), [1.0, 1.0])


def test_intermediate_that_is_target_and_source_with_a_later_use():
    x = wide(3.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        u = x * x
        y = u * u
    gu, gx = tape.gradient([u, y], [u, x])
    close(gu, 1.0 + 18.0)
    close(gx, (1.0 + 18.0) * 6.0)


def test_gradient_inside_the_block_of_a_one_shot_tape():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = x * x
        g = tape.gradient(y, x)
        after = x * 2.0
    close(g, 6.0)
    close(after, 6.0)


def test_output_gradients_weigh_the_target():
    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x**2
    close(tape.gradient(y, x, output_gradients=[1.0, 10.0, 100.0]), [2.0, 40.0, 600.0])


def test_output_gradients_follow_the_structure_and_none_means_ones():
    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = {"a": x**2, "b": x**3}
    close(tape.gradient(y, x, output_gradients={"a": None, "b": gt.constant(2.0, gt.float64)}), 4.0 + 24.0)


def test_output_gradients_are_not_changed_by_the_walk():
    x = wide([1.0, 2.0])
    seed = np.array([1.0, 1.0])
    seed_tensor = gt.constant(seed)
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.zeros(2, gt.float64)
        z[0] = x[0] * x[1]
        y = z + x
        y[1] = x[0]
    tape.gradient(y, x, output_gradients=seed_tensor)
    close(seed_tensor, [1.0, 1.0])


def test_output_gradients_can_be_differentiated():
    x, w = wide([1.0, 2.0]), wide([3.0, 4.0])
    with gt.GradientTape() as outer:
        outer.watch([x, w])
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        g = inner.gradient(y, x, output_gradients=w)
    gx, gw = outer.gradient(g, [x, w])
    close(gx, 6.0 * x.numpy() * w.numpy())
    close(gw, 3.0 * x.numpy() ** 2)


@pytest.mark.parametrize("mode", [gt.UnconnectedGradients.NONE, "none"])
def test_unconnected_none(mode):
    x, z = gt.Variable(1.0), gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    gx, gz = tape.gradient(y, [x, z], unconnected_gradients=mode)
    close(gx, 2.0)
    assert gz is None


@pytest.mark.parametrize("mode", [gt.UnconnectedGradients.ZERO, "zero"])
def test_unconnected_zero_on_nested_structures(mode):
    x, z = gt.Variable(1.0), gt.Variable(gt.ones((2, 3), gt.float64))
    with gt.GradientTape() as tape:
        y = x * x
    g = tape.gradient(y, {"used": [x], "unused": (z, {"deep": z})}, unconnected_gradients=mode)
    close(g["used"][0], 2.0)
    close(g["unused"][0], np.zeros((2, 3)))
    assert g["unused"][1]["deep"].dtype == gt.float64


@pytest.mark.parametrize("mode", [gt.UnconnectedGradients.RAISE, "raise"])
def test_unconnected_raise_names_the_variable(mode):
    x, z = gt.Variable(1.0), gt.Variable(2.0, name="idle")
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match="idle"):
        tape.gradient(y, [x, z], unconnected_gradients=mode)
    close(tape.gradient(y, x), 2.0)  # the failed call did not spend the tape


def test_work_is_pruned_to_the_requested_sources():
    calls = []

    @gt.custom_gradient
    def probe(t):
        def grad(upstream):
            calls.append(1)
            return upstream

        return t * 1.0, grad

    x, z = gt.Variable(1.0), gt.Variable(2.0)
    with gt.GradientTape(persistent=True) as tape:
        y = x * x + probe(z)
    tape.gradient(y, x)
    assert calls == []
    tape.gradient(y, z)
    assert calls == [1]


def test_re_entering_a_tape_continues_it():
    x = gt.Variable(3.0)
    tape = gt.GradientTape()
    with tape:
        y = x * x
    with tape:
        z = y * x
    close(tape.gradient(z, x), 27.0)


def test_re_entering_a_spent_tape_starts_afresh():
    x = gt.Variable(3.0)
    tape = gt.GradientTape()
    with tape:
        y = x * x
    close(tape.gradient(y, x), 6.0)
    with tape:
        z = x * x * x
    close(tape.gradient(z, x), 27.0)


def test_stale_values_of_an_earlier_tape_are_constants_for_the_next():
    x = gt.Variable(2.0)
    with gt.GradientTape() as first:
        h = x * x
    first.gradient(h, x)
    with gt.GradientTape() as second:
        y = h * x
    close(second.gradient(y, x), 4.0)


def test_stale_values_of_an_open_tape_are_constants_for_the_next():
    x = gt.Variable(2.0)
    with gt.GradientTape(persistent=True) as first:
        h = x * x
    with gt.GradientTape() as second:
        y = h * x
    close(second.gradient(y, x), 4.0)
    assert first.gradient(y, x) is None  # y was computed after its block


def test_many_values_through_containers_and_closures():
    x = wide([1.0, 2.0])
    store = {}
    with gt.GradientTape() as tape:
        tape.watch(x)
        store["a"] = [x * 2.0]
        late = lambda k=x * 3.0: k * store["a"][0]  # noqa: E731
        y = gt.reduce_sum(late())
    store["a"][0] = None
    close(tape.gradient(y, x), 12.0 * np.array([1.0, 2.0]))


def test_hash_of_tensors_is_identity_so_dicts_of_tensors_work():
    x, y = wide(1.0), wide(1.0)
    table = {x: "x", y: "y"}
    assert table[x] == "x"
    assert table[y] == "y"


def test_broadcasting_sums_back():
    row, column = wide([[1.0, 2.0, 3.0]]), wide([[10.0], [20.0]])
    with gt.GradientTape() as tape:
        tape.watch([row, column])
        y = row * column
    gr, gc = tape.gradient(y, [row, column])
    close(gr, [[30.0, 30.0, 30.0]])
    close(gc, [[6.0], [6.0]])


def test_mixed_dtypes_give_each_source_its_own_dtype():
    a, b = gt.constant(2.0, gt.float32), gt.constant(3.0, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        y = a * b
    ga, gb = tape.gradient(y, [a, b])
    assert ga.dtype == gt.float32
    assert gb.dtype == gt.float64
    close(ga, 3.0)
    close(gb, 2.0)
