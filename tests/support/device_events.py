"""Shared by tests/pytorch/test_convert_*.py. Builds device traces from a few events, and converts
them without a host trace."""
import json
import os
import tempfile

from checks import run
from execution_trace import read_et
import pytorch_traces as pt


def alone(device, *args):
    """Converts a device trace without --host. Returns a Result like pytorch_traces.convert()."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        with open(os.path.join(folder, "d.json"), "wb") as f:
            f.write(device)
        done = run("convert", "pytorch", "--device", "d.json", "--output", "t.0.et", "--json",
                   *args, cwd=folder)
        r = pt.Result()
        r.code, r.said, r.nodes = done.returncode, done.stderr.decode(), []
        if r.code == 0:
            with open(os.path.join(folder, "t.0.et"), "rb") as f:
                r.et = f.read()
            r.meta, r.nodes = read_et(r.et)
            r.json = json.loads(done.stdout)
            r.rank = r.json["ranks"][0]
            r.anomalies = {a["kind"]: a for a in r.json["anomalies"]}
            pt.check_tools("device only", r.et)
        return r


def op(name, ts, dur, tid=5, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
            "args": args}


def launch(ts, correlation, tid=5):
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": tid,
            "ts": ts, "dur": 1, "args": {"correlation": correlation}}


def kernel(name, ts, dur, correlation, **args):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur,
            "args": {"correlation": correlation, "stream": 7, "device": 0, **args}}


def document(events):
    return pt.dump({"traceEvents": events})
