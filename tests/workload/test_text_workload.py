#!/usr/bin/python3
"""Compares `syntorch convert text` with Chakra's own converter (SHA-256 of its files, from
tests/reference/make_text_fixture.py), with etcheck.py, and with a separate decoder. By default the
command writes the nodes of Chakra's converter, except collectives that move no data."""
import glob
import hashlib
import json
import os
import tempfile

from checks import SOURCE, TOOLS, check, finish, run, run_etcheck
from execution_trace import read_et

COLLECTIVES = {"ALLREDUCE": 0, "ALLTOALL": 6, "ALLGATHER": 2, "REDUCESCATTER": 7}


def convert(folder, text, npus, passes, *more):
    """Runs the command in the folder. Returns the names of its files and the finished process."""
    source = os.path.join(folder, "w.txt")
    with open(source, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    r = run("convert", "text", "--input", source, "--output", os.path.join(folder, "o"),
            "--num_npus", str(npus), "--num_passes", str(passes), *more, text=True)
    return sorted(os.path.basename(f) for f in glob.glob(os.path.join(folder, "o.*"))), r


def clear(folder):
    for f in glob.glob(os.path.join(folder, "o.*")):
        os.remove(f)


# ---- Decoding ----


def read(path):
    """Returns the metadata's attributes, and the nodes as (id, name, type, dependencies, duration,
    {attribute: (field number of the value, value)})."""
    with open(path, "rb") as f:
        meta, nodes = read_et(f.read())
    return meta, [(n.id, n.name, n.type, n.ctrl + n.data, n.dur,
                   {k: (n.field[k], v) for k, v in n.attr.items()}) for n in nodes]


def before(nodes):
    """Returns for each node a bit set: the indices of the nodes that must end before it begins."""
    place = {n[0]: i for i, n in enumerate(nodes)}
    out = []
    for n in nodes:
        bits = 0
        for dep in n[3]:
            bits |= out[place[dep]] | 1 << place[dep]
        out.append(bits)
    return out


# ---- Checks ----


def check_compat(folder, case):
    files, r = convert(folder, case["text"], case["npus"], case["passes"], "--compat")
    check(r.returncode == 0, f"{case['name']}: {r.stderr}")
    check(files == [f"o.{i}.et" for i in range(case["npus"])], f"{case['name']}: wrote {files}")
    sums = [hashlib.sha256(open(os.path.join(folder, f), "rb").read()).hexdigest() for f in files]
    check(sums == case["sha256"], f"{case['name']}: not the reference's bytes")
    return [read(os.path.join(folder, f)) for f in files]


def check_default(folder, case, reference):
    name, npus = case["name"], case["npus"]
    files, r = convert(folder, case["text"], npus, case["passes"])
    check(r.returncode == 0, f"{name}: {r.stderr}")
    check(files == sorted([f"o.{i}.et" for i in range(npus)] + ["o.comm_group.json"]),
          f"{name}: wrote {files}")
    check(json.load(open(os.path.join(folder, "o.comm_group.json"))) == {}, f"{name}: groups")
    for rank in range(npus):
        meta, nodes = read(os.path.join(folder, f"o.{rank}.et"))
        check((meta["rank"], meta["world_size"]) == (rank, npus), f"{name}: metadata {meta}")
        check(meta["input_file"] == case["text"].replace("\r\n", "\n"),
              f"{name}: the text is not kept")
        check([n[0] for n in nodes] == list(range(1, len(nodes) + 1)),
              f"{name}: ids of rank {rank}")
        check_nodes(name, nodes, reference[rank][1], npus)
    if TOOLS:
        r = run_etcheck(os.path.join(folder, "o"))
        check(r.returncode == 0 or npus == 1, f"{name}: etcheck: {r.stdout}")
    r = run("export", "--input", os.path.join(folder, "o.0.et"), "--all_ranks", "--format",
            "chakra", "--output", "-")
    check(r.returncode == 0 and len(json.loads(r.stdout)["ranks"]) == npus,
          f"{name}: export: {r.stderr}")


def check_nodes(name, nodes, reference, npus):
    """Checks that the nodes are the reference's, in its order, except collectives that move no
    data, and that all orderings of the reference still hold."""
    kept = [i for i, n in enumerate(reference) if n[2] == 4
            or (npus > 1 and n[5]["comm_size"][1] > 0)]
    check([n[1:3] + n[4:5] for n in nodes] == [reference[i][1:3] + reference[i][4:5] for i in kept],
          f"{name}: nodes")
    ours, theirs, last = before(nodes), before(reference), None
    for at, i in enumerate(kept):
        lost = [j for to, j in enumerate(kept[:at]) if theirs[i] >> j & 1
                and not ours[at] >> to & 1]
        check(not lost,
              f"{name}: node {nodes[at][1]} does not wait for {[reference[j][1] for j in lost]}")
        attrs = nodes[at][5]
        check(attrs["is_cpu_op"] == (27, 0), f"{name}: is_cpu_op {attrs}")
        if nodes[at][2] == 4:
            check(attrs["num_ops"] == (9, 1) and attrs["tensor_size"] == (13, 4096),
                  f"{name}: {attrs}")
            continue
        check((attrs["comm_type"], attrs["comm_size"])
              == (reference[i][5]["comm_type"], reference[i][5]["comm_size"]), f"{name}: {attrs}")
        check(attrs["comm_type"][1] == COLLECTIVES[nodes[at][1].rsplit("_", 1)[1]],
              f"{name}: {nodes[at]}")
        check(last is None or ours[at] >> last & 1,
              f"{name}: collective {nodes[at][0]} does not wait for the one before")
        last = at


LAYER = "a\t-1\t1\tNONE\t0\t2\tNONE\t0\t3\tALLREDUCE\t64\t4\n"
BAD = [("", "line 1: the file ends before the kind of parallelism"),
       ("\n\n", "line 2: the file ends before the kind"),
       ("data\n1\n" + LAYER, "line 1: 'data' is not a parallelism"),
       ("HYBRID_TRANSFORMER\n1\n" + LAYER, "line 1: 'HYBRID_TRANSFORMER' is not a parallelism"),
       ("DATA 3\n1\n" + LAYER, "line 1: unexpected '3' after DATA"),
       ("HYBRID_DLRM\n1\n" + LAYER,
        "line 1: HYBRID_DLRM must be followed by the number of the last bottom layer"),
       ("HYBRID_DLRM x\n1\n" + LAYER,
        "line 1, column 2: the last bottom layer must be an integer, not 'x'"),
       ("HYBRID_DLRM 2\n3\n" + 3 * LAYER, "the last bottom layer of a DLRM must be between"),
       ("HYBRID_DLRM 0\n3\n" + 3 * LAYER, "the last bottom layer of a DLRM must be between"),
       ("DATA\n", "line 1: the file ends before the number of layers"),
       ("DATA\nx\n" + LAYER,
        "line 2, column 1: the number of layers must be an integer of 1 or more, not 'x'"),
       ("DATA\n0\n",
        "line 2, column 1: the number of layers must be an integer of 1 or more, not '0'"),
       ("DATA\n1 1\n" + LAYER, "line 2: the number of layers must be alone"),
       ("DATA\n99999999999999999999\n" + LAYER,
        "line 2, column 1: the number of layers must be an integer"),
       ("DATA\n2\n" + LAYER, "line 3: the file ends after 1 of 2 layers"),
       ("DATA\n1\n" + LAYER + "\n" + LAYER, "line 5: this is layer 2 of 1"),
       ("DATA\n1\na -1 1\n", "line 3: a layer has 12 columns"),
       ("DATA\n1\n" + LAYER[:-1] + " more\n", "but this one has 13"),
       ("DATA\n1\n" + LAYER[:-1] + 50 * " more" + "\n", "but this one has 16 or more"),
       ("DATA\n1\n" + LAYER.replace("\t1\t", "\t1.5\t"),
        "line 3, column 3: the forward time must be an integer of 0 or more"),
       ("DATA\n1\n" + LAYER.replace("\t2\t", "\t-2\t"),
        "line 3, column 6: the input gradient's time must be"),
       ("DATA\n1\n" + LAYER.replace("64", "6_4"), "line 3, column 11: a collective's size must be"),
       ("DATA\n1\n" + LAYER.replace("64", "9223372036854775808"),
        "line 3, column 11: a collective's size must be"),
       ("DATA\n1\n" + LAYER.replace("\t-1\t", "\tx\t"),
        "line 3, column 2: dep must be an integer, not 'x'"),
       ("DATA\n1\n" + LAYER.replace("\t4\n", "\tx\n"),
        "line 3, column 12: the update time must be"),
       ("DATA\n1\n" + LAYER.replace("ALLREDUCE", "BROADCAST"),
        "line 3, column 10: 'BROADCAST' is not a collective"),
       ("MICRO\n1\n" + LAYER.replace("ALLREDUCE", "NONE"), "has nothing to run on 2 NPUs"),
       (b"DATA\n1\n" + LAYER.encode().replace(b"a", b"\xff"), "it is not UTF-8 text"),
       (b"\x1f\x8b\x08\0\0\0\0\0", "it is not UTF-8 text")]
BAD_COMPAT = [("MODEL\n1\n" + 2 * LAYER,
               "a layer waits for a collective that is not in the text"),
              ("HYBRID_DLRM 1\n3\n" + 3 * LAYER, "a layer waits for a collective"),
              ("HYBRID_DLRM -1\n3\n" + 3 * LAYER, "a layer waits for a collective"),
              ("DATA\n1\n" + LAYER.replace("\t1\t", "\t-1\t"), "line 3: a time is negative"),
              ("HYBRID_MODEL_DATA\n9\n" + 9 * LAYER.replace("\t3\t", "\t-3\t"),
               "line 11: a time is negative"),
              ("DATA\n1\na -1\n", "line 3: a layer has 12 columns")]


def check_bad(folder):
    for more, cases in (((), BAD), (("--compat",), BAD_COMPAT)):
        for text, says in cases:
            files, r = convert(folder, text, 2, 1, *more)
            check(r.returncode == 1 and says in r.stderr and r.stderr.count("\n") == 1,
                  f"{text!r}: {r.returncode} {r.stderr}")
            check(not files, f"{text!r}: wrote {files}")
    for arguments in ([], ["--input", "x", "--output", "y"],
                      ["--input", "x", "--output", "y", "--num_npus", "0"]):
        r = run("convert", "text", *arguments, text=True)
        check(r.returncode == 2 and r.stderr.count("\n") == 1,
              f"{arguments}: {r.returncode} {r.stderr}")


def check_forms(folder):
    """White space, line ends and empty lines do not matter. A new trace set replaces an older one.
    Text in the wrong place is reported."""
    convert(folder, "DATA\n1\n" + LAYER, 2, 1)
    plain = read(os.path.join(folder, "o.1.et"))[1]
    for text in ("DATA\r\n1\r\n" + LAYER.replace("\n", "\r\n"), "\ufeffDATA\n1\n" + LAYER,
                 " DATA \n\n 1\t\n" + LAYER + "\n \n\n",
                 "DATA\r1\r" + LAYER.replace("\t", " \t\v\f ")[:-1],
                 "DATA\n+1\n" + LAYER.replace("64", "+064")):
        _, r = convert(folder, text, 2, 1)
        check(r.returncode == 0 and read(os.path.join(folder, "o.1.et"))[1] == plain,
              f"{text!r}: {r.stderr}")
    convert(folder, "DATA\n1\n" + LAYER, 4, 1)
    files, _ = convert(folder, "DATA\n1\n" + LAYER, 2, 1)
    check(files == ["o.0.et", "o.1.et", "o.comm_group.json"], f"an older set's files: {files}")
    deep = os.path.join(folder, "a", "new", "folder")
    _, r = convert(folder, "DATA\n1\n" + LAYER, 2, 1, "--output", os.path.join(deep, "set"))
    check(r.returncode == 0 and sorted(os.listdir(deep))
          == ["set.0.et", "set.1.et", "set.comm_group.json"], f"a folder that is new: {r.stderr}")
    _, r = convert(folder, "DATA\n1\n" + LAYER.replace("64", "0"), 2, 1)
    check("of 2 nodes, 0 of them collectives" in r.stdout,
          f"a collective of no bytes: {r.stdout}{r.stderr}")
    _, r = convert(folder, "MODEL\n1\n" + LAYER, 2, 1)
    check("1 collective, the first in line 3, is omitted" in r.stderr, f"not told: {r.stderr}")
    _, r = convert(folder, "DATA\n1\n" + LAYER, 2, 1)
    check(r.stderr == "" and "2 files of 3 nodes, 1 of them collectives" in r.stdout,
          f"{r.stdout}{r.stderr}")


def main():
    with open(os.path.join(SOURCE, "tests", "reference", "text_workloads.json")) as f:
        cases = json.load(f)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            reference = check_compat(folder, case)
            clear(folder)
            if case["name"] not in ("wrong count", "unknown collective"):
                check_default(folder, case, reference)
                clear(folder)
        check_bad(folder)
        check_forms(folder)
    finish()


main()
