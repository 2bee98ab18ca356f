"""Tensors and variables in a notebook: what they are, and their numbers as a table."""

from __future__ import annotations

import numpy as np

import gradtape as gt


def test_a_table_of_numbers() -> None:
    text = gt.constant([[1.0, 2.5], [3.0, 4.0]])._repr_html_()
    assert "<b>Tensor</b> (2, 2) <i>float32</i>" in text
    assert text.count("<td") == 4
    assert ">2.5<" in text


def test_large_ones_are_cut() -> None:
    text = gt.constant(np.zeros((100, 50)))._repr_html_()
    assert text.count("<tr>") == 9
    assert "…" in text
    assert len(text) < 10_000


def test_scalars_strings_and_more_axes() -> None:
    assert "7" in gt.constant(7)._repr_html_()
    assert "(2, 2, 2)" in gt.zeros((2, 2, 2))._repr_html_()
    assert "&lt;b&gt;" in gt.constant(["<b>"])._repr_html_()


def test_variables_have_their_name() -> None:
    assert "“weight:0”" in gt.Variable([1.0, 2.0], name="weight")._repr_html_()


def test_nothing_is_recorded_or_noted() -> None:
    v = gt.Variable([1.0, 2.0])
    with gt.GradientTape() as tape:
        v._repr_html_()
    assert tape.watched_variables() == ()


def test_a_traced_tensor_has_no_numbers() -> None:
    seen = []

    @gt.function
    def f(x):
        seen.append(x._repr_html_())
        return x

    f(gt.constant([1.0]))
    assert seen[0].startswith("<code>")


def test_integers_and_truth_values_are_exact() -> None:
    assert ">12345678<" in gt.constant([12345678])._repr_html_()
    assert ">True<" in gt.constant([True, False])._repr_html_()
