"""gt.debugging and the small functions of surface/misc.py."""

import io
import sys

import numpy as np
import pytest

import gradtape as gt

d = gt.debugging
Invalid = gt.errors.InvalidArgumentError

# -- assertions of values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("assert_equal", ([1, 2], [1, 2]), ([1, 2], [1, 3])),
        ("assert_none_equal", ([1, 2], [0, 0]), ([1, 2], [0, 2])),
        ("assert_less", ([1.0], 2.0), ([1.0, 3.0], 2.0)),
        ("assert_less_equal", ([1.0, 2.0], 2.0), ([3.0], 2.0)),
        ("assert_greater", ([3], [[1], [2]]), ([1], [[1], [2]])),
        ("assert_greater_equal", ([2], 2), ([1], 2)),
        ("assert_positive", ([1.0],), ([1.0, 0.0],)),
        ("assert_negative", ([-1.0],), ([0.0],)),
        ("assert_non_negative", ([0.0, 1.0],), ([-1.0],)),
        ("assert_non_positive", ([0.0],), ([1e-3],)),
    ],
)
def test_value_assertions(name, good, bad):
    check = getattr(d, name)
    assert check(*(gt.constant(g) for g in good)) is None
    assert check(*good) is None
    with pytest.raises(Invalid, match=rf"{name}: my words\. condition x .* fails for"):
        check(*bad, message="my words")
    with pytest.raises(ValueError, match=name):
        check(gt.Variable(bad[0]), *bad[1:])


def test_message_shows_place_and_values():
    with pytest.raises(Invalid, match=r"fails for 1 of 4 elements, first at index \(1, 0\): 3 against 9"):
        d.assert_equal([[1, 2], [3, 4]], [[1, 2], [9, 4]])
    with pytest.raises(Invalid, match=r"x = \[0 1 \.\.\. 8 9\]"):
        d.assert_less(gt.range(10), 9, summarize=2)
    with pytest.raises(Invalid, match="do not broadcast"):
        d.assert_equal([1, 2], [1, 2, 3])
    with pytest.raises(Invalid, match=r"first at index \(\): 1 against 2"):
        d.assert_equal(1, 2)
    d.assert_equal(gt.zeros((0, 2)), 1.0)


def test_near():
    d.assert_near(gt.constant(1.0), 1.0 + 1e-7)
    d.assert_near([1.0, 2.0], [1.1, 2.1], atol=0.11, rtol=0.0)
    with pytest.raises(Invalid, match="rtol"):
        d.assert_near(gt.constant(1.0), 1.001)
    with pytest.raises(Invalid, match="assert_near"):
        d.assert_near(gt.constant(np.float64(1.0)), 1.0 + 1e-10)
    with pytest.raises(TypeError, match="floating"):
        d.assert_near(1, 1)


def test_static_assertions():
    t = gt.zeros((2, 3))
    d.assert_rank(t, 2)
    d.assert_rank_at_least(t, 1)
    d.assert_rank_in(t, [1, 2])
    d.assert_type(t, gt.float32)
    d.assert_integer(gt.constant(1))
    assert d.assert_scalar(gt.constant(1.0)).numpy() == 1.0
    assert d.assert_same_float_dtype([t, t]) == gt.float32
    with pytest.raises(ValueError, match=r"expected rank 1, got rank 2, shape \(2, 3\)"):
        d.assert_rank(t, 1)
    with pytest.raises(ValueError, match="at least rank 3"):
        d.assert_rank_at_least(t, 3)
    with pytest.raises(ValueError, match=r"rank in \[0, 1\]"):
        d.assert_rank_in(t, [0, 1])
    with pytest.raises(TypeError, match="expected dtype int32, got float32"):
        d.assert_type(t, gt.int32)
    with pytest.raises(TypeError, match="expected an integer dtype"):
        d.assert_integer(t)
    with pytest.raises(ValueError, match="expected a scalar"):
        d.assert_scalar(t)
    with pytest.raises(ValueError, match="float64 against float32"):
        d.assert_same_float_dtype([t, gt.zeros(1, gt.float64)])
    with pytest.raises(TypeError, match="scalar integer"):
        d.assert_rank(t, 1.5)


def test_is_numeric_tensor():
    assert d.is_numeric_tensor(gt.constant(1.0))
    assert d.is_numeric_tensor(gt.Variable(1))
    assert not d.is_numeric_tensor(gt.constant(True))
    assert not d.is_numeric_tensor(gt.constant("a"))
    assert not d.is_numeric_tensor(np.ones(2))


def test_assert_shapes():
    a, b, s = gt.zeros((2, 3)), gt.zeros((3, 5)), gt.constant(1.0)
    d.assert_shapes([(a, ("N", "M")), (b, ("M", 5)), (s, ())])
    d.assert_shapes([(a, "NM"), (b, "M*")])
    d.assert_shapes([(gt.zeros((7, 8, 3)), ("...", "M")), (b, ("M", "..."))])
    d.assert_shapes([(a, (None, 3))])
    d.assert_shapes({a: "NM", b: "MK"})
    with pytest.raises(ValueError, match=r"'M' is 3 in tensor 1 of shape \(3, 5\) but 2 in tensor 0"):
        d.assert_shapes([(a, "MN"), (b, "MK")])
    with pytest.raises(ValueError, match=r"tensor 0 has shape \(2, 3\), expected \(2, 4\)"):
        d.assert_shapes([(a, (2, 4))])
    with pytest.raises(ValueError, match="rank 2, expected rank 3"):
        d.assert_shapes([(a, "NMK")])
    with pytest.raises(ValueError, match="once"):
        d.assert_shapes([(a, ("N", "...", "M"))])


