#!/usr/bin/env python3
"""Records pt_gloo/{host,device}.<rank>.json.gz: four processes over gloo call every kind of
collective and message once, under torch.profiler and ExecutionTraceObserver. Made with torch 2.15.0
for CPU, with one thread per process.

  make_pt_gloo.py FOLDER

Calls are distinguished by their number of elements: 1000 for the first, 1001 for the second, and so
on (test_pt_set.c lists them). Group "0" has all ranks, "1" and "2" are the pairs (0, 1) and (2, 3),
and "3" has the ranks 0 and 3. gloo's ops do not record their group.
"""
import gzip
import os
import re
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

WORLD = 4


def filled(n, dtype=torch.float32):
    return torch.ones(n, dtype=dtype)


def lists(n):
    return [filled(n) for _ in range(WORLD)]


def calls(rank, pair, ends):
    dist.all_reduce(filled(1000))
    dist.all_reduce(filled(1001, torch.bfloat16), group=pair)
    dist.broadcast(filled(1002, torch.int64), 1)
    dist.reduce(filled(1003, torch.float64), 2)
    dist.all_gather(lists(1004), filled(1004))
    dist.all_gather_into_tensor(filled(WORLD * 1005), filled(1005))
    dist.gather(filled(1006), lists(1006) if rank == 0 else None, 0)
    dist.scatter(filled(1007), lists(1007) if rank == 0 else None, 0)
    dist.reduce_scatter(filled(1008), lists(1008))
    dist.reduce_scatter_tensor(filled(1009), filled(WORLD * 1009))
    dist.all_to_all(lists(1010), lists(1010))
    dist.all_to_all_single(filled(WORLD * 1011), filled(WORLD * 1011))
    dist.all_to_all_single(filled(WORLD * (rank + 1)), filled(10), [rank + 1] * WORLD, [1, 2, 3, 4])
    dist.barrier()
    if rank % 2 == 0:
        dist.send(filled(1012), rank + 1)
    else:
        dist.recv(filled(1012), rank - 1)
    if rank == 0:
        dist.send(filled(1013), 3, group=ends)
    elif rank == 3:
        dist.recv(filled(1013), 0, group=ends)
    both = [dist.P2POp(dist.isend, filled(1014), (rank + 1) % WORLD),
            dist.P2POp(dist.irecv, filled(1014), (rank - 1) % WORLD)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    dist.all_reduce_coalesced([filled(100), filled(200)])
    if rank == 0:
        dist.send(filled(7), 1)
    elif rank == 1:
        dist.recv(filled(7))  # the source is not specified
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 8))
    model(torch.ones(2, 16)).sum().backward()


def pack(path):
    """Removes fields that identify the machine, and compresses the file."""
    text = open(path).read()
    text = re.sub(r'"(host_name|traceName)": "[^"]*"', r'"\1": ""', text)
    with open(path + ".gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as packed:
        packed.write(text.encode())
    os.remove(path)


def worker(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    pairs = [dist.new_group(ranks, group_desc="pair") for ranks in ([0, 1], [2, 3])]
    ends = dist.new_group([0, 3], group_desc="ends")
    host, device = (os.path.join(folder, f"{kind}.{rank}.json") for kind in ("host", "device"))
    observer = ExecutionTraceObserver().register_callback(host)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
                 execution_trace_observer=observer) as profiler:
        calls(rank, pairs[rank // 2], ends)
    profiler.export_chrome_trace(device)
    observer.unregister_callback()
    dist.barrier()
    dist.destroy_process_group()
    pack(host)
    pack(device)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    mp.spawn(worker, args=(sys.argv[1],), nprocs=WORLD)
