"""`vectorized_map` in a function: what the mapped function collects and changes in objects of its own is its result, as in
eager code."""

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


COUNTED = gt.constant([[0.3, -0.5, 0.2], [0.1, 0.2, -0.4]])  # two elements above 0 in each


@pytest.mark.parametrize("compiled", [False, True])
def test_sizes_that_are_the_same_in_all_examples(compiled):
    for picked in (
        lambda row: gt.reduce_sum(gt.boolean_mask(row, row > 0) ** 2),
        lambda row: gt.reduce_sum(row[row > 0] ** 2),
        lambda row: gt.reduce_sum(gt.reshape(gt.boolean_mask(row, row > 0), [1, -1]) ** 2),
    ):
        function = gt.function(lambda x, picked=picked: gt.vectorized_map(picked, x), jit_compile=compiled)
        np.testing.assert_allclose(function(COUNTED).numpy(), [0.13, 0.05], rtol=1e-6)


def test_sizes_that_differ_between_examples_are_refused():
    rows = gt.constant([[0.3, -0.5, 0.2], [0.1, 0.2, 0.4]])
    for size in (lambda row: gt.shape(gt.boolean_mask(row, row > 0))[0], lambda row: gt.reduce_sum(row[row > 0])):
        for function in (
            lambda x, size=size: gt.vectorized_map(size, x),
            gt.function(lambda x, size=size: gt.vectorized_map(size, x), jit_compile=False),
        ):
            with pytest.raises(gt.errors.InvalidArgumentError):
                function(rows)


def test_a_list_of_unknown_length_cannot_be_mapped():
    def collected(row):
        parts = []
        for element in row:
            if gt.reduce_sum(X) > 0.0:
                parts.append(element)
        return parts

    with pytest.raises(gt.errors.InvalidArgumentError, match=r"return gt\.stack"):
        gt.function(lambda x: gt.vectorized_map(collected, x))(X)


def test_a_variable_holds_one_value_for_all_examples():
    kept = gt.Variable([0.0, 0.0])

    def keep(row):
        kept.assign(row)
        return row

    for function in (lambda x: gt.vectorized_map(keep, x), gt.function(lambda x: gt.vectorized_map(keep, x))):
        with pytest.raises(ValueError, match=r"one( value)? per example.* holds one for all"):
            function(X)
