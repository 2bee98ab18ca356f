"""A rank that fails, ends, is killed or does something else than the others: all end within seconds, a message says who."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.tools import cli
from tests.distribute.launching import ROOT, mpiexec, needs_ranks, run, start
from tests.harness.process import PATIENCE

PROGRAMS = "tests.distribute.failing_programs"
HERE = r"tests[/\\]distribute[/\\]failing_programs\.py:\d+"


SAME = "the ranks do not call the same operation: "
STUCK = "all ranks wait for one another: "
CASES = {
    "raises": rf"\[rank 1 of 2 failed at .*{HERE}\][\s\S]*ValueError: rank one gives up",
    "ends_early": rf"rank 0 waits in all_reduce sum of float32\[\] at .*{HERE} for rank 1, which has come to the end",
    "exits": r"rank 0 waits in all_reduce sum of float32\[\] at .* for rank 1, which has come to the end",
    "compiled_raises": r"\[rank 1 of 2 failed at .*\][\s\S]*ValueError: rank one gives up",
    "compiled_ends_early": rf"rank 0 waits in a compiled program \(.*\) at .*{HERE} for rank 1, which has come to the end",
    "number_that_differs": r"on rank \d the target is \S+, on another rank it is not\. It was computed from",
    "other_operation": rf"{SAME}rank 0 calls all_reduce sum of float64\[3\] at .*{HERE}; rank 1 calls broadcast from 0 ",
    "other_shape": rf"{SAME}rank 0 calls all_reduce sum of float64\[3\] at .*; rank 1 calls all_reduce sum of float64\[4",
    "other_dtype": rf"{SAME}rank 0 calls all_reduce sum of float64\[3\] at .*; rank 1 calls all_reduce sum of float32",
    "other_dtype_of_a_message": rf"rank 1 calls recv from 0 of float32\[3\] at .*{HERE}, but rank 0 calls send to 1 of f",
    "message_and_sum": rf"{STUCK}rank 0 in all_reduce sum of float64\[3\] at .*{HERE}; rank 1 in recv from 0 .*{HERE}",
    "message_nobody_takes": rf"messages were sent to rank 1 that it did not receive: rank 0's send to 1 .*{HERE}",
    "other_program": rf"{SAME}rank 0 calls a compiled program \(all_sum of .*\) at .*{HERE}; rank 1 .*all_stack of .*{HERE}",
    "other_shape_in_a_program": rf"{SAME}rank 0 calls .* \(scan 4\(all_sum of float64\[3\]\)\) at .*{HERE}; rank 1 .*\[4\]",
    "other_length": rf"{STUCK}rank 0 in the end of a compiled program after 5 op.*; rank 1 in all_sum of float64.*{HERE}",
    "other_turns": rf"{SAME}rank 0 calls the end of a compiled program after 10 operations between ranks .*{HERE}",
    "assigned_without_aggregation": r"assign: inside Strategy.run, variable '\S+' would get a value that may differ",
    "local_gradient": r"apply_gradients: inside Strategy.run, the gradient of variable '\S+' may differ between replicas",
    "backward_pass_raises": rf"{SAME}rank 0 calls all_reduce max of int32\[3\] at .*{HERE}; rank 1 calls all_reduce max of int",
    "saves_alone": rf"{SAME}rank 0 calls the saving of a checkpoint \(all ranks call it.*{HERE}; .* none behind `if rank",
    "more_ranks_than_rows": r"the first batch has 1 rows for 2 replicas, .*; start at most 1 ranks, or make batches larger",
    "busy": r"\[rank 1 of 2 ends all; nothing was heard in 3 s of rank 0, which computes or is inside of MPI\]",
    "failure_is_caught": rf"rank 0 waits in all_sum of float64.*{HERE} for rank 1, which has come to the end of its program "
    r"\(rank 1 has left a compiled program in the middle",
    "caught_failure_goes_on": rf"{STUCK}rank 0 in all_sum of float64.*{HERE}; rank 1 in all_reduce .*{HERE} \(rank 1 has left",
}


# of these one rank came to its end, or could not hear; of all others both say in their own words how it went
ONE_SPEAKS = (
    "ends_early", "exits", "compiled_ends_early", "message_nobody_takes", "other_dtype_of_a_message", "busy",
    "failure_is_caught",
)  # fmt: skip
QUICK = ("raises", "ends_early", "other_shape", "message_and_sum", "other_program", "other_turns")


@needs_ranks
@pytest.mark.parametrize("name", CASES)
def test_all_ranks_end_with_a_message(name: str, request: pytest.FixtureRequest) -> None:
    if name not in QUICK and request.config.getoption("programs") <= 200:
        pytest.skip("each starts a world of its own: a matter of `make test-all`")
    done = run(2, "-m", PROGRAMS, name)
    assert done.returncode != 0
    assert re.search(CASES[name], done.stderr), done.stderr[-3000:]
    assert "numbers" not in done.stdout
    spoke = set(re.findall(r"\[rank (\d) of 2 failed", done.stderr))
    assert len(spoke) == (1 if name in ONE_SPEAKS else 2), done.stderr[-3000:]


PARTING = "tests.distribute.parting_programs"
PLACES = ("eager", "program", "loop", "backward", "messages", "message_loop")
WAYS = ("operation", "shape", "dtype", "skips", "returns", "raises", "caught", "exits", "leaves", "killed", "computes")
SAMPLE = (("loop", "dtype"), ("message_loop", "caught"), ("messages", "operation"), ("eager", "leaves"))  # of `make test`
SOON = 3.0  # seconds, and as many more for a busy machine


@needs_ranks
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_ranks_that_part_are_told_within_seconds(place: str, way: str, request: pytest.FixtureRequest) -> None:
    """One rank does something else, in every place where ranks meet: all end soon, and it is said who, where."""
    thorough = request.config.getoption("programs") > 200
    if (place, way) not in SAMPLE and not thorough:
        pytest.skip("each starts a world of its own: a matter of `make test-all`")
    done = run(2, "-m", PARTING, place, way)
    ended, parted = time.time(), re.search(r"parts ([\d.]+)", done.stdout)
    assert done.returncode != 0
    line = r"parting_programs\.py:\d+"
    killed = rf"\[rank \d of 2 was killed, and so all were ended; .*{line}"
    pattern = rf"RankError: .*rank \d .* at .*{line}"
    if way in ("raises", "computes"):
        pattern = rf"\[rank 1 of 2 failed at .*{line}\][\s\S]*rank one gives up"
    elif way == "leaves":
        pattern = killed.replace("was killed", r"left with os\._exit\(3\)")
    elif way == "killed":
        pattern = killed
    elif way == "dtype" and "message" not in place:
        pattern += r"[\s\S]* of float32\[3\]"
    assert re.search(pattern, done.stderr), done.stderr[-3000:]
    # (a stopwatch needs a machine of its own: `make test` waits as long as for any process)
    assert not thorough or parted is None or ended - float(parted[1]) < 2 * SOON, done.stderr[-3000:]
    spoke = re.findall(r"\[rank (\d) of 2 failed", done.stderr)
    assert len(spoke) == len(set(spoke))  # each once


@needs_ranks
def test_an_error_of_all_ranks_may_be_caught() -> None:
    done = run(2, "-m", PROGRAMS, "all_catch")
    assert done.returncode == 0, done.stderr[-2000:]
    assert sorted(done.stdout.split()) == sorted(["caught", "log", "0.6931471805599453"] * 2)


@needs_ranks
def test_a_slow_rank_is_waited_for(request: pytest.FixtureRequest) -> None:
    """In a program, at the end of one whose turns values decide, and when it comes late to an error that all have."""
    if request.config.getoption("programs") <= 200:
        pytest.skip("it sleeps for a quarter of a minute: a matter of `make test-all`")
    done = run(2, "-m", PROGRAMS, "slow")
    assert done.returncode == 0, done.stderr[-2000:]
    assert sorted(done.stdout.split()) == sorted(["caught", "14.0"] * 2)


@needs_ranks
def test_debug_mode_finds_the_operation_of_a_program() -> None:
    done = run(2, "-m", PROGRAMS, "other_shape_in_a_program", GRADTAPE_DEBUG_RANKS="1")
    assert re.search(rf"{SAME}rank 0 calls all_reduce sum of float64\[3\] at .*; rank 1 calls all_reduce sum", done.stderr)


@needs_ranks
def test_a_killed_rank_ends_all() -> None:
    process = start(2, "-u", "-m", PROGRAMS, "sleeps")
    assert process.stdout is not None
    os.kill(int(process.stdout.readline()), signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0


@needs_ranks
@pytest.mark.skipif(not hasattr(select, "epoll"), reason="who dies first is seen on Linux only")
@pytest.mark.parametrize("starter", [[str(mpiexec())], [sys.executable, "-m", "gradtape.tools.cli", "launch"]], ids=str)
def test_it_is_said_who_was_killed_and_where(starter: list[str], tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(
        "import os, signal, sys\nimport gradtape as gt\nfor i in range(9):\n    gt.distribute.all_reduce(1.0)\n"
        "    if i == 5 and gt.distribute.rank() == 1:\n"
        "        os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == 'killed' else sys.exit('gives up')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = {}
    for way in ("killed", "ends"):
        command = [*starter, "-n", "2", *([] if len(starter) > 1 else [sys.executable]), str(script), way]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE)
        assert done.returncode != 0
        said[way] = done.stderr
    assert re.search(
        r"\[rank 1 of 2 was killed, and so all were ended; .* all_reduce sum of float32\[\] at .*dies.py:4\]", said["killed"]
    )
    assert "was killed" not in said["ends"]  # it has spoken, or who waits for it has


@needs_ranks
@pytest.mark.parametrize("seed", [0, 1])
def test_a_killed_run_resumes(seed: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Killed at some moment, often while a checkpoint is written, and started again on another number of ranks."""
    thorough = request.config.getoption("programs") > 200
    if not seed and not thorough:
        pytest.skip("starts three worlds: a matter of `make test-all`; with parts of arrays beside the file it runs here")
    random = np.random.default_rng(seed)
    whole = _result(run(1, "-m", PROGRAMS, "trains", str(tmp_path / "undisturbed")).stdout)
    for turn in range(25 if thorough else 1):
        state = str(tmp_path / f"state{turn}")
        shards = ["sharded"] if turn % 2 or seed else []
        process = start(2, "-u", "-m", PROGRAMS, "trains", state, *shards)
        assert process.stdout is not None
        pid = [process.stdout.readline() for _ in range(random.integers(1, 12))][-1]
        time.sleep(random.uniform(0, 0.01))
        os.kill(int(pid), signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        assert process.returncode != 0
        resumed = run(3, "-m", PROGRAMS, "trains", state, *shards)
        assert resumed.returncode == 0, resumed.stderr[-2000:]
        np.testing.assert_allclose(_result(resumed.stdout), whole, rtol=1e-10)
        beside = [path.name for path in tmp_path.iterdir() if path.name.startswith(f"state{turn}.shard-")]
        assert len(beside) == (3 if shards else 0), beside  # parts of the last checkpoint only


def _result(text: str) -> list[float]:
    line = next(line for line in text.splitlines() if line.startswith("result"))
    return [float(number) for number in line.removeprefix("result").strip(" []").split(",")]


def test_without_a_launcher_there_is_one_rank() -> None:
    assert (gt.distribute.rank(), gt.distribute.size()) == (0, 1)
    code = "import gradtape as gt, sys; gt.distribute.all_reduce(1.0); print('mpi4py' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"


def test_a_missing_mpi_is_said() -> None:
    code = "import sys; sys.modules['mpi4py'] = None; import gradtape as gt; gt.distribute.rank()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PMI_SIZE": "4"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "4 processes were started together to run this program, but they cannot talk to one another" in done.stderr
    assert 'pip install "gradtape[mpi]" mpich' in done.stderr


@needs_ranks
def test_processes_that_do_not_know_one_another_are_no_ranks() -> None:
    """As with `srun` without --mpi, or the mpiexec of another MPI: each was rank 0 of 1, and trained by itself."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SLURM_STEP_NUM_TASKS": "2"}
    code = "import gradtape as gt; gt.distribute.rank()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "2 processes were started together to run this program, but each finds itself alone" in done.stderr
    assert "srun --mpi=pmi2" in done.stderr


@needs_ranks
def test_the_launcher_labels_what_ranks_print(tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text(
        "import sys, gradtape as gt\nrank = gt.distribute.rank()\n"
        "print('rank', rank, 'of', gt.distribute.size(), sys.argv[1:])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "gradtape.tools.cli", "launch", "-n", "2", str(script), "--rate", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
    assert re.search(r"0\D*rank 0 of 2 \['--rate', '3'\]", done.stdout)
    assert re.search(r"1\D*rank 1 of 2 \['--rate', '3'\]", done.stdout)


def test_the_launcher_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["launch", "-n", "0", "x.py"]) == 2
    assert "-n must be at least 1" in capsys.readouterr().err
    assert cli.main(["launch", "nowhere.py"]) == 2
    assert "there is no file nowhere.py" in capsys.readouterr().err
