"""Tests options of the commands: how inputs and choices are given, earlier names of options,
options that are refused because they would have no effect, and outputs that are checked before the
work starts."""
import fcntl

from tool_runs import *  # noqa: F403


def test_how_inputs_and_choices_are_given():
    """An input may be given with or without --input, before or after options. A choice must be one
    of the option's words."""
    with Folder() as f:
        traced(f)
        for command in ("stat", "validate", "convert-all", "weights"):
            refused(f, [command], "needed (--help explains)", code=2)
            refused(f, [command, "--input", "a", "b"], "either with --input or without it", code=2)
        for command in ("convert-all", "weights"):
            refused(f, [command, "a", "b"], "one ", "at a time", code=2)
        said = {run(f, "stat", *args).stdout for args in (
            ["--json", "out/trace"], ["out/trace", "--json"], ["--json", "--input", "out/trace"],
            ["--max-unpacked-mib", 5, "out/trace", "--json"],
            ["out/trace.0.et", "--json", "out/trace.1.et"])}
        assert len(said) == 1 and json.loads(said.pop())["ranks"], said
        export = ["export", "--input", "out/tensor_trace_graph.json", "--output", "g.json"]
        for args, says in (
                (["--copies", "some"], "--copies must be auto, full or once, not 'some'"),
                (["--nx_key", "link"], "--nx_key must be both, links or edges, not 'link'"),
                (["--nx_key="], "--nx_key must be both, links or edges, not ''")):
            refused(f, [*export, *args], says, code=2)
        refused(f, ["convert-all", ".", "--profile", "astra"],
                "--profile must be full or astra-sim, not 'astra'", code=2)
        r = run(f, *export, "--nx-key", "edges")
        with open(f / "g.json") as g:
            assert r.returncode == 0 and not {"links", "edges"} <= json.load(g).keys(), text_of(r)


# Command, earlier name of an option, current name.
ALIASES = [
    *([[program], alias, name] for program in ("inference", "pretrain") for alias, name in
      (("model_name", "model"), ("trace_output_dir", "out_dir"), ("hw_config", "hw"))),
    [["syntorch", "astra-sim"], "out", "out_dir"],
    [["syntorch", "convert-all"], "output", "out_dir"],
]
# Command lines of earlier projects, which should keep working.
FLAGS = [
    ["pretrain", "--model-name", "gpt2", "--max-seq-length", "64", "--batch-size", "2",
     "--learning-rate", "5e-5", "--num-epochs", "3", "--max-steps", "2", "--num-gpus", "2",
     "--enable-tracing", "--skip-eval", "--trace-output-dir", "traces", "--trace-name", "quick",
     "--save-dir", "saved", "--cache-dir", "cache", "--device", "meta", "--quiet"],
    ["inference", "--num_input_tokens", "8", "--num_output_tokens", "2", "--tp", "2",
     "--batch_size", "1", "--hw_config", "h100", "--visualize_trace", "--trace_output_dir",
     "traces", "--model_name", "gpt3-125m", "--device", "meta", "--quiet"],
]


def help_of(folder, *command):
    return expect_ok(subprocess.run([os.path.join(BUILD, command[0]), *command[1:], "--help"],
                                    cwd=folder.path, env=ENV, capture_output=True))


def test_earlier_names():
    """An earlier name of an option sets the option, with dashes or underscores, and is not in
    --help."""
    with Folder() as f:
        for command, alias, name in ALIASES:
            options = re.findall(r"^  --(\w+)", help_of(f, *command), re.M)
            assert name in options and alias not in options, f"{command} {alias}: {options}"
            for spelled in (alias, alias.replace("_", "-")):
                for given in ([f"--{spelled}", "seen"], [f"--{spelled}=seen"]):
                    said = help_of(f, *command, *given)
                    shown = re.search(rf"^  --{name} .*\n(?: {{8}}.*\n)*", said, re.M)[0]
                    assert "[seen]" in shown, f"{command} {given}: {shown}"
        for command in FLAGS:
            expect_ok(subprocess.run([os.path.join(BUILD, command[0]), *command[1:]], cwd=f.path,
                                     env=ENV, capture_output=True, timeout=HANGS))
        assert {"quick.0.et", "quick.1.et", "trace.0.et"} <= set(os.listdir(f / "traces"))


