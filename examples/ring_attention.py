"""Teaching example: what ring attention does; ring_attention.c in Python. Each rank has two pieces
of a sequence; keys and values go around a ring. docs/learn/6-experts-and-contexts.md explains it.

    python ring_attention.py [RANKS]"""
import sys

import syntorch

TOKENS, HEADS, WIDTH = 4096, 8, 64
ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 4

with syntorch.Context(dp=ranks) as s:
    shape = (1, HEADS, TOKENS // ranks, WIDTH)
    q, k, v = (s.input(name, shape, "bf16") for name in "qkv")
    s.context_attention(q, k, v, 0.125, 0, "dp")
trace = s.trace()

ops = trace.ops()
for rank in trace.ranks:
    sent = sum(size for of, kind, size in zip(ops["rank"], ops["kind"], ops["comm_bytes"])
               if of == rank and kind == "send")
    print(f"rank {rank}: pieces {rank} and {2 * ranks - 1 - rank}, sends {sent / 1e6:.2f} MB")
trace.svg(comm=True, title="Ring attention").save("ring_attention.svg")
