"""The ops that native code leaves to NumPy, by reason: the one list. Every other op of the registry is written natively."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "LAPACK does it": "adjugate banded_solve cholesky det eig eigh eigvalsh inv lu pinv qr singular_values slogdet svd "
    "sylvester expm logm sqrtm",
    "a rare function of SciPy": "bessel betainc betainc_dab dawsn expint fresnel_cos fresnel_sin igamma igamma_da igammac "
    "polygamma zeta zeta_dx",
    "NumPy's random streams": "draw_key random_binomial random_bits random_categorical random_gamma random_integers "
    "random_normal random_permutation random_poisson random_truncated_normal random_uniform",
    "Fourier transforms": "fft ifft irfft rfft",
    "sorting, searching, common divisors": "argsort gcd invert_permutation non_max_suppression searchsorted "
    "segment_count segment_extreme segment_slots sort unique where_true",
    "bits of another type": "bitcast",
    "an effect in Python": "print py_call",
    "passes have replaced it before": "sum_to updated gradient",
    "the reference backend runs such programs": "checkpointed",
}
CALL_NUMPY = {name: reason for reason, names in REASONS.items() for name in names.split()}
# one rank alone sends nothing, and leaves these to NumPy; among several, machine code calls MPI's functions
ALONE = {
    "all_extreme", "all_stack", "all_sum", "all_swap", "from_root", "rows_of_root", "stack_on_root", "sum_scatter",
    "sum_to_root", "swap_edges", "swap_with",
}  # fmt: skip
# batches and sizes of the run are LAPACK's through NumPy and SciPy; of two matrices machine code calls LAPACK and BLAS.
# Python's integers are checked by machine code one by one, in lists by NumPy
IN_PART = {"solve", "triangular_solve", "narrow", "exact"}
