"""A variable as target that was not read in the block had no gradient with respect to itself; a tensor read from a variable
counted, as a source, every other read of it too."""

import pytest

import gradtape as gt

v = gt.Variable(3.0)
w = gt.Variable(2.0)


def _itself():
    with gt.GradientTape() as tape:
        r = v
    return (tape.gradient(r, v),)


def _another():
    with gt.GradientTape(persistent=True) as tape:
        pass
    return tape.gradient(v, w), tape.gradient(v, v)


def _jacobian():
    with gt.GradientTape() as tape:
        pass
    return (tape.jacobian(v, v),)


def _assigned():
    with gt.GradientTape() as tape:
        x = gt.constant(2.0)
        tape.watch(x)
        w.assign(x * x)
    return (tape.gradient(w, x),)


@pytest.mark.parametrize(("f", "wanted"), [(_itself, [1.0]), (_another, [None, 1.0]), (_jacobian, [1.0]), (_assigned, [4.0])])
def test_a_variable_as_target(f, wanted):
    for run in (f, gt.function(f), gt.function(f, jit_compile=False)):
        w.assign(2.0)
        assert [None if r is None else float(r) for r in run()] == wanted


READS = {
    "read_value": lambda: v.read_value(),
    "value": lambda: v.value(),
    "convert_to_tensor": lambda: gt.convert_to_tensor(v),
    "constant": lambda: gt.constant(v),
    "identity": lambda: gt.identity(v),
    "cast": lambda: gt.cast(v, gt.float32),
    "plus": lambda: +v,
    "broadcast_to": lambda: gt.broadcast_to(v, []),
    "ensure_shape": lambda: gt.ensure_shape(v, []),
    "slice": lambda: v[...],
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("assigned", [False, True])
def test_a_read_counts_itself_only(name, assigned):
    read = READS[name]

    def f():
        with gt.GradientTape(persistent=True, through_assignments=True) as tape:
            x = gt.constant(3.0)
            tape.watch(x)
            if assigned:
                v.assign(x * 1.0)
            a = read()
            y = a * a * v
        return tape.gradient(y, a), tape.gradient(y, x if assigned else v)

    for run in (f, gt.function(f), gt.function(f, jit_compile=False)):
        v.assign(3.0)
        assert [float(r) for r in run()] == [18.0, 27.0]
    v.assign(3.0)
