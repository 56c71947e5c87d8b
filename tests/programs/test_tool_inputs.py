"""What is given to the commands in place of a trace: files of other kinds, files that cannot be
read, hostile ones. Each is refused with a sentence that says why; no input is overwritten, no name
reaches the terminal as it is, nothing waits or grows for ever."""
import fcntl
import gzip
import random
import zipfile

from inference_runs import *  # noqa: F403

SYNTORCH = os.path.join(BUILD, "syntorch")


def run(folder, *args, **kwargs):
    return subprocess.run([SYNTORCH, *map(str, args)], cwd=folder.path, env=ENV,
                          capture_output=True, timeout=HANGS, **kwargs)


def refused(folder, args, *says, code=1, **kwargs):
    """One sentence that says this, and nothing on standard output."""
    r = run(folder, *args, **kwargs)
    lines = [line for line in r.stderr.decode().splitlines() if line.startswith("syntorch ")]
    assert r.returncode == code, f"{args}: exit code {r.returncode}: {text_of(r)[:500]}"
    assert len(lines) == 1 and not r.stdout, f"{args}: {text_of(r)[:500]}"
    for part in says:
        assert part in lines[0], f"{args}: {lines[0]!r} lacks {part!r}"
    return lines[0]


def traced(folder):
    expect_ok(folder.run("--device", "meta", "--tp", 2, "--visualize_trace", "--quiet",
                         "--num_output_tokens", 2, "--out_dir", "out"))


def host_and_device(folder, stem):
    """The least of PyTorch's traces, as STEM_host.json and STEM_device.json."""
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


def test_how_inputs_and_choices_are_given():
    """By --input or without it, after options or before them; a choice is one of its words."""
    with Folder() as f:
        traced(f)
        for command in ("stat", "validate", "convert-all", "weights"):
            refused(f, [command], "needed (--help explains)", code=2)
            refused(f, [command, "--input", "a", "b"], "either by --input or without it", code=2)
        for command in ("convert-all", "weights"):
            refused(f, [command, "a", "b"], "one ", "at a time", code=2)
        said = {run(f, "stat", *args).stdout for args in (
            ["--json", "out/trace"], ["out/trace", "--json"], ["--json", "--input", "out/trace"],
            ["--max-unpacked-mib", 5, "out/trace", "--json"],
            ["out/trace.0.et", "--json", "out/trace.1.et"])}
        assert len(said) == 1 and json.loads(said.pop())["ranks"], said
        export = ["export", "--input", "out/tensor_trace_graph.json", "--output", "g.json"]
        for args, says in (
                (["--copies", "some"], "--copies is auto, full or once, not 'some'"),
                (["--nx_key", "link"], "--nx_key is both, links or edges, not 'link'"),
                (["--nx_key="], "--nx_key is both, links or edges, not ''")):
            refused(f, [*export, *args], says, code=2)
        refused(f, ["convert-all", ".", "--profile", "astra"],
                "--profile is full or astra-sim, not 'astra'", code=2)
        r = run(f, *export, "--nx-key", "edges")
        with open(f / "g.json") as g:
            assert r.returncode == 0 and not {"links", "edges"} <= json.load(g).keys(), text_of(r)


