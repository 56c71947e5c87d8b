"""Tests Llama, Mistral, Qwen and GPT-NeoX in the pretraining program. Training starts from folders
that transformers saved, and its losses match PyTorch (tests/reference/pretraining_saved.json, which
`reference/make_pretraining_fixture.py saved` writes). Also tests configurations without a
tokenizer, and training that starts from a saved model."""
import json
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish, run  # noqa: E402
from pretrain_runs import MPIRUN, Runs, close, launcher, losses  # noqa: E402
from pretraining_cases import cases, differences, run_case, what  # noqa: E402

TINY = ("llama", "mistral", "qwen2", "qwen3", "neox", "gpt3")


def as_pytorch(runs):
    """Losses match PyTorch on one rank and on two data-parallel ranks, and with the same samples on
    two and on four tensor-parallel ranks. On four ranks, each key/value head is on two of them."""
    for i, case in enumerate(cases("pretraining_saved.json")):
        ranks = case["options"]["num-gpus"]
        for tp in (1, 2, 4) if ranks == 1 else (1, 2):
            options = case["options"] | {"num-gpus": ranks * tp, "tp": tp}
            name = f"{what(options)}, tp {tp}"
            got, errors = run_case(options, runs.path(f"as_pytorch{i}_{tp}"))
            if check(len(got) == len(case["losses"]), f"{name}: {len(got)} losses: {errors}"):
                off = max(differences(got, case["losses"]))
                check(off < 5e-6, f"{name}: off by {off}: {got}, not {case['losses']}")
                print(f"{name}: off by {off:.1e}")


def saved_models(runs):
    """Saved models are complete folders from which training can start. Their generation_config.json
    is that of the model with which training began."""
    for name in ("llama2", "mistral", "qwen3"):
        saved, source = runs.path(f"saved_{name}"), runs.path(f"source_{name}")
        shutil.copytree(os.path.join(SOURCE, "tests", "reference", f"saved_{name}"), source)
        said = {"eos_token_id": [2, 3], "do_sample": True, "top_k": 20, "max_new_tokens": 99}
        with open(os.path.join(source, "generation_config.json"), "w", encoding="utf-8") as f:
            json.dump(said, f)
        done = runs.start("--weights", source,
                          "--max-seq-length", "32", "--max-steps", "2", "--num-gpus", "2", "--tp",
                          "2", "--save-dir", saved)
        check(done.returncode == 0, f"{name}: {done.stderr}")
        best = os.path.join(saved, "best_model")
        check({"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"} <
              set(os.listdir(best)), f"{name}: {os.listdir(best)}")
        with open(os.path.join(best, "generation_config.json"), encoding="utf-8") as f:
            got = json.load(f)
            check(got == said, f"{name}: {got}")
        done = runs.start("--weights", best, "--max-seq-length", "32", "--max-steps", "1",
                          "--save-dir", runs.path(f"again_{name}"))
        check(done.returncode == 0, f"{name} again: {done.stderr}")


def tiny_configurations(runs):
    """Configurations without a tokenizer use bytes as tokens, because their vocabularies are
    smaller than that of the small tokenizer. Losses are the same on all ranks and over MPI, and
    traces have the same ops on meta."""
    for name in TINY:
        config = os.path.join(SOURCE, "examples", "configs", f"{name}-tiny.json")
        how = ["--model-config", config, "--max-seq-length", "48", "--max-steps", "3",
               "--skip-eval", "--dropout", "0", "--learning-rate", "1e-3"]
        ways = [(["--batch-size", "8"], ()),
                (["--batch-size", "4", "--num-gpus", "4", "--tp", "2"], ()),
                (["--batch-size", "8", "--tokenizer", "bytes"], ())]
        if MPIRUN and b"this build has no MPI" not in run("--version").stderr:
            ways.append((["--batch-size", "8", "--num-gpus", "2", "--tp", "2"], launcher("2")))
        first = None
        for i, (more, start) in enumerate(ways):
            folder = runs.path(f"{name}{i}")
            done = runs.start(*how, *more, "--save-dir", folder, launcher=start)
            if not check(done.returncode == 0, f"{name} {more}: {done.stderr}"):
                continue
            got = losses(runs.rows(folder))
            first = first or got
            check(close(got, first), f"{name} {more}: {got}, not {first}")
        traces = []
        for device in ("cpu", "meta"):
            out = runs.path(f"{name}_{device}")
            done = runs.start(*how, "--num-gpus", "2", "--tp", "2", "--device", device,
                              "--enable-tracing", "--out-dir", out, "--save-dir", out)
            check(done.returncode == 0, f"{name} on {device}: {done.stderr}")
            valid = run("validate", *(os.path.join(out, f"trace.{r}.et") for r in (0, 1)))
            check(valid.returncode == 0, f"{name} on {device}: {valid.stdout}{valid.stderr}")
            traces.append(run("stat", "--json", os.path.join(out, "trace.0.et")).stdout)
        check(traces[0] and counts(traces[0]) == counts(traces[1]), f"{name}: traces differ")


def counts(text):
    """Returns the number of calls of each op in a trace, which does not depend on the device."""
    return {op["name"]: op["count"] for op in json.loads(text)["ranks"][0]["ops"]}


def refused(runs):
    config = os.path.join(SOURCE, "examples", "configs", "llama-tiny.json")
    bert = os.path.join(SOURCE, "tests", "reference", "saved_bert")
    for arguments, says in (
            (["--model-config", config, "--tokenizer", bert], "is not for a llama"),
            (["--model-config", config, "--tokenizer",
              os.path.join(SOURCE, "tests", "reference", "saved_llama3")], "has only 256"),
            (["--weights", bert, "--tokenizer", "bytes"], "the vocabulary lacks [PAD]")):
        done = runs.start(*arguments, "--max-steps", "1", "--max-seq-length", "32")
        check(done.returncode == 1 and says in done.stderr, f"{arguments}: {done.stderr}")


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    for part in (as_pytorch, saved_models, tiny_configurations, refused):
        part(program)
finish()
