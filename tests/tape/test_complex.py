"""Complex gradients: dL/dx + i dL/dy, conj f' for holomorphic f."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, tape_gradient, wide

Z = np.array([1.0 + 2.0j, -0.5 + 0.3j])


def numeric(f, z):
    """dL/dx + i dL/dy of a real function."""
    h = 1e-6
    out = np.zeros(z.shape, complex)
    for k in np.ndindex(z.shape):
        for unit in (1.0, 1.0j):
            up, down = z.copy(), z.copy()
            up[k] += h * unit
            down[k] -= h * unit
            out[k] += unit * (float(f(wide(up))) - float(f(wide(down)))) / (2 * h)
    return out


@pytest.mark.parametrize("f", [
    lambda z: gt.reduce_sum(gt.abs(z) ** 2), lambda z: gt.reduce_sum(gt.abs(z * z + 1.0)),
    lambda z: gt.math.real(gt.reduce_sum(z**3)),
    lambda z: gt.reduce_sum(gt.math.imag(gt.exp(z)) * gt.math.real(z)), lambda z: gt.reduce_sum(gt.math.angle(z)),
    lambda z: gt.math.real(gt.reduce_prod(gt.math.conj(z) * z[::-1])), lambda z: gt.reduce_sum(gt.abs(gt.sin(z) / z)),
])  # fmt: skip
def test_against_finite_differences(f):
    close(tape_gradient(f, Z), numeric(f, Z), 1e-6)


def test_holomorphic_functions_give_the_conjugate_derivative():
    close(tape_gradient(lambda z: z**3, 1.0 + 2.0j), np.conj(3 * (1 + 2j) ** 2))
    close(tape_gradient(lambda z: gt.exp(z), 0.3 - 1.0j), np.conj(np.exp(0.3 - 1j)))


def test_one_tape_and_nested_tapes_agree():
    f = lambda z: gt.reduce_sum(gt.abs(gt.sin(z)) ** 2)  # noqa: E731
    z = wide(Z)
    with gt.GradientTape() as outer:
        outer.watch(z)
        with gt.GradientTape() as inner:
            inner.watch(z)
            y = f(z)
        g = inner.gradient(y, z)
    close(g, tape_gradient(f, Z))
    assert outer.gradient(g, z) is not None


def test_real_sources_of_complex_programs_get_real_gradients():
    x = wide([0.3, 0.7])
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.complex(gt.cos(x), gt.sin(x)) * (2.0 + 1.0j)
        y = gt.reduce_sum(gt.math.real(z * z))
    g = tape.gradient(y, x)
    assert g.dtype == gt.float64
    w = (2 + 1j) ** 2
    close(g, np.real(2j * np.exp(2j * x.numpy()) * w))


def test_cast_to_complex_and_back():
    x = wide(0.5)
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.cast(x, gt.complex128) * 3.0j
        y = gt.math.imag(z * z * z)  # Im(-27i x³)
    close(tape.gradient(y, x), -27 * 3 * 0.25)


def test_a_python_complex_number_in_a_real_program():
    x = wide(0.5)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.abs(x * 2.0j + 1.0) ** 2  # 1 + 4x²
    close(tape.gradient(y, x), 4.0)


def test_complex_variables_and_slices():
    v = gt.Variable(Z)
    with gt.GradientTape() as tape:
        t = v * 1.0
        t[0] = v[1] * v[1]
        y = gt.reduce_sum(gt.abs(t) ** 2)

    def f(z):
        return gt.abs(z[1] * z[1]) ** 2 + gt.abs(z[1]) ** 2

    close(tape.gradient(y, v), numeric(f, Z), 1e-6)


def test_complex_output_gradients():
    z = wide(Z)
    with gt.GradientTape() as tape:
        tape.watch(z)
        y = z * z
    w = np.array([1.0j, 2.0])
    close(tape.gradient(y, z, output_gradients=w), w * np.conj(2 * Z))


def test_jacobian_of_a_complex_program():
    z = wide(Z)
    with gt.GradientTape() as tape:
        tape.watch(z)
        y = z * z
    close(tape.jacobian(y, z), np.diag(np.conj(2 * Z)))
