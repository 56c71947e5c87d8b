"""Tests the programs under the system's limits: results do not depend on the stack size (`ulimit
-s`), and a program fails if it cannot write to standard output because the disk is full or the
output is closed."""

from inference_runs import *  # noqa: F403

SYNTORCH = os.path.join(BUILD, "syntorch")


def small_stack(folder, kib, *args, launcher=()):
    """Like folder.run, but the shell limits the stack of each thread to `kib` KiB."""
    limited = ["sh", "-c", f'ulimit -s {kib}; exec "$0" "$@"', PROGRAM, *[str(a) for a in args]]
    env = {**ENV, "ASAN_OPTIONS": "detect_leaks=0"} if launcher else ENV
    return subprocess.run([*launcher, *limited], cwd=folder.path, env=env, capture_output=True,
                          timeout=HANGS)


def tokens(result):
    return json.loads(expect_ok(result))["tokens"]


def test_results_do_not_depend_on_the_stack():
    with Folder() as f:
        for tp in (1, 2):
            want = summary(f, "--tp", tp, "--num_output_tokens", 4)["tokens"]
            for kib in (96, 192, 320):
                got = tokens(small_stack(f, kib, "--tp", tp, "--num_output_tokens", 4, "--json"))
                assert got == want, f"tp {tp} on {kib} KiB: {got}, want {want}"


def test_results_do_not_depend_on_the_stack_over_mpi():
    if not MPI:
        raise Skip("no mpirun")
    with Folder() as f:
        want = summary(f, "--tp", 2, "--num_output_tokens", 4)["tokens"]
        got = tokens(small_stack(f, 96, "--tp", 2, "--num_output_tokens", 4, "--json",
                                 launcher=MPI))
        assert got == want, f"{got}, want {want}"


def test_pictures_on_a_small_stack():
    with Folder() as f:
        options = ["--device", "meta", "--tp", 2, "--visualize_trace", "--quiet"]
        expect_ok(f.run(*options, "--out_dir", "usual"))
        expect_ok(small_stack(f, 96, *options, "--out_dir", "small"))
        for name in ("tensor_comm_graph.svg", "trace.0.et"):
            with open(f / f"usual/{name}", "rb") as a, open(f / f"small/{name}", "rb") as b:
                assert a.read() == b.read(), name


def commands():
    """Yields commands that print to standard output and need no input."""
    yield [PROGRAM, "--help"]
    yield [PROGRAM, "--version"]
    yield [PROGRAM, "--num_output_tokens", "1"]
    yield [PROGRAM, "--num_output_tokens", "1", "--json"]
    listing = subprocess.run([SYNTORCH, "--help"], capture_output=True, text=True,
                             check=True).stdout
    names = re.findall(r"^  (\S+(?: \S+)?)  ", listing, re.M)
    assert "convert text" in names and len(names) >= 20, names
    yield [SYNTORCH, "--help"]
    yield [SYNTORCH, "--version"]
    for name in names:
        yield [SYNTORCH, *name.split(), "--help"]


def reports(folder):
    """Yields commands that print something about a trace or a workload."""
    expect_ok(folder.run("--device", "meta", "--tp", 2, "--visualize_trace", "--quiet", "--out_dir",
                         "out"))
    for name in ("stat", "validate"):
        yield [SYNTORCH, name, "out/trace"]
        yield [SYNTORCH, name, "out/trace", "--json"]
    folder.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
    yield [SYNTORCH, "convert", "text", "--input", "w.txt", "--output", "text", "--num_npus", "2"]


def test_nothing_is_printed_into_a_full_device():
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full")
    with Folder() as f:
        for command in [*commands(), *reports(f)]:
            with open("/dev/full", "wb") as full:
                r = subprocess.run(command, cwd=f.path, env=ENV, stdout=full,
                                   stderr=subprocess.PIPE, timeout=HANGS)
            said = r.stderr.decode()
            assert r.returncode == 1, f"{command[1:]}: exit code {r.returncode}: {said}"
            assert "cannot write" in said and "standard output" in said, f"{command[1:]}: {said!r}"
            assert subprocess.run(command, cwd=f.path, env=ENV, capture_output=True,
                                  timeout=HANGS).returncode == 0, command


def closed(folder, redirection, *command):
    """Runs a command in a shell with a redirection, such as >&-."""
    return subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', *map(str, command)],
                          cwd=folder.path, env=ENV, capture_output=True, timeout=HANGS)


def same_file(folder, a, b):
    with open(folder / a, "rb") as one, open(folder / b, "rb") as other:
        return one.read() == other.read()


def test_a_closed_output_is_a_failure():
    """If standard output is closed, the program fails. Its files are those of a normal run: printed
    text is not written into them."""
    train = [os.path.join(BUILD, "pretrain"), "--max-seq-length", 16, "--batch-size", 1,
             "--skip-eval", "--max-steps", 2]
    with Folder() as f:
        f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
        f.write("rows.csv", "gpus,bytes,oop_ns,ip_ns\n2,1048576,44210,45100\n")
        for command, name, written in (
                ([PROGRAM, "--help"], None, None),
                ([SYNTORCH, "--help"], None, None),
                ([PROGRAM, "--num_output_tokens", 1, "--save_logits"], ".npy", ".npy"),
                ([PROGRAM, "--num_output_tokens", 1, "--json", "--save_logits"], ".npy", ".npy"),
                ([SYNTORCH, "convert", "text", "--num_npus", 2, "--input", "w.txt", "--output"],
                 "", ".1.et"),
                ([os.path.join(BUILD, "calibrate"), "--check", "--hw", "a100-80g", "--rows",
                  "rows.csv", "--predictions"], ".csv", ".csv"),
                ([*train, "--save-dir"], "", "/last_model/model.safetensors")):
            args = lambda stem: command if name is None else [*command, stem + name]
            usual = subprocess.run([str(a) for a in args("usual")], cwd=f.path, env=ENV,
                                   capture_output=True, timeout=HANGS)
            assert usual.returncode == 0 and usual.stdout, f"{command}: {text_of(usual)}"
            done = closed(f, ">&-", *args("closed"))
            assert done.returncode == 1 and b"standard output" in done.stderr, \
                f"{command}: {done.returncode} {done.stderr}"
            done = closed(f, ">&- 2>&- <&-", *args("all"))
            assert done.returncode == 1, f"{command}: {done.returncode}"
            for stem in ("closed", "all"):
                assert not written or same_file(f, "usual" + written, stem + written), \
                    f"{command} with {stem}"
        # With --quiet nothing is printed, so that nothing is lost. A lost warning is a failure.
        quiet = [*train, "--quiet", "--save-dir"]
        assert closed(f, ">&- 2>&-", *quiet, "q").returncode == 0
        warned = [*train, "--skip-eval", "--enable-tracing", "--trace-wait-steps", 0,
                  "--trace-repeat", 9, "--save-dir"]
        assert closed(f, "2>&-", *warned, "w").returncode == 1
        with open(f / "w/metrics.csv", encoding="utf-8") as log:
            assert len(log.readlines()) == 3


main(globals())
