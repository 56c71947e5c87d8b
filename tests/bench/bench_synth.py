"""./dev bench synth: the time and the memory of synth for sets of GPT-3 175B and Llama-3 405B,
beside their limits and the time in which the same number of bytes can be written to the disk. Exits
with 1 if a limit is exceeded. Sets of more than 2 GB are written only with SYN_BENCH_LARGE=1, and
otherwise counted (--dry-run)."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["SYN_BUILD"]
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


def main():
    missed = 0
    print(f"{'set':28} {'time':>8} {'limit':>6} {'disk':>7} {'memory':>8} {'limit':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, options, seconds, memory, passes, large in CASES:
            dry = large and not os.environ.get("SYN_BENCH_LARGE")
            took, used, size, what = measure(folder, options, passes, dry)
            clear(folder)
            disk = "-" if dry else f"{disk_seconds(folder, size):5.2f} s"
            missed += took > seconds or used > memory
            print(f"{name:28} {took:6.2f} s {seconds:4} s {disk:>7} {used:5.0f} MB {memory:3} MB"
                  f"  {what}{' (counted, not written)' if dry else ''}", flush=True)
        run("synth", *LLAMA, "--dp", "128", "--global-batch", "2048", "--out",
            os.path.join(folder, "set"), "--quiet")
        times = [run("syntorch", "stamp", "--input", os.path.join(folder, "set"), "--ranks",
                     str(rank))[0] for rank in range(8001, 8012)]
        took = statistics.median(times)
        missed += took > 0.05
        print(f"{'stamp one of 16,384 ranks':28} {1000 * took:5.0f} ms  50 ms")
    sys.exit(1 if missed else 0)


main()
