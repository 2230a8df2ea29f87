"""A small convolutional network on MNIST, for the CPU: two convolutions of 32 and 64 channels, a layer of 128, dropout, and Adam whose steps shrink from
epoch to epoch. Prints {"seconds": …, "error": …, "curve": [[seconds, error], …]} as JSON, four points an epoch. It ends after 15 epochs, or at the
error that is given, in percent. The seconds leave out reading files, compiling, and measuring the error."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import mnist
import numpy as np

EPOCHS, BATCH, STEP, SHRINK, POINTS = 15, 64, 1e-3, 0.85, 4


def weights(random):
    def layer(*shape):
        fan = int(np.prod(shape[:-1]))
        return [jnp.asarray(random.standard_normal(shape) * np.sqrt(2 / fan), jnp.float32), jnp.zeros(shape[-1], jnp.float32)]

    return [layer(3, 3, 1, 32), layer(3, 3, 32, 64), layer(7 * 7 * 64, 128), layer(128, 10)]


def scores(w, x, key=None):
    for kernel, offset in w[:2]:
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + offset
        n, rows, columns, channels = x.shape
        x = jax.nn.relu(x).reshape(n, rows // 2, 2, columns // 2, 2, channels).max((2, 4))
    x = x.reshape(len(x), -1)
    for i, (matrix, offset) in enumerate(w[2:]):
        if key is not None:
            kept = 0.75 if i == 0 else 0.5
            x = x * jax.random.bernoulli(jax.random.fold_in(key, i), kept, x.shape) / kept
        x = x @ matrix + offset
        x = jax.nn.relu(x) if i == 0 else x
    return x


def loss(w, x, y, key):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores(w, x, key)), y[:, None], 1).mean()


@jax.jit
def step(w, first, second, number, size, x, y, key):
    """Adam (Kingma and Ba 2015)."""
    gradient = jax.grad(loss)(w, x, y, jax.random.fold_in(key, number))
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    scale = size * jnp.sqrt(1 - 0.999**number) / (1 - 0.9**number)
    return jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), w, first, second), first, second


def main(goal):
    x, y, x_test, y_test = mnist.images()
    x, x_test = x.reshape(-1, 28, 28, 1), x_test.reshape(-1, 28, 28, 1)
    random, key = np.random.default_rng(1), jax.random.key(1)
    w = weights(random)
    first = second = jax.tree.map(jnp.zeros_like, w)
    predict = jax.jit(lambda w, x: scores(w, x).argmax(1))

    def error():
        return 100 * float(np.mean(np.concatenate([predict(w, x_test[i : i + 1000]) for i in range(0, len(x_test), 1000)]) != y_test))

    error()
    step(w, first, second, 1.0, STEP, x[:BATCH], y[:BATCH], key)  # compiles
    seconds, number, curve = 0.0, 0, []
    for epoch in range(EPOCHS):
        batches = random.permutation(len(x))[: len(x) // BATCH * BATCH].reshape(-1, BATCH)
        for part in np.array_split(batches, POINTS):
            began = time.perf_counter()
            for rows in part:
                number += 1
                w, first, second = step(w, first, second, float(number), STEP * SHRINK**epoch, x[rows], y[rows], key)
            jax.block_until_ready(w)
            seconds += time.perf_counter() - began
            curve.append([round(seconds, 3), round(error(), 2)])
            if curve[-1][1] <= goal:
                return curve
    return curve


if __name__ == "__main__":
    curve = main(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(json.dumps({"seconds": curve[-1][0], "error": curve[-1][1], "curve": curve}))
