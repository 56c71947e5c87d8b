"""Tests `syntorch convert pytorch` on traces with randomly replaced values: the result is a valid
trace or an error message."""
import os
import random

from checks import check, failures
import damaged_traces
import pytorch_traces as pt
from pytorch_traces import convert

COUNT = int(os.environ.get("SYCOUNT_EDITS", "60"))
SEED = int(os.environ.get("SYN_SEED", "0"))
KEEP = os.environ.get("SYN_KEEP")  # a folder for the first pair of files that fails


def odd_values(p, chance):
    """Returns the pair with some fields of nodes and events set to values of other nodes or events,
    or to odd values."""
    q = p.copy()
    gpu = q.gpu()
    odd = (0, -1, 1, 2**31, 2**63, 2**64 - 1, -2**63, 10**30, 1e300, -5.5, "x", "7", "", None, [],
           {}, True, float("nan"))
    for _ in range(chance.choice((1, 3, 10, 60))):
        rows = chance.choice((q.nodes, q.events, gpu))
        row, other = chance.choice(rows), chance.choice(rows)
        if chance.random() < 0.5:
            for key in ("attrs", "args"):
                if isinstance(row.get(key), dict) and row[key]:
                    row = row[key]
                elif isinstance(row.get(key), list) and row[key]:
                    row = chance.choice(row[key])
                other = other.get(key) if isinstance(other.get(key), dict) else other
        key = chance.choice(list(row)) if row else "id"
        kind = chance.randrange(4)
        if kind == 0:
            row.pop(key, None)
        elif kind == 1 and isinstance(row.get(key), (int, float)):
            row[key] += chance.choice((-1, 1, -1000, 0.5, 1e9))
        else:
            row[key] = other.get(key) if kind == 2 else chance.choice(odd)
    return q.texts()


def random_edits(p, base):
    chance = random.Random(len(base.et) + SEED)
    for i in range(COUNT):
        host, device = odd_values(p, chance)
        what = f"{p.name}: edit {i}"
        r = convert(host, device)
        if r.code == 0:
            for k in pt.KINDS:
                check(r.rank["nodes"][k]["in"] == r.rank["nodes"][k]["out"],
                      f"{what}: {k}: {r.rank['nodes'][k]}")
            pt.check_nodes(what, r.nodes)
            pt.check_tools(what, r.et)
        else:
            check(r.code == 1 and not r.files and "syntorch convert pytorch: " in r.said,
                  f"{what}: exit {r.code}: {r.said[-300:]}")
        if KEEP and any(what + ":" in t for t in failures):
            for name, data in (("host.0.json", host), ("device.0.json", device)):
                with open(os.path.join(KEEP, name), "wb") as f:
                    f.write(data)
            return


damaged_traces.main(random_edits)
