"""From IR text to machine code in this process, for the CPU it runs on; objects are kept on disk between processes.

A module's object code is found by everything it depends on: its text, the versions of gradtape and LLVM, CPU and features,
the optimisation level; not by Python and NumPy, since what is known of their objects stands in the text. What native code needs
from outside (Python, NumPy, BLAS) it names; addresses are given when it is loaded, so an object from disk works in any
process. A fork waits until nobody compiles. What LLVM asserts of itself does not end the process (`guarding.py`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import llvmlite
import llvmlite.binding as llvm

from gradtape import config
from gradtape.backends import object_cache
from gradtape.backends.llvm.runtime import guarding
from gradtape.errors import InternalError

_LOCK = threading.RLock()
_STATE: dict[str, Any] = {}
MASKED = ".masked."  # in the names of functions that only the vectoriser calls
FRAME = "gt_kept_frame"  # what points to the memory of a program's values, kept from call to call
DATA = "gt_data_"  # names of arrays that are constants of programs; what follows is the digest of their bytes
REVISION = "4"  # of what is done to a module: object code on disk that was made in another way is not found
HUGE = 1_000_000  # characters of IR from which on nothing is unrolled and made to use vectors
LARGE = 400_000  # characters of IR from which on the passes are the cheaper ones, as for programs with little work


def held_by_forks(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """A fork takes a lock: else its child, which has no other thread, could find it taken for ever.

    Locks that are named later are taken first: they are those of modules that use this one while they have theirs.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


_LLVMS: Any = getattr(llvm.ffi.lib, "_lock", None)  # which llvmlite takes around each call, also those of the garbage collector
if _LLVMS is not None:
    held_by_forks(_LLVMS.__enter__, lambda: _LLVMS.__exit__(None, None, None))
held_by_forks(_LOCK.acquire, _LOCK.release)


def _target() -> llvm.Target:
    if "target" not in _STATE:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _STATE["cpu"] = llvm.get_host_cpu_name()
        _STATE["features"] = features = llvm.get_host_cpu_features().flatten()
        # LLVM avoids registers of 512 bits, since the first processors that had them ran slower while they were used.
        # Those with this later extension do not.
        _STATE["features"] += ",-prefer-256-bit" * ("+avx512vbmi2" in features)
        _STATE["target"] = llvm.Target.from_default_triple()
        _load_mathematics()
    return _STATE["target"]


def _load_mathematics() -> None:
    """Let modules name the functions of C's library of mathematics."""
    try:
        llvm.load_library_permanently("libm.so.6")
    except RuntimeError:
        # not Linux; to look for it may start a process, so that is not what is done first
        from ctypes.util import find_library

        llvm.load_library_permanently(find_library("m") or "libm.so.6")


def _machine(level: int) -> llvm.TargetMachine:
    key = f"machine{level}"
    if key not in _STATE:
        _STATE[key] = _fresh_machine(level)
    return _STATE[key]


def _fresh_machine(level: int) -> llvm.TargetMachine:
    target = _target()
    return target.create_target_machine(
        cpu=_STATE["cpu"], features=_STATE["features"], opt=level, reloc="pic", codemodel="jitdefault", jit=True
    )


def _llvms(name: str) -> int:
    """The address of a function of LLVM; called by it, it does not wait for llvmlite's lock, which is one for all contexts."""
    if "library" not in _STATE:
        _STATE["library"] = ctypes.CDLL(llvm.ffi.lib._name)
    return ctypes.cast(_STATE["library"][name], ctypes.c_void_p).value or 0


def _guard() -> guarding.Call:
    """What calls a function of LLVM by its address, so that it raises LLVMAbortError where it would end the process."""
    if "guard" not in _STATE:
        _STATE["guard"] = guarding.direct  # while the guard itself is compiled
        try:
            if guarding.available():
                library = _STATE["guard library"] = Library(guarding.text(), level=0)
                _STATE["guard"] = guarding.guarded(library.address("gt_guard"))
        except BaseException:
            del _STATE["guard"]
            raise
    return _STATE["guard"]


def _pointer(reference: Any) -> int:
    """The address of an object of LLVM."""
    return ctypes.cast(reference._ptr, ctypes.c_void_p).value or 0


def triple() -> str:
    """What LLVM calls the kind of machine this is."""
    return str(_machine(3).triple)


def processor() -> tuple[str, set[str]]:
    """What LLVM calls this processor, and the features it may use."""
    _target()
    return _STATE["cpu"], {name[1:] for name in _STATE["features"].split(",") if name.startswith("+")}


