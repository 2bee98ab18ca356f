"""The fence: what compiled functions refuse, with the exception, its words and the user's line; and leaked tensors."""

from __future__ import annotations

import re
import traceback

import numpy as np
import pytest

import gradtape as gt
from gradtape import errors
from tests.zoo import fences
from tests.zoo.fences import FENCES, Fence

HERE = __file__.rsplit("/", 1)[-1]


def lines_named(error: BaseException) -> set[int]:
    """The last line of the user's file on the way to the error, and the lines its message names."""
    name = fences.__file__
    frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == name]
    named = [int(n) for n in re.findall(r"(?:fences\.py:|line )(\d+)", str(error))]
    notes = [int(n) for note in getattr(error, "__notes__", ()) for n in re.findall(r"(?:fences\.py:|line )(\d+)", note)]
    return {*frames[-1:], *named, *notes}


@pytest.mark.parametrize("fence", FENCES.values(), ids=FENCES)
def test_refused_with_words_and_line(fence: Fence):
    compiled = gt.function(fence.function, **fence.options)
    with pytest.raises(fence.error) as caught:
        compiled(*fence.args)
    text = str(caught.value)
    for word in fence.words:
        assert re.search(word, text), f"{word!r} is not in: {text}"
    line = fence.line()
    named = lines_named(caught.value)
    assert line is None or line in named, f"line {line} is not among {named}: {text}"


@pytest.mark.parametrize("fence", FENCES.values(), ids=FENCES)
def test_no_frame_of_generated_or_library_code_comes_last(fence: Fence):
    compiled = gt.function(fence.function, **fence.options)
    with pytest.raises(fence.error) as caught:
        compiled(*fence.args)
    names = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert not [name for name in names if name.startswith("ag__")], names


def test_a_leaked_tensor_names_the_line_that_made_it():
    kept = []

    @gt.autograph.experimental.do_not_convert
    def keep(y):
        kept.append(y)

    @gt.function
    def leak(x):
        y = gt.sin(x)
        keep(y)
        return y * 2.0

    x = gt.constant(np.float64(0.3))
    leak(x)
    line = leak.python_function.__code__.co_firstlineno + 2
    with pytest.raises(errors.InaccessibleTensorError, match=rf"{HERE}:{line}.*used outside"):
        kept[0] + 1.0
    with pytest.raises(errors.OpError):
        kept[0].numpy()


def test_a_leaked_tensor_in_another_function():
    kept = []

    @gt.autograph.experimental.do_not_convert
    def keep(y):
        kept.append(y)

    @gt.function
    def leak(x):
        y = gt.sin(x)
        keep(y)
        return y

    leak(gt.constant(0.3))
    with pytest.raises(errors.InaccessibleTensorError, match="used outside"):
        gt.function(lambda x: x + kept[0])(gt.constant(0.3))


def test_a_failed_call_leaves_state_as_eager_code_does_at_that_line():
    v = gt.Variable(np.float64(1.0))

    def step(x):
        v.assign_add(x)
        assert x > 0, "negative"
        v.assign_add(10.0)
        return v * 1.0

    for f in (step, gt.function(step)):
        v.assign(1.0)
        with pytest.raises(AssertionError, match="negative"):
            f(gt.constant(np.float64(-0.5)))
        assert v.numpy() == 0.5


def test_a_refused_call_changes_nothing():
    v = gt.Variable(np.float64(1.0))
    seen = []

    @gt.function
    def step(x):
        v.assign_add(x)
        seen.append(1)
        return x, object()

    with pytest.raises(TypeError):
        step(gt.constant(np.float64(0.5)))
    assert v.numpy() == 1.0
    assert seen == []


def test_code_without_source_is_traced_as_it_is_and_said_once():
    namespace = {"gt": gt}
    exec("def f(x):\n    return x * 2.0", namespace)
    compiled = gt.function(namespace["f"])
    with pytest.warns(UserWarning, match="source is not available"):
        compiled(gt.constant(1.0))
    assert compiled(gt.constant([1.0])).numpy() == [2.0]
