"""./dev bench synth: the time and the memory of synth for sets of GPT-3 175B and Llama-3 405B,
beside their limits and the time in which the same number of bytes can be written to the disk; and
those of simulate for the same sets, and for one of 64 ranks that all differ. Then the errors of
predictions on measured rows, beside the limits of their means. Exits with 1 if a limit is exceeded.
Sets of more than 2 GB are written only with SYN_BENCH_LARGE=1, and otherwise counted
(--dry-run)."""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
import measured_rows  # noqa: E402
from checks import BUILD, enter_folder  # noqa: E402
from execution_trace import field, frame, varint  # noqa: E402

GPT3 = ["--model", "gpt3-175b", "--tp", "8", "--sp", "--hw", "a100-80g"]
STAGES = ",".join(["7", *["8"] * 14, "7"])
LLAMA = ["--model", "llama-3-405b", "--tp", "8", "--pp", "16", "--layers-per-stage", STAGES, "--sp",
         "--hw", "h100", "--ranks", "one-per-program"]
# name, options, seconds, MB, passes; large: not written by default
CASES = (
    ("GPT-3, 64 ranks, m 8", [*GPT3, "--pp", "8", "--global-batch", "8"], 1, 300, 3, False),
    ("GPT-3, 64 ranks, m 64", [*GPT3, "--pp", "8", "--global-batch", "64"], 5, 300, 3, False),
    ("GPT-3, 1,024 ranks, m 192", [*GPT3, "--pp", "16", "--dp", "8", "--global-batch", "1536"], 60,
     300, 1, True),
    ("Llama-3 405B, 16,384 ranks", [*LLAMA, "--dp", "128", "--global-batch", "2048"], 5, 200, 3,
     False),
    ("Llama-3 405B, 131,072 ranks", [*LLAMA, "--dp", "1024", "--global-batch", "16384"], 20, 500, 3,
     False),
)


def run(program, *arguments):
    """Returns seconds, peak memory in MB and the output."""
    begin = time.monotonic()
    process = subprocess.Popen([os.path.join(BUILD, program), *arguments], stdout=subprocess.PIPE,
                               text=True)
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{program} {' '.join(arguments)} failed")
    return time.monotonic() - begin, used.ru_maxrss / 1000, printed


def disk_seconds(folder, size):
    """The seconds in which `size` bytes are written to one file, in pieces of 1 MiB."""
    path, piece = os.path.join(folder, "probe"), b"\0" * (1 << 20)
    begin = time.monotonic()
    with open(path, "wb") as f:
        for _ in range(max(size >> 20, 1)):
            f.write(piece)
    seconds = time.monotonic() - begin
    os.remove(path)
    return seconds


def clear(folder):
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))


def measure(folder, options, passes, dry):
    times, most, printed = [], 0, ""
    for _ in range(passes):
        clear(folder)
        seconds, memory, printed = run("synth", *options, "--out", os.path.join(folder, "set"),
                                       *(["--dry-run"] if dry else []))
        times.append(seconds)
        most = max(most, memory)
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    ranks = next(line for line in printed.split("\n") if "written: " in line)
    return statistics.median(times), most, size, ranks.partition(", ")[2]


