"""`gt.linalg`: linear algebra under TensorFlow's names.

Every function works on the last two axes (matrices) and treats the leading ones as a batch. This file only re-exports.
"""

from gradtape.ops.clipping import global_norm as global_norm, l2_normalize as l2_normalize
from gradtape.ops.contract import einsum as einsum, tensordot as tensordot
from gradtape.ops.create import eye as eye
from gradtape.ops.linalg_banded import (
    banded_triangular_solve as banded_triangular_solve,
    tridiagonal_matmul as tridiagonal_matmul,
    tridiagonal_solve as tridiagonal_solve,
)
from gradtape.ops.linalg_det import *
from gradtape.ops.linalg_functions import expm as expm, logm as logm, sqrtm as sqrtm
from gradtape.ops.linalg_solve import *
from gradtape.ops.linalg_spectral import *
from gradtape.ops.matmul import matmul as matmul
from gradtape.ops.matrix import *
from gradtape.surface.name_hints import hint as _hint

_hint(__name__)
