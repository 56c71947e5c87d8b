"""Tests inputs and options of the pretraining program: several data files, few or empty samples,
dropout, output folders, options without effect, and inputs that are refused."""
import csv
import json
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import SOURCE, check, finish  # noqa: E402
from pretrain_runs import (BERT, GPT, LLAMA, OVERFLOWING, Runs, losses, sentences,  # noqa: E402
                           squad)


def several_files(runs):
    """Several files after one option are read as one long file, in their order."""
    parts = {"a": sentences(9, "tree"), "b": sentences(7, "stone")}
    for name, texts in (*parts.items(), ("ab", parts["a"] + parts["b"])):
        with open(runs.path(f"{name}.squad"), "w", encoding="utf-8") as f:
            f.write(squad(texts))
    cache = runs.path("several")
    common = ("--max-steps", "4", "--cache-dir", cache, "--eval-data")
    for model in ("gpt", "bert"):
        cached = len(os.listdir(cache)) if os.path.isdir(cache) else 0
        whole, _ = runs.train(model, *common, "ab.squad", "--data", "ab.squad")
        split, _ = runs.train(model, *common, "a.squad", "b.squad", "--data", "a.squad", "b.squad")
        other, _ = runs.train(model, *common, "a.squad", "--data", "b.squad", "a.squad")
        for key in ("loss", "eval_loss"):
            check(len(losses(whole, key)) > 0 and losses(split, key) == losses(whole, key),
                  f"{model}: {losses(split, key)}, not {losses(whole, key)}")
        check(losses(other) != losses(whole), f"{model}: order does not matter")
        # The cache has both files in either order, and the first file alone.
        check(len(os.listdir(cache)) == cached + 3, f"{model}: {os.listdir(cache)}")
    one, _ = runs.train("gpt", "--max-steps", "2", "--data=a.squad", "--skip-eval")
    same, _ = runs.train("gpt", "--max-steps", "2", "--data", "a.squad", "--skip-eval")
    check(losses(one) == losses(same), "--data=FILE")


def few_texts(runs):
    """All validation samples count, even if there are fewer samples than ranks, and the validation
    loss does not depend on the number of ranks."""
    for n in (3, 37):
        with open(runs.path("few.squad"), "w", encoding="utf-8") as f:
            f.write(squad(sentences(n, "river")))
        for model, recipe in (("gpt", "default"), ("bert", "default"), ("gpt", "reference"),
                              ("bert", "reference")):
            got = []
            for ranks, batch in (("1", "32"), ("8", "4")):
                rows, _ = runs.train(model, "--eval-data", "few.squad", "--max-steps", "1",
                                     "--recipe", recipe, "--num-gpus", ranks, "--batch-size", batch)
                got += losses(rows, "eval_loss")
            check(len(got) == 2 and max(got) - min(got) <= 1e-5 * max(got) and got[0] > 1,
                  f"{model}, {recipe}, {n} texts: {got}")
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--data", "few.squad",
                      "--num-gpus", "8", "--batch-size", "5", "--save-dir", runs.path("few"))
    check(done.returncode == 1 and "37 samples do not fill one step of 40" in done.stderr,
          f"{done.stderr}")


def no_labels(runs):
    """The mean loss of samples without labels is NaN, as in PyTorch. It is logged as nan, is not
    drawn, and does not make a model the best one. The run continues."""
    for name, labelled in (("none", 0), ("some", 2)):
        with open(runs.path(f"{name}.squad"), "w", encoding="utf-8") as f:
            f.write(squad([("", "")] * (8 - labelled) + sentences(labelled, "tree")))
    start = ("--tokenizer", "bytes", "--max-seq-length", "16", "--batch-size", "2", "--num-epochs",
             "2", "--weight-decay", "0")
    two = ("--num-gpus", "2", "--max-steps", "3")
    for data, more in (("none", ()), ("some", ()), ("some", two),
                       ("some", (*two, "--recipe", "reference"))):
        rows, folder = runs.train("gpt", "--data", f"{data}.squad", "--eval-data", "none.squad",
                                  *start, *more)
        steps = [row for row in rows if row["loss"]]
        nan = [row for row in steps if row["loss"] == "nan"]
        padded = "reference" in more  # this recipe also predicts padding, so samples have labels
        check(all((float(row["grad_norm"]) == 0) == (row in nan) for row in steps), f"{steps}")
        check(len(nan) == (0 if padded else len(steps)) if data == "none" or padded
              else 0 < len(nan) < len(steps), f"{data} {more}: {steps}")
        check({row["eval_loss"] for row in rows if not row["loss"]} == {"nan"} or padded,
              f"{rows}")
        check(os.path.isdir(os.path.join(folder, "best_model" if padded else "last_model")),
              f"{data} {more}: {os.listdir(folder)}")
        check(os.path.isfile(os.path.join(folder, "loss.svg")) == (data == "some"), f"{data}")


