"""Teaching example: one MLP, complete on one rank and sharded over two ranks; mlp_two_ways.c in
Python, with the same files. docs/learn/2-one-layer.md explains the pictures."""
import syntorch

TOKENS, WIDTH = 1024, 768
HIDDEN = 4 * WIDTH
WAYS = [("whole", "An MLP on one rank", 1, False, False),
        ("columns", "Column-parallel: rank 0 of 2", 2, False, False),
        ("rows", "Row-parallel: rank 0 of 2", 2, True, True),
        ("both", "Column-, then row-parallel: rank 0", 2, False, True),
        ("step", "Forward and backward: rank 0 of 2", 2, False, True)]


def by_columns(s, x, name, width, out, tp, gather):
    """x (1, T, width) -> (1, T, out), or this rank's columns of it."""
    w = s.param(f"{name}.weight", (width, out), axis=1 if tp > 1 else None)
    bias = s.param(f"{name}.bias", (out,), axis=0 if tp > 1 else None, init="zero")
    if tp > 1:
        x = s.tp_enter(x, "tp")
    y = s.name(s.linear(x, w, bias), name)
    return s.all_gather(y, -1, "tp") if tp > 1 and gather else y


def by_rows(s, x, name, width, out, tp, whole):
    """x (1, T, width), or this rank's columns of it -> (1, T, out)."""
    w = s.param(f"{name}.weight", (width, out), axis=0 if tp > 1 else None)
    bias = s.param(f"{name}.bias", (out,), init="zero")
    if tp == 1:
        return s.name(s.linear(x, w, bias), name)
    if whole:
        part = width // tp
        x = s.slice(x, -1, s.per_rank(lambda rank: rank * part), part)
    y = s.all_reduce(s.name(s.linear(x, w), name), "tp")
    return s.name(s.add(y, bias), "bias")


def mlp(tp, fc_by_rows, proj_by_rows, backward):
    stays = not fc_by_rows and proj_by_rows  # the tensor between the layers stays sharded
    with syntorch.Context(tp=tp) as s:
        x = s.input("x", (1, TOKENS, WIDTH))
        if backward:
            s.require_grad(x)
        y = (by_rows(s, x, "fc", WIDTH, HIDDEN, tp, True) if fc_by_rows else
             by_columns(s, x, "fc", WIDTH, HIDDEN, tp, not stays))
        y = s.gelu(y, tanh_form=True)
        y = (by_rows(s, y, "proj", HIDDEN, WIDTH, tp, not stays) if proj_by_rows else
             by_columns(s, y, "proj", HIDDEN, WIDTH, tp, True))
        if backward:
            s.backward(s.sum_to(x + y, []))
    return s.trace()


for name, title, tp, fc_by_rows, proj_by_rows in WAYS:
    trace = mlp(tp, fc_by_rows, proj_by_rows, name == "step")
    trace.save(f"mlp_{name}.svg", title=title)
    trace.save(f"mlp_{name}.json", title=title)
    print(f"mlp_{name}.svg mlp_{name}.json")
