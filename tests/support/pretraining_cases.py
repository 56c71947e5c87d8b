"""Runs pretrain with the options of the cases in reference/pretraining*.json. Shared by
test_pretrain.py, test_pretrain_families.py and bench_losses.py."""
import csv
import json
import os
import subprocess

BUILD, SOURCE = os.environ["SYN_BUILD"], os.environ["SYN_SOURCE"]
DATA = os.environ.get("SYN_SHARED_DATA")


def cases(name):
    with open(os.path.join(SOURCE, "tests", "reference", name), encoding="utf-8") as f:
        return json.load(f)


def what(options):
    """Returns a description of a case for messages."""
    name = options.get("model-name") or os.path.basename(options["weights"])
    words = [name, os.path.basename(options["data"]), options["recipe"],
             f"{options['num-gpus']} ranks", f"rate {options['learning-rate']:g}"]
    if options.get("gradient-accumulation-steps"):
        words.append(f"{options['gradient-accumulation-steps']} batches a step")
    return ", ".join(words + ([options["dtype"]] if "dtype" in options else []))


def is_here(options):
    """Whether the case's files exist. Files in shared/ are not on every machine."""
    return DATA is not None or not any(str(value).startswith("shared/")
                                       for value in options.values())


def argument(value):
    text = str(value)
    if text.startswith("shared/"):
        return os.path.join(DATA, text.removeprefix("shared/"))
    here = text.startswith(("examples/", "tests/"))
    return os.path.join(SOURCE, text) if here else text


def run_case(options, folder):
    """Runs a case. Returns the losses, or an empty list if the run failed, and the text on standard
    error."""
    arguments = [part for name, value in options.items() for part in (f"--{name}", argument(value))]
    done = subprocess.run([os.path.join(BUILD, "pretrain"), *arguments, "--dropout", "0",
                           "--skip-eval", "--save-dir", folder, "--quiet"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [], done.stderr
    with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as f:
        return [float(row["loss"]) for row in csv.DictReader(f) if row["loss"]], done.stderr


def differences(got, want):
    """Returns the relative difference at each step."""
    return [abs(a - b) / b for a, b in zip(got, want)]
