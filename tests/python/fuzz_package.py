"""Calls the package at random: every call returns, or raises an exception; none crashes.

    python3 fuzz_package.py CALLS [SEED]

`./dev test --rest` runs it with the library under AddressSanitizer."""
import inspect
import os
import random
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.environ["SYN_BUILD"], "python"))
import syntorch  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

calls, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
random.seed(seed)
os.chdir(tempfile.mkdtemp())
warnings.simplefilter("ignore")
DTYPES = ["f32", "f16", "bf16", "i32", "i64"]
GROUPS = ["tp", "dp", "pp", "world", "nonsense", None]
METHODS = [name for name, of in inspect.getmembers(syntorch.Context, inspect.isfunction)
           if not name.startswith("_") and name not in ("close", "scope")]
MEMBERS = ["p", "seed", "sample", "k", "score", "normalize", "groups", "top_groups", "scale",
           "mask", "causal", "offset", "window", "temperature", "top_k", "top_p", "balance", "z",
           "fp8", "combine", "choice", "dropout", "keys", "row", "column"]


def number():
    return random.choice([0, 1, 2, 3, 4, 8, -1, -2, 7, 0.5, 1e-5, 2 ** 31, 2 ** 63, -2 ** 63,
                          2 ** 70, float("nan"), float("inf"), 1e300, True])


def shape():
    return tuple(random.choice([1, 2, 3, 4, 4, 8, 0]) for _ in range(random.choice([0, 1, 2, 2, 3,
                                                                                    3, 4, 4, 7])))


def anything():
    return random.choice([None, "", "x", b"x", [], {}, object(), "a\0b", "\ud800", number(),
                          [number(), number()], (1, 2), "tp", 1.5, range(3)])


def value(s, name, kind, tensors):
    """A value for a parameter: mostly of its type, sometimes anything."""
    if random.random() < 0.04:
        return anything()
    if kind.startswith("Tensor"):
        return random.choice(tensors)
    if kind.startswith("Sequence[Tensor]"):
        return [random.choice(tensors) for _ in range(random.choice([0, 1, 2, 3]))]
    if kind.startswith("Sequence[int]") or name in ("shape", "dims", "order"):
        return [random.choice([0, 1, 2, 3, 4, -1, 8]) for _ in range(random.randrange(5))]
    if name == "group":
        return random.choice(GROUPS)
    if name in ("dtype",):
        return random.choice(DTYPES)
    if name == "reduce":
        return random.choice(["sum", "avg", "min", "max", "prod"])
    if kind == "dict":
        return {random.choice(MEMBERS): random.choice([number(), number(), True, "softmax",
                                                       random.choice(tensors), {"p": 0.5}])
                for _ in range(random.choice([0, 1, 2, 4, 6]))}
    if kind.startswith("bool"):
        return random.random() < 0.5
    if name in ("name", "label"):
        return random.choice(["a", "b", f"n{random.randrange(10 ** 9)}"])
    if name == "init":
        return random.choice(["normal", "zero", "one"])
    return random.choice([0, 1, 2, 3, 4, 1.0, -1, number()])


def parameters(function):
    for p in inspect.signature(function).parameters.values():
        yield p.name, p.annotation if isinstance(p.annotation, str) else "", p.default


def fresh():
    device = random.choice(["meta", "meta", "cpu"])
    sizes = random.choice([{}, {}, {"tp": 2}, {"dp": 2}, {"tp": 2, "dp": 2}])
    if device == "cpu" and random.random() < 0.7:
        sizes = {}
    s = syntorch.Context(device=device, **sizes)
    tensors = []
    for i in range(8):
        dtype = random.choice(DTYPES[:1] * 4 + DTYPES)
        dims = random.choice([shape(), (2, 4), (4, 4), (2, 2, 4, 4), (4,)])
        try:
            tensors.append(s.param(f"w{i}", dims) if random.random() < 0.3
                           else s.input(f"x{i}", dims, dtype))
        except syntorch.Error:
            s.close()
            return fresh()
    return s, tensors


