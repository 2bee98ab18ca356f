"""The reference is complete: every public name has words for each argument, a gradient if it has one, an example that ran."""

from __future__ import annotations

import pytest
from docs._ext.reference import entries
from docs._ext.reference_pages import chapters, entry_text


@pytest.mark.parametrize("name", list(entries()))
def test_entry_is_complete(name: str) -> None:
    entry = entries()[name]
    assert not entry.missing, f"{name} lacks {', '.join(entry.missing)}"
    assert entry.summary in entry_text(entry)


def test_every_name_is_in_one_chapter() -> None:
    listed = [entry.name for chapter in chapters().values() for entry in chapter]
    assert sorted(listed) == sorted(entries())


def test_a_gap_would_be_seen() -> None:
    from dataclasses import replace

    def nameless(some_argument):  # type: ignore[no-untyped-def]
        pass

    entry = replace(entries()["gt.sin"], value=nameless, owner=None)
    assert {"words for the argument 'some_argument'", "a summary", "an example"} <= set(entry.missing)


def test_gradients_are_said_as_the_rule_has_them() -> None:
    assert "∂/∂x = `cos(x)`" in (entries()["gt.sin"].gradient or "")
    assert (entries()["gt.argmax"].gradient or "").startswith("none: positions")
