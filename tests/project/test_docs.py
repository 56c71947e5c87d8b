"""Tests README.md, docs/ and the --help texts. Runs each command as printed, in a folder that looks
like a fresh clone after ./dev, and compares its output with the page. Runs Python code. Checks that
options, files and links exist.

    SYN_BUILD=build SYN_SOURCE=. python3 tests/project/test_docs.py --update

writes the current output to the pages and the current pictures to docs/images; review the diff. If
ASTRA-sim's program is on the PATH, its commands are run as well.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import docs_pages as dp  # noqa: E402
import docs_pictures  # noqa: E402

BUILD, SOURCE = os.path.abspath(os.environ["SYN_BUILD"]), os.path.abspath(os.environ["SYN_SOURCE"])
UPDATE = "--update" in sys.argv
PAGES = ["README.md", "examples/README.md"] + sorted(
    os.path.relpath(p, SOURCE) for p in glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"),
                                                  recursive=True))
SIMULATOR = "AstraSim_Analytical_Congestion_Unaware"
failures = []

# Commands and code that this test cannot run, by their first words, and the reason. Remove an entry
# when the pages no longer have it.
NOT_RUN = {
    "./dev test": "this test is a part of it",
    "./dev setup": "installs packages",
    "./dev bench": "measures seconds, for minutes",
    "./dev calibrate --measure": "measures seconds, for a minute and a half",
    "mpirun -n 2 build/calibrate --measure": "needs the file of the run before",
    "./dev gpu-check": "needs a CUDA device",
    "./dev gallery": "takes minutes; test_gallery.py computes some of the jobs",
    "./dev synth --out gallery/": "writes up to 36 GiB; test_gallery.py checks the page",
    "./dev syntorch astra-sim gallery/": "needs the sets of the commands before",
    f"{SIMULATOR} --workload-configuration=gallery/": "needs these sets, too",
    "./dev inference --device cuda": "needs a CUDA device",
    "./dev pretrain --device cuda": "needs a CUDA device",
    "cmake -B build": "builds and tests all once more; ./dev test does the same",
    "cmake --install build": "installs into the system; test_install.sh installs into a folder",
    "./dev pretrain --model gpt3-13b": "measures seconds; docs/sweep.md has smaller ones",
    "./dev inference --model gpt3-175b --num_input_tokens 512 --num_output_tokens 16 --quiet":
        "measures seconds",
    SIMULATOR: "needs ASTRA-sim",
    "git ": "needs the network",
    "astra-sim/build/": "needs ASTRA-sim's sources",
    "export PATH=": "what it adds is there, or not",
    "docker ": "needs Docker; test_container.py does what the image would do",
    "./dev pretrain --model gpt2 --num-gpus 2": "takes minutes and 7 GB; what follows on meta "
                                                     "is the same run",
    "./dev pretrain --model gpt2 --tokenizer": "needs SQuAD, GPT-2's vocabulary and days",
    "torchrun ": "needs PyTorch; what it writes is examples/pytorch/*.json",
    "python3 -c 'from transformers": "needs transformers",
    "import pandas\n": "needs pandas",
    "build/python/": "a folder, which ./dev python writes",
    "build/wheel/": "a folder, which ./dev wheel writes",
    "python3 -m venv": "test_wheel.py does the same",
    "venv/bin/": "test_wheel.py does the same",
    ">>> ": "needs the Python package; test_python_docs.py runs it",
    "import torch\n": "needs PyTorch; test_recorder compares it with the program that made "
                      "examples/pytorch/",
    "with syntorch.record(": "needs PyTorch; test_torch.py records with it",
}
# Options of other programs.
FOREIGN = {"--allow-run-as-root", "--workload-configuration", "--comm-group-configuration",
           "--system-configuration", "--network-configuration", "--remote-memory-configuration",
           "--rm", "--user", "--entrypoint", "--build", "--install", "--prefix", "--test-dir",
           "--nproc_per_node", "--cflags", "--libs", "--init", "--recursive", "--model-name",
           "--trace-output-dir"}


def check(cond, text):
    if not cond:
        failures.append(text)
        print(f"FAILED: {text}")
    return cond


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return f.read()


CONTENTS = {page: dp.contents(page, read(page)) for page in PAGES}


# ---- a fresh clone ----

class Clone:
    """A temporary folder like a clone, with the real ./dev, links to the built programs and links
    to the sources. The sources are older than the build, so ./dev does not build."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="syntorch-docs-")
        build = os.path.join(self.path, "build")
        os.mkdir(build)
        for name in os.listdir(SOURCE):
            if name not in ("build", "examples", ".git", "dev") \
                    and os.path.exists(os.path.join(SOURCE, "dev")):
                os.symlink(os.path.join(SOURCE, name), os.path.join(self.path, name))
        shutil.copytree(os.path.join(SOURCE, "examples"), os.path.join(self.path, "examples"))
        shutil.copy2(os.path.join(SOURCE, "dev"), self.path)
        for name in os.listdir(BUILD):
            program = os.path.join(BUILD, name)
            if os.path.isfile(program) and os.access(program, os.X_OK):
                os.symlink(program, os.path.join(build, name))
        with open(os.path.join(build, ".built"), "w", encoding="utf-8"):
            pass
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, words, **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("OPENBLAS_", "OMP_", "PYTHON"))}
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0")  # MPI has leaks
        env["BROWSER"] = "true"  # syntorch view opens nothing
        for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM",
                     "MCA_rmaps_base_oversubscribe"):
            env.setdefault("OMPI_" + name, "1")
        env.update(more)
        return subprocess.run(words, cwd=self.path, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=500, check=False)