def vector_bytes() -> int:
    """The size of this machine's vector registers."""
    _target()
    features = _STATE["features"]
    return 64 if "+avx512f" in features else 32 if "+avx," in features else 16


def lanes() -> tuple[int, ...]:
    """How many numbers a vector in a loop may have: of float64, of float32, and half of that where full ones are avoided."""
    wide = vector_bytes() // 8
    return (wide, 2 * wide) if wide < 8 else (wide // 2, wide, 2 * wide)


def symbol(name: str, address: int) -> None:
    """Make an address known to all modules."""
    llvm.add_symbol(name, address)


def knows(name: str) -> bool:
    """Whether a module may name this: LLVM ends the process over a name that it cannot find."""
    return bool(llvm.address_of_symbol(name))


class Passes(NamedTuple):
    """Which of LLVM's passes run: those of `-O1` to `-O3`; whether loops and straight code are made to use vectors.

    At level 0 variables on the stack become registers, and that is all.
    """

    level: int
    loops: bool
    straight: bool

    def __str__(self) -> str:
        names = [name for name, used in (("loops", self.loops), ("straight code", self.straight)) if used]
        return f"-O{self.level}, vectors in {' and '.join(names) or 'nothing'}"


def attempts(level: int) -> tuple[Passes, ...]:
    """The passes for a level, then what is tried instead if LLVM breaks the module: each does less than the one before."""
    ways = [Passes(level, True, True), Passes(level, True, False), Passes(level, False, False)] if level > 1 else []
    return (*ways, Passes(1, False, False), Passes(0, False, False)) if level else (Passes(0, False, False),)


class CannotCompileError(InternalError):
    """LLVM fails on a module whatever is asked of it."""


def optimized(text: str, level: int = 3, ways: tuple[Passes, ...] = ()) -> tuple[llvm.ModuleRef, Passes]:
    """The module of a text after LLVM's passes, and which those were: the first of `ways`, by default all, that it survives.

    A module is valid before the passes, or it is our mistake; after them it may not be, as LLVM has mistakes of its own, and
    code generation asserts that it is. So it is verified again, and passes that break it, or abort, are left out.
    """
    with _LOCK:
        broken = ""
        for passes in ways or attempts(level):
            # parsed anew for each attempt: the passes of the one before have changed it
            module = _parsed(text, _machine(level or 1))
            module.verify()
            try:
                _run_passes(module, text, passes)
                module.verify()
            except (RuntimeError, guarding.LLVMAbortError) as error:
                broken = str(error)
                continue
            return module, passes
    raise CannotCompileError(f"LLVM accepts a module and refuses it when no pass has changed it: {broken}")


def compiled(text: str, level: int) -> tuple[bytes, Passes]:
    """A module as object code, and the passes it went through: less is tried where code generation aborts."""
    ways = attempts(level)
    with _LOCK:
        while True:
            module, passes = optimized(text, level, ways)
            try:
                # with fewer passes, code generation does less, too
                return _emitted(module, level or 1 if passes == attempts(level)[0] else passes.level), passes
            except guarding.LLVMAbortError as error:
                ways = ways[ways.index(passes) + 1 :]
                if not ways:
                    raise CannotCompileError(f"{error} whatever the passes were") from error


def _emitted(module: llvm.ModuleRef, level: int) -> bytes:
    maker, complaint, library = _machine(level), ctypes.c_char_p(), llvm.ffi.lib
    try:
        words = _pointer(maker), _pointer(module), True, ctypes.addressof(complaint)
        address = _guard()(_llvms("LLVMPY_TargetMachineEmitToMemory"), *words)
    except guarding.LLVMAbortError:
        _forget(module, module._context, maker)
        raise
    buffer = ctypes.cast(address, library.LLVMPY_TargetMachineEmitToMemory.restype)
    if not buffer:
        raise InternalError(f"LLVM makes no object code: {(complaint.value or b'').decode()}")
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def _forget(*references: Any) -> None:
    """Leave objects of LLVM as they are, for ever: it jumped out of a call that was at work on them."""
    for reference in references:
        reference.detach()
        for key in [key for key, kept in _STATE.items() if kept is reference]:
            del _STATE[key]


def _parsed(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """A module in a context of its own: what LLVM keeps of types, constants and metadata goes when the module goes."""
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


def _run_passes(module: llvm.ModuleRef, text: str, passes: Passes) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=passes.level)
    options.loop_vectorization, options.slp_vectorization = passes.loops, passes.straight
    options.loop_unrolling = options.loop_interleaving = passes.level > 1
    maker = _machine(passes.level)
    builder = llvm.create_pass_builder(maker, options)
    if passes.level:
        manager = builder.getModulePassManager()
    else:
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
    inlining = "vector-function-abi-variant" in text  # what the vectoriser calls in loops is to be inlined there
    if inlining:
        manager.add_always_inliner_pass()
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
    try:  # once: a builder that has run keeps the addresses of what ended with the run
        _guard()(_llvms("LLVMPY_RunNewModulePassManager"), _pointer(manager), _pointer(module), _pointer(builder))
    except guarding.LLVMAbortError:
        _forget(manager, module, module._context, builder, options, maker)
        raise
    _free(manager)
    builder.close()
    options.close()
    for function in module.functions if inlining else ():
        if MASKED in function.name and not function.is_declaration:  # nobody calls it any more: no code for it
            function.linkage = "available_externally"


def _free(manager: llvm.newpassmanagers.ModulePassManager) -> None:
    """End a pass manager and its passes, which hold about 0.1 MB.

    Its own `close` does not: of its two base classes, the one whose `_dispose` does nothing comes first.
    """
    llvm.newpassmanagers.NewPassManager._dispose(manager)
    manager.detach()


def level_of(length: int, heavy: bool) -> int:
    """How much is done about a program: the more it computes the more, the longer its code is the less."""
    return 1 if length >= HUGE else 3 if heavy and length < LARGE else 2


def key_of(text: str, level: int | str) -> str:
    """What names a module's object code on disk."""
    _target()
    if "makers" not in _STATE:
        _STATE["makers"] = config.VERSION, llvmlite.__version__, str(llvm.llvm_version_info), REVISION
    # all that the code depends on: a directory may be shared by machines and by versions of all of these
    parts = (*_STATE["makers"], _STATE["cpu"], _STATE["features"], str(level), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def object_code(text: str, level: int) -> tuple[bytes, Passes | None]:
    """A module as object code, and the passes it went through; None if it was on disk."""
    key = key_of(text, level)
    kept = object_cache.load(key)
    if kept is not None:
        return kept, None
    code, passes = compiled(text, level)
    object_cache.store(key, code)
    return code, passes


class StaticData:
    """The memory of an array that programs name; it lives as long as one of them does."""

    known: ClassVar[WeakValueDictionary[str, StaticData]] = WeakValueDictionary()  # by name

    def __init__(self, name: str, raw: bytes) -> None:
        self.memory = ctypes.create_string_buffer(len(raw) + 64)
        start = -(-ctypes.addressof(self.memory) // 64) * 64
        ctypes.memmove(start, raw, len(raw))
        symbol(name, start)
        self.known[name] = self


# by id: in here, where the garbage collector does not end an engine before the library that has to close it
_ENGINES: dict[int, llvm.ExecutionEngine] = {}
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_ENGINES))  # when the process ends, threads may still be running code


class Library:
    """Loaded machine code. Keep it as long as a function of it may run."""

    def __init__(self, text: str, level: int = 3, code: bytes | None = None, constants: Mapping[str, bytes] = {}) -> None:
        """Of a module's text; or of its object code, where that was found without the text."""
        with _LOCK:
            self._constants = [StaticData.known.get(name) or StaticData(name, raw) for name, raw in constants.items()]
            code, passes = (code, None) if code is not None else object_code(text, level)
            self.cached = passes is None
            self.weaker = None if passes in (None, attempts(level)[0]) else passes  # than asked for: LLVM broke the module
            # An engine is made of a module, and what is to be loaded is object code already: an empty one does. It is taken
            # out again, or LLVM would set up its code generator for it, which takes longer than all the rest.
            empty = llvm.parse_assembly("", llvm.create_context())
            empty.triple = triple()
            engine = llvm.create_mcjit_compiler(empty, _fresh_machine(level or 1))
            engine.remove_module(empty)
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
        self._key = id(engine)
        _ENGINES[self._key] = engine

    def address(self, name: str) -> int:
        """Where a function is; 0 if there is none of that name."""
        return int(_ENGINES[self._key].get_function_address(name))

    def close(self) -> None:
        """Free what calls have kept, and the code itself."""
        engine = None if _ENGINES is None else _ENGINES.pop(self._key, None)  # while the process ends, modules are empty
        if engine is None or ctypes is None:
            return
        kept = engine.get_global_value_address(FRAME)
        if kept:
            give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(llvm.address_of_symbol("gt_give_frame"))
            give(kept, None)
