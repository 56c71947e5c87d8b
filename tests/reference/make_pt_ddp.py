#!/usr/bin/env python3
"""Records pt_ddp/VERSION/{host,device}.<rank>.json.gz: one training step of two processes under
DistributedDataParallel over gloo. Its all-reduces overlap the backward pass and each other, and
rank 1 is late. Made with torch 2.15.0 and 2.4.1 for CPU, with one thread per process.

  make_pt_ddp.py FOLDER

After the step, the ranks pass messages around a ring, with receives posted first, and wait at once
for an all-reduce of the loss.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

from make_pt_gloo import pack

WORLD, WIDTH, LAYERS = 2, 96, 10


def train_step(rank, net, optimizer):
    if rank == 1:
        time.sleep(0.02)
    loss = net(torch.ones(256, WIDTH)).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mine, theirs = torch.ones(5000), torch.empty(5000)
    for work in [dist.irecv(theirs, 1 - rank), dist.isend(mine, 1 - rank)]:
        work.wait()
    dist.all_reduce(loss.detach())


def worker(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29613")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    layers = [m for _ in range(LAYERS) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers),
                                                    bucket_cap_mb=0.03)
    optimizer = torch.optim.AdamW(net.parameters())
    host, device = (os.path.join(folder, f"{kind}.{rank}.json") for kind in ("host", "device"))
    observer = ExecutionTraceObserver().register_callback(host)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
                 execution_trace_observer=observer,
                 schedule=schedule(wait=0, warmup=3, active=1, repeat=1),
                 on_trace_ready=lambda p: p.export_chrome_trace(device)) as profiler:
        for _ in range(4):
            train_step(rank, net, optimizer)
            profiler.step()
    observer.unregister_callback()
    dist.barrier()
    dist.destroy_process_group()
    pack(host)
    pack(device)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    mp.spawn(worker, args=(sys.argv[1],), nprocs=WORLD)
