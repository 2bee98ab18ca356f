"""gradtape: automatic differentiation with TensorFlow's GradientTape programming model.

This file only re-exports: every name here is defined in the layer it belongs to (see ARCHITECTURE.md).
"""

from gradtape import autodiff as autodiff
from gradtape import config as config
from gradtape import debugging as debugging
from gradtape import errors as errors
from gradtape import test as test
from gradtape import tree as nest
from gradtape.dtypes import (
    DType as DType, as_dtype as as_dtype, bfloat16 as bfloat16, bool_ as bool, complex64 as complex64,
    complex128 as complex128, float16 as float16, float32 as float32, float64 as float64, int8 as int8,
    int16 as int16, int32 as int32, int64 as int64, string as string, uint8 as uint8, uint16 as uint16,
    uint32 as uint32, uint64 as uint64,
)  # fmt: skip
from gradtape.errors import GradientWarning as GradientWarning
from gradtape.frontend.control_flow import (
    case as case, cond as cond, foldl as foldl, foldr as foldr, map_fn as map_fn, scan as scan,
    switch_case as switch_case, while_loop as while_loop,
)  # fmt: skip
from gradtape.frontend.custom import (
    custom_gradient as custom_gradient, grad_pass_through as grad_pass_through, numpy_function as numpy_function,
    py_function as py_function, recompute_grad as recompute_grad,
)  # fmt: skip
from gradtape.frontend.functional import (
    grad as grad, hessian as hessian, hvp as hvp, jacobian as jacobian, jvp as jvp, value_and_grad as value_and_grad,
    vjp as vjp,
)  # fmt: skip
from gradtape.frontend.indexed_slices import IndexedSlices as IndexedSlices
from gradtape.frontend.jacobian import vectorized_map as vectorized_map
from gradtape.frontend.misc import (
    Assert as Assert, control_dependencies as control_dependencies, device as device,
    executing_eagerly as executing_eagerly, group as group, init_scope as init_scope, is_tensor as is_tensor,
    name_scope as name_scope, no_op as no_op, print as print, tuple as tuple,
)  # fmt: skip
from gradtape.frontend.module import Module as Module
from gradtape.frontend.tape import GradientTape as GradientTape, UnconnectedGradients as UnconnectedGradients
from gradtape.frontend.tensor_array import TensorArray as TensorArray
from gradtape.frontend.variable import Variable as Variable
from gradtape.ir.types import TensorShape as TensorShape, TensorSpec as TensorSpec
from gradtape.ops.compare import (
    equal as equal, greater as greater, greater_equal as greater_equal, less as less, less_equal as less_equal,
    logical_and as logical_and, logical_not as logical_not, logical_or as logical_or, not_equal as not_equal,
)  # fmt: skip
from gradtape.ops.create import (
    constant as constant, convert_to_tensor as convert_to_tensor, eye as eye, fill as fill, linspace as linspace,
    one_hot as one_hot, ones as ones, ones_like as ones_like, range as range, rank as rank, shape as shape,
    size as size, zeros as zeros, zeros_like as zeros_like,
)  # fmt: skip
from gradtape.ops.cumulative import cumsum as cumsum
from gradtape.ops.elementwise import (
    abs as abs, acos as acos, acosh as acosh, add as add, asin as asin, asinh as asinh, atan as atan, atan2 as atan2,
    atanh as atanh, cast as cast, complex as complex, cos as cos, cosh as cosh, divide as divide, exp as exp,
    multiply as multiply, negative as negative, pow as pow, sign as sign, sin as sin, sinh as sinh, sqrt as sqrt,
    square as square, subtract as subtract, tan as tan, tanh as tanh,
)  # fmt: skip
from gradtape.ops.index import gather as gather
from gradtape.ops.matmul import matmul as matmul
from gradtape.ops.reduce import (
    reduce_all as reduce_all, reduce_any as reduce_any, reduce_logsumexp as reduce_logsumexp, reduce_max as reduce_max,
    reduce_mean as reduce_mean, reduce_min as reduce_min, reduce_prod as reduce_prod, reduce_sum as reduce_sum,
)  # fmt: skip
from gradtape.ops.select import (
    clip_by_value as clip_by_value, floor as floor, maximum as maximum, minimum as minimum, round as round,
    where as where,
)  # fmt: skip
from gradtape.ops.shape import (
    broadcast_to as broadcast_to, concat as concat, expand_dims as expand_dims, pad as pad, repeat as repeat,
    reshape as reshape, reverse as reverse, roll as roll, split as split, squeeze as squeeze, stack as stack,
    tile as tile, transpose as transpose, unstack as unstack,
)  # fmt: skip
from gradtape.ops.stop import identity as identity, stop_gradient as stop_gradient
from gradtape.ops.tensor import Tensor as Tensor
from gradtape.tools.gradcheck import gradcheck as gradcheck

newaxis = None
__version__ = "0.1.0"