EXPORT = ["syntorch", "export", "--input", "none.json", "--output"]
ROWS = os.path.join(SOURCE, "tests", "measured", "all_reduce_a100.csv")
# Options that would do nothing, and what is said of the first of them.
WITHOUT_EFFECT = [
    *([["calibrate", "--measure", *more], f"{more[0]} does nothing with --measure"] for more in
      (["--rows", "absent"], ["--rows_stack", "x"], ["--fix", "launch_us"], ["--rounds", "3"],
       ["--check"], ["--predictions", "x.csv"])),
    [["calibrate", "--measure", "--hw", "h100"], "--hw does nothing when --measure"],
    [["calibrate", "--rows", ROWS, "--device", "cuda"], "--device does nothing without"],
    *([["calibrate", "--check", "--rows", ROWS, *more], f"{more[0]} does nothing with --check"]
      for more in (["--fix", "launch_us"], ["--rounds", "3"], ["--output", "x.json"])),
    *([["inference", "--temperature", "0", *more], f"{more[0]} has no effect with --temperature 0"]
      for more in (["--top_k", "5"], ["--top_p", "0.5"])),
    [["inference", "--out-dir", "x"], "--out_dir does nothing without --visualize_trace"],
    [["pretrain", "--enable-tracing", "--trace-name", ""], "--trace-name '' names no file"],
    [["pretrain", "--enable-tracing", "--trace-name", "a/"], "--trace-name 'a/' names no file"],
    *([[*EXPORT, "x.json", *more], f"{more[0]} is for pictures"] for more in
      (["--page", "a4"], ["--view", "graph"], ["--comm"], ["--no_fold"], ["--detail", "ops"])),
    [[*EXPORT, "x.svg", "--view", "timeline", "--detail", "ops"], "--detail is for pictures of a"],
    [[*EXPORT, "x.svg", "--view", "timeline", "--comm"], "--comm draws a graph"],
    [[*EXPORT, "x.svg", "--nx_key", "links"], "--nx_key is for json alone"],
    [[*EXPORT, "x.svg", "--copies", "once"], "--copies is for json, chakra, chrome and html"],
    [[*EXPORT, "x.et", "--title", "T"], "--title is for pictures, json, chrome and html"],
    [[*EXPORT, "x.svg", "--compare", "x"], "--compare is for html alone"],
    [[*EXPORT, "x.svg", "--profile_memory"], "--profile_memory is for kineto alone"],
    [[*EXPORT, "x.svg", "--with_stack"], "--with_stack is for kineto, stacks and memory alone"],
    [[*EXPORT, "x.svg", "--all_ranks"], "--all_ranks is for an input trace.<rank>.et"],
    [["syntorch", "tokenize", "--tokenizer", "bytes", "--decode", "--plain", "65"],
     "--plain does nothing with --decode"],
]
# Outputs that cannot be written are found out before the work: inputs are not there.
BEFORE_WORK = [
    ["calibrate", "--measure", "--output"],
    ["calibrate", "--rows", "none.csv", "--output"],
    ["calibrate", "--rows", "none.csv", "--predictions"],
    ["inference", "--save_logits"],
    ["inference", "--embeddings"],
    ["syntorch", "export", "--input", "none.json", "--format", "svg", "--output"],
    ["syntorch", "link", "--host", "none.json", "--device", "none.json", "--output"],
    ["syntorch", "convert", "pytorch", "--host", "none.json", "--output"],
]


def test_options_without_effect():
    with Folder() as f:
        for command, says in WITHOUT_EFFECT:
            r = subprocess.run([os.path.join(BUILD, command[0]), *command[1:]], cwd=f.path, env=ENV,
                               capture_output=True, timeout=HANGS)
            assert r.returncode == 2 and not r.stdout and r.stderr.count(b"\n") == 1 and \
                says in r.stderr.decode(), f"{command}: {r.returncode}: {text_of(r)}"
        r = subprocess.run([os.path.join(BUILD, "calibrate"), "--check", "--rows", ROWS,
                            "--rows_stack", "none"], cwd=f.path, env=ENV, capture_output=True)
        assert r.returncode == 1 and b"has no column stack" in r.stderr, text_of(r)
        host_and_device(f, "job")
        r = run(f, "convert", "pytorch", "--host", "job_host.json", "--device", "job_device.json",
                "--output", "x.et", "--json", "--quiet")
        assert r.returncode == 0 and json.loads(r.stdout), f"--json --quiet: {text_of(r)}"
        for name in ("", "out/"):  # files of a set would be hidden
            f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
            refused(f, ["convert", "text", "--input", "w.txt", "--num_npus", 2, "--output", name],
                    f"the prefix '{name}' names no file")


