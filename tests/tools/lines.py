"""Lines of the test files themselves: reports must name exactly the line that carries a mark."""

from __future__ import annotations

from pathlib import Path


def line_of(file: str, mark: str) -> str:
    """ "file:line" of the only line with the comment `# <mark>`."""
    lines = [i for i, text in enumerate(Path(file).read_text().splitlines(), 1) if text.endswith(f"# {mark}")]
    assert len(lines) == 1, f"the mark {mark!r} stands {len(lines)} times"
    return f"{file}:{lines[0]}"
