"""Teaching example: an all-reduce equals a reduce-scatter followed by an all-gather; two_halves.c
in Python. It needs numpy.

    python two_halves.py [RANKS]"""
import sys

import numpy

import syntorch

ELEMENTS = 5040  # divisible by every number of ranks up to 10
ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2

with syntorch.Context(device="cpu", dp=ranks) as s:
    x = s.input("x", s.per_rank(lambda rank: numpy.sin(numpy.arange(ELEMENTS, dtype="f4") + rank)))
    whole = s.all_reduce(x, "dp")
    part = s.reduce_scatter(x, 0, "dp")
    parts = s.all_gather(part, 0, "dp")
    apart = numpy.abs(s.read(whole) - s.read(parts)).max()
print(f"{ranks} ranks have {4 * ELEMENTS} bytes each, and {4 * part.shape[0]} of them between the "
      f"halves; the two ways differ by {apart:g}")
