"""Tests the pretraining program with ranks that are MPI processes. If they were started with
different options, or if one of them is killed, all of them end. After a kill, a resumed run has the
losses of an undisturbed run."""
import csv
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, finish, run, skip  # noqa: E402
from pretrain_runs import MPIRUN, PRETRAIN, Runs, launcher, losses  # noqa: E402

COMMON = ["--model-config", "gpt.json", "--max-seq-length", "16"]

# Arguments of rank 1 alone, and the beginning of the only message of pretrain.
DIFFERENT = [
    (["--num-epochs", "7"], "pretrain: rank 1 was started with another --num-epochs than rank 0"),
    (["--max-steps", "7"], "pretrain: rank 1 was started with another --max-steps than rank 0"),
    (["--device", "meta"], "pretrain: rank 1 was started with another --device than rank 0"),
    (["--skip-eval"], "pretrain: rank 1 was started with another --skip-eval than rank 0"),
    (["--recipe", "reference"], "pretrain: rank 1 was started with another --recipe than rank 0"),
    (["--help"], "pretrain: rank 1: was started with --help or --version, but rank 0 was not"),
    (["--dropout", "0.2"], "pretrain: rank 1 was started with another --dropout than rank 0"),
    (["--data", "examples/squad/validation.json", "--eval-data", "examples/squad/validation.json"],
     "pretrain: rank 1 was started with another --data than rank 0"),
    (["--tokenizer", "bytes"], "pretrain: rank 1 was started with another --tokenizer than"),
    (["--save-dir", "elsewhere"], "pretrain: rank 1 was started with another --save-dir than"),
    (["--model-config", "other.json"], "pretrain: rank 1 was started with another model than"),
    (["--rank-order", "pp-dp-tp"], "pretrain: rank 1 was started with another --rank-order than"),
    (["--bogus"], "pretrain: rank 1: unknown option --bogus"),
    (["--num-gpus", "4"], "pretrain: rank 1: 2 MPI processes were started, but --num-gpus is 4"),
    (["--trace-name", "x"], "pretrain: rank 1: --trace-name has no effect without"),
    (["--data", "none.json"], "pretrain: rank 1: cannot read none.json"),
]
# The same for arguments of both ranks.
ALL = [
    (["--num-gpus", "4"], "pretrain: 2 MPI processes were started, but --num-gpus is 4"),
    (["--save-dir", "gpt.json/x"], "pretrain: cannot create the folder gpt.json"),
    (["--cache-dir", "gpt.json/x"], "pretrain: cannot create the folder gpt.json"),
]


def refused(runs):
    """The rank with the wrong argument prints the only message of pretrain, and both processes
    end."""
    def sentences(done):
        return [line for line in done.stderr.splitlines() if line.startswith("pretrain: ")]

    start = [*launcher("1"), PRETRAIN, *COMMON, "--num-gpus", "2", "--save-dir", "refused"]
    for arguments, sentence in DIFFERENT:
        done = subprocess.run([*start, ":", "-n", "1", *start[len(launcher("1")):], *arguments],
                              capture_output=True, text=True, timeout=300, check=False,
                              cwd=runs.folder)
        check(done.returncode != 0 and [line.startswith(sentence) for line in sentences(done)]
              == [True], f"rank 1 {arguments}: exit {done.returncode}: {done.stderr}")
    for arguments, sentence in ALL:
        done = runs.start(*COMMON, "--num-gpus", "2", "--save-dir", "refused", *arguments,
                          launcher=launcher("2"))
        check(done.returncode != 0 and [line.startswith(sentence) for line in sentences(done)]
              == [True], f"{arguments}: exit {done.returncode}: {done.stderr}")
    for arguments in ("--help",), ("--version",):  # for both ranks, and for rank 0 alone
        done = runs.start(*arguments, launcher=launcher("2"))
        check(done.returncode == 0 and not sentences(done) and done.stdout.count("\n") > 0,
              f"{arguments}: exit {done.returncode}: {done.stderr}")
        done = subprocess.run([*start, *arguments, ":", "-n", "1", *start[len(launcher("1")):]],
                              capture_output=True, text=True, timeout=300, check=False,
                              cwd=runs.folder)
        check(done.stdout.count("\n") > 0 and not sentences(done)
              # mpirun's message about a rank that exits without MPI_Finalize has this word.
              and "finalize" not in done.stderr,
              f"rank 0 {arguments}: exit {done.returncode}: {done.stderr}")
    os.makedirs(runs.path("locked"))
    with open(runs.path("locked/.lock"), "w", encoding="utf-8") as lock:  # as in another run
        fcntl.flock(lock, fcntl.LOCK_EX)
        print("1234 1764269485 elsewhere pretrain", file=lock, flush=True)
        done = runs.start(*COMMON, "--num-gpus", "2", "--save-dir", "locked",
                          launcher=launcher("2"))
    check(done.returncode != 0 and [line.startswith(
        "pretrain: another run (pretrain, process 1234 on elsewhere, since ")
        for line in sentences(done)] == [True], f"locked: {done.stderr}")


