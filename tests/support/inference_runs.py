"""Runs the inference program as a user does, in temporary folders, and checks its output and its
files. Shared by test_inference*.py and other tests, which import all names and end with
main(globals())."""
import glob
import itertools
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

BUILD, SOURCE = os.environ["SYN_BUILD"], os.environ["SYN_SOURCE"]
PROGRAM = os.path.join(BUILD, "inference")
REFERENCE = os.path.join(SOURCE, "tests", "reference")
TINY = os.path.join(SOURCE, "examples", "configs", "gpt3-tiny.json")
MPIRUN = shutil.which("mpirun")
MPI = [MPIRUN, "-n", "2"] if MPIRUN else None
SANITIZED = subprocess.run(["grep", "-q", "__asan_init\\|__tsan_init", PROGRAM]).returncode == 0
HANGS = 500  # seconds; stops only programs that hang
ENV = dict(os.environ, TMPDIR=os.environ.get("TMPDIR", "/tmp"))


class Folder:
    """A temporary folder in which programs run. It has a link to examples/, which contains the
    default configuration."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="syntorch-")
        os.symlink(os.path.join(SOURCE, "examples"), os.path.join(self.path, "examples"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(self / name, "w", encoding="utf-8") as f:
            f.write(text)
        return self / name

    def files(self, name=""):
        """Returns the names of all files in the folder or in its subfolder `name`, except for
        examples/."""
        found = []
        for base, folders, names in os.walk(self / name):
            if "examples" in folders:
                folders.remove("examples")
            found += [os.path.relpath(os.path.join(base, n), self / name) for n in names]
        return sorted(n for n in found if n != "examples")

    def run(self, *args, launcher=None, limit=None, **kwargs):
        command = (launcher or []) + [PROGRAM] + [str(a) for a in args]
        if limit:
            command = ["sh", "-c", f'ulimit -v {limit}; exec "$0" "$@"'] + command
        env = {**ENV, "ASAN_OPTIONS": "detect_leaks=0"} if launcher else ENV  # MPI leaks memory
        return subprocess.run(command, cwd=self.path, env=env, capture_output=True, timeout=HANGS,
                              **kwargs)


def text_of(result):
    return (result.stdout + result.stderr).decode("utf-8", "replace")


def expect_ok(result):
    assert result.returncode == 0, text_of(result)
    return result.stdout.decode("utf-8")


def sentence_of(result, code):
    """Checks that the program exited with `code` and printed one sentence. Returns the sentence."""
    assert result.returncode == code, \
        f"exit code {result.returncode}, want {code}: {text_of(result)}"
    lines = [line for line in result.stderr.decode("utf-8").split("\n")
             if line.startswith("inference: ") and not line.startswith("inference: note: ")]
    assert len(lines) == 1, text_of(result)
    assert len(lines[0]) > len("inference: ") + 10, lines[0]
    return lines[0]


def refuse(folder, args, code, *says, **kwargs):
    """Checks that the program exits with `code`, prints one sentence with these words and nothing
    on standard output, and creates or removes no files. Returns the sentence."""
    before = folder.files()
    result = folder.run(*args, **kwargs)
    line = sentence_of(result, code)
    for part in says:
        assert part in line, f"{line!r} lacks {part!r}"
    if not kwargs.get("launcher"):
        assert not result.stdout, result.stdout
        said = [said for said in result.stderr.decode("utf-8").split("\n")
                if not said.startswith("inference: note: ")]
        assert said == [line, ""], result.stderr
    assert folder.files() == before, set(folder.files()) ^ set(before)
    return line


def read_npy(path):
    """Returns the shape and the numbers of a version 1 .npy file of little-endian f32."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (n,) = struct.unpack("<H", data[8:10])
    assert (10 + n) % 64 == 0 and data[9 + n:10 + n] == b"\n"
    header = eval(data[10:10 + n].decode("ascii"), {})
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    return header["shape"], struct.unpack(f"<{math.prod(header['shape'])}f", data[10 + n:])


def read_rows(path):
    (n, columns), values = read_npy(path)
    return [values[i * columns:(i + 1) * columns] for i in range(n)]


def difference(got, want):
    """Returns the largest absolute difference, divided by the largest absolute number in `want`.
    Accepts lists of numbers or lists of rows."""
    if isinstance(want[0], (list, tuple)):
        got, want = (list(itertools.chain(*rows)) for rows in (got, want))
    assert len(got) == len(want), (len(got), len(want))
    return max(abs(a - b) for a, b in zip(got, want)) / max(abs(b) for b in want)


