"""Tools on several ranks: each names its rank, runs nothing on others, and the report shows what communication cost by line."""

import re
from pathlib import Path

import pytest

from gradtape.core.hooks import HOOKS
from gradtape.distribute.traffic import Amount, by_line, summary
from gradtape.tools.rank_labels import labelled, own_file, traffic, traffic_section
from tests.distribute.launching import ROOT, needs_ranks, run

SCRIPT = str(ROOT / "tests" / "distribute" / "tools_program.py")


@needs_ranks
def test_tools_name_the_rank_and_the_report_shows_communication(tmp_path: Path) -> None:
    report = str(tmp_path / "report.html")
    done = run(2, "-m", "gradtape.tools.cli", "run", "--report", report, SCRIPT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "slope of 0 [2.0, 1.0]" in done.stdout
    assert "slope of 1 [inf, 2.0]" in done.stdout
    for rank in (0, 1):
        label = re.escape(f"[rank {rank} of 2] ")
        assert re.search(label + "total: forward", done.stdout)
        assert re.search(label + "independent", done.stdout)
        assert re.search(label + "gradtape run: .* took", done.stderr)
        page = (tmp_path / f"report.rank{rank}.html").read_text()
        assert f"Communication of rank {rank} of 2" in page
        for operation in ("halo_exchange", "all_reduce sum"):
            assert re.search(rf"tools_program\.py:\d+</td><td>{operation}</td>", page)
    # rank 0 has finite values itself: what came from rank 1 is not; rank 1 knows the operation
    assert re.search(r"\[rank 0 of 2\] NaN report[\s\S]*?all_sum[\s\S]*?what another rank gave is not finite", done.stdout)
    assert re.search(r"\[rank 1 of 2\] NaN report[\s\S]*?op     log\n", done.stdout)
    assert re.search(r"imbalance: ranks wait for rank 1 in all_reduce sum at .*tools_program\.py:\d+", done.stderr)


def test_one_rank_adds_nothing() -> None:
    assert labelled("text") == "text"
    assert own_file("report.html") == "report.html"
    assert traffic() == []
    assert traffic_section([], 1.0) == ""


def test_labels_and_tables_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HOOKS.world, "rank", 1, raising=False)
    monkeypatch.setattr(HOOKS.world, "label", "rank 1 of 3", raising=False)
    assert labelled("text") == "[rank 1 of 3] text"
    assert own_file("a.b/report.html") == "a.b/report.rank1.html"
    place = ("all_reduce sum", "train.py:7")
    table = by_line([{place: Amount(2, 16, 0.5, 0.1)}, {place: Amount(2, 16, 0.1, 0.2)}, {}], 1)
    assert [(one.own.calls, one.waited, one.last, one.imbalance) for one in table] == [(2, [0.5, 0.1, 0.0], 2, 0.5)]
    page = traffic_section(table, 1.0)
    assert "<td>train.py:7</td><td>all_reduce sum</td><td>2</td><td>16</td><td>100.00 ms</td><td>200.00 ms</td>" in page
    assert summary(table, 1.0) == [
        "communication: 0.3 s (30%), 0.1 s of it waiting for other ranks; 1.6e-05 MB in 2 calls",
        "imbalance: ranks wait for rank 2 in all_reduce sum at train.py:7, 0.5 s",
    ]
