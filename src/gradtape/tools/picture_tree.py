"""The shape of a picture: loops and function calls as nested groups, and what becomes of it when loops are drawn once.

`grown` makes the tree of a sequence of records; `folded` lays the iterations of every loop on top of each other: the members
of a class are the records that stand at the same place of the same body. Invariant: leaves of the tree, from left to
right, are the records in the order they ran.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.tools.picture_segments import RepeatedRun, fold


@dataclass(slots=True, eq=False)
class LoopGroup:
    """Iterations of one body. `counts` are the numbers of iterations this loop had, several where it is inside another
    loop that was folded."""

    iterations: list[list[Item]]
    counts: list[int]
    number: int = 0


@dataclass(slots=True, eq=False)
class CallGroup:
    """What ran in one function, without interruption by another."""

    function: Any
    items: list[Item]
    number: int = 0


Item = int | LoopGroup | CallGroup


def grown(tokens: Sequence[int], functions: Sequence[Any], likely: Sequence[Any] = ()) -> list[Item]:
    """The tree of what ran: `tokens` say where each record stands in the code, `functions` in which function. What ran in
    the root function stands at the top; it is the first of `likely` that something ran in."""
    root = _root(functions, likely)
    return _grouped(fold(tokens), functions, root)


def _root(functions: Sequence[Any], likely: Sequence[Any]) -> Any:
    """One of `likely`, or the function that the sequence ends in: a result is usually computed where the tape is."""
    used = set(functions)
    return next((function for function in likely if function in used), functions[-1] if functions else None)


def _grouped(items: Sequence[int | RepeatedRun], functions: Sequence[Any], context: Hashable) -> list[Item]:
    tree: list[Item] = []
    run: list[Item] = []
    owner: Any = context

    def close() -> None:
        if owner != context and len(run) > 1:
            tree.append(CallGroup(owner, list(run)))
        else:
            tree.extend(run)
        run.clear()

    for item in items:
        # A loop that ran in several functions belongs to the one around it: its iterations are grouped by themselves.
        inside = functions[item] if isinstance(item, int) else _only(item, functions)
        function = context if inside is None else inside
        if function != owner:
            close()
            owner = function
        if isinstance(item, int):
            run.append(item)
        else:
            body = inside if inside is not None else context
            rounds = [_grouped(iteration, functions, body) for iteration in item.iterations]
            run.append(LoopGroup(rounds, [len(rounds)]))
    close()
    return tree


def _only(loop: RepeatedRun, functions: Sequence[Any]) -> Any:
    """The function all of a loop ran in; None when there are several. One iteration stands for all."""
    function = None
    stack: list[Any] = [loop]
    while stack:
        item = stack.pop()
        if not isinstance(item, int):
            stack += item.iterations[0]
        elif function is None:
            function = functions[item]
        elif functions[item] != function:
            return None
    return function


@dataclass(slots=True)
class Folded:
    """A tree whose loops have one iteration, of class numbers. `members` are the records of each class; `rounds` say, for
    each record inside loops, which iteration of which loop it was in: (loop number, iteration), outermost first."""

    tree: list[Item] = field(default_factory=list)
    members: list[list[int]] = field(default_factory=list)
    rounds: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


def folded(tree: list[Item]) -> Folded:
    """Every loop with its iterations on top of each other."""
    result = Folded()
    result.tree = _laid([tree], [()], result, [0], [0])
    return result


def _laid(
    rows: list[list[Item]], rounds: list[tuple[tuple[int, int], ...]], target: Folded, groups: list[int], clock: list[int]
) -> list[Item]:
    """`rows` are runs of the same body; `rounds[k]` says which iterations row k is part of."""
    laid: list[Item] = []
    # Rows are runs of one body, so the same position of each row is the same place of the code: a column is one class.
    for column in zip(*rows, strict=True):
        first = column[0]
        if isinstance(first, int):
            target.members.append([item for item in column if isinstance(item, int)])
            for item, place in zip(column, rounds, strict=True):
                if place:
                    target.rounds[item] = place
            laid.append(len(target.members) - 1)
            continue
        groups[0] += 1
        number = groups[0]
        if isinstance(first, CallGroup):
            inner = [call.items for call in column if isinstance(call, CallGroup)]
            laid.append(CallGroup(first.function, _laid(inner, rounds, target, groups, clock), number))
            continue
        inner, places = [], []
        for loop, place in zip(column, rounds, strict=True):
            for iteration in loop.iterations:
                # Iterations are counted over the whole picture, so that two of them are never taken for the same one.
                clock[0] += 1
                inner.append(iteration)
                places.append((*place, (number, clock[0])))
        counts = [len(loop.iterations) for loop in column if isinstance(loop, LoopGroup)]
        laid.append(LoopGroup([_laid(inner, places, target, groups, clock)], counts, number))
    return laid


def carried(source: tuple[tuple[int, int], ...], sink: tuple[tuple[int, int], ...]) -> int:
    """The outermost loop that an edge crosses from one iteration to another; 0 if there is none."""
    # Outermost first: the first loop in which the two records are in different iterations carries the value.
    for (loop, one), (other, two) in zip(source, sink, strict=False):
        if loop != other:
            return 0
        if one != two:
            return loop
    return 0


def numbered(tree: list[Item]) -> list[Item]:
    """Number the groups of a tree from 1, in reading order."""
    for number, group in enumerate(groups_of(tree), 1):
        group.number = number
    return tree


def groups_of(tree: Sequence[Item]) -> Iterator[LoopGroup | CallGroup]:
    """Every group, outer before inner, in reading order."""
    stack: list[Item] = list(reversed(tree))
    while stack:
        item = stack.pop()
        if isinstance(item, int):
            continue
        yield item
        inner = item.items if isinstance(item, CallGroup) else [i for iteration in item.iterations for i in iteration]
        stack += reversed(inner)


def leaves_of(items: Sequence[Item]) -> Iterator[int]:
    """The numbers at the leaves, in reading order."""
    stack: list[Item] = list(reversed(items))
    while stack:
        item = stack.pop()
        if isinstance(item, int):
            yield item
        else:
            stack += reversed(item.items if isinstance(item, CallGroup) else [i for it in item.iterations for i in it])


def by_line(lines: Sequence[tuple[str, int]], functions: Sequence[Any], most: int) -> Folded:
    """The fallback for long irregular programs: one class per line, or per block of lines when there are more than `most`;
    those of a function together."""
    owned: dict[Any, dict[tuple[str, int], int]] = {}
    for line, function in zip(lines, functions, strict=True):
        owned.setdefault(function, {}).setdefault(line, 0)
    total = sum(len(own) for own in owned.values())
    block = -(-total // most)  # lines that share a class
    count = 0
    result = Folded()
    for function, own in owned.items():
        first = count
        for place, line in enumerate(sorted(own)):
            own[line] = first + place // block
            count = own[line] + 1
        items: list[Item] = list(range(first, count))
        result.tree += items if len(owned) == 1 or len(items) == 1 else [CallGroup(function, items)]
    result.members = [[] for _ in range(count)]
    for place, (line, function) in enumerate(zip(lines, functions, strict=True)):
        result.members[owned[function][line]].append(place)
    numbered(result.tree)
    return result
