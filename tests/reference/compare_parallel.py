#!/usr/bin/env python3
"""Compares five steps of pretraining with PyTorch's own parallel training, over gloo on CPUs:
DistributedDataParallel, ZeroRedundancyOptimizer, FSDP 1 and 2, the pipeline schedules of
torch.distributed.pipelining, and the tensor and sequence parallelism of torch.distributed.tensor.

    SYN_BUILD=build python3 compare_parallel.py [part of the names of cases]

Neither the build nor the tests need this script, which needs torch and transformers. The models are
a Llama, and a GPT-2 whose head is tied to its embedding, both with four layers. PyTorch computes in
f64, except that transformers computes a Llama's norms and rotary angles in f32.

Each case prints the largest relative difference of a loss and of a gradient norm, and the largest
difference of a parameter after the last step, relative to the largest element of its tensor. Biases
of keys are not compared, because their gradient is zero except for rounding. Cases with only FSDP 2
also print the number of all-gathers and reduce-scatters per step: PyTorch's / those in our trace.
PyTorch's zero-bubble schedules have other orders than our zb-h1, but the same results.
"""
import csv
import json
import logging
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks as hooks
import torch.distributed.pipelining as pipelining
import torch.distributed.tensor.parallel as tp
import torch.multiprocessing as mp
import transformers
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

from compare_random_models import fill
from compare_trainer import write_texts
from make_pretraining_fixture import BATCH, Trainer, count, learning_rate

HERE = pathlib.Path(__file__).parent
STEPS, LENGTH, LAYERS = 5, 48, 4
IGNORED = -100
CPU = torch.device("cpu")


def whole(x):
    return x.full_tensor() if isinstance(x, DTensor) else x


class Part(torch.nn.Module):
    """Some consecutive layers of a model of transformers: a chunk of a pipeline, or all layers."""

    def __init__(self, model, index=0, chunks=1):
        super().__init__()
        gpt = hasattr(model, "transformer")
        base = model.transformer if gpt else model.model
        size = LAYERS // chunks
        self.layers = (base.h if gpt else base.layers)[index * size:(index + 1) * size]
        self.first, self.last = index == 0, index == chunks - 1
        self.rotary = None if gpt else base.rotary_emb
        if self.first:
            self.embedding = base.wte if gpt else base.embed_tokens
            self.positions = base.wpe if gpt else None
        if self.last:
            self.norm, self.head = base.ln_f if gpt else base.norm, model.lm_head

    def forward(self, x):
        places = torch.arange(LENGTH)[None]
        if self.first:
            x = self.embedding(x)
            x = x if self.positions is None else x + self.positions(places)
        more = {} if self.rotary is None else {"position_embeddings": self.rotary(x, places)}
        mask = torch.full((LENGTH, LENGTH), -math.inf, dtype=x.dtype).triu(1)[None, None]
        for layer in self.layers:
            x = layer(x, attention_mask=mask, **more)
        return self.head(self.norm(x)) if self.last else x


