"""`parse(to_text(program))` is the program; the text is readable; mistakes in it name their line."""

import math
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from gradtape.ir.dims import symbol
from gradtape.ir.graph import Block, Location, Operation
from gradtape.ir.printer import text_and_objects, to_text
from gradtape.ir.slots import Field, Slot
from gradtape.ir.types import ListSpec, TensorShape, TensorSpec
from gradtape.ir.verify import verify
from gradtape.ops.registry import op_by_name
from gradtape.ops.staged import CONSTANT
from tests.harness.program_parser import parse
from tests.ir.programs import PROGRAMS, effects, loop, shape_of_program, spec


def round_trip(block: Block) -> Block:
    again = parse(to_text(block), op_by_name, text_and_objects(block)[1])
    assert shape_of_program(again) == shape_of_program(block)
    assert to_text(again) == to_text(block)
    return again


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_programs_come_back(make: Callable[[], Block]) -> None:
    verify(round_trip(make()))


def test_the_text_reads_well() -> None:
    assert (
        to_text(loop())
        == """\
func loop(%x: float32[3], %y: float32[3]) {
  carried(%0: float32[3]) count(%1: int32[]) ys(%2: list<float32[3]>) = while carried(%x) consts(%y) {  @ prog.py:8
    test carried(%3: float32[3]) consts(%4: float32[3]) {
      %5: float32[] = constant(value=float32{10.0})
      %6: float32[] = reduce_sum(%3, axis=(0,), keepdims=False)
      %7: bool[] = less(%6, %5)  @ prog.py:8
      give flag(%7)
    }
    body:step index(%8: int32[]) carried(%9: float32[3]) consts(%10: float32[3]) {
      %11: float32[3] = multiply(%9, %10)  @ prog.py:9
      give carried(%11) ys(%9)
    }
  }
  give outputs(%0) saved(%2)
}
"""
    )
    assert '      print(%2, template=("x =", "y"), sep=" ", end="\\n", file=None)\n' in to_text(effects())


def with_attribute(value: Any) -> Block:
    block = Block(name="f")
    operation = block.append(Operation(CONSTANT, [], [spec()], {"value": value}))
    return block.give(outputs=operation.results)


n = symbol("n")
NAN = np.frombuffer(np.uint32([0xFFC00123, 0x7FC00000]).tobytes(), np.float32)
ATTRIBUTES = [
    None, True, False, 0, -5, 10**30, 0.5, -0.0, math.inf, -math.inf, math.nan, 1e-300, 3.0, 1e22, complex(-0.0, math.inf), 2j,
    "", "it's", 'say "hi"', "both ' and \"", "line\nbreak \\ é %x @ f.py:3", b"", b"\x00'\"",
    ..., (), (1,), (1, (2.0, "a")), [], [1, [None]],
    {}, {"a": 1, (2, 3): [4]}, slice(None), slice(1, n, -2), (slice(None, 3), ..., 0, None), gt.float32, gt.bool, gt.bfloat16,
    np.dtype("float32"), np.dtype(">i4"), np.float32, np.int64,
    float, bool, AssertionError, n, 2 * n + 1, (n + 1) // 2 - symbol("m"),
    TensorShape((2, n, None)), TensorShape(None), TensorSpec((2, None), "float64", "x y"), ListSpec(ListSpec(spec(n))),
    np.float32(0.1), np.float64(-0.0), np.int8(-3), np.bool_(True), np.complex64(1 - 2j), np.float32("nan"), np.float16(0.1),
    np.zeros((0, 3), np.float64), np.array(5, np.uint64), np.arange(6).reshape(2, 3),
    np.linspace(0, 1, 1000), NAN, np.array([True, False]),
    np.array(["a", b"b"], object), np.arange(12.0).reshape(3, 4).T[:, ::2], np.zeros(40, bool), np.array([1 + 2j, -0.0]),
    np.array([0.1, 1 / 3], np.float32), Slot(2), (Slot(0), Field(Slot(1), "r", ">10")), Location("a b.py", 3),
]  # fmt: skip


@pytest.mark.parametrize("value", ATTRIBUTES, ids=lambda value: repr(value)[:30])
def test_attributes_come_back(value: Any) -> None:
    round_trip(with_attribute(value))


def test_bfloat16_arrays_come_back() -> None:
    for value in (np.array([0.1, 2.0], gt.bfloat16), np.arange(50).astype(gt.bfloat16.dtype), np.array(1.5, gt.bfloat16)[()]):
        round_trip(with_attribute(value))


def test_opaque_objects_have_numbers() -> None:
    function = test_opaque_objects_have_numbers
    block = with_attribute((function, {1}, function))
    assert text_and_objects(block)[1] == [function, {1}]
    assert '<object 0: "<function test_opaque_objects_have_numbers>">, <object 1: "{1}">, <object 0' in to_text(block)
    assert round_trip(block).operations[0].attrs["value"][0] is function
    with pytest.raises(InvalidArgumentError, match="at least 1 objects"):
        parse(to_text(block), op_by_name)


@pytest.mark.parametrize("name", ["x", "x.1", "self.x", "l[0]", "0", "", "é", 'a"b', "give", "func", "%", "\\", "a\nb"])
def test_names_come_back(name: str) -> None:
    block = Block([spec(), spec(), ListSpec(spec())], [name, name, "x"], name)
    round_trip(block.give(outputs=block.params))


def test_locations() -> None:
    block = Block(name="f")
    operation = block.append(Operation(CONSTANT, [], [spec()], {"value": 1}, loc=Location("/a b/@ c:1.py", 12)))
    block.give(outputs=operation.results)
    assert round_trip(block).operations[0].loc == Location("/a b/@ c:1.py", 12)
    assert "  @ @ c:1.py:12\n" in to_text(block, locations="short")
    assert "@" not in to_text(block, locations=False)
    assert parse(to_text(block, locations=False), op_by_name).operations[0].loc is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 .*expected 'func'"),
        ("func f() {\n  give (%x)\n}", "line 2 .*there is no %x"),
        ("func f(%x: float33[]) {\n  give ()\n}", "line 1 .*float33 is none"),
        ("func f(%x: float32[n+]) {\n  give ()\n}", "line 1 .*a dimension"),
        ("func f(%x: float32[], %x: float32[]) {\n  give ()\n}", "not called %x"),
        ("func f() {\n  %0: int32[] = constant(value=what)\n  give ()\n}", "line 2 .*what is none"),
        ("func f() {\n  outputs() = call inputs() [callee=@g]\n  give ()\n}", "a function g"),
        ("func f() {\n  give ()\n}\nfunc f() {\n  give ()\n}", "line 4 .*not called f"),
        ("func f() {\n  give ()\n", "line 3 .*expected '}'"),
    ],
)
def test_mistakes_name_the_line(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse(text, op_by_name)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=8), st.binary(max_size=8)
)


@hypothesis.given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)))
@hypothesis.settings(deadline=None)
def test_any_nested_attribute_comes_back(value: Any) -> None:
    round_trip(with_attribute(value))
