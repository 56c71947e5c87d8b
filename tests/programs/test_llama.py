"""Llama, Mistral, Qwen2 and Qwen3, in folders as transformers saves them, in the inference program:
logits and greedy tokens of tests/reference/llama.json and variants.json on 1, 2 and 4 ranks."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish  # noqa: E402

INFERENCE = os.path.join(BUILD, "inference")
REFERENCE = os.path.join(SOURCE, "tests", "reference")
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def read_json(name):
    with open(os.path.join(REFERENCE, name), encoding="utf-8") as f:
        return json.load(f)


def read_npy(path):
    """Rows of a (batch, vocabulary) array of f32."""
    with open(path, "rb") as f:
        data = f.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    shape = data[10:start].decode().split("(")[1].split(")")[0].split(",")
    rows, columns = int(shape[0]), int(shape[1])
    numbers = struct.unpack(f"<{rows * columns}f", data[start:])
    return [numbers[i * columns:(i + 1) * columns] for i in range(rows)]


def off(got, want):
    """The largest difference, of the largest number."""
    pairs = [(a, b) for row, line in zip(got, want) for a, b in zip(row, line)]
    return max(abs(a - b) for a, b in pairs) / max(abs(b) for _, b in pairs)


class Runs:
    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def infer(self, weights, prompts, new_tokens, *more):
        """Logits behind the prompts, and the tokens that follow; None if it fails."""
        with open(self.path("ids.txt"), "w", encoding="utf-8") as f:
            f.write("".join(" ".join(map(str, ids)) + "\n" for ids in prompts))
        done = subprocess.run(
            [INFERENCE, "--weights", weights, "--prompt_ids", self.path("ids.txt"), "--json",
             "--num_output_tokens", str(new_tokens), "--top_k", "1", "--save_logits",
             self.path("logits.npy"), *more], capture_output=True, text=True, check=False)
        if not check(done.returncode == 0, f"{weights} {more}: {done.stderr}"):
            return None, None
        return read_npy(self.path("logits.npy")), json.loads(done.stdout)


def check_model(runs, what, weights, want, ways):
    for tp, attention in ways:
        options = ["--tp", str(tp), "--attention", attention]
        logits, _ = runs.infer(weights, want["ids"], 1, *options)
        if logits is None:
            return
        check(off(logits, want["logits"]) < 1e-5,
              f"{what}, tp {tp}, {attention}: off by {off(logits, want['logits'])}")
        _, summary = runs.infer(weights, want["ids"][:1], 30, *options)
        tokens = summary["tokens"][0]
        check(tokens == want["tokens"], f"{what}, tp {tp}, {attention}: {tokens}")


def families(runs):
    want = read_json("llama.json")
    for name in FAMILIES:
        weights = os.path.join(REFERENCE, f"tiny_{name}")
        check_model(runs, name, weights, want[name],
                    [(1, "fused"), (1, "unfused"), (2, "fused"), (4, "fused"), (4, "unfused")])
        # In a batch with a shorter text, which is padded on its left.
        long, short = want[name]["ids"][0], want[name]["ids"][1][:9]
        both, _ = runs.infer(weights, [long, short], 1)
        alone, _ = runs.infer(weights, [short], 1)
        check(both and alone and off(both[:1], want[name]["logits"][:1]) < 1e-5 and
              off(both[1:], alone) < 1e-5, f"{name}: padded texts differ")
        # Written and read again, whole and from four ranks.
        for tp in ("1", "4"):
            again = runs.path(f"{name}_{tp}")
            runs.infer(weights, want[name]["ids"], 1, "--tp", tp, "--save_weights", again)
            logits, _ = runs.infer(again, want[name]["ids"], 1)
            check(logits and off(logits, want[name]["logits"]) < 1e-5, f"{name}, saved by {tp}")


def variants(runs):
    """Rotary positions of all kinds, as files say them, and as old ones did."""
    for i, want in enumerate(read_json("variants.json")):
        folder = runs.path(f"variant{i}")
        os.mkdir(folder)
        shutil.copy(os.path.join(REFERENCE, "tiny_llama", "model.safetensors"), folder)
        config = want["config"]
        rope = config["rope_parameters"]
        old = {k: v for k, v in config.items() if k != "rope_parameters"}
        old["rope_theta"] = rope["rope_theta"]
        old["rope_scaling"] = {("type" if k == "rope_type" else k): v for k, v in rope.items()
                               if k != "rope_theta"}
        for said in (config, old):
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
                json.dump(said, f)
            check_model(runs, f"{rope}", folder, want, [(1, "fused"), (2, "unfused")])
        again = runs.path(f"again{i}")
        runs.infer(folder, want["ids"], 1, "--save_weights", again)
        check_model(runs, f"{rope}, saved", again, want, [(1, "fused")])


def several_sources(runs):
    """Of rope_scaling, rope_parameters and what stands beside them the first says all it can."""
    known = read_json("variants.json")
    whole = [v for v in known
             if "partial_rotary_factor" not in v["config"]["rope_parameters"]]
    plain, linear = (next(v for v in whole if v["config"]["rope_parameters"]["rope_type"] == kind)
                     for kind in ("default", "linear"))
    said = linear["config"]["rope_parameters"]
    folder = runs.path("sources")
    os.mkdir(folder)
    shutil.copy(os.path.join(REFERENCE, "tiny_llama", "model.safetensors"), folder)
    other = dict(rope_type="linear", rope_theta=77.0, factor=4.0)
    bare = {k: v for k, v in said.items() if k != "rope_theta"}
    for want, keys in (
            (plain, dict(rope_theta=77.0, rope_parameters=plain["config"]["rope_parameters"])),
            (plain, dict(rope_theta=77.0, rope_scaling=plain["config"]["rope_parameters"])),
            (linear, dict(rope_parameters=other, rope_scaling=said)),
            (linear, dict(rope_parameters=other, rope_scaling=bare)),  # theta: the default
            (linear, dict(rope_theta=said["rope_theta"], rope_parameters=other,
                          rope_scaling=bare)),
            (linear, dict(rope_parameters=said, rope_scaling=None, rope_theta=None))):
        for order in (list(keys), list(reversed(keys))):
            config = dict(want["config"])
            del config["rope_parameters"]
            config.update((k, keys[k]) for k in order)
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            check_model(runs, f"{keys}", folder, want, [(1, "fused")])


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    families(program)
    variants(program)
    several_sources(program)
finish()