class Rank(Trainer):
    """What one rank does. Without further methods, it is a rank of DistributedDataParallel."""

    def __init__(self, options, rank, **how):
        super().__init__(options, None, True)
        self.rank, self.how, self.world = rank, how, dist.get_world_size()
        self.data_rank = rank % self.ranks
        self.run, self.calls = self.model, {}
        matrices = {name for name, p in self.model.named_parameters() if p.dim() > 1}
        self.divide()
        self.optimizer = self.optimize(
            [{"params": [p for name, p in self.named_parameters() if (name in matrices) == decayed],
              "weight_decay": 0.01 if decayed else 0.0} for decayed in (False, True)])

    def named_parameters(self):
        return self.model.named_parameters()

    def divide(self):
        self.run = DistributedDataParallel(self.model)
        if self.how.get("bf16"):
            self.run.register_comm_hook(None, hooks.bf16_compress_hook)

    def optimize(self, groups):
        return torch.optim.AdamW(groups, lr=1.0)

    def batches(self, epoch, at, rank):
        return [self.batch(epoch, at * self.passes + i, rank) for i in range(self.passes)]

    def mean(self, logits, labels):
        """A microbatch's part in the mean of the step, times the number of data-parallel ranks,
        because DDP and FSDP divide gradients by this number."""
        return torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED,
            reduction="sum") * (self.ranks / self.labels)

    def backward(self, batches):
        """Returns the sum of the microbatches' parts."""
        total = 0.0
        for i, b in enumerate(batches):
            self.before_microbatch(i == len(batches) - 1)
            loss = self.mean(self.run(input_ids=b["input_ids"]).logits, b["labels"])
            loss.backward()
            total += loss.item()
        return total

    def before_microbatch(self, last):
        self.run.require_backward_grad_sync = last  # as no_sync() does

    def norm_squared(self):
        return sum(whole(p.grad.norm()) ** 2 for p in self.model.parameters()
                   if p.grad is not None)

    def clip(self):
        """Clips gradients to norm 1, and returns their norm before."""
        norm = self.norm_squared() ** 0.5
        torch.nn.utils.clip_grads_with_norm_(self.run.parameters(), 1.0, norm, foreach=False)
        return float(norm)

    def step(self, step):
        """Returns the loss and the norm."""
        epoch, at = divmod(step, self.per_epoch)
        everyone = [self.batches(epoch, at, rank) for rank in range(self.ranks)]
        self.labels = sum(count(b, True) for mine in everyone for b in mine)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                self.options["learning-rate"], step, self.options["warmup-steps"],
                self.per_epoch * self.options["num-epochs"])
        self.optimizer.zero_grad()
        mine = [{k: torch.tensor(v) for k, v in b.items()}
                for b in everyone[self.data_rank]]
        loss = torch.tensor(self.backward(mine) / self.ranks, dtype=torch.float64)
        dist.all_reduce(loss)
        norm = self.clip()
        self.optimizer.step()
        return loss.item(), norm

    def parameters(self):
        """The parameters, as far as this rank has them."""
        return {name: whole(p.detach()).clone() for name, p in self.named_parameters()
                if p.grad is not None}


class Zero(Rank):
    def optimize(self, groups):
        return ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=1.0)


class FullySharded(Rank):
    """FSDP 2, with the units of pretrain."""

    def divide(self):
        size = self.how.get("hsdp", self.world)
        copies = self.world // size
        mesh = init_device_mesh("cpu", (copies, size) if copies > 1 else (size,),
                                mesh_dim_names=("copies", "parts")[-2 if copies > 1 else -1:])
        again = self.how.get("reshard", True)
        sums = MixedPrecisionPolicy(reduce_dtype=torch.bfloat16 if self.how.get("bf16") else None)
        if hasattr(self.model, "transformer"):
            units = self.model.transformer.h
        else:
            base = self.model.model
            units = [base.embed_tokens, *base.layers]
            fully_shard([base.norm, self.model.lm_head], mesh=mesh, reshard_after_forward=False,
                        mp_policy=sums)
        for unit in units:
            fully_shard(unit, mesh=mesh, reshard_after_forward=again, mp_policy=sums)
        fully_shard(self.model, mesh=mesh, mp_policy=sums)

    def before_microbatch(self, last):
        pass

    def backward(self, batches):
        """Also counts collectives."""
        with CommDebugMode() as mode:
            total = super().backward(batches)
        self.calls = {str(kind).replace("_", ""): n for kind, n in mode.comm_counts.items()}
        return total


class FullyShardedOld(Rank):
    """FSDP 1. SHARD_GRAD_OP is PyTorch's ZeRO 2."""

    def divide(self):
        layers = ModuleWrapPolicy({type(Part(self.model).layers[0])})
        self.run = FSDP(self.model, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
                        auto_wrap_policy=layers, use_orig_params=True, device_id=CPU)

    def named_parameters(self):
        for name, p in self.model.named_parameters():
            yield name.replace("_fsdp_wrapped_module.", ""), p

    def before_microbatch(self, last):
        pass

    def norm_squared(self):  # FSDP.clip_grad_norm_ needs f32
        square = super().norm_squared()
        dist.all_reduce(square)
        return square

    def parameters(self):
        with FSDP.summon_full_params(self.run, with_grads=True):
            return super().parameters()


