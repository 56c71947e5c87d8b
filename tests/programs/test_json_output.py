"""Runs every command with --json and compares the members of its objects with the tables in
docs/commands.md: every member must be in the table of its schema with its type, and every member
in a table must occur in a run. `test_json_output.py --print` prints the members that occur."""
from tool_runs import *  # noqa: F403
from pretrain_runs import sentences, squad
import pytorch_traces
import trace_sets

ROWS = os.path.join(SOURCE, "tests", "measured", "all_reduce_a100_8.csv")
META = ["--device", "meta", "--hw", "h100"]
GPT = ["--model", "gpt3-175b", "--layers", 2, "--max-seq-length", 64]
MIXTRAL = {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
           "vocab_size": 512, "num_local_experts": 4, "num_experts_per_tok": 2}
EXPERTS = ["synth", "--model-config", "mixtral.json", "--dp", 2, "--ep", 2, "--max-seq-length", 64,
           "--dry-run", "--out", "moe", "--routing", "zipf:1,1"]
EXPORT = ["export", "--input", "out/tensor_trace_graph.json"]
JOB = ["--host", "job_host.json", "--device", "job_device.json", "--output"]
# Command lines and their exit codes. Each runs in the folder with the files of those before it.
SERVE = ["serve", "--model", "llama-3-8b", "--layers", 1, "--hw", "h100+serving"]
RUNS = [
    (["inference", *META, "--tp", 2, "--compare", "h200"], 0),
    (["inference", "--prompt", "a", "--weights", "examples/tiny-gpt2", "--num_output_tokens", 1],
     0),
    (["inference", "--prompt", "a [MASK]", "--weights", "examples/tiny-bert"], 0),
    (["inference", *META, "--model", "bert-base-uncased", "--dtype", "f16"], 0),
    (["inference", *META[:2], "--model", "gpt3-13b", "--num_input_tokens", 128,
      "--num_output_tokens", 8, "--dtype", "f16"], 0),
    (["inference", *META, "--perplexity", "text.txt", "--weights", "examples/tiny-gpt2"], 0),
    (["inference", "--perplexity", "text.txt", "--weights", "examples/tiny-gpt2"], 0),
    (["inference", "--requests", "fixed:4:2", "--num_requests", 2, "--hw", "cpu", "--out_dir",
      "served"], 0),
    (["inference", "--sweep", "tp=1,2", "--num_output_tokens", 2, "--hw", "h100"], 0),
    (["pretrain", "--sweep", "tp=1,5", "--hw", "h100"], 0),
    (["pretrain", *META, "--model", "gpt2", "--num-gpus", 8, "--pp", 2, "--cp", 2, "--dropout", 0,
      "--compare", "h200"], 0),
    (["pretrain", "--max-steps", 2, "--max-seq-length", 16, "--batch-size", 1, "--eval-steps", 1,
      "--data", "few.squad", "--eval-data", "few.squad", "--enable-tracing", "--hw", "h100"], 0),
    (["pretrain", "--device", "meta", "--dtype", "bf16", "--enable-tracing", "--visualize-trace",
      "--trace-name", "meta", "--max-steps", 2], 0),
    (["synth", "--model", "bert-base-uncased", "--phase", "prefill", "--out", "gpt/bert"], 0),
    (["synth", *GPT, "--hw", "h100+megatron-core", "--fp8", "--out", "gpt/fp8", "--dry-run"], 0),
    (["synth", *GPT, "--tp", 2, "--pp", 2, "--hw", "a100-80g", "--out", "gpt/set"], 0),
    (["synth", *GPT[:4], "--tp", 2, "--phase", "prefill", "--hw", "a100-80g", "--out",
      "gpt/prefill"], 0),
    (["synth", *GPT[:4], "--tp", 2, "--phase", "generate", "--hw", "a100-80g", "--out",
      "gpt/generate", "--num-output-tokens", 2], 0),
    (EXPERTS, 0), ([*EXPERTS, "--capacity", 1], 0),
    (["synth", *GPT, "--dp", 4, "--ranks", "one-per-program", "--out", "gpt/few"], 0),
    (["stamp", "gpt/few", "--ranks", "0,2-3"], 0),
    (["calibrate", "--check", "--rows", ROWS, "--predictions", "rows.csv"], 0),
    (["calibrate", "--rows", ROWS, "--hw", "a100-80g+pytorch-eager", "--rounds", 1, "--output",
      "fitted.json"], 0),
    (["convert", "pytorch", *JOB, "recorded.0.et", "--replay-check"], 0),
    (["convert", "pytorch", "--device", "one.json", "--output", "sim.0.et", "--profile",
      "astra-sim"], 0),
    (["convert", "pytorch", "--linked", "cycle.json", "--output", "cycle.0.et"], 0),
    (["convert-all", "recorded"], 1),
    (["convert", "text", "--input", "examples/text_workload.txt", "--output", "text/w",
      "--num_npus", 1], 0),
    (["link", *JOB, "linked.json"], 0),
    (["repair", "--input", "broken.json", "--output", "repaired.json"], 0),
    (["stat", "out/trace"], 0), (["stat", "recorded.0.et"], 0), (["stat", "dead.1.et"], 0),
    (["validate", "out/trace"], 0), (["validate", "out/trace.0.et", "dead.0.et"], 1),
    (["simulate", "out/trace", "--critical-path", "path.csv", "--chart", "chart.svg"], 0),
    (["simulate", "out/trace.0.et"], 0), (["simulate", "dead"], 1),
    (["what-if", "out/trace", "--scale", "COLLECTIVES=0.5,nothing=2", "--fuse", "COMPUTE"], 0),
    (["what-if", "out/trace", "--hw", "h200"], 0),
    (["diff", "out/trace", "out/trace"], 0), (["diff", "out/trace", "dead"], 1),
    ([*SERVE[:5], "--hw", "rtxpro6000", "--requests", "fixed:40:4", "--num-requests", 3], 0),
    ([*SERVE, "--requests", "fixed:40:4", "--num-requests", 3, "--sweep", "tp=1,3", "--slo",
      "tpot=9ms", "--out", "swept"], 0),
    ([*SERVE, "--requests", "fixed:40:4", "--num-requests", 20, "--find-rate", "--slo", "ttft=1s"],
     0),
    ([*SERVE, "--requests", "measured.csv", "--out", "serve/one", "--timeline-steps", 3], 0),
    ([*SERVE, "--requests", "fixed:40:4", "--num-requests", 3, "--prefill", "tp=1", "--decode",
      "tp=1", "--num-speculative-tokens", 2], 0),
    (["weights", "examples/tiny-gpt2"], 0),
    (["tokenize", "--tokenizer", "bytes", "a", "b"], 0),
    (["tokenize", "--tokenizer", "bytes", "--decode", "65"], 0),
    ([*EXPORT, "--output", "graph.svg"], 0),
    ([*EXPORT, "--output", "run", "--format", "kineto", "--hw", "a100-80g"], 0),
    (["export", "--input", "outputs/meta_graph.json", "--output", "step.html", "--hw", "a100-80g"],
     0),
    (["export", "--input", "gpt/set.0.et", "--format", "simai", "--output", "simai.txt"], 0),
    (["expand", "out/trace", "--out", "messages/trace"], 0),
    (["json", "--input", "out/trace.0.et", "--output", "trace.json"], 0),
    (["astra-sim", "out/trace"], 0), (["doctor"], 0),
    (["view", "out/trace", "out/trace", "--out", "view.html"], 0),
]
PROGRAMS = ("inference", "pretrain", "synth", "calibrate")


