#!/usr/bin/python3
"""Proves that readers of others accept our execution traces: etcheck.py and protoc --decode.
etcheck.py has its own decoder and simulates the whole trace set on ranks with one compute and one
communication slot each. The trace sets come from test_et: tensor parallelism on two ranks, two
pipeline stages on four ranks, and two ranks that would deadlock without the added dependencies."""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

from checks import BUILD, SOURCE, TOOLS, check, finish, run_etcheck, skip
from execution_trace import messages


def check_set(prefix, ranks, colls, nodes, streams):
    out = prefix + ".report"
    r = run_etcheck(prefix, "--json", out)
    check(r.returncode == 0, f"etcheck {prefix}: {r.stdout}{r.stderr}")
    report = json.load(open(out))
    check(len(report["ranks"]) == ranks, f"{prefix}: {len(report['ranks'])} ranks")
    total = report["total"]
    check(total["nodes"] == nodes, f"{prefix}: {total['nodes']} nodes, want {nodes}")
    kinds = ("ALL_REDUCE", "ALL_GATHER", "BROADCAST")
    check(sum(total.get(k, 0) for k in kinds) == colls, f"{prefix}: {total}")
    # Each stream runs in order, so at most one node per stream is ready at a time.
    check(all(x["widest_ready"] <= streams for x in report["ranks"]), f"{prefix}: wide frontier")
    return total


def run_protoc(path):
    n = 0
    for i, message in enumerate(messages(open(path, "rb").read())):
        kind = "ChakraProtoMsg.Node" if i else "ChakraProtoMsg.GlobalMetadata"
        r = subprocess.run(["protoc", "--decode", kind, "-I",
                            os.path.join(SOURCE, "export/chakra/wire"),
                            "et_def.proto"],
                           input=message, capture_output=True)
        text = r.stdout.decode()
        check(r.returncode == 0, f"protoc {path} message {i}: {r.stderr.decode()}")
        # protoc prints a field that is not in the schema as its number.
        check(not re.search(r"^\s*\d+[:{ ]", text, re.M),
              f"{path} message {i}: unknown fields\n{text}")
        check(i == 0 or f"id: {i}\n" in text, f"{path} message {i}: {text}")
        n = i
    return n


def main():
    program = os.path.join(BUILD, "tests", "test_et")
    if not TOOLS and not shutil.which("protoc"):
        skip("neither SYN_SHARED_TOOLS nor protoc")
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "set")
        r = subprocess.run([program, "write_set"], env=dict(os.environ, SYN_ET_OUT=prefix),
                           capture_output=True, text=True)
        check(r.returncode == 0, r.stderr)
        check(len(glob.glob(prefix + ".*.et")) == 8, "not eight files")
        if TOOLS:
            check_set(prefix + ".tp", 2, 2 * 7, 2 * 48, 2)
            check_set(prefix + ".overlap", 2, 2 * 3, 2 * 10, 4)
            # Three microbatches have four nodes each (up, all-reduce, down, message). One
            # all-reduce across the stages follows.
            total = check_set(prefix + ".pp", 4, 4 * 4, 4 * 13, 3)
            check(total["p2p_bytes"] == 64 * 3 * 2 * 2, f"p2p_bytes {total['p2p_bytes']}")
        if shutil.which("protoc"):
            check(run_protoc(prefix + ".tp.0.et") == 48, "tp.0 has not 48 nodes")
            check(run_protoc(prefix + ".pp.3.et") == 13, "pp.3 has not 13 nodes")
    finish()


main()
