#!/usr/bin/env python3
"""Records one training step of a tiny model with DistributedDataParallel on two processes, as
docs/pytorch.md describes. Needs PyTorch but no GPU. Writes host.<rank>.json and device.<rank>.json
to the current folder. The files next to this script were recorded with PyTorch 2.15.0:

    torchrun --nproc_per_node 2 record.py
"""
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank = dist.get_rank()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() \
    else torch.device("cpu")
torch.set_num_threads(1)
layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 8)).to(device)
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train_step():
    optimizer.zero_grad()
    model(torch.ones(16, 64, device=device)).sum().backward()
    optimizer.step()


# ---- What docs/pytorch.md shows ----
import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule
from torch._C._profiler import _ExperimentalConfig

host = ExecutionTraceObserver().register_callback(f"host.{rank}.json")
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=0, warmup=3, active=1, repeat=1),
    on_trace_ready=lambda p: p.export_chrome_trace(f"device.{rank}.json"),
    execution_trace_observer=host,
    record_shapes=True,
    experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True),
) as profiler:
    for step in range(4):
        train_step()
        profiler.step()
host.unregister_callback()
# ----

dist.destroy_process_group()
