"""Tests `syntorch export --hw`, which predicts a recorded run for another machine. The reference is
a run with --device meta and the same --hw: the exported file must equal the file of that run byte
by byte, and the printed summaries must be the same."""
import collections
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, enter_folder, finish  # noqa: E402

MACHINE = os.path.join(SOURCE, "examples", "configs", "hw_a100.json")
enter_folder()
os.symlink(os.path.join(SOURCE, "examples"), "examples")


def start(name, *args):
    # An empty PATH hides graphviz, which takes long to draw. pretrain works without it.
    env = dict(os.environ, PATH="") if name == "pretrain" else None
    return subprocess.run([os.path.join(BUILD, name), *args], check=False, capture_output=True,
                          text=True, timeout=600, env=env)


def output(name, *args):
    done = start(name, *args)
    check(done.returncode == 0, f"{name} {args}: {done.stderr}")
    return done.stdout


def export(graph, machine, target="out.json", *more):
    return output("syntorch", "export", "--input", graph, "--hw", machine, "--output", target,
                  *more)


def same(path, other, what):
    with open(path, "rb") as a, open(other, "rb") as b:
        check(a.read() == b.read(), f"{what}: not as recorded on meta")


def lines(text, *starts):
    return [line for line in text.split("\n") if line.startswith(starts)]


def inference():
    """export prints every line about predictions that inference prints, with the same figures."""
    few = ("--num_output_tokens", "3")
    for args in (("--tp", "2", "--attention", "fused", *few),
                 ("--attention", "unfused", "--dtype", "bf16", "--batch_size", "3", *few),
                 ("--model_config", "examples/configs/llama-tiny.json", "--tp", "2", *few),
                 ("--model_config", "examples/configs/bert-tiny.json", "--tp", "2")):
        said = output("inference", "--device", "meta", "--hw", "h100", "--visualize_trace",
                      "--out_dir", "meta", *args)
        output("inference", "--visualize_trace", "--out_dir", "cpu", *args)
        told = export("cpu/tensor_trace_graph.json", "h100")
        same("out.json", "meta/tensor_trace_graph.json", args)
        dtype = "bf16" if "bf16" in args else "f32"
        check(lines(told, "times are") == [f"times are predictions for h100+serving in {dtype}"],
              told)
        check(said.splitlines()[0].endswith(f" attention, {dtype}"), said)
        starts = ("predicted decode", "limits of", "limits: ", "prediction error")
        said = [re.sub(r": +\d+ tokens in", ":  ", line) for line in lines(said, *starts)]
        told = lines(told, *starts)
        check([re.sub(" +", " ", line) for line in said if "error" not in line] ==
              [re.sub(" +", " ", line) for line in told if "error" not in line],
              f"{args}: {said}, not {told}")
        check(len(told) >= 2 and "h100+serving" in told[-1], f"{args}: {told}")


def training():
    options = ["--model-config", "examples/configs/gpt3-tiny.json", "--max-seq-length", "32",
               "--max-steps", "3", "--skip-eval", "--num-gpus", "4", "--tp", "2", "--dtype", "bf16",
               "--activation-recompute", "full", "--gradient-accumulation-steps", "2",
               "--enable-tracing", "--trace-active-steps", "2", "--visualize-trace"]
    said = output("pretrain", *options, "--device", "meta", "--hw", "a100-80g",
                  "--out-dir", "meta")
    output("pretrain", *options, "--out-dir", "cpu")
    told = export("cpu/trace_graph.json", "a100-80g")
    same("out.json", "meta/trace_graph.json", "training")
    said = lines(said, "predicted step", "limits: ", "prediction error")
    check(len(said) == 3 and said[0].endswith(" on a100-80g+megatron"), said)
    check(told.split("\n")[1:4] == [said[0].replace(" in bf16 on a100-80g+megatron", ""), said[1],
                                    said[2]],
          f"{said}, not {told}")


def a_batch_costs_the_host_once():
    """With megatron, a batch costs the host 4.04 ms (a third of it in decode steps) once, however
    many embedding lookups it has: of tokens, of token types, of positions if prompts are padded,
    and of the positions of masks."""
    with open("ids", "w", encoding="utf-8") as f:
        f.write("1 2 3\n4 5 6 7 8\n")
    bert = ("--model_config", "examples/configs/bert-tiny.json")
    for name, more, lookups, batches in (
            ("inference", bert, 2, 1),
            ("inference", ("--prompt_ids", "ids", "--num_output_tokens", "3"), 6, 3),
            ("inference", ("--model_config", "examples/configs/llama-tiny.json", "--prompt_ids",
                           "ids", "--num_output_tokens", "3"), 3, 3),
            ("pretrain", (*bert, "--gradient-accumulation-steps", "2", "--max-seq-length", "32",
                          "--enable-tracing"), 4, 2)):
        output(name, "--device", "meta", "--hw", "a100-80g+megatron", "--visualize_trace",
               "--out_dir" if name == "inference" else "--out-dir", "lookups", *more)
        path = "lookups/tensor_trace_graph.json"
        path = path if name == "inference" else "lookups/trace_graph.json"
        with open(path, encoding="utf-8") as f:
            nodes = [n for n in json.load(f)["nodes"] if n.get("op") == "embedding"]
        paid = collections.Counter(n["step"] for n in nodes if n["predicted_ns"] > 1e6)
        check(len(nodes) == lookups and sum(paid.values()) == batches,
              f"{name} {more}: {len(nodes)} lookups, {paid} of them paid")
        export(path, "a100-80g+megatron")
        same("out.json", path, more)


def formats():
    """Files of all formats have the predicted times, here of a hardware file. If the output is
    standard output, the message on standard error names the machine."""
    output("inference", "--visualize_trace", "--out_dir", "run")
    output("inference", "--visualize_trace", "--out_dir", "wanted", "--device", "meta", "--hw",
           MACHINE)
    graph = "run/tensor_trace_graph.json"
    for name, target in (("timeline.json", "chrome"), ("tensor_trace_chakra.json", "chakra"),
                         ("trace.0.et", "et"), ("trace.html", "html"),
                         ("tensor_trace_graph.svg", "svg")):
        export(graph, MACHINE, "out." + target, "--format", target)
        if os.path.exists("wanted/" + name):  # pictures need graphviz
            same("out." + target, "wanted/" + name, target)
    done = start("syntorch", "export", "--input", graph, "--hw", "b200", "--output", "-",
                 "--format", "json")
    check(done.stdout.startswith("{") and "for b200+serving in f32" in done.stderr,
          f"standard output: {done.stderr}")
    export(graph, "b200", "two.html", "--compare", "wanted/tensor_trace_graph.json")


def refused():
    for source, machine, words in (
            ("run/trace.0.et", "h100", "predictions need a trace with tensor shapes"),
            ("run/tensor_trace_graph.json", "h1000", "did you mean h100? The hardware presets"),
            ("run/tensor_trace_graph.json", "cpu+serving", "cpu")):
        done = start("syntorch", "export", "--input", source, "--hw", machine, "--output",
                     "no.json")
        check(done.returncode != 0 and words in done.stderr and not os.path.exists("no.json"),
              f"{source}, {machine}: {done.stderr}")


inference()
training()
a_batch_costs_the_host_once()
formats()
refused()
finish()
