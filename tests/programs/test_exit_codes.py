"""Tests the exit codes in docs/commands.md and the error of --json for every command: --help, an
unknown option, an option without its value, a missing file and a damaged file. Also tests commands
that read standard input."""
import gzip

from tool_runs import *  # noqa: F403

ROWS = ["calibrate", "--check", "--rows"]
JSON = ["json", "--output", "x", "--input"]
EXPORT = ["export", "--output", "x.svg", "--input"]
TEXT = ["convert", "text", "--output", "x", "--num_npus", 2, "--input"]
PYTORCH = ["convert", "pytorch", "--output", "x.et", "--host"]
LINK = ["link", "--output", "x.json", "--device", "device.json", "--host"]
REPAIR = ["repair", "--output", "x.json", "--input"]
WHAT_IF = ["what-if", "--drop", "COMPUTE", "--input"]
# Command line up to the name of an input; an option that needs a value.
COMMANDS = [
    (["inference", "--weights"], "--tp"), (["pretrain", "--max-steps", 1, "--data"], "--lr"),
    (["synth", "--out", "x", "--model-config"], "--tp"), (ROWS, "--hw"),
    (["astra-sim", "--input"], "--hw"), (["convert-all", "--input"], "--out_dir"),
    (PYTORCH, "--edges"), (TEXT, "--num_passes"), (["diff", "good.0.et"], "--max_unpacked_mib"),
    (["expand", "--out", "x", "--input"], "--groups"), (EXPORT, "--format"), (JSON, "--rank"),
    (LINK, "--output"), (REPAIR, "--object"), (["simulate", "--input"], "--slow"),
    (["stamp", "--ranks", 5, "--input"], "--ranks"), (["stat", "--input"], "--input"),
    (["tokenize", "a", "--tokenizer"], "--input"), (["validate", "--input"], "--groups"),
    (["weights", "--input"], "--input"), (WHAT_IF, "--scale")]
PROGRAMS = ("inference", "pretrain", "synth", "calibrate")


def start(folder, words, **kwargs):
    words = [str(word) for word in words]
    if words[0] not in PROGRAMS:
        words = ["syntorch", *words]
    return subprocess.run([os.path.join(BUILD, words[0]), *words[1:]], cwd=folder.path, env=ENV,
                          capture_output=True, timeout=HANGS, **kwargs)


def name_of(words):
    return "-".join(words[:2]) if words[0] == "convert" else words[0]


def check_failure(folder, words, code):
    """The command fails with one sentence; with --json it also prints an object with it."""
    plain, done = start(folder, words), start(folder, [*words, "--json"])
    for r in (plain, done):
        assert r.returncode == code, f"{words}: {r.returncode}: {text_of(r)[:500]}"
    assert not plain.stdout, f"{words}: {plain.stdout[:500]}"
    said = json.loads(done.stdout)
    assert list(said) == ["schema", "error"], f"{words}: {said}"
    assert said["schema"] == f"syntorch.{name_of(words)}/1", f"{words}: {said}"
    assert said["error"]["exit_code"] == code, f"{words}: {said}"
    lines = [line.split(": ", 1)[1] for line in done.stderr.decode().splitlines()
             if line.startswith(("syntorch ", *(f"{p}: " for p in PROGRAMS)))
             and ": note: " not in line]
    assert lines == [said["error"]["message"]], f"{words}: {lines} {said}"


def test_every_command_has_the_exit_codes():
    with Folder() as f:
        traced(f)
        shutil.copy(f / "out/trace.0.et", f / "good.0.et")
        host_and_device(f, "job")
        os.rename(f / "job_device.json", f / "device.json")
        write_bytes(f, "damaged", b"\x07\x01\x02 damaged \xff" * 9)
        for words, option in COMMANDS:
            command = words[:2] if words[0] == "convert" else words[:1]
            done = start(f, [*command, "--help"])
            assert done.returncode == 0 and b"--json" in done.stdout and not done.stderr, \
                f"{command}: {text_of(done)[:500]}"
            check_failure(f, [*command, "--nonsense"], 2)
            check_failure(f, [*words, "missing"], 1)
            if words[0] == "validate":  # the damage is its result
                done = start(f, [*words, "damaged", "--json"])
                assert done.returncode == 1 and json.loads(done.stdout)["problems"] > 0
            else:
                check_failure(f, [*words, "damaged"], 1)
            done = start(f, [*command, option])
            assert done.returncode == 2 and not done.stdout and option[2:] in \
                done.stderr.decode().replace("-", "_"), f"{command}: {text_of(done)[:500]}"


