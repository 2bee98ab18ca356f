"""The verifier accepts what we build and refuses each kind of broken program, naming the operation and its line."""

from collections.abc import Callable
from typing import Any

import pytest

from gradtape.errors import InternalError
from gradtape.ir.dims import symbol
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.verify import fits, verify
from gradtape.ir.walk import walk
from gradtape.ops import structured as regions
from gradtape.ops.elementwise import ADD, SIN
from gradtape.ops.shape import RESHAPE
from gradtape.ops.staged import FILLED
from tests.ir.programs import FLAG, PROGRAMS, block_of, branches, calls, do, effects, loop, scanned, spec, straight, structured


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_programs_are_accepted(make: Callable[[], Block]) -> None:
    block = make()
    assert verify(block) is block


def refused(block: Block, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify(block)


def find(block: Block, name: str) -> Operation:
    return next(operation for operation in walk(block) if operation.op.name == name)


Change = Callable[[Block], Any]


def order(block: Block) -> None:
    block.operations.reverse()


def foreign(block: Block) -> None:
    find(block, "while").regions["body"].operations[0].operands[0] = block.params[0]


def unknown_result(block: Block) -> None:
    block.results[0] = Value(spec(), block, 0)


def twice(block: Block) -> None:
    block.operations.append(block.operations[0])


def index(block: Block) -> None:
    block.params[0].index = 1


def owner(block: Block) -> None:
    block.operations[0].results[0].owner = block.operations[1]


def layout(block: Block) -> None:
    find(block, "while").layout["consts"] = 2


def result_layout(block: Block) -> None:
    find(block, "while").result_layout["ys"] = 0


def block_layout(block: Block) -> None:
    block.layout = {"inputs": 1}


def give_layout(block: Block) -> None:
    block.result_layout = {"outputs": 2}


def dtype(block: Block) -> None:
    find(block, "sin").results[0].type = spec(3, dtype="float64")


def shape(block: Block) -> None:
    find(block, "reduce_sum").results[0].type = spec(1)


def operands(block: Block) -> None:
    find(block, "multiply").operands.pop()


def attribute(block: Block) -> None:
    del find(block, "reduce_sum").attrs["axis"]


def results(block: Block) -> None:
    find(block, "sin").add_results("all", [spec()])
    find(block, "sin").result_layout = {}


def no_type(block: Block) -> None:
    block.params[0].type = None


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (straight, order, r"operation reduce_sum at prog.py:6: operand 0 .* not defined before it"),
        (loop, foreign, r"operation multiply at prog.py:9: operand 0 .* a value of another block \('loop'\)"),
        (straight, unknown_result, "in block 'f': result 0 .* is not defined in the block"),
        (straight, twice, "operation multiply at prog.py:4: stands twice"),
        (straight, index, "in block 'f': value 0 says it is number 1"),
        (straight, owner, "operation multiply at prog.py:4: value 0 says it is number 0 of <operation sin"),
        (loop, layout, r"operation while at prog.py:8: the groups .* do not add up to the 2 operands"),
        (loop, result_layout, r"operation while at prog.py:8: the groups .* do not add up to the 3 results"),
        (straight, block_layout, "do not add up to the 2 parameters"),
        (straight, give_layout, "in block 'f': the groups .* do not add up to the 1 results"),
        (straight, dtype, r"operation sin at prog.py:5: result 0 is declared .*float64.* gives .*float32"),
        (straight, shape, "operation reduce_sum at prog.py:6: result 0 is declared"),
        (straight, operands, "operation multiply at prog.py:4: it has 1 operands, the op takes x, y"),
        (straight, attribute, "operation reduce_sum at prog.py:6: its type rule refuses"),
        (straight, results, "operation sin at prog.py:5: its type rule gives 1 results, it has 2"),
        (straight, no_type, "value 0 has the type None"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_broken_programs_are_refused(make: Callable[[], Block], change: Change, message: str) -> None:
    block = make()
    change(block)
    refused(block, message)


def test_regions_only_where_they_belong() -> None:
    block = straight()
    block.operations[0].regions["body"] = Block()
    refused(block, "only structured operations have regions")
    block = branches()
    then = block.operations[0].regions["then"]
    block.operations[0].regions["orelse"] = then
    refused(block, r"region orelse of cond at prog.py:2.*the block is used twice as a region")
    block = branches()
    del block.operations[0].regions["then"]
    refused(block, r"operation cond at prog.py:2: has the regions \('orelse',\)")


def retyped(block: Block, name: str, type: Any) -> Callable[[str], None]:
    """A function that gives one value of the operation (named by a place such as `body.in.carried`) another type."""
    operation = find(block, name)

    def change(place: str) -> None:
        *region, side, group = place.split(".")
        target: Any = operation.regions[region[0]] if region else operation
        values = target.group(group) if side == "in" else target.result_group(group)
        values[0].type = type

    return change


@pytest.mark.parametrize(
    ("make", "name", "place", "message"),
    [
        (branches, "cond", "in.pred", "in.pred is .*it should be one"),
        (branches, "cond", "then.in.inputs", "in.inputs 0 is .*then.in.inputs 0 is"),
        (branches, "cond", "out.outputs", "then.out.outputs 0 is .*out.outputs 0 is"),
        (loop, "while", "test.in.carried", "in.carried 0 is .*test.in.carried 0 is"),
        (loop, "while", "test.out.flag", "test.out.flag is"),
        (loop, "while", "body.in.index", "body.in.index is"),
        (loop, "while", "body.in.consts", "in.consts 0 is .*body.in.consts 0 is"),
        (loop, "while", "body.out.carried", "body.out.carried 0 is .*body.in.carried 0 is"),
        (loop, "while", "out.carried", "body.out.carried 0 is .*out.carried 0 is"),
        (loop, "while", "out.ys", "body.out.ys 0 is .*out.ys 0 is"),
        (loop, "while", "out.count", "out.count is"),
        (scanned, "scan", "body.in.xs", "in.xs 0 is .*body.in.xs 0 is"),
        (scanned, "scan", "in.xs", "in.xs 0 is .*not a list"),
        (scanned, "scan", "body.in.consts", "in.consts 0 is"),
        (scanned, "scan", "out.ys", "body.out.ys 0 is"),
    ],
)
def test_signatures_of_regions(make: Callable[[], Block], name: str, place: str, message: str) -> None:
    block = make()
    retyped(block, name, spec(7, dtype="int64"))(place)
    refused(block, f"operation {name} at .*: {message}")


def test_counts_in_signatures() -> None:
    block = loop()
    body = find(block, "while").regions["body"]
    body.give(carried=[], ys=body.result_group("ys"))
    refused(block, "body.out.carried has 0 values, body.in.carried has 1")
    block = loop()
    find(block, "while").layout = {"carried": 1, "others": 1}
    refused(block, "in has a group 'others'; it may have")


def test_a_scan_has_one_length() -> None:
    block = scanned()
    find(block, "scan").attrs["length"] = None
    refused(block, "operation scan at None: needs a length")
    del find(block, "scan").attrs["length"]
    refused(block, "operation scan at None: needs the attributes length")


def test_calls() -> None:
    block = calls()
    block.operations[0].attrs["callee"] = None
    refused(block, "callee is no block")
    block = calls()
    callee = block.operations[0].attrs["callee"]
    callee.params[0].type = spec(5)
    refused(block, r"in\.\* 0 is .*callee\.in\.\* 0 is")
    block = calls()
    block.operations[0].attrs["callee"] = block
    refused(block, "the block '<lambda>' calls itself")


def test_symbols_are_defined_before_use() -> None:
    n = symbol("n")
    block = Block(name="f")
    block.give(outputs=[do(block, FILLED, shape=(n,), dtype=spec().dtype, value=0.0, line=3)])
    refused(block, "operation filled at prog.py:3: an attribute needs the size n, but no value before it has that size")
    block = Block([spec(n)], ["x"], "f")
    block.give(outputs=[do(block, FILLED, shape=(n,), dtype=spec().dtype, value=0.0)])
    verify(block)


def test_regions_and_callees_know_the_sizes_around_them() -> None:
    n = symbol("n")
    for known in (True, False):
        callee = Block([], name="g")
        callee.give(outputs=[do(callee, FILLED, shape=(n,), dtype=spec().dtype, value=0.0)])
        region = block_of(inputs=[])
        region.give(outputs=structured(region, regions.CALL, {"inputs": []}, callee=callee).results)
        other = block_of(inputs=[])
        other.give(outputs=[do(other, FILLED, shape=(n,), dtype=spec().dtype, value=1.0)])
        block = Block([FLAG, spec(n if known else 3)], name="f")
        made = structured(block, regions.COND, {"pred": block.params[:1], "inputs": []}, {"then": region, "orelse": other})
        block.give(outputs=made.results)
        if known:
            verify(block)
        else:
            refused(block, "the size n")


def test_symbolic_results_follow_the_rule() -> None:
    n = symbol("n")
    block = Block([spec(n, 3)], ["x"])
    flat = do(block, RESHAPE, block.params[0], shape=(3 * n,))
    total = do(block, ADD, flat, do(block, SIN, flat))
    verify(block.give(outputs=[total]))
    total.type = spec(3 * n, 1)
    refused(block, "operation add")
    total.type = spec(6)
    refused(block, "operation add")


def test_what_fits() -> None:
    n = symbol("n")
    assert fits(spec(3), spec(n))
    assert not fits(spec(n), spec(3))
    assert fits(spec(n + 1), spec(n))
    assert not fits(spec(3), spec(3, 1))
    assert not fits(spec(3), ListSpec(spec(3)))
    assert fits(ListSpec(spec(3)), ListSpec(spec(n)))
    assert fits(TensorSpec((None,), "float32"), spec(4))


def test_effects_need_no_results() -> None:
    block = effects()
    verify(block)
    assert find(block, "print").results == []