def shell(clone, command, **more):
    """Runs a command. Returns the exit code and the printed lines, stdout and stderr together."""
    done = clone.run(["bash", "-c", command], **more)
    return done.returncode, done.stdout.decode("utf-8", "replace").split("\n")


# ---- commands of the pages ----

used = set()


def excused(text):
    for start in NOT_RUN:
        if text.startswith(start):
            used.add(start)
            return start != SIMULATOR or not shutil.which(SIMULATOR) or "..." in text
    return False


def only_names(text):
    """Whether inline code only names a command of ours, without arguments, such as `./dev convert
    pytorch`."""
    words = text.split()
    return words[0] in ("./dev", "syntorch", "inference") and len(words) <= 3 \
        and all(re.fullmatch("[a-z]+(-[a-z]+)*", w) for w in words[1:])


def check_name(clone, command):
    words = command.text.split()
    if words[0] == "./dev" and len(words) == 2 \
            and re.search(rf"^  {words[1]}\b", "\n".join(shell(clone, "./dev help")[1]), re.M):
        return
    program = words if words[0] == "./dev" else [os.path.join("build", words[0])] + words[1:]
    done = clone.run(program + ["--help"])
    check(done.returncode == 0,
          f"{command}: there is no such command: {done.stdout.decode()[:200]}")


def run_command(clone, command):
    simulates, measured = command.text.startswith(SIMULATOR), dp.computes(command.text)
    for _ in range(8 if simulates else 1):  # it may crash at its end and lose its last lines
        code, printed = shell(clone, command.text)
        shows = command.shown is None or dp.agrees(command.shown, printed, measured)
        if shows:
            break
    text = "\n".join(printed)
    if "has no MPI" in text:
        return
    if not check(code == 0 or simulates, f"{command}\n  exit code {code}:\n{text[:1500]}"):
        return
    check("dev: building" not in text, f"{command}\n  ./dev did not find the build fresh")
    fits = re.search(r"each rank needs .* but .* has .*", text)
    told = command.shown and any("each rank needs" in line for line in command.shown)
    check(told or not fits, f"{command}\n  the model does not fit: {fits and fits.group(0)}")
    if not shows and UPDATE:
        command.shown = dp.updated(command.shown, printed, measured)
    elif not shows:
        check(False, f"{command}\n  the page shows\n" + "\n".join(command.shown)
              + f"\n  and it printed\n{text}")


def run_python(clone, code):
    done = clone.run([sys.executable, "-c", code.text])
    check(done.returncode == 0, f"{code}\n{done.stdout.decode()}")


def has_networkx():
    return subprocess.run([sys.executable, "-c", "import networkx"], capture_output=True,
                          check=False).returncode == 0


