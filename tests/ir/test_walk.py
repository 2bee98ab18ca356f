"""Reading programs, and making new ones from them: regions and callees included, the old program unchanged."""

from collections.abc import Callable

import pytest

from gradtape.ir.dims import Dim, substitute, symbol
from gradtape.ir.graph import Block, Operation
from gradtape.ir.printer import to_text
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import verify
from gradtape.ir.walk import (
    Rebuild,
    blocks,
    callees,
    clone,
    free,
    groups_of,
    has_effect,
    inline_calls,
    insert_param,
    program,
    rebuild,
    uses,
    values_used,
    walk,
)
from gradtape.ops import structured as regions
from gradtape.ops.elementwise import ADD, COS, NEGATIVE, SIN
from gradtape.ops.shape import RESHAPE
from gradtape.ops.staged import FILLED
from tests.harness.checked_passes import is_isolated
from tests.ir.programs import INT, PROGRAMS, block_of, branches, calls, do, effects, loop, scanned, spec, straight, structured

every_program = pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)


def names(block: Block) -> list[str]:
    return [operation.op.name for operation in walk(block)]


def test_walk_goes_into_regions_in_order() -> None:
    assert names(loop()) == ["while", "constant", "reduce_sum", "less", "multiply"]
    assert names(scanned()) == ["scan", "scan", "sin", "add"]
    assert [b.name for b in blocks(loop())] == ["loop", "", "step"]


def test_callees_come_once() -> None:
    block = calls()
    assert len(callees(block)) == 2
    assert names(block) == ["call", "call"]
    assert [o.op.name for o in program(block)] == ["call", "call", "call", "sin"]


def test_uses() -> None:
    block = straight()
    x, y = block.params
    found = uses(block)
    first = block.operations[0]
    assert found[x] == [(first, 0), (block.operations[1], 0)]
    assert found[y] == [(first, 1)]
    assert found[block.results[0]] == [(None, 0)]
    assert values_used(block) == set(found)


def test_free_values_of_a_part() -> None:
    block = straight()
    product, sine, total = block.operations[:3]
    assert free([total]) == [product.result, sine.result]
    assert free([product, sine, total]) == block.params
    assert free([], [total.result]) == [total.result]


@every_program
def test_programs_are_isolated(make: Callable[[], Block]) -> None:
    block = make()
    assert is_isolated(block)
    inner = next((b for b in blocks(block) if b is not block), None)
    if inner is not None:
        inner.results = [block.params[0]]
        assert not is_isolated(block)


def test_effects_are_found_in_regions_and_callees() -> None:
    block = effects()
    assert [has_effect(o) for o in block.operations] == [False, False, True]
    assert not any(has_effect(o) for o in calls().operations)
    outer = Block([spec()], ["x"])
    assert has_effect(structured(outer, regions.CALL, {"inputs": outer.params}, callee=block))


@every_program
def test_a_clone_is_the_same_program_with_other_values(make: Callable[[], Block]) -> None:
    block = make()
    copy = verify(clone(block))
    assert to_text(copy) == to_text(block)
    own = {v for b in blocks(block) for v in b.params} | {v for o in walk(block) for v in o.results}
    assert own.isdisjoint(values_used(copy))
    assert callees(copy) == callees(block)


def replace_sin(scope: Rebuild, operation: Operation) -> None:
    scope.copy(operation, op=COS if operation.op is SIN else None)


@every_program
def test_a_pass_reaches_every_operation(make: Callable[[], Block]) -> None:
    block = make()
    before = to_text(block)
    after = verify(rebuild(block, replace_sin))
    assert to_text(block) == before
    assert to_text(after) == before.replace(" = sin(", " = cos(")
    assert len(callees(after)) == len(callees(block))


def test_replacing_and_emitting() -> None:
    def visit(scope: Rebuild, operation: Operation) -> None:
        if operation.op is NEGATIVE and (inner := scope[operation.operands[0]].producer) and inner.op is NEGATIVE:
            scope.replace(operation, inner.operands)
        elif operation.op is SIN:
            (x,) = scope.operands(operation)
            scope.replace(operation, scope.emit(COS, [x], [x.type]).results)
        else:
            scope.copy(operation)

    block = Block([spec(2)], ["x"])
    twice = do(block, NEGATIVE, do(block, NEGATIVE, block.params[0]))
    block.give(outputs=[do(block, SIN, twice, line=7)])
    after = verify(rebuild(block, visit))
    assert names(after) == ["negative", "cos"]
    assert after.operations[-1].operands == after.params
    assert str(after.operations[-1].loc) == "prog.py:7"  # what is emitted for an operation has its line


def test_memory_is_per_block() -> None:
    seen = []

    def visit(scope: Rebuild, operation: Operation) -> None:
        scope.memory["count"] = scope.memory.get("count", 0) + 1
        seen.append((operation.op.name, scope.memory["count"]))
        scope.copy(operation)

    rebuild(loop(), visit)
    assert seen == [("while", 1), ("constant", 1), ("reduce_sum", 2), ("less", 3), ("multiply", 1)]


