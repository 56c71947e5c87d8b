"""Tests commands whose input is not a valid trace: files of other kinds, damaged files, and files
that cannot be read. Each is refused with a sentence that says why, except for damaged traces, which
`stat` describes as far as it can read them."""
import random
import zipfile

from tool_runs import *  # noqa: F403


def other_files(folder):
    """Yields names of files, and what the message calls them."""
    yield "out/timeline.json", "a Chrome timeline"
    yield "out/tensor_trace_graph.json", "node-link JSON"
    yield "out/tensor_trace_chakra.json", "an execution trace as JSON"
    yield "out/trace.comm_group.json", "the list of groups"
    if os.path.exists(folder / "out/tensor_comm_graph.svg"):
        yield "out/tensor_comm_graph.svg", "an SVG picture"
        yield "out/tensor_comm_graph.png", "a PNG picture"
    yield sys.executable, "a program"
    yield __file__, "text"
    host = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "name": "x"}]}
    yield folder.write("host.json", json.dumps(host, indent=1)), "a PyTorch execution trace"
    yield folder.write("kineto.json", json.dumps({"schemaVersion": 1, "traceEvents": []})), \
        "a Chrome timeline"
    yield folder.write("g.dot", "digraph {\n a -> b\n}\n"), "a DOT graph"
    yield folder.write("g.graphml", '<?xml version="1.0"?>\n<graphml></graphml>'), "GraphML"
    yield folder.write("page.html", "<html><body>404</body></html>"), "an HTML page"
    with zipfile.ZipFile(folder / "model.pt", "w") as z:
        z.writestr("data.pkl", "x")
    yield "model.pt", "zip"
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    yield write_bytes(folder, "m.safetensors",
                      len(header).to_bytes(8, "little") + header + bytes(4)), "a safetensors file"
    yield write_bytes(folder, "noise", random.Random(3).randbytes(3000)), "not an execution trace"


def test_other_files_are_called_what_they_are():
    with Folder() as f:
        traced(f)
        for name, what in other_files(f):
            refused(f, ["stat", name], os.path.basename(name), what)
            refused(f, ["stat", "--json", name], os.path.basename(name), what)
            if "not an execution" not in what:
                refused(f, ["validate", name], os.path.basename(name), what)
                refused(f, ["validate", "out/trace.0.et", name, "--json"], os.path.basename(name),
                        what)


def test_bytes_that_frame_nothing_are_no_trace():
    with Folder() as f:
        for name, data in (("zeros", bytes(4096)), ("zero", bytes(1)), ("spaces", b" " * 132)):
            with open(f / (name + ".0.et"), "wb") as out:
                out.write(data)
            done = run(f, "stat", name + ".0.et")
            assert done.returncode == 1 and b"not an execution trace" in done.stderr, \
                (name, done.stdout[-300:], done.stderr)


def test_damaged_traces_are_still_described():
    with Folder() as f:
        traced(f)
        whole = open(f / "out/trace.0.et", "rb").read()
        # size of the first message, including the two bytes of its length
        metadata = 2 + (whole[0] & 127 | whole[1] << 7)
        assert whole[0] >= 128 > whole[1]
        for data in (whole[: len(whole) // 2], whole[metadata:],
                     b"\7" + bytes(7) + whole[metadata:], whole + bytes(range(256))):
            write_bytes(f, "damaged.et", data)
            out = expect_ok(run(f, "stat", "damaged.et"))
            assert "COMP" in out and "warning" in out, out


def recorded(folder, *names):
    """Writes a PyTorch trace under each name, converted with all its nodes."""
    host_and_device(folder, "p")
    for name in names:
        expect_ok(run(folder, "convert", "pytorch", "--host", "p_host.json", "--device",
                      "p_device.json", "--output", name))


def problems(folder, *args, code=1):
    r = run(folder, "validate", "--json", *args)
    assert r.returncode == code, f"{args}: {r.returncode} {text_of(r)}"
    return {f["kind"]: f["count"] for f in json.loads(r.stdout)["findings"] if f["problem"]}


def test_a_recording_is_called_one():
    with Folder() as f:
        recorded(f, "r.0.et", "r.1.et")
        for args in (["r.0.et"], ["r"], ["r.0.et", "r.1.et"]):
            found = problems(f, *args)
            assert found == {"recording": 1}, f"{args}: {found}"
            assert problems(f, "--any-node", *args, code=0) == {}, args
        assert problems(f, "--single", "r.0.et", code=0) == {}
        out = run(f, "validate", "r.0.et").stdout.decode()
        assert out.count("\n") == 2 and "this is a trace of a real run" in out \
            and "--profile astra-sim" in out, out
        whole = open(f / "r.0.et", "rb").read()
        write_bytes(f, "cut.et", whole[:-9])
        assert problems(f, "cut.et") == {"recording": 1, "framing": 1}
        expect_ok(run(f, "convert", "pytorch", "--host", "p_host.json", "--device", "p_device.json",
                      "--output", "s.et", "--profile", "astra-sim"))
        assert problems(f, "s.et", code=0) == {}


def test_what_cannot_be_read_is_not_called_missing():
    with Folder() as f:
        traced(f)
        os.symlink("loop", f / "loop")
        os.mkdir(f / "folder")
        for command in ("stat", "validate"):
            refused(f, [command, "loop"], "cannot read loop", "symbolic links")
            refused(f, [command, "out/trace.0.et/x"], "cannot read out/trace.0.et/x",
                    "Not a directory")
            refused(f, [command, "x" * 300], "cannot read x", "File name too long")
            refused(f, [command, "folder"], "cannot read folder", "it is a folder")
            refused(f, [command, "nowhere"],
                    "neither the file nowhere nor the set nowhere.<rank>.et exists")
            refused(f, [command, "nowhere/trace"], "neither the file nowhere/trace")
        refused(f, ["export", "--input", "loop", "--output", "x.svg"], "cannot read loop",
                "symbolic links")


def test_permission_is_reported():
    if os.geteuid() == 0:
        raise Skip("root may read everything")
    with Folder() as f:
        traced(f)
        os.chmod(f / "out/trace.0.et", 0)
        for command in ("stat", "validate"):
            refused(f, [command, "out/trace.0.et"], "cannot read out/trace.0.et",
                    "Permission denied")
            refused(f, [command, "out/trace"], "cannot read out/trace.0.et", "Permission denied")
        os.chmod(f / "out", 0)
        try:
            for command in ("stat", "validate"):
                refused(f, [command, "out/trace"], "cannot read out/trace", "Permission denied")
        finally:
            os.chmod(f / "out", 0o700)


def test_a_link_to_nothing_is_reported():
    with Folder() as f:
        host_and_device(f, "p")
        os.unlink(f / "p_host.json")
        os.symlink("gone.json", f / "p_host.json")
        r = run(f, "convert-all", ".")
        assert r.returncode == 1 and b"a link to a missing file" in r.stdout, text_of(r)
        refused(f, ["stat", "p_host.json"], "cannot read p_host.json",
                "a link to a missing file")


main(globals())
