"""What surrounds the update: gradients given and missing, clipping, constraints, learning rates, sparse rows, minimize."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gradtape as gt

opt = gt.optimizers


def test_missing_gradients_are_left_out_with_one_warning() -> None:
    a, b, c = (gt.Variable(1.0, name=n) for n in "abc")
    with pytest.warns(gt.GradientWarning, match="b:0, c:0") as caught:
        opt.SGD(0.5).apply_gradients([(1.0, a), (None, b), (None, c)])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [float(v) for v in (a, b, c)] == [0.5, 1.0, 1.0]


def test_no_gradient_at_all_is_an_error() -> None:
    w = gt.Variable(1.0, name="w")
    with pytest.raises(ValueError, match="no gradient for any variable: w:0"):
        opt.Adam().apply_gradients([(None, w)])
    with pytest.raises(ValueError, match="no gradients given"):
        opt.Adam().apply_gradients([])


def test_a_refused_step_changes_nothing() -> None:
    a, b = gt.Variable([1.0, 1.0], name="a"), gt.Variable([1.0], name="b")
    optimizer = opt.Adam()
    with pytest.raises(ValueError, match=r"variable 'b:0' has shape \(1,\) but its gradient has shape \(2,\)"):
        optimizer.apply_gradients([([1.0, 1.0], a), ([1.0, 1.0], b)])
    with pytest.raises(ValueError, match="is not a Variable"):
        optimizer.apply_gradients([([1.0, 1.0], a), ([1.0], gt.constant([1.0]))])
    with pytest.raises(ValueError, match="cannot be trained"):
        optimizer.apply_gradients([([1.0, 1.0], a), (1, gt.Variable(1, name="n"))])
    with pytest.raises(ValueError, match="gradient is complex"):
        optimizer.apply_gradients([(gt.constant(np.array([1j, 1j])), a)])
    assert a.numpy().tolist() == [1.0, 1.0]
    assert int(optimizer.iterations) == 0


# -- clipping --------------------------------------------------------------------------------------------------------


def steps(optimizer: Any, gradients: list[Any], recorded: bool) -> list[Any]:
    """The steps (with rate 1) that clipped gradients cause."""
    variables = [gt.Variable(np.zeros(np.shape(g))) for g in gradients]
    pairs = [(gt.constant(np.asarray(g)), v) for g, v in zip(gradients, variables, strict=True)]
    if recorded:
        with gt.GradientTape():
            optimizer.apply_gradients(pairs)
    else:
        optimizer.apply_gradients(pairs)
    return [-v.numpy() for v in variables]


@pytest.mark.parametrize("recorded", [False, True], ids=["arrays", "tensors"])
def test_clipping(recorded: bool) -> None:
    gradients = [np.array([3.0, 4.0]), np.array([[0.3], [0.4]])]
    found = steps(opt.SGD(1.0, clipnorm=1.0), gradients, recorded)
    np.testing.assert_allclose(found[0], [0.6, 0.8])
    np.testing.assert_allclose(found[1], [[0.3], [0.4]])
    found = steps(opt.SGD(1.0, clipvalue=0.35), gradients, recorded)
    np.testing.assert_allclose(found[0], [0.35, 0.35])
    np.testing.assert_allclose(found[1], [[0.3], [0.35]])
    norm = np.sqrt(25.25)
    found = steps(opt.SGD(1.0, global_clipnorm=2.0), gradients, recorded)
    np.testing.assert_allclose(found[0], gradients[0] * 2 / norm)
    np.testing.assert_allclose(found[1], gradients[1] * 2 / norm)
    found = steps(opt.SGD(1.0, global_clipnorm=10.0), gradients, recorded)
    np.testing.assert_allclose(found[0], gradients[0])


def test_global_norm_over_two_dtypes_keeps_both() -> None:
    a, b = gt.Variable(np.zeros(1, np.float32)), gt.Variable(np.zeros(1))
    opt.SGD(1.0, global_clipnorm=1.0).apply_gradients([([3.0], a), (np.array([4.0]), b)])
    assert (a.dtype, b.dtype) == (gt.float32, gt.float64)
    np.testing.assert_allclose([float(a[0]), float(b[0])], [-0.6, -0.8], rtol=1e-6)


def test_clipping_arguments() -> None:
    with pytest.raises(ValueError, match="only one of clipnorm, clipvalue and global_clipnorm"):
        opt.SGD(clipnorm=1.0, clipvalue=1.0)
    with pytest.raises(ValueError, match="clipnorm must be positive"):
        opt.Adam(clipnorm=0.0)
    assert (opt.SGD(clipnorm=2.0).clipnorm, opt.SGD(clipvalue=3.0).clipvalue) == (2.0, 3.0)
    assert opt.SGD(global_clipnorm=4.0).global_clipnorm == 4.0


# -- constraints, weight decay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True], ids=["arrays", "tensors"])
def test_constraints_are_applied(recorded: bool) -> None:
    w = gt.Variable([0.1, 2.0], constraint=lambda v: gt.maximum(v, 0.0))
    if recorded:
        with gt.GradientTape():
            opt.SGD(1.0).apply_gradients([([1.0, 1.0], w)])
    else:
        opt.SGD(1.0).apply_gradients([([1.0, 1.0], w)])
    assert w.numpy().tolist() == [0.0, 1.0]


def test_exclusion_from_weight_decay() -> None:
    a, b, c = (gt.Variable(1.0, name=n) for n in ("kernel", "bias", "other"))
    optimizer = opt.SGD(0.5, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[c], var_names=["bias"])
    optimizer.apply_gradients([(0.0, a), (0.0, b), (0.0, c)])
    assert [float(v) for v in (a, b, c)] == [0.75, 1.0, 1.0]


# -- sparse gradients ------------------------------------------------------------------------------------------------

SPARSE = {
    "sgd": lambda: opt.SGD(0.1),
    "sgd clipnorm": lambda: opt.SGD(0.1, clipnorm=0.5),
    "sgd clipvalue": lambda: opt.SGD(0.1, clipvalue=0.5),
    "sgd decay": lambda: opt.SGD(0.1, weight_decay=0.1),
    "momentum": lambda: opt.SGD(0.1, 0.9),
    "adam": lambda: opt.Adam(0.1),
    "amsgrad": lambda: opt.Adam(0.1, amsgrad=True),
    "rmsprop": lambda: opt.RMSprop(0.1, momentum=0.5, centered=True),
    "adagrad": lambda: opt.Adagrad(0.1),
    "adadelta": lambda: opt.Adadelta(1.0),
    "adamax": lambda: opt.Adamax(0.1),
    "nadam": lambda: opt.Nadam(0.1),
    "ftrl": lambda: opt.Ftrl(0.1),
    "lion": lambda: opt.Lion(0.1),
}


@pytest.mark.parametrize("recorded", [False, True], ids=["arrays", "tensors"])
@pytest.mark.parametrize("case", SPARSE)
def test_sparse_equals_dense(case: str, recorded: bool) -> None:
    random = np.random.default_rng(5)
    start = random.normal(size=(6, 2))
    sparse, dense = gt.Variable(start), gt.Variable(start)
    one, other = SPARSE[case](), SPARSE[case]()
    for indices in ([1, 4, 1], [0, 0, 5], [2, 2, 2]):
        rows = gt.IndexedSlices(random.normal(size=(3, 2)), indices, dense_shape=(6, 2))
        if recorded:
            with gt.GradientTape():
                one.apply_gradients([(rows, sparse)])
        else:
            one.apply_gradients([(rows, sparse)])
        other.apply_gradients([(rows.to_dense(), dense)])
        np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-12)


def test_rows_of_a_tape_gradient_are_updated_alone() -> None:
    table = gt.Variable(np.ones((5, 2), np.float32))
    with gt.GradientTape() as tape:
        loss = gt.reduce_sum(gt.gather(table, [1, 3, 1]) ** 2)
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, gt.IndexedSlices)
    opt.SGD(0.125).apply_gradients([(gradient, table)])
    assert table.numpy()[:, 0].tolist() == [1.0, 0.5, 1.0, 0.75, 1.0]


def test_sparse_gradient_that_does_not_fit() -> None:
    table = gt.Variable(np.ones((5, 2)), name="table")
    with pytest.raises(IndexError, match=r"'table:0' has a row outside \[0, 5\)"):
        opt.SGD().apply_gradients([(gt.IndexedSlices(np.ones((1, 2)), [5], (5, 2)), table)])
    with pytest.raises(ValueError, match="shape"):
        opt.SGD().apply_gradients([(gt.IndexedSlices(np.ones((1, 3)), [0], (5, 3)), table)])
    assert np.all(table.numpy() == 1)


# -- learning rates --------------------------------------------------------------------------------------------------


def moved(optimizer: Any) -> float:
    w = gt.Variable(np.float64(0.0))
    optimizer.apply_gradients([(np.float64(1.0), w)])
    return -float(w)


def test_learning_rate_is_a_variable_that_can_be_set() -> None:
    optimizer = opt.SGD(0.1)
    assert isinstance(optimizer.learning_rate, gt.Variable)
    assert optimizer.learning_rate.numpy() == np.float32(0.1)
    assert moved(optimizer) == 0.1  # not the float32 neighbour of 0.1
    optimizer.learning_rate = 0.2
    assert moved(optimizer) == 0.2
    optimizer.learning_rate.assign(0.25)
    assert moved(optimizer) == 0.25
    optimizer.learning_rate = lambda: 0.5
    assert moved(optimizer) == 0.5
    assert float(optimizer.learning_rate) == 0.5


def test_learning_rate_forms() -> None:
    assert moved(opt.SGD(gt.Variable(0.5))) == 0.5
    assert moved(opt.SGD(gt.constant(0.5))) == 0.5
    assert moved(opt.SGD(np.float64(0.1))) == 0.1
    assert moved(opt.SGD(lambda: gt.constant(0.5))) == 0.5
    by_step = opt.SGD(lambda step: 1.0 / (1 + int(step)))
    assert [moved(by_step) for _ in range(3)] == [1.0, 0.5, 1 / 3]


def test_schedule_in_an_optimizer_follows_its_steps() -> None:
    optimizer = opt.SGD(opt.schedules.ExponentialDecay(1.0, 1, 0.5))
    assert [moved(optimizer) for _ in range(4)] == [1.0, 0.5, 0.25, 0.125]
    assert float(optimizer.learning_rate) == 0.0625
    with gt.GradientTape():
        assert moved(optimizer) == 0.0625


def test_own_schedule_class() -> None:
    class Halving(opt.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return 0.5 ** gt.cast(step, gt.float32)

    optimizer = opt.SGD(Halving())
    assert [moved(optimizer) for _ in range(3)] == [1.0, 0.5, 0.25]


# -- minimize, build, variables --------------------------------------------------------------------------------------


def test_minimize_with_a_function() -> None:
    w = gt.Variable([3.0, -1.0])
    optimizer = opt.Adam(0.2)
    for _ in range(200):
        optimizer.minimize(lambda: gt.reduce_sum((w - [1.0, 2.0]) ** 2), [w])
    np.testing.assert_allclose(w.numpy(), [1.0, 2.0], atol=1e-3)
    optimizer.minimize(lambda: gt.reduce_sum(w**2), lambda: [w])
    assert int(optimizer.iterations) == 201


def test_minimize_with_a_tensor_needs_its_tape() -> None:
    w = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        loss = w * w
    with pytest.raises(ValueError, match="needs the tape"):
        opt.SGD().minimize(loss, [w])
    opt.SGD(0.5).minimize(loss, [w], tape=tape)
    assert float(w) == 0.0


def test_build_and_variables() -> None:
    a, b = gt.Variable([1.0], name="a"), gt.Variable([1.0, 2.0], name="b")
    optimizer = opt.Adam()
    optimizer.build([a, b])
    assert [v.name for v in optimizer.variables] == [
        "iterations:0", "learning_rate:0", "a/momentum:0", "a/velocity:0", "b/momentum:0", "b/velocity:0",
    ]  # fmt: skip
    assert not any(v.trainable for v in optimizer.variables)
    optimizer.apply([[1.0], [1.0, 1.0]])
    assert int(optimizer.iterations) == 1
    with pytest.raises(ValueError, match="1 gradients for 2 variables"):
        optimizer.apply([[1.0]])


def test_arguments_out_of_range() -> None:
    with pytest.raises(ValueError, match="momentum must lie between 0 and 1"):
        opt.SGD(momentum=1.5)
    with pytest.raises(ValueError, match="beta_1"):
        opt.Lion(beta_1=0.0)
    with pytest.raises(ValueError, match="weight_decay must be a number"):
        opt.AdamW(weight_decay=None)
    with pytest.raises(NotImplementedError, match="must define update"):
        opt.Optimizer(0.1).apply_gradients([(1.0, gt.Variable(1.0))])


DEFAULTS = {
    "SGD": {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False, "weight_decay": None},
    "Adam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "amsgrad": False},
    "AdamW": {"learning_rate": 0.001, "weight_decay": 0.004, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "RMSprop": {"learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False},
    "Adagrad": {"learning_rate": 0.001, "initial_accumulator_value": 0.1, "epsilon": 1e-7},
    "Adadelta": {"learning_rate": 0.001, "rho": 0.95, "epsilon": 1e-7, "weight_decay": None},
    "Adamax": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": None},
    "Nadam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": None},
    "Ftrl": {
        "learning_rate": 0.001,
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
        "l2_shrinkage_regularization_strength": 0.0,
        "beta": 0.0,
    },
    "Lion": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.99, "weight_decay": None},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_argument_names_order_and_defaults(name: str) -> None:
    import inspect

    parameters = inspect.signature(getattr(opt, name)).parameters
    given = {key: p.default for key, p in parameters.items()}
    assert dict(list(given.items())[: len(DEFAULTS[name])]) == DEFAULTS[name]
    assert {"clipnorm", "clipvalue", "global_clipnorm", "weight_decay", "name"} <= set(given)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_copies_train_on_their_own(way: str) -> None:
    w = gt.Variable([1.0, 2.0])
    optimizer = opt.Adam(0.1, weight_decay=0.1)
    optimizer.exclude_from_weight_decay([w])
    optimizer.apply_gradients([([1.0, -1.0], w)])
    both = (w, optimizer)
    other, twin = copy.deepcopy(both) if way == "deepcopy" else pickle.loads(pickle.dumps(both))
    optimizer.apply_gradients([([3.0, 1.0], w)])
    assert other.numpy().tolist() != w.numpy().tolist()
    twin.apply_gradients([([3.0, 1.0], other)])
    assert other.numpy().tolist() == w.numpy().tolist()
    assert [v.numpy().tolist() for v in twin.variables] == [v.numpy().tolist() for v in optimizer.variables]
