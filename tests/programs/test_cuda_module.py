"""Tests --device cuda on the emulated device when something is missing: the CUDA module, a device,
NCCL, memory, or an algorithm of cuBLASLt. One sentence names what is missing, unless the program
can do without it."""
from inference_runs import *  # noqa: F403

EMULATED = os.path.join(BUILD, "tests", "syntorch_cuda_emulated.so")


class Module:
    """A context in which programs run with this CUDA module and these environment variables."""

    def __init__(self, path, **variables):
        self.variables = {"SYNTORCH_CUDA_MODULE": path, **variables}

    def __enter__(self):
        if self.variables["SYNTORCH_CUDA_MODULE"] == EMULATED and not os.path.exists(EMULATED):
            raise Skip("no C++ compiler made the emulated device")
        self.before = dict(ENV)
        ENV.update(self.variables)

    def __exit__(self, *_):
        ENV.clear()
        ENV.update(self.before)


def test_what_is_no_module():
    with Folder() as f:
        text = f.write("text.so", "no library")
        for path, says in [(f / "none.so", "cannot be loaded"), (text, "cannot be loaded"),
                           ("libm.so.6", "libm.so.6 is not a syntorch module")]:
            with Module(path):
                refuse(f, ["--device", "cuda"], 1, "--device cuda: ", says)


def test_no_device():
    with Folder() as f:
        for variables, says in [
            ({"SYN_EMULATED_DEVICES": "0"}, "there is no CUDA device"),
            ({"SYN_EMULATED_CAPABILITY": "7.0"}, "has compute capability 7.0; kernels need 7.5"),
            ({"SYN_EMULATED_FAIL": "cudaGetDeviceCount:1"}, "CUDA failed at looking for devices"),
        ]:
            with Module(EMULATED, **variables):
                refuse(f, ["--device", "cuda"], 1, "--device cuda: ", says)


def test_processes_are_as_threads():
    """Ranks that are MPI processes record the same ops as ranks that are threads."""
    if not MPI:
        raise Skip("no mpirun")
    seen = []
    for launcher in (None, MPI):
        with Folder() as f, Module(EMULATED, SYN_EMULATED_DEVICES="2"):
            expect_ok(f.run("--device", "cuda", "--tp", "2", "--visualize_trace", "--out_dir",
                            "out", launcher=launcher))
            with open(f / "out/tensor_trace_graph.json", encoding="utf-8") as file:
                nodes = json.load(file)["nodes"]
            seen.append([(n["id"], n.get("op"), n.get("shape"), n.get("group")) for n in nodes])
    assert seen[0] == seen[1] and len(seen[0]) > 100


def test_no_nccl():
    """Two ranks with a device each need NCCL. One rank, and two ranks that share a device, do
    not."""
    with Folder() as f:
        with Module(EMULATED, SYN_EMULATED_DEVICES="2", SYN_EMULATED_NO_NCCL="it is gone"):
            expect_ok(f.run("--device", "cuda"))
            refuse(f, ["--device", "cuda", "--tp", "2"], 1,
                   "cannot load NCCL, which ranks with one CUDA device each use: it is gone")
            ENV["SYNTORCH_CUDA_SHARED"] = "1"
            expect_ok(f.run("--device", "cuda", "--tp", "2"))


def test_too_little_memory():
    with Folder() as f, Module(EMULATED, SYN_EMULATED_MEMORY=str(1 << 20)):
        refuse(f, ["--device", "cuda"], 1, "out of memory", "but its device has")


def test_no_algorithm():
    """If cuBLASLt has no algorithm for a product, the plain kernel computes it. The generated text
    is the same."""
    seen = []
    for variables in {}, {"SYN_EMULATED_FAIL": "cublasLtMatmulAlgoGetHeuristic:1"}:
        with Folder() as f, Module(EMULATED, **variables):
            out = expect_ok(f.run("--device", "cuda"))
            seen.append([line for line in out.splitlines() if line.startswith("text:")])
    assert seen[0] == seen[1] and len(seen[0]) == 1, seen


if __name__ == "__main__":
    main(globals())