def test_check_numerics():
    x = gt.Variable([1.0, 2.0])
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            y = d.check_numerics(x, "x") ** 3
        g = inner.gradient(y, x)
    np.testing.assert_allclose(g.numpy(), [3.0, 12.0])
    np.testing.assert_allclose(outer.gradient(g, x).numpy(), [6.0, 12.0])
    with pytest.raises(Invalid, match=r"loss: the tensor of shape \(2, 2\) has 1 NaN and 2 Inf values.* index \(0, 1\)"):
        d.check_numerics(gt.constant([[1.0, np.inf], [np.nan, -np.inf]]), "loss")
    with pytest.raises(Invalid, match="1 NaN and 0 Inf"):
        d.assert_all_finite(gt.constant(np.nan), "scalar")
    with pytest.raises(Invalid, match="floating"):
        d.check_numerics(gt.constant(1), "int")


# -- misc ------------------------------------------------------------------------------------------------------------


def printed(*args, **kwargs):
    stream = io.StringIO()
    gt.print(*args, output_stream=stream, **kwargs)
    return stream.getvalue()


def test_print_forms():
    assert printed("a", 1, gt.constant(2.5)) == "a 1 2.5\n"
    assert printed(gt.range(10)) == "[0 1 2 ... 7 8 9]\n"
    assert printed(gt.range(10), summarize=-1) == "[0 1 2 3 4 5 6 7 8 9]\n"
    assert printed(gt.constant([[1.0, 2.0], [3.0, 4.5]])) == "[[1 2]\n [3 4.5]]\n"
    assert printed(gt.constant([True, False])) == "[1 0]\n"
    assert printed(gt.constant(["x", "y"])) == '["x" "y"]\n'
    assert printed(gt.constant(1 / 3), gt.constant(0.1)) == "0.333333343 0.1\n"
    assert printed(gt.constant(np.float64(1 / 3))) == "0.33333333333333331\n"
    assert printed(gt.constant(np.nan), gt.constant(-np.inf)) == "nan -inf\n"
    assert printed(gt.constant(1 + 2j)) == "(1,2)\n"
    assert printed({"k": gt.constant(1)}, [gt.Variable(2.0)], (gt.constant(3),)) == "{'k': 1} [2] (3,)\n"
    assert printed("a", "b", sep=", ", end="!") == "a, b!"
    assert printed(np.arange(3)) == "[0 1 2]\n"
    assert printed(None, True) == "None True\n"


def test_print_streams(capsys, tmp_path):
    gt.print("to stderr")
    assert capsys.readouterr().err == "to stderr\n"
    gt.print("to stdout", output_stream=sys.stdout)
    assert capsys.readouterr().out == "to stdout\n"
    lines = []
    gt.print("called", output_stream=lines.append, end="")
    assert lines == ["called"]
    path = tmp_path / "log.txt"
    gt.print("one", output_stream=f"file://{path}")
    gt.print("two", output_stream=f"file://{path}")
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(ValueError, match="file://"):
        gt.print("x", output_stream="stdout")


def test_assert():
    gt.Assert(True, [])
    gt.Assert(gt.constant(3) > 2, [gt.constant(3)])
    with pytest.raises(Invalid, match=r"condition is False\. Data:\nvalue\n\[0 1 2 \.\.\. 7 8 9\]".replace("value", "'value'")):
        gt.Assert(False, ["value", gt.range(10)])
    with pytest.raises(Invalid, match="scalar"):
        gt.Assert(gt.constant([True, True]), [])


def test_name_scopes():
    with gt.name_scope("a") as outer, gt.name_scope("b") as inner:
        assert (outer, inner) == ("a/", "a/b/")
        assert gt.Variable(1.0, name="v").name == "a/b/v:0"
        with gt.name_scope(outer):
            assert gt.Variable(1.0, name="v").name == "a/v:0"
        with gt.name_scope(""):
            assert gt.Variable(1.0, name="v").name == "v:0"
    with pytest.raises(RuntimeError), gt.name_scope("lost"):
        raise RuntimeError
    assert gt.Variable(1.0, name="v").name == "v:0"
    with pytest.raises(ValueError, match="string"):
        gt.name_scope(3)


def test_scopes_without_effect():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape, gt.device("/GPU:0"), gt.control_dependencies([x]):
        y = x * x
    assert tape.gradient(y, x).numpy() == 4.0


def test_group_tuple_no_op_is_tensor():
    x = gt.constant(1.0)
    assert gt.group(x, x) is None
    assert gt.no_op() is None
    out = gt.tuple([x, None, gt.Variable(2.0)])
    assert out[1] is None
    assert out[2].numpy() == 2.0
    with pytest.raises(ValueError, match="at least one"):
        gt.tuple([None])
    assert gt.executing_eagerly()
    assert gt.is_tensor(x)
    assert gt.is_tensor(gt.Variable(1.0))
    assert gt.is_tensor(gt.IndexedSlices(gt.ones((1, 1)), [0]))
    assert not gt.is_tensor(np.ones(2))
