"""`gradtape run`: the script's own behaviour, what the report says, and what is refused, in the same process."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from gradtape.core.observers import SESSION
from gradtape.tools import cli, report

HEAD = "import gradtape as gt\n"


class Ran:
    def __init__(self, status: int, out: str, err: str, report: Path) -> None:
        self.status, self.out, self.err = status, out, err
        self.html = report.read_text(encoding="utf-8") if report.is_file() else ""
        self.text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<(script|style).*?</\1>", "", self.html, flags=re.S)))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a program's text with `gradtape run`."""
    monkeypatch.chdir(tmp_path)

    def start(source: str, *arguments: str, options: tuple[str, ...] = ()) -> Ran:
        (tmp_path / "script.py").write_text(textwrap.dedent(source), encoding="utf-8")
        path = tmp_path / "report.html"
        path.unlink(missing_ok=True)
        state = (sys.argv, sys.path[:], sys.modules["__main__"])
        status = cli.main(["run", *options, "script.py", *arguments, "--report", str(path)])
        assert (sys.argv, sys.path, sys.modules["__main__"]) == state
        assert not SESSION.observers
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err, path)

    return start


# -- the script runs as it would without -------------------------------------------------------------------------------


def test_the_script_sees_what_python_gives_it(run: Any, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("name = 'found'")
    ran = run(
        """
        import sys, neighbour
        print(__name__, __file__, sys.argv, neighbour.name, sys.path[0])
        assert sys.modules["__main__"].__dict__ is globals()
        print("to stderr", file=sys.stderr)
        """,
        "a", "--flag", "b c",
    )  # fmt: skip
    assert ran.status == 0
    assert ran.out == f"__main__ {tmp_path / 'script.py'} ['script.py', 'a', '--flag', 'b c'] found {tmp_path}\n"
    assert ran.err.startswith("to stderr\n")


@pytest.mark.parametrize(
    ("ending", "status", "words"),
    [
        ("", 0, "exit status 0"),
        ("import sys; sys.exit()", 0, "exit status 0"),
        ("import sys; sys.exit(7)", 7, "exit status 7"),
        ("raise SystemExit('gave up')", 1, "gave up\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("import os; raise OSError(2, 'x')", 1, "FileNotFoundError: [Errno 2] x"),
    ],
)
def test_exit_status_and_report_however_it_ends(run: Any, ending: str, status: int, words: str) -> None:
    source = HEAD + "v = gt.Variable(2.0)\nwith gt.GradientTape() as tape:\n    y = v * v\nprint(float(tape.gradient(y, v)))\n"
    ran = run(source + ending)
    assert ran.status == status
    assert ran.out == "4.0\n"
    assert words in ran.err
    assert "1 gradient call" in ran.text
    if status:
        assert f"ended with status {status}" in ran.text


def test_the_traceback_is_the_scripts_own(run: Any, tmp_path: Path) -> None:
    ran = run("def f():\n    raise ValueError('no')\n\nf()\n")
    script = tmp_path / "script.py"
    before, _, after = ran.err.partition("ValueError: no\n")
    lines = [line for line in before.splitlines() if line.strip(" ~^")]  # some Pythons mark the place within the line
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{script}", line 4, in <module>',
        "    f()",
        f'  File "{script}", line 2, in f',
        "    raise ValueError('no')",
    ]
    assert after.startswith("gradtape run: script.py took")
    assert "ended with status 1: ValueError: no" in ran.text


def test_the_script_is_compiled_by_itself_and_keeps_its_place(run: Any, tmp_path: Path) -> None:
    """No `__future__` of ours, sources found after a change of folder, classes found by pickle."""
    (tmp_path / "elsewhere").mkdir()
    ran = run(
        """
        import inspect, os, pickle
        class Thing: x: int
        def f() -> int: return 1
        print(f.__annotations__, Thing.__annotations__)
        os.chdir("elsewhere")
        print(inspect.getsource(f).strip())
        print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
        """
    )
    assert ran.out == "{'return': <class 'int'>} {'x': <class 'int'>}\ndef f() -> int: return 1\nTrue\n"
    assert ran.html


def test_the_scripts_own_hook_shows_the_error(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    ran = run("import sys\nsys.excepthook = lambda kind, value, tb: print('hook', value)\nraise ValueError('no')")
    assert ran.out == "hook no\n"
    assert ran.status == 1


def test_a_script_that_is_not_python(run: Any) -> None:
    ran = run("x = = 1")
    assert ran.status == 1
    assert "SyntaxError: invalid syntax" in ran.err
    assert "runner.py" not in ran.err
    assert "The script made no GradientTape" in ran.err


def test_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "tool.py").write_text("import sys\nprint(__name__, __package__, sys.argv[1:])\nsys.exit(3)")
    monkeypatch.delitem(sys.modules, "package", raising=False)
    assert cli.main(["run", "-m", "package.tool", "a", "--report", "r.html"]) == 3
    captured = capsys.readouterr()
    assert captured.out == "__main__ package ['a']\n"
    assert "-m package.tool a took" in captured.err


def test_a_module_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "--report", "r.html", "-m", "no_such_module"]) == 1
    assert "No module named no_such_module" in capsys.readouterr().err


