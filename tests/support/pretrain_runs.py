"""Runs the pretraining program in a temporary folder. Shared by test_pretrain*.py and other tests
of training."""
import array
import csv
import json
import os
import resource
import shutil
import signal
import struct
import subprocess

from checks import BUILD, check

PRETRAIN = os.path.join(BUILD, "pretrain")
MPIRUN = shutil.which("mpirun")
BERT = {"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "max_position_embeddings": 64, "intermediate_size": 64, "vocab_size": 125,
        "type_vocab_size": 2, "pad_token_id": 0, "hidden_act": "gelu"}
GPT = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64,
       "vocab_size": 512}
LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 512}


def squad(texts):
    """Returns a SQuAD file as text. texts: pairs of a question and a context."""
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [
        {"context": context, "qas": [{"id": str(i), "question": question, "answers": []}]}
        for i, (question, context) in enumerate(texts)]}]})


def sentences(n, word):
    return [(f"What is {word} number {i}?", f"The {word} {i} is {word} and {i * 7}. " * 3)
            for i in range(n)]


class Runs:
    """Runs pretrain in one folder, which also has the small configurations bert.json and
    gpt.json."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0
        for name, config in (("bert", BERT), ("gpt", GPT)):
            self.configure(name, config)

    def configure(self, name, config):
        """Writes the configuration of a model."""
        with open(self.path(f"{name}.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *arguments, launcher=(), file_bytes=None):
        """Runs the program. file_bytes: limit of the size of files, to simulate a full disk."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        return subprocess.run([*launcher, PRETRAIN, *arguments], capture_output=True, text=True,
                              timeout=500, check=False, cwd=self.folder,
                              preexec_fn=limit if file_bytes else None)

    def train(self, model, *arguments, launcher=()):
        """Trains a model in a folder of its own. Returns the rows of metrics.csv and the folder."""
        self.number += 1
        folder = self.path(f"run{self.number}")
        done = self.start("--model-config", f"{model}.json", "--max-seq-length", "64",
                          "--learning-rate", "3e-3", "--save-dir", folder, *arguments,
                          launcher=launcher)
        if not check(done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"):
            return [], folder
        return self.rows(folder), folder

    def rows(self, folder):
        """Returns the rows of metrics.csv."""
        with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as f:
            return list(csv.DictReader(f))


def stage_bytes(said):
    """The peak memory of each stage, as --json prints it."""
    return [stage["memory"]["peak_bytes"] for stage in said["stages"]]


def losses(rows, key="loss"):
    return [float(row[key]) for row in rows if row[key]]


def close(got, want):
    return len(got) == len(want) > 0 and all(
        abs(a - b) <= (1e-5 if i < 5 else 1e-4) * b for i, (a, b) in enumerate(zip(got, want)))


def tensors(folder):
    """Returns the f32 tensors of a model by name."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: array.array("f", data[8 + size + x["data_offsets"][0]:
                                        8 + size + x["data_offsets"][1]])
            for name, x in header.items()}


def same_model(got, want):
    """Whether all parameters agree within 1e-4 of the largest of their tensor. The bias of keys has
    no effect, so that its gradient is rounding error alone, which Adam scales up."""
    a, b = tensors(got), tensors(want)
    if list(a) != list(b):
        return False
    for name in a:
        most = max(map(abs, b[name]))
        if any(abs(x - y) > 1e-4 * most for x, y in zip(a[name], b[name])) and \
                not name.endswith(("key.bias", "k_proj.bias", "c_attn.bias")):
            return False
    return True


DEEP = {"gpt4": {**GPT, "n_layer": 4}, "bert4": {**BERT, "num_hidden_layers": 4},
        "llama4": {**LLAMA, "num_hidden_layers": 4, "tie_word_embeddings": True},
        # with tensor parallelism, two ranks share the key/value head; norms of queries and keys
        "qwen4": {**LLAMA, "model_type": "qwen3", "num_hidden_layers": 4, "num_key_value_heads": 1,
                  "head_dim": 8}}
# So many layers that with a learning rate of 1000 the gradients of the second step overflow on
# every processor: the gradients grow from layer to layer.
OVERFLOWING = {"gpt16": {**GPT, "n_layer": 16}, "bert16": {**BERT, "num_hidden_layers": 16}}
DEEP_STEPS = ["--batch-size", "2", "--max-steps", "5", "--learning-rate", "5e-4"]
RESUMED_STEPS = ["--skip-eval", "--save-steps", "2", "--batch-size", "2"]


def as_one_rank(runs, layouts):
    """Trains models of 4 layers with each layout, which must have four microbatches of two samples
    per step. Losses, validation losses and parameters must be those of one rank. layouts: per model
    of DEEP a list of (options, launcher)."""
    for name, each in layouts.items():
        runs.configure(name, DEEP[name])
        alone, one = runs.train(name, *DEEP_STEPS, "--gradient-accumulation-steps", "4")
        for layout, how in each:
            what = f"{name} {how} {layout}"
            rows, folder = runs.train(name, *DEEP_STEPS, *layout.split(), launcher=how)
            check(close(losses(rows), losses(alone)), f"{what}: {rows}")
            check(close(losses(rows, "eval_loss"), losses(alone, "eval_loss")),
                  f"{what}: validation: {rows}")
            check(same_model(os.path.join(folder, "best_model"), os.path.join(one, "best_model")),
                  f"{what}: parameters")


def resumed_as(runs, folder, whole, layout, exactly):
    """Resumes a copy of a run of two steps up to step 4. It must have the losses of `whole`, the
    rows of a run that was not interrupted; exactly: bit for bit."""
    copy = f"{folder}_copy"
    shutil.copytree(folder, copy)
    done = runs.start("--model-config", "gpt4.json", "--max-seq-length", "64", "--learning-rate",
                      "3e-3", *RESUMED_STEPS, "--max-steps", "4", "--resume", *layout.split(),
                      "--save-dir", copy)
    check(done.returncode == 0, f"{folder} -> {layout}: {done.stderr}")
    got, want = losses(runs.rows(copy)), losses(whole)
    check(got == want if exactly else close(got, want), f"{folder} -> {layout}: {got}, not {want}")
    shutil.rmtree(copy)


def launcher(n):
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False)
    open_mpi = "Open MPI" in version.stdout
    return [MPIRUN, *(["--allow-run-as-root", "--oversubscribe"] if open_mpi else []), "-n", n]
