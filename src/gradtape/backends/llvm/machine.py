"""From IR text to machine code in this process: one LLVM context for the host CPU.

`build(text)` gives the addresses of a module's functions. Objects stay loaded as long as their `Library` lives.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import threading
from typing import Any

import llvmlite.binding as llvm

_LOCK = threading.RLock()
_STATE: dict[str, Any] = {}


def _target() -> Any:
    if "target" not in _STATE:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        _STATE["cpu"] = llvm.get_host_cpu_name()
        _STATE["features"] = llvm.get_host_cpu_features().flatten()
        _STATE["target"] = target
        llvm.load_library_permanently(ctypes.util.find_library("m") or "libm.so.6")
    return _STATE["target"]


def _machine(level: int) -> Any:
    key = f"machine{level}"
    if key not in _STATE:
        target = _target()
        _STATE[key] = target.create_target_machine(
            cpu=_STATE["cpu"], features=_STATE["features"], opt=level, reloc="pic", codemodel="jitdefault", jit=True
        )
    return _STATE[key]


def symbol(name: str, address: int) -> None:
    """Make an address known to all modules."""
    llvm.add_symbol(name, address)


def optimized(text: str, level: int = 3) -> Any:
    """The module of a text after LLVM's passes."""
    with _LOCK:
        machine = _machine(level)
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = True
        options.slp_vectorization = True
        options.loop_unrolling = True
        options.loop_interleaving = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return module


class Library:
    """Loaded machine code. Keep it as long as a function of it may run."""

    def __init__(self, text: str, level: int = 3) -> None:
        with _LOCK:
            machine = _machine(level)
            self.module = optimized(text, level)
            empty = llvm.parse_assembly("")
            empty.triple = machine.triple
            self._engine = llvm.create_mcjit_compiler(empty, _fresh_machine(level))
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(machine.emit_object(self.module)))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        return int(self._engine.get_function_address(name))

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """A Python callable that runs a function without the GIL."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))


def _fresh_machine(level: int) -> Any:
    """An engine takes its machine over."""
    target = _target()
    return target.create_target_machine(
        cpu=_STATE["cpu"], features=_STATE["features"], opt=level, reloc="pic", codemodel="jitdefault", jit=True
    )