def test_json_and_a_file_do_not_share_standard_output():
    with Folder() as f:
        for words in (["inference", "--save_logits"], ["inference", "--embeddings"],
                      [*ROWS, "none.csv", "--predictions"],
                      ["calibrate", "--rows", "x", "--output"], ["expand", "x", "--out"],
                      ["export", "--input", "x", "--format", "svg", "--output"],
                      ["json", "--input", "x", "--output"],
                      ["link", "--host", "x", "--device", "x", "--output"],
                      ["repair", "--input", "x", "--output"],
                      ["convert", "pytorch", "--host", "x", "--output"]):
            done = start(f, [*words, "-", "--json"])
            said = json.loads(done.stdout)["error"]["message"]
            assert done.returncode == 2 and said == \
                f"--json and {words[-1]} - both write to standard output; omit one", said


def test_the_command_itself():
    with Folder() as f:
        for words, code in (([], 2), (["nonsense"], 2), (["convert"], 2), (["convert", "x"], 2),
                            (["--help"], 0), (["--version"], 0), (["convert", "--help"], 0)):
            done = run(f, *words)
            assert done.returncode == code and bool(done.stdout) == (code == 0), \
                f"{words}: {text_of(done)}"


# ---- Standard input ----

GROUPS = ["--groups", "out/trace.comm_group.json"]
# Arguments before the input; the input.
READERS = [
    (["stat", "--json"], "out/trace.0.et"), (["validate"], "out/trace.0.et"),
    (["simulate", "--json", *GROUPS], "out/trace.0.et"),
    ([*WHAT_IF[:-1], *GROUPS], "out/trace.0.et"),
    (["export", "--output", "-", "--format", "chrome", "--input"], "out/trace.0.et"),
    (["export", "--output", "-", "--format", "et", "--input"], "out/tensor_trace_chakra.json"),
    (["export", "--output", "-", "--format", "json", "--input"], "out/tensor_trace_graph.json"),
    (["json", "--output", "-", "--input"], "out/trace.0.et"),
    (["json", "--output", "-", "--rank", 1, "--input"], "out/tensor_trace_chakra.json"),
    (["repair", "--output", "-", "--input"], "job_host.json"),
    (["tokenize", "--tokenizer", "bytes", "--input"], "job_host.json"),
    (["convert", "pytorch", "--output", "-", "--host"], "job_host.json"),
    (["validate", "--json"], "recorded.et"),
]


def test_standard_input_is_read_like_a_file():
    with Folder() as f:
        traced(f)
        host_and_device(f, "job")
        expect_ok(run(f, "convert", "pytorch", "--host", "job_host.json", "--output",
                      "recorded.et"))
        for words, path in READERS:
            shutil.copy(f / path, f / "copy")  # without the rank in the name
            want = run(f, *words, "copy")
            said = want.stdout.replace(b"\ncopy: ", b"\nstandard input: ")
            if said.startswith(b"copy: "):
                said = said.replace(b"copy: ", b"standard input: ", 1)
            with open(f / "copy", "rb") as file:
                for kwargs in ({"input": file.read()}, {"stdin": file}):
                    got = run(f, *words, "-", **kwargs)
                    assert got.stdout and (got.returncode, got.stdout) == (
                        want.returncode, said), f"{words}: {text_of(got)[:500]}"
        with open(f / "copy", "rb") as file:
            packed = gzip.compress(file.read())
        got = run(f, "stat", "-", input=packed)
        assert expect_ok(got) == expect_ok(run(f, "stat", "copy")), text_of(got)
        with open(f / "examples/text_workload.txt", "rb") as file:
            expect_ok(run(f, *TEXT[:-1], "--input", "-", stdin=file))
        assert os.path.exists(f / "x.1.et"), f.files()


def test_standard_input_that_is_no_input():
    with Folder() as f:
        for words in (["astra-sim"], ["convert-all"], ["diff", "a"], ["expand", "--out", "x"],
                      ["stamp", "--ranks", "1"], ["weights"]):
            refused(f, [*words, "-"], "'-' is standard input, but this command reads", code=2,
                    stdin=subprocess.DEVNULL)
        for data, says in ((b"", "standard input is empty"), (b"{", "standard input")):
            refused(f, ["stat", "-"], says, input=data)
            refused(f, ["export", "--input", "-", "--output", "x.svg"], "standard input",
                    input=data)


main(globals())
