"""`syntorch calibrate`: errors of the built-in stacks on measured rows, constants found again from
times that closed formulas gave, and what is refused."""
import csv
import json
import os
import subprocess
import tempfile

import checks
from checks import BUILD, SOURCE, check, finish

MEASURED = os.path.join(SOURCE, "tests/measured")


def run(*args):
    done = checks.run("calibrate", *args)
    done.stderr = done.stderr.decode() if isinstance(done.stderr, bytes) else done.stderr
    return done


def calibrate(*args):
    done = run("--json", *args)
    check(done.returncode == 0, f"{args}: {done.stderr}")
    return json.loads(done.stdout)


def some_rows(folder, name, keep):
    """The rows of a measured file that `keep` takes."""
    path = os.path.join(folder, name)
    with open(os.path.join(MEASURED, name), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, rows[0])
        out.writeheader()
        out.writerows(r for i, r in enumerate(rows) if keep(i, r))
    return path


def built_in_stacks(folder):
    """Mean errors on measured rows, and how many these are."""
    short = some_rows(folder, "gpt_inference_a100.csv", lambda i, r: int(r["output_tokens"]) <= 20)
    steps = some_rows(folder, "training_a100.csv", lambda i, r: i % 3 == 0)
    sums = os.path.join(MEASURED, "all_reduce_a100.csv")
    for hw, rows, stack, n, mean in (("a100-80g+serving", short, "ft", 93, 0.045),
                                     ("a100-80g+megatron", short, "megatron", 4, 0.06),
                                     ("a100-80g+megatron", steps, None, 47, 0.06),
                                     ("a100-80g+pytorch-eager", sums, None, 140, 0.05)):
        got = calibrate("--check", "--hw", hw, "--rows", rows,
                        *(["--rows_stack", stack] if stack else []))["given"]
        check(got["rows"] == n and got["mean"] <= mean, f"{hw}: {got}")


def expected_errors(folder):
    """tools/residuals.def is of these constants; a run as measured has an error, others say what
    they lack."""
    with open(os.path.join(SOURCE, "tools/residuals.def"), encoding="utf-8") as f:
        known = [line[2:-2].split(", ") for line in f if line.startswith('X("megatron", 1')]
    path = os.path.join(folder, "steps.csv")
    calibrate("--check", "--hw", "a100-80g+megatron", "--rows",
              os.path.join(MEASURED, "training_a100.csv"), "--predictions", path)
    with open(path, encoding="utf-8") as f:
        now = [float(r["predicted_ms"]) / float(r["measured_ms"]) - 1 for r in csv.DictReader(f)]
    check(len(now) == len(known) and all(abs(a - float(k[-1])) < 2e-3 for a, k in zip(now, known)),
          f"{now[:3]} {known[:3]}: ./dev bench accuracy makes tools/residuals.def")

    def predicted(*args):
        done = subprocess.run([os.path.join(BUILD, "inference"), "--device", "meta", "--json",
                               "--model", "gpt3-13b", "--num_input_tokens", "128",
                               "--num_output_tokens", "8", *args], check=True,
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    like = predicted("--dtype", "f16")
    check(0.005 < like["predicted_error"] < 0.15 and like["extrapolated"] is False, str(like))
    check(predicted("--dtype", "f16", "--batch_size", "1000")["extrapolated"] is True, "batch 1000")
    for other in (["--dtype", "f32"], ["--dtype", "f16", "--hw", "h100"]):
        check("predicted_error" not in predicted(*other), str(other))


def constants_come_back(folder):
    """Floors of all-reduces, from times made by their formula."""
    path, found = os.path.join(folder, "made.csv"), os.path.join(folder, "found.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write("gpus,bytes,ip_ns\n")
        for ranks in range(2, 9):
            for size in (1, 2, 4):
                f.write(f"{ranks},{1024 * size},{300e3 + 40e3 * (ranks - 2)}\n")
    got = calibrate("--hw", "a100-80g+megatron", "--rows", path, "--output", found)
    want = {"collective_us": 300, "collective_rank_us": 40}
    check(all(abs(got["constants"][k] / v - 1) < 1e-3 for k, v in want.items()), str(got))
    check(got["given"]["mean"] > 0.5 and got["fitted"]["mean"] < 1e-3, str(got))
    check(got["left_out"]["a tp degree"] < 1e-2, str(got))
    with open(found, encoding="utf-8") as f:
        stack = json.load(f)["stack"]
    check(all(abs(stack[k] / v - 1) < 1e-3 for k, v in want.items()), str(stack))
    again = calibrate("--check", "--hw", found, "--rows", path, "--predictions",
                      os.path.join(folder, "p.csv"))
    check(again["given"] == got["fitted"], f"{again} {got}")
    with open(os.path.join(folder, "p.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    check(len(rows) == 21 and all(abs(float(r["predicted_ms"]) / float(r["measured_ms"]) - 1) < 1e-2
                                  for r in rows), str(rows[:2]))
    fixed = calibrate("--hw", "a100-80g+megatron", "--rows", path, "--fix", "collective_us",
                      "collective_rank_us")
    check("collective_us" not in fixed["constants"] and fixed["fitted"]["mean"] > 0.5, str(fixed))


def refused(folder):
    def refuses(text, says, *more):
        path = os.path.join(folder, "bad.csv")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = run("--check", "--rows", path, *more)
        check(done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1,
              f"{text!r}: {done.returncode} {done.stderr}")

    refuses("", "has no such rows")
    refuses("gpus,bytes,ip_ns\n2,1024,x\n", 'bad.csv:2: "ip_ns" must be a number above 0')
    refuses("gpus,bytes,ip_ns\n2.5,1024,9\n", '"gpus" must be an integer, not 2.5')
    refuses("gpus,bytes\n2,1024\n", '"ip_ns" must be a number')
    refuses("gpus,bytes,ip_ns\n2000,1024,5\n", "2000 ranks; at most 1024")
    refuses("gpus,bytes,ip_ns\n2,1024,5\n", "cannot read a1000", "--hw", "a1000")
    done = run()
    check(done.returncode == 2 and "--rows" in done.stderr, done.stderr)
    done = run("--rows", os.path.join(MEASURED, "all_reduce_a100.csv"), "--fix", "speed")
    check(done.returncode == 1 and "--fix speed" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as where:
    built_in_stacks(where)
    expected_errors(where)
    constants_come_back(where)
    refused(where)
finish()
