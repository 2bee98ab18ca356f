"""Random histories of three tapes (enter, leave, pause, watch, sweep) against a small model that carries slopes along."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import gradtape as gt
from gradtape.core.record import RecordList
from tests.tape.util import close, wide

TAPES, SLOTS, VARIABLES = 3, 4, 2
tape, slot, variable = (st.integers(0, n - 1) for n in (TAPES, SLOTS, VARIABLES))
events = st.one_of(
    st.tuples(st.just("enter"), tape),
    st.tuples(st.just("leave"), tape),
    st.tuples(st.just("pause"), tape),
    st.tuples(st.just("resume"), tape),
    st.tuples(st.just("watch"), tape, slot),
    st.tuples(st.just("mul"), slot, slot, slot),
    st.tuples(st.just("add"), slot, slot, slot),
    st.tuples(st.just("sin"), slot, slot),
    st.tuples(st.just("move"), slot, slot),
    st.tuples(st.just("read"), variable, slot, slot),
    st.tuples(st.just("assign"), variable, slot),
    st.tuples(st.just("assign_add"), variable, slot),
    st.tuples(st.just("gradient"), tape, slot, slot),
)
histories = st.lists(events, min_size=5, max_size=40)


class Value:
    """A number, its tensor, and for each tape the slopes with respect to what that tape watches."""

    def __init__(self, number, tensor):
        self.number = number
        self.tensor = tensor
        self.slopes = [{} for _ in range(TAPES)]
        self.used = False


class World:
    def __init__(self, variables=None):
        self.tapes = [gt.GradientTape(persistent=True, through_assignments=True) for _ in range(TAPES)]
        self.inside = [False] * TAPES
        self.entered = [False] * TAPES
        self.pauses = [None] * TAPES
        self.sources = [[] for _ in range(TAPES)]
        self.slots = [Value(v, wide(v)) for v in (0.3, 0.7, 1.1, -0.4)]
        self.variables = [gt.Variable(np.float64(v)) for v in (0.6, -0.8)] if variables is None else variables
        self.versions = [Value(v, None) for v in (0.6, -0.8)]

    def recording(self, k):
        return self.inside[k] and self.pauses[k] is None

    def enter(self, k):
        if not self.inside[k]:
            self.tapes[k].__enter__()
            self.inside[k] = self.entered[k] = True

    def leave(self, k):
        if self.recording(k):
            self.tapes[k].__exit__(None, None, None)
            self.inside[k] = False

    def pause(self, k):
        if self.recording(k):
            self.pauses[k] = self.tapes[k].stop_recording()
            self.pauses[k].__enter__()

    def resume(self, k):
        if self.pauses[k] is not None:
            self.pauses[k].__exit__(None, None, None)
            self.pauses[k] = None

    def watch(self, k, i):
        value = self.slots[i]
        if (
            self.entered[k] and not value.slopes[k] and not value.used
        ):  # the derivative with respect to what was used before is left open
            self.tapes[k].watch(value.tensor)
            value.slopes[k][len(self.sources[k])] = 1.0
            self.sources[k].append(value)

    def made(self, out, number, tensor, parts):
        self.slots[out] = self.combined(number, parts)
        self.slots[out].tensor = tensor

    def combined(self, number, parts):
        value = Value(number, None)
        for operand, _ in parts:
            operand.used = True
        for k in range(TAPES):
            if self.recording(k):
                for operand, slope in parts:
                    for source, t in operand.slopes[k].items():
                        value.slopes[k][source] = value.slopes[k].get(source, 0.0) + slope * t
        return value

    def mul(self, i, j, out):
        a, b = self.slots[i], self.slots[j]
        self.made(out, a.number * b.number, a.tensor * b.tensor, [(a, b.number), (b, a.number)])

    def add(self, i, j, out):
        a, b = self.slots[i], self.slots[j]
        self.made(out, a.number + b.number, a.tensor + b.tensor, [(a, 1.0), (b, 1.0)])

    def sin(self, i, out):
        a = self.slots[i]
        self.made(out, math.sin(a.number), gt.sin(a.tensor), [(a, math.cos(a.number))])

    def version(self, v):
        """Reading: a version that a recording tape did not see computed is one of the variable's leaves."""
        version = self.versions[v]
        for k in range(TAPES):
            if self.recording(k) and not version.slopes[k]:
                version.slopes[k]["variable", v] = 1.0
        return version

    def read(self, v, i, out):
        version, a = self.version(v), self.slots[i]
        self.made(out, version.number * a.number, self.variables[v] * a.tensor, [(version, a.number), (a, version.number)])

    def assign(self, v, i):
        a = self.slots[i]
        self.versions[v] = self.combined(a.number, [(a, 1.0)])
        self.variables[v].assign(a.tensor)

    def assign_add(self, v, i):
        version, a = self.version(v), self.slots[i]
        self.versions[v] = self.combined(version.number + a.number, [(version, 1.0), (a, 1.0)])
        self.variables[v].assign_add(a.tensor)

    def move(self, i, out):
        self.slots[out] = self.slots[i]

    def gradient(self, k, i, out):
        """Ask in the middle: the answer must be right and change nothing; nobody follows it further."""
        self.check(k, self.slots[i])

    def check(self, k, value):
        sources = {i: s.tensor for i, s in enumerate(self.sources[k])}
        sources |= {("variable", i): v for i, v in enumerate(self.variables)}
        answers = self.tapes[k].gradient(value.tensor, list(sources.values()))
        for source, answer in zip(sources, answers, strict=True):
            if source in value.slopes[k]:
                close(answer, value.slopes[k][source], 1e-9)
            else:
                assert answer is None

    def finish(self):
        for k in range(TAPES):
            self.resume(k)
            self.leave(k)
        assert not getattr((wide(1.0) * self.slots[0].tensor)._node, "keys", ())  # nobody records any more
        for k in range(TAPES):
            for value in self.slots:
                self.check(k, value)


def play(history):
    world = World()
    try:
        for event in history:
            getattr(world, event[0])(*event[1:])
    finally:
        world.finish()


checked = settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@checked
@given(histories)
def test_histories_of_tapes(history):
    play(history)


@checked
@given(histories)
def test_histories_of_tapes_that_sweep_all_the_time(history):
    floor, RecordList.FLOOR = RecordList.FLOOR, 0
    try:
        play(history)
    finally:
        RecordList.FLOOR = floor


def test_the_model_notices_a_wrong_slope():
    world = World()
    world.enter(0)
    world.watch(0, 0)
    world.mul(0, 0, 1)
    world.slots[1].slopes[0][0] *= 1.001
    try:
        with pytest.raises(AssertionError, match="Mismatch"):
            world.check(0, world.slots[1])
    finally:
        world.leave(0)
