"""The programs whose first call takes longest, and the stage that costs most: `make bench` and
`python -m benchmarks.slowest [--random N] [--part K/N]`, which without a part writes the list of `docs/benchmarks.md`.

Programs are those of the zoo and N of each random generator, value and gradient, with an empty cache, one after the other in a
process in which the compiler has started. Seconds are processor time; those of a stage are read from `f.explain()`. An outlier
has a cause (work done again, a step that is not linear, a pass of LLVM), so the list says where to look. No test.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.run import ROOT

GOAL = 5.0  # seconds, for any program
SHOWN = 10
BEGIN, END = "<!-- slowest: written by `python -m benchmarks.slowest` -->", "<!-- end of slowest -->"
TRACED = re.compile(r"trace \d+: .*\[([\d.]+) ms\]")
COMPILED = re.compile(r"passes ([\d.]+) ms, written in ([\d.]+) ms.*, compiled by LLVM in ([\d.]+) ms")


class Row(NamedTuple):
    """One program: the processor time of its first call, how long that took, and what each stage says it took of this."""

    name: str
    seconds: float
    wall: float
    stages: dict[str, float]

    @property
    def dearest(self) -> str:
        """The stage that costs most; what is left is making derivatives, and running."""
        spent = {**self.stages, "derivatives, running": self.wall - sum(self.stages.values())}
        stage = max(spent, key=lambda name: spent[name])
        return f"{stage}, {spent[stage] / self.wall:.0%}"


def stages(explanation: str) -> dict[str, float]:
    """Seconds by stage, of all the programs that a function has."""
    compiled = [[float(ms) for ms in numbers] for numbers in COMPILED.findall(explanation)]
    passes, writing, machine = (sum(column) / 1e3 for column in zip(*compiled, strict=True)) if compiled else (0.0, 0.0, 0.0)
    tracing = sum(map(float, TRACED.findall(explanation))) / 1e3
    return {"tracing": tracing, "passes": passes, "writing": writing, "LLVM": machine}


def _zoo() -> Iterator[tuple[str, Callable[[Callable[..., Any]], Any]]]:
    from tests.zoo import test_zoo  # has all entries register
    from tests.zoo.checks import gradients

    for entry in test_zoo.ENTRIES.values():
        yield entry.name, lambda compile, entry=entry: gradients(entry, entry.inputs[0], compile, order=min(entry.order, 1))


def _random(count: int, folder: Path) -> Iterator[tuple[str, Callable[[Callable[..., Any]], Any]]]:
    from tests.zoo import programs, sized_programs, test_random_functions

    for seed in range(count):
        for kind, writing, first, last in (
            ("random", programs.Writer, (), ()),
            ("random of unknown sizes", sized_programs.SizedWriter, sized_programs.FIRST, sized_programs.LAST),
        ):
            draw = Random(seed)
            writer = writing(draw, draw.randint(1, 3))
            lines = [line for _ in range(draw.randint(1, 6)) for line in writer.statement(0)]
            path = folder / f"{kind.replace(' ', '_')}_{seed}.py"
            path.write_text(programs.HEAD + programs.Program((*first, *lines, *last)).text("plain", 0))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield f"{kind} {seed}", lambda compile, f=module.plain: test_random_functions.first_order(compile(f), 0)


def measure(count: int, part: tuple[int, int]) -> list[Row]:
    """The first calls of every n-th program, from the k-th on."""
    import gradtape as gt

    start, step = part
    rows = []
    functions: list[Any] = []

    def compile(function: Callable[..., Any]) -> Any:
        functions.append(gt.function(function))
        return functions[-1]

    gt.function(lambda x: gt.reduce_sum(gt.sin(x)))(gt.ones((3,)))  # starts the compiler
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place, (name, run) in enumerate([*_zoo(), *_random(count, Path(folder))]):
            if place % step != start:
                continue
            functions.clear()
            began, clock = process_time(), perf_counter()
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    run(compile)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}".partition("\n")[0], file=sys.stderr)
                continue
            rows.append(Row(name, process_time() - began, perf_counter() - clock, stages(functions[-1].explain())))
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """The slowest, and how all of them are spread."""
    ordered = sorted(rows, key=lambda row: -row.seconds)
    over = sum(row.seconds > GOAL for row in ordered)
    median = ordered[len(ordered) // 2].seconds
    lines = [
        report.where_measured(report.machine(1)),
        "",
        f"{len(ordered)} programs; half of them take less than {median:.2g} s, {over or 'none'} more than {GOAL:.0f} s.",
        "",
        "| program | first call | most of it |",
        "|---|---:|---|",
        *(f"| {row.name.replace('_', ' ')} | {row.seconds:.2f} s | {row.dearest} |" for row in ordered[:SHOWN]),
    ]
    return "\n".join(lines) + "\n"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slowest", description="the slowest first calls")
    parser.add_argument("--random", type=int, default=150, metavar="N", help="programs of each random generator")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="every N-th program, from the K-th on; nothing is written")
    options = parser.parse_args(given)
    start, step = map(int, options.part.split("/"))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GRADTAPE_CACHE"] = cache  # before gradtape is imported
        text = markdown(measure(options.random, (start, step)))
    print(text)
    if options.part == "0/1":
        page = ROOT / "docs" / "benchmarks.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
