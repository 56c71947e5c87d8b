"""Runs the syntorch command in temporary folders and writes small inputs for it. Shared by
test_tool_*.py, which import all names."""
from inference_runs import *  # noqa: F403

SYNTORCH = os.path.join(BUILD, "syntorch")


def run(folder, *args, **kwargs):
    return subprocess.run([SYNTORCH, *map(str, args)], cwd=folder.path, env=ENV,
                          capture_output=True, timeout=HANGS, **kwargs)


def refused(folder, args, *says, code=1, **kwargs):
    """Checks that the command fails with one sentence that contains these words, and prints nothing
    to standard output but the object of --json. Returns the sentence."""
    r = run(folder, *args, **kwargs)
    lines = [line for line in r.stderr.decode().splitlines() if line.startswith("syntorch ")]
    assert r.returncode == code, f"{args}: exit code {r.returncode}: {text_of(r)[:500]}"
    assert len(lines) == 1, f"{args}: {text_of(r)[:500]}"
    assert not r.stdout if "--json" not in args else "error" in json.loads(r.stdout), \
        f"{args}: {text_of(r)[:500]}"
    for part in says:
        assert part in lines[0], f"{args}: {lines[0]!r} lacks {part!r}"
    return lines[0]


def traced(folder):
    expect_ok(folder.run("--device", "meta", "--tp", 2, "--visualize_trace", "--quiet",
                         "--num_output_tokens", 2, "--out_dir", "out"))


def host_and_device(folder, stem):
    """Writes a minimal pair of PyTorch traces as STEM_host.json and STEM_device.json."""
    attrs = [{"name": n, "type": "uint64", "value": v} for n, v in
             (("rf_id", 1), ("fw_parent", 0), ("seq_id", -1), ("scope", 0), ("tid", 1),
              ("fw_tid", 0))]
    io = {"values": [], "shapes": [], "types": [], "strides": []}
    nodes = [dict(id=i, name=name, ctrl_deps=1, inputs=io, outputs=io,
                  attrs=[dict(attrs[0], value=i), *attrs[1:]])
             for i, name in ((1, "process"), (2, "aten::mm"))]
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
             "args": {"External id": 2, "Record function id": 2}}
    folder.write(stem + "_host.json", json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    folder.write(stem + "_device.json", json.dumps({"schemaVersion": 1, "traceEvents": [event]}))


def write_bytes(folder, name, data):
    with open(folder / name, "wb") as f:
        f.write(data)
    return name
