"""Progress bars in functions: shown at every run, moved by the turns of a loop that is staged as it would be without them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from tqdm.auto import tqdm, trange

import gradtape as gt

DATA = gt.data.Dataset.range(40)


def over_tensor(x: Any, screen: Any) -> Any:
    for _ in tqdm(gt.range(40), desc="run", file=screen):
        x = x - 0.01 * gt.sin(x)
    return x


def over_range(x: Any, screen: Any) -> Any:
    for _ in tqdm(range(40), desc="run", file=screen):
        x = x - 0.01 * gt.sin(x)
    return x


def over_trange(x: Any, screen: Any) -> Any:
    for _ in trange(40, desc="run", file=screen):
        x = x - 0.01 * gt.sin(x)
    return x


def numbered(x: Any, screen: Any) -> Any:
    for i, row in enumerate(tqdm(gt.ones([40]), desc="run", file=screen)):
        x = x - 0.01 * gt.sin(row * x) * i
    return x


def over_dataset(x: Any, screen: Any) -> Any:
    for i in tqdm(DATA, desc="run", file=screen):
        x = x + gt.cast(i, gt.float32)
    return x


def by_hand(x: Any, screen: Any) -> Any:
    with tqdm(total=40, desc="run", file=screen) as bar:
        for _ in range(20):
            x = x - 0.01 * gt.sin(x)
            bar.update(2)
    return x


def told(x: Any, screen: Any) -> Any:
    bar = tqdm(range(40), desc="run", file=screen)
    for i in bar:
        x = x - 0.01 * gt.sin(x)
        if i == 39:
            bar.set_postfix(last=float(x))
    return x


def left_early(x: Any, screen: Any) -> Any:
    for _ in tqdm(gt.range(40), desc="run", file=screen):
        x = x - 0.1 * gt.sin(x)
        if x < 1.0:
            break
    return x


def collected(x: Any, screen: Any) -> Any:
    return sum([gt.sin(x * k) for k in tqdm([0.1] * 40, desc="run", file=screen)])


BARS = [over_tensor, over_range, over_trange, numbered, over_dataset, by_hand, told, left_early, collected]


@pytest.mark.parametrize("program", BARS, ids=lambda f: f.__name__)
def test_each_run_shows_its_own_bar_and_values_are_those_of_eager_code(program: Any) -> None:
    eager, screen = io.StringIO(), io.StringIO()
    x = gt.constant(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        expected = program(x, eager)
        compiled = gt.function(program)
        shown = []
        for _ in range(2):
            value = compiled(x, screen)
            shown.append(screen.getvalue())
            screen.seek(0)
            screen.truncate()
    assert float(value) == pytest.approx(float(expected), rel=1e-6)
    assert float(tape.gradient(value, x)) == pytest.approx(float(tape.gradient(expected, x)), rel=1e-5)
    last = ["40/40" in text if program is not left_early else "/40" in text for text in (eager.getvalue(), *shown)]
    assert last == [True, True, True]
    assert compiled.experimental_get_tracing_count() == 1
    if program is told:
        assert [text.rstrip()[-9:] for text in shown] == [eager.getvalue().rstrip()[-9:]] * 2


@pytest.mark.parametrize("program", [over_tensor, over_range, over_trange, told], ids=lambda f: f.__name__)
def test_a_loop_below_a_bar_is_a_loop_of_the_program(program: Any) -> None:
    assert " scan" in gt.function(program).to_text(gt.TensorSpec([]), io.StringIO())


def test_a_bar_from_outside_is_moved_by_each_call() -> None:
    screen = io.StringIO()
    with tqdm(total=3, file=screen) as bar:

        @gt.function
        def step(x: Any) -> Any:
            x = x * 2.0
            bar.set_postfix(x=float(x))
            bar.update(1)
            return x

        x = gt.constant(1.0)
        for _ in range(3):
            x = step(x)
    assert bar.n == 3
    assert "x=8" in screen.getvalue()


def test_what_a_bar_does_not_know_when_it_is_traced() -> None:
    @gt.function
    def f(x: Any) -> Any:
        bar = tqdm(range(40), file=io.StringIO())
        for _ in bar:
            x = x + bar.n
        return x

    with pytest.raises(AttributeError, match="`n` of a bar in a function is not known when it is traced"):
        f(gt.constant(1.0))
