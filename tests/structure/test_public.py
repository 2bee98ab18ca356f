"""The public surface: every promised name exists and says what it does."""

import inspect
from types import FunctionType
from typing import Any

import pytest

import gradtape as gt

MATHEMATICS = """
abs accumulate_n acos acosh add add_n angle argmax argmin asin asinh atan atan2 atanh bessel_i0 bessel_i0e bessel_i1
bessel_i1e betainc bincount ceil clip_by_global_norm clip_by_norm clip_by_value complex conj cos cosh cumprod cumsum
cumulative_logsumexp digamma divide divide_no_nan equal erf erfc erfinv exp expm1 floor floordiv global_norm greater
greater_equal igamma igammac imag is_finite is_inf is_nan l2_normalize less less_equal lgamma log log1p logical_and
logical_not logical_or logical_xor maximum minimum mod multiply multiply_no_nan ndtri negative not_equal polygamma pow real
reciprocal reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod
reduce_std reduce_sum reduce_variance rint round rsqrt segment_max segment_mean segment_min segment_prod segment_sum sigmoid
sign sin sinh softplus sqrt square squared_difference subtract tan tanh top_k truediv unsorted_segment_max
unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum xlog1py xlogy
zeta
"""

NAMES = {
    "": """
        bitcast saturate_cast dynamic_partition dynamic_stitch reverse_sequence unravel_index histogram_fixed_width half double
        histogram_fixed_width_bins eig eigvals realdiv matrix_square_root assert_equal assert_greater assert_less assert_rank
        is_symbolic_tensor inside_function timestamp get_logger register_tensor_conversion_function VariableAggregation version
        Assert DType GradientTape GradientWarning IndexedSlices Module Tensor TensorArray TensorShape TensorSpec
        UnconnectedGradients Variable argmax argmin argsort as_dtype batch_gather batch_to_space bfloat16 bool boolean_mask
        broadcast_static_shape broadcast_to case cast clip_by_global_norm clip_by_norm clip_by_value complex complex128
        complex64 concat cond constant control_dependencies convert_to_tensor cumsum custom_gradient depth_to_space device
        einsum ensure_shape executing_eagerly expand_dims eye fill float16 float32 float64 foldl foldr gather gather_nd grad
        grad_pass_through group hessian hvp identity init_scope int16 int32 int64 int8 jacobian jvp linspace load map_fn
        matmul meshgrid name_scope nest newaxis norm numpy_function one_hot ones ones_like pad print py_function range rank
        recompute_grad repeat reshape reverse roll save scan scatter_nd searchsorted sequence_mask shape size slice sort
        space_to_batch_nd split squeeze stack stop_gradient strided_slice string switch_case tensor_scatter_nd_add
        tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update tensordot tile transpose
        tuple uint16 uint32 uint64 uint8 unique unstack value_and_grad vectorized_map vjp where while_loop zeros zeros_like
    """
    + MATHEMATICS,
    "math": MATHEMATICS,
    "bitwise": "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift",
    "linalg": """
        adjoint band_part cholesky cholesky_solve cross det diag diag_part eig eigh eigvalsh einsum expm eye inv logdet logm
        lstsq lu matmul matrix_rank matrix_transpose matvec norm pinv qr set_diag slogdet solve sqrtm svd tensor_diag trace
        triangular_solve banded_triangular_solve tridiagonal_matmul tridiagonal_solve
    """,
    "nn": """
        atrous_conv2d atrous_conv2d_transpose compute_average_loss conv_transpose dilation2d erosion2d experimental lrn
        local_response_normalization log_poisson_loss normalize_moments pool scale_regularization_loss sufficient_statistics
        weighted_moments
        avg_pool batch_normalization bias_add conv1d conv2d conv2d_transpose conv3d conv3d_transpose ctc_loss
        max_pool_with_argmax nce_loss sampled_softmax_loss weighted_cross_entropy_with_logits
        depthwise_conv2d dropout elu embedding_lookup
        gelu l2_loss layer_norm leaky_relu log_softmax max_pool moments relu relu6 selu sigmoid
        sigmoid_cross_entropy_with_logits silu softmax softmax_cross_entropy_with_logits softplus softsign
        sparse_softmax_cross_entropy_with_logits tanh
    """,
    "image": """
        ResizeMethod adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation central_crop
        convert_image_dtype crop_and_resize crop_to_bounding_box extract_patches flip_left_right flip_up_down grayscale_to_rgb
        hsv_to_rgb image_gradients non_max_suppression pad_to_bounding_box per_image_standardization psnr random_brightness
        random_contrast random_crop random_flip_left_right random_flip_up_down random_hue random_saturation resize
        resize_with_crop_or_pad resize_with_pad rgb_to_grayscale rgb_to_hsv rgb_to_yuv rot90 sobel_edges ssim
        stateless_random_brightness stateless_random_contrast stateless_random_crop stateless_random_flip_left_right
        stateless_random_flip_up_down stateless_random_hue stateless_random_saturation total_variation transpose
        yuv_to_rgb
    """,
    "signal": """
        dct fft fft2d fft3d frame hamming_window hann_window idct ifft ifft2d ifft3d inverse_stft inverse_stft_window_fn irfft
        irfft2d irfft3d kaiser_window overlap_and_add rfft rfft2d rfft3d stft vorbis_window
    """,
    "initializers": "Constant GlorotUniform HeNormal Orthogonal VarianceScaling Zeros get glorot_uniform zeros",
    "config": "list_physical_devices list_logical_devices get_visible_devices set_visible_devices run_functions_eagerly",
    "random": """
        Generator categorical gamma normal set_seed shuffle stateless_categorical stateless_gamma stateless_normal
        stateless_truncated_normal stateless_uniform truncated_normal uniform
    """,
    "data": "AUTOTUNE Dataset DatasetSpec INFINITE_CARDINALITY Iterator Optional Options UNKNOWN_CARDINALITY experimental",
    "optimizers": "Adadelta Adagrad Adam AdamW Adamax Ftrl Lion Nadam RMSprop SGD schedules",
    "debugging": """
        assert_all_finite assert_equal assert_greater assert_greater_equal assert_integer assert_less assert_less_equal
        assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal assert_positive assert_rank
        assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_shapes assert_type check_numerics
        disable_strict_gradients enable_strict_gradients

    """,
    "errors": """
        AbortedError AlreadyExistsError CancelledError DeadlineExceededError PermissionDeniedError ResourceExhaustedError
        UnauthenticatedError UnavailableError UnknownError FailedPreconditionError InaccessibleTensorError InternalError
        InvalidArgumentError OperatorNotAllowedInGraphError
        OutOfRangeError UnimplementedError
    """,
    "train": "Checkpoint ExponentialMovingAverage",
    "types": "DTypeLike Shape TensorLike",
    "autodiff": "ForwardAccumulator GradientTape",
    "test": "compute_gradient is_built_with_cuda is_gpu_available",
    "nest": "assert_same_structure flatten is_nested map_structure pack_sequence_as",
}
GRADIENT_TAPE = "batch_jacobian close explain gradient hessian jacobian picture reset stop_recording watch watched_variables"
VARIABLE = """
    assign assign_add assign_sub constraint dtype gather_nd is_initialized name read_value ref scatter_add scatter_div
    scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub scatter_nd_update scatter_sub scatter_update shape
    sparse_read trainable value
"""


def resolve(path: str) -> Any:
    found: Any = gt
    for part in path.split("."):
        found = getattr(found, part) if part else found
    return found


@pytest.mark.parametrize("namespace", list(NAMES), ids=lambda n: n or "gradtape")
def test_promised_names_exist(namespace: str) -> None:
    present = dir(resolve(namespace))
    assert [name for name in NAMES[namespace].split() if name not in present] == []


@pytest.mark.parametrize(("cls", "names"), [(gt.GradientTape, GRADIENT_TAPE), (gt.Variable, VARIABLE)], ids=["tape", "var"])
def test_promised_methods_exist(cls: Any, names: str) -> None:
    assert [name for name in names.split() if name not in dir(cls)] == []


@pytest.mark.parametrize("namespace", list(NAMES), ids=lambda n: n or "gradtape")
def test_public_functions_are_documented(namespace: str) -> None:
    space = resolve(namespace)
    silent = [
        name
        for name in dir(space)
        if not name.startswith("_")
        and isinstance(value := getattr(space, name), (FunctionType, type))
        and value.__module__.startswith("gradtape")
        and not inspect.getdoc(value)
    ]
    assert silent == []