def write_recordings(folder):
    """Writes a larger pair of PyTorch traces; the device trace of a job of one rank, whose
    collectives are not simulated; and a linked trace with a cycle."""
    pair = pytorch_traces.fixture()
    folder.write("job_host.json", json.dumps(pair.host))
    folder.write("job_device.json", json.dumps(pair.device))
    expect_ok(run(folder, "link", *JOB, "linked.json"))
    with open(folder / "linked.json", encoding="utf-8") as f:
        linked = json.load(f)
    for node in linked["nodes"]:
        node.update({"ts": 5} if "ts" in node else {})
    kernel = [n for n in linked["nodes"] if n.get("cat")][-1]
    [n for n in linked["nodes"] if "ts" in n][2]["sync_dep"] = [kernel["id"]]
    folder.write("cycle.json", json.dumps(linked))
    pair.device["distributedInfo"]["world_size"] = 1
    for event in pair.events:
        if "Group size" in event.get("args", {}):
            event["args"].update({"Group size": 1, "Process Group Ranks": "[0]"})
    folder.write("one.json", json.dumps(pair.device))


def prepare(folder):
    expect_ok(folder.run("--device", "meta", "--hw", "h100", "--tp", 2, "--visualize_trace",
                         "--quiet", "--num_output_tokens", 2, "--out_dir", "out"))
    os.mkdir(folder / "recorded")
    host_and_device(folder, "recorded/job")
    folder.write("recorded/bad_host.json", "{")
    with open(folder / "recorded/job_host.json", encoding="utf-8") as f:
        folder.write("broken.json", f.read()[:-2])
    folder.write("mixtral.json", json.dumps(MIXTRAL))
    folder.write("few.squad", squad(sentences(4, "river")))
    folder.write("measured.csv", "arrival_s,input_tokens,output_tokens,first_token_s,last_token_s\n"
                 "0,100,5,0.002,0.010\n")
    folder.write("text.txt", "The capital of France is Paris. " * 4)
    write_recordings(folder)
    trace_sets.write(folder / "dead", {0: [trace_sets.recv(7, 1, 0, 3, 64)],
                                       1: [trace_sets.comp(1, 5)]}, {})


