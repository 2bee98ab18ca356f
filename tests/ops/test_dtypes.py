"""Every op on every dtype: what `impl` computes has the dtype that the type rule promises, eager code and programs alike, or
the op refuses; and low precision stays low, nothing leaks a wider float."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.dtypes import as_dtype
from tests.harness.cases import all_cases
from tests.harness.spy import spied
from tests.harness.values import check_call_type

# what refuses a dtype says so; no other exception is a refusal
REFUSALS = (TypeError, ValueError, gt.errors.InvalidArgumentError, np.linalg.LinAlgError, NotImplementedError)
DTYPES = [d.name for d in gt.dtypes.ALL if d.name not in ("float64", "complex128", "string")]
WIDER = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}


def in_dtype(leaf, dtype):
    leaf = np.asarray(leaf)
    if leaf.dtype.kind == "c" and as_dtype(dtype).kind != "c":
        leaf = leaf.real
    return leaf.astype(as_dtype(dtype).dtype)[()]


@pytest.mark.filterwarnings("ignore:Matrix is singular")  # samples as truth values are ones
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_have_the_dtype_of_the_type_rule(dtype):
    wrong = {}
    for case in all_cases():
        if case.fails or not case.leaves or case.sample.kwargs.get("dtype") is not None or case.name in BEHIND_ITS_DOOR:
            continue
        with np.errstate(all="ignore"):
            try:
                outputs, calls = spied(case, [in_dtype(leaf, dtype) for leaf in case.leaves])
            except REFUSALS:
                continue
        for call in calls:
            try:
                check_call_type(call)
            except AssertionError as error:
                wrong[case.id] = str(error)
        names = [as_dtype(np.asarray(out).dtype).name for out in outputs]
        if any(name in WIDER.get(dtype, ()) for name in names) and case.name not in CHOOSES_ITS_DTYPE:
            wrong[case.id] = f"{dtype} in, {names} out"
    assert not wrong, wrong


# primitives whose public functions see to the dtype first: a transform is given complex numbers, an extreme a filler that fits
BEHIND_ITS_DOOR = {"irfft", "segment_extreme"}
# whose samples, or definition, ask for a dtype of their own: a dtype or a norm that is given, transforms (no complex32), images
# that are resized or compared (in float32, as TensorFlow does)
CHOOSES_ITS_DTYPE = {
    "cast", "zeros_like", "ones_like", "confusion_matrix", "clip_by_global_norm", "gt.irfft", "irfft2d", "irfft3d",
    "inverse_stft", "dct", "idct", "saturate_cast", "convert_image_dtype", "psnr", "ssim", "resize", "resize_with_pad",
}  # fmt: skip


SUMS = {
    "reduce_sum": gt.reduce_sum,
    "matmul": lambda x: (x[None, :] @ x[:, None])[0, 0],
    "einsum": lambda x: gt.einsum("i,i->", x, x),
    "tensordot": lambda x: gt.tensordot(x, x, 1),
    "mean": lambda x: gt.reduce_mean(x) * 1000,
    "softmax": lambda x: gt.nn.softmax(x)[0] * 1e6,
    "segments": lambda x: gt.math.segment_sum(x, gt.zeros([1000], gt.int32))[0],
    "pool": lambda x: gt.nn.avg_pool1d(gt.reshape(x, [1, 1000, 1]), 1000, 1, "VALID")[0, 0, 0] * 1000,
    "conv": lambda x: gt.nn.conv1d(gt.reshape(x, [1, 1000, 1]), gt.reshape(x, [1000, 1, 1]), 1, "VALID")[0, 0, 0],
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_low_precision_do_not_stand_still(name):
    ones = gt.ones([1000], gt.bfloat16)
    for run in (SUMS[name], gt.function(SUMS[name], jit_compile=False), gt.function(SUMS[name])):
        assert run(ones).dtype == gt.bfloat16
        assert abs(float(run(ones)) - 1000) <= 4