def run_page(page):
    ran = 0
    with Clone() as clone:
        for part in CONTENTS[page][0]:
            if excused(part.text):
                continue
            if isinstance(part, dp.Code):
                check(part.language != "unknown",
                      f"{part}: neither shell nor Python; a fence should say what it is")
                if part.language == "json":
                    json.loads(part.text)
                if part.language == "text":
                    first = part.text.split("\n")[0]
                    check(not first.startswith(dp.SHELL),
                          f"{part}: a command within a fence of text")
                if part.language != "python" or ("networkx" in part.text and not has_networkx()):
                    continue
                run_python(clone, part)
            elif only_names(part.text):
                check_name(clone, part)
            elif part.text.startswith("mpirun") and not shutil.which("mpirun"):
                continue
            else:
                run_command(clone, part)
            ran += 1
        for sentence in docs_pictures.stale(clone.path, page, UPDATE):
            check(False, sentence)
        if UPDATE:
            update_page(page)
    return ran


def update_page(page):
    lines = read(page).split("\n")
    for part in reversed(CONTENTS[page][0]):
        if isinstance(part, dp.Command) and part.shown is not None:
            begin, end = part.shown_at
            lines[begin:end] = [(part.indent + line).rstrip() for line in part.shown]
    with open(os.path.join(SOURCE, page), "w", encoding="utf-8") as f:
        f.write("\n".join(lines))


def test_pages():
    ran = sum(run_page(page) for page in PAGES)
    check(ran > 40, f"only {ran} commands were found")
    for start in NOT_RUN:
        check(start in used, f"NOT_RUN has {start!r}, which is on no page")
    shown = {os.path.basename(name) for page in PAGES
             for name in re.findall(r"images/[\w./]+", read(page))}
    strangers = docs_pictures.strangers(shown)
    check(not strangers, f"docs/images, its lists and the pages do not agree about {strangers}")
    print(f"{ran} commands and programs of {len(PAGES)} pages run")


# ---- examples of the --help texts ----

TEXT_WORKLOAD = {  # replaces the reader's own files
    "resnet.txt": "DATA\n2\na -1 9 NONE 0 8 NONE 0 7 ALLREDUCE 4096 3\n"
                  "b -1 9 NONE 0 8 NONE 0 7 ALLREDUCE 4096 3\n",
    "dlrm.txt": "HYBRID_DLRM 1\n3\na -1 9 ALLTOALL 4096 8 ALLTOALL 4096 7 NONE 0 3\n"
    + 2 * "b -1 9 NONE 0 8 NONE 0 7 ALLREDUCE 4096 3\n", }


def stand_ins(clone):
    """Creates the files that the examples in the --help texts name."""
    at = lambda *names: os.path.join(clone.path, *names)  # noqa: E731
    shutil.copytree(at("examples", "tiny-gpt2"), at("gpt2"))
    shutil.copytree(at("examples", "tiny-bert"), at("bert-base-uncased"))
    shutil.copy(at("gpt2", "model.safetensors"), clone.path)
    shutil.copytree(at("examples", "pytorch"), at("traces"))
    for path in glob.glob(at("traces", "*.json")):
        shutil.copy(path, clone.path)
    with open(at("requests.csv"), "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens\n0,100,20\n0.5,200,10\n")
    for name, text in TEXT_WORKLOAD.items():
        with open(at(name), "w", encoding="utf-8") as f:
            f.write(text)
    pair = "--host host.0.json --device device.0.json"
    for command in (f"link {pair} --output linked.json",
                    f"convert pytorch {pair} --output converted.et"):
        done = clone.run(["build/syntorch"] + command.split())
        check(done.returncode == 0, f"{command}: {done.stdout.decode()}")


def helps(clone):
    """Yields (words of the command, its --help text) for every program and command."""
    out = [([name], None) for name in ("inference", "pretrain", "synth", "calibrate", "syntorch")]
    out.append((["syntorch", "serve"], None))
    names = []
    for path in sorted(glob.glob(os.path.join(SOURCE, "tools", "commands", "cmd_*.c"))):
        name = os.path.basename(path)[4:-2]
        names.append(name.split("_", 1) if name.startswith("convert_") and name != "convert_all"
                     else [name.replace("_", "-")])
    out += [(["syntorch"] + name, None) for name in names]
    for words, _ in out:
        done = clone.run([os.path.join("build", words[0])] + words[1:] + ["--help"])
        check(done.returncode == 0, f"{words} --help: exit code {done.returncode}")
        wide = [line for line in done.stdout.decode().split("\n") if len(line) > 80]
        check(not wide, f"{words} --help: lines of more than 80 columns: {wide}")
        yield words, done.stdout.decode()


