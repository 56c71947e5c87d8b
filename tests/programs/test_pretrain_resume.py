"""Tests --resume of the pretraining program with damaged checkpoints, with options that differ from
those of the checkpoint, and with checkpoints of earlier versions."""
import json
import os
import re
import shutil
import sys
import tempfile
from random import Random

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import SOURCE, check, finish  # noqa: E402
from pretrain_runs import GPT, LLAMA, Runs, sentences, squad  # noqa: E402


def damaged_checkpoints(runs):
    """A checkpoint of another model, truncated files, and a changed state are refused with a
    sentence. A changed state is accepted if the change has no effect."""
    folder = runs.path("damaged")
    options = ["--model-config", "small.json", "--max-seq-length", "8", "--save-steps", "2",
               "--skip-eval", "--quiet", "--save-dir", folder, "--resume", "--batch-size", "1",
               "--tokenizer", os.path.join(SOURCE, "examples", "tiny-gpt2")]
    small = {**GPT, "n_layer": 1, "n_embd": 4, "n_head": 1, "n_positions": 8}
    with open(runs.path("small.json"), "w", encoding="utf-8") as f:
        json.dump(small, f)
    check(runs.start(*options, "--max-steps", "2").returncode == 0, "the first two steps")
    checkpoint = os.path.join(folder, "checkpoint-2")

    def resumed(what, codes, said="", options=options):
        """Resumes at the last step, so that the run reads the checkpoint and does nothing else."""
        done = runs.start(*options, "--max-steps", "2")
        lines = [line for line in done.stderr.splitlines() if "note: nothing to do" not in line]
        check(done.returncode in codes and len(lines) == done.returncode
              and all(said in line for line in lines),
              f"{what}: exit {done.returncode}: {done.stderr}")

    resumed("undamaged", [0])
    resumed("another batch", [1], "belongs to another run: samples per step were 1, not 2 "
            "(data-parallel ranks x --batch-size x --gradient-accumulation-steps)",
            [*options, "--num-gpus", "2", "--zero", "1"])
    resumed("another model", [1], "belongs to another run: model was small", [
        option.replace("small.json", "gpt.json") for option in options])
    for name in ("training-0.safetensors", "training_state.json"):
        path = os.path.join(checkpoint, name)
        with open(path, "rb") as f:
            whole = f.read()
        for i in range(40):
            at = len(whole) * i // 40 if i % 2 else min(i, len(whole))
            with open(path, "wb") as f:
                f.write(whole[:at])
            resumed(f"{name}, {at} of {len(whole)} bytes", [1])
        if name.endswith(".json"):
            random = Random(1)
            for _ in range(120):
                changed = bytearray(whole)
                at = random.randrange(len(whole))
                changed[at] = random.randrange(256)
                with open(path, "wb") as f:
                    f.write(changed)
                same = changed == whole or at >= len(whole) - 4  # space after the checksum
                resumed(f"{name}: {bytes(changed)}", [0, 1] if same else [1])
        os.remove(path)
        resumed(f"no {name}", [1], f"/{name}")
        with open(path, "wb") as f:
            f.write(whole)
    resumed("as before", [0])
    files = sorted(os.listdir(checkpoint))
    for name in files:
        path = os.path.join(checkpoint, name)
        with open(path, "rb") as f:
            whole = f.read()
        with open(path, "wb") as f:
            f.write(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        resumed(f"a bit of {name}", [1], f"/{name}' is damaged: its checksum is xxh64:")
        os.remove(path)
        resumed(f"no {name}", [1], f"/{name}")
        with open(path, "wb") as f:
            f.write(whole)
    state = os.path.join(checkpoint, "training_state.json")
    with open(state, encoding="utf-8") as f:
        said = json.load(f)
    listed = sorted([*said["files"], "training_state.json"])
    check(listed == files and "checksum" in said, f"{said}")
    resumed("as before", [0])
    del said["files"], said["checksum"]  # as in earlier versions
    with open(state, "w", encoding="utf-8") as f:
        json.dump(said, f)
    resumed("without checksums", [0])
    model = os.path.join(checkpoint, "model.safetensors")
    with open(model, "rb") as f:
        whole = f.read()
    for i in range(40):
        at = len(whole) * i // 40 if i % 2 else i
        with open(model, "wb") as f:
            f.write(whole[:at])
        done = runs.start("--weights", checkpoint, "--save-dir", runs.path("cut"), "--max-steps",
                          "1", "--max-seq-length", "8", "--quiet")
        check(done.returncode == 1 and done.stderr.count("\n") == 1,
              f"{at} of {len(whole)} bytes: exit {done.returncode}: {done.stderr}")


def damaged_shards(runs):
    """The file of each rank has a checksum, which rank 0 writes into the checkpoint."""
    runs.configure("experts", {**LLAMA, "model_type": "mixtral", "num_local_experts": 2})
    for model, layout in (("gpt", "--tp"), ("experts", "--ep")):
        damaged_shards_of(runs, model, layout)


def damaged_shards_of(runs, model, layout):
    folder = runs.path(f"shards_{model}")
    start = ["--model-config", f"{model}.json", "--max-seq-length", "8", "--save-steps", "2",
             layout, "2", "--num-gpus", "4", "--batch-size", "1", "--skip-eval", "--quiet",
             "--save-dir", folder, "--resume", "--max-steps", "2"]
    check(runs.start(*start).returncode == 0, "two steps on four ranks")
    for shard in (0, 1):
        path = os.path.join(folder, "checkpoint-2", f"training-{shard}.safetensors")
        with open(path, "rb") as f:
            whole = f.read()
        with open(path, "wb") as f:
            f.write(whole[:-1] + bytes([whole[-1] ^ 64]))
        done = runs.start(*start)
        check(done.returncode == 1 and f"training-{shard}.safetensors' is damaged" in done.stderr,
              f"shard {shard}: exit {done.returncode}: {done.stderr}")
        with open(path, "wb") as f:
            f.write(whole)
    check(runs.start(*start).returncode == 0, "as before")


def resumed_otherwise(runs):
    """Files are compared by their content and named in the message by their names. Numbers and
    choices are compared as they were given."""
    folder = runs.path("otherwise")
    names = {name: runs.path(f"{name}.squad") for name in ("first", "moved", "second", "third")}
    for name, word in (("first", "tree"), ("moved", "tree"), ("second", "stone"),
                       ("third", "river")):
        with open(names[name], "w", encoding="utf-8") as f:
            f.write(squad(sentences(9, word)))
    tokenizer = runs.path("otherwise_tokenizer")
    shutil.copytree(os.path.join(SOURCE, "examples", "tiny-gpt2"), tokenizer)
    saved = ["--model-config", "gpt.json", "--max-seq-length", "16", "--save-steps", "2",
             "--num-epochs", "4"]
    begin = {"--data": "first.squad", "--eval-data": "second.squad", "--tokenizer": tokenizer,
             "--max-steps": "2", "--save-dir": folder}

    def start(*more, resume=True, **changed):
        options = {**begin, **{f"--{name.replace('_', '-')}": v for name, v in changed.items()}}
        return runs.start(*saved, *(["--resume"] if resume else []), *more,
                          *(part for pair in options.items() for part in pair))

    def differs(said, *more, **changed):
        done = start(*more, **changed)
        check(done.returncode == 1
              and done.stderr.endswith(f"to another run: {said}\n"), f"{said}: {done.stderr}")

    check(start(resume=False).returncode == 0, "the first two steps")
    differs("--data was first.squad, not third.squad", data="third.squad")
    differs("--eval-data was second.squad, not third.squad", eval_data="third.squad")
    differs("--tokenizer was " + tokenizer + ", not bytes", tokenizer="bytes")
    differs("--learning-rate was 5e-05, not 0.0001; --dropout was 0.1, not 0.2",
            "--dropout", "0.2", "--learning-rate", "1e-4")
    done = start("--quiet", data="moved.squad")
    check(done.returncode == 0 and not done.stderr, f"the same texts, elsewhere: {done.stderr}")
    with open(names["second"], "w", encoding="utf-8") as f:
        f.write(squad(sentences(8, "stone")))
    differs("--eval-data second.squad has changed")
    path = os.path.join(folder, "checkpoint-2", "training_state.json")
    with open(path, encoding="utf-8") as f:
        state = json.load(f)
    check("--mask-policy" not in state["options"], f"{state}")
    for name in ("--eval-data", "--seed"):
        del state["options"][name]
    del state["files"], state["checksum"]  # as in earlier versions
    with open(path, "w", encoding="utf-8") as f:
        json.dump(state, f)
    differs("--eval-data is not recorded; --seed is not recorded")
    bert = ["--model-config", "bert.json", "--max-seq-length", "16", "--save-steps", "2",
            "--save-dir", runs.path("otherwise_bert"), "--skip-eval", "--resume"]
    check(runs.start(*bert, "--max-steps", "2").returncode == 0, "two steps of a BERT")
    done = runs.start(*bert, "--mask-policy", "mask-only")
    check(done.stderr.endswith("belongs to another run: --mask-policy was bert, not mask-only\n"),
          done.stderr)


def checkpoints_of_earlier_versions(runs):
    """An earlier version may have computed the checksum of the same model differently. If the
    checksum differs, config.json in the checkpoint decides whether the model is the same."""
    folder = runs.path("version")
    start = ["--model-config", "version.json", "--max-seq-length", "16", "--save-dir", folder,
             "--skip-eval", "--save-steps", "2", "--resume", "--max-steps"]

    def run(steps, **changes):
        with open(runs.path("version.json"), "w", encoding="utf-8") as f:
            json.dump({**LLAMA, **changes}, f)
        return runs.start(*start, steps)

    check(run("2").returncode == 0, "two steps")
    path = os.path.join(folder, "checkpoint-2", "training_state.json")
    with open(path, encoding="utf-8") as f:
        state = json.load(f)
    state["options"]["model"] = re.sub(r"\([0-9a-f]{16}\)", "(0123456789abcdef)",
                                       state["options"]["model"])
    del state["files"], state["checksum"]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(state, f)
    for changes in ({"rope_theta": 5e5}, {"rms_norm_eps": 1e-5},
                    {"rope_scaling": {"type": "linear", "factor": 2}}):
        done = run("4", **changes)
        check(done.returncode == 1 and done.stderr.endswith("model version has changed\n"),
              f"{changes}: {done.stderr}")
    done = run("4", eos_token_id=5)  # has no effect on training
    check(done.returncode == 0 and not done.stderr, done.stderr)
    os.remove(os.path.join(folder, "checkpoint-2", "config.json"))
    shutil.rmtree(os.path.join(folder, "checkpoint-4"))
    done = run("4")
    check(done.returncode == 1 and done.stderr.endswith("model version has changed\n"), done.stderr)


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    damaged_checkpoints(program)
    damaged_shards(program)
    resumed_otherwise(program)
    checkpoints_of_earlier_versions(program)
finish()
