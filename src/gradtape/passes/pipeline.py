"""The order in which passes run, and a way to find the one that went wrong.

`optimize` runs the passes of a level until nothing changes, or a fixed number of times. With `config.debug_passes(True)` (or
GRADTAPE_DEBUG_PASSES=1) the program is verified after each pass; `debug_optimize` also runs it before and after, on given
inputs, and names the pass that changed a bit. Passes know nothing of backends: whoever debugs brings one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape import config
from gradtape.errors import InternalError
from gradtape.ir.garbage import discard
from gradtape.ir.graph import Block, Value
from gradtape.ir.verify import verify
from gradtape.ir.walk import callee_of, has_effect
from gradtape.passes.accumulate import accumulate
from gradtape.passes.canonicalize import canonicalize
from gradtape.passes.cse import cse
from gradtape.passes.dce import dce
from gradtape.passes.facts import may_be_void, nearly_same, same_bits
from gradtape.passes.fold import fold
from gradtape.passes.hoist import hoist
from gradtape.passes.simplify import simplify

Pass = Callable[[Block], Block]
Run = Callable[[Block], Callable[..., Any]]  # a backend's compile: run(block)(*inputs) gives the results

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


def debug_optimize(block: Block, inputs: Sequence[Any], run: Run, level: int = 2) -> Block:
    """As `optimize`, verifying and running the program on `inputs` before and after each pass.

    InternalError names a pass after which the program is not well formed or gives other bits (or another error).
    A program with effects is verified only: running it again would print, draw and call again.
    """
    verify(block)
    silent = not any(has_effect(operation) for operation in block.operations)
    memory: list[Any] = [_outcome(block, inputs, run)] if silent else []

    def check(name: str, before: Block, after: Block) -> None:
        _verified(name, before, after)
        if silent:
            outcome = _outcome(after, inputs, run)
            if not _agree(name, memory[0], outcome, [may_be_void(v) for v in block.results]):
                raise InternalError(f"the pass {name} changed what the program computes: {memory[0]} became {outcome}")
            memory[0] = outcome

    return _run(block, level, check)


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
    except Exception as error:
        raise InternalError(f"the pass {name} made a program that is not well formed: {error}") from error


def _outcome(block: Block, inputs: Sequence[Any], run: Run) -> Any:
    """What a program gives, or the error it ends with."""
    try:
        return list(run(block)(*inputs))
    except Exception as error:
        return error


def _agree(name: str, a: Any, b: Any, void: Sequence[bool]) -> bool:
    if isinstance(a, Exception):
        return True  # the program fails for these inputs; unneeded work that fails may be gone
    same = nearly_same if name == "accumulate" else same_bits
    return (
        not isinstance(b, Exception) and len(a) == len(b) and all(v or same(x, y) for x, y, v in zip(a, b, void, strict=True))
    )


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