def test_outputs_are_checked_before_the_work():
    with Folder() as f:
        f.write("file", "x")
        for command in BEFORE_WORK:
            for output in ("absent/x.et", "file/x.et", "/proc/x.et"):
                r = subprocess.run([os.path.join(BUILD, command[0]), *command[1:], output],
                                   cwd=f.path, env=ENV, capture_output=True, timeout=HANGS)
                folder = output[:-5]
                assert r.returncode == 1 and not r.stdout and r.stderr.count(b"\n") == 1 and \
                    f"cannot write {output}: the folder {folder} " in r.stderr.decode(), \
                    f"{command} {output}: {r.returncode}: {text_of(r)}"
        for command in (["export", "--input", "none.json", "--format", "et", "--output"],
                        ["export", "--input", "none.json", "--format", "kineto", "--output"],
                        ["astra-sim", "none", "--out"]):
            for output, folder in (("/proc/x", "/proc"), ("file/x/y", "file"),
                                   ("/proc/x/y", "/proc")):
                refused(f, [*command, output], f"cannot write {output}",
                        f": the folder {folder} takes no new files")
            refused(f, [*command, "new/x"], "none")  # the folder will be made, the input is absent
            assert not os.path.exists(f / "new"), command


def test_one_run_at_a_time_writes_a_set():
    """Another run that writes the same files is refused and named; other names in the folder are
    free."""
    with Folder() as f:
        traced(f)
        f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
        for rank in (0, 1):
            host_and_device(f, f"job.{rank}")
        graph = ["syntorch", "export", "--input", "out/tensor_trace_graph.json", "--format"]
        run_ = ["inference", "--tp", 2, "--num_output_tokens", 1, "--quiet"]
        for command, output, lock, advice in (
                ([*graph, "et", "--output"], "d/set", ".set.lock", "--output"),
                ([*graph, "kineto", "--output"], "d/set", ".set.lock", "--output"),
                (["syntorch", "convert", "text", "--input", "w.txt", "--num_npus", 2, "--output"],
                 "d/set", ".set.lock", "--output"),
                (["syntorch", "convert", "pytorch", "--host", "job.*_host.json", "--output"],
                 "d/set", ".set.lock", "--output"),
                (["syntorch", "astra-sim", "out/trace", "--out"], "d", ".lock", "--out"),
                ([*run_, "--visualize_trace", "--out_dir"], "d", ".trace.lock", "--out_dir"),
                ([*run_, "--save_weights"], "d", ".lock", "--save_weights")):
            command = [os.path.join(BUILD, command[0]), *map(str, command[1:])]
            os.makedirs(f / "d", exist_ok=True)
            with open(f / f"d/{lock}", "w", encoding="utf-8") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                print("77 1764269485 elsewhere pretrain", file=held, flush=True)
                r = subprocess.run([*command, output], cwd=f.path, env=ENV, capture_output=True,
                                   timeout=HANGS)
                said = r.stderr.decode()
                assert r.returncode == 1 and said.count("\n") == 1 and \
                    "another run (pretrain, process 77 on elsewhere, since 2025-11-2" in said and \
                    said.endswith(f"or name another {advice}\n"), f"{command}: {text_of(r)}"
                assert os.listdir(f / "d") == [lock], f"{command}: {os.listdir(f / 'd')}"
                other = output.replace("set", "other") if "set" in output else "e"
                r = subprocess.run([*command, other], cwd=f.path, env=ENV, capture_output=True,
                                   timeout=HANGS)
                assert r.returncode == 0, f"{command} {other}: {text_of(r)}"
            r = subprocess.run([*command, output], cwd=f.path, env=ENV, capture_output=True,
                               timeout=HANGS)
            assert r.returncode == 0 and lock not in os.listdir(f / "d"), f"{command}: {text_of(r)}"
            shutil.rmtree(f / "d")


# ---- files of other kinds ----


def write_bytes(folder, name, data):
    with open(folder / name, "wb") as f:
        f.write(data)
    return name


def other_files(folder):
    """Name and what it is."""
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
    yield write_bytes(folder, "noise", random.Random(3).randbytes(3000)), "no execution trace"


