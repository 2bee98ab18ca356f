"""Loops found again in a sequence: the right bodies and counts, nothing lost, fast on long sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradtape.tools import picture_segments
from gradtape.tools.picture_segments import Item, RepeatedRun, fold, indices
from gradtape.tools.picture_tree import CallGroup, by_line, carried, folded, grown, leaves_of


def shown(items: list[Item]) -> list[Any]:
    """Indices, and (count, body) for loops."""
    return [i if isinstance(i, int) else (len(i.iterations), shown(i.iterations[0])) for i in items]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], []),
        ([1], [0]),
        ([1, 2, 3], [0, 1, 2]),
        ([1, 1, 1], [0, 1, 2]),  # three operations of one expression
        ([1, 1, 1, 1], [(4, [0])]),
        ([1, 2, 1, 2], [(2, [0, 1])]),
        ([9, 1, 2, 3, 1, 2, 3, 8], [0, (2, [1, 2, 3]), 7]),
        ([1, 2, 1, 2, 1], [(2, [0, 1]), 4]),  # the test of a loop runs once more
        ([1, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], [0, 1, 2, (2, [3, 4, 5, 6])]),  # the first round lacks an operation
        ([1, 2, 2, 2, 2, 3] * 3, [(3, [0, (4, [1]), 5])]),
        ([1, 2, 2, 2, 2, 3, 1, 2, 2, 2, 2, 2, 2, 3], [(2, [0, (4, [1]), 5])]),  # the inner loop varies
    ],
)
def test_loops_are_found(tokens: list[int], expected: list[Any]) -> None:
    assert shown(fold(tokens)) == expected


def test_iterations_of_a_loop_that_varies_have_their_own_counts() -> None:
    (outer,) = fold([1, 2, 2, 2, 2, 3, 1, 2, 2, 2, 2, 2, 2, 3])
    assert isinstance(outer, RepeatedRun)
    assert [len(iteration[1].iterations) for iteration in outer.iterations] == [4, 6]  # type: ignore[union-attr]


@given(st.lists(st.integers(0, 3), max_size=120))
def test_nothing_is_lost_and_iterations_are_alike(tokens: list[int]) -> None:
    items = fold(tokens)
    assert list(indices(items)) == list(range(len(tokens)))

    def alike(items: list[Item]) -> None:
        for item in items:
            if isinstance(item, RepeatedRun):
                bodies = [_outline(iteration, tokens) for iteration in item.iterations]
                assert all(body == bodies[0] for body in bodies)
                assert len(bodies) >= 2
                for iteration in item.iterations:
                    alike(iteration)

    alike(items)


def _outline(items: list[Item], tokens: list[int]) -> tuple[Any, ...]:
    """A body without the counts of its inner loops."""
    return tuple(tokens[i] if isinstance(i, int) else ("loop", *_outline(i.iterations[0], tokens)) for i in items)


@given(st.lists(st.integers(0, 3), max_size=80), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_folding_keeps_every_record_once(tokens: list[int], functions: list[int]) -> None:
    owners = [functions[token] for token in tokens]  # an instruction belongs to one function
    flat = folded(grown(tokens, owners))
    assert sorted(i for members in flat.members for i in members) == list(range(len(tokens)))
    assert list(leaves_of(flat.tree)) == list(range(len(flat.members)))
    for members in flat.members:
        assert len({tokens[i] for i in members}) == 1


@pytest.mark.parametrize(
    "tokens",
    [
        [1, 2, 3, 4] * 25_000,
        np.random.default_rng(0).integers(0, 300, 100_000).tolist(),
        [token for period in range(1, 300) for token in list(range(period)) * 2],
    ],
    ids=["loop", "noise", "loops of every length"],
)
def test_the_work_on_long_sequences_is_bounded(tokens: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    work = 0
    search = picture_segments._runs

    def counted(values: Any, period: int) -> Any:
        nonlocal work
        work += len(values)
        return search(values, period)

    monkeypatch.setattr(picture_segments, "_runs", counted)
    items = fold(tokens)
    assert sum(1 for _ in indices(items)) == len(tokens)
    assert work <= picture_segments.TOTAL


def test_functions_are_groups_and_the_root_is_not() -> None:
    tree = grown([1, 2, 3, 4, 5], ["main", "f", "f", "main", "g"], ["main"])
    assert [item.function if isinstance(item, CallGroup) else item for item in tree] == [
        0,
        "f",
        3,
        4,
    ]  # one operation is no group


def test_a_value_carried_from_one_iteration_to_the_next_is_told_apart() -> None:
    flat = folded(grown([1, 2, 3, 1, 2, 3, 1, 2, 3], ["f"] * 9))
    assert [len(members) for members in flat.members] == [3, 3, 3]
    assert carried(flat.rounds[2], flat.rounds[3]) == 1
    assert carried(flat.rounds[3], flat.rounds[4]) == 0
    assert carried((), flat.rounds[4]) == 0


def test_lines_share_boxes_when_there_are_many() -> None:
    lines = [("a.py", 1 + i % 50) for i in range(500)]
    flat = by_line(lines, ["f"] * 500, 10)
    assert len(flat.members) == 10
    assert sorted(i for members in flat.members for i in members) == list(range(500))
    assert {lines[i][1] for i in flat.members[0]} == {1, 2, 3, 4, 5}
