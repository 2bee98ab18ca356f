"""One file of named arrays and a JSON description, in the safetensors format: written whole or not at all.

Writing goes to a temporary file in the same directory, which replaces the old one only when it is complete on the disk.
Reading parses data, never code, and verifies a checksum over names, types and values before giving anything out. What
the arrays belong to is decided in `checkpoint.py` and `saving.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradtape.core.hooks import HOOKS
from gradtape.dtypes import bfloat16
from gradtape.errors import DataLossError, FailedPreconditionError, NotFoundError

_LONG = 24 * 3600.0  # seconds after which a file that another machine was writing counts as abandoned
_KEY = "gradtape"  # of our JSON text among the file's metadata
_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "saving and loading need the package safetensors: pip install safetensors (or pip install 'gradtape[checkpoint]')"
        ) from None
    return safetensors


def write_file(path: str, arrays: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    """Write arrays and a JSON-able description to `path`, replacing what is there at once or not at all."""
    import json  # only those who save pay for its import

    library = _safetensors()
    stored, complex_names = {}, {}
    for name, array in arrays.items():
        array = np.asarray(array)
        # `ascontiguousarray` makes a row of a scalar; the shape is put back.
        array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.kind == "c":  # the format has no double complex: real and imaginary parts along a last axis
            complex_names[name] = array.dtype.name
            array = array[..., None].view(array.real.dtype)
        elif array.dtype.kind == "O":
            raise TypeError(f"'{name}' holds strings or objects; only numbers and Python strings can be saved")
        stored[name] = array
    text = json.dumps({"version": 1, "complex": complex_names, "content": description}, sort_keys=True)
    metadata = {_KEY: text, "checksum": _checksum(stored, text)}
    raw = library.numpy.save(stored, metadata)
    replace_file(path, lambda file: file.write(raw))


def replace_file(path: str, write: Callable[[Any], Any]) -> None:
    """Let `write` fill a temporary file, then put it at `path` in one step; on any failure the old file stays."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise NotFoundError(f"cannot write {path}: the directory {directory} does not exist")
    temporary = os.path.join(directory, f".{os.path.basename(path)}.{_writer()}-{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            # The bytes must be on the disk before the name points to them: a machine that stops in between keeps the old file.
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_directory(directory)


def on_first_rank(write: Callable[[], None]) -> None:
    """Several ranks share a directory: the first one writes there, and the others go on when it has; all fail if it does."""
    world, error = HOOKS.world, None
    world.meet("the saving of a checkpoint (all ranks call it, rank 0 writes)")
    if world.rank == 0:
        try:
            write()
        except Exception as cause:  # raised below, when the other ranks have been told
            error = cause
    failed = world.size > 1 and world.broadcast(np.array(error is not None), 0)
    if error is not None:
        raise error
    if failed:
        raise FailedPreconditionError("rank 0, which writes checkpoints for all ranks, could not write this one; it says why")


def _writer() -> str:
    """This process, as a part of file names: its machine and its number there."""
    import socket  # only those who save pay for these imports
    import zlib

    return f"{zlib.crc32(socket.gethostname().encode()):08x}-{os.getpid()}"


def remove_abandoned(directory: str) -> None:
    """Delete temporary files that a process which was killed has left in a directory."""
    for name in os.listdir(directory or "."):
        parts = name.removesuffix(".tmp").rpartition(".")[2].split("-")
        if name.startswith(".") and name.endswith(".tmp") and len(parts) == 3 and parts[1].isdigit() and len(parts[2]) == 16:
            path = os.path.join(directory, name)
            try:
                if _is_abandoned(path, parts[0], int(parts[1])):
                    os.unlink(path)
            except FileNotFoundError:  # another process was faster
                continue


def _is_abandoned(path: str, machine: str, process: int) -> bool:
    """Whether the writer of a temporary file is gone: known on the same machine, elsewhere a matter of time."""
    if os.name != "posix" or machine != _writer().partition("-")[0]:
        return time.time() - os.path.getmtime(path) > _LONG
    if process == os.getpid():
        return False  # another thread is writing it
    try:
        # Signal 0 is never delivered: the system only says whether there is such a process.
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _sync_directory(directory: str) -> None:
    """Make the renaming itself durable, where the system lets a directory be opened."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_file(path: str) -> tuple[dict[str, Any], Any]:
    """The arrays and the description of a file, after its checksum was found right; of another program's file, the arrays."""
    import json

    library = _safetensors()
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no checkpoint file {path}") from error
    try:
        entries = library.deserialize(raw)
        # The library does not give the metadata when it reads from memory: the header is JSON, with its length before it.
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    except (library.SafetensorError, ValueError) as error:
        raise DataLossError(f"{path} is damaged, or not a safetensors file: {error}") from error
    metadata = header.get("__metadata__", {})
    stored = {name: _array(entry, name, path) for name, entry in entries}
    if _KEY not in metadata:
        return stored, {"kind": "foreign"}
    if metadata.get("checksum") != _checksum(stored, metadata[_KEY]):
        raise DataLossError(f"{path} is damaged: its checksum does not match its contents")
    text = json.loads(metadata[_KEY])
    if text["version"] != 1:
        raise DataLossError(f"{path} was written by a newer gradtape (format {text['version']}); upgrade to read it")
    for name, dtype in text["complex"].items():
        stored[name] = stored[name].view(dtype)[..., 0]
    content = text["content"]
    if "shards" in content:  # parts of large arrays in files of their own (`distribute/rank_checkpoints.py`)
        parts = [read_file(os.path.join(os.path.dirname(path), name))[0] for name in content["shards"]]
        for name, shape in content["shapes"].items():
            stored[name] = np.concatenate([part[name] for part in parts]).reshape(shape)
    return stored, content


def _array(entry: Any, name: str, path: str) -> Any:
    kind = entry["dtype"]
    if kind == "BF16":
        dtype: Any = bfloat16.dtype
    elif kind in _TYPES:
        dtype = np.dtype(_TYPES[kind])
    else:
        raise DataLossError(f"{path}: '{name}' has type {kind}, which gradtape does not have")
    return np.frombuffer(bytes(entry["data"]), dtype).reshape(entry["shape"])


def _checksum(arrays: Mapping[str, Any], text: str) -> str:
    import zlib

    total = zlib.crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        # Names, types and shapes count too: the same bytes under another name are another checkpoint.
        total = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), total)
        total = zlib.crc32(array.tobytes(), total)
    return f"{total:08x}"
