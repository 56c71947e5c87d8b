"""Shared by tests/pytorch/test_convert_*.py. Damages a valid pair of traces, computes the warnings
that `syntorch convert pytorch` should report, and runs the conversions."""
import concurrent.futures
import sys
import traceback

from checks import check, finish
import pytorch_traces as pt
from pytorch_traces import ATTRS, PROCESS, THREAD, attr, convert, good, places, refused


# ---- Expected warnings, computed from the edited trace ----


def expected(nodes, where):
    """Returns the anomalies in the nodes of a host trace: for each kind a list of (byte offset,
    id). where: begin and end of each node in the file, in bytes."""
    kept = [(at[0], n) for at, n in zip(where, nodes) if "id" in n]
    out = {"no-id": [(at[0], None) for at, n in zip(where, nodes) if "id" not in n]}
    first, lane, place = {}, {}, {}
    order = sorted(range(len(kept)), key=lambda i: kept[i][1]["id"] % 2**64)
    for i, k in enumerate(order):
        place[k] = i
    for i, (_, n) in enumerate(kept):
        first.setdefault(n["id"], i)

    def note(kind, i):
        out.setdefault(kind, []).append((kept[i][0], kept[i][1]["id"] % 2**64))

    parent = {}
    for i, (_, n) in enumerate(kept):
        p = first.get(n.get("ctrl_deps"))
        if first[n["id"]] != i:
            note("duplicate-id", i)
        if any(attr(n, a) is None for a in ATTRS):
            note("no-attribute", i)
        if "ctrl_deps" not in n:
            note("no-parent", i)
        elif n["ctrl_deps"] == n["id"]:
            continue
        elif p is None:
            note("missing-parent", i)
        elif place[p] >= place[i]:
            note("parent-cycle", i)
        else:
            parent[i] = p
    for i in order:
        n, p = kept[i][1], parent.get(i)
        lane[i] = attr(n, "tid") if attr(n, "tid") is not None else lane[p] if p is not None else 0
        if p is not None and kept[p][1]["name"] not in (PROCESS, THREAD) and lane[p] != lane[i]:
            note("foreign-parent", i)
    if not any(n["name"] == PROCESS for _, n in kept):
        out["no-root"] = [(None, 1)]
    return {k: v for k, v in out.items() if v}


def check_anomalies(what, r, want):
    """Compares the reported anomalies. want: for each kind either (count, byte offset or None, node
    or None) of the report, or a list of all places (byte offset, node). Offsets are in the host
    file or in the device file, depending on the kind."""
    check(set(r.anomalies) == set(want),
          f"{what}: told {sorted(r.anomalies)}, expected {sorted(want)}")
    for kind, w in want.items():
        got = r.anomalies.get(kind)
        if got is None:
            continue
        if isinstance(w, list):
            check(got["count"] == len(w), f"{what}: {kind}: {got['count']}, expected {len(w)}")
            check((got.get("byte"), got.get("node")) == min(w, key=lambda x: x[0] or 0),
                  f"{what}: {kind}: {got}, expected {min(w)}")
        else:
            check((got["count"], got.get("byte"), got.get("node")) == w,
                  f"{what}: {kind}: {got}, expected {w}")


def run(what, p, host=None, device=None, extra=(), kinds=None, made_up=0, args=(), **how):
    """Converts the pair, with the given bytes in place of its files. Checks that exactly the
    anomalies of the nodes and of `extra` are reported, and that --strict fails if there are any.
    kinds: expected number of nodes by kind. made_up: number of host nodes that the conversion
    adds."""
    what = f"{p.name}: {what}"
    texts = p.texts()
    host, device = host or texts[0], device or texts[1]
    want = expected(p.nodes, places(texts[0], "nodes"))
    want.update(extra)
    r = convert(host, device, *args, **how)
    if not good(what, r, kinds or p.kinds(), made_up):
        return None
    check_anomalies(what, r, want)
    for kind, a in r.anomalies.items():
        device_kind = kind in ("no-time", "no-args", "duplicate-correlation", "time-only", "orphan")
        check(a.get("file") == "device.0.json" or not device_kind, f"{what}: {kind}: {a}")
    strict = convert(host, device, *args, "--strict", **how)
    if want:
        refused(what + ", --strict", strict, "--strict", *want)
    else:
        check(strict.code == 0 and strict.files == r.files,
              f"{what}: --strict: exit {strict.code}: {strict.said[-300:]}")
    return r


def parent_of(r, node):
    return next((n for n in r.nodes if n.id in node.ctrl), None)


def by_rf(r, rf_id):
    """Returns the nodes of the host op with this rf_id."""
    return [n for n in r.nodes if not n.on_gpu and n.attr.get("rf_id") == rf_id]


def launches(r):
    """Returns for each GPU node, by (name, start), the rf_id of the op that launched it."""
    return {(n.name, n.start): p.attr.get("rf_id") if (p := parent_of(r, n)) else None
            for n in r.nodes if n.on_gpu}


def middle(p, depth=2):
    """Returns the index of a node in the middle of the list that has children and whose parent is
    neither a process nor a thread node."""
    roots = {n["id"] for n in p.nodes if n["name"] in (PROCESS, THREAD)}
    parents = {n["ctrl_deps"] for n in p.nodes}
    return next(i for i in range(len(p.nodes) // 3, len(p.nodes)) if p.nodes[i]["id"] in parents
                and p.nodes[i]["ctrl_deps"] not in roots and p.nodes[i]["id"] not in roots)


def leaf(p):
    parents = {n["ctrl_deps"] for n in p.nodes}
    return next(i for i in range(len(p.nodes) // 2, len(p.nodes)) if p.nodes[i]["id"] not in parents
                and p.nodes[i]["name"].startswith("aten"))


def thread_root(r, node):
    return next(n for n in r.nodes if n.name == THREAD and n.attr["tid"] == node.attr["tid"])


# ---- Runs ----


def guarded(f, *args):
    try:
        f(*args)
    except Exception:  # pylint: disable=broad-except
        check(False, f"{f.__name__}: {traceback.format_exc()[-900:]}")


def main(*cases, once=()):
    """Runs the cases on each pair of traces, and the functions in `once` without a pair. Two of
    them run at a time. Command-line arguments select functions by name."""
    jobs = [(f,) for f in once]
    for p in [pt.fixture()] + ([pt.shared("synth_allfeatures")] if pt.TRACES else []):
        base = convert(*p.texts())
        if good(f"{p.name}: undamaged", base, p.kinds()):
            check(not base.anomalies and not base.rank["dropped"],
                  f"{p.name}: undamaged: {base.anomalies}")
            jobs += [(f, p, base) for f in cases]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job in jobs:
            if len(sys.argv) < 2 or job[0].__name__ in sys.argv[1:]:
                pool.submit(guarded, *job)
    finish()
