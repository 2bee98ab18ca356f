"""The benchmarks run, on gradtape alone and quickly; a wrong peer is not timed; a missing peer is reported."""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as command, check, environments, memory, page, plots, report, run, summary
from benchmarks.peers import c
from benchmarks.workloads import BY_NAME, SERIES, WORKLOADS

reference = functools.cache(check.reference)
FEWER = 5_000  # options instead of a million, which prove no more


def shorter(workload: Any) -> Any:
    """A workload on as few elements as its program allows."""
    return SHORTER.get(workload.name, workload)


BLACK_SCHOLES = dataclasses.replace(
    BY_NAME["compiled_black_scholes"],
    inputs=lambda: {n: a[:FEWER] for n, a in BY_NAME["compiled_black_scholes"].inputs().items()},
)


# its levels are the program, its columns of air are data
ADVECTION = dataclasses.replace(
    BY_NAME["compiled_advection"],
    inputs=lambda: {n: a[:, :4, :4] for n, a in BY_NAME["compiled_advection"].inputs().items()},
)
SHORTER = {"compiled_black_scholes": BLACK_SCHOLES, "compiled_advection": ADVECTION}


class Pretender:
    """Answers like a worker, with a given value and gradient."""

    name = "torch"

    def __init__(self, value: float, along: list[float]) -> None:
        self.answer = {"value": value, "along": along, "first": 0.1}
        self.timed = 0

    def ask(self, **request: Any) -> dict[str, Any]:
        if "check" in request:
            return self.answer
        if "time" in request:
            self.timed += 1
            return {"times": [0.5, 0.25]}
        return {}


def test_quick_run_on_gradtape_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--quick", "--peers", "--only", "vectors_8", "--only", "jacobian_64", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "eager.json").read_text())
    assert found["quick"] is True
    assert [row["name"] for row in found["rows"]] == ["vectors_8", "jacobian_64"]
    for row in found["rows"]:
        own = row["peers"]["gradtape"]
        assert 0 < own["min"] <= own["median"]
        assert own["calls"] >= 2
        assert own["first"] > 0
    text = (tmp_path / "eager.md").read_text()
    assert "A quick run" in text
    assert text in capsys.readouterr().out


def test_quick_run_of_compiled_programs(tmp_path: Path) -> None:
    command.main(["--quick", "--peers", "--only", "compiled_scalar", "--only", "compile_", "--output", str(tmp_path)])
    rows = {row["name"]: row for row in json.loads((tmp_path / "compiled.json").read_text())["rows"]}
    assert list(rows) == ["compiled_scalar_loop", "compile_cold", "compile_cached"]
    assert {"gradtape", "value"} <= set(rows["compiled_scalar_loop"]["peers"])
    assert all("min" in found for row in rows.values() for found in row["peers"].values())
    assert rows["compile_cached"]["peers"]["gradtape"]["min"] < rows["compile_cold"]["peers"]["gradtape"]["min"]
    text = (tmp_path / "compiled.md").read_text()
    assert "value alone" in text
    assert "≤ 100 ms" in text


def test_only_finds_compiled_rows_without_their_prefix() -> None:
    chosen = command.arguments(["--only", "mlp"]).chosen
    assert chosen == ["mlp", "mlp_sgd", "compiled_mlp"]
    assert command.tables(command.arguments(["--only", "newton"])) == ["compiled"]


def test_goals_against_c_and_the_value_do_not_count_them_as_rivals() -> None:
    times = {"gradtape": 3.0, "value": 1.0, "c": 1.0, "jax_jit": 4.0, "torch_eager": 6.0}
    row = {
        "name": "row",
        "title": "row",
        "ops": 1,
        "goals": (("c", 1.5), ("fastest", 0.9), ("value", 3.0)),
        "peers": {name: {"min": time} for name, time in times.items()},
    }
    told = report.verdicts(row)
    assert told == "**missed**: 3 ≤ 1.5 × C; met: 0.75 ≤ 0.9 × jax jit; met: 3 ≤ 3.0 × value alone"


