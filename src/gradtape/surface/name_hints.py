"""What to say of a name that `gt`, or a namespace of it, does not have: how it is called here, where it stands, what is near.

Only for messages: nothing here makes a name work. Other libraries' names for attributes of tensors are in `core/tensor.py`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import numpy as np

NAMESPACES = (
    "nn", "math", "linalg", "random", "signal", "image", "optimizers", "autodiff", "debugging", "train", "initializers",
)  # fmt: skip
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "all", "any", "std", "logsumexp")
ELSEWHERE = {
    **{name: f"gt.reduce_{name}" for name in REDUCTIONS}, "amax": "gt.reduce_max", "amin": "gt.reduce_min",
    "tensor": "gt.constant", "array": "gt.constant", "asarray": "gt.convert_to_tensor", "as_tensor": "gt.convert_to_tensor",
    "from_numpy": "gt.convert_to_tensor", "var": "gt.math.reduce_variance", "cat": "gt.concat", "concatenate": "gt.concat",
    "permute": "gt.transpose", "dot": "a @ b or gt.tensordot", "mm": "gt.matmul", "bmm": "gt.matmul",
    "clamp": "gt.clip_by_value", "clip": "gt.clip_by_value", "arange": "gt.range",
    "power": "gt.pow", "unsqueeze": "gt.expand_dims", "flip": "gt.reverse",
    "astype": "gt.cast", "arctan2": "gt.atan2", "arcsin": "gt.asin", "arccos": "gt.acos", "arctan": "gt.atan",
    "rand": "gt.random.uniform", "randn": "gt.random.normal", "manual_seed": "gt.random.set_seed", "vmap": "gt.vectorized_map",
    "jit": "gt.function", "compile": "gt.function", "no_grad": "tape.stop_recording()", "gradient": "gt.grad",
    "value_and_gradient": "gt.value_and_grad", "jacrev": "gt.jacobian", "jacfwd": "gt.jacobian", "detach": "gt.stop_gradient",
    "checkpoint": "gt.recompute_grad", "Parameter": "gt.Variable", "randint": "gt.random.uniform([...], 0, n, gt.int32)",
    "Linear": "gt.keras.layers.Dense, or x @ w + b with variables", "MSELoss": "gt.reduce_mean((a - b) ** 2)",
    "CrossEntropyLoss": "gt.nn.sparse_softmax_cross_entropy_with_logits", "functional": "gt.nn", "inverse": "gt.linalg.inv",
    **dict.fromkeys(("mse", "mse_loss"), "gt.reduce_mean((a - b) ** 2), or gt.keras.losses"),
    **dict.fromkeys(("cross_entropy", "nll_loss"), "gt.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)"),
    **dict.fromkeys(("binary_cross_entropy", "bce_loss"), "gt.nn.sigmoid_cross_entropy_with_logits(labels, logits)"),
    **dict.fromkeys(("int", "long"), "gt.int32 or gt.int64"), "float": "gt.float32 or gt.float64", "seed": "gt.random.set_seed",
    **dict.fromkeys(("cuda", "gpu", "backends"), "the CPU: no other device is there, and nothing needs to be moved"),
    **dict.fromkeys(("numpy", "np"), "NumPy itself: its functions take tensors and are recorded, np.sin(t)"),
    "isnan": "gt.math.is_nan", "isinf": "gt.math.is_inf", "isfinite": "gt.math.is_finite", "full": "gt.fill",
    "optim": "gt.optimizers", "autograd": "gt.GradientTape, or gt.grad", "jax": "gt itself", "masked_select": "gt.boolean_mask",
    **dict.fromkeys(("set_grad_enabled", "inference_mode"), "tape.stop_recording(); nothing is recorded outside of tapes"),
    **dict.fromkeys(("tree_util", "tree_map", "tree"), "gt.nest.map_structure"), "empty": "gt.zeros",
    **dict.fromkeys(("Sequential", "ModuleList"), "gt.keras.Sequential, or a list in a gt.Module, whose variables are found"),
    **dict.fromkeys(("pmap", "shard_map"), "gt.distribute for many processes, gt.vectorized_map for many examples"),
    "device_put": "the tensor itself: everything is on the CPU", "lr_scheduler": "gt.optimizers.schedules",
    "set_printoptions": "np.set_printoptions", "lax": "gt.while_loop and gt.scan, or Python's loops in a gt.function",
    **dict.fromkeys(("TextLineDataset", "TFRecordDataset"), "gt.data.Dataset.from_generator of a function that reads the file"),
    **dict.fromkeys(("DataLoader", "utils"), "gt.data.Dataset.from_tensor_slices(...).shuffle(n).batch(k)"),
    **{f"{name}Optimizer": f"gt.optimizers.{name}" for name in ("Adam", "Adagrad", "Adadelta", "RMSprop", "Ftrl")},
    "GradientDescentOptimizer": "gt.optimizers.SGD", "MomentumOptimizer": "gt.optimizers.SGD(rate, momentum=...)",
    **dict.fromkeys(("PRNGKey", "key"), "gt.random.Generator.from_seed(n), or a seed [n, m] for gt.random.stateless_normal"),
    "fori_loop": "a Python loop in a gt.function, or gt.while_loop", "get": "the class itself, or getattr(module, name)",
    # TensorFlow's own, so that a program that asks for one is told what to do instead
    **dict.fromkeys(
        ["Session", "placeholder", "global_variables_initializer", "get_variable", "compat", "Graph", "Operation",
         "graph_util", "import_graph_def", "make_ndarray", "make_tensor_proto", "load_library", "load_op_library",
         "raw_ops", "mlir", "queue"],
        "no TensorFlow 1 names, graphs or protocol buffers: values are computed at once, and gt.function makes programs",
    ),
    **{name: f"not part of gradtape{cure}" for cure, names in {
        ", whose tensors are dense arrays; use padded rows and gt.sequence_mask, or gt.math.segment_sum on flat ones":
            "ragged RaggedTensor RaggedTensorSpec ragged_fill_empty_rows ragged_fill_empty_rows_grad",
        ", whose tensors are dense arrays; SciPy's sparse matrices may multiply tensors (`matrix @ x`)":
            "sparse SparseTensor SparseTensorSpec",
        ": there are no quantized numbers; gt.saturate_cast and gt.grad_pass_through are what fake quantization takes":
            "qint8 qint16 qint32 quint8 quint16 quantization",
        ", whose specs are those of tensors: gt.TensorSpec, gt.data.DatasetSpec":
            "resource variant OptionalSpec NoneTensorSpec TensorArraySpec IndexedSlicesSpec TypeSpec type_spec_from_value",
        ", which computes on the CPU: gt.function makes machine code, gt.distribute uses many processes":
            "tpu xla dtensor check_pinned DeviceSpec",
        ": gt.custom_gradient gives a function its derivative, gt.stop_gradient takes it away":
            "RegisterGradient no_gradient NotDifferentiable",
        ", where strings are opaque data; use Python's, gt.numpy_function in programs, gt.data.Dataset.map in pipelines":
            "strings as_string edit_distance fingerprint",
        "; use gt.save and gt.load, or gt.train.Checkpoint": "saved_model lite",
        "; `gradtape run --report` writes a page about a run": "summary profiler",
        "; use Python's files, np.load and gt.load, and gt.data.Dataset.from_generator for what is read": "io",
        "; use scipy.io.wavfile to read sounds and gt.signal to transform them": "audio",
        "; use a dict before tensors are made, gt.gather and gt.searchsorted with tensors": "lookup",
        "; use Python's sets, gt.unique, or np.intersect1d on arrays": "sets",
        "; use Keras's preprocessing layers (gt.keras.layers), gt.one_hot and gt.gather": "feature_column",
        "; use gt.__version__ and `gradtape doctor`": "sysconfig",
        "; NumPy's own functions take tensors (np.sin(t)), and gt.function is the compiler": "experimental",
        "": "security",
        ": gradients are added as they come; leave the argument out": "AggregationMethod",
        "; use threading.Lock": "CriticalSection",
    }.items() for name in names.split()},
    "approx_top_k": "gt.math.top_k", "conv": "gt.nn.convolution", "conv2d_backprop_filter_v2": "gt.vjp of gt.nn.conv2d",
    "conv2d_backprop_input_v2": "gt.nn.conv2d_transpose", "extract_volume_patches": "gt.space_to_batch_nd and gt.reshape",
    "get_current_name_scope": "gt.name_scope as a context", "guarantee_const": "the tensor as it is, or gt.constant",
    "nondifferentiable_batch_function": "gt.vectorized_map", "parallel_stack": "gt.stack",
    "random_index_shuffle": "gt.random.shuffle", "required_space_to_batch_paddings": "gt.space_to_batch_nd with paddings",
    "fftnd": "gt.signal.fft, fft2d or fft3d", "ifftnd": "gt.signal.ifft, ifft2d or ifft3d",
    "rfftnd": "gt.signal.rfft, rfft2d or rfft3d", "irfftnd": "gt.signal.irfft, irfft2d or irfft3d",
}  # fmt: skip


def missing(name: str, known: list[str], space: str = "") -> str:
    """The message for `gt.name`, or `gt.space.name`; `known` are the names there are."""
    home = f"{space}." if space else ""
    text = f"module 'gradtape{home and '.' + space}' has no attribute {name!r}"
    if name in ELSEWHERE:
        cure = ELSEWHERE[name]
        return f"{text}; {cure}" if cure.startswith(("no ", "not ")) else f"{text}; use {cure}"
    if name.startswith("__"):
        return text
    public = import_module("gradtape")
    if space and name in dir(public):
        return f"{text}; use gt.{name}"
    homes = [space for space in NAMESPACES if name in vars(getattr(public, space))]
    if homes:
        return f"{text}; use gt.{homes[0]}.{name}"
    import difflib

    numpys = getattr(np, name, None)
    if numpys in import_module("gradtape.interop.protocols").numpy_rules() or isinstance(numpys, (np.ufunc, float)):
        return f"{text}; use np.{name}" + (
            "" if isinstance(numpys, float) else ", as NumPy's functions take tensors and are recorded"
        )
    near = difflib.get_close_matches(name, [other for other in known if not other.startswith("_")], 1, 0.7)
    return f"{text}; did you mean gt.{home}{near[0]}?" if near else text


def hint(module: str) -> None:
    """Have a namespace answer as `gt` does when it is asked for a name that it does not have; completion offers what it has for
    users, not the files that it is made of."""
    space = vars(sys.modules[module])

    def offered() -> list[str]:
        own = {name for name in space if f"{module}.{name}" in sys.modules}
        return sorted({*space.get("__all__", {*space} - own)} | {name for name in space if name.startswith("__")})

    def answer(name: str) -> NoReturn:
        text = name if name.startswith("_") else missing(name, offered(), module.rpartition(".")[2])
        raise AttributeError(text, name=name)  # without the module: Python would add a guess of its own to the cure

    space["__getattr__"], space["__dir__"] = answer, offered
