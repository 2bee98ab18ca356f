"""The order in which passes run, and a way to find the one that went wrong.

`optimize` runs the passes of a level until nothing changes, or a fixed number of times. With `config.debug_passes(True)` (or
GRADTAPE_DEBUG_PASSES=1) the program is verified after each pass; `tests/harness/checked_passes.py` also runs it before and
after, on given inputs, and names the pass that changed a bit. `prepared` is all that is done to a program before a backend has
it. Passes know nothing of backends.
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape import config
from gradtape.errors import InternalError
from gradtape.ir.garbage import discard, uncollected
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.verify import verify
from gradtape.ir.walk import Rebuild, callee_of, of_unknown_rank, program, rebuild
from gradtape.ops.lists import LIST_REPLACE, LIST_SET
from gradtape.ops.structured import CUSTOM
from gradtape.passes.accumulate import accumulate
from gradtape.passes.bufferize import bufferize
from gradtape.passes.canonicalize import canonicalize
from gradtape.passes.cse import cse
from gradtape.passes.dce import dce
from gradtape.passes.fold import fold
from gradtape.passes.hoist import hoist
from gradtape.passes.loop_products import loop_products
from gradtape.passes.overlap import overlap
from gradtape.passes.simplify import simplify

Pass = Callable[[Block], Block]

# name, pass, from which level on
PASSES: tuple[tuple[str, Pass, int], ...] = (
    ("dce", dce, 1),
    ("canonicalize", canonicalize, 1),
    ("fold", fold, 1),
    ("simplify", simplify, 2),
    ("accumulate", accumulate, 2),
    ("cse", cse, 1),
    ("hoist", hoist, 2),
    ("dce", dce, 1),
)
ROUNDS = {1: 1, 2: 4}  # at most, by level


def optimize(block: Block, level: int = 2) -> Block:
    """The program after all passes of a level: 0 none, 1 the cheap ones once, 2 all until nothing changes."""
    if not config.passes_debugged():
        return _run(block, level, lambda name, before, after: None)
    verify(block)
    return _run(block, level, _verified)


def _run(block: Block, level: int, check: Callable[[str, Block, Block], None]) -> Block:
    passes = [(name, function) for name, function, least in PASSES if least <= level]
    names = {name for name, _ in passes}
    given = block
    idle: set[str] = set()  # passes that have nothing to do in the program as it is now
    for _ in range(ROUNDS.get(level, 0)):
        for name, function in passes:
            if name in idle:
                continue
            before, block = block, function(block)
            check(name, before, block)
            if same_form(before, block):
                idle.add(name)
            else:
                idle = {name} if function is dce else set()  # of what dce leaves, all is needed
            if before is not given and before is not block:
                discard(before)
        if idle == names:
            break
    return block


def _verified(name: str, before: Block, after: Block) -> None:
    try:
        verify(after)
    except Exception as error:  # a verifier that fails on what a pass made says the same as one that complains
        raise InternalError(f"the pass {name} made a program that is not well formed: {error}") from error


def same_form(a: Block, b: Block) -> bool:
    """Whether two programs have the same ops, operands, regions and callees, in the same order (attributes aside)."""
    if a is b:
        return True
    compared: set[tuple[Block, Block]] = set()
    waiting = [(a, b)]
    while waiting:
        a, b = waiting.pop()
        if (a, b) in compared:
            continue
        compared.add((a, b))
        if len(a.params) != len(b.params) or len(a.operations) != len(b.operations):
            return False
        twin: dict[Value, Value] = dict(zip(a.params, b.params, strict=True))
        for x, y in zip(a.operations, b.operations, strict=True):
            if x.op is not y.op or len(x.results) != len(y.results) or [twin[v] for v in x.operands] != y.operands:
                return False
            if x.regions or "callee" in x.attrs:
                inside, other = ([*o.regions.values(), *filter(None, [callee_of(o)])] for o in (x, y))
                if len(inside) != len(other):
                    return False
                waiting += zip(inside, other, strict=True)
            twin.update(zip(x.results, y.results, strict=True))
        if [twin[v] for v in a.results] != b.results:
            return False
    return True


@uncollected()
def prepared(block: Block, native: bool = False) -> Block:
    """The optimised program, with updates in place where the old version is dead; for native code with sums in any order."""
    if any(operation.op in (CUSTOM, LIST_REPLACE) for operation in program(block)):
        block = rebuild(block, _forget_rules)
    if of_unknown_rank(block):
        return block
    block = optimize(block)
    return bufferize(overlap(loop_products(block) if native else block))


def _forget_rules(scope: Rebuild, operation: Operation) -> None:
    """Once derivatives are taken, an operation with a derivative of its own is just its values, and nobody asks what an item of
    a list replaces."""
    if operation.op is CUSTOM:
        scope.replace(operation, scope.groups(operation)["values"])
    elif operation.op is LIST_REPLACE:
        scope.replace(operation, scope.emit(LIST_SET, scope.operands(operation)[:3], [operation.result.type]).results)
    else:
        scope.copy(operation)
