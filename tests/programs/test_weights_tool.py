"""Tests `syntorch weights` as a user runs it. For each file of tests/corpus/safetensors it prints a
list or one sentence, and the list agrees with what the independent reader in this file finds."""
import glob
import json
import os
import struct

import checks
from checks import SOURCE, check, finish

BITS = {"F64": 64, "I64": 64, "F32": 32, "F16": 16, "BF16": 16, "BOOL": 8, "U8": 8, "I8": 8,
        "F8_E4M3": 8, "F6_E2M3": 6, "F4": 4}
GOOD = {"two", "types", "empty_tensors", "no_tensors", "padded", "names", "escapes", "unknown_key"}


def run(*args):
    return checks.run("weights", *args)


def read(path):
    """Returns the name, type, shape, bytes and file of each tensor, in the order of the bytes."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    header.pop("__metadata__", None)
    places = sorted((v["data_offsets"], k) for k, v in header.items())
    return [dict(name=k, dtype=header[k]["dtype"], shape=header[k]["shape"], bytes=b - a,
                 file=os.path.basename(path))
            for (a, b), k in places]


def check_listed(got, want, what):
    check(got["tensors"] == want, f"{what}: {got['tensors']} != {want}")
    check(got["totals"]["tensors"] == len(want), f"{what}: {got['totals']}")
    check(got["totals"]["bytes"] == sum(t["bytes"] for t in want), f"{what}: {got['totals']}")
    elements = sum(t["bytes"] * 8 // BITS[t["dtype"]] for t in want)
    check(got["totals"]["parameters"] == elements, f"{what}: {got['totals']}")
    for key in ("tensors", "parameters", "bytes"):
        total = sum(v[key] for v in got["dtypes"].values())
        check(total == got["totals"][key], f"{what}: {got['dtypes']}")


def corpus():
    for path in sorted(glob.glob(os.path.join(SOURCE, "tests/corpus/safetensors/*"))):
        name = os.path.basename(path)
        if name.startswith("index"):
            continue
        r = run("--json", path)
        if name in GOOD:
            check(r.returncode == 0, f"{name}: exit {r.returncode}: {r.stderr}")
            if r.returncode == 0:
                check_listed(json.loads(r.stdout), read(path), name)
            text = run(path)
            check(text.returncode == 0 and not any(c < 32 and c != 10 for c in text.stdout),
                  f"{name}: {text.stdout}")
        else:
            lines = r.stderr.decode().splitlines()
            check(r.returncode == 1 and name in json.loads(r.stdout)["error"]["message"],
                  f"{name}: exit {r.returncode}: {r.stdout}")
            check(len(lines) == 1 and lines[0].startswith("syntorch weights: ")
                  and name in lines[0], f"{name}: {lines}")


def shards():
    folder = os.path.join(SOURCE, "tests/reference/tiny_gpt2_f16_shards")
    want = [t for path in sorted(glob.glob(folder + "/*.safetensors")) for t in read(path)]
    for args in ([folder], ["--input", folder], [folder + "/model.safetensors.index.json"]):
        r = run("--json", *args)
        check(r.returncode == 0, f"{args}: {r.stderr}")
        check_listed(json.loads(r.stdout), want, str(args))
    text = run(folder, "--json")
    check(json.loads(text.stdout)["metadata"] == {"format": "pt"}, text.stdout.decode())
    lines = run(folder).stdout.decode().splitlines()
    check(lines[0].split() == ["name", "dtype", "shape", "bytes", "file"], lines[0])
    check(lines[2].split() == ["transformer.h.0.attn.c_attn.weight", "F16", "[32,", "96]", "6144",
                               "model-00001-of-00003.safetensors"], lines[2])
    check("28 tensors, 30752 parameters (30.8 k), 61504 bytes" in lines[-2], lines[-2])


def usage():
    for args in ([], ["a", "b"], ["--input", "a", "b"], ["a", "--no_such"]):
        r = run(*args)
        check(r.returncode == 2, f"{args}: exit {r.returncode}")
        check(len(r.stderr.decode().splitlines()) == 1, f"{args}: {r.stderr}")
    r = run(os.path.join(SOURCE, "no", "such", "file"))
    check(r.returncode == 1 and b"No such file" in r.stderr, f"{r.returncode}: {r.stderr}")
    r = run(os.path.join(SOURCE, "tests"))
    check(r.returncode == 1 and b"has neither model.safetensors nor" in r.stderr,
          f"{r.returncode}: {r.stderr}")


corpus()
shards()
usage()
finish()
