"""`fit`, `evaluate`, `predict` and their kin: each step is one compiled function with the tape inside it.

The loops over epochs and batches, callbacks and logs follow Keras's documentation; what one step does is `train_step`,
`test_step` and `predict_step`, which users may override. Invariant: nothing here computes; only steps do.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module, optimizers as optimizers_module, tree
from keras.src.backend import config
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Tensor
from gradtape.distribute.strategy_variables import MirroredVariable
from gradtape.errors import FailedPreconditionError
from gradtape.functions.function import function
from gradtape.ir.types import TensorSpec
from gradtape.keras.core_ops import convert_to_tensor
from gradtape.keras.dataset_adapter import adapted
from gradtape.keras.installation import keras_version
from gradtape.tape.gradient_tape import GradientTape

_LONG = 5000  # steps with as many examples, whose time is worth another compilation
# Keras computes these layers by TensorFlow's operations, on values: no program can hold them
_BY_TENSORFLOW = frozenset({"IndexLookup", "Hashing", "HashedCrossing", "TextVectorization"})


class GradtapeTrainer(base_trainer.Trainer):
    """The base of Keras's `Model`."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Any = None
        self.test_function: Any = None
        self.predict_function: Any = None
        self._last_size = 0  # of the last batch of the data at hand, if it is smaller than the others; -1: nobody knows

    # -- one step ----------------------------------------------------------------------------------------------------

    def _forward(self, x: Any, training: bool) -> Any:
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def _loss_of(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> Any:
        loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        rows = next(part for part in tree.flatten(x) if part is not None).shape[0]
        self._loss_tracker.update_state(loss, sample_weight=rows if isinstance(rows, int) else convert_to_tensor(rows + 0))
        return loss

    def train_step(self, data: Any) -> Any:
        """Forward, backward, update; what `fit` runs for each batch."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self._forward(x, training=True)
            loss = self._loss_of(x, y, y_pred, sample_weight, training=True)
            if self.optimizer is not None:
                loss = self.optimizer.scale_loss(loss)
        weights = self.trainable_weights
        if weights:
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> Any:
        """What `evaluate` runs for each batch."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._forward(x, training=False)
        self._loss_of(x, y, y_pred, sample_weight, training=False)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        """What `predict` runs for each batch."""
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self._forward(x, training=False)

    def _build_for(self, step: str, **batch: Any) -> None:
        """Make all variables by the shapes of a batch. A step of the user's own makes them when it is traced.

        It need not call the model, or calls it on other parts of the batch, as Keras's guides to GANs and autoencoders do.
        """
        if getattr(type(self), step) is getattr(GradtapeTrainer, step):
            self._symbolic_build(**batch)

    # -- compiled steps ----------------------------------------------------------------------------------------------

    def _compiled(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A step as a function of one batch: compiled unless the model is to run eagerly."""

        def on_tensors(data: Any) -> Any:
            return step(tree.map_structure(lambda part: None if part is None else convert_to_tensor(part), data))

        kinds = {kind.__name__ for layer in self._flatten_layers() for kind in type(layer).__mro__}
        if self.run_eagerly or kinds & _BY_TENSORFLOW:
            return on_tensors
        compiled = function(on_tensors, reduce_retracing=True)
        told = {0}  # sizes of last batches that the step knows of
        # One program for any number of rows is compiled once, and slower than one for the number at hand: an MLP of 0.23 ms by
        # half, an LSTM of 3 ms by a tenth, which pays for compiling in 4,000 steps. A long training has both; by the number of
        # steps, so that it can be repeated to the bit.
        exact, steps = functools.cache(lambda: function(on_tensors)), Counter[int]()

        def on_batch(data: Any) -> Any:
            fed = tree.map_structure(_fed, data)
            if self._last_size not in told:
                told.add(self._last_size)
                size = self._last_size if self._last_size > 0 else _rows(fed) + 1
                compiled.expect(tree.map_structure(lambda part: _of_size(part, size), fed))
            rows = _rows(fed) if len(told) > 1 else 0
            steps[rows] += 1
            return exact()(fed) if rows and steps[rows] > _LONG else compiled(fed)

        return on_batch

    def _repeated(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """`steps_per_execution` steps for one call: the logs of the last."""
        one = self._compiled(step)

        def run(batches: list[Any]) -> Any:
            for data in batches:
                logs = one(data)
            return logs

        return run

    def make_train_function(self, force: bool = False) -> None:
        mirrored = (variable.variable() for variable in self.trainable_variables)
        if HOOKS.world.size > 1 and any(isinstance(variable, MirroredVariable) for variable in mirrored):
            raise FailedPreconditionError(
                f"the variables of {self.name} belong to a strategy of {HOOKS.world.size} ranks, and Keras's training would "
                "change them on each rank apart: write the loop with strategy.run, a gt.GradientTape and gt.optimizers"
            )
        if self.train_function is None or force:
            self.train_function = self._repeated(self.train_step)

    def make_test_function(self, force: bool = False) -> None:
        if self.test_function is None or force:
            self.test_function = self._repeated(self.test_step)

    def make_predict_function(self, force: bool = False) -> None:
        if self.predict_function is not None and not force:
            return
        one = self._compiled(self.predict_step)

        def run(batches: list[Any]) -> Any:
            results = [one(data) for data in batches]
            return results[0] if len(results) == 1 else tree.map_structure(lambda *parts: _joined(parts), *results)

        self.predict_function = run

    # -- loops over batches ------------------------------------------------------------------------------------------

    def _batches(
        self, x: Any, y: Any = None, sample_weight: Any = None, batch_size: int | None = None, steps: int | None = None,
        shuffle: bool = False, class_weight: Any = None,
    ) -> EpochIterator:  # fmt: skip
        batches = EpochIterator(
            x=adapted(x, y, sample_weight, class_weight), y=y, sample_weight=sample_weight, batch_size=batch_size,
            steps_per_epoch=steps, shuffle=shuffle, class_weight=class_weight, steps_per_execution=self.steps_per_execution,
        )  # fmt: skip
        if steps is None:  # nobody said how much there is: an end is no interruption, though Keras warns of it
            batches._interrupted_warning = lambda: None
        adapter, known = batches.data_adapter, None
        with contextlib.suppress(NotImplementedError):  # a generator's does not even say that it does not know
            known = adapter.has_partial_batch
        self._last_size = (adapter.partial_batch_size or 0) if known else 0
        # What ends by itself ends with a smaller batch as a rule, and Keras's own layers take any number of rows. Code of the
        # user's may ask for it: that is told the number at hand.
        own = all(type(layer).__module__.startswith("keras.") for layer in self._flatten_layers())
        if known is None and steps is None and own:
            self._last_size = -1
        return batches

    def _callback_list(self, callbacks: Any, verbose: Any, epochs: int, steps: int | None, history: bool) -> Any:
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        told = callbacks_module.CallbackList(
            callbacks, add_history=history, add_progbar=verbose != 0, verbose=verbose, epochs=epochs, steps=steps, model=self
        )
        # A thread for the ends of batches is for engines whose logs are on their way. Ours are there, and handing them to a
        # thread costs two switches of threads in each step.
        told._async_train = told._async_test = told._async_predict = False
        return told

    @traceback_utils.filter_traceback
    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
        callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: bool = True,
        class_weight: Any = None, sample_weight: Any = None, initial_epoch: int = 0, steps_per_epoch: int | None = None,
        validation_steps: int | None = None, validation_batch_size: int | None = None, validation_freq: Any = 1,
    ) -> Any:  # fmt: skip
        """Train for some epochs; returns Keras's `History`."""
        self._assert_compile_called("fit")
        most = config.max_epochs()
        if most and most < epochs:
            warnings.warn(f"Limiting epochs to {most}", stacklevel=2)
            epochs = most
        self._eval_epoch_iterator = None
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
        held_out = None
        if validation_data is not None:
            held_out = data_adapter_utils.unpack_x_y_sample_weight(validation_data)
        batches = self._batches(x, y, sample_weight, batch_size, steps_per_epoch, shuffle, class_weight)
        self._build_for("train_step", iterator=batches)
        batches.reset()
        told = self._callback_list(callbacks, verbose, epochs, batches.num_batches, history=True)
        self.stop_training = False
        self.make_train_function()
        told.on_train_begin()
        final: dict[str, Any] = {}
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            self.reset_metrics()
            told.on_epoch_begin(epoch)
            logs = self._train_epoch(batches, told)
            final = dict(self._get_metrics_result_or_logs(logs))
            if held_out is not None and self._should_eval(epoch, validation_freq):
                size = validation_batch_size or batch_size
                final.update(self._validated(held_out, size, validation_steps, told))
            told.on_epoch_end(epoch, final)
            if self.stop_training:
                break
        if isinstance(self.optimizer, optimizers_module.Optimizer) and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        self._eval_epoch_iterator = None
        told.on_train_end(logs=final)
        return self.history

    def _train_epoch(self, batches: EpochIterator, told: Any) -> Any:
        logs: Any = {}
        for begin, end, data in _numbered(batches):
            told.on_train_batch_begin(begin)
            logs = self.train_function(data)
            told.on_train_batch_end(end, logs)
            if self.stop_training:
                break
        return logs

    def _validated(self, held_out: Any, batch_size: int | None, steps: int | None, told: Any) -> dict[str, Any]:
        x, y, sample_weight = held_out
        if self._eval_epoch_iterator is None:
            self._eval_epoch_iterator = self._batches(x, y, sample_weight, batch_size, steps)
        logs = self.evaluate(
            x, y, batch_size=batch_size, sample_weight=sample_weight, steps=steps, callbacks=told, return_dict=True,
            _use_cached_eval_dataset=True,
        )  # fmt: skip
        return {f"val_{name}": value for name, value in logs.items()}

    @traceback_utils.filter_traceback
    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = "auto", sample_weight: Any = None,
        steps: int | None = None, callbacks: Any = None, return_dict: bool = False, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Loss and metrics on data, without training."""
        self._assert_compile_called("evaluate")
        cached = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        batches: Any = self._eval_epoch_iterator if cached else self._batches(x, y, sample_weight, batch_size, steps)
        self._build_for("test_step", iterator=batches)
        batches.reset()
        told = self._callback_list(callbacks, verbose, 1, batches.num_batches, history=False)
        self.make_test_function()
        self.stop_evaluating = False
        told.on_test_begin()
        logs: Any = {}
        self.reset_metrics()
        for begin, end, data in _numbered(batches):
            told.on_test_batch_begin(begin)
            logs = self.test_function(data)
            told.on_test_batch_end(end, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        told.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback
    def predict(
        self, x: Any, batch_size: int | None = None, verbose: Any = "auto", steps: int | None = None, callbacks: Any = None
    ) -> Any:
        """The model's results on data, as NumPy arrays."""
        batches = self._batches(x, batch_size=batch_size, steps=steps)
        if not all(layer.built for layer in self._flatten_layers()):
            self._built_by(batches)
        told = self._callback_list(callbacks, verbose, 1, batches.num_batches, history=False)
        self.make_predict_function()
        self.stop_predicting = False
        told.on_predict_begin()
        results: list[Any] = []
        for begin, end, data in _numbered(batches):
            told.on_predict_batch_begin(begin)
            part = self.predict_function(data)
            results.append(part)
            told.on_predict_batch_end(end, {"outputs": part})
            if self.stop_predicting:
                break
        told.on_predict_end()
        return tree.map_structure(lambda *parts: np.concatenate([np.asarray(p) for p in parts]), *results) if results else None

    def _built_by(self, batches: EpochIterator) -> None:
        """Make the variables of a model that has not been called: by one batch, eagerly."""
        for _, _, data in _numbered(batches):
            with _no_training(self):
                self.predict_step(tree.map_structure(lambda part: None if part is None else convert_to_tensor(part), data[0]))
            break
        batches.reset()

    # -- single batches ------------------------------------------------------------------------------------------------

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """One training step."""
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified at the same time. "
                    f"Received: sample_weight={sample_weight}, class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        data = (x, y) if sample_weight is None else (x, y, sample_weight)
        self._build_for("train_step", data_batch=data)
        self.make_train_function()
        self._fresh_metrics()
        return self._answer(self.train_function([data]), return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """One evaluation step."""
        self._assert_compile_called("test_on_batch")
        data = (x, y) if sample_weight is None else (x, y, sample_weight)
        self._build_for("test_step", data_batch=data)
        self.make_test_function()
        self._fresh_metrics()
        return self._answer(self.test_function([data]), return_dict)

    def _fresh_metrics(self) -> None:
        """Metrics of single batches: those of the batch; up to Keras 3.10 of all batches so far."""
        if keras_version() > (3, 10):
            self.reset_metrics()

    def _answer(self, logs: Any, return_dict: bool) -> Any:
        logs = pythonify_logs(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """The model's result on one batch."""
        self.make_predict_function()
        result = self.predict_function([(x,)])
        return tree.map_structure(lambda part: np.array(part), result)


def _numbered(batches: EpochIterator) -> Iterator[tuple[int, int, Any]]:
    """First and last step of each execution, and its batches; up to Keras 3.10 an iterator says the first alone."""
    for *steps, data in batches:
        yield steps[0], steps[-1], data


class _no_training:  # noqa: N801  (reads as a sentence)
    """Losses that a call of a model leaves behind are not those of a training step."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.model._clear_losses()


def _fed(part: Any) -> Any:
    """A batch's array as the compiled step takes it: with the dtype that the model will see."""
    return part if part is None or isinstance(part, Tensor) else convert_to_tensor(part)


def _rows(batch: Any) -> int:
    """How many examples a batch has."""
    return next((part.shape[0] for part in tree.flatten(batch) if part is not None and part.ndim), 0)


def _of_size(part: Any, rows: int) -> Any:
    """The type of a part of a batch of so many rows."""
    return None if part is None else TensorSpec((rows, *part.shape[1:]) if part.ndim else (), part.dtype)


def _joined(parts: tuple[Any, ...]) -> Any:
    return np.concatenate([np.asarray(part) for part in parts])


NumpyTrainer = GradtapeTrainer  # what Keras calls the class that it finds in this seat