def read_tensors(path):
    """Returns dtype, shape and bytes of each tensor in a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items()}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def load_json(path):
    def refuse_constant(name):
        raise ValueError(f"{name} is not JSON")

    with open(path, encoding="utf-8") as f:
        return json.load(f, parse_constant=refuse_constant)


def checkpoint(name):
    return os.path.join(REFERENCE, name)


def write_ids(folder, texts, name="ids.txt"):
    return folder.write(name, "".join(" ".join(map(str, t)) + "\n" for t in texts))


def config(**changes):
    with open(TINY, encoding="utf-8") as f:
        values = json.load(f)
    values.update(changes)
    return json.dumps({k: v for k, v in values.items() if v is not None})


def summary(folder, *args, **kwargs):
    return json.loads(expect_ok(folder.run("--json", *args, **kwargs)))


ONE_RANK = ["tensor_trace_chakra.json", "tensor_trace_graph.json", "tensor_trace_graph.png",
            "tensor_trace_graph.svg", "timeline.json", "trace.0.et", "trace.comm_group.json",
            "trace.html"]
COMM = ["tensor_comm_graph.png", "tensor_comm_graph.svg"]


def promised(tp):
    return sorted(ONE_RANK + (COMM if tp > 1 else []) + [f"trace.{r}.et" for r in range(1, tp)])


def check_png(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND", path
    if shutil.which("pngcheck"):
        subprocess.run(["pngcheck", "-q", path], check=True, capture_output=True)


def check_xml(path):
    if shutil.which("xmllint"):
        subprocess.run(["xmllint", "--noout", "--nonet", path], check=True, capture_output=True)
    with open(path, encoding="utf-8") as f:
        assert "<svg" in f.read()


def check_graph(path, tp):
    data = load_json(path)
    ranks = {n["rank"] for n in data["nodes"]}
    assert ranks == set(range(tp)), ranks
    try:
        import networkx as nx
    except ImportError:
        return
    graph = nx.readwrite.json_graph.node_link_graph(data)
    assert type(graph) is nx.DiGraph and nx.is_directed_acyclic_graph(graph)


def check_folder(folder, tp):
    assert sorted(os.listdir(folder)) == promised(tp), sorted(os.listdir(folder))
    for path in glob.glob(folder + "/*.png"):
        check_png(path)
    for path in glob.glob(folder + "/*.svg"):
        check_xml(path)
    check_graph(folder + "/tensor_trace_graph.json", tp)
    chakra = load_json(folder + "/tensor_trace_chakra.json")
    assert [r["rank"] for r in chakra["ranks"]] == list(range(tp))
    events = load_json(folder + "/timeline.json")["traceEvents"]
    assert {e["pid"] for e in events if e["ph"] == "X"} == set(range(tp))
    tools = os.environ.get("SYN_SHARED_TOOLS")
    if tools:
        done = subprocess.run([sys.executable, tools + "/etcheck.py", folder + "/trace", "--ranks",
                               str(tp)], capture_output=True)
        assert done.returncode == 0, text_of(done)


def need_mpi(known=[]):  # noqa: B006 - caches the result
    if not MPI:
        raise Skip("no mpirun")
    if not known:
        with Folder() as f:
            known.append(f.run("--tp", 2, "--quiet", launcher=MPI))
    if b"has no MPI" in known[0].stderr:
        raise Skip("this build has no MPI")
    expect_ok(known[0])


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def main(tests):
    """Runs the functions in `tests`, a dictionary by name, whose names begin with test_ and contain
    argv[1] if it is given, in the order of the file. A test may raise Skip."""
    chosen = [(n, t) for n, t in sorted(tests.items(),
                                        key=lambda i: getattr(i[1], "__code__", None)
                                        and i[1].__code__.co_firstlineno or 0)
              if n.startswith("test_") and (len(sys.argv) < 2 or sys.argv[1] in n)]
    failed = skipped = 0
    for name, test in chosen:
        start = time.monotonic()
        try:
            test()
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Skip as why:
            skipped += 1
            print(f"skipped {name}: {why}", flush=True)
        except Exception as problem:  # noqa: BLE001 - run the other tests
            failed += 1
            print(f"FAILED {name}: {type(problem).__name__}: {problem}", flush=True)
    print(f"{len(chosen)} tests, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not chosen else 77 if skipped == len(chosen) else 0)


class Skip(Exception):
    pass


__all__ = [n for n in dir() if not n.startswith("_")]
