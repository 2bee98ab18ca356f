"""`gt.signal`: Fourier and cosine transforms, frames and windows under TensorFlow's names. Only re-exports."""

from gradtape.ops.fft import (
    fft as fft,
    fft2d as fft2d,
    fft3d as fft3d,
    fftshift as fftshift,
    ifft as ifft,
    ifft2d as ifft2d,
    ifft3d as ifft3d,
    ifftshift as ifftshift,
    irfft as irfft,
    irfft2d as irfft2d,
    irfft3d as irfft3d,
    rfft as rfft,
    rfft2d as rfft2d,
    rfft3d as rfft3d,
)
from gradtape.ops.frames import (
    dct as dct,
    frame as frame,
    hamming_window as hamming_window,
    hann_window as hann_window,
    idct as idct,
    inverse_stft as inverse_stft,
    inverse_stft_window_fn as inverse_stft_window_fn,
    kaiser_bessel_derived_window as kaiser_bessel_derived_window,
    kaiser_window as kaiser_window,
    linear_to_mel_weight_matrix as linear_to_mel_weight_matrix,
    overlap_and_add as overlap_and_add,
    stft as stft,
    vorbis_window as vorbis_window,
)
