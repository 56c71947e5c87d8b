"""The shell's limits and full disks: the programs' results do not depend on `ulimit -s`, and what
could not be printed is a failure."""

from inference_runs import *  # noqa: F403

SYNTORCH = os.path.join(BUILD, "syntorch")


def small_stack(folder, kib, *args, launcher=()):
    """As folder.run, where the shell grants every thread no more than so much stack."""
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
    """All that prints to standard output and needs no input."""
    yield [PROGRAM, "--help"]
    yield [PROGRAM, "--version"]
    yield [PROGRAM, "--num_output_tokens", "1"]
    yield [PROGRAM, "--num_output_tokens", "1", "--json"]
    listing = subprocess.run([SYNTORCH, "--help"], capture_output=True, text=True,
                             check=True).stdout
    names = [line.split()[0]
             for line in listing.split("Commands:\n")[1].split("\n\n")[0].splitlines()]
    assert "convert" in names and len(names) >= 9, names
    yield [SYNTORCH, "--help"]
    yield [SYNTORCH, "--version"]
    for name in names + ["convert pytorch", "convert text"]:
        yield [SYNTORCH, *name.split(), "--help"]


def reports(folder):
    """Commands that tell of a trace."""
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


def test_a_closed_output_is_a_failure():
    with Folder() as f:
        for command in ([PROGRAM, "--help"], [SYNTORCH, "--help"]):
            r = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', *command], cwd=f.path,
                               capture_output=True, timeout=HANGS)
            assert r.returncode == 1 and b"cannot write" in r.stderr, \
                f"{command}: {r.returncode} {r.stderr}"


main(globals())
