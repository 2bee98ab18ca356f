"""Names that were added for programs of TensorFlow, NumPy and the array API standard took wrong arguments without a word
(weights of another length, fractions as labels, an unknown option), or failed inside with what NumPy or Python says there. A
mistake is an error of the same class in eager and compiled code, raised by the library, that names the argument.
"""

from __future__ import annotations

import linecache
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.frontend.bad_input import MISTAKES, VALUES

SOURCES = str(Path(gt.__file__).parent)
RAW = (AttributeError, AssertionError, IndexError, KeyError, ZeroDivisionError, UnboundLocalError, RecursionError, MemoryError)
METHODS = """T reshape ravel flatten transpose sum mean max min std dot clip fill all any real conj astype item tolist copy"""
WITHOUT_ARGUMENTS = {"T", "real", "conj", "tolist"}
NAMES = """
    np.cov np.histogram np.select np.gradient np.partition np.einsum np.linalg.eig gt.linalg.banded_triangular_solve
    gt.linalg.matrix_rank gt.linalg.logm gt.linalg.tridiagonal_solve gt.linalg.tridiagonal_matmul gt.nn.nce_loss gt.nn.ctc_loss
    gt.nn.conv3d gt.nn.conv3d_transpose gt.nn.max_pool_with_argmax gt.nn.weighted_cross_entropy_with_logits gt.signal.stft
    gt.signal.inverse_stft gt.signal.dct gt.signal.idct gt.signal.frame gt.signal.overlap_and_add gt.signal.hann_window
    gt.signal.hamming_window gt.signal.kaiser_window gt.signal.vorbis_window gt.signal.inverse_stft_window_fn gt.identity_n
    gt.shape_n gt.get_static_value gt.autograph.to_graph gt.IndexedSlices gt.elementwise_grad gt.hessian_vector_product
    gt.config.list_physical_devices gt.config.list_logical_devices gt.config.set_visible_devices gt.array_api.nextafter
    gt.array_api.unique_all gt.array_api.unique_counts gt.array_api.unique_inverse gt.array_api.fft.hfft gt.array_api.fft.ihfft
    gt.array_api.fft.fftfreq gt.array_api.fft.rfftfreq Tensor.to_device
"""


def program(text: str) -> tuple[Any, list[str]]:
    """The call as a function of the tensors it mentions."""
    names = [n for n in VALUES if re.search(rf"(?<![\w.'\"]){n}(?![\w='\"])", text)]
    line, file = f"lambda {', '.join(names)}: {text}", f"<{text}>"
    linecache.cache[file] = (len(line), None, [line], file)  # AutoGraph reads it there
    return eval(compile(line, file, "eval"), {"np": np, "gt": gt}), names


def failure(call: Any, arguments: list[Any], text: str) -> BaseException:
    try:
        result = call(*arguments)
    except Exception as error:
        return error
    raise AssertionError(f"{text} gave {result!r}")


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    for text, words in MISTAKES[name]:
        function, names = program(text)
        tensors = [gt.constant(VALUES[n]) for n in names]
        eager = failure(function, tensors, text)
        assert re.search(words, str(eager)), f"{text}: {type(eager).__name__}: {eager}"
        where = traceback.extract_tb(eager.__traceback__)[-1]
        assert where.filename.startswith(SOURCES), f"{text}: {where}: {eager}"
        # raised in words: here, or by dispatch, whose frames are not shown, in the place of what NumPy said
        assert (where.line or "").startswith("raise") or eager.__suppress_context__, f"{text}: {where}: {eager}"
        assert type(eager) not in RAW, f"{text}: {type(eager).__name__}: {eager}"
        for jit_compile in (True, False):
            compiled = failure(gt.function(function, jit_compile=jit_compile), tensors, text)
            assert type(compiled) is type(eager), f"{text}: {type(compiled).__name__}: {compiled}"
            assert re.search(words, str(compiled)), f"{text}: {compiled}"


@pytest.mark.parametrize("name", [n for n in MISTAKES if n.startswith("Tensor.") and n != "Tensor.to_device"])
def test_mistakes_with_methods_of_variables(name: str) -> None:
    for text, words in MISTAKES[name]:
        function, names = program(text)
        error = failure(function, [gt.Variable(VALUES[n]) for n in names], text)
        assert re.search(words, str(error)), f"{text}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("given", [(), (9,), (0, 0, 0), ("a",), (1.5,), (3, 0)])
def test_item_names_the_index(given: Any) -> None:
    with pytest.raises((gt.errors.OutOfRangeError, TypeError, ValueError), match=r"item: .* for shape \(3, 3\)"):
        gt.constant(VALUES["m"]).item(*given)


def test_every_name_has_mistakes() -> None:
    wanted = NAMES.split() + [f"Tensor.{m}" for m in METHODS.split() if m not in WITHOUT_ARGUMENTS | {"item"}]
    assert not [name for name in wanted if name not in MISTAKES]
    for name in wanted:
        home: Any = {"gt": gt, "np": np, "Tensor": gt.Tensor}
        for part in name.split("."):
            home = home[part] if isinstance(home, dict) else getattr(home, part)
        assert callable(home)