def test_help_examples():
    ran = 0
    with Clone() as clone:
        stand_ins(clone)
        path = os.path.join(clone.path, "build") + os.pathsep + os.environ["PATH"]
        for words, text in helps(clone):
            listed = text.partition("\nExamples:\n")[2].replace(" \\\n     ", "")
            examples = [line.strip() for line in listed.split("\n") if line.startswith("  ")]
            check(examples or words == ["syntorch"], f"{' '.join(words)} --help has no example")
            for command in examples:
                if words[-1] == "diff":
                    shutil.copytree(os.path.join(clone.path, "out"),
                                    os.path.join(clone.path, "other"))
                if command.startswith("mpirun") and not shutil.which("mpirun"):
                    continue
                code, printed = shell(clone, command, PATH=path)
                if "has no MPI" in "\n".join(printed):
                    continue
                check(code == 0,
                      f"{' '.join(words)} --help: {command}\n  exit code {code}: {printed[:20]}")
                fits = [line for line in printed if re.search("each rank needs .* but ", line)]
                check(not fits,
                      f"{' '.join(words)} --help: {command}\n  the model does not fit: {fits}")
                ran += 1
    print(f"{ran} examples of --help run")


def test_comparison():
    """Tests the comparison itself: varying values are masked, everything else must match, and "..."
    matches lines or words."""
    printed = ["model:   tiny, tp 2", "", "decode:  15 tokens in 3.35 ms, 4.48 k tokens/s",
               "  linear  144  319 us  7.6%  12.7 M  13.4 MiB  39.9 G  41.0 GiB", ""]
    same = [["model:   tiny, tp 2", "..."], ["...", "decode:  15 tokens in 9.1 s, 2 tokens/s",
                                             "..."], ["model: ..., tp 2", "...", "..."],
            ["...", "  linear  144  31 ms  17.6%  12.7 M  13.4 MiB  3.9 G  1.0 TiB"], ["..."],
            printed[:-1]]
    other = [["model:   tiny, tp 2"], ["...", "decode:  16 tokens in 3.35 ms, 4.48 k tokens/s",
                                       "..."], [], ["model: ..., tp 3", "..."],
             ["...", "  linear  145  319 us  7.6%  12.7 M  13.4 MiB  39.9 G  41.0 GiB"],
             ["..."] + printed[::-1],
             ["...", "  linear  144  319 us  7.6%  12.8 M  13.4 MiB  39.9 G  41.0 GiB"]]
    for shown in same + other:
        check(dp.agrees(shown, printed, True) == (shown in same), f"comparison: {shown}")
    check(not dp.agrees(["in 5 ms"], ["in 6 ms"], False)
          and dp.agrees(["1 KiB in 0.001 s"], ["1 KiB in 0.2 s"], False), "comparison: times")
    wrong = ["...", "decode:  16 tokens in 3.35 ms, 4.48 k tokens/s", "..."]
    check(dp.updated(wrong, printed, True) == ["...", printed[2], "..."],
          f"update: {dp.updated(wrong, printed, True)}")
    found, _ = dp.contents("x",
                           "A\n\n    $ ./dev a \\\n      b\n    out\n\n    $ ./dev c; echo 1\n"
                           "    1\n\nB `./dev d e` and `syntorch` `./dev`\n")
    check([(c.text, c.shown) for c in found] == [("./dev a b", ["out"]), ("./dev c; echo 1", ["1"]),
                                                 ("./dev d e", None)],
          f"commands of a page: {[(c.text, c.shown) for c in found]}")


# ---- choices ----

