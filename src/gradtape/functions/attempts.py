"""One trace of a Python function, and the attempts it may take: what a trace learns too late starts the next one.

Whoever asks for a program comes here; what a trace does with what it meets is the tracer's affair (`tracer.py`). Invariant: of
an attempt that ended nothing is left but what it learned, the variables it made, and the objects those are kept in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.ad.budget import limited
from gradtape.errors import InvalidArgumentError
from gradtape.functions.autograph.convert import convert
from gradtape.functions.building import Build, Building
from gradtape.functions.impure import consumable
from gradtape.functions.program import Program, finished
from gradtape.functions.staging.aliasing.aliases import FIXED, Restart
from gradtape.functions.staging.joins import JoinError
from gradtape.functions.tracer import Tracer, objects_of
from gradtape.ir.garbage import uncollected
from gradtape.trace.effects import TRACER, TRACING_VARIABLES
from gradtape.trace.tracing import tracing

MAX_RESTARTS = 20


def trace_program(
    function: Callable[..., Any], rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    specs: Sequence[Any], names: Sequence[str], *, autograph: bool = True, name: str = "f", memory_limit: int | None = None,
    backend: str | None = None,
) -> Program:  # fmt: skip
    """Trace a Python function for one signature.

    A first trace that creates variables (layers and optimizers do, once) keeps what it did and is made again.
    """
    lifted: set[Any] = set()
    building = Building()
    for _ in range(MAX_RESTARTS):
        tracer = Tracer(specs, names, name, lifted, building, concrete_inputs=not autograph)
        tracer.memory_limit, tracer.backend = memory_limit, backend
        built = building.done
        program = _attempt(tracer, function, rebuild, autograph, name)
        if program is None:
            continue
        if tracer.created:
            if built:
                raise ValueError(
                    f"{tracer.created_at}: the function {name} creates variables each time it is called (here: "
                    f"{tracer.created[0].name}); make them once, outside, or guard the creation: "
                    "`if self.v is None: self.v = gt.Variable(...)`"
                )
            continue
        if (refused := building.refuse(name, tracer.written)) is not None:
            raise refused
        building.settle(tracer.written)
        return program
    raise InvalidArgumentError(f"the function {name} could not be traced: its Python state keeps changing")


def _attempt(tracer: Tracer, function: Callable[..., Any], rebuild: Any, autograph: bool, name: str) -> Program | None:
    """One trace. None if it has to be made again: of what it did nothing is left but what it learned, for the next one."""
    token = TRACER.set(tracer)
    TRACING_VARIABLES.count += 1
    try:
        with tracing(tracer.trace), limited(tracer.memory_limit), uncollected():
            return _traced(tracer, function, rebuild, autograph)
    except Restart as restart:
        tracer.lifted.add(restart.key)
        tracer.logs[0].undo()
    except Build:
        tracer.lifted.clear()
        tracer.building.under_way = True
        tracer.undo()
    except BaseException as error:
        tracer.undo()
        if isinstance(error, Exception) and tracer.trials.again(error):
            return None
        if isinstance(error, Exception) and tracer.passes_numbers and FIXED not in tracer.lifted:
            # Python may need a number that is passed in and out (as text, as a key): then it is a constant, and guarded
            tracer.lifted.clear()
            tracer.lifted.add(FIXED)
            return None
        if isinstance(error, Exception) and (refused := tracer.building.refuse(name)) is not None:
            raise refused from error
        if isinstance(error, JoinError):
            raise InvalidArgumentError(str(error)).with_traceback(error.__traceback__) from None
        raise
    finally:
        TRACING_VARIABLES.count -= 1
        TRACER.reset(token)
        tracer.close()
    return None


def _traced(tracer: Tracer, function: Callable[..., Any], rebuild: Any, autograph: bool) -> Program:
    tracer.call_tensors = getattr(rebuild, "tensors", tuple)
    stand_ins = tracer.arguments_for(())
    args, kwargs = rebuild(stand_ins)
    for value, label in getattr(rebuild, "objects", ()):
        tracer.guards.label(value, label)
    for value in objects_of(function):
        tracer.guards.label(value, "self")
        tracer.known(value)
    for value in getattr(rebuild, "containers", ()):  # their items are arguments: part of the signature, not guarded
        tracer.guards.created(value)
    args = tuple([consumable(value, "an argument") for value in args])
    kwargs = {name: consumable(value, f"argument `{name}`") for name, value in kwargs.items()}
    for value in (*args, *kwargs.values()):
        tracer.known(value)
    run = convert(function) if autograph else function
    result = run(*args, **kwargs)
    program = finished(tracer, result, stand_ins, function, rebuild)
    program.notes += tracer.trials.report()
    return program