def test_other_files_are_called_what_they_are():
    with Folder() as f:
        traced(f)
        for name, what in other_files(f):
            refused(f, ["stat", name], os.path.basename(name), what)
            refused(f, ["stat", "--json", name], os.path.basename(name), what)
            if "no execution" not in what:
                refused(f, ["validate", name], os.path.basename(name), what)
                refused(f, ["validate", "out/trace.0.et", name, "--json"], os.path.basename(name),
                        what)


def test_bytes_that_frame_nothing_are_no_trace():
    with Folder() as f:
        for name, data in (("zeros", bytes(4096)), ("zero", bytes(1)), ("spaces", b" " * 132)):
            with open(f / (name + ".0.et"), "wb") as out:
                out.write(data)
            done = run(f, "stat", name + ".0.et")
            assert done.returncode == 1 and b"no execution trace" in done.stderr, \
                (name, done.stdout[-300:], done.stderr)


def test_damaged_traces_are_still_described():
    with Folder() as f:
        traced(f)
        whole = open(f / "out/trace.0.et", "rb").read()
        # the first message, whose length has two bytes
        metadata = 2 + (whole[0] & 127 | whole[1] << 7)
        assert whole[0] >= 128 > whole[1]
        for data in (whole[: len(whole) // 2], whole[metadata:],
                     b"\7" + bytes(7) + whole[metadata:], whole + bytes(range(256))):
            write_bytes(f, "damaged.et", data)
            out = expect_ok(run(f, "stat", "damaged.et"))
            assert "COMP" in out and "warning" in out, out


# ---- traces that are not for simulators ----


def recorded(folder, *names):
    """PyTorch's traces as traces of all nodes, without what validate must not mind."""
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
        assert out.count("\n") == 2 and "all nodes of a real run" in out \
            and "--profile astra-sim" in out, out
        whole = open(f / "r.0.et", "rb").read()
        write_bytes(f, "cut.et", whole[:-9])
        assert problems(f, "cut.et") == {"recording": 1, "framing": 1}
        expect_ok(run(f, "convert", "pytorch", "--host", "p_host.json", "--device", "p_device.json",
                      "--output", "s.et", "--profile", "astra-sim"))
        assert problems(f, "s.et", code=0) == {}


# ---- files that cannot be read ----


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
                    "there is neither a file nowhere nor a set nowhere.<rank>.et")
            refused(f, [command, "nowhere/trace"], "neither a file nowhere/trace")
        refused(f, ["export", "--input", "loop", "--output", "x.svg"], "cannot read loop",
                "symbolic links")


def test_permission_is_said():
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


# ---- names that a terminal would obey ----

EVIL = "a\x1b[31mb\nc\u009b7m\u202ed\r"
SHOWN = "a\\x1b[31mb\\nc\\xc2\\x9b7m\\xe2\\x80\\xaed\\x0d"


def printable(data):
    """Nothing but text and ends of lines."""
    text = data.decode()
    odd = [c for c in text if c != "\n" and not c.isprintable()]
    assert not odd, f"{odd} in {text!r}"
    return text


def test_names_reach_the_terminal_escaped():
    with Folder() as f:
        host_and_device(f, EVIL)
        f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
        host, device = EVIL + "_host.json", EVIL + "_device.json"
        both = ["--host", host, "--device", device]
        for args in (["convert-all", "."], ["convert", "pytorch", *both, "--output", EVIL + ".et"],
                     ["convert", "pytorch", *both, "--output", EVIL + ".et", "--compat"],
                     ["link", *both, "--output", EVIL + ".json"],
                     ["repair", "--input", host, "--output", EVIL],
                     ["convert", "text", "--input", "w.txt", "--output", EVIL, "--num_npus", 1],
                     ["json", "--input", EVIL + ".et", "--output", EVIL], ["stat", EVIL + ".et"],
                     ["validate", "--any-node", EVIL + ".et"], ["validate", EVIL], [EVIL],
                     ["convert", EVIL], ["stat", "--" + EVIL],
                     ["convert-all", EVIL], ["export", "--input", EVIL + "x", "--output", "x.svg"],
                     ["weights", EVIL]):
            r = run(f, *args)
            text = printable(r.stdout) + printable(r.stderr)
            assert SHOWN in text or args[:2] == ["stat", EVIL + ".et"], f"{args}: {text!r}"
        f.write(EVIL + "_host.json", "{")
        text = printable(run(f, "convert-all", ".").stdout)
        assert SHOWN in text and "failed" in text, text


