"""`gt.linalg`: linear algebra under TensorFlow's names.

Every function works on the last two axes (matrices) and treats the leading ones as a batch. This file only re-exports.
"""

from gradtape.ops.clipping import global_norm as global_norm
from gradtape.ops.contract import einsum as einsum, tensordot as tensordot
from gradtape.ops.create import eye as eye
from gradtape.ops.linalg_banded import (
    banded_triangular_solve as banded_triangular_solve,
    tridiagonal_matmul as tridiagonal_matmul,
    tridiagonal_solve as tridiagonal_solve,
)
from gradtape.ops.linalg_det import (
    det as det,
    logdet as logdet,
    lstsq as lstsq,
    matrix_rank as matrix_rank,
    pinv as pinv,
    slogdet as slogdet,
)
from gradtape.ops.linalg_functions import expm as expm, logm as logm, sqrtm as sqrtm
from gradtape.ops.linalg_solve import (
    cholesky as cholesky,
    cholesky_solve as cholesky_solve,
    inv as inv,
    lu as lu,
    solve as solve,
    triangular_solve as triangular_solve,
)
from gradtape.ops.linalg_spectral import (
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    qr as qr,
    svd as svd,
)
from gradtape.ops.matmul import matmul as matmul
from gradtape.ops.matrix import (
    adjoint as adjoint,
    band_part as band_part,
    cross as cross,
    diag as diag,
    diag_part as diag_part,
    matrix_transpose as matrix_transpose,
    matvec as matvec,
    norm as norm,
    normalize as normalize,
    set_diag as set_diag,
    tensor_diag as tensor_diag,
    tensor_diag_part as tensor_diag_part,
    trace as trace,
)
