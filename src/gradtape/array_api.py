"""The Python array API standard, version 2024.12: `xp = t.__array_namespace__()`, or `import gradtape.array_api as xp`.

Code written for any array library runs on tensors, and is recorded and differentiated. Only re-exports.
"""

import math as _math

from gradtape import dtypes as _dtypes
from gradtape.dtypes import (
    complex64 as complex64,
    complex128 as complex128,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from gradtape.interop.standard import fft_functions as _fft, linear_algebra_functions as _linalg
from gradtape.interop.standard.creation_functions import *
from gradtape.interop.standard.data_types import *
from gradtape.interop.standard.elementwise_functions import *
from gradtape.interop.standard.linear_algebra_functions import (
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    tensordot as tensordot,
    vecdot as vecdot,
)
from gradtape.interop.standard.manipulation_functions import *
from gradtape.interop.standard.statistical_functions import *

__array_api_version__ = "2024.12"
e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None
fft, linalg = _fft, _linalg
bool = _dtypes.bool_
