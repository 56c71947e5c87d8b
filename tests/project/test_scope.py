"""Tries each row of README.md's table "What works". Also checks that the glossary is sorted and has
the terms that traces use, and that docs/README.md lists all pages."""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish  # noqa: E402

META = ["--device", "meta"]
GPT = ["inference", *META, "--model", "gpt2", "--num_input_tokens", "8", "--num_output_tokens", "2"]
TRAIN = ["pretrain", *META, "--model", "gpt2", "--max-steps", "3", "--batch-size", "2",
         "--max-seq-length", "32", "--enable-tracing"]
MODELS = ["gpt2", "gpt3-125m", "llama-2-7b", "llama-3-8b", "mistral-7b", "qwen2.5-0.5b",
          "pythia-160m", "gpt-neox-20b"]
DENSE = ["opt-1.3b", "starcoder2-3b", "phi-3-mini-4k", "olmo-2-1b", "granite-3.3-2b", "smollm3-3b",
         "gemma-2-2b", "gemma-3-1b"]


def examples(name):
    return os.path.join(SOURCE, "examples", name)


# Row of the table: commands to run, each with words of the expected error; None: it must succeed.
ROWS = {
    "GPT-2, GPT-3, GPT-NeoX, Llama 2 and 3, Mistral, Qwen2, Qwen3: prefill, decode, training":
        [([*GPT, "--model", m], None) for m in MODELS] +
        [([*TRAIN, "--model", m], None) for m in ("gpt2", "qwen2.5-0.5b", "pythia-160m")],
    "BERT, DistilBERT, RoBERTa: masked words, embeddings, training": [
        (["inference", "--weights", examples("tiny-bert"), "--prompt", "Paris is [MASK]."], None),
        (["inference", "--weights", examples("tiny-bert"), "--prompt", "Paris", "--embeddings",
          "vectors.npy"], None),
        ([*TRAIN, "--model", "bert-base-uncased"], None),
        ([*TRAIN, "--model", "distilbert-base-cased"], None),
        ([*TRAIN, "--model", "roberta-base"], None)],
    "OPT, StarCoder2, Phi-3, OLMo 2, Granite, SmolLM3, Gemma 2, 3: prefill, decode, training":
        [([*GPT, "--model", m, "--tp", "2"], None) for m in DENSE] +
        [([*TRAIN, "--model", m, "--num-gpus", "2", "--tp", "2"], None) for m in DENSE],
    "weights and tokenizers from HuggingFace; saving weights for HuggingFace": [
        (["inference", "--weights", examples("tiny-gpt2"), "--prompt", "The", "--save_weights",
          "saved"], None)],
    "tensor parallelism, data parallelism with ZeRO, and both combined": [
        ([*GPT, "--tp", "2"], None), ([*TRAIN, "--num-gpus", "2"], None),
        ([*TRAIN, "--num-gpus", "4", "--tp", "2"], None),
        ([*TRAIN, "--num-gpus", "4", "--tp", "2", "--zero", "1"], None),
        ([*TRAIN, "--num-gpus", "2", "--zero", "2"], None),
        ([*TRAIN, "--num-gpus", "2", "--zero", "3"], None)],
    "pipeline parallelism, sequence parallelism": [
        ([*GPT, "--tp", "2", "--sp"], None),
        ([*GPT, "--tp", "2", "--pp", "2"], None),
        ([*TRAIN, "--num-gpus", "2", "--tp", "2", "--sp"], None),
        ([*TRAIN, "--num-gpus", "2", "--pp", "2"], None),
        ([*TRAIN, "--num-gpus", "4", "--pp", "2", "--tp", "2", "--schedule", "interleaved",
          "--vp", "2", "--gradient-accumulation-steps", "2"], None)],
    "context parallelism in training: ring, all-gathers, all-to-alls of heads": [
        ([*TRAIN, "--model", "qwen2.5-0.5b", "--num-gpus", "2", "--cp", "2", "--cp-comm", how],
         None) for how in ("p2p", "all_gather", "a2a")],
    "experts (Mixtral, Qwen-MoE, DeepSeek, Kimi K2, gpt-oss); expert parallelism": [
        ([*GPT, "--model", "qwen3-30b-a3b", "--tp", "2"], None),
        ([*GPT, "--model", "kimi-k2", "--tp", "2"], None),
        ([*GPT, "--model", "gpt-oss-120b", "--tp", "2"], None),
        ([*TRAIN, "--model", "mixtral-8x7b", "--num-gpus", "2", "--ep", "2"], None),
        ([*GPT, "--model", "qwen3-30b-a3b", "--tp", "2", "--ep", "2"], None),
        ([*GPT, "--model", "kimi-k2", "--dp", "2", "--ep", "2", "--batch_size", "2"], None)],
    "ranks as threads, over MPI, or on `meta`": [
        ([*GPT, "--tp", "4"], None),
        (["inference", "--tp", "2", "--num_output_tokens", "1"], None)],
    "f32, bf16, f16; 16-bit weights with f32 arithmetic": [
        ([*GPT, "--dtype", d], None) for d in ("f32", "bf16", "f16")] +
        [([*GPT, "--weight_dtype", "bf16"], None)],
    "training in f16": [([*TRAIN, "--dtype", "f16"], "--dtype must be f32 or bf16")],
    "NVIDIA GPUs": [],  # tested by the tests with label cuda
    "times: measured, or predicted from a hardware file": [
        ([*GPT, "--hw", "a100-80g"], None), ([*GPT, "--hw", "no-such-machine"], "no-such-machine")],
    "servers: batches over time, latencies, layouts": [
        (["syntorch", "serve", "--model", "llama-3-8b", "--requests", "fixed:100:10",
          "--num-requests", "20", *how], None)
        for how in (["--out", "served"], ["--sweep", "tp=1,2"])],
    "simulation of networks: topologies, congestion": [],
    "conversion of PyTorch traces to execution traces": [
        (["syntorch", "convert", "pytorch", "--host", examples("pytorch/host.0.json"), "--device",
          examples("pytorch/device.0.json"), "--output", "trace.0.et"], None)],
}


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


