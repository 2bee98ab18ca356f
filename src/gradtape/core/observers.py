"""Who looks on: the tools by name, observers of the process, observers of one tape.

Lower rooms may not import the tools, so they ask this table, which `gradtape/tools/__init__.py` fills when the first tool is
used; a tool's module is imported when it is first used, too. Invariant: a tape nobody observes pays nothing for this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gradtape.core.record import Record


class Tools:
    """Name of a tool → the function that does it, imported at first use."""

    __slots__ = ("_loaded", "_places")

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, str]] = {}
        self._loaded: dict[str, Callable[..., Any]] = {}

    def fill(self, places: dict[str, tuple[str, str]]) -> None:
        """Called once, by the package of the tools: name → (module, function)."""
        self._places.update(places)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        tool = self._loaded.get(name)
        if tool is None:
            import_module("gradtape.tools")  # `import gradtape` does not load it: it fills this table
            module, function = self._places[name]
            tool = self._loaded[name] = getattr(import_module(module), function)
        return tool


TOOLS = Tools()


class SessionObserver(Protocol):
    """Who hears of every tape of the process. Tapes are typed Any: their class is defined in a room that imports this one."""

    def tape_made(self, tape: Any) -> None:
        """A tape exists."""

    def asked(self, tape: Any, targets: Sequence[Any], sources: Sequence[Any], answers: Sequence[Any]) -> None:
        """A gradient was computed; a one-shot tape has not freed its values yet. The structures are flat."""

    def released(self, tape: Any) -> None:
        """A tape is about to forget its records."""

    def traced(self, name: str, function: Callable[..., Any], number: int, reasons: Sequence[Any], seconds: float) -> None:
        """A compiled function was traced."""


class Session:
    """Those who want to hear of every tape of the process (`gradtape run`); nobody, ordinarily."""

    __slots__ = ("observers",)

    def __init__(self) -> None:
        self.observers: list[SessionObserver] = []


SESSION = Session()


class Later:
    """A report that takes long to make: `make()` does it when somebody asks. Until then the tape keeps its values."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class TapeObserver:
    """Who looks at one tape (`tape.add_observer`): told what it does, when it does it. Subclasses override what they need."""

    def fresh(self) -> None:
        """The tape begins anew: nothing recorded so far counts."""

    def entered(self) -> None:
        """The tape's block begins, in this thread."""

    def left(self) -> None:
        """The tape's block ends."""

    def recorded(self, record: Record, inputs: Sequence[Any], nodes: Sequence[Record | None], out: Any) -> None:
        """One operation was recorded; `inputs` are bare arrays, `out` a tensor or a tuple of tensors."""

    def asked(self, records: Sequence[Record]) -> None:
        """A backward pass over these records begins."""

    def prepare(self, record: Record) -> None:
        """The rules of this record are about to run."""

    def answered(self) -> None:
        """The backward pass has ended."""