CHOOSES = {  # the command that is run with each choice
    "calibrate": None,  # measures for minutes; test_calibrate_cuda.py uses the emulated device
    "inference": "--num_output_tokens 2",
    "pretrain": "--num-gpus 2 --max-steps 2 --max-seq-length 32 --skip-eval --enable-tracing",
    "synth": "--model gpt2 --dp 2 --pp 4 --global-batch 8 --max-seq-length 32 --out choice",
    "synth --phase": "--model gpt2 --dp 2 --pp 4 --out choice",
    "inference --policy": "--requests fixed:4:2 --num_requests 2",
    "inference --scheduling_policy": "--requests fixed:4:2 --num_requests 2",
    "inference --moe_dispatcher": "--device meta --model qwen3-30b-a3b --dp 2 --ep 2 "
                                  "--batch_size 2 --num_output_tokens 2",
    "synth --moe_dispatcher": "--model qwen3-30b-a3b --dp 2 --ep 2 --layers 1 "
                              "--max-seq-length 32 --out choice",
    "pretrain --moe_dispatcher": "--device meta --model qwen3-30b-a3b --num-gpus 2 --ep 2 "
                                 "--max-seq-length 32",
    "syntorch astra-sim": "outputs/trace",
    "syntorch convert pytorch": "--host host.0.json --device device.0.json --output choice.et",
    "syntorch convert-all": "traces --out_dir et",
    "syntorch expand": "outputs/trace --out choice",
    "syntorch export": "--input choice.et --output choice.json",
    "syntorch what-if": "outputs/trace --hw h100 --from a100-80g",
    "syntorch what-if --dtype": None,  # for foreign sets; test_simulate_machines.py has one
    "syntorch serve": "--model llama-3-8b --layers 1 --hw h100+serving --requests fixed:8:4 "
                      "--num-requests 2",
    "syntorch repair": "--input host.0.json --output choice.json",
}
NEEDED = {  # what an option or a choice needs
    "--page": " --format svg", "--view": " --format svg", "--detail": " --format svg",
    "--logits": " --save_logits choice.npy", "--pooling": " --embeddings choice.npy",
    "--mask_policy": " --model_config examples/configs/bert-tiny.json",
    "hierarchical": " --node-ranks 2"}


def test_help_choices():
    """Tries each choice that --help lists, such as both of `--device cpu|meta`."""
    ran = 0
    with Clone() as clone:
        stand_ins(clone)
        shutil.copy(os.path.join(clone.path, "converted.et"), os.path.join(clone.path, "choice.et"))
        for words, text in helps(clone):
            name = " ".join(words)
            for option, choices in re.findall(r"^  (--\w+) ([a-z][\w|-]*\|[\w|-]+)\s", text, re.M):
                if not check(name in CHOOSES,
                             f"{name} {option} has choices; CHOOSES lacks a command to try them"):
                    continue
                usual = CHOOSES.get(f"{name} {option}", CHOOSES[name])
                for choice in choices.split("|"):
                    if choice.isupper() or usual is None:
                        continue
                    command = usual + NEEDED.get(option, "") + NEEDED.get(choice, "")
                    module = os.path.join(BUILD, "tests", "syntorch_cuda_emulated.so")
                    if choice == "cuda" and not os.path.exists(module):
                        continue
                    environment = f"SYNTORCH_CUDA_MODULE={module} SYN_EMULATED_DEVICES=2 " \
                        if choice == "cuda" else ""
                    code, printed = shell(
                        clone, f"{environment}build/{name} {command} {option} {choice}")
                    check(code == 0,
                          f"{name} --help offers {option} {choice}\n  exit code {code}: "
                          f"{printed[:5]}")
                    ran += 1
    print(f"{ran} choices of --help tried")


# ---- options, files and links in the text ----

def test_options():
    known = set(FOREIGN)
    with Clone() as clone:
        for _, text in helps(clone):
            known |= set(re.findall(r"^  (--[a-z0-9_]+)", text, re.M))
        known |= set(re.findall(r"--[a-z]+", "\n".join(shell(clone, "./dev help")[1])))
    for page in PAGES:
        for at, line in enumerate(read(page).split("\n"), 1):
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", line):
                alike = "--" + option[2:].replace("-", "_")
                check(option in known or alike in known,
                      f"{page}:{at}: no program has {option}")


def anchors(text):
    return {re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-")
            for h in re.findall(r"^#+ (.*)$", text, re.M)}


def diffs(page):
    return [part for part in CONTENTS[page][0] if isinstance(part, dp.Code)
            and part.language == "diff"]