def build(state):
    """A call of a builder."""
    if state[0] is None or random.random() < 0.02:
        if state[0] is not None:
            state[0].close()
        state[:] = fresh()
    s, tensors = state
    method = getattr(s, random.choice(METHODS))
    if method.__name__ in ("send", "recv") and s.peak_bytes and s._device != "meta":
        return  # a message that no rank receives waits for ever
    positional, named = [], {}
    for name, kind, default in parameters(method):
        if default is inspect.Parameter.empty:
            kind = kind or ("Tensor" if name in ("tensor", "loss") else "")
            positional.append(value(s, name, kind, tensors))
        elif random.random() < 0.5:
            named[name] = value(s, name, kind, tensors)
    try:
        result = method(*positional, **named)
    except BaseException:
        try:
            s._check()
        except syntorch.Error:  # the context has failed
            state[0].close()
            state[0] = None
        raise
    for item in result if isinstance(result, (tuple, list)) else [result]:
        if isinstance(item, syntorch.Tensor):
            tensors.append(item)
            if random.random() < 0.1 and s._device != "meta" and numpy is not None:
                s.read(item)
    del tensors[:-24]


OPTIONS = ["tp", "pp", "dp", "cp", "ep", "sp", "zero", "hw", "ranks", "phase", "micro_batch",
           "global_batch", "max_seq_length", "schedule", "vp", "dtype", "layers",
           "num_input_tokens", "num_output_tokens", "dropout", "buckets", "routing", "x", "json"]
CHOICES = [1, 2, 3, 4, 8, 0, -1, "h100", "nope", "1f1b", "gpipe", "zb-h1", "dualpipe", "train",
           "prefill", "decode", "generate", "bf16", "f32", True, None, "one-per-program", "0",
           "0-9", 16, 64, 0.5, "zipf:1,1"]
TINY = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "intermediate_size": 64, "vocab_size": 64, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5}


def package(state):
    """A call of a function of the package, or of a method of a trace."""
    t = state[1]
    kind = random.randrange(8)
    if kind == 0 or t is None:
        options = {random.choice(OPTIONS): random.choice(CHOICES)
                   for _ in range(random.choice([0, 1, 1, 2, 3]))}
        model = random.choice([TINY, TINY, TINY, "gpt2", "nope", 3, {}, dict(TINY, x=1), None])
        options.setdefault("max_seq_length", 16)
        options.setdefault("ranks", "one-per-program")
        if model == "gpt2":
            options["layers"] = 1
        state[1] = syntorch.trace(model, **options)
    elif kind == 1:
        random.choice([t.ops, t.collectives, t.arrays, t.svg])(
            random.choice([None, 0, 1, 5, anything()]))
    elif kind == 2:
        getattr(t, random.choice(["memory", "__repr__", "__len__"]))()
    elif kind == 3:
        t.predict(random.choice(["h100", "cpu", "nope", anything()]))
    elif kind == 4:
        path = random.choice(["a.json", "a.et", "b.json", "c.xyz", "", anything()])
        t.save(path, format=random.choice([None, None, "chrome", "nope"]),
               rank=random.choice([None, 0, 9]))
    elif kind == 5:
        for path in ("a.json", "a.et"):
            if os.path.exists(path) and random.random() < 0.5:
                data = bytearray(open(path, "rb").read())
                if data:
                    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
                    open(path, "wb").write(data[:random.choice([len(data), len(data) // 2])])
        state[1] = syntorch.load(random.choice(["a.json", "a.et", "none", anything()]))
    elif kind == 6:
        random.choice([syntorch.validate, syntorch.simulate])(
            random.choice(["a.et", ["a.et", "a.et"], "none", anything()]))
    else:
        syntorch.convert(random.choice(["a.json", "a.et", None, anything()]),
                         random.choice(["a.json", None, anything()]))


contexts, traces = [None, []], [None, None]
done = raised = 0
for i in range(calls):
    try:
        build(contexts) if random.random() < 0.9 else package(traces)
        done += 1
    except Exception as error:
        raised += 1
        if not isinstance(error, (syntorch.Error, TypeError, ValueError, OverflowError,
                                  UnicodeError, OSError, AttributeError, KeyError, ImportError)):
            print(f"call {i} of seed {seed}: {error!r}")
            raise
print(f"{done} calls returned, {raised} raised exceptions")
sys.exit(0 if done > calls / 20 and raised > calls / 20 else 1)