EXPORT = ["syntorch", "export", "--input", "none.json", "--output"]
ROWS = os.path.join(SOURCE, "tests", "measured", "all_reduce_a100.csv")
# Command lines with an option without effect, and a part of the message about it.
WITHOUT_EFFECT = [
    *([["calibrate", "--measure", *more], f"{more[0]} has no effect with --measure"] for more in
      (["--rows", "absent"], ["--rows_stack", "x"], ["--fix", "launch_us"], ["--rounds", "3"],
       ["--check"], ["--predictions", "x.csv"])),
    [["calibrate", "--measure", "--hw", "h100"], "--hw has no effect when --measure"],
    [["calibrate", "--rows", ROWS, "--device", "cuda"], "--device has no effect without"],
    *([["calibrate", "--check", "--rows", ROWS, *more], f"{more[0]} has no effect with --check"]
      for more in (["--fix", "launch_us"], ["--rounds", "3"], ["--output", "x.json"])),
    *([["inference", "--temperature", "0", *more], f"{more[0]} has no effect with --temperature 0"]
      for more in (["--top_k", "5"], ["--top_p", "0.5"])),
    [["inference", "--out-dir", "x"], "--out_dir has no effect without --visualize_trace"],
    [["pretrain", "--enable-tracing", "--trace-name", ""], "--trace-name '' names no file"],
    [["pretrain", "--enable-tracing", "--trace-name", "a/"], "--trace-name 'a/' names no file"],
    [["pretrain", "--enable-tracing", "--trace-name", "a/.."], "--trace-name 'a/..' names no file"],
    *([[*EXPORT, "x.json", *more], f"{more[0]} applies only to pictures"] for more in
      (["--page", "a4"], ["--view", "graph"], ["--comm"], ["--no_fold"], ["--detail", "ops"])),
    [[*EXPORT, "x.svg", "--view", "timeline", "--detail", "ops"], "--detail applies only to"],
    [[*EXPORT, "x.svg", "--view", "timeline", "--comm"], "--comm draws a graph"],
    [[*EXPORT, "x.svg", "--nx_key", "links"], "--nx_key applies only to json; omit it"],
    [[*EXPORT, "x.svg", "--copies", "once"], "--copies applies only to json, chakra, chrome"],
    [[*EXPORT, "x.et", "--title", "T"],
     "--title applies only to pictures, json, chrome, gantt and html"],
    [[*EXPORT, "x.svg", "--compare", "x"], "--compare applies only to html; omit it"],
    [[*EXPORT, "x.svg", "--profile_memory"], "--profile_memory applies only to kineto;"],
    [[*EXPORT, "x.svg", "--with_stack"], "--with_stack applies only to kineto, stacks"],
    [[*EXPORT, "x.svg", "--all_ranks"], "--all_ranks applies only to an input trace.<rank>.et"],
    [["syntorch", "tokenize", "--tokenizer", "bytes", "--decode", "--plain", "65"],
     "--plain has no effect with --decode"],
]
# Commands that check their output before they read their input. The inputs do not exist.
BEFORE_WORK = [
    ["calibrate", "--measure", "--output"],
    ["calibrate", "--rows", "none.csv", "--output"],
    ["calibrate", "--rows", "none.csv", "--predictions"],
    ["inference", "--save_logits"],
    ["inference", "--embeddings"],
    ["syntorch", "export", "--input", "none.json", "--format", "svg", "--output"],
    ["syntorch", "link", "--host", "none.json", "--device", "none.json", "--output"],
    ["syntorch", "convert", "pytorch", "--host", "none.json", "--output"],
]


def test_options_without_effect():
    with Folder() as f:
        for command, says in WITHOUT_EFFECT:
            r = subprocess.run([os.path.join(BUILD, command[0]), *command[1:]], cwd=f.path, env=ENV,
                               capture_output=True, timeout=HANGS)
            assert r.returncode == 2 and not r.stdout and r.stderr.count(b"\n") == 1 and \
                says in r.stderr.decode(), f"{command}: {r.returncode}: {text_of(r)}"
        r = subprocess.run([os.path.join(BUILD, "calibrate"), "--check", "--rows", ROWS,
                            "--rows_stack", "none"], cwd=f.path, env=ENV, capture_output=True)
        assert r.returncode == 1 and b"has no column \"stack\"" in r.stderr, text_of(r)
        host_and_device(f, "job")
        r = run(f, "convert", "pytorch", "--host", "job_host.json", "--device", "job_device.json",
                "--output", "x.et", "--json", "--quiet")
        assert r.returncode == 0 and json.loads(r.stdout), f"--json --quiet: {text_of(r)}"
        for name in ("", "out/", ".", "out/.."):  # names of files would begin with a dot
            f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
            refused(f, ["convert", "text", "--input", "w.txt", "--num_npus", 2, "--output", name],
                    f"the prefix '{name}' has no file name")