def test_changes():
    """Applies the diffs that the pages show, in order, and compiles the result."""
    changes = [part for page in PAGES for part in diffs(page)]
    with tempfile.TemporaryDirectory(prefix="syntorch-docs-") as folder:
        for name in ("syntorch", "ops", "comm", "models", "export", "tests"):
            shutil.copytree(os.path.join(SOURCE, name), os.path.join(folder, name),
                            ignore=shutil.ignore_patterns("corpus", "reference"))
        for part in changes:
            done = subprocess.run(["patch", "-p1", "--fuzz=0", "--batch"], cwd=folder,
                                  input=part.text.encode(), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            check(done.returncode == 0, f"{part}: cannot be applied: {done.stdout.decode()}")
        touched = re.findall(r"^\+\+\+ b/(\S+)", "".join(part.text for part in changes), re.M)
        levels = [name.replace("_body.h", "_avx2.c") for name in touched if "_body.h" in name]
        wide = ["-mavx2", "-mfma", "-mf16c"] if os.uname().machine == "x86_64" else []
        for name in sorted({n for n in touched if n.endswith(".c")}) + levels:
            done = subprocess.run(["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-I.", "-Wall",
                                   "-Wextra", "-Werror", "-fsyntax-only",
                                   *(wide if name in levels else []), name], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            check(done.returncode == 0, f"{name}, changed as shown: {done.stdout.decode()}")
    print(f"{len(changes)} changes to {len(set(touched))} files applied")


def test_files_and_links():
    folders = tuple(f + "/" for f in ("docs", "examples", "tests", "tools", "models", "ops",
                                      "export", "syntorch", "comm", "cmake"))
    for page in PAGES:
        text = read(page)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match("https?:", target):
                continue
            name, _, anchor = target.partition("#")
            name = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
            if check(os.path.exists(os.path.join(SOURCE, name)),
                     f"{page}: the link {target} leads nowhere") and anchor:
                check(anchor in anchors(read(name)), f"{page}: {name} has no heading #{anchor}")
        made = {name for part in diffs(page)
                for name in re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)", part.text, re.M)}
        for span in re.findall(r"`([^`\n]+)`", "\n".join(line for _, line in CONTENTS[page][1])):
            if span.startswith(folders) and re.fullmatch(r"[\w./*-]+", span) and span not in made:
                check(glob.glob(os.path.join(SOURCE, span)), f"{page}: there is no {span}")


def test_recorder():
    """Checks that docs/pytorch.md shows the code of examples/pytorch/record.py, and
    docs/hardware.md the built-in a100-80g."""
    shown = [part.text for part in CONTENTS["docs/pytorch.md"][0] if isinstance(part, dp.Code)
             and part.language == "python"]
    check(any("ExecutionTraceObserver" in text and text in read("examples/pytorch/record.py")
              for text in shown),
          "docs/pytorch.md: the recorder is not the one of examples/pytorch/record.py")
    shown = [part.text for part in CONTENTS["docs/hardware.md"][0] if isinstance(part, dp.Code)
             and part.language == "json"]
    check(read("examples/configs/hw_a100.json") in shown,
          "docs/hardware.md: the format is not that of examples/configs/hw_a100.json")


def test_memory():
    """Checks that recording GPT-3 175B takes less than 1.5 times the memory that README.md
    states."""
    said = re.search(r"takes 0.1 s and\s+(\d+) MB", read("README.md"))
    command = next(c.text for c in CONTENTS["README.md"][0] if "gpt3-175b" in c.text)
    if not check(said, "README.md does not say in how much memory a trace is recorded"):
        return
    with Clone() as clone:
        done = clone.run(["bash", "-c", command + " --json"])
        if subprocess.run(["grep", "-q", "__asan_init\\|__tsan_init",
                           os.path.join(BUILD, "inference")], check=False).returncode != 0:
            spent = clone.run([sys.executable, "-c",
                               "import resource, subprocess, sys; subprocess.run(['bash', '-c', "
                               "sys.argv[1]], stdout=subprocess.DEVNULL); "
                               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                               command])
            mb = int(spent.stdout) * 1024 / 1e6
            check(mb < 1.5 * int(said.group(1)),
                  f"README.md says {said.group(1)} MB, and it took {mb:.0f}")
    check(json.loads(done.stdout)["ranks"] == 8, "README.md's eight ranks")


if __name__ == "__main__":
    for test in (test_comparison, test_options, test_files_and_links, test_changes, test_recorder,
                 test_help_choices, test_help_examples, test_memory, test_pages):
        test()
    sys.exit(1 if failures else 0)
