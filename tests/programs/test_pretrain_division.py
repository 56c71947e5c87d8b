"""Uneven stages and rank orders of the pretraining program: the losses and parameters of one rank,
on threads and over MPI; checkpoints that resume with another division; predictions and memory by
stage; and the metadata and groups of traces."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, finish  # noqa: E402
from pretrain_runs import (GPT, MPIRUN, RESUMED_STEPS, Runs, as_one_rank, launcher,  # noqa: E402
                           losses, resumed_as, stage_bytes)

# All have four microbatches of two samples per step in total. The third and the fourth have parts
# without layers.
UNEVEN = [
    "--num-gpus 2 --pp 2 --gradient-accumulation-steps 4 --layers-per-stage 3,1",
    "--num-gpus 8 --tp 2 --pp 2 --gradient-accumulation-steps 2 --layers-per-stage 1,3"
    " --rank-order pp-dp-tp",
    "--num-gpus 4 --tp 2 --pp 2 --sp --gradient-accumulation-steps 4 --schedule interleaved --vp 2"
    " --layout E||t*3|tL --rank-order tp-cp-ep-pp-dp",
    "--num-gpus 8 --pp 4 --gradient-accumulation-steps 2 --schedule zb-h1 --layout Et|(t)*3||L",
    "--num-gpus 3 --pp 3 --gradient-accumulation-steps 4 --count-embedding --count-loss",
]


def resumed(runs):
    """A checkpoint resumes with another division, as if the run had not been interrupted; with the
    same one, bit for bit, however it is given."""
    shapes = ["--num-gpus 2 --pp 2 --gradient-accumulation-steps 4", *UNEVEN]
    same = {UNEVEN[0]: "--num-gpus 2 --pp 2 --gradient-accumulation-steps 4 --layout Et*3|tL",
            shapes[0]: shapes[0] + " --layers-per-stage 2,2"}
    for i, shape in enumerate(shapes):
        whole, _ = runs.train("gpt4", *RESUMED_STEPS, "--max-steps", "4", *shape.split())
        _, folder = runs.train("gpt4", *RESUMED_STEPS, "--max-steps", "2", *shape.split())
        resumed_as(runs, folder, whole, same.get(shape, shape), True)
        resumed_as(runs, folder, whole, shapes[(i + 1) % len(shapes)], False)


def different_ranks(runs):
    """All MPI processes must have the same division."""
    if not MPIRUN:
        return
    other = ('[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] && set -- "$@" --layers-per-stage 1,3\n'
             'exec "$@"')
    done = runs.start("--model-config", "gpt4.json", "--max-seq-length", "16", "--num-gpus", "2",
                      "--pp", "2", "--save-dir", "different",
                      launcher=[*launcher("2"), "sh", "-c", other, "sh"])
    check(done.returncode != 0 and "rank 1 was started with another division of layers into stages "
          "than rank 0" in done.stderr, done.stderr)


def predicted(runs, *options):
    done = runs.start("--device", "meta", "--json", "--model-config", "wide.json", "--batch-size",
                      "4", "--max-seq-length", "1024", "--dropout", "0", *options)
    check(done.returncode == 0, f"{options}: {done.stderr}")
    return json.loads(done.stdout)


def uneven_memory(runs):
    """The memory of a stage without layers is that of embedding or head alone. Moving layers from a
    stage to another moves their memory."""
    common = "--num-gpus 4 --pp 4 --gradient-accumulation-steps 8 --layers-per-stage".split()
    stages = {layers: stage_bytes(predicted(runs, *common, layers))
              for layers in ("2,2,2,2", "0,3,3,2", "2,1,3,2")}
    even, empty, moved = stages.values()
    check(empty[0] < even[0] / 4 and empty[1] > even[1] and empty[3] == even[3], f"{stages}")
    check(moved[1] < even[1] and moved[2] > even[2] and moved[::3] == even[::3], f"{stages}")


def predicted_exactly(runs):
    """The prediction from a few microbatches of one rank of each stage has the time and the memory
    of a trace of all ranks and microbatches, whichever stage is the slowest."""
    for options in ("--num-gpus 8 --tp 2 --pp 4 --gradient-accumulation-steps 31"
                    " --layers-per-stage 1,4,3,0",
                    "--num-gpus 4 --pp 4 --gradient-accumulation-steps 30 --schedule zb-h1"
                    " --layout Ettt|t|tttt|L",
                    "--num-gpus 4 --pp 4 --gradient-accumulation-steps 288 --schedule interleaved"
                    " --vp 2 --layout E|ttt|(t|)*5L"):
        said = predicted(runs, *options.split())
        whole = predicted(runs, *options.split(), "--enable-tracing")
        a, b = said["predicted_step_ns"], whole["predicted_step_ns"]
        check(abs(a - b) < 1e-6 * b, f"{options}: {a} and {b}")
        check(said["memory"] == whole["memory"], f"{options}: {said} and {whole}")
        layers = said["layers_per_stage"]
        check(sum(layers) == 8 and len(layers) == said["pp"] * said["vp"], f"{options}: {layers}")


def traced(runs, folder, *options):
    """Traces a step on meta. Returns the folder of the trace."""
    done = runs.start("--device", "meta", "--model-config", "gpt4.json", "--enable-tracing",
                      "--max-seq-length", "16", "--batch-size", "1",
                      "--gradient-accumulation-steps", "4", "--out-dir", folder, *options)
    check(done.returncode == 0, f"{options}: {done.stderr}")
    return runs.path(folder)


def metadata(runs):
    """Traces of uneven stages name their layers, and traces of another rank order that order."""
    for options, want in (("--num-gpus 2 --pp 2", {}),
                          ("--num-gpus 2 --pp 2 --layers-per-stage 2,2 --rank-order tp-dp-pp", {}),
                          ("--num-gpus 2 --pp 2 --layout Et*3|tL", {"layers_per_stage": "3,1"}),
                          ("--num-gpus 2 --pp 2 --rank-order pp,dp,tp",
                           {"rank_order": "pp-dp-tp"})):
        folder = traced(runs, "meta", "--visualize_trace", *options.split())
        with open(os.path.join(folder, "trace_graph.json"), encoding="utf-8") as f:
            found = json.load(f)["graph"]["metadata"]
        got = {k: v for k, v in found.items() if k in ("layers_per_stage", "rank_order")}
        check(got == want, f"{options}: {got}")


def groups(runs):
    """The groups of every rank order are those of Megatron's enumeration (expect2.py)."""
    tools = os.environ.get("SYN_SHARED_TOOLS")
    if not tools or not os.path.isfile(os.path.join(tools, "expect2.py")):
        return
    for order in ("tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "dp-pp-tp", "pp-tp-dp", "pp-dp-tp",
                  "tp-cp-ep-pp-dp"):
        for tp, dp, pp, cp in ((2, 2, 2, 1), (2, 1, 4, 1), (4, 3, 2, 1), (2, 2, 2, 2),
                               (1, 2, 2, 4)):
            if cp > 1 and order == "tp-cp-ep-pp-dp":  # cp is not beside dp
                continue
            folder = traced(runs, "groups", "--num-gpus", str(tp * dp * pp * cp), "--tp", str(tp),
                            "--pp", str(pp), "--cp", str(cp), "--rank-order", order, "--dropout",
                            "0")
            with open(os.path.join(folder, "trace.0_kineto.json"), encoding="utf-8") as f:
                opened = json.load(f)["distributedInfo"]["pg_config"]
            full = order if "cp" in order else order.replace("dp", "cp-ep-dp")
            want = json.loads(subprocess.run(
                [sys.executable, os.path.join(tools, "expect2.py"), "--groups", "--tp", str(tp),
                 "--dp", str(dp), "--pp", str(pp), "--cp", str(cp), "--rank-order", full],
                check=True, capture_output=True).stdout)
            for axis in ("tp", "dp_cp", "cp", "pp") if cp > 1 else ("tp", "dp", "pp"):
                got = sorted(g["ranks"] for g in opened if g["pg_desc"].startswith(axis))
                check(got == sorted(g for g in want[axis] if len(g) > 1),
                      f"{order}, tp {tp}, dp {dp}, pp {pp}, cp {cp}: {axis}: {got}")


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    threads = [(layout, ()) for layout in UNEVEN]
    mpi = [(UNEVEN[2], launcher("4"))] if MPIRUN else []
    as_one_rank(program, {"gpt4": threads + mpi, "bert4": threads[2:4] + mpi,
                          "llama4": threads[2:4] + mpi})
    resumed(program)
    different_ranks(program)
    with open(program.path("wide.json"), "w", encoding="utf-8") as f:
        json.dump({**GPT, "n_layer": 8, "n_embd": 2048, "n_head": 16, "vocab_size": 512,
                   "n_positions": 1024}, f)
    predicted_exactly(program)
    uneven_memory(program)
    metadata(program)
    groups(program)
finish()
