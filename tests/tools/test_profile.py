"""`tape.profile()`: rows by line that add up to the clock on the wall, as data, text and HTML; nothing when it is off."""

from __future__ import annotations

import os
import threading
import time
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.dispatch import RUNNERS, WATCHERS
from gradtape.tools.profile_table import REST, MeasuredLine, Profile, ProfileRow, made_profile
from tests.tools.lines import line_of


def at(mark: str) -> str:
    return line_of(__file__, mark)


def rows_of(profile: Profile) -> dict[tuple[str | None, str], ProfileRow]:
    rows = {(row.location, row.op): row for row in profile.rows if row.within is None}
    assert len(rows) == sum(row.within is None for row in profile.rows)
    return rows


def profiled(function: Any, x: Any, **options: Any) -> Profile:
    source = gt.constant(x)
    with gt.GradientTape(profile=True, **options) as tape:
        tape.watch(source)
        y = function(source)
    tape.gradient(y, source)
    found: Profile = tape.profile()
    return found


def step(x: Any) -> Any:
    h = gt.matmul(x, x)  # one product
    for _ in range(5):
        h = gt.tanh(h) * 0.5  # in a loop
    return gt.reduce_sum(h)  # the sum


def test_rows_have_line_op_count_and_seconds() -> None:
    profile = profiled(step, np.ones((200, 200)))
    rows = rows_of(profile)
    assert set(rows) == {
        (at("one product"), "matmul"), (at("in a loop"), "tanh"), (at("in a loop"), "multiply"),
        (at("the sum"), "reduce_sum"), (None, REST),
    }  # fmt: skip
    assert rows[at("in a loop"), "tanh"].count == rows[at("in a loop"), "multiply"].count == 5
    assert all(row.forward > 0.0 and row.backward > 0.0 for row in rows.values() if row.op != REST)
    assert rows[at("in a loop"), "tanh"].code == "h = gt.tanh(h) * 0.5  # in a loop"


def test_rows_add_up_to_the_wall_clock() -> None:
    start = time.perf_counter()
    profile = profiled(step, np.ones((300, 300)))
    wall = time.perf_counter() - start
    outer = [row for row in profile.rows if row.within is None]
    assert sum(row.seconds for row in outer) == pytest.approx(profile.seconds, rel=1e-9)
    assert sum(row.share for row in outer) == pytest.approx(1.0, rel=1e-9)
    assert profile.seconds <= wall
    assert [row.seconds for row in outer] == sorted((row.seconds for row in outer), reverse=True)


def test_time_outside_of_operations_is_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        """A clock of this test's own: what else the machine does takes no time."""
        nonlocal now
        now += 1e-6
        return now

    def slow(x: Any) -> Any:
        nonlocal now
        now += 0.05
        return gt.reduce_sum(x)

    monkeypatch.setattr("gradtape.tools.profile.perf_counter", clock)
    monkeypatch.setattr("gradtape.core.dispatch.perf_counter", clock)
    rows = rows_of(profiled(slow, np.ones(3)))
    assert rows[None, REST].forward == pytest.approx(0.05, rel=1e-3)
    assert rows[None, REST].share > 0.99


def test_saved_bytes_are_those_kept_for_the_backward_pass() -> None:
    def saving(x: Any) -> Any:
        a = gt.sin(x + 1.0)  # keeps its input
        b = a + a  # keeps nothing
        return gt.reduce_sum(b)

    profile = profiled(saving, np.ones(1000))
    rows = rows_of(profile)
    assert rows[at("keeps its input"), "sin"].bytes == 8000
    assert rows[at("keeps nothing"), "add"].bytes == 0
    assert profile.bytes == sum(row.bytes for row in profile.rows if row.within is None) == 8000


def test_an_array_that_two_operations_keep_counts_once() -> None:
    def twice(x: Any) -> Any:
        y = x * 2.0
        return gt.reduce_sum(gt.sin(y) + gt.cos(y))

    assert profiled(twice, np.ones(1000)).bytes == 8000


def test_variables_do_not_count_as_saved() -> None:
    v = gt.Variable(np.ones(1000))
    with gt.GradientTape(profile=True) as tape:
        y = gt.reduce_sum(gt.sin(v))
    tape.gradient(y, v)
    assert tape.profile().bytes == 0


def test_a_memory_limit_shows_in_the_bytes() -> None:
    def chain(x: Any) -> Any:
        for _ in range(64):
            x = gt.sin(x)
        return gt.reduce_sum(x)

    free, limited = profiled(chain, np.ones(1000)), profiled(chain, np.ones(1000), memory_limit=160_000)
    assert limited.bytes < free.bytes / 2