def start(folder, command, **kwargs):
    words = [str(word) for word in command]
    program = words if words[0] in PROGRAMS else ["syntorch", *words]
    return subprocess.run([os.path.join(BUILD, program[0]), *program[1:], "--json"],
                          cwd=folder.path, env=ENV, capture_output=True, timeout=HANGS, **kwargs)


def type_of(value):
    return {str: "string", bool: "boolean", int: "integer", float: "number",
            type(None): "null"}[type(value)]


def members(value, path=()):
    """Yields the path and the type of each member that is not an object or a list; an empty list
    counts as a member of unknown type."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from members(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner, (*path[:-1], path[-1] + "[]"))
        if not value:
            yield (*path[:-1], path[-1] + "[]"), None
    else:
        yield path, type_of(value)


def documented():
    """Returns the rows of the tables in docs/commands.md as {schema: {path: (types, key)}}. A type
    that links to another table stands for the rows of that table. `key` identifies the row, so
    that a row of a table that several members share must occur only once."""
    tables, heading = {}, ""
    for line in open(os.path.join(SOURCE, "docs", "commands.md"), encoding="utf-8"):
        if line.startswith("#"):
            heading = line.lstrip("# ").rstrip()
        if line.startswith("| `"):
            path, types = (cell.strip() for cell in line.split("|")[1:3])
            tables.setdefault(heading, {})[tuple(path.strip("`").split("."))] = types
    common = tables.pop("JSON")
    return {schema: dict(rows(tables, table, heading)) | {
                ("schema",): (common["schema",].split(" or "), "schema")}
            for heading, table in tables.items()
            for schema in re.findall(r"`(syntorch\.[a-z-]+/\d+)`", heading)}


def rows(tables, table, heading):
    for path, types in table.items():
        shared = re.fullmatch(r"\[(.*)\]\(#.*\)", types)
        if not shared:
            yield path, (types.split(" or "), (heading, path))
            continue
        for inner, found in rows(tables, tables[shared[1]], shared[1]):
            yield path + inner, found


def row_of(table, path):
    """Returns the path of the row for a member: the same path, or one with angle brackets, which
    stand for any name."""
    if path in table:
        return path
    for row in table:
        if len(row) == len(path) and all(want == have or want[0] == "<"
                                         for want, have in zip(row, path)):
            return row
    return None


def objects(folder, command, code):
    done = start(folder, command)
    assert done.returncode == code, f"{command}: {done.returncode}: {text_of(done)[:2000]}"
    found = [json.loads(line) for line in done.stdout.splitlines()] \
        if command[0] == "tokenize" else [json.loads(done.stdout)]
    for one in found:
        assert list(one)[0] == "schema", f"{command}: {done.stdout[:200]}"
        for file in one.get("written", []):
            size = os.path.getsize(folder / file["path"])
            assert size == file["bytes"] > 0, f"{command}: {file}, but {size} bytes"
    return found


def observed():
    """Yields the schema of each object, and the path and the type of each member."""
    with Folder() as f:
        prepare(f)
        for command, code in RUNS:
            for one in objects(f, command, code):
                for path, kind in members(one):
                    yield one["schema"], path, kind


def print_members():
    seen = {}
    for schema, path, kind in observed():
        seen.setdefault((schema, ".".join(path)), set()).add(str(kind))
    for (schema, path), kinds in sorted(seen.items()):
        print(schema, path, " or ".join(sorted(kinds)))


def test_members_are_documented():
    tables, seen, wrong = documented(), set(), set()
    for schema, path, kind in observed():
        row = row_of(tables.get(schema, {}), path)
        if row is None and kind is not None:
            wrong.add(f"{schema} {'.'.join(path)} ({kind}) is not documented")
        if row is None:
            continue
        types, key = tables[schema][row]
        seen.add(key)
        if kind not in (None, *types) and (kind != "integer" or "number" not in types):
            wrong.add(f"{schema} {'.'.join(path)} is {kind}")
    wrong |= {f"{schema} {'.'.join(row)} occurs in no run" for schema, table in tables.items()
              for row, (_, key) in table.items() if key not in seen}
    assert not wrong, "\n" + "\n".join(sorted(wrong))


def test_an_inference_lists_the_files_that_it_wrote():
    with Folder() as f:
        os.mkdir(f / "model")
        f.write("model/own.txt", "not written")
        one, = objects(f, ["inference", "--weights", "examples/tiny-gpt2", "--tp", 2,
                           "--num_output_tokens", 1, "--save_weights", "model", "--save_logits",
                           "last.npy", "--visualize_trace", "--out_dir", "run"], 0)
        listed = sorted([file["path"] for file in one["written"]] + ["model/own.txt"])
        found = [path for path in f.files() if not os.path.basename(path).startswith(".")]
        assert listed == found and len(listed) > 8, (listed, found)
        one, = objects(f, ["inference", "--weights", "examples/tiny-gpt2", "--prompt", "a",
                           "--embeddings", "states.npy"], 0)
        assert [file["path"] for file in one["written"]] == ["states.npy"], one["written"]


if sys.argv[1:] == ["--print"]:
    print_members()
else:
    main(globals())