def test_the_summary_shows_rows_where_a_peer_is_faster_as_plainly() -> None:
    about = {n: {"version": "1", "python": "3", "missing": "" if n != "tf_xla" else "no"} for n in run.TABLES["compiled"]}

    def row(title: str, **times: float) -> dict[str, Any]:
        return {"name": title, "title": title, "ops": 1, "goals": (), "peers": {n: {"min": t} for n, t in times.items()}}

    rows = [
        row("ahead", gradtape=1e-3, value=5e-4, c=2e-3, jax_jit=4e-3, torch_eager=3e-3),
        row("behind", gradtape=3e-3, jax_jit=1e-3, autograd=1.0),
        row("alone", gradtape=1.0),
        row("wrong") | {"peers": {"gradtape": {"error": "value 1, expected 2"}}},
    ]
    text = summary.compiled_table({"machine": report.machine(1), "peers": about, "rows": rows})
    assert "gradtape is the fastest in 1 of 2 rows" in text
    assert "XLA" not in text
    assert text.splitlines()[-4:] == [
        "| ahead | 1 ms | PyTorch eager, 3 ms | 0.33 | 0.5 | 2 |",
        "| behind | 3 ms | JAX jit, 1 ms | **3** |  |  |",
        "| alone | 1 s |  |  |  |  |",
        "| wrong | value 1, expected 2 | | | | |",
    ]


@pytest.mark.parametrize("name", sorted(c.KERNELS))
def test_hand_written_gradients_agree_with_the_reference(name: str) -> None:
    if shutil.which("gcc") is None:
        with pytest.raises(ImportError, match="gcc"):
            c.version()
        return
    workload = shorter(BY_NAME[f"compiled_{name}"])
    kernel: Any = c.STEPS[workload.key](**workload.inputs())
    assert check.disagreement(reference(workload), check.answer(workload, *kernel())) == ""
    assert len(kernel.timed(0.0, 10)) == 1


def test_a_worker_that_dies_or_takes_too_long_is_replaced() -> None:
    peer = run.Peer("numpy", sys.executable, 1)
    peer.process.kill()
    peer.process.wait()
    assert "died" in peer.ask(check="op_sin")["error"]
    assert "value" in peer.ask(check="op_sin")
    peer.patience = 0.0
    assert "took longer" in peer.ask(time="op_sin", seconds=60.0)["error"]
    peer.patience = 60.0
    assert "value" in peer.ask(check="op_sin")
    peer.close()


def test_a_name_that_does_not_exist_lists_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "nonesuch"])
    assert "scalar_loop" in capsys.readouterr().err


@pytest.mark.parametrize("workload", [*WORKLOADS, *(s.points[1][1] for s in SERIES)], ids=lambda w: w.name)
def test_gradtape_agrees_with_the_reference(workload: Any) -> None:
    workload = shorter(workload)
    value, gradients = workload.gradtape(**workload.inputs())()
    value, gradients = workload.compared(value.numpy(), [g.numpy() for g in gradients])
    assert check.disagreement(reference(workload), check.answer(workload, value, gradients)) == ""


@pytest.mark.parametrize("wrong", ["value", "along"])
def test_a_peer_that_disagrees_is_not_timed(wrong: str) -> None:
    workload = BY_NAME["scalar_loop"]
    right = check.reference(workload)
    liar = Pretender(right["value"] + (wrong == "value"), [a + (wrong == "along") for a in right["along"]])
    found = run.measure(workload, [liar], rounds=2, seconds=0.01)  # type: ignore[list-item]
    assert liar.timed == 0
    assert "expected" in found["torch"]["error"]
    rows = [{"name": workload.name, "title": workload.title, "ops": 1, "goals": (), "peers": found}]
    peers = {"torch": {"version": "0", "python": "0", "missing": ""}}
    assert "not timed: " in report.markdown({"machine": report.machine(1), "peers": peers, "rows": rows})


def test_a_peer_that_agrees_is_timed() -> None:
    right = check.reference(BY_NAME["scalar_loop"])
    honest = Pretender(right["value"], right["along"])
    found = run.measure(BY_NAME["scalar_loop"], [honest], rounds=3, seconds=0.2)  # type: ignore[list-item]
    assert honest.timed == 3
    assert found["torch"] == {"first": 0.1, "min": 0.25, "median": 0.375, "calls": 6}