def test_in_a_process_of_its_own_nothing_else_is_printed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        HEAD + "import atexit, threading\natexit.register(print, 'at exit')\nv = gt.Variable(2.0)\n"
        "def work():\n    with gt.GradientTape() as tape:\n        y = v * v\n    print(float(tape.gradient(y, v)))\n"
        "threading.Thread(target=work).start()\nraise SystemExit(5)\n"
    )
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    ours = subprocess.run(
        [sys.executable, "-m", "gradtape.tools.cli", "run", str(script), "--report", "r.html"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode) == ("4.0\nat exit\n", 5)
    assert plain.stderr == ""
    assert re.fullmatch(
        r"gradtape run: \S+script\.py took .*, exit status 5\n  1 tape, 1 gradient call.*\n  report: \S+r\.html\n", ours.stderr
    )
    assert "1 gradient call" in (tmp_path / "r.html").read_text()


# -- arguments -----------------------------------------------------------------------------------------------------------


def test_report_may_stand_anywhere_unless_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("import sys\nprint(sys.argv[1:])")
    for arguments, seen, written in (
        (["s.py"], [], "gradtape_report.html"),
        (["--report", "a.html", "s.py", "x"], ["x"], "a.html"),
        (["s.py", "x", "--report=b.html", "y"], ["x", "y"], "b.html"),
        (["--report", "c.html", "s.py", "--report", "mine"], ["--report", "mine"], "c.html"),
        (["s.py", "--report", "d.html", "--", "--report", "mine"], ["--report", "mine"], "d.html"),
        (["--no-profile", "--no-pictures", "--report", "e.html", "s.py", "--no-profile"], ["--no-profile"], "e.html"),
    ):
        assert cli.main(["run", *arguments]) == 0
        assert capsys.readouterr().out == f"{seen}\n"
        assert (tmp_path / written).exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.py"], "gradtape run: there is no script 'none.py'\n"),
        (["."], "gradtape run: there is no script '.': it is a folder\n"),
        (["s.py", "--report"], "gradtape run: --report needs the name of a file\n"),
        (["s.py", "--report", "no/r.html"], "there is no folder"),
        (["s.py", "--report", "."], "it is a folder; give the name of a file in it"),
    ],
)
def test_what_cannot_work_is_told_before_the_script_runs(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("print('ran')")
    assert cli.main(["run", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_a_report_that_cannot_be_written_in_the_end(run: Any) -> None:
    ran = run("import os, sys\nos.mkdir(sys.argv[-1])", "report.html")
    assert ran.status == 1
    assert "the report could not be written: cannot write" in ran.err


# -- what the report says ------------------------------------------------------------------------------------------------


def test_a_script_without_tapes(run: Any) -> None:
    ran = run("print('hello')")
    assert (ran.status, ran.out) == (0, "hello\n")
    assert "The script made no GradientTape: there is nothing to report about derivatives." in ran.err
    assert "The script made no GradientTape , so there is nothing to report about derivatives." in ran.text


TRAINING = """
import gradtape as gt
import numpy as np

class Net:
    def __init__(self):
        self.w = gt.Variable(np.full((3, 2), 0.5, "f"))
        self.scale = gt.Variable(2.0)
        self.unused = gt.Variable(1.0)

    def __call__(self, x):
        return gt.tanh(x @ self.w) * float(self.scale)

net = Net()
x = gt.constant(np.ones((4, 3), "f"))
for step in range(12):
    with gt.GradientTape() as tape:
        loss = gt.reduce_mean(net(x) ** 2)
    found = tape.gradient(loss, [net.w, net.scale, net.unused])
    net.w.assign_sub(0.1 * found[0])
print("done")
"""


def test_gradients_nones_times_and_graph_of_a_training_loop(run: Any) -> None:
    ran = run(TRAINING)
    assert ran.out == "done\n"
    assert "12 tapes, 12 gradient calls" in ran.err
    assert "script.py:12: no gradient of loss with respect to net.scale (12 times): converted to python number" in ran.err
    assert "no gradient of loss with respect to net.unused (12 times)" in ran.err
    assert "became a Python number (float()) at" in ran.text
    assert re.search(r"script\.py:19 loss net\.w, net\.scale, net\.unused 12 12 24 0", ran.text)
    # how many tapes are drawn and measured depends on how quick the machine is just now: a report must not slow a script down
    assert re.search(r"graph of gradient call \d+ of 12", ran.text)
    measured = re.search(r"measured on (\d+) of 12 tapes", ran.text)
    assert measured is not None
    assert re.search(rf"script\.py:12 matmul {measured[1]} ", ran.text)
    assert ran.html.count('id="graph0"') == 1


def test_options_leave_out_times_and_graphs(run: Any) -> None:
    ran = run(TRAINING, options=("--no-profile", "--no-pictures"))
    assert "measured on" not in ran.text
    assert "graph of gradient call" not in ran.text
    assert "(12 times)" in ran.text


def test_the_origin_of_a_nan(run: Any) -> None:
    ran = run(
        HEAD
        + """
import warnings
warnings.simplefilter("ignore")
z = gt.Variable([1.0, -1.0])
with gt.GradientTape() as tape:
    root = gt.sqrt(z)
    total = gt.reduce_sum(root * 2.0)
tape.gradient(total, z)
"""
    )
    assert "! script.py:7: NaN or infinity: sqrt in the forward pass" in ran.err
    assert "the square root of a negative number is NaN" in ran.text


def test_retraces_with_reasons(run: Any) -> None:
    ran = run(
        HEAD
        + """
@gt.function
def power(x, n):
    return x ** n

v = gt.Variable(2.0)
for n in (1, 2, 3):
    with gt.GradientTape() as tape:
        y = power(v, n)
    tape.gradient(y, v)
"""
    )
    assert "retraced: power (3 traces)" in ran.err
    assert "first call" in ran.text
    assert "argument `n`: 2 → 3" in ran.text
    assert "power script.py:3 3 traces" in ran.text


def test_a_tape_inside_a_compiled_function(run: Any) -> None:
    ran = run(
        HEAD
        + """
v = gt.Variable([2.0, 3.0])
w = gt.Variable(1.0)

@gt.function
def step():
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(v * v)
    return tape.gradient(y, [v, w])

for _ in range(5):
    g, none = step()
print(g.numpy(), none)
"""
    )
    assert ran.out == "[4. 6.] None\n"
    assert "traced in a compiled function" in ran.text
    assert "1 tape, 1 gradient call" in ran.err
    assert "Looking at a tape failed" not in ran.text


def test_jacobians_persistent_tapes_and_tapes_that_are_never_asked(run: Any) -> None:
    ran = run(
        HEAD
        + """
v = gt.Variable([2.0, 3.0])
with gt.GradientTape(persistent=True) as tape:
    y = v * v
tape.jacobian(y, v)
tape.gradient(y, v)
with gt.GradientTape(persistent=True) as second:
    z = gt.reduce_sum(v ** 3)
second.hessian(z, v)
with gt.GradientTape() as forgotten:
    gt.sin(v)
"""
    )
    assert "3 tapes, 3 gradient calls" in ran.err
    assert "These tapes were never asked for a gradient." in ran.text
    assert ran.html.count("data-graph=") == 3
    assert "Looking at a tape failed" not in ran.text


def test_many_tapes_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import gradtape as gt

    collector = report.Collector()
    v = gt.Variable([1.0, 2.0])
    with collector.listening():
        for step in range(3000):
            with gt.GradientTape() as tape:
                y = gt.reduce_sum(v * v)
            tape.gradient(y, [v, gt.Variable(float(step))])
    del tape
    (entry,) = collector.made_at.values()
    assert (entry.tapes, entry.asks, collector.missing) == (3000, 3000, 3000)
    assert entry.profiled <= report.PROFILED + 3000 // 25 + 12
    assert entry.pictured == 2048
    assert len(collector._entries) == 0
    (call,) = entry.asked.values()
    assert [missing.count for missing in call.missing.values()] == [3000]
    assert not collector.problems


def test_many_lines_with_tapes_are_bounded() -> None:
    import gradtape as gt

    lines = ["v = gt.Variable(1.0)"]
    for _ in range(report.PLACES + 30):
        lines += ["with gt.GradientTape() as tape:", "    y = v * v", "tape.gradient(y, v)"]
    collector = report.Collector(profile=False, pictures=False)
    with collector.listening():
        exec("\n".join(lines), {"gt": gt})
    assert len(collector.made_at) == report.PLACES
    assert collector.left_out == 30
    assert collector.tapes == report.PLACES + 30


def test_what_goes_wrong_while_looking_is_reported_and_disturbs_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("broken <b>tool</b>")

    monkeypatch.setattr(report, "models", broken)
    ran = run(TRAINING)
    assert (ran.status, ran.out) == (0, "done\n")
    assert "looking at a tape failed; see the notes of the report" in ran.err
    assert "RuntimeError: broken &lt;b&gt;tool&lt;/b&gt;" in ran.html


def test_threads_of_the_script_are_waited_for(run: Any) -> None:
    ran = run(
        HEAD
        + """
import threading, time
v = gt.Variable(2.0)
def work():
    time.sleep(0.3)
    with gt.GradientTape() as tape:
        y = v * v
    print(float(tape.gradient(y, v)))
for _ in range(3):
    threading.Thread(target=work).start()
"""
    )
    assert ran.out == "4.0\n" * 3
    assert "3 tapes, 3 gradient calls" in ran.err
    assert threading.active_count() == 1 or not any(t.name.startswith("Thread") for t in threading.enumerate())


def test_a_forked_child_runs_on_and_writes_no_report(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nchild = os.fork()\nif child: os.wait()\nprint('parent' if child else 'child', flush=True)\n")
    command = [sys.executable, "-m", "gradtape.tools.cli", "run", str(script), "--report", "r.html"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "child\nparent\n"
    assert done.returncode == 0
    assert done.stderr.count("report:") == 1
    assert (tmp_path / "r.html").exists()


def test_no_text_of_the_users_becomes_markup(run: Any) -> None:
    ran = run(
        HEAD
        + """
v = gt.Variable(1.0, name="</script><img src=x>")
w = gt.Variable(1.0, name="<b>bold</b>")
with gt.GradientTape() as tape:
    y = v * v  # <i>comment</i>
tape.gradient(y, [v, w])
raise ValueError("<u>failed</u>")
""",
        "<s>argument</s>",
    )
    assert ran.status == 1
    for tag in ("<img", "<b>", "<i>", "<u>", "<s>"):
        assert tag not in ran.html
    assert ran.html.count("</script>") == ran.html.count("<script")
    assert "&lt;u&gt;failed" in ran.html


def test_progress_only_where_somebody_watches(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradtape.tools import runner

    monkeypatch.setattr(runner, "FIRST_WORD", 0.01)
    assert "so far" not in run("import time; time.sleep(0.05)").err

    class Terminal:
        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            pass

        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run("import sys, time\nwhile 'so far' not in sys.stderr.text: time.sleep(0.01)")
    assert re.search(r"gradtape run: \d+ s, 0 tapes, 0 gradient calls so far", terminal.text)
