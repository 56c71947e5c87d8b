"""./dev bench serving: the simulator of `syntorch serve`, and how well it predicts this machine.

Speed: the time to simulate 300 requests of about 1,000 tokens, and the time and the memory of
100,000 requests. Accuracy: GPT-2 124M with random weights serves requests at low, medium and high
load (`inference --requests`), and the same requests are predicted with the constants that
`syntorch calibrate --measure` finds. Each of five rounds calibrates the machine and serves each
load once, because the clock of a shared machine changes within seconds; the medians of the rounds
are compared. Exits with 1 if a limit is exceeded. SYN_HW names a hardware file that was measured
before.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["SYN_BUILD"]
ROUNDS, LIMIT = 5, 0.1
MODEL = ["--model", "gpt2", "--requests", "uniform:64-256:16-48", "--num_requests", "30", "--seed",
         "1"]
LOADS = {"low": ["--rate", "0.5"], "medium": ["--rate", "2"], "high": []}
SIMULATED = ["serve", "--model", "llama-3-8b", "--hw", "h100+serving", "--json"]
SPEED = (  # requests, rate, workload, and limits: seconds, MiB
    ("300 requests of 1,000 tokens", ["--num_requests", "300", "--rate", "8", "--requests",
                                      "fixed:800:200"], 2, 200),
    ("100,000 requests", ["--num_requests", "100000", "--rate", "20", "--requests",
                          "sharegpt-like"], 120, 200))


def run(program, *args):
    return subprocess.run([os.path.join(BUILD, program), *args], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def check_speed():
    failed = False
    for what, args, most_s, most_mib in SPEED:
        begin = time.monotonic()
        json.loads(run("syntorch", *SIMULATED, *args))
        took = time.monotonic() - begin
        mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"simulating {what}: {took:.2f} s (limit {most_s}), at most {mib:.0f} MiB (limit "
              f"{most_mib})", flush=True)
        failed |= took > most_s or mib > most_mib
    return failed


def serve(hw, args):
    """Serves the requests once; returns its statistics, which include the prediction."""
    return json.loads(run("inference", *MODEL, *args, "--hw", hw, "--json"))["serving"]


def compare(load, runs):
    """Prints measured and predicted TTFT and TPOT of `runs`; returns their relative errors."""
    errors = []
    for name in ("ttft_ns", "tpot_ns"):
        for part in ("mean", "p50", "p90"):
            measured = [r[name][part] for r in runs]
            guesses = [r["predicted"][name][part] for r in runs]
            middle, guess = statistics.median(measured), statistics.median(guesses)
            errors.append(abs(guess / middle - 1))
            print(f"{load} load, {name[:4].upper()} {part}: {1e-6 * middle:.1f} ms, predicted "
                  f"{1e-6 * guess:.1f}: {100 * (guess / middle - 1):+.1f} %; between rounds, "
                  f"measured {100 * (max(measured) / min(measured) - 1):.0f} %, predicted "
                  f"{100 * (max(guesses) / min(guesses) - 1):.0f} %", flush=True)
    return errors


def main(where):
    rounds = []
    for i in range(ROUNDS):
        hw = os.environ.get("SYN_HW", os.path.join(where, f"cpu{i}.json"))
        if not os.path.exists(hw):
            run("calibrate", "--measure", "--output", hw)
        rounds.append({load: serve(hw, args) for load, args in LOADS.items()})
    errors = [e for load in LOADS for e in compare(load, [r[load] for r in rounds])]
    mean = statistics.mean(errors)
    print(f"mean error {100 * mean:.1f} %, worst {100 * max(errors):.1f} % (limit of the mean: "
          f"{100 * LIMIT:.0f} %)")
    return mean > LIMIT


slow = check_speed()
with tempfile.TemporaryDirectory() as where:
    wrong = main(where)
sys.exit(slow or wrong)