def test_outputs_are_checked_before_the_work():
    with Folder() as f:
        f.write("file", "x")
        for command in BEFORE_WORK:
            for output in ("absent/x.et", "file/x.et", "/proc/x.et"):
                r = subprocess.run([os.path.join(BUILD, command[0]), *command[1:], output],
                                   cwd=f.path, env=ENV, capture_output=True, timeout=HANGS)
                folder = output[:-5]
                assert r.returncode == 1 and not r.stdout and r.stderr.count(b"\n") == 1 and \
                    f"cannot write {output}: the folder {folder} " in r.stderr.decode(), \
                    f"{command} {output}: {r.returncode}: {text_of(r)}"
        for command in (["export", "--input", "none.json", "--format", "et", "--output"],
                        ["export", "--input", "none.json", "--format", "kineto", "--output"],
                        ["astra-sim", "none", "--out_dir"]):
            for output, folder in (("/proc/x", "/proc"), ("file/x/y", "file"),
                                   ("/proc/x/y", "/proc")):
                refused(f, [*command, output], f"cannot write {output}",
                        f": the folder {folder} does not allow new files")
            # The folder can be created, so the message is about the missing input.
            refused(f, [*command, "new/x"], "none")
            assert not os.path.exists(f / "new"), command
            if command[0] == "export":
                refused(f, [*command, "a" * 241], "is too long")
        r = subprocess.run([os.path.join(BUILD, "pretrain"), "--max-steps", "9999999",
                            "--enable-tracing", "--trace-name", "a" * 241], cwd=f.path, env=ENV,
                           capture_output=True, timeout=HANGS)
        assert r.returncode == 1 and b"is too long" in r.stderr and not r.stdout, text_of(r)


def test_one_run_at_a_time_writes_a_set():
    """A command is refused while another run writes the same files, and the message names that run.
    Other names in the folder can be used."""
    with Folder() as f:
        traced(f)
        f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
        for rank in (0, 1):
            host_and_device(f, f"job.{rank}")
        graph = ["syntorch", "export", "--input", "out/tensor_trace_graph.json", "--format"]
        run_ = ["inference", "--tp", 2, "--num_output_tokens", 1, "--quiet"]
        for command, output, lock, advice in (
                ([*graph, "et", "--output"], "d/set", ".set.lock", "--output"),
                ([*graph, "kineto", "--output"], "d/set", ".set.lock", "--output"),
                (["syntorch", "convert", "text", "--input", "w.txt", "--num_npus", 2, "--output"],
                 "d/set", ".set.lock", "--output"),
                (["syntorch", "convert", "pytorch", "--host", "job.*_host.json", "--output"],
                 "d/set", ".set.lock", "--output"),
                (["syntorch", "astra-sim", "out/trace", "--out_dir"], "d", ".lock", "--out_dir"),
                ([*run_, "--visualize_trace", "--out_dir"], "d", ".trace.lock", "--out_dir"),
                ([*run_, "--save_weights"], "d", ".lock", "--save_weights")):
            command = [os.path.join(BUILD, command[0]), *map(str, command[1:])]
            os.makedirs(f / "d", exist_ok=True)
            with open(f / f"d/{lock}", "w", encoding="utf-8") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                print("77 1764269485 elsewhere pretrain", file=held, flush=True)
                r = subprocess.run([*command, output], cwd=f.path, env=ENV, capture_output=True,
                                   timeout=HANGS)
                said = r.stderr.decode()
                assert r.returncode == 1 and said.count("\n") == 1 and \
                    "another run (pretrain, process 77 on elsewhere, since 2025-11-2" in said and \
                    said.endswith(f"or name another {advice}\n"), f"{command}: {text_of(r)}"
                assert os.listdir(f / "d") == [lock], f"{command}: {os.listdir(f / 'd')}"
                other = output.replace("set", "other") if "set" in output else "e"
                r = subprocess.run([*command, other], cwd=f.path, env=ENV, capture_output=True,
                                   timeout=HANGS)
                assert r.returncode == 0, f"{command} {other}: {text_of(r)}"
            r = subprocess.run([*command, output], cwd=f.path, env=ENV, capture_output=True,
                               timeout=HANGS)
            assert r.returncode == 0 and lock not in os.listdir(f / "d"), f"{command}: {text_of(r)}"
            shutil.rmtree(f / "d")


main(globals())