def try_rows():
    table = read("README.md").split("| what | state |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()]
    seen = set()
    for what, state in rows:
        what = re.sub(r" \(.*\)$", "", what)
        if not check(what in ROWS, f"nobody tries the row '{what}'"):
            continue
        seen.add(what)
        refused = [sentence for _, sentence in ROWS[what] if sentence]
        check(state != "works" or len(refused) < len(ROWS[what]), f"'{what}': nothing succeeds")
        check(state != "not yet" or len(refused) == len(ROWS[what]) > 0, f"'{what}' works")
        for command, sentence in ROWS[what]:
            done = subprocess.run([os.path.join(BUILD, command[0]), *command[1:]], check=False,
                                  capture_output=True, text=True, timeout=300)
            fits = done.returncode != 0 and sentence in done.stderr if sentence \
                else done.returncode == 0
            check(fits, f"'{what}': {' '.join(command)}: {done.returncode} {done.stderr}")
    check(seen == set(ROWS), f"rows that README.md lacks: {set(ROWS) - seen}")
    print(len(seen), "rows tried")


def look_up():
    text = read("docs", "glossary.md")
    entries = re.findall(r"^\*\*([^*]+)\*\*(?: \([^)]*\))?: ", text, re.M)
    words = {w.lower() for w in re.findall(r"\*\*([^*]+)\*\*", text)}
    check(entries == sorted(entries, key=str.lower), "the glossary is not in order")
    check(len(set(entries)) == len(entries) > 50, "the glossary has a word twice")
    types = read("syntorch", "base", "types.h")
    phases = re.findall(r'"(\w+)"', types.split("SYN_PHASE_LIST(X)")[1].split("typedef")[0])
    made = ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "barrier", "send, recv"]
    for word in phases + made:
        check(word in words, f"the glossary lacks '{word}'")


def list_pages():
    listed = set(re.findall(r"\]\(([\w/.-]+\.md)\)", read("docs", "README.md")))
    pages = {os.path.relpath(os.path.join(at, name), os.path.join(SOURCE, "docs"))
             for at, _, names in os.walk(os.path.join(SOURCE, "docs")) for name in names
             if name.endswith(".md")} - {"README.md"}
    check(listed - {"../examples/README.md"} == pages, f"docs/README.md: {listed ^ pages}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    try_rows()
    os.chdir(SOURCE)
look_up()
list_pages()
finish()