def test_without_a_gradient_there_are_forward_seconds_and_bytes() -> None:
    x = gt.constant(np.ones(100))
    with gt.GradientTape(profile=True) as tape:
        tape.watch(x)
        y = gt.exp(gt.sin(x))  # not asked
    profile = tape.profile()
    rows = rows_of(profile)
    assert y.shape == (100,)
    assert rows[at("not asked"), "exp"].bytes == 800
    assert profile.backward == 0.0
    assert all(row.backward == 0.0 for row in profile.rows)


def test_operations_that_are_not_recorded_count_too() -> None:
    data = gt.constant(np.ones(100))

    def loss(x: Any) -> Any:
        scale = gt.reduce_max(data)  # nobody watches
        return gt.reduce_sum(x * scale)

    rows = rows_of(profiled(loss, np.ones(100)))
    assert rows[at("nobody watches"), "reduce_max"].count == 1
    assert rows[at("nobody watches"), "reduce_max"].backward == 0.0


def test_what_runs_after_the_block_or_in_another_thread_does_not_count() -> None:
    x = gt.constant(np.ones(100))
    with gt.GradientTape(profile=True) as tape:
        tape.watch(x)
        y = gt.reduce_sum(x)
        other = threading.Thread(target=lambda: gt.sin(x))
        other.start()
        other.join()
    gt.cos(x)
    tape.gradient(y, x)
    assert {row.op for row in tape.profile().rows} == {"reduce_sum", REST}


def test_nobody_watches_when_the_block_is_over() -> None:
    with pytest.raises(ZeroDivisionError), gt.GradientTape(profile=True):
        1 // 0
    assert not WATCHERS
    assert not RUNNERS


def test_a_backward_pass_that_fails_leaves_nobody_behind() -> None:
    @gt.custom_gradient
    def failing(x: Any) -> Any:
        def back(upstream: Any) -> Any:
            raise KeyError("no")

        return x * 1.0, back

    x = gt.constant(1.0)
    with gt.GradientTape(profile=True) as tape:
        tape.watch(x)
        y = failing(x)
    with pytest.raises(KeyError):
        tape.gradient(y, x)
    assert not WATCHERS
    assert not RUNNERS


def test_a_gradient_inside_the_block_is_backward_time() -> None:
    x = gt.constant(np.ones((100, 100)))
    with gt.GradientTape(profile=True, persistent=True) as tape:
        tape.watch(x)
        y = gt.reduce_sum(gt.matmul(x, x))  # asked inside
        tape.gradient(y, x)
    rows = rows_of(tape.profile())
    assert rows[at("asked inside"), "matmul"].count == 1
    assert rows[at("asked inside"), "matmul"].backward > 0.0
    assert sum(row.share for row in rows.values()) == pytest.approx(1.0)


def test_nested_tapes_each_have_their_own() -> None:
    x = gt.constant([1.0, 2.0])
    with gt.GradientTape(profile=True) as outer:
        outer.watch(x)
        with gt.GradientTape(profile=True) as inner:
            inner.watch(x)
            y = gt.reduce_sum(x * x * x)
        slope = inner.gradient(y, x)  # recorded on the outer tape
    outer.gradient(slope, x)
    within = {row.location for row in inner.profile().rows}
    assert at("recorded on the outer tape") not in within
    assert at("recorded on the outer tape") in {row.location for row in outer.profile().rows}


def test_reset_begins_anew() -> None:
    x = gt.constant(1.0)
    with gt.GradientTape(profile=True) as tape:
        tape.watch(x)
        gt.sin(x)
        tape.reset()
        tape.watch(x)
        gt.cos(x)
    assert {row.op for row in tape.profile().rows} == {"cos", REST}


def test_a_tape_without_a_profile_says_how_to_get_one() -> None:
    with gt.GradientTape() as tape:
        pass
    with pytest.raises(gt.errors.FailedPreconditionError, match=r"GradientTape\(profile=True\)"):
        tape.profile()


def test_it_can_be_asked_after_a_one_shot_tape_was_spent_and_many_times() -> None:
    x = gt.constant(1.0)
    with gt.GradientTape(profile=True) as tape:
        tape.watch(x)
        y = gt.sin(x) * x
    tape.gradient(y, x)
    assert tape.profile() == tape.profile()


# -- compiled functions ------------------------------------------------------------------------------------------------


@gt.function(backend="numpy")
def interpreted(x: Any) -> Any:
    for _ in gt.range(4):
        x = gt.sin(x)  # four times
    return gt.reduce_sum(x)


@gt.function
def native(x: Any) -> Any:
    return gt.reduce_sum(gt.sin(x) * x)


