"""`vectorized_map` in a function: what the mapped function collects and changes in objects of its own is its result, as in eager code."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt

X = gt.constant([[0.3, -0.5], [1.2, 0.7], [0.1, 2.0]])


def appended(row):
    parts = []
    for element in row:
        parts.append(element * 2.0)
    return parts


def put_into_a_dict(row):
    table = {}
    table["sum"] = gt.reduce_sum(row)
    table["rows"] = [row]
    table["rows"].append(row * row)
    return table


def written_in_place(row):
    copy = row * 1.0
    copy[0] = row[1] * row[1]
    return copy


def written_and_kept_twice(row):
    copy = row * 1.0
    before = copy * 1.0
    copy[1] += before[0]
    return before, copy, [copy]


@pytest.mark.parametrize("function", [appended, put_into_a_dict, written_in_place, written_and_kept_twice])
def test_what_is_made_in_the_mapped_function(function):
    expected = gt.vectorized_map(function, X)
    actual = gt.function(lambda x: gt.vectorized_map(function, x), jit_compile=False)(X)
    gt.nest.assert_same_structure(actual, expected)
    for a, b in zip(gt.nest.flatten(actual), gt.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