def put_different_ranks(prefix, ranks, nodes):
    """Writes a set of ranks whose compute times all differ. Every second node is an all-reduce of
    eight ranks."""
    pick = random.Random(1)

    def attribute(name, kind, value):
        return field(10, field(1, name) + field(kind, value))

    def node(number, kind, us, attrs):
        deps = field(4, varint(number - 1)) if number > 1 else b""
        return frame(field(1, number) + field(2, f"n{number}") + field(3, kind) + deps
                     + field(7, us) + attribute("is_cpu_op", 27, 0) + attrs)

    with open(f"{prefix}.comm_group.json", "w", encoding="utf-8") as f:
        json.dump({str(i + 1): list(range(8 * i, 8 * i + 8)) for i in range(ranks // 8)}, f)
    for rank in range(ranks):
        compute = attribute("num_ops", 9, 10**9) + attribute("tensor_size", 13, 10**7)
        reduce = (attribute("comm_type", 9, 0) + attribute("comm_size", 9, 1 << 20)
                  + attribute("pg_name", 29, str(rank // 8 + 1)))
        with open(f"{prefix}.{rank}.et", "wb") as f:
            f.write(frame(field(1, "0.0.4")))
            for i in range(1, nodes + 1):
                f.write(node(i, 4, pick.randrange(10, 100), compute) if i % 2
                        else node(i, 7, 5, reduce))


def simulate(prefix, passes):
    """Returns seconds and MB."""
    runs = [run("syntorch", "simulate", prefix) for _ in range(passes)]
    return statistics.median(r[0] for r in runs), max(r[1] for r in runs)


def measured_sets():
    """Yields names of measured sets, the errors of their predictions, and the limit of the mean
    error in per cent."""
    yield "vTrain, 64-512 A100", [r["error"] for r in measured_rows.calibrate_rows(
        measured_rows.BLOCKING, "training_a100_cluster.csv")], 10
    for hw, name in (("a100-80g", "A100"), ("h100", "H100")):
        yield f"FSDP, {name}", [
            measured_rows.fsdp_error(r) for r in measured_rows.rows_of("training_fsdp.csv")
            if r["hw"] == hw], 10
    yield "NeMo, H100, FP8", [
        measured_rows.megatron_core_error(r)
        for r in measured_rows.rows_of("training_megatron_core.csv")], 12
    titan = [measured_rows.torchtitan_errors(r)
             for r in measured_rows.rows_of("training_torchtitan.csv")]
    yield "torchtitan, H100", [time for time, _ in titan], 12
    yield "  peak memory", [memory for _, memory in titan], 10
    for hw, name in (("a100-80g", "A100"), ("h100", "H100")):
        rows = measured_rows.calibrate_rows(f"{hw}+pytorch-eager",
                                            f"collectives_{name.lower()}.csv")
        for kind in ("all-gather", "reduce-scatter", "all-to-all"):
            yield f"{kind} >= 1 MiB, {name}", [
                r["error"] for r in rows if r["model"] == kind and int(r["bytes"]) >= 1 << 20], 10


def accuracy():
    """Prints the errors on measured rows. Returns the number of means above their limits."""
    missed = 0
    enter_folder()
    print(f"\n{'error of predictions':30} {'rows':>5} {'mean':>8} {'limit':>6} {'worst':>9}")
    for name, errors, limit in measured_sets():
        mean = 100 * statistics.mean(map(abs, errors))
        print(f"{name:30} {len(errors):5} {mean:6.1f} % {limit:4} % "
              f"{100 * max(errors, key=abs):+7.1f} %{'  missed' if mean > limit else ''}",
              flush=True)
        missed += mean > limit
    return missed


def main():
    missed = 0
    print(f"{'set':28} {'time':>8} {'limit':>6} {'disk':>7} {'memory':>8} {'limit':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, options, seconds, memory, passes, large in CASES:
            dry = large and not os.environ.get("SYN_BENCH_LARGE")
            took, used, size, what = measure(folder, options, passes, dry)
            simulated = None if dry else simulate(os.path.join(folder, "set"), passes)
            clear(folder)
            disk = "-" if dry else f"{disk_seconds(folder, size):5.2f} s"
            missed += took > seconds or used > memory
            print(f"{name:28} {took:6.2f} s {seconds:4} s {disk:>7} {used:5.0f} MB {memory:3} MB"
                  f"  {what}{' (counted, not written)' if dry else ''}", flush=True)
            if simulated:
                print(f"{'  simulate':28} {simulated[0]:6.2f} s {'':14} {simulated[1]:5.0f} MB",
                      flush=True)
        put_different_ranks(os.path.join(folder, "set"), 64, 10000)
        took, used = simulate(os.path.join(folder, "set"), 3)
        missed += took > 1.4 or used > 130
        print(f"{'simulate 64 x 10,000 nodes':28} {took:6.2f} s  1.4 s {'':7} {used:5.0f} MB "
              "130 MB", flush=True)
        clear(folder)
        run("synth", *LLAMA, "--dp", "128", "--global-batch", "2048", "--out",
            os.path.join(folder, "set"), "--quiet")
        times = [run("syntorch", "stamp", "--input", os.path.join(folder, "set"), "--ranks",
                     str(rank))[0] for rank in range(8001, 8012)]
        took = statistics.median(times)
        missed += took > 0.05
        print(f"{'stamp one of 16,384 ranks':28} {1000 * took:5.0f} ms  50 ms")
    missed += accuracy()
    sys.exit(1 if missed else 0)


main()