def test_names_of_the_inference_program():
    with Folder() as f:
        config = load_json(TINY)
        config["name"] = "gpt\u202e"
        f.write("config.json", json.dumps(config))
        r = f.run("--model_config", "config.json", "--device", "meta", "--visualize_trace",
                  "--out_dir", EVIL, "--num_output_tokens", 1, "--debug")
        printable(r.stdout)
        printable(r.stderr)
        assert r.returncode == 0 and SHOWN in r.stdout.decode() \
            and "gpt\\xe2\\x80\\xae" in r.stdout.decode(), text_of(r)


# ---- inputs are kept ----


def keeps(folder, name, *args, program=SYNTORCH):
    """The command is refused and the file stays."""
    with open(folder / name, "rb") as f:
        before = f.read()
    r = subprocess.run([program, *map(str, args)], cwd=folder.path, env=ENV, capture_output=True,
                       timeout=HANGS)
    assert r.returncode in (1, 2) and b"is an input, which is never overwritten" in r.stderr, \
        f"{args}: {r.returncode} {text_of(r)}"
    with open(folder / name, "rb") as f:
        assert f.read() == before, f"{args} overwrote {name}"


def links_to(folder, name):
    """The file itself, and two other names of it."""
    os.symlink(name, folder / "soft")
    os.link(folder / name, folder / "hard")
    yield from (name, "soft", "hard")
    os.unlink(folder / "soft")
    os.unlink(folder / "hard")


def test_no_input_is_overwritten():
    with Folder() as f:
        traced(f)
        keeps(f, "out/trace.0.et", "export", "--input", "out/trace.0.et", "--output",
              "out/trace.0.et", "--format", "svg")
        keeps(f, "out/trace.1.et", "export", "--input", "out/trace", "--output", "out/trace.1.et",
              "--format", "dot")
        keeps(f, "out/trace.1.et", "export", "--input", "out/trace", "--output", "out/trace.et")
        keeps(f, "out/trace.1.et", "export", "--input", "out/trace.0.et", "--all_ranks", "--output",
              "out/trace.et")
        keeps(f, "out/trace.comm_group.json", "export", "--input", "out/trace", "--output",
              "out/trace.comm_group.json", "--format", "json")
        keeps(f, "out/tensor_trace_graph.json", "export", "--input", "out/tensor_trace_graph.json",
              "--output", "out/tensor_trace_graph.json")
        os.rename(f / "out/tensor_trace_graph.json", f / "all.7.et")
        f.write("all.comm_group.json", "{}")
        for rank in range(2, 7):
            f.write(f"all.{rank}.et", "")
        # the older set's further ranks are removed
        keeps(f, "all.7.et", "export", "--input", "all.7.et", "--output", "all.et")

        workload = "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n"
        for name in ("w.0.et", "w.comm_group.json", "w.1.et"):
            f.write(name, workload)
            keeps(f, name, "convert", "text", "--input", name, "--output", "w", "--num_npus", 2)
        f.write("w.txt", workload)
        for link in (os.symlink, os.link):
            os.unlink(f / "w.1.et")
            link("w.txt" if link is os.symlink else f / "w.txt", f / "w.1.et")
            keeps(f, "w.txt", "convert", "text", "--input", "w.txt", "--output", "w", "--num_npus",
                  2)

        host_and_device(f, "p")
        both = ["--host", "p_host.json", "--device", "p_device.json"]
        for name in ("p_host.json", "p_device.json"):
            for output in links_to(f, name):
                keeps(f, name, "convert", "pytorch", *both, "--output", output)
                keeps(f, name, "link", *both, "--output", output)
                keeps(f, name, "repair", "--input", name, "--output", output)
        for output in links_to(f, "w.txt"):
            keeps(f, "w.txt", "json", "--input", "w.txt", "--output", output)

        expect_ok(f.run("--save_weights", "model", "--num_output_tokens", 1))
        keeps(f, "model/model.safetensors", "--weights", "model", "--tokenizer", "bytes",
              "--save_weights", "model", program=PROGRAM)
        keeps(f, "model/model.safetensors", "--weights", "model", "--tokenizer", "bytes",
              "--save_logits", "model/model.safetensors", program=PROGRAM)
        for name in ("vocab.json", "merges.txt", "generation_config.json"):
            f.write("model/" + name, "{}\n")
            keeps(f, "model/" + name, "--weights", "model", "--tokenizer", "bytes", "--save_logits",
                  "model/" + name, program=PROGRAM)
        for name in ("timeline.json", "trace.0.et"):
            with open(TINY, encoding="utf-8") as config:
                f.write(name, config.read())
            keeps(f, name, "--model_config", name, "--visualize_trace", "--out_dir", ".",
                  program=PROGRAM)
        f.write("prompts.txt", "a\n")
        keeps(f, "prompts.txt", "--prompts", "prompts.txt", "--save_logits", "prompts.txt",
              program=PROGRAM)


