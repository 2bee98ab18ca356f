import functools
import importlib.util
from types import ModuleType


@functools.cache
def keras_or_none() -> ModuleType | None:
    """Keras on gradtape; None where Keras is not installed."""
    if importlib.util.find_spec("keras") is None:
        return None
    import gradtape as gt

    return gt.keras