def rank_processes(job):
    """Returns the process ids of a job's ranks, by rank. Returns {} if /proc does not show them."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as f:
                variables = dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)
        except OSError:
            continue
        rank = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK"))
        if rank is not None and variables.get(b"SYN_TEST_JOB") == job.encode():
            found[int(rank)] = int(name)
    return found


def begin(runs, folder, options, job):
    """Starts a job whose ranks can be found by the environment variable SYN_TEST_JOB."""
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False)
    passed = ["-x", "SYN_TEST_JOB"] if "Open MPI" in version.stdout else []
    return subprocess.Popen([*launcher("2"), *passed, PRETRAIN, *COMMON, "--save-dir", folder,
                             *options], cwd=runs.folder, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env={**os.environ, "SYN_TEST_JOB": job})


def is_time(folder, when):
    """Whether metrics.csv has `when` lines or, if `when` is the name of a checkpoint, whether this
    checkpoint is being written."""
    if isinstance(when, str):
        return os.path.exists(os.path.join(folder, f".{when}.partial"))
    try:
        with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as f:
            return len(f.readlines()) >= when
    except OSError:
        return False


def killed(runs, name, more):
    """Kills one rank, between two steps or while the job saves. All ranks end and checkpoints are
    complete. The resumed run has the losses of an undisturbed run, bit for bit."""
    options = ["--num-gpus", "2", "--num-epochs", "1", "--save-steps", "3", "--skip-eval",
               "--max-steps", "24", *more]
    whole = runs.path(f"{name}_whole")
    done = runs.start(*COMMON, "--save-dir", whole, *options, launcher=launcher("2"))
    check(done.returncode == 0, f"{name}: {done.stderr}")
    folder = runs.path(f"{name}_killed")
    ended = []
    for number, (rank, when) in enumerate(((1, 5), (0, 8), (1, "checkpoint-12"),
                                           (0, "checkpoint-18"))):
        job = f"{os.getpid()}.{name}.{number}"
        with begin(runs, folder, [*options, "--resume"], job) as process:
            while process.poll() is None and not is_time(folder, when):
                time.sleep(0.0005)
            victim = rank_processes(job).get(rank)
            if victim and process.poll() is None:
                os.kill(victim, 9)
            ended.append(process.wait(timeout=300))
        for left in sorted(os.listdir(folder)):
            if left.startswith("checkpoint-"):
                with open(os.path.join(folder, left, "training_state.json"),
                          encoding="utf-8") as f:
                    check(json.load(f)["step"] == int(left[11:]), f"{name}: {left}")
                check(os.path.exists(os.path.join(folder, left, "model.safetensors")), left)
    check(ended[0] != 0, f"{name}: {ended}")
    done = runs.start(*COMMON, "--save-dir", folder, *options, "--resume", launcher=launcher("2"))
    check(done.returncode == 0, f"{name}, to the end: {done.stderr}")
    got = []
    for at in (whole, folder):
        with open(os.path.join(at, "metrics.csv"), encoding="utf-8") as f:
            got.append(losses(list(csv.DictReader(f))))
    check(got[0] == got[1] and len(got[0]) == 24, f"{name}: {got}")


if not MPIRUN or b"this build has no MPI" in run("--version").stderr:
    skip("there is no MPI")
with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    os.symlink(os.path.join(os.environ["SYN_SOURCE"], "examples"), program.path("examples"))
    with open(program.path("gpt.json"), encoding="utf-8") as f, \
            open(program.path("other.json"), "w", encoding="utf-8") as g:
        json.dump({**json.load(f), "n_layer": 3}, g)
    refused(program)
    killed(program, "dp", [])
    killed(program, "tp", ["--tp", "2"])
    killed(program, "pp", ["--pp", "2", "--schedule", "zb-h1", "--batch-size", "2",
                           "--gradient-accumulation-steps", "2"])
finish()