def test_convert_all_keeps_its_inputs():
    with Folder() as f:
        host_and_device(f, "p")
        os.symlink("p_host.json", f / "p.et")
        before = open(f / "p_host.json").read()
        r = run(f, "convert-all", ".")
        assert r.returncode == 1 and b"never overwritten" in r.stdout, text_of(r)
        assert open(f / "p_host.json").read() == before


# ---- what would be waited for, and what is not there ----


def test_a_pipe_without_a_writer_is_not_waited_for():
    with Folder() as f:
        traced(f)
        os.mkdir(f / "all")
        host_and_device(f, "all/p")
        for name in ("pipe", "all/q_host.json", "out/trace.2.et"):
            os.mkfifo(f / name)
        commands = [["stat", "pipe"], ["validate", "pipe"], ["stat", "out/trace"],
                    ["export", "--input", "pipe", "--output", "x.svg"],
                    ["convert", "pytorch", "--host", "pipe", "--output", "x.et"],
                    ["repair", "--input", "pipe", "--output", "x.json"],
                    ["convert", "text", "--input", "pipe", "--output", "x", "--num_npus", 2],
                    ["convert-all", "all"]]
        started = [subprocess.Popen([SYNTORCH, *map(str, c)], cwd=f.path, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for c in commands]
        for command, p in zip(commands, started):
            out, err = p.communicate(timeout=HANGS)
            text = (out + err).decode()
            assert p.returncode == 1 and "a pipe into which nobody writes" in text, \
                f"{command}: {p.returncode} {text}"
        assert "ok" in text, text  # what else the folder holds


def test_a_slow_writer_is_waited_for():
    with Folder() as f:
        traced(f)
        os.mkfifo(f / "pipe")
        want = expect_ok(run(f, "stat", "out/trace.0.et"))
        for command in ("cat out/trace.0.et > pipe",
                        "exec 3> pipe; sleep 6; cat out/trace.0.et >&3",
                        "sleep 2; cat out/trace.0.et > pipe"):
            with subprocess.Popen(["sh", "-c", command], cwd=f.path):
                got = expect_ok(run(f, "stat", "pipe"))
            assert got.split("schema")[0].split("\n", 2)[2:] \
                == want.split("schema")[0].split("\n", 2)[2:], got


def test_a_link_to_nothing_is_told():
    with Folder() as f:
        host_and_device(f, "p")
        os.unlink(f / "p_host.json")
        os.symlink("gone.json", f / "p_host.json")
        r = run(f, "convert-all", ".")
        assert r.returncode == 1 and b"a link to a file that is not there" in r.stdout, text_of(r)
        refused(f, ["stat", "p_host.json"], "cannot read p_host.json",
                "a link to a file that is not there")


# ---- what grows when it is read ----


def packed(folder, name, text):
    write_bytes(folder, name, gzip.compress(text, 9))
    return len(text) / os.path.getsize(folder / name)


def without_zlib(folder):
    packed(folder, "small.gz", b"{}")
    return b"built without zlib" in run(folder, "repair", "--input", "small.gz", "--output",
                                        "x").stderr


def test_gzip_unpacks_to_what_a_recording_may_hold():
    with Folder() as f:
        if without_zlib(f):
            raise Skip("built without zlib")
        host_and_device(f, "p")
        with open(f / "p_host.json", "rb") as file:
            host = file.read()
        assert packed(f, "bomb.json", host + b" " * (24 << 20)) > 900
        for args in (["convert", "pytorch", "--host", "bomb.json", "--output", "x.et"],
                     ["convert", "pytorch", "--host", "p_host.json", "--device", "bomb.json",
                      "--output", "x.et"],
                     ["convert", "pytorch", "--host", "bomb.json", "--output", "x.et", "--compat"],
                     ["link", "--host", "bomb.json", "--device", "p_device.json", "--output",
                      "x.json"],
                     ["repair", "--input", "bomb.json", "--output", "x.json"],
                     ["stat", "bomb.json"], ["validate", "bomb.json"],
                     ["json", "--input", "bomb.json", "--output", "x"]):
            r = run(f, *args)
            assert r.returncode == 1 and b"of gzip unpack to more than" in r.stderr \
                and b"--max_unpacked_mib" in r.stderr, text_of(r)
            r = run(f, *args, "--max_unpacked_mib", 25)  # then it is judged by what it holds
            assert b"unpack to more" not in r.stderr, text_of(r)
        expect_ok(run(f, "convert", "pytorch", "--host", "bomb.json", "--output", "x.et",
                      "--max_unpacked_mib", 25))
        os.mkdir(f / "all")
        os.rename(f / "bomb.json", f / "all/b_host.json.gz")
        assert run(f, "convert-all", "all").returncode == 1
        expect_ok(run(f, "convert-all", "all", "--max-unpacked-mib", 25))


def test_the_densest_recordings_are_read():
    """One op in a loop, pretty-printed, which is denser than any real recording (52 times at
    most)."""
    with Folder() as f:
        if without_zlib(f):
            raise Skip("built without zlib")
        host_and_device(f, "p")
        trace = load_json(f / "p_host.json")
        op = trace["nodes"][1]
        for i in range(3, 6000):
            attrs = [dict(op["attrs"][0], value=i), *op["attrs"][1:]]
            io = {"values": [[7, 8, 0, 64, 4, "cpu"]] * 4, "shapes": [[64, 64]] * 4,
                  "types": ["Tensor(float)"] * 4, "strides": [[64, 1]] * 4}
            trace["nodes"].append(dict(op, id=i, attrs=attrs, inputs=io, outputs=io))
        ratio = packed(f, "loop.json", json.dumps(trace, indent=4).encode())
        assert 100 < ratio < 200, ratio
        expect_ok(run(f, "convert", "pytorch", "--host", "loop.json", "--output", "x.et"))


def test_deep_nesting_is_linked_in_proportion():
    with Folder() as f:
        host_and_device(f, "p")
        for depth in (1000, 50000):
            for nested in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth,
                           "[1," * depth + "1" + "]" * depth):
                trace = load_json(f / "p_host.json")
                trace["nodes"][1]["inputs"] = "HERE"
                host = json.dumps(trace).replace('"HERE"', nested)
                f.write("deep.json", host)
                expect_ok(run(f, "link", "--host", "deep.json", "--device", "p_device.json",
                              "--output", "linked.json"))
                size = os.path.getsize(f / "linked.json")
                assert size < 8 * len(host) + 100000, f"{len(host)} bytes became {size}"


main(globals())