def test_a_compiled_call_is_a_row_with_the_lines_of_its_program_below() -> None:
    def loss(x: Any) -> Any:
        return interpreted(x) + interpreted(x * 2.0)  # two calls

    profile = profiled(loss, np.ones((50, 50), np.float32))
    rows = rows_of(profile)
    call = rows[at("two calls"), "function `interpreted`"]
    assert call.count == 2
    assert call.forward > 0.0
    assert call.backward > 0.0
    assert call.bytes >= 4 * 10_000
    inner = [row for row in profile.rows if row.within == "function `interpreted`"]
    sines = next(row for row in inner if row.op == "sin")
    assert sines.location == at("four times")
    assert sines.count == 8
    assert sum(row.forward for row in inner) <= call.forward
    assert sum(row.backward for row in inner) <= call.backward
    place = profile.rows.index(call)
    assert all(row.within for row in profile.rows[place + 1 : place + 1 + len(inner)])


def test_native_calls_are_rows() -> None:
    def loss(x: Any) -> Any:
        return native(x)  # a native call

    native(gt.constant(np.ones(5, np.float32)))
    row = rows_of(profiled(loss, np.ones(5, np.float32)))[at("a native call"), "function `native`"]
    assert row.count == 1
    assert row.forward > 0.0
    assert row.backward > 0.0


def test_results_of_timed_programs_are_the_same() -> None:
    x = gt.constant(np.linspace(0.1, 1.0, 7).astype(np.float32))
    found = []
    for profile in (False, True):
        with gt.GradientTape(profile=profile) as tape:
            tape.watch(x)
            y = interpreted(x)
        found.append((float(y), tape.gradient(y, x).numpy()))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


# -- how it looks ------------------------------------------------------------------------------------------------------


def example() -> Profile:
    lines = [
        MeasuredLine(
            ("/home/a/train.py", 7),
            "matmul",
            2,
            0.2,
            0.5,
            3_000_000,
            [MeasuredLine(("/home/a/b.py", 1), "sin", 4, 0.1, 0.0, 0, [])],
        ),
        MeasuredLine(("/home/a/train.py", 7), "matmul", 1, 0.1, 0.0, 0, []),
        MeasuredLine(("/home/a/train.py", 9), "add<b>", 100, 0.001, 0.00005, 0, []),
    ]
    return made_profile(lines, 0.4, 0.6, 0.01)


def test_entries_of_one_line_and_op_are_one_row() -> None:
    profile = example()
    assert [(row.op, row.count) for row in profile.rows] == [("matmul", 3), ("sin", 4), (REST, 0), ("add<b>", 100)]
    assert profile.rows[0].share == pytest.approx(0.8)
    assert profile.by_line()["/home/a/train.py:7"] == (0.8, 3_000_000)


def test_the_text_is_a_table() -> None:
    lines = str(example()).splitlines()
    assert lines[0].split() == ["line", "op", "count", "forward", "backward", "saved", "share"]
    assert lines[2].split()[:2] == ["train.py:7", "matmul"]
    assert "300.00 ms" in lines[2]
    assert "3.0 MB" in lines[2]
    assert "80.0%" in lines[2]
    assert lines[3].startswith("  b.py:1")
    assert "50.0 us" in lines[5]
    assert "total: forward 400.00 ms, backward 600.00 ms, saved 3.0 MB (measuring took 10.00 ms of it)" in lines
    assert lines[-1] == "matmul at train.py:7 takes 80% of the time: look there first"
    assert repr(example()) == "<profile: 4 rows, 1 s, 3.0 MB saved>"
    assert len(list(example())) == len(example()) == 4


def test_long_tables_are_cut_in_text_only() -> None:
    lines = [MeasuredLine(("a.py", i), "sin", 1, 0.001, 0.0, 0, []) for i in range(50)]
    profile = made_profile(lines, 0.06, 0.0, 0.0)
    assert "... and 21 more rows" in str(profile)
    assert len(profile.rows) == 51
    assert profile._repr_html_().count("<tr") == 52


def test_advice_for_many_small_operations_and_for_much_memory() -> None:
    small = made_profile([MeasuredLine(("a.py", 1), "sin", 5000, 0.1, 0.1, 0, [])], 0.5, 0.5, 0.0)
    assert "@gt.function" in small.advice[0]
    assert "5000 calls" in small.advice[0]
    large = made_profile([MeasuredLine(("a.py", 1), "sin", 1, 0.1, 0.1, 80_000_000, [])], 0.2, 0.2, 0.0)
    assert any("gt.recompute_grad" in text for text in large.advice)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_is_one_closed_fragment_with_everything_escaped() -> None:
    text = example()._repr_html_()
    parser = _Tags()
    parser.feed(text)
    assert not parser.open
    assert text.startswith('<div class="gradtape-profile"')
    assert "add&lt;b&gt;" in text
    assert "<script" not in text
    assert os.path.join("/home/a", "train.py:7") in text
