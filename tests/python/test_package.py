"""Tests the Python package: its results equal those of the programs, files and examples in C, and
mistakes are exceptions with the library's message."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from checks import BUILD, PROGRAM, SOURCE, check, finish

PACKAGE = os.path.join(BUILD, "python")
if not os.path.exists(os.path.join(PACKAGE, "syntorch", "_core.py")):
    print("skipped: the Python package is not built")
    sys.exit(77)
sys.path.insert(0, PACKAGE)
import syntorch  # noqa: E402

try:
    import numpy
    import pandas
except ImportError:
    numpy = pandas = None

folder = tempfile.mkdtemp()
os.chdir(folder)


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def refuses(kind, pattern, function, *arguments, **options):
    """Checks that a call raises an exception of a kind, whose text contains `pattern`."""
    try:
        function(*arguments, **options)
    except kind as error:
        check(re.search(pattern, str(error)), f"{error!r} lacks {pattern!r}")
        check(isinstance(error, syntorch.Error), f"{error!r} is no syntorch.Error")
    else:
        check(False, f"{function.__name__}{arguments}{options} succeeds; expected: {pattern}")


def listed(column):
    return [v.item() if hasattr(v, "item") else v for v in column]


# ---- Traces equal those of the programs ----

def same_as_synth():
    for name, options, given in (
            ("train", dict(tp=2, hw="h100"), ["--tp", "2", "--hw", "h100"]),
            ("pp", dict(pp=2, dp=2, global_batch=8, schedule="gpipe", layers=4),
             ["--pp", "2", "--dp", "2", "--global_batch", "8", "--schedule", "gpipe", "--layers",
              "4"]),
            ("gen", dict(phase="generate", num_input_tokens=8, num_output_tokens=3, layers=2),
             ["--phase", "generate", "--num_input_tokens", "8", "--num_output_tokens", "3",
              "--layers", "2"])):
        t = syntorch.trace("gpt2", **options)
        t.save(f"py_{name}.et", as_set=True)
        done = program("synth", "--model", "gpt2", "--quiet", "--out", f"c_{name}", *given)
        check(done.returncode == 0, done.stderr)
        same = program("diff", f"py_{name}", f"c_{name}")
        check(same.returncode == 0, f"{name}: the sets differ: {same.stdout}")
        check(syntorch.validate(f"py_{name}").ok, f"{name}: not valid")
    for path in ("py_pp.3.et", "c_pp.3.et"):
        check(syntorch.load(path).ranks == [3], path)
    check(syntorch.load("c_pp").ranks == [0, 1, 2, 3], "the prefix of a set")


def tables_equal_json():
    t = syntorch.trace("gpt2", tp=2, layers=2, hw="h100")
    t.save("t.json")
    with open("t.json", encoding="utf-8") as file:
        document = json.load(file)
    ops = [n for n in document["nodes"] if ".o" in n["id"]]
    table = t.ops()
    check(len(table) == len(ops) == len(t), "numbers of ops")
    check([f"r{r}.o{i}" for r, i in zip(table["rank"], table["id"])] == [n["id"] for n in ops],
          "ids of ops")
    for column, key in (("op", "op"), ("label", "name"), ("flops", "flops")):
        check(listed(table[column]) == [n.get(key, 0) for n in ops], f"column {column}")
    for _, row in zip(range(3), table["predicted_ns"]):
        check(row >= 0, "predicted times")
    found = t.collectives()
    check(set(found["group"]) == {"tp0"} and set(found["group_size"]) == {2}, "groups")
    check(t.groups == {"tp0": [0, 1]} and t.world_size == 2, "groups of the trace")
    memory = t.memory()
    check(max(memory["allocated_bytes"]) > 0, "memory")
    again = syntorch.load("t.json")
    check(listed(again.ops()["flops"]) == listed(table["flops"]), "a file that is read again")
    path = t.critical_path()
    check(abs(sum(path["ns"]) - t.predicted_ns) < 1e-4 * t.predicted_ns, "the critical path")
    faster = t.predict("h200").predicted_ns
    check(faster < t.predicted_ns < syntorch.predict("t.json", "a100-80g").predicted_ns,
          "other machines")
    check(t.predict("h100+megatron").predicted_ns == t.predicted_ns, "the same machine")


def arrays_are_views():
    if numpy is None:
        return
    t = syntorch.trace("gpt2", layers=2, hw="h100")
    nodes, deps = t.arrays(), t.arrays(table="deps")
    check(nodes["flops"].dtype == numpy.uint64 and not nodes["flops"].flags.owndata, "a view")
    check(nodes["flops"].sum() == t.ops()["flops"].sum(), "the sum of flops")
    check((deps["from"] < deps["to"]).all(), "dependencies are earlier nodes")
    names = numpy.array(nodes.names("op"))[nodes["op"]]
    check(list(names) == list(t.ops()["op"]), "codes of texts")
    check(nodes.names("phase")[nodes["phase"][0]] == "forward", "codes of enumerations")
    check(nodes.names("flops") is None, "numbers have no names")
    flops = nodes["flops"]
    want = flops.tolist()
    del t, nodes, deps
    check(flops.tolist() == want, "arrays outlive their trace")


def pictures():
    t = syntorch.trace("gpt2", tp=2, layers=2, hw="h100")
    for picture in (t.svg(), t.svg(comm=True), t.svg(rank=1, detail="ops", title="A title"),
                    t.timeline()):
        check(picture.rstrip().endswith("</svg>"), "an SVG picture")
        check(picture._repr_svg_() == picture, "notebooks show it")
    check("A title" in t.svg(title="A title"), "the title")
    page = t.html()
    check(page.lstrip().startswith("<!") and "srcdoc=" in page._repr_html_(), "a page")
    check("<svg" in t._repr_html_() and "gpt2" in t._repr_html_(), "a trace in a notebook")
    check(t.save("p.svg") == ["p.svg"] and t.save("p.gantt", format="gantt") == ["p.gantt"] and
          t.save("p.et") == ["p.0.et", "p.1.et", "p.comm_group.json"] and
          t.save("one.et", rank=1) == ["one.et"], "saved files")
    try:
        graph = t.networkx()
        check("r0.o1" in graph and len(graph) > len(t), "a networkx graph")
    except ImportError:
        pass


def sets():
    t = syntorch.trace("gpt2", pp=2, layers=2, hw="h100")
    t.save("s.et")
    check(syntorch.simulate(t).end_ns == syntorch.simulate("s").end_ns and
          syntorch.validate(t).ok and syntorch.compare(t, "s")["equal"], "a Trace as a set")
    check(syntorch.load("s.et").ranks == [0, 1], "the name that save was given")
    run = syntorch.simulate("s")
    check(run.deadlock is None and run.n_nodes > 0 and "2 ranks" in repr(run), "a simulation")
    check(max(run.ranks()["end_ns"]) == run.end_ns, "ends of ranks")
    check(set(run.traffic()["from"]) == {0, 1}, "traffic")
    check(syntorch.simulate("s", to="h200").end_ns < run.end_ns, "another machine")
    check(run.svg().rstrip().endswith("</svg>"), "a picture of a simulation")
    with open("s.1.et", "r+b") as file:
        file.truncate(os.path.getsize("s.1.et") - 3)
    found = syntorch.validate("s")
    check(not found.ok and "framing" in set(found.findings()["kind"]), f"damage: {found}")


def models():
    check("gpt2" in syntorch.models() and "h100" in syntorch.machines() and
          "serving" in syntorch.stacks(), "lists")
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
              "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
    with open("config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)

    class Configuration:
        def to_dict(self):
            return config
    sizes = {len(syntorch.trace(model, max_seq_length=32))
             for model in (config, "config.json", Configuration())}
    check(len(sizes) == 1, f"three ways to give a configuration: {sizes}")


def serves():
    """A simulated server. The requests of a run can be served again."""
    options = dict(layers=2, hw="h100+serving")
    first = syntorch.serve("llama-3-8b", "fixed:64:4", num_requests=5, rate=100, out="served",
                           **options)
    check(first["requests"] == len(first.requests) == 5, f"requests: {first}")
    mean = sum(first.requests["ttft_ms"]) / 5
    check(abs(first["ttft_ns"]["mean"] / 1e6 - mean) < 1e-4 * mean, f"TTFT: {first}, {mean}")
    check("running" in first.series.columns and first._repr_svg_().startswith("<svg"), "series")
    again = syntorch.serve("llama-3-8b", first.requests if pandas else "served.requests.csv",
                           **options)
    check(all(abs(a - b) < 2e-6 for a, b in zip(again.requests["latency_ms"],
                                                first.requests["latency_ms"])), "served again")
    check("written" in first and "written" not in again, "files")
    options |= dict(num_requests=20, rate=50)
    swept = syntorch.serve("llama-3-8b", "fixed:64:4", sweep="tp=1,2", **options)
    check(len(swept.rows) == len(swept["rows"]) == 2 and swept._repr_svg_().startswith("<svg"),
          f"a sweep over servers: {swept}")
    del options["rate"]
    found = syntorch.serve("llama-3-8b", "fixed:64:4", find_rate=True, slo="ttft=1s", **options)
    check(len(found["tries"]) > 0, f"the highest rate: {found}")
    refuses(syntorch.InvalidError, "json", syntorch.serve, "gpt2", "fixed:1:1", json=True)
    refuses(syntorch.Error, "no_such", syntorch.serve, "no_such", "fixed:1:1")


def programs():
    rows = syntorch.sweep("gpt2", "tp=1,2", "hw=h100,h200", num_gpus=2)
    check(len(rows) == 4, f"rows of a sweep: {rows}")
    done = syntorch.synth("gpt2", "run/set", tp=2, layers=2, hw="h100")
    check(done["tp"] == 2 and os.path.exists("run/set.1.et"), "synth")
    losses = syntorch.pretrain(max_steps=2, max_seq_length=32, batch_size=1, skip_eval=True)
    check(len(losses) == 2 and all(0 < x < 20 for x in losses["loss"]), f"losses: {losses}")
    check(syntorch.pretrain("gpt2", device="meta", num_gpus=2)["ranks"] == 2, "a prediction")
    serves()
    syntorch.trace("gpt2", tp=2, layers=1, hw="h100").save("other.et")
    check(syntorch.compare("run/set", "run/set")["equal"] is True and
          syntorch.compare("run/set", "other")["equal"] is False, "compared sets")
    check(syntorch.run("--version").startswith("syntorch "), "the program")
    host, device = (os.path.join(SOURCE, "examples", "pytorch", f"{kind}.0.json")
                    for kind in ("host", "device"))
    t = syntorch.convert(host, device)
    check(len(t) > 0 and isinstance(t.notes, list) and len(t.critical_path()) > 0,
          "a PyTorch trace")
    if numpy is not None:
        check(syntorch.trace("gpt2", tp=numpy.int64(2), layers=1, ranks=numpy.arange(2)).ranks ==
              [0, 1], "numbers of numpy")


# ---- Own programs ----

def examples():
    """The examples in Python write the same files as those in C."""
    for name in ("mlp_two_ways", "ring_attention", "token_to_experts", "own_op", "two_halves"):
        if numpy is None and name in ("own_op", "two_halves"):
            continue
        out = {}
        for kind, command in (("c", [os.path.join(BUILD, name)]),
                              ("py", [sys.executable, os.path.join(SOURCE, "examples",
                                                                   f"{name}.py")])):
            at = os.path.join(folder, kind, name)
            os.makedirs(at)
            done = subprocess.run(command, cwd=at, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": PACKAGE})
            check(done.returncode == 0, f"{name}: {done.stderr}")
            out[kind] = done.stdout
            files = os.listdir(at)
            out[kind + " files"] = {f: read(os.path.join(at, f)) for f in files}
        if name in ("mlp_two_ways", "two_halves", "own_op"):
            check(out["c"] == out["py"], f"{name} prints {out['py']!r}, in C {out['c']!r}")
        if name != "own_op":  # whose picture has measured times
            check(out["c files"] == out["py files"], f"{name}: the files differ")


def read(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r'"generator":"[^"]*",', "", file.read())


def contexts():
    with syntorch.Context(device="cpu", tp=2) as s:
        x = s.input("x", (2, 3))
        check(x.shape == (2, 3) and x.dtype == "f32", "a tensor")
        y = s.all_gather(s.softmax(x), 0, "tp")
        check(y.shape == (4, 3), "an all-gather")
        values, indices = s.top_k(x, 2)
        check(indices.dtype == "i32", "a second result")
        check(s.concat([x, x], 0).shape == (4, 3) and (x + x).shape == (2, 3), "lists")
        check(len(s.peak_bytes) == 2 and min(s.peak_bytes) > 0, "memory")
        t = s.trace()
        before = len(t)
        s.gelu(x)
        check(len(t) == before and len(s.trace()) == before + 2, "a trace does not change")
    refuses(syntorch.ShapeError, "matmul", s.matmul, x, x)
    refuses(syntorch.ShapeError, "matmul", s.gelu, x)  # the context has failed
    s.close()
    refuses(syntorch.InvalidError, "closed", s.gelu, x)
    refuses(syntorch.InvalidError, "closed", getattr, x, "shape")
    check("closed" in repr(x), "a tensor of a closed context")
    refuses(syntorch.InvalidError, "at most 1024", syntorch.Context, device="cpu", tp=100000)
    check(len(t.ops()) == before, "a trace outlives its context")
    other = syntorch.Context(tp=4, ranks=[0, 3])
    check(other.trace().ranks == [0, 3] and other.trace().world_size == 4, "two of four ranks")
    z = other.input("z", (4, 4))
    for pattern, function, arguments in (
            ("another context", other.gelu, (x,)), ("must be a Tensor", other.gelu, (3,)),
            ("must be a Tensor", other.linear, (z, None)), ("group must be", other.all_reduce,
                                                            (z, "nonsense")),
            ("no group 'dp'", other.all_reduce, (z, "dp")),
            ("entries, but the group has 4", lambda: other.all_to_all(z, 4, "tp", to=[1]), ()),
            ("must be one of", other.cast, (z, "f8")), ("no member", other.route, (z, {"x": 1})),
            ("NUL", other.input, ("a\0b", (1,))), ("more than 64 bits", other.slice,
                                                   (z, 0, 2 ** 70, 1)),
            ("7 dimensions", other.input, ("a", (1,) * 7))):
        refuses(syntorch.InvalidError, pattern, function, *arguments)
    for pattern, options in (("device must be", dict(device="tpu")), ("at least 1", dict(tp=0)),
                             ("ranks must be", dict(tp=2, ranks=[2])),
                             ("omit `ranks`", dict(device="cpu", tp=2, ranks=[0]))):
        refuses(syntorch.InvalidError, pattern, syntorch.Context, **options)


# ---- Mistakes, threads and interrupts ----

def mistakes():
    t = syntorch.trace("gpt2", layers=1)
    missing = os.path.join(folder, "none.et")
    for kind, pattern, function, arguments, options in (
            (ValueError, "unknown model 'nope'", syntorch.trace, ("nope",), {}),
            (ValueError, "did you mean micro_batch", syntorch.trace, ("gpt2",), {"micro_bach": 2}),
            (ValueError, "tp 5 does not divide", syntorch.trace, ("gpt2",), {"tp": 5}),
            (ValueError, "no option 'out'", syntorch.trace, ("gpt2",), {"out": "x"}),
            (ValueError, "model must be", syntorch.trace, (3,), {}),
            (OSError, "did you mean h100", syntorch.trace, ("gpt2",), {"hw": "h9000"}),
            (OSError, "none.et", syntorch.load, (missing,), {}),
            (ValueError, "no rank 7", t.ops, (7,), {}),
            (ValueError, "unknown format", t.save, ("x.et",), {"format": "nope"}),
            (OSError, "folder/that", t.save, ("folder/that/x.et",), {"as_set": True}),
            (ValueError, "title must be", t.svg, (), {"title": 3}),
            (ValueError, "tp needs a value", syntorch.trace, ("gpt2",), {"tp": True}),
            (ValueError, "SVG", t.svg().save, ("x.png",), {}),
            (ValueError, "rank must be", t.ops, ("a",), {}),
            (OSError, "folder/that", t.save, (os.path.join("folder/that", "x.svg"),), {}),
            (ValueError, "no file is given", syntorch.simulate, ([],), {}),
            (syntorch.Error, "none", syntorch.simulate, (missing,), {}),
            (ValueError, "convert needs", syntorch.convert, (), {}),
            (syntorch.Error, "unknown command", syntorch.run, ("nope",), {}),
            (ValueError, "table", t.arrays, (), {"table": "x"})):
        refuses(kind, pattern, function, *arguments, **options)
    with open("damaged.et", "wb") as file:
        file.write(b"\x05\xff\xff\xff")
    refuses(ValueError, "damaged.et", syntorch.load, "damaged.et")


def threads():
    """Calls from several threads give the results of calls one after another."""
    def run(i):
        t = syntorch.trace("gpt2", layers=1 + i % 3, tp=1 + i % 2, hw="h100")
        return len(t.ops()), t.predicted_ns, len(t.svg())
    want = [run(i) for i in range(6)]
    got = [None] * 6

    def work(i):
        got[i] = run(i)
    running = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    check(got == want, f"threads: {got} instead of {want}")


def interrupts():
    """Ctrl-C ends the wait for a trace that takes many seconds, and for a program."""
    loop = ("s = syntorch.Context(device='cpu', tp=2); x = s.param('x', (512, 512))\n"
            "    while True: y = s.matmul(x, x)")
    for code in ("syntorch.trace('gpt3-175b', phase='generate', tp=8, pp=8, num_output_tokens=900)",
                 "syntorch.pretrain(max_steps=100000)", loop):
        lines = ("import os, syntorch", "print('ready', flush=True)", "try:", f"    {code}",
                 "except KeyboardInterrupt:",
                 "    if 's' in globals(): s.gelu(x)",  # the context works on
                 "    print('interrupted', flush=True)", "    os._exit(0)")
        child = subprocess.Popen(
            [sys.executable, "-c", "\n".join(lines)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder,
            env={**os.environ, "PYTHONPATH": PACKAGE})
        child.stdout.readline()
        threading.Event().wait(0.3)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        check(out == "interrupted\n", f"Ctrl-C: {out!r}")


def interrupted_rounds():
    """A call of which Ctrl-C interrupts the submission, after some ranks or the wait, is completed
    by the next call, and each rank runs it once."""
    from syntorch.contexts import _Ranks

    class Interrupted:
        def __init__(self, queue):
            self.queue = queue

        def put(self, item):
            ranks._queues[1] = self.queue
            raise KeyboardInterrupt

    ranks, calls, meet = _Ranks(2), [], threading.Barrier(2)

    def job(i):
        meet.wait()  # as in a collective
        calls.append(i)
        return i
    ranks._queues[1] = Interrupted(ranks._queues[1])
    try:
        ranks.run([lambda: job(0), lambda: job(1)])
    except KeyboardInterrupt:
        pass
    check(ranks.run([lambda: job(2), lambda: job(3)]) == [2, 3], "results of an interrupted call")
    check(sorted(calls) == [0, 1, 2, 3], f"calls of ranks: {calls}")
    ranks.finish()


def without_other_packages():
    """Without numpy and pandas, tables are Tables with the same columns."""
    code = ("import sys\nsys.modules['numpy'] = sys.modules['pandas'] = None\nimport syntorch\n"
            "t = syntorch.trace('gpt2', tp=2, layers=1, hw='h100')\n"
            "print(t.ops().head(3).rows()[1]['op'], t.ops().shape[0], t.collectives().columns[0])\n"
            "assert '<table>' in t.ops()._repr_html_() and 'all_reduce' in repr(t.ops())\n"
            "assert len(t.memory()) > 0\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": PACKAGE})
    want = f"all_reduce {len(syntorch.trace('gpt2', tp=2, layers=1))} rank\n"
    check(done.stdout == want, f"{done.stdout!r} instead of {want!r}: {done.stderr}")


for test in (same_as_synth, tables_equal_json, arrays_are_views, pictures, sets, models, programs,
             examples, contexts, mistakes, threads, interrupts,
             interrupted_rounds, without_other_packages):
    test()
finish()
