"""Elements keep the structure in which they were given, whatever it is: generated, to the depth of two containers."""

import collections
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt

Point = collections.namedtuple("Point", "x y")
ROWS = 3


def _around(parts: list[Any]) -> Iterator[Any]:
    """Containers of one part or of two."""
    for part in parts:
        yield from ((part,), {"a": part})
    for first, second in itertools.product(parts, repeat=2):
        yield from ((first, second), {"b": first, "a": second}, Point(first, second))


SHALLOW = list(_around(["leaf"]))
STRUCTURES = ["leaf", *SHALLOW, *_around(["leaf", *SHALLOW])]


def filled(structure: Any, numbers: Iterator[int], row: int | None = None) -> Any:
    """The structure with an array of rows in place of each leaf, each leaf another one; or one row of it."""
    if structure == "leaf":
        rows = np.arange(ROWS, dtype=np.float32) + 10 * next(numbers)
        return rows if row is None else rows[row]
    if isinstance(structure, dict):
        return {key: filled(part, numbers, row) for key, part in structure.items()}
    parts = [filled(part, numbers, row) for part in structure]
    return Point(*parts) if isinstance(structure, Point) else tuple(parts)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return (type(value).__name__, *[plain(part) for part in value])
    return np.asarray(value).tolist()


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_elements_have_the_structure_of_what_was_given(structure: Any) -> None:
    given = filled(structure, itertools.count())
    expected = [plain(filled(structure, itertools.count(), row)) for row in range(ROWS)]
    dataset = gt.data.Dataset.from_tensor_slices(given)
    same = dataset.map(lambda *parts: parts if len(parts) > 1 or type(structure) is tuple else parts[0])
    assert [plain(element) for element in dataset] == expected
    assert [plain(element) for element in dataset.as_numpy_iterator()] == expected
    if not isinstance(structure, Point):  # a function gets its parts one by one
        assert [plain(element) for element in same] == expected
    assert plain(next(iter(dataset.batch(ROWS)))) == plain(given)
    assert [plain(element) for element in dataset.batch(2).unbatch()] == expected
    assert [plain(element) for element in dataset.cache().shuffle(1).prefetch(1)] == expected
    assert plain(gt.nest.map_structure(lambda spec: spec.shape.rank, dataset.element_spec)) == plain(
        gt.nest.map_structure(lambda array: array.ndim - 1, given)
    )


@pytest.mark.parametrize("structure", [*SHALLOW, ({"a": "leaf"}, "leaf"), ("leaf", ("leaf",))], ids=str)
def test_a_loop_of_a_program_reads_them_so(structure: Any) -> None:
    given = filled(structure, itertools.count())
    dataset = gt.data.Dataset.from_tensor_slices(given)

    @gt.function
    def last() -> Any:
        total = gt.constant(0.0)
        for element in dataset:
            gt.nest.assert_same_structure(element, given)
            for part in gt.nest.flatten(element):
                total += part
        return total

    assert float(last()) == sum(float(np.sum(part)) for part in gt.nest.flatten(given))
