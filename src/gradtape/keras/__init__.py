"""Keras 3 on gradtape: importing this package makes gradtape the engine of Keras, and gives Keras's own names.

`import gradtape.keras` (or `gt.keras`) must come before `import keras`; from then on both mean the same Keras. How gradtape
takes its place there is in `installation.py`, and nowhere else. This file only delegates: every public name is Keras's.

>>> import gradtape as gt
>>> gt.keras.backend.backend()
'gradtape'
"""

from types import ModuleType
from typing import Any

from gradtape.keras.installation import install

_keras: ModuleType = install()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_keras, name)


def __dir__() -> list[str]:
    return sorted({*dir(_keras), *globals()})