def saved_files(runs):
    """generation_config.json and config.json of a saved model have the token ids of the tokenizer,
    as transformers writes them. BERT has no generation_config.json."""
    for model, ends in (("gpt", 511), ("bert", None)):
        _, folder = runs.train(model, "--max-steps", "1")
        best = os.path.join(folder, "best_model")
        path = os.path.join(best, "generation_config.json")
        if ends is None:
            check(not os.path.exists(path), f"{model} generates nothing")
            continue
        with open(path, encoding="utf-8") as f, \
                open(os.path.join(best, "config.json"), encoding="utf-8") as g:
            texts = json.load(f), json.load(g)
        check(texts[0] == {"_from_model_config": True, "bos_token_id": ends, "eos_token_id": ends},
              f"{texts[0]}")
        check(texts[1]["bos_token_id"] == texts[1]["eos_token_id"] == ends, f"{texts[1]}")


def weights(runs):
    """--weights accepts a folder, a file in it, or a checkpoint. A run is refused if its output
    folder has checkpoints of an earlier run."""
    begin = os.path.join(SOURCE, "examples", "tiny-gpt2")
    common = ["--max-seq-length", "32", "--max-steps", "3", "--save-steps", "2", "--quiet"]
    got = []
    for name in (begin, os.path.join(begin, "model.safetensors")):
        folder = runs.path("begun_with_" + os.path.basename(name))
        done = runs.start("--weights", name, "--save-dir", folder, *common)
        check(done.returncode == 0, f"{name}: {done.stderr}")
        with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as f:
            got.append(losses(list(csv.DictReader(f))))
    check(got[0] == got[1] and len(got[0]) == 3, f"{got}")
    done = runs.start("--weights", os.path.join(folder, "checkpoint-2"), "--save-dir",
                      runs.path("weights_on"), *common)
    check(done.returncode == 0, f"checkpoint-2: {done.stderr}")
    done = runs.start("--weights", name, "--save-dir", folder, *common)
    check(done.returncode == 1 and "has checkpoint-2 of an earlier run" in done.stderr,
          f"begun anew: {done.stderr}")
    done = runs.start("--weights", "gpt.json", *common)
    check(done.returncode == 1 and "there is no config.json next to the weights" in done.stderr,
          f"{done.stderr}")


