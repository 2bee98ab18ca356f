"""Frames, windows and short-time transforms against SciPy and against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import gradtape as gt

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(length, periodic):
    # an odd window is symmetric whatever is asked for, as in TensorFlow
    symmetric = not periodic or length % 2 == 1
    for name in ("hann", "hamming"):
        ours = getattr(gt.signal, f"{name}_window")(length, periodic, gt.float64)
        np.testing.assert_allclose(ours, scipy.signal.get_window(name, length, fftbins=not symmetric), atol=1e-12)
    np.testing.assert_allclose(gt.signal.kaiser_window(length, 8.0, gt.float64), np.kaiser(length, 8.0), atol=1e-12)


def test_windows_whose_squares_add_up_to_one():
    for window in (gt.signal.vorbis_window, gt.signal.kaiser_bessel_derived_window):
        w = window(16, dtype=gt.float64).numpy()
        np.testing.assert_allclose(w[:8] ** 2 + w[8:] ** 2, np.ones(8), atol=1e-12)


def test_stft_of_each_frame():
    x = RNG.normal(size=(2, 50))
    ours = gt.signal.stft(x, 16, 5, 32).numpy()
    window = scipy.signal.get_window("hann", 16)
    for k in range(ours.shape[1]):
        np.testing.assert_allclose(ours[:, k], np.fft.rfft(x[:, 5 * k : 5 * k + 16] * window, 32), atol=1e-12)
    assert ours.shape == (2, (50 - 16) // 5 + 1, 17)
    assert gt.signal.stft(x, 16, 5, pad_end=True).shape == (2, 10, 9)


@pytest.mark.parametrize(("length", "step"), [(16, 4), (16, 5), (15, 5)])
def test_inverse_stft(length, step):
    x = RNG.normal(size=80)
    inverse = gt.signal.inverse_stft_window_fn(step)
    back = gt.signal.inverse_stft(gt.signal.stft(x, length, step), length, step, window_fn=inverse).numpy()
    inner = slice(length, len(back) - length)
    np.testing.assert_allclose(back[inner], x[: len(back)][inner], atol=1e-12)


def test_overlap_and_add_against_a_loop():
    frames = RNG.normal(size=(3, 5, 7))
    for step in (1, 2, 3, 7, 9):
        expected = np.zeros((3, 4 * step + 7))
        for k in range(5):
            expected[:, k * step : k * step + 7] += frames[:, k]
        np.testing.assert_allclose(gt.signal.overlap_and_add(frames, step), expected, atol=1e-12)


def test_signals_of_a_length_known_at_run_time():
    @gt.function(input_signature=[gt.TensorSpec([None], gt.float64)])
    def power(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.abs(gt.signal.stft(x, 8, 3)) ** 2)
        return y, tape.gradient(y, x)

    def eager(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.abs(gt.signal.stft(x, 8, 3)) ** 2)
        return y, tape.gradient(y, x)

    for n in (20, 31):
        x = gt.constant(RNG.normal(size=n))
        for a, b in zip(power(x), eager(x), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-10)


def test_mel_weights_are_triangles():
    weights = gt.signal.linear_to_mel_weight_matrix(10, 129, 8000, 100.0, 4000.0, gt.float64).numpy()
    assert (weights >= 0).all()
    assert not weights[0].any()
    peaks = weights.argmax(0)
    assert (np.diff(peaks) > 0).all()
    with pytest.raises(ValueError, match="upper_edge_hertz"):
        gt.signal.linear_to_mel_weight_matrix(upper_edge_hertz=9000.0)
    with pytest.raises(ValueError, match="must be even"):
        gt.signal.kaiser_bessel_derived_window(5)
    with pytest.raises(ValueError, match="floating type"):
        gt.signal.hann_window(4, dtype=gt.int32)
    with pytest.raises(ValueError, match="window_length must be a positive number"):
        gt.signal.hann_window(-1)
