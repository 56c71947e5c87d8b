"""Tests from_torch and record of the Python package with small PyTorch modules. With another
interpreter than that of the build:

    SYN_BUILD=build SYN_SOURCE=. PYTHONPATH=tests/support python tests/python/test_torch.py"""
import importlib.util
import os
import subprocess
import sys

from checks import BUILD, check, enter_folder, finish, skip

sys.path.insert(0, os.path.join(BUILD, "python"))
for needed in ("torch", "syntorch"):
    if importlib.util.find_spec(needed) is None:
        skip(f"{sys.executable} has no {needed}")

import syntorch  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

torch.set_num_threads(1)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (of(h).unflatten(-1, (-1, 8)).transpose(1, 2)
                   for of in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o_proj(out.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids, labels=None):
        x = self.words(ids)
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        logits = self.head(x)
        if labels is None:
            return logits
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 3, 1)

    def forward(self, x):
        a = F.silu(self.norm(self.first(x)))
        return self.last(torch.cat([a, self.up(self.wide(self.down(a)))], 1))


class Graph(nn.Module):
    """Message passing, with ops that write to views and to tensors that were read."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(10, 2, 8))

    def forward(self, x, edges):
        messages = self.linear(x)[edges[0]]
        self.seen[:, 1] = torch.zeros_like(x).index_add_(0, edges[1], messages).detach()
        y = messages.relu().sum() + self.seen.sum(1) + x
        y[:, 0] *= 2
        y.view(-1).add_(1)
        return y


def rows(table):
    """The rows of a table as dicts, with and without pandas."""
    return table.rows() if hasattr(table, "rows") else table.to_dict("records")


def counted(module, args, kwargs, training):
    with FlopCounterMode(display=False) as counter:
        out = module(*args, **kwargs)
        if training:
            outs = [out["loss"]] if isinstance(out, dict) else out
            sum(one.sum() for one in outs).backward()
    return counter.get_total_flops()


def modules():
    ids, edges = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 12, dtype=torch.long)
    transformer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    pair = torch.ones(2, 5, 16), torch.ones(2, 4, 16)
    for name, module, args, kwargs in (
            ("decoder", Decoder(), (ids,), {"labels": ids}),
            ("encoder and decoder", transformer, pair, {}),
            ("unet", UNet(), (torch.ones(2, 3, 8, 8),), {}),
            ("graph", Graph(), (torch.ones(10, 8), edges), {}),
            ("gru", nn.GRU(4, 8), (torch.ones(3, 2, 4),), {})):
        for training in (False, True):
            check_module(name, module, args, kwargs, training)


def check_module(name, module, args, kwargs, training):
    what = f"{name}, training {training}"
    before = [parameter.clone() for parameter in module.parameters()]
    trace = syntorch.from_torch(module, args, kwargs, training=training, hw="h100", name=name)
    ops = rows(trace.ops())
    got, want = sum(op["flops"] for op in ops), counted(module, args, kwargs, training)
    check(got == want > 0, f"{what}: {got} flops, not {want}")
    check(all(torch.equal(a, b) for a, b in zip(before, module.parameters())),
          f"{what}: parameters changed")
    check(trace.metadata["model"] == name, f"{what}: {trace.metadata}")
    phases = {op["phase"] for op in ops}
    want = {"forward"} | ({"backward"} if training else set())
    check(phases - {"recompute"} == want, f"{what}: {phases}")
    check(("recompute" in phases) == (training and name == "decoder"), f"{what}: {phases}")
    other = {op["op"] for op in ops if op["category"] == "other"}
    check(not other, f"{what}: ops without category: {other}")
    check(trace.svg().startswith("<?xml") and "<svg" in trace.svg(), f"{what}: no picture")
    trace.save("module.et")
    found = syntorch.validate("module.et", single=True)
    check(found.ok, f"{what}: {found}")
    end = syntorch.simulate("module.et").end_ns
    check(end > 0 and abs(end / trace.predicted_ns - 1) < 0.01, f"{what}: {end} ns")


def names():
    ids = torch.zeros(2, 6, dtype=torch.long)
    trace = syntorch.from_torch(Decoder(), ids, training=True, dtype="bf16")
    ops = rows(trace.ops())
    for phase in ("forward", "recompute", "backward"):
        found = [op for op in ops if (op["scope"], op["label"]) == ("layers.1", "q_proj") and
                 op["phase"] == phase]
        check(found and all(op["flops"] or phase == "backward" for op in found),
              f"{phase}: {found}")
    fused = [op for op in ops if op["category"] == "attention" and op["phase"] == "backward"]
    check({op["scope"] for op in fused} == {"layers.0", "layers.1"}, f"{fused}")
    tensors = trace.arrays(table="tensors")
    texts = tensors.names("name")
    parameters = {texts[i] for i in tensors["name"]}
    check({"words.weight", "layers.0.o_proj.weight", "input0"} <= parameters, f"{parameters}")
    check("head.weight" not in parameters, "a tied weight appears twice")
    check(not any(name.startswith("constant") for name in parameters), f"{parameters}")
    check(trace.metadata["dtype"] == "bf16", f"{trace.metadata}")


def times():
    """A convolution takes as long as the product that computes it."""
    with torch.device("meta"):
        conv, linear = nn.Conv2d(256, 512, 3, padding=1), nn.Linear(9 * 256, 512)
        image, rows_ = torch.empty(64, 256, 56, 56), torch.empty(64 * 56 * 56, 9 * 256)
    got, want = (syntorch.from_torch(of, x, dtype="bf16", hw="h100").predicted_ns
                 for of, x in ((conv, image), (linear, rows_)))
    check(want > 4e5 and abs(got / want - 1) < 0.01, f"{got} ns, not {want} ns")


def collectives(trace):
    return [(row["comm"], row["phase"]) for row in rows(trace.collectives(0))]


def tensor_parallel():
    plan = {"[qkv]_proj": "colwise", "o_proj": "rowwise"}
    block, x = Block(), torch.ones(2, 6, 32, requires_grad=True)
    whole = syntorch.from_torch(block, x, training=True)
    trace = syntorch.from_torch(block, x, training=True, tp=4, tp_plan=plan)
    flops = [sum(op["flops"] for op in rows(of.ops(0))) for of in (whole, trace)]
    check(flops[0] == 4 * flops[1], f"{flops}")
    check(collectives(trace) == [("all_reduce", "forward"), ("all_reduce", "backward")],
          f"{collectives(trace)}")
    check(trace.groups == {"tp0": [0, 1, 2, 3]}, f"{trace.groups}")
    check({row["comm_bytes"] for row in rows(trace.collectives(0))} == {2 * 6 * 32 * 4}, "bytes")
    trace.predict("h100").save("tp.et")
    check(syntorch.validate("tp").ok, "the set has problems")
    check(syntorch.simulate("tp").deadlock is None, "the set hangs")
    gathered = syntorch.from_torch(nn.Linear(8, 8), torch.ones(2, 8), tp=2,
                                   tp_plan={"": "colwise_gather_output"})
    check(collectives(gathered) == [("all_gather", "forward")], f"{collectives(gathered)}")
    if importlib.util.find_spec("transformers") is not None:
        llama()


def llama():
    """The products and collectives of each rank are those that syntorch.trace records."""
    import transformers
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, vocab_size=256, tie_word_embeddings=False)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    ids = torch.zeros(2, 16, dtype=torch.long)
    ours = syntorch.trace(config, tp=2, micro_batch=2, global_batch=2, max_seq_length=16)
    trace = syntorch.from_torch(model, {"input_ids": ids, "labels": ids}, tp=2, training=True)
    for phase in ("forward", "backward"):
        flops, reduced = [], []
        for of in (trace, ours):
            flops.append(sum(op["flops"] for op in rows(of.ops(0))
                             if op["category"] == "matmul" and op["phase"] == phase))
            reduced.append(sum(row["comm"] == "all_reduce" and row["comm_bytes"] >= 2 * 16 * 32 * 2
                               and row["phase"] == phase for row in rows(of.collectives(0))))
        check(flops[0] == flops[1] > 0, f"{phase}: {flops} flops")
        check(reduced[0] == reduced[1] == 5, f"{phase}: {reduced} all-reduces")


class Chooses(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Selects(nn.Module):
    def forward(self, x):
        return x[x > 0]


def errors():
    linear, x = nn.Linear(4, 4), torch.ones(2, 4)
    for words, args, kwargs in (
            ("depends on data", (Chooses(), x), {}),
            ("aten.nonzero", (Selects(), x), {}),
            ("must be a torch.nn.Module, not int", (3, x), {}),
            ("example_inputs must be", (linear, 3), {}),
            ("kwargs must be a dict", (linear, x, 3), {}),
            ("reduction dim", (linear, torch.ones(2, 5)), {}),
            ("missing 1 required", (linear,), {}),
            ("dtype must be one of", (linear, x), {"dtype": "i32"}),
            ("training must be", (linear, x), {"training": "yes"}),
            ("needs an output", (nn.Identity(), x), {"training": True}),
            ("tp must be", (linear, x), {"tp": 0}),
            ("has no plan of its own", (linear, x), {"tp": 2}),
            ("no module with a weight", (linear, x), {"tp": 2, "tp_plan": {"q": "colwise"}}),
            ("has the style 'odd'", (linear, x), {"tp": 2, "tp_plan": {"": "odd"}}),
            ("tp 3 does not divide", (linear, x), {"tp": 3, "tp_plan": {"": "colwise"}}),
            ("has run once", (nn.LazyLinear(4), x), {})):
        expect(words, lambda: syntorch.from_torch(*args, **kwargs))
    check(not linear._forward_hooks and not linear._forward_pre_hooks and
          not nn.modules.module._global_forward_hooks, "hooks remain")
    expect("steps must be", lambda: syntorch.record("x", steps=0))
    expect("path must be", lambda: syntorch.record(3))
    expect("no files", lambda: syntorch.convert_all("missing"))


def expect(words, function):
    try:
        function()
        check(False, f"no error: {words}")
    except syntorch.InvalidError as error:
        check(words in str(error), f"{error!r} lacks {words!r}")


def train(rank, ranks, folder):
    """Records the third of four training steps, on one rank of a job."""
    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    if ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/job",
                                             rank=rank, world_size=ranks)
        module = nn.parallel.DistributedDataParallel(module)
    with syntorch.record(f"{folder}/run/trace", steps=1, warmup=2) as recording:
        for _ in range(4):
            module(torch.ones(8, 16)).sum().backward()
            recording.step()
    trace = recording.trace
    check((trace is None) == (rank > 0), f"rank {rank}: {trace}")
    if trace is not None:
        check(trace.ranks == list(range(ranks)), f"{trace}")
        if ranks == 1:  # threads of gloo may be within an op when the observer starts or stops
            check(trace.notes == [], f"notes: {trace.notes}")
        check(syntorch.validate(f"{folder}/run/trace", any_node=True).ok, f"{ranks} ranks")
        linear = [op for op in rows(trace.ops(0)) if op["op"] == "aten::linear"]
        check(len(linear) == 2 and all(op["wall_ns"] >= 0 for op in linear),
              f"{ranks} ranks: the linear layers of one step: {linear}")
    if ranks > 1:
        if rank == 0:
            check(len(collectives(trace)) > 0, "no collectives")
        torch.distributed.destroy_process_group()


def recordings(folder):
    others = [subprocess.Popen([sys.executable, __file__, str(rank), folder])
              for rank in range(2)]
    alone = os.path.join(folder, "alone")
    os.mkdir(alone)
    train(0, 1, alone)

    def too_short():
        with syntorch.record("short", steps=1, warmup=2) as recording:
            recording.step()
    expect("all of them warmup", too_short)
    with syntorch.record("all") as recording:
        torch.ones(2) + 1
    check(any(op["op"] == "aten::add" for op in rows(recording.trace.ops())), "no add")
    check([process.wait() for process in others] == [0, 0], "a rank failed")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(int(sys.argv[1]), 2, sys.argv[2])
        finish()
    temporary = enter_folder()
    modules()
    names()
    times()
    tensor_parallel()
    errors()
    recordings(temporary)
    finish()
