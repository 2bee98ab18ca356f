"""`gt.scipy`: SciPy's special functions and log densities for tensors, under SciPy's names. Only re-exports.

>>> float(gt.grad(lambda scale: gt.scipy.stats.norm.logpdf(2.0, 0.0, scale))(1.0))
3.0
"""

from gradtape.interop import scipy_special as special, scipy_stats as stats

__all__ = ["special", "stats"]