def test_dropping_parameters_and_results() -> None:
    """A loop whose carried value is dropped, everywhere its group says."""
    block = Block([spec(2), spec(2)], ["x", "y"])
    body = block_of(index=[INT], carried=[spec(2), spec(2)], consts=[], xs=[])
    body.give(carried=[do(body, SIN, body.params[1]), body.params[2]], ys=[])
    groups = {"length": [], "carried": block.params, "consts": [], "xs": []}
    made = structured(block, regions.SCAN, groups, {"body": body}, length=3, reverse=False)
    block.give(outputs=made.results[:1])

    def visit(scope: Rebuild, operation: Operation) -> None:
        if operation.op is not regions.SCAN:
            scope.copy(operation)
            return
        old = operation.regions["body"]
        inner = Rebuild(old, scope.visit, keep=old.params[:2])
        inner.run(old.operations)
        new = inner.finish({"carried": [inner[old.results[0]]], "ys": []})
        operands = scope.groups(operation)
        operands["carried"].pop()
        scope.copy(operation, operands=operands, regions={"body": new}, keep=operation.results[:1])

    after = verify(rebuild(block, visit))
    (scan,) = after.operations
    assert (scan.layout["carried"], scan.result_layout) == (1, {"carried": 1, "ys": 0})
    assert scan.regions["body"].layout == {"index": 1, "carried": 1, "consts": 0, "xs": 0}


def test_inserting_a_parameter_in_a_middle_group() -> None:
    body = loop().operations[0].regions["body"]
    value = insert_param(body, "carried", spec(4), "new")
    assert [p.index for p in body.params] == [0, 1, 2, 3]
    assert groups_of(body.params, body.layout)["carried"][-1] is value


def test_calls_are_inlined() -> None:
    block = calls()
    assert names(verify(inline_calls(block))) == ["sin", "sin"]
    first = block.operations[0]
    some = verify(inline_calls(block, when=lambda operation: operation is first))
    assert names(some) == ["call", "call"]  # the callee's own call, and the second


def test_inlining_renames_sizes() -> None:
    """The callee's n is the caller's 2m; a size it makes is called as the caller calls it; others are new."""
    n, m, k = symbol("n"), symbol("m"), symbol("k")
    callee = Block([spec(n)], ["x"], "g")
    doubled = do(callee, FILLED, shape=(2 * n,), dtype=spec().dtype, value=0.0)
    found = callee.append(Operation(FILLED, [], [spec(k)], {"shape": (n,), "dtype": spec().dtype, "value": 1.0}))
    callee.give(outputs=[doubled, found.result])
    block = Block([spec(2 * m), spec(m)], ["x", "y"], "f")
    q = symbol("q")
    call = block.append(
        Operation(
            regions.CALL,
            block.params[:1],
            [spec(4 * m), spec(q)],
            {"callee": callee},
            None,
            None,
            {"inputs": 1},
            {"outputs": 2},
        )
    )
    block.give(outputs=call.results)
    after = verify(inline_calls(verify(block)))
    assert [o.attrs["shape"] for o in after.operations] == [(4 * m,), (2 * m,)]
    assert after.results[1].type == TensorSpec((q,), "float32")


def test_inlining_leaves_sizes_of_the_surroundings() -> None:
    n = symbol("n")
    callee = Block([spec()], ["x"], "g")
    callee.give(outputs=[do(callee, FILLED, shape=(n,), dtype=spec().dtype, value=0.0)])
    block = Block([spec(n), spec()], ["a", "x"], "f")
    call = structured(block, regions.CALL, {"inputs": block.params[1:]}, callee=callee)
    block.give(outputs=[do(block, ADD, block.params[0], call.results[0])])
    after = verify(inline_calls(verify(block)))
    assert after.operations[0].attrs["shape"] == (n,)


def test_clone_with_other_sizes() -> None:
    n = symbol("n")
    block = Block([spec(n, 2)], ["x"])
    block.give(outputs=[do(block, RESHAPE, block.params[0], shape=(2 * n,))])

    after = verify(clone(block, lambda thing: substitute(thing, {"n": 5})))
    assert after.results[0].shape == (10,)
    assert after.operations[0].attrs["shape"] == (10,)
    assert isinstance(block.results[0].shape[0], Dim)


def test_branch_inlined_in_place() -> None:
    """A branch whose predicate is known: its operations, in the place of the cond."""

    def visit(scope: Rebuild, operation: Operation) -> None:
        if operation.op is regions.COND:
            inputs = scope.groups(operation)["inputs"]
            scope.replace(operation, scope.inline(operation.regions["then"], inputs))
        else:
            scope.copy(operation)

    assert names(verify(rebuild(branches(), visit))) == ["negative"]
