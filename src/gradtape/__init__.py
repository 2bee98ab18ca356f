"""gradtape: automatic differentiation with TensorFlow's GradientTape programming model.

This file only re-exports: every name here is defined in the layer it belongs to (see ARCHITECTURE.md). What makes functions of
programs is loaded with the first name of it that is used, so that `import gradtape` stays fast. Examples in docstrings begin
after `import gradtape as gt`.
"""

import typing as _typing
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec

from gradtape import autodiff as autodiff, config as config, dtypes as dtypes, errors as errors, nest as nest, types as types
from gradtape.core.tensor import Tensor as Tensor, is_tensor as is_tensor
from gradtape.dtypes import (
    DType as DType,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    bool_ as bool_,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from gradtape.errors import GradientWarning as GradientWarning
from gradtape.interop.protocols import from_dlpack as from_dlpack
from gradtape.ir.types import TensorShape as TensorShape, TensorSpec as TensorSpec
from gradtape.ops.clipping import l2_normalize as l2_normalize
from gradtape.ops.compare import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    is_finite as is_finite,
    is_inf as is_inf,
    is_nan as is_nan,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
)
from gradtape.ops.composite import (
    accumulate_n as accumulate_n,
    add_n as add_n,
    angle as angle,
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape,
    divide_no_nan as divide_no_nan,
    ensure_shape as ensure_shape,
    meshgrid as meshgrid,
    multiply_no_nan as multiply_no_nan,
    scalar_mul as scalar_mul,
    squared_difference as squared_difference,
    truediv as truediv,
    truncatediv as truncatediv,
    truncatemod as truncatemod,
    xlog1py as xlog1py,
    xlogy as xlogy,
)
from gradtape.ops.contract import einsum as einsum, tensordot as tensordot
from gradtape.ops.create import (
    constant as constant,
    convert_to_tensor as convert_to_tensor,
    eye as eye,
    fill as fill,
    linspace as linspace,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    range as range,
    rank as rank,
    shape as shape,
    size as size,
    zeros as zeros,
    zeros_like as zeros_like,
)
from gradtape.ops.cumulative import cumprod as cumprod, cumsum as cumsum, cumulative_logsumexp as cumulative_logsumexp
from gradtape.ops.elementwise import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cast as cast,
    complex as complex,
    conj as conj,
    cos as cos,
    cosh as cosh,
    divide as divide,
    exp as exp,
    expm1 as expm1,
    imag as imag,
    log as log,
    log1p as log1p,
    multiply as multiply,
    negative as negative,
    pow as pow,
    real as real,
    reciprocal as reciprocal,
    rsqrt as rsqrt,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
)
from gradtape.ops.extending import pad as pad, repeat as repeat, tile as tile
from gradtape.ops.index import gather as gather
from gradtape.ops.matmul import matmul as matmul
from gradtape.ops.matrix import norm as norm
from gradtape.ops.reduce import (
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_euclidean_norm as reduce_euclidean_norm,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_std as reduce_std,
    reduce_sum as reduce_sum,
    reduce_variance as reduce_variance,
)
from gradtape.ops.select import (
    ceil as ceil,
    clip_by_value as clip_by_value,
    floor as floor,
    floordiv as floordiv,
    maximum as maximum,
    minimum as minimum,
    mod as mod,
    rint as rint,
    round as round,
    where as where,
)
from gradtape.ops.shape import (
    broadcast_to as broadcast_to,
    concat as concat,
    expand_dims as expand_dims,
    reshape as reshape,
    reverse as reverse,
    roll as roll,
    split as split,
    squeeze as squeeze,
    stack as stack,
    transpose as transpose,
    unstack as unstack,
)
from gradtape.ops.stop import identity as identity, stop_gradient as stop_gradient
from gradtape.surface import notebook_views as _notebook_views, uncaught as _uncaught  # noqa: F401  (how things look)
from gradtape.surface.misc import (
    Assert as Assert,
    control_dependencies as control_dependencies,
    device as device,
    executing_eagerly as executing_eagerly,
    group as group,
    init_scope as init_scope,
    no_op as no_op,
    print as print,
    tuple as tuple,
)
from gradtape.tape.functional import (
    elementwise_grad as elementwise_grad,
    grad as grad,
    hessian as hessian,
    hessian_vector_product as hessian_vector_product,
    hvp as hvp,
    jacobian as jacobian,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from gradtape.tape.gradient_tape import GradientTape as GradientTape
from gradtape.tape.jacobian import vectorized_map as vectorized_map
from gradtape.tape.tape_messages import UnconnectedGradients as UnconnectedGradients
from gradtape.variables.gradient_clipping import (
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    global_norm as global_norm,
)
from gradtape.variables.indexed_slices import IndexedSlices as IndexedSlices
from gradtape.variables.variable import Variable as Variable
from gradtape.variables.variable_scopes import name_scope as name_scope, variable_creator_scope as variable_creator_scope

bool = bool_
newaxis = None
__version__ = config.VERSION

if _typing.TYPE_CHECKING:
    from gradtape import (
        array_api as array_api,
        autograph as autograph,
        bitwise as bitwise,
        data as data,
        debugging as debugging,
        distribute as distribute,
        image as image,
        initializers as initializers,
        keras as keras,
        linalg as linalg,
        math as math,
        nn as nn,
        optimizers as optimizers,
        random as random,
        scipy as scipy,
        signal as signal,
        test as test,
        train as train,
        version as version,
    )
    from gradtape.core.conversion import register_tensor_conversion_function as register_tensor_conversion_function
    from gradtape.distribute.strategy_variables import (
        VariableAggregation as VariableAggregation,
        VariableSynchronization as VariableSynchronization,
    )
    from gradtape.functions.function import function as function
    from gradtape.ops.activations import sigmoid as sigmoid, softplus as softplus
    from gradtape.ops.blocks import (
        batch_to_space as batch_to_space,
        depth_to_space as depth_to_space,
        sequence_mask as sequence_mask,
        space_to_batch as space_to_batch,
        space_to_batch_nd as space_to_batch_nd,
        space_to_depth as space_to_depth,
    )
    from gradtape.ops.composite import realdiv as realdiv
    from gradtape.ops.conversions import bitcast as bitcast, saturate_cast as saturate_cast
    from gradtape.ops.incomplete import betainc as betainc, igamma as igamma, igammac as igammac, zeta as zeta
    from gradtape.ops.linalg_functions import matrix_square_root as matrix_square_root
    from gradtape.ops.linalg_spectral import eig as eig, eigvals as eigvals
    from gradtape.ops.partitions import (
        dynamic_partition as dynamic_partition,
        dynamic_stitch as dynamic_stitch,
        histogram_fixed_width as histogram_fixed_width,
        histogram_fixed_width_bins as histogram_fixed_width_bins,
        reverse_sequence as reverse_sequence,
        unravel_index as unravel_index,
    )
    from gradtape.ops.scatter import (
        batch_gather as batch_gather,
        boolean_mask as boolean_mask,
        gather_nd as gather_nd,
        scatter_nd as scatter_nd,
        slice as slice,
        strided_slice as strided_slice,
        tensor_scatter_nd_add as tensor_scatter_nd_add,
        tensor_scatter_nd_max as tensor_scatter_nd_max,
        tensor_scatter_nd_min as tensor_scatter_nd_min,
        tensor_scatter_nd_sub as tensor_scatter_nd_sub,
        tensor_scatter_nd_update as tensor_scatter_nd_update,
    )
    from gradtape.ops.segment import (
        bincount as bincount,
        segment_max as segment_max,
        segment_mean as segment_mean,
        segment_min as segment_min,
        segment_prod as segment_prod,
        segment_sum as segment_sum,
        unsorted_segment_max as unsorted_segment_max,
        unsorted_segment_mean as unsorted_segment_mean,
        unsorted_segment_min as unsorted_segment_min,
        unsorted_segment_prod as unsorted_segment_prod,
        unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
        unsorted_segment_sum as unsorted_segment_sum,
    )
    from gradtape.ops.sorting import (
        argmax as argmax,
        argmin as argmin,
        argsort as argsort,
        searchsorted as searchsorted,
        sort as sort,
        top_k as top_k,
        unique as unique,
        unique_with_counts as unique_with_counts,
    )
    from gradtape.ops.special import (
        bessel_i0 as bessel_i0,
        bessel_i0e as bessel_i0e,
        bessel_i1 as bessel_i1,
        bessel_i1e as bessel_i1e,
        digamma as digamma,
        erf as erf,
        erfc as erfc,
        erfinv as erfinv,
        lgamma as lgamma,
        ndtri as ndtri,
        polygamma as polygamma,
    )
    from gradtape.surface.assertions import (
        assert_equal as assert_equal,
        assert_greater as assert_greater,
        assert_less as assert_less,
        assert_rank as assert_rank,
    )
    from gradtape.surface.graph_names import (
        get_logger as get_logger,
        get_static_value as get_static_value,
        identity_n as identity_n,
        inside_function as inside_function,
        is_symbolic_tensor as is_symbolic_tensor,
        shape_n as shape_n,
    )
    from gradtape.tape.control_flow import (
        case as case,
        cond as cond,
        foldl as foldl,
        foldr as foldr,
        map_fn as map_fn,
        scan as scan,
        switch_case as switch_case,
        while_loop as while_loop,
    )
    from gradtape.tape.custom_gradient import (
        custom_gradient as custom_gradient,
        grad_pass_through as grad_pass_through,
        recompute_grad as recompute_grad,
    )
    from gradtape.tape.graph_gradients import gradients as gradients, hessians as hessians
    from gradtape.tape.python_functions import (
        numpy_function as numpy_function,
        py_function as py_function,
        timestamp as timestamp,
    )
    from gradtape.tape.tensor_array import TensorArray as TensorArray
    from gradtape.tools.gradcheck import gradcheck as gradcheck
    from gradtape.train.module import Module as Module
    from gradtape.train.saving import load as load, save as save

    losses, metrics = keras.losses, keras.metrics
    constant_initializer, zeros_initializer, ones_initializer = initializers.Constant, initializers.Zeros, initializers.Ones
    random_normal_initializer, random_uniform_initializer = initializers.RandomNormal, initializers.RandomUniform

_KERAS = ("losses", "metrics")  # Keras's, as TensorFlow has them
_LOADED = ("autodiff", "config", "dtypes", "errors", "nest", "types")  # namespaces that are there from the start
# what is loaded when it is first used: namespaces, and the names of other modules
_SPACES = (
    "array_api", "autograph", "bitwise", "data", "debugging", "distribute", "image", "initializers", "keras", "linalg", "math",
    "nn", "optimizers", "random", "scipy", "signal", "test", "train", "version",
)  # fmt: skip
_LATER = {name: (f"gradtape.{home}", name) for home, names in {
    "functions.function": "function",
    "ops.activations": "sigmoid softplus",
    "ops.blocks": "batch_to_space depth_to_space sequence_mask space_to_batch space_to_batch_nd space_to_depth",
    "ops.incomplete": "betainc igamma igammac zeta",
    "ops.segment": "bincount segment_max segment_mean segment_min segment_prod segment_sum unsorted_segment_max "
    "unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n "
    "unsorted_segment_sum",
    "ops.special": "bessel_i0 bessel_i0e bessel_i1 bessel_i1e digamma erf erfc erfinv lgamma ndtri polygamma",
    "ops.scatter": "batch_gather boolean_mask gather_nd scatter_nd slice strided_slice tensor_scatter_nd_add "
    "tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update",
    "ops.sorting": "argmax argmin argsort searchsorted sort top_k unique unique_with_counts",
    "surface.graph_names": "get_logger get_static_value identity_n inside_function is_symbolic_tensor shape_n",
    "tape.control_flow": "case cond foldl foldr map_fn scan switch_case while_loop",
    "tape.custom_gradient": "custom_gradient grad_pass_through recompute_grad",
    "tape.python_functions": "numpy_function py_function timestamp",
    "tape.graph_gradients": "gradients hessians",
    "tape.tensor_array": "TensorArray",
    "tools.gradcheck": "gradcheck",
    "train.module": "Module",
    "train.saving": "load save",
    "ops.conversions": "bitcast saturate_cast",
    "ops.partitions": "dynamic_partition dynamic_stitch histogram_fixed_width histogram_fixed_width_bins reverse_sequence "
    "unravel_index",
    "ops.linalg_spectral": "eig eigvals",
    "ops.composite": "realdiv",
    "surface.assertions": "assert_equal assert_greater assert_less assert_rank",
    "distribute.strategy_variables": "VariableAggregation VariableSynchronization",
    "core.conversion": "register_tensor_conversion_function",
    "ops.linalg_functions": "matrix_square_root",
}.items() for name in names.split()} | {
    f"{older}_initializer": ("gradtape.initializers", name)  # TensorFlow's older names
    for older, name in {
        "constant": "Constant", "zeros": "Zeros", "ones": "Ones",
        "random_normal": "RandomNormal", "random_uniform": "RandomUniform",
    }.items()
} | {name: ("gradtape.keras", name) for name in _KERAS}  # fmt: skip


if not _typing.TYPE_CHECKING:  # checkers would take every name for one that exists

    def __getattr__(name: str) -> _typing.Any:
        if name == "__all__":  # what `from gradtape import *` asks for
            return [public for public in __dir__() if not public.startswith("_")]
        if name not in _LATER and name not in _SPACES:
            # those who look for protocols, as pytest does, need no hints, for which all namespaces are loaded
            hints = None if name.startswith("_") else _import_module("gradtape.surface.name_hints")
            raise AttributeError(name if hints is None else hints.missing(name, __dir__()), name=name)
        home, own = _LATER.get(name, (f"gradtape.{name}", ""))
        module = _import_module(home)
        public = globals()[name] = getattr(module, own) if own else module
        _uncaught.hide()
        return public


def __dir__() -> list[str]:
    # An optional package: whoever looks around need not meet it.
    absent = {"keras", *_KERAS} if _find_spec("keras") is None else set()
    rooms = {name for name, value in globals().items() if isinstance(value, type(_typing)) and name not in _LOADED}
    return sorted(({*globals()} - rooms | {*_LATER, *_SPACES}) - absent)


_uncaught.hide()
