"""Exporting a model to other runtimes: not from this engine, and it says so."""

from __future__ import annotations

from typing import Any


class ExportRefusal:
    """Whatever is asked of it, it says why not, and what to do instead."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise NotImplementedError(
                "the gradtape engine exports no SavedModel, ONNX or LiteRT: save the model with `model.save('model.keras')`, "
                "load it in Keras on another backend (KERAS_BACKEND=tensorflow, jax or torch) and export it there"
            )

        return refuse


NumpyExportArchive = ExportRefusal  # what Keras calls the class that it finds in this seat
