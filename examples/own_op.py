"""Teaching example: your own op, built from the library's ops; own_op.c in Python. It needs numpy.

The op is silu(x)^2. The program compares it and its gradient with the formulas, and draws forward
and backward to own_op.svg."""
import numpy

import syntorch


def squared_silu(s, x):
    """x of any shape -> silu(x)^2 of the same shape."""
    with s.scope("squared_silu"):
        y = s.silu(x)
        return s.mul(y, y)


values = 0.5 * (numpy.arange(16, dtype="f4") - 8)
with syntorch.Context(device="cpu") as s:
    x = s.input("x", values)
    s.require_grad(x)
    out = squared_silu(s, x)
    s.backward(s.sum_to(out, []))
    y, slope = s.read(out), s.read(s.grad(x))

sigmoid = 1 / (1 + numpy.exp(-values))
silu = values * sigmoid
assert numpy.abs(y - silu * silu).max() < 1e-5
assert numpy.abs(slope - 2 * silu * sigmoid * (1 + values - silu)).max() < 1e-5
print("the op and its gradient match the formulas")
s.trace().svg(title="A custom op, forward and backward").save("own_op.svg")
