"""Pipelines in the inference program: the tokens and logits of one rank, on threads and over MPI;
the same trace on meta; predicted times equal to a replay of all ranks; and refusals."""
import array
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish  # noqa: E402

MODELS = ["examples/tiny-gpt2", "tests/reference/tiny_gpt2_bf16", "tests/reference/tiny_llama",
          "tests/reference/tiny_qwen3", "tests/reference/tiny_neox"]
LAYOUTS = [["--pp", "2"], ["--pp", "2", "--tp", "2", "--sp"]]
MPIRUN = shutil.which("mpirun")


def infer(folder, *options, ranks=0):
    launcher = [MPIRUN, "--oversubscribe", "-n", str(ranks)] if ranks else []
    return subprocess.run([*launcher, os.path.join(BUILD, "inference"), *options],
                          capture_output=True, text=True, check=False, cwd=folder, timeout=300)


def result(folder, *options, ranks=0):
    done = infer(folder, *options, "--json", ranks=ranks)
    check(done.returncode == 0, f"{options}: {done.stderr}")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def floats(path):
    """Returns the f32 numbers of a .npy file."""
    with open(path, "rb") as f:
        data = f.read()
    return array.array("f", data[10 + data[8] + 256 * data[9]:])


def same_as_one_rank(folder):
    """Three prompts of different length, with sampling and a repetition penalty."""
    with open(os.path.join(folder, "ids.txt"), "w", encoding="utf-8") as f:
        f.write("1 2 3 4 5 6\n7 8\n9 10 11 12\n")
    got_path, want_path = (os.path.join(folder, f"{name}.npy") for name in ("got", "want"))
    for model in MODELS:
        common = ["--weights", os.path.join(SOURCE, model), "--prompt_ids", "ids.txt",
                  "--num_output_tokens", "7", "--temperature", "0.8", "--repetition_penalty",
                  "1.2", "--dtype", "f32", "--weight_dtype", "f32"]
        want = result(folder, *common, "--save_logits", want_path)
        runs = [(layout, 0) for layout in LAYOUTS]
        if MPIRUN and model == MODELS[0]:
            runs.append((LAYOUTS[0], 2))
        for layout, ranks in runs:
            what = f"{model} {layout} {ranks}"
            got = result(folder, *common, *layout, "--save_logits", got_path, ranks=ranks)
            check(got.get("tokens") == want["tokens"], f"{what}: {got.get('tokens')}")
            a, b = floats(got_path), floats(want_path)
            check(len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) <=
                  1e-6 * max(map(abs, b)), f"{what}: logits")
        executed = result(folder, *common, *LAYOUTS[1])
        meta = result(folder, *common, *LAYOUTS[1], "--device", "meta")
        check(executed["trace_hash"] == meta["trace_hash"] and executed["ranks"] == 4,
              f"{model}: the trace on meta differs")


def saved_by_stages(folder):
    """A model that stages save together equals one that one rank saves, byte for byte."""
    for name, layout in (("one", []), ("stages", ["--pp", "2", "--layers_per_stage", "2,0"])):
        result(folder, "--weights", os.path.join(SOURCE, MODELS[2]), "--prompt_ids", "ids.txt",
               "--num_output_tokens", "1", "--save_weights", name, *layout)
    data = []
    for name in ("one", "stages"):
        with open(os.path.join(folder, name, "model.safetensors"), "rb") as f:
            data.append(f.read())
    check(data[0] == data[1] and len(data[0]) > 1000, "the saved models differ")


def predicted(folder):
    """The predicted time is the end of the timeline, in which the recorded ranks wait for each
    other. Only the ranks of one pipeline are added up."""
    got = result(folder, "--device", "meta", "--model", "gpt2", "--tp", "2", "--pp", "3",
                 "--num_input_tokens", "40", "--num_output_tokens", "4", "--visualize_trace",
                 "--out_dir", "traced", "--attention", "fused")
    with open(os.path.join(folder, "traced", "timeline.json"), encoding="utf-8") as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    ends = max(e["ts"] + e["dur"] for e in events) * 1000
    sums = got["predicted_prefill_ns"] + got["predicted_decode_ns"]
    check(abs(sums / ends - 1) < 1e-6, f"{sums} ns in total, but the timeline ends at {ends} ns")
    check(abs(got["prefill_limits"]["bubble"] - 2 / 3) < 1e-9, got["prefill_limits"])
    whole = result(folder, "--device", "meta", "--model", "gpt2", "--tp", "2",
                   "--num_input_tokens", "40", "--num_output_tokens", "4")
    sent = next(op["predicted_ns"] for op in got["ops"] if op["op"] == "recv")
    flops = [sum(op["flops"] for op in x["ops"]) for x in (got, whole)]
    check(flops[0] == flops[1], f"flops: {flops}")
    check(0 < sent < sums - whole["predicted_prefill_ns"] - whole["predicted_decode_ns"] < 2 * sent,
          "messages and broadcasts must be all that a pipeline adds")
    done = infer(folder, "--model", "gpt2", "--num_input_tokens", "8", "--num_output_tokens", "2",
                 "--sweep", "tp=1,2", "pp=1,5", "--json")
    check(done.returncode == 0, done.stderr)
    sweep = json.loads(done.stdout)
    text = json.dumps(sweep)
    check("cannot be divided evenly into 5 stages" in text, text[:2000])


REFUSED = [
    (["--pp", "2", "--perplexity", "ids.txt"], 2, "--pp generates text in stages"),
    (["--pp", "2", "--embeddings", "e.npy"], 2, "--pp generates text in stages"),
    (["--pp", "2", "--weights", os.path.join(SOURCE, "examples", "tiny-bert")], 2,
     "--pp generates text in stages"),
    (["--pp", "3"], 1, "the 2 layers of gpt3-tiny cannot be divided evenly into 3 stages"),
    (["--pp", "2", "--layers_per_stage", "1,2"], 1, "has 3 layers in total, but gpt3-tiny has 2"),
    (["--layers_per_stage", "1,1"], 2, "--layers_per_stage has no effect without --pp"),
    (["--sp"], 2, "--sp has no effect without --tp"),
    (["--zero", "1"], 1, "zero 1 needs at least 2 data-parallel ranks (dp)"),
]


def refused(folder):
    for options, code, words in REFUSED:
        done = infer(folder, *options)
        check(done.returncode == code and done.stderr.count("\n") == 1 and words in done.stderr,
              f"{options}: exit {done.returncode}: {done.stderr}")
    if not MPIRUN:
        return
    for options, words in ((["--pp", "2", "--tp", "2"], "but --tp x --pp is 4"),
                           (["--pp", "2", "--hw", "h100"], "predict a pipeline without MPI")):
        done = infer(folder, *options, ranks=2)
        check(done.returncode != 0 and words in done.stderr, f"{options}: {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        same_as_one_rank(folder)
        saved_by_stages(folder)
        predicted(folder)
        refused(folder)
    finish()


main()
