"""Style and scripts of the pages the tools write, as files; `asset` reads them. Pages contain them, so they need no network."""

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The text of a file of this folder."""
    return (files(__name__) / name).read_text(encoding="utf-8")