def test_a_call_that_takes_many_rounds_is_made_in_one_only() -> None:
    right = check.reference(BY_NAME["scalar_loop"])
    slow = Pretender(right["value"], right["along"])
    found = run.measure(BY_NAME["scalar_loop"], [slow], rounds=3, seconds=0.01)  # type: ignore[list-item]
    assert slow.timed == 1
    assert found["torch"]["calls"] == 2


def test_a_slow_peer_leaves_a_series(monkeypatch: pytest.MonkeyPatch) -> None:
    # a second per hundred turns: 10³ turns take ten seconds
    monkeypatch.setattr(run, "measure", lambda w, peers, *rest: {p.name: {"min": w.ops / 400} for p in peers})
    points = run.scale(SERIES[0], [Pretender(0.0, [])], 1, 0.01, patience=20.0)  # type: ignore[list-item]
    assert [bool(p["peers"]) for p in points] == [True, True, False, False]


@pytest.mark.parametrize("python", [sys.executable, "/nonexistent/python"])
def test_a_missing_peer_is_reported(python: str) -> None:
    peer = run.Peer("nonesuch", python, 1)
    peer.close()
    assert "No " in peer.missing
    peers = {"nonesuch": {"version": "", "python": "", "missing": peer.missing}}
    text = report.markdown({"machine": report.machine(1), "peers": peers, "rows": []})
    assert f"Not installed: nonesuch ({peer.missing})" in text


def test_environments_are_made_once_and_failures_told(tmp_path: Path) -> None:
    calls: list[Sequence[str]] = []

    def install(line: Sequence[str]) -> str:
        calls.append(line)
        if "venv" in line:
            python = Path(line[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()
        return ""

    first = environments.prepared("torch", tmp_path, install)
    assert first == (str(tmp_path / "torch" / "bin" / "python"), "")
    assert "torch==2.13.0" in calls[1]
    assert environments.prepared("torch", tmp_path, install) == first
    assert len(calls) == 2
    (tmp_path / "torch" / environments.STAMP).write_text("something else")
    environments.prepared("torch", tmp_path, install)
    assert len(calls) == 4
    python, problem = environments.prepared("jax", tmp_path, lambda line: "ERROR: no such package")
    assert python == ""
    assert "no such package" in problem
    assert not (tmp_path / "jax").exists()
    assert environments.call([sys.executable, "-c", "raise SystemExit('ERROR: broken')"]) == "ERROR: broken"


def test_memory_in_processes_of_their_own() -> None:
    (row,) = memory.measure("eager", turns=(20,))
    assert row["free"]["bytes"] > 20 * 2 * memory.ELEMENTS * 4
    assert row["limited"]["gradient"] == row["free"]["gradient"]


def test_memory_of_compiled_functions() -> None:
    (row,) = memory.measure("compiled", turns=(400,))
    # at least one vector for each turn without a limit; with one, the limit and what the computation itself needs
    assert row["free"]["bytes"] > 400 * memory.ELEMENTS * 4
    assert row["limited"]["bytes"] < 2 * memory.LIMIT
    assert row["limited"]["gradient"] == pytest.approx(row["free"]["gradient"], rel=1e-6)


def test_memory_run_that_takes_too_long_is_an_answer() -> None:
    first, second = memory.measure("eager", turns=(5, 6), patience=0.001)
    assert "longer than" in first["limited"]["error"]
    assert second == {"turns": 6}


def test_pictures_are_well_formed_and_the_page_shows_the_stored_results() -> None:
    tables, scaling = page.stored()
    text = (page.DOCS / "benchmarks.md").read_text()
    assert page.rendered(text, tables, scaling) == text, "run `python -m benchmarks.page`"
    for name, picture in page.pictures(tables, scaling).items():
        ET.fromstring(picture)
        assert (page.DOCS / "benchmarks" / name).read_text() == picture, "run `python -m benchmarks.page`"
    assert set(plots.COLORS) == set(run.PEERS)