class Pipeline(Rank):
    """A rank of a pipeline, with FSDP 2 if there are several pipelines. PyTorch leaves the sum of
    the gradients of a tied head to us. If FSDP 2 gathered layers again for the backward pass, they
    would get no gradients with schedules that split this pass (torch 2.15)."""

    def divide(self):
        mesh = init_device_mesh("cpu", (self.world // self.ranks, self.ranks),
                                mesh_dim_names=("stages", "copies"))
        self.group, stage = mesh["stages"].get_group(), mesh.get_local_rank("stages")
        chunks = self.how.get("chunks", 1) * mesh.size(0)
        mine = range(stage, chunks, mesh.size(0))
        if self.how.get("back"):  # the last chunk is on the first rank
            mine = [stage, chunks - 1 - stage]
        parts = [Part(self.model, i, chunks) for i in mine]
        if self.ranks > 1:
            shard(parts, mesh["copies"], False)
        stages = [pipelining.PipelineStage(part, i, chunks, CPU, group=self.group)
                  for i, part in zip(mine, parts)]
        kind = self.how["schedule"]
        single = issubclass(kind, pipelining.schedules.PipelineScheduleSingle)
        self.first, self.last = 0 in mine, chunks - 1 in mine
        self.schedule = kind(stages[0] if single else stages, self.passes, loss_fn=self.mean,
                             scale_grads=False)

    def tied(self):
        return self.model.lm_head.weight is self.model.get_input_embeddings().weight

    def backward(self, batches):
        ids, labels = (torch.cat([b[k] for b in batches]) for k in ("input_ids", "labels"))
        losses = []
        self.schedule.step(*[ids] * self.first, losses=losses,
                           target=labels if self.last else None)
        if self.tied():
            head = self.model.lm_head.weight
            total = torch.zeros_like(head) if head.grad is None else head.grad
            dist.all_reduce(total, group=self.group)
        return sum(loss.item() for loss in losses)

    def norm_squared(self):
        square = super().norm_squared()
        if self.tied() and self.last and not self.first:  # the first stage counts it
            square -= self.model.lm_head.weight.grad.norm() ** 2
        dist.all_reduce(square, group=self.group)
        return square


class TensorParallel(Rank):
    """Tensor parallelism of the Llama, also with sequence parallelism, and with FSDP 2."""

    def divide(self):
        self.run = Part(self.model)
        mesh = init_device_mesh("cpu", (self.ranks, self.world // self.ranks),
                                mesh_dim_names=("copies", "tensor"))
        self.data_rank = mesh.get_local_rank("copies")
        tp.parallelize_module(self.run, mesh["tensor"], plan(self.how.get("sp")))
        if self.ranks > 1:
            shard([self.run], mesh["copies"], True)

    def backward(self, batches):
        total = 0.0
        for b in batches:
            loss = self.mean(self.run(b["input_ids"]), b["labels"])
            loss.backward()
            total += loss.item()
        return total * self.ranks / self.world


def shard(parts, mesh, again):
    """Divides Parts with FSDP 2. If `again`, layers are gathered again for the backward pass."""
    for part in parts:
        for layer in part.layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=again)
        fully_shard(part, mesh=mesh)


def plan(sp):
    """How tensor-parallel ranks divide a Part."""
    between = Shard(1) if sp else Replicate()
    columns, rows = tp.ColwiseParallel, tp.RowwiseParallel
    out = {"embedding": rows(input_layouts=Replicate(), output_layouts=between),
           "head": columns(input_layouts=between, output_layouts=Replicate())}
    for layer in (f"layers.{i}." for i in range(LAYERS)):
        for name in ("self_attn.q", "self_attn.k", "self_attn.v", "mlp.gate", "mlp.up"):
            out[layer + name + "_proj"] = columns()
        for name in ("self_attn.o", "mlp.down"):
            out[layer + name + "_proj"] = rows(output_layouts=between)
        if sp:
            out[layer + "input_layernorm"] = tp.SequenceParallel()
            out[layer + "post_attention_layernorm"] = tp.SequenceParallel()
            out[layer + "self_attn"] = tp.PrepareModuleInput(
                input_kwarg_layouts={"hidden_states": between},
                desired_input_kwarg_layouts={"hidden_states": Replicate()})
            out[layer + "mlp"] = tp.PrepareModuleInput(input_layouts=between,
                                                       desired_input_layouts=Replicate())
    return out | {"norm": tp.SequenceParallel()} if sp else out


# ---- Cases ----


def cases(family):
    """Yields name, class, ranks, data-parallel ranks, microbatches, how PyTorch divides the model,
    and how pretrain does."""
    for ranks in (2, 4):
        yield "DDP", Rank, ranks, ranks, 1, {}, ""
        yield "DDP, 2 microbatches", Rank, ranks, ranks, 2, {}, ""
        yield "DDP, ZeroRedundancyOptimizer", Zero, ranks, ranks, 1, {}, "--zero 1"
        yield "FSDP 1, SHARD_GRAD_OP", FullyShardedOld, ranks, ranks, 2, {}, "--zero 2"
        yield "FSDP 2", FullySharded, ranks, ranks, 1, {}, "--zero 3"
        yield "FSDP 2, 2 microbatches", FullySharded, ranks, ranks, 2, {}, "--zero 3"
        yield "FSDP 2, no reshard", FullySharded, ranks, ranks, 1, {"reshard": False}, \
            "--zero 3 --no-reshard"
        bf16 = "--reduce-dtype bf16"
        yield "DDP, bf16 sums", Rank, ranks, ranks, 1, {"bf16": True}, bf16
        yield "FSDP 2, bf16 sums", FullySharded, ranks, ranks, 2, {"bf16": True}, "--zero 3 " + bf16
    yield "HSDP", FullySharded, 4, 4, 1, {"hsdp": 2}, "--zero 3 --hsdp 2"
    yield "HSDP, bf16 sums", FullySharded, 4, 4, 1, {"hsdp": 2, "bf16": True}, \
        "--zero 3 --hsdp 2 " + bf16
    for kind, stages, more, options in (
            ("GPipe", 2, {}, "gpipe"), ("GPipe", 4, {}, "gpipe"), ("1F1B", 2, {}, "1f1b"),
            ("1F1B", 4, {}, "1f1b"), ("Interleaved1F1B", 2, {"chunks": 2}, "interleaved --vp 2"),
            ("InterleavedZeroBubble", 2, {}, "zb-h1"), ("InterleavedZeroBubble", 4, {}, "zb-h1"),
            ("ZBVZeroBubble", 2, {"chunks": 2, "back": True}, "zb-h1")):
        how = {"schedule": getattr(pipelining, "Schedule" + kind), **more}
        options = f"--pp {stages} --schedule {options}"
        yield kind, Pipeline, stages, 1, 4, how, options
        if family == "Llama" and stages == 2:
            yield f"{kind}, FSDP 2", Pipeline, 4, 2, 4, how, f"{options} --zero 3"
    if family == "Llama":
        for sp, options in ((False, "--tp 2"), (True, "--tp 2 --sp")):
            name = "sequence parallel" if sp else "tensor parallel"
            yield name, TensorParallel, 2, 1, 1, {"sp": sp}, options
            yield f"{name}, FSDP 2", TensorParallel, 4, 2, 1, {"sp": sp}, f"{options} --zero 3"


def worker(rank, cls, ranks, how, options, folder):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "For backward hooks|FSDP2-wrapped module")
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank,
                            world_size=ranks)
    trainer = cls(options, rank, **how)
    losses, norms = zip(*(trainer.step(i) for i in range(STEPS)))
    torch.save((losses, norms, trainer.parameters(), trainer.calls), f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


def pytorch(cls, ranks, how, options, folder):
    """Returns the losses, the norms, the parameters of each rank, and how often PyTorch gathers and
    scatters in a step."""
    mp.start_processes(worker, (cls, ranks, how, options, folder), nprocs=ranks,
                       start_method="fork")
    found = [torch.load(folder / f"rank{i}.pt", weights_only=True) for i in range(ranks)]
    losses, norms, _, calls = found[0]
    times = [sum(n for kind, n in calls.items() if word in kind)
             for word in ("allgather", "reducescatter")]
    return losses, norms, [rank[2] for rank in found], times


def pretrain(options, given, folder):
    """Returns losses, norms and the parameters."""
    subprocess.run(
        [os.path.join(os.environ["SYN_BUILD"], "pretrain"), *given.split(), "--dropout", "0",
         *(part for name, value in options.items() for part in (f"--{name}", str(value))),
         "--skip-eval", "--quiet", "--save-dir", folder], check=True, cwd=HERE.parent.parent)
    with open(folder / "metrics.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    losses, norms = ([float(row[k]) for row in rows] for k in ("loss", "grad_norm"))
    saved = folder / "last_model" / "model.safetensors"
    return losses, norms, load_file(saved) if saved.exists() else None


def traced_collectives(options, given, folder):
    """Returns how often rank 0 gathers and scatters in a step."""
    pretrain(options, f"{given} --enable-tracing --out-dir {folder}", folder / "traced")
    subprocess.run([os.path.join(os.environ["SYN_BUILD"], "syntorch"), "export", "--input",
                    folder / "trace.0.et", "--output", folder / "graph.json"], check=True,
                   stdout=subprocess.DEVNULL)
    nodes = json.loads((folder / "graph.json").read_text())["nodes"]
    kinds = [node.get("comm") for node in nodes if node.get("type") == "op"]
    return kinds.count("all_gather"), kinds.count("reduce_scatter")


# ---- Comparison ----


def make_model(family, folder):
    """Saves a random model with a tokenizer."""
    sizes = dict(vocab_size=410, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4,
                 max_position_embeddings=64, bos_token_id=0, eos_token_id=0)
    if family == "Llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            **sizes, num_key_value_heads=2, intermediate_size=48))
    else:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    fill(model, 1).save_pretrained(folder)
    words = HERE / ("saved_llama3" if family == "Llama" else "saved_gpt2")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(words / name, folder)


def relative(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def without_key_biases(name, x):
    if name.endswith("attn.c_attn.bias"):
        queries, _, values = x.chunk(3)
        return torch.cat([queries, values])
    return x


def parameters_off(ours, everyones):
    """Returns the largest difference of a parameter from that of any rank that has it."""
    worst, seen = 0.0, set()
    for theirs in everyones:
        for name, want in theirs.items():
            want, got = (without_key_biases(name, x) for x in (want, ours[name].double()))
            worst = max(worst, float((want - got).abs().max() / want.abs().max()))
            seen.add(name)
    missing = set(ours) - seen
    assert not missing or missing == {"lm_head.weight"} and "transformer.wte.weight" in seen
    return worst


def compare(family, case, weights, work):
    """Prints a line for a case. Returns whether PyTorch's results are ours."""
    name, cls, ranks, copies, passes, how, given = case
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    options = {"weights": str(weights), "data": str(work / "texts.json"), "max-seq-length": LENGTH,
               "learning-rate": 1e-2, "warmup-steps": 2, "num-epochs": 8, "max-steps": STEPS,
               "recipe": "default", "gradient-accumulation-steps": passes}
    theirs = pytorch(cls, ranks, how, options | {"num-gpus": copies}, folder)
    options |= {"num-gpus": ranks, "batch-size": BATCH}
    ours = pretrain(options, given, folder / "run")
    losses, norms = (relative(ours[i], theirs[i]) for i in (0, 1))
    parameters = parameters_off(ours[2], theirs[2])
    more = ""
    if cls is FullySharded:
        times = zip(theirs[3], traced_collectives(options, given, folder), strict=True)
        more = ", {} / {} gathers, {} / {} scatters".format(*(n for pair in times for n in pair))
    print(f"{family}, {name}, {ranks} ranks: losses off by {losses:.1e}, norms {norms:.1e}, "
          f"parameters {parameters:.1e}{more}", flush=True)
    if how.get("bf16"):  # ranks may add bf16 numbers in another order; one rounds by up to 4e-3
        return losses < 1e-4 and norms < 4e-3 and parameters < 4e-3
    return losses < 1e-5 and norms < 1e-5 and parameters < 1e-4


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    good = []
    with tempfile.TemporaryDirectory(prefix="syntorch-") as name:
        work = pathlib.Path(name)
        write_texts(work / "texts.json")
        for family in ("Llama", "GPT-2"):
            make_model(family, work / family)
            for case in cases(family):
                if word in case[0]:
                    good.append(compare(family, case, work / family, work))
    print(f"{len(good)} cases, {good.count(False)} wrong")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
