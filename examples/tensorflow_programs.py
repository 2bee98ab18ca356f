"""Small GradientTape programs in TensorFlow's spelling, with only the import changed; each checks its own answer."""

import numpy as np

import gradtape as tf


def product_of_arrays():
    """d(x·y summed)/dx is y."""
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = x * y
    return tape.gradient(z, x), [4, 5, 6]


def tensor_array_stacked_after_the_block():
    """An array filled element by element stays connected, even when it is stacked after the block."""
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        parts = tf.TensorArray(tf.float32, size=3)
        for i in range(3):
            parts = parts.write(i, x[i] * y[i])
    return tape.gradient(parts.stack(), x), [4, 5, 6]


def loop_that_keeps_only_the_last():
    """Only the last round reaches the result."""
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        for i in range(3):
            z = x[i] * y[i]
    return tape.gradient(z, x), [0, 0, 6]


def power_by_a_loop():
    """x³ by repeated multiplication: 3 x² = 12 at 2."""
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.constant(1.0)
        for _ in range(3):
            y = y * x
    return tape.gradient(y, x), 12


def points_on_the_line():
    """A perfect fit has zero gradient in both parameters."""
    w, b = tf.Variable(2.0), tf.Variable(1.0)
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(w * x + b - (2.0 * x + 1.0)))
    return tf.stack(tape.gradient(loss, [w, b])), [0, 0]


def chain_of_two():
    """x² + x at 2."""
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = x**2
        z = y + x
    return tape.gradient(z, x), 5


def watched_constant():
    """A constant counts once it is watched: x² at 2."""
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x), 4


def list_filled_inside_the_block():
    """A Python list is no obstacle: with it or without, what was computed is what is differentiated."""
    x = tf.Variable(2.0)
    kept = []
    with tf.GradientTape() as with_list:
        kept.append(3.0 * x)
        y = tf.add_n(kept)
    with tf.GradientTape() as without:
        z = 3.0 * x
    return tf.stack([with_list.gradient(y, x), without.gradient(z, x)]), [3, 3]


def branch_on_a_value():
    """Only the branch that ran counts: x y + x at (2, 4) has the gradient (y + 1, x)."""
    x, y = tf.Variable(2.0), tf.Variable(4.0)
    with tf.GradientTape() as tape:
        z = x * y + x if x > 1 else x - y
    return tf.stack(tape.gradient(z, [x, y])), [5, 2]


def gradient_of_a_gradient_after_the_block():
    """x³ at 3, both derivatives asked for after the block of one persistent tape: 27 and 18."""
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x**3
    first = tape.gradient(y, x)
    second = tape.gradient(first, x)
    tape.close()
    return tf.stack([first, second]), [27, 18]


def square():
    """x² at 3."""
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x**2
    return tape.gradient(y, x), 6


def two_variables():
    """x² + y³ at (2, 3)."""
    x, y = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        z = x**2 + y**3
    return tf.stack(tape.gradient(z, [x, y])), [4, 27]


PROGRAMS = (
    product_of_arrays,
    tensor_array_stacked_after_the_block,
    loop_that_keeps_only_the_last,
    power_by_a_loop,
    points_on_the_line,
    chain_of_two,
    watched_constant,
    list_filled_inside_the_block,
    branch_on_a_value,
    square,
    gradient_of_a_gradient_after_the_block,
    two_variables,
)


def main() -> int:
    for program in PROGRAMS:
        found, expected = program()
        print(f"{program.__name__.replace('_', ' ')}: {found.numpy()}")
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    print(f"all {len(PROGRAMS)} programs gave the right numbers")
    return len(PROGRAMS)


if __name__ == "__main__":
    main()
