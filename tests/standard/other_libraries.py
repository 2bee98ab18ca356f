"""Programs of SciPy and scikit-learn on tensors, for a process of its own: `SCIPY_ARRAY_API=1` is read when SciPy is imported.

`python -m tests.standard.other_libraries scipy` prints, as JSON, what differs from the same program on NumPy arrays."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np

import gradtape as gt
import gradtape.array_api as xp

RNG = np.random.default_rng(0)
A, B = (np.abs(RNG.normal(size=(6, 5))) + 0.1 for _ in range(2))
X = RNG.normal(size=(40, 5))
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=40) > 0).astype(np.int64)
CLASSES = RNG.integers(0, 3, 40)
TARGET = X @ np.arange(5.0) + 0.1 * RNG.normal(size=40)
CHANCE = 1 / (1 + np.exp(-X[:, 0]))


def scipy_programs() -> dict[str, Any]:
    """Name → program of a conversion: it converts arrays, and calls SciPy."""
    import scipy.cluster.vq as vq
    import scipy.differentiate as differentiate
    import scipy.fft as fft
    import scipy.integrate as integrate
    import scipy.linalg as linalg
    import scipy.ndimage as ndimage
    import scipy.optimize as optimize
    import scipy.signal as signal
    import scipy.special as special
    import scipy.stats as stats
    from scipy.spatial.transform import Rotation

    one = "erf erfc gammaln i0 i0e i1 i1e log_ndtr ndtr ndtri expit logit entr"
    two = "xlogy rel_entr gammainc gammaincc chdtr chdtrc"
    moments = """skew kurtosis moment gmean hmean variation sem zscore iqr entropy circmean circvar circstd tmean tvar tstd
        median_abs_deviation rankdata kstat"""
    tests = "skewtest kurtosistest normaltest jarque_bera"
    return {
        **{f"special.{n}": lambda to, f=getattr(special, n): f(to(A)) for n in one.split()},
        **{f"special.{n}": lambda to, f=getattr(special, n): f(to(A), to(B)) for n in two.split()},
        **{f"special.{n}": lambda to, f=getattr(special, n): f(to(A), axis=1) for n in ("logsumexp", "softmax", "log_softmax")},
        **{f"stats.{n}": lambda to, f=getattr(stats, n): f(to(A), axis=0) for n in moments.split()},
        **{f"stats.{n}": lambda to, f=getattr(stats, n): f(to(X), axis=0).pvalue for n in tests.split()},
        "stats.pmean": lambda to: stats.pmean(to(A), 2.0),
        "stats.ttest_ind": lambda to: stats.ttest_ind(to(A), to(B)).pvalue,
        "stats.ttest_1samp": lambda to: stats.ttest_1samp(to(A), 0.5).statistic,
        "stats.pearsonr": lambda to: stats.pearsonr(to(A), to(B), axis=0).statistic,
        "stats.mannwhitneyu": lambda to: stats.mannwhitneyu(to(A), to(B), axis=0).statistic,
        "stats.chisquare": lambda to: stats.chisquare(to(A)).statistic,
        "stats.directional_stats": lambda to: stats.directional_stats(to(A)).mean_direction,
        "stats.combine_pvalues": lambda to: stats.combine_pvalues(to(A / (1 + A))).statistic,
        "integrate.trapezoid": lambda to: integrate.trapezoid(to(A), axis=0),
        "integrate.cumulative_trapezoid": lambda to: integrate.cumulative_trapezoid(to(A), axis=0),
        "integrate.tanhsinh": lambda to: integrate.tanhsinh(
            lambda t, c: t * c, to(np.zeros(6)), to(np.ones(6)), args=(to(A[:, 0]),)
        ).integral,
        "fft.fft": lambda to: fft.fft(to(A)),
        "fft.rfft": lambda to: fft.rfft(to(A)),
        "fft.hfft": lambda to: fft.hfft(to(A)),
        "fft.ifftn": lambda to: fft.ifftn(to(A)),
        "fft.dct": lambda to: fft.dct(to(A)),
        "fft.fftshift": lambda to: fft.fftshift(to(A)),
        "cluster.whiten": lambda to: vq.whiten(to(A)),
        "cluster.vq": lambda to: vq.vq(to(A), to(B[:2]))[1],
        "cluster.kmeans": lambda to: vq.kmeans(to(A), to(B[:2]))[0],
        "cluster.kmeans2": lambda to: vq.kmeans2(to(A), to(B[:2]), minit="matrix")[0],
        "signal.detrend": lambda to: signal.detrend(to(A)),
        "signal.hilbert": lambda to: signal.hilbert(to(A)),
        "signal.fftconvolve": lambda to: signal.fftconvolve(to(A[0]), to(B[0])),
        "signal.convolve": lambda to: signal.convolve(to(A[0]), to(B[0])),
        "signal.lfilter": lambda to: signal.lfilter(to(np.array([1.0, 0.5])), to(np.array([1.0, -0.3])), to(A)),
        "signal.savgol_filter": lambda to: signal.savgol_filter(to(A), 3, 1),
        "linalg.inv": lambda to: linalg.inv(to(A[:5] + 3 * np.eye(5))),
        "ndimage.gaussian_filter": lambda to: ndimage.gaussian_filter(to(A), 1.0),
        "optimize.rosen": lambda to: optimize.rosen(to(A)),
        "optimize.rosen_der": lambda to: optimize.rosen_der(to(A[0])),
        "differentiate.derivative": lambda to: differentiate.derivative(lambda t: t * t * t, to(A[0])).df,
        "Rotation": lambda to: Rotation.from_rotvec(to(A[:, :3])).as_matrix(),
    }  # fmt: skip


def sklearn_programs() -> dict[str, Any]:
    """The same for the estimators and metrics that scikit-learn lists as supporting the array API."""
    from sklearn import metrics
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, RidgeCV
    from sklearn.metrics import pairwise
    from sklearn.mixture import GaussianMixture
    from sklearn.model_selection import cross_val_predict, train_test_split
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        Binarizer,
        KernelCenterer,
        LabelEncoder,
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        StandardScaler,
    )

    def fitted(model: Any, *data: Any, out: str = "transform") -> Any:
        return lambda to: getattr(type(model)(**model.get_params()).fit(*map(to, data)), out)(to(data[0]))

    regression = "mean_squared_error mean_absolute_error r2_score explained_variance_score max_error median_absolute_error"
    classification = (
        "accuracy_score zero_one_loss f1_score precision_score recall_score jaccard_score hamming_loss confusion_matrix"
    )
    kernels = "euclidean_distances rbf_kernel cosine_similarity linear_kernel polynomial_kernel"
    scalers = (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), Binarizer(), Normalizer())
    steps = (StandardScaler(), PCA(2, svd_solver="full"), Ridge(solver="svd"))
    return {
        "PCA": fitted(PCA(2, svd_solver="full"), X),
        "PCA covariance": fitted(PCA(2, svd_solver="covariance_eigh"), X),
        "PCA randomized": fitted(PCA(2, svd_solver="randomized", random_state=0, power_iteration_normalizer="QR"), X),
        "Ridge": fitted(Ridge(solver="svd"), X, TARGET, out="predict"),
        "RidgeCV": fitted(RidgeCV(), X, TARGET, out="predict"),
        "RidgeClassifier": fitted(RidgeClassifier(solver="svd"), X, LABELS, out="predict"),
        "LinearDiscriminantAnalysis": fitted(LinearDiscriminantAnalysis(), X, LABELS, out="predict_proba"),
        "LinearDiscriminantAnalysis 3": fitted(LinearDiscriminantAnalysis(), X, CLASSES, out="transform"),
        "GaussianNB": fitted(GaussianNB(), X, LABELS, out="predict_proba"),
        "LogisticRegression": fitted(LogisticRegression(solver="lbfgs"), X, LABELS, out="predict_proba"),
        # "full" covariances are filled through views of one array, which the standard does not promise and tensors do not have
        "GaussianMixture": fitted(GaussianMixture(2, random_state=0, init_params="random", covariance_type="diag"), X,
                                  out="predict_proba"),
        **{type(m).__name__: fitted(m, X) for m in scalers},
        "KernelCenterer": fitted(KernelCenterer(), X @ X.T),
        "LabelEncoder": lambda to: LabelEncoder().fit_transform(to(CLASSES)),
        "pipeline": lambda to: make_pipeline(*steps).fit(to(X), to(TARGET)).predict(to(X)),
        "train_test_split": lambda to: train_test_split(to(X), to(LABELS), random_state=0)[0],
        "cross_val_predict": lambda to: cross_val_predict(Ridge(solver="svd"), to(X), to(TARGET)),
        **{n: lambda to, f=getattr(metrics, n): f(to(TARGET), to(TARGET + X[:, 0])) for n in regression.split()},
        **{n: lambda to, f=getattr(metrics, n): f(to(LABELS), to(LABELS & (CLASSES > 0))) for n in classification.split()},
        **{n: lambda to, f=getattr(metrics, n): f(to(LABELS), to(CHANCE)) for n in ("log_loss", "brier_score_loss")},
        **{n: lambda to, f=getattr(pairwise, n): f(to(X), to(X[:7] + 1.0)) for n in kernels.split()},
    }  # fmt: skip


NUMPY_INSIDE = {"linalg.inv"}  # SciPy has not converted it to the standard yet: it takes any array and gives NumPy's


def differences(programs: dict[str, Any]) -> dict[str, str]:
    """What does not run, gives no tensor, or gives other numbers than on arrays."""
    wrong = {}
    for name, program in programs.items():
        want = program(lambda array: array)
        try:
            have = program(xp.asarray)
            if isinstance(want, np.ndarray) and name not in NUMPY_INSIDE:
                assert isinstance(have, gt.Tensor), f"gives {type(have)}"
            np.testing.assert_allclose(np.asarray(have), want, rtol=1e-6, atol=1e-9)
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}"
    return wrong


def gradients() -> dict[str, str]:
    """SciPy's functions written for the standard, differentiated through."""
    import scipy.special as special
    import scipy.stats as stats

    x, wrong = xp.asarray(A), {}
    for name, function, want in [
        ("logsumexp", lambda t: special.logsumexp(t), lambda a: np.exp(a) / np.exp(a).sum()),
        ("variation", lambda t: stats.variation(t, axis=None),
         lambda a: ((a - a.mean()) / a.std() - a.std() / a.mean()) / a.mean() / a.size),
        ("gmean", lambda t: stats.gmean(t, axis=None), lambda a: np.exp(np.log(a).mean()) / a / a.size),
    ]:  # fmt: skip
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        gradient = tape.gradient(y, x)
        if gradient is None or not np.allclose(gradient.numpy(), want(A)):
            wrong[name] = f"{gradient}"
    return wrong


def main(library: str) -> None:
    warnings.simplefilter("ignore")
    if library == "scipy":
        wrong = differences(scipy_programs()) | gradients()
    else:
        from sklearn import config_context

        with config_context(array_api_dispatch=True):
            wrong = differences(sklearn_programs())
    print(json.dumps(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
