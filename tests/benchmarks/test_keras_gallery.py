"""The ten models of the gallery train on gradtape; that they do as on the peers is for `python -m benchmarks.keras_gallery`."""

from typing import Any

import pytest
from benchmarks.keras_gallery import MODELS

import gradtape as gt
from tests.keras import keras_or_none

keras: Any = keras_or_none()


@pytest.mark.skipif(keras is None, reason="Keras is not installed: pip install 'gradtape[keras]'")
@pytest.mark.parametrize("name", ["mlp", "gan", "siamese", "wgan_gp"])
def test_losses_fall(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gt.config.settings, "native", False)  # what machine code computes is tested elsewhere
    losses = MODELS[name](gt, keras)
    assert losses[-1] < 0.95 * losses[0]
