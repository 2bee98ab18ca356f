"""`gt.signal`: Fourier and cosine transforms, frames and windows under TensorFlow's names. Only re-exports."""

from gradtape.ops.fft import *
from gradtape.ops.frames import *
from gradtape.surface.name_hints import hint as _hint

_hint(__name__)