def dropout(runs):
    """Each dropout rate of the configuration is used in its place; --dropout sets all of them. The
    rates are printed and saved, and a resumed run must have the same rates."""
    first = ("--max-seq-length", "16", "--max-steps", "2", "--skip-eval", "--learning-rate", "1e-2")
    keys = {"gpt": ("embd_pdrop", "attn_pdrop", "resid_pdrop"),
            "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
            "llama": ("attention_dropout",)}

    def train(config, *more):
        with open(runs.path("dropped.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        rows, folder = runs.train("dropped", *first, *more)
        return losses(rows), folder

    for name, config in (("gpt", GPT), ("bert", BERT), ("llama", LLAMA)):
        rates = keys[name]
        none, folder = train({**config, **dict.fromkeys(rates, 0)})
        check(train(config, "--dropout", "0")[0] == none, f"{name}: none")
        default = train(config)[0]
        check(default == train(config, "--dropout", "0" if name == "llama" else "0.1")[0],
              f"{name}: transformers' own rates")
        seen = [none] + [train({**config, **dict.fromkeys(rates, 0), key: 0.5})[0] for key in rates]
        check(all(seen.count(one) == 1 for one in seen), f"{name}: {seen}")
        every, changed = train(config, "--dropout", "0.5")
        if name != "llama":
            check(every == train({**config, **dict.fromkeys(rates, 0.5)})[0], f"{name}: all 0.5")
        for where, rate in ((folder, 0), (changed, 0.5)):
            with open(os.path.join(where, "last_model", "config.json"), encoding="utf-8") as f:
                saved = json.load(f)
            check([saved[key] for key in rates] == [rate] * len(rates), f"{name}: saved {saved}")

    with open(runs.path("dropped.json"), "w", encoding="utf-8") as f:
        json.dump({**GPT, "attn_pdrop": 0, "resid_pdrop": 0.2}, f)
    folder = runs.path("dropped")
    start = ["--model-config", "dropped.json", "--save-dir", folder, "--save-steps", "1", *first]
    said = "0.1 of embeddings, 0 of attention weights, 0.2 of residuals"
    done = runs.start(*start)
    check(done.stdout.split("\n")[:2] == [
        "model: dropped in f32 on cpu, 1 rank, tp 1",
        f"dropout: {said} (config.json; --dropout changes it)"], done.stdout)
    done = runs.start(*start, "--resume", "--dropout", "0.25")
    check(done.returncode == 1 and done.stderr.endswith(f"--dropout was {said}, not 0.25\n"),
          done.stderr)
    saved = os.path.join(folder, "checkpoint-2")
    for more, line in ((("--dropout", "0.25"), "dropout: 0.25 (--dropout)\n"),
                       ((), f"dropout: {said} (config.json of --weights)\n")):
        done = runs.start("--weights", saved, "--save-dir", runs.path("dropped_on"), *first, *more)
        check(done.returncode == 0 and "\n" + line in done.stdout, done.stdout + done.stderr)
    done = runs.start("--weights", saved, "--save-dir", runs.path("half"), "--dtype", "bf16",
                      "--num-gpus", "2", "--tp", "2", *first)
    check(re.match("model: .* in bf16 on cpu, 2 ranks, tp 2\n", done.stdout), done.stdout)
    with open(runs.path("dropped.json"), "w", encoding="utf-8") as f:
        json.dump({**GPT, "attn_pdrop": 1}, f)
    done = runs.start(*start)
    check(done.returncode == 1 and "has a dropout of 1" in done.stderr, done.stderr)


def earlier_results(runs):
    """A run may replace the results of a trial (fewer than 100 steps) or of a run that is not
    longer, but neither those of a longer run nor checkpoints."""
    folder = runs.path("earlier")
    common = ["--model-config", "gpt.json", "--max-seq-length", "8", "--batch-size", "1", "--quiet",
              "--save-dir", folder]

    def left():
        found = {}
        for name in ("best_model/model.safetensors", "metrics.csv", "loss.svg"):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = f.read()
        return found

    def refused_run(said, *more):
        before = left()
        done = runs.start(*common, *more)
        check(done.returncode == 1 and done.stderr.count("\n") == 1 and said in done.stderr
              and "name another --save-dir, or remove the folder" in done.stderr,
              f"{more}: exit {done.returncode}: {done.stderr}")
        check(left() == before, f"{more}: what was there has changed")

    for steps in ("9", "3", "99", "3", "120", "120", "130"):
        done = runs.start(*common, "--max-steps", steps)
        check(done.returncode == 0 and not done.stderr, f"{steps} steps: {done.stderr}")
    check(len(losses(runs.rows(folder))) == 130, "the last run is that of 130 steps")
    longer = "results of an earlier run of 130 steps, and this run of 129 steps would replace them"
    for more in ([], ["--skip-eval"], ["--resume"], ["--save-steps", "100"]):
        refused_run(longer, "--max-steps", "129", *more)
    done = runs.start(*common, "--max-steps", "131", "--save-steps", "131")
    check(done.returncode == 0, f"with a checkpoint: {done.stderr}")
    for more in ([], ["--skip-eval"], ["--save-steps", "100"]):
        refused_run("has checkpoint-131 of an earlier run: continue from it with --resume",
                    "--max-steps", "132", *more)
    done = runs.start(*common, "--max-steps", "5", "--enable-tracing", "--device", "meta")
    check(done.returncode == 0, f"nothing is written but a trace: {done.stderr}")
    done = runs.start(*common, "--max-steps", "3", "--resume", "--save-steps", "100")
    check(done.returncode == 0, f"what is behind its last step: {done.stderr}")


def in_the_way(runs):
    """If a file or a link has the name of a folder for a model, neither it nor the target of the
    link changes. The run prints a warning, continues, and fails at its end."""
    folder, other = runs.path("way"), runs.path("way_other")
    shutil.copytree(os.path.join(SOURCE, "examples", "tiny-gpt2"), other)
    before = sorted(os.listdir(other))
    os.makedirs(folder)
    os.symlink(other, os.path.join(folder, "best_model"))
    os.symlink(other, os.path.join(folder, ".checkpoint-2.partial"))
    with open(os.path.join(folder, "checkpoint-4"), "w", encoding="utf-8") as f:
        f.write("mine")
    options = ["--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps", "4",
               "--save-steps", "2", "--quiet", "--tokenizer", other]
    done = runs.start(*options, "--save-dir", folder)
    lines = done.stderr.splitlines()
    check(done.returncode == 1 and len(lines) == 3 and "best_model was not saved: " in lines[0]
          and "checkpoint-4 was not saved: " in lines[1]
          and all("must be a folder, but is a file" in line for line in lines[:2])
          and lines[2].endswith(
              "best_model of step 4 was not saved, and there is none; checkpoint-4 was not saved, "
              "and there is nothing newer than checkpoint-2"),
          done.stderr)
    check(sorted(os.listdir(other)) == before, f"{os.listdir(other)}")
    check(sorted(os.listdir(folder)) == ["best_model", "checkpoint-2", "checkpoint-4", "loss.svg",
                                         "metrics.csv"], f"{os.listdir(folder)}")
    check(os.path.islink(os.path.join(folder, "best_model")), "the link is gone")


def nothing_to_do(runs):
    """If a resumed run has nothing to do, a note says why. If a checkpoint is damaged, the message
    says what to do."""
    folder = runs.path("nothing")
    start = ["--model-config", "gpt.json", "--max-seq-length", "16", "--save-dir", folder,
             "--skip-eval", "--save-steps", "2", "--resume", "--max-steps"]
    check(runs.start(*start, "4").returncode == 0, "four steps")
    for steps, said in (("4", "/checkpoint-4' is the checkpoint of the last step\n"),
                        ("3",
                         "/checkpoint-4' is the checkpoint of a step after the last one, 3\n")):
        done = runs.start(*start, steps)
        check(done.returncode == 0 and done.stderr.startswith("pretrain: note: nothing to do: '")
              and done.stderr.endswith(said), f"{steps}: {done.stderr}")
        done = runs.start(*start, steps, "--quiet")
        check(done.returncode == 0 and not done.stderr, f"{steps}: {done.stderr}")
    for step, then in (("4", "continues from checkpoint-2"), ("2", "starts from the beginning")):
        path = os.path.join(folder, f"checkpoint-{step}")
        os.truncate(os.path.join(path, "training-0.safetensors"), 100)
        done = runs.start(*start, "6")
        check(done.returncode == 1 and done.stderr.endswith(
            f"; remove checkpoint-{step}, and --resume {then}\n"), f"{step}: {done.stderr}")
        shutil.rmtree(path)
    done = runs.start(*start, "6")
    check(done.returncode == 0, f"anew: {done.stderr}")


def default_folders(runs):
    """The default folder is checkpoints/<model>. If the name of the model is a path, its last part
    is used."""
    def saved(name, config, *arguments):
        with open(runs.path("named.json"), "w", encoding="utf-8") as f:
            json.dump({**config, **({"_name_or_path": name} if name else {})}, f)
        done = runs.start(*arguments, "--max-steps", "1", "--max-seq-length", "16", "--skip-eval",
                          "--quiet")
        check(done.returncode == 0, f"{name}: {done.stderr}")
        return sorted(os.listdir(runs.path("checkpoints")))

    with open(runs.path("gpt.json"), encoding="utf-8") as f:
        config = json.load(f)
    want = []
    for name, folder in (("somebody/gpt2-own", "gpt2-own"), ("../../above", "above"),
                         ("..", "gpt2"), ("x/", "x"), (None, "named")):
        want.append(folder)
        left = saved(name, config, "--model-config", "named.json")
        check(left == sorted(set(want)), f"{name}: {left}, not {folder}")
    left = saved(None, config)
    check(left == sorted({*want, "gpt2-mini"}), f"the default: {left}")
    files = os.listdir(runs.path("checkpoints/gpt2-mini"))
    check(sorted(files) == ["last_model", "loss.svg", "metrics.csv"], f"{files}")


def unwritable_folders(runs):
    """Folders are checked before data is read: the data file does not exist, but the message is
    about the folder."""
    with open(runs.path("file"), "w", encoding="utf-8") as f:
        f.write("x")
    unread = ["--data", "none.squad", "--model-config", "gpt.json", "--max-seq-length", "16"]
    for option, more in (("--save-dir", []), ("--out-dir", ["--enable-tracing"]),
                         ("--cache-dir", []),
                         ("--out-dir", ["--enable-tracing", "--device", "meta"])):
        for folder in ("file", "file/x", "file/x/y"):
            done = runs.start(option, folder, *more, *unread)
            lines = done.stderr.splitlines()
            check(done.returncode == 1 and len(lines) == 1 and "folder file" in lines[0],
                  f"{option} {folder}: exit {done.returncode}: {done.stderr}")
    done = runs.start("--enable-tracing", "--trace-name", "../file/trace", *unread)
    check(done.returncode == 1 and "../file/trace: the folder" in done.stderr, done.stderr)
    if os.geteuid() != 0:
        os.makedirs(runs.path("shut"), mode=0o500)
        done = runs.start("--save-dir", "shut", *unread)
        check(done.returncode == 1 and "shut/" in done.stderr, done.stderr)


REFUSED = [
    (["--hw", "none", "--enable-tracing"], "none"),
    (["--learning-rate", "1e3", "--max-grad-norm", "0", "--max-seq-length", "64",
      "--model-config", "gpt16.json"],
     "step 2: the gradient of 'wte.weight' is NaN; first on rank 0: tensor"),
    (["--learning-rate", "1e3", "--max-seq-length", "64", "--model-config", "gpt16.json"],
     "step 2: the gradient of 'wte.weight' is NaN; first on rank 0: tensor"),
    (["--model", "gpt2", "--tokenizer", "examples/tiny-bert"], "is not for a gpt2"),
    (["--max-steps", "1", "--enable-tracing"], "step 2 should be traced, but the run has only 1"),
    (["--num-gpus", "3", "--tp", "2"], "3 ranks are not a multiple of tp 2"),
    (["--num-gpus", "6", "--pp", "4"], "6 ranks are not a multiple of tp 1 x pp 4"),
    (["--num-gpus", "8", "--pp", "8"],
     "cannot be divided evenly into 8 stages (pp 8 x vp 1)"),
    (["--num-gpus", "4", "--pp", "4", "--count-loss"],
     "the 4 layers and the loss of gpt2-mini cannot be divided evenly into 4 stages"),
    (["--num-gpus", "2", "--pp", "2", "--layers-per-stage", "3,2"],
     "layers per stage '3,2' has 5 layers in total, but gpt2-mini has 4"),
    (["--num-gpus", "2", "--pp", "2", "--layers-per-stage", "2"],
     "layers per stage '2' has 1 numbers, but there are 2 virtual stages (pp 2 x vp 1)"),
    (["--num-gpus", "2", "--pp", "2", "--layers-per-stage", "1;1"],
     "layers per stage '1;1': character 2 should end a number of layers"),
    (["--num-gpus", "2", "--pp", "2", "--layout", "Ett|tttL"],
     "'Ett|tttL' has 5 layers, but gpt2-mini has 4: the first one too many is at character 7"),
    (["--num-gpus", "2", "--pp", "2", "--layout", "E(t|)*2L"],
     "layout 'E(t|)*2L' has 3 virtual stages, not 2 (pp 2 x vp 1)"),
    (["--num-gpus", "2", "--pp", "2", "--layout", "Ett|ttmL"],
     "GPT-2 has no layers for multi-token prediction"),
    (["--num-gpus", "2", "--pp", "2", "--layout", "Et|tL", "--layers-per-stage", "1,1"],
     "--layers-per-stage contradicts --layout, which has the layers of all stages; omit one"),
    (["--num-gpus", "2", "--pp", "2", "--layers-per-stage", "1,1", "--count-loss"],
     "--count-loss has no effect with --layers-per-stage; omit one"),
    (["--layers-per-stage", "2"], "--layers-per-stage has no effect without --pp"),
    (["--count-embedding"], "--count-embedding has no effect without --pp"),
    (["--layout", "EttL"], "--layout has no effect without --pp"),
    (["--rank-order", "tp-dp"], "rank order 'tp-dp' lacks pp: it must have tp, dp and pp"),
    (["--rank-order", "tp-dp-pp-dp"], "rank order 'tp-dp-pp-dp' has dp twice"),
    (["--rank-order", "tp-dp-pp-xp"],
     "rank order 'tp-dp-pp-xp': 'xp' is none of tp, dp, pp, cp and ep"),
    (["--rank-order", "tp-cp-pp-dp", "--num-gpus", "2", "--cp", "2"],
     "rank order 'tp-cp-pp-dp': cp must come directly before dp with --cp 2"),
    (["--rank-order", ""], "rank order '': '' is none of tp, dp, pp, cp and ep"),
    (["--num-gpus", "2", "--pp", "2", "--vp", "2", "--schedule", "1f1b"],
     "2 chunks per pipeline stage (vp) need the interleaved schedule"),
    (["--num-gpus", "2", "--pp", "2", "--vp", "2", "--schedule", "zb-h1"],
     "2 chunks per pipeline stage (vp) need the interleaved schedule"),
    (["--num-gpus", "2", "--pp", "2", "--vp", "2"],
     "needs at least as many microbatches as there are stages (2), not 1"),
    (["--schedule", "gpipe"], "a pipeline schedule needs at least 2 stages (pp), not 1"),
    (["--num-gpus", "2", "--pp", "2", "--microbatch-group", "2"],
     "groups of 2 microbatches need more than one chunk per pipeline stage (vp)"),
    (["--num-gpus", "3", "--cp", "2"], "3 ranks are not a multiple of tp 1 x cp 2"),
    (["--num-gpus", "2", "--cp-comm", "a2a"], "--cp-comm has no effect without --cp"),
    (["--num-gpus", "4", "--cp", "4", "--cp-a2a", "2"],
     "groups of 2 ranks (cp_a2a) need cp_comm a2a+p2p, not p2p"),
    (["--sp", "--num-gpus", "2", "--tp", "2", "--max-seq-length", "31"],
     "with --sp, --max-seq-length must be a multiple of --tp: 31 is not one of 2"),
    (["--sp-keep"], "--sp-keep has no effect without --sp"),
    (["--num-gpus", "2", "--sp"], "--sp has no effect without --tp"),
    (["--num-gpus", "2", "--sp", "--sweep", "batch_size=1"], "--sp has no effect without --tp"),
    (["--num-gpus", "4", "--hsdp", "2", "--sweep", "batch_size=1"],
     "--hsdp has no effect without --zero 3"),
    (["--num-gpus", "2", "--count-loss", "--sweep", "dtype=f32,bf16"],
     "--count-loss has no effect without --pp"),
    (["--zero", "1"], "zero 1 needs at least 2 data-parallel ranks (dp), but there is 1"),
    (["--num-gpus", "2", "--tp", "2", "--zero", "2"],
     "zero 2 needs at least 2 data-parallel ranks (dp), but there is 1"),
    (["--num-gpus", "2", "--zero", "2", "--no-reshard"],
     "--no-reshard has no effect without --zero 3"),
    (["--num-gpus", "2", "--zero", "1", "--hsdp", "2"], "--hsdp has no effect without --zero 3"),
    (["--num-gpus", "4", "--pp", "2", "--zero", "3", "--no-reshard"],
     "--no-reshard has no effect with --pp"),
    (["--num-gpus", "4", "--zero", "3", "--hsdp", "3"],
     "groups of 3 ranks (hsdp) do not divide the 4 data-parallel ranks (dp)"),
    (["--num-gpus", "2", "--zero", "3", "--buckets", "none"],
     "--buckets has no effect with --zero 3"),
    (["--num-gpus", "2", "--zero", "4"], "--zero must be between 0 and 3, not 4"),
    (["--num-gpus", "2", "--tp", "2", "--buckets", "none"],
     "--buckets has no effect on one data-parallel rank"),
    (["--num-gpus", "2", "--tp", "2", "--reduce-dtype", "bf16"],
     "--reduce-dtype has no effect, because no gradients are summed over ranks"),
    (["--batch-size", "500"],
     "192 samples do not fill one step of 500: give more --data, or a smaller --batch-size"),
    (["--batch-size", "1", "--num-gpus", "200"],
     "192 samples do not fill one step of 200: give more --data, or a smaller --num-gpus"),
    (["--max-seq-length", "4096"], "exceeds the 512 positions"),
    (["--device", "tpu"], "--device must be cpu, meta or cuda, not 'tpu'"),
    (["--data", "none.json"], "none.json"),
    (["--data", "gpt.json"], "a SQuAD file must be an object with \"data\""),
    (["--model", "gpt2", "--model-config", "gpt.json"], "give one"),
    (["--model", "gpt5"], "gpt5"),
    (["--save-dir", "gpt.json/x"], "gpt.json"),
    (["--enable-tracing", "--out-dir", "gpt.json/x"], "gpt.json"),
    (["--enable-tracing", "--trace-name", "no/such"], "no/such.0.et"),
    (["--data", "--max-steps", "3"], "--data needs a value: FILE..."),
    (["--data", "a", "--data", "b"], "--data was given twice; give all its values at once"),
    # Options without effect.
    (["--mask-policy", "bert"], "--mask-policy applies only to BERT"),
    (["--model-config", "bert.json", "--recipe", "reference", "--mask-policy", "bert"],
     "--mask-policy bert contradicts --recipe reference"),
    (["--trace-wait-steps", "2"], "--trace-wait-steps has no effect without --enable-tracing"),
    (["--trace-warmup-steps=0"], "--trace-warmup-steps has no effect without --enable-tracing"),
    (["--trace-skip-first", "2"], "--trace-skip-first has no effect without --enable-tracing"),
    (["--trace-repeat", "0"], "--trace-repeat has no effect without --enable-tracing"),
    (["--profile-memory"], "--profile-memory has no effect without --enable-tracing"),
    (["--with-stack"], "--with-stack has no effect without --enable-tracing"),
    (["--trace_active_steps", "2"], "--trace-active-steps has no effect without --enable-tracing"),
    (["--trace-name", "x"], "--trace-name has no effect without --enable-tracing"),
    (["--out-dir", "x"], "--out-dir has no effect without --enable-tracing"),
    (["--hw", "h100"],
     "--hw has no effect without --enable-tracing or --device meta; give one, or omit it"),
    (["--compare", "h100"], "--compare has no effect without --enable-tracing or --device meta"),
    (["--device", "meta", "--trace-name", "x"],
     "--trace-name has no effect without --enable-tracing"),
    (["--skip-eval", "--eval-data", "x"], "--eval-data has no effect with --skip-eval"),
    (["--skip-eval", "--eval-steps", "5"], "--eval-steps has no effect with --skip-eval"),
    (["--data", "x", "--eval-steps", "5"], "--eval-steps has no effect without validation data"),
    (["--save-total-limit", "2"], "--save-total-limit has no effect without --save-steps"),
]


def refused(runs):
    """Each of these is refused with one sentence."""
    os.symlink(os.path.join(SOURCE, "examples"), runs.path("examples"))
    runs.configure("gpt16", OVERFLOWING["gpt16"])
    for arguments, sentence in REFUSED:
        done = runs.start(*arguments)
        lines = [line for line in done.stderr.splitlines() if "warning" not in line]
        check(done.returncode in (1, 2) and len(lines) == 1 and sentence in lines[0],
              f"{arguments}: exit {done.returncode}: {done.stderr}")


def harmless(runs):
    """Options that do not contradict each other are accepted, a note lists those that have no
    effect on meta, and --help shows each default once."""
    twice = re.findall(r".*(\[[^]]*\]) \1.*", runs.start("--help").stdout)
    check(not twice, f"--help: {twice}")
    done = runs.start("--model-config", "bert.json", "--max-seq-length", "16", "--max-steps", "1",
                      "--recipe", "reference", "--mask-policy", "mask-only", "--trace-name",
                      "--save-total-limit", "--enable-tracing", "--trace-wait-steps", "0")
    check(done.returncode == 0 and not done.stderr, f"{done.stderr}")
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps", "3",
                      "--enable-tracing", "--device", "meta", "--resume", "--save-steps", "5")
    check(done.returncode == 0 and done.stderr == "pretrain: note: no effect with --device "
          "meta, which does not train: --save-steps, --resume\n", f"{done.stderr}")
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps", "3",
                      "--seed", "7", "--skip-eval", "--device", "meta")
    check(done.returncode == 0 and done.stderr == "pretrain: note: no effect with --device "
          "meta, which does not train: --seed, --max-steps, --skip-eval\n", f"{done.stderr}")


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    several_files(program)
    default_folders(program)
    few_texts(program)
    no_labels(program)
    saved_files(program)
    weights(program)
    dropout(program)
    earlier_results(program)
    in_the_way(program)
    nothing_to_do(program)
    unwritable_folders(program)
    refused(program)
    harmless(program)
finish()
