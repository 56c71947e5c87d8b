"""Tests the inference program over MPI. Ranks that are MPI processes give the same traces, tokens
and files as ranks that are threads, and a job ends with one message, whichever way a rank fails."""
from inference_runs import *  # noqa: F403


def without_times(value):
    """Returns a JSON document without the measured times, whose keys end in _ns."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not k.endswith("_ns")}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def test_mpi_records_the_same():
    need_mpi()
    with Folder() as f:
        how = ["--tp", 2, "--batch_size", 2, "--num_output_tokens", 4, "--save_logits"]
        local = summary(f, *how, "local.npy", "--visualize_trace", "--out_dir", "local")
        mpi = summary(f, *how, "mpi.npy", "--visualize_trace", "--out_dir", "mpi",
                      "--check_collectives", launcher=MPI)
        assert local["trace_hash"] == mpi["trace_hash"]
        assert local["tokens"] == mpi["tokens"]
        check_folder(f / "mpi", 2)
        a, b = (read_npy(f / f"{name}.npy") for name in ("local", "mpi"))
        assert a[0] == b[0] and max(abs(x - y) for x, y in zip(a[1], b[1])) \
            <= 1e-5 * max(map(abs, a[1]))
        a, b = (without_times(load_json(f / f"{name}/tensor_trace_graph.json"))
                for name in ("local", "mpi"))
        assert a == b
        meta = summary(f, "--tp", 2, "--batch_size", 2, "--num_output_tokens", 4, "--device",
                       "meta", "--attention", "unfused")
        assert meta["trace_hash"] == mpi["trace_hash"]


def test_meta_files_are_the_same_bytes_over_mpi():
    need_mpi()
    with Folder() as f:
        how = ["--tp", 2, "--device", "meta", "--hw", "a100-80g", "--visualize_trace",
               "--quiet", "--num_output_tokens", 2]
        expect_ok(f.run(*how, "--out_dir", "fake"))
        expect_ok(f.run(*how, "--out_dir", "mpi", launcher=MPI))
        assert f.files("fake") == f.files("mpi") == promised(2)
        for name in promised(2):
            with open(f / f"fake/{name}", "rb") as a, open(f / f"mpi/{name}", "rb") as b:
                assert a.read() == b.read(), name


def test_mpirun_of_one_process():
    need_mpi()
    with Folder() as f:
        expect_ok(f.run("--tp", 2, "--quiet", launcher=[MPIRUN, "-n", "1"]))  # ranks are threads


def test_one_message_over_mpi():
    need_mpi()
    with Folder() as f:
        f.write("cut.json", config()[:50])
        f.write("file", "")
        for args, code, says in [
            (["--tp", 2, "--foo"], 2, "--foo"),
            (["--tp", 4], 2, "2 MPI processes were started, but --tp is 4"),
            (["--tp", 2, "--model_config", "cut.json"], 1, "cut.json"),
            (["--tp", 2, "--visualize_trace", "--out_dir", "file"], 1, "file"),
            (["--tp", 2, "--quiet", "--save_logits", "absent/l.npy"], 1, "absent"),
        ]:
            refuse(f, args, code, says, launcher=MPI)


def long_run(folder):
    """Starts a run over MPI that takes far longer than the test. Returns the process of mpirun and
    the process ids of the ranks."""
    path = folder.write("long.json", config(n_positions=65536, n_embd=64, n_inner=64))
    args = ["--tp", "2", "--model_config", path, "--num_output_tokens", "60000",
            "--visualize_trace", "--out_dir", "out", "--save_logits", "out/l.npy"]
    job = subprocess.Popen([*MPI, PROGRAM, *args], cwd=folder.path, env=ENV, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    ranks = []
    while len(ranks) < 2 or not os.path.isdir(folder / "out"):
        assert job.poll() is None, "the ranks did not start"
        time.sleep(0.05)
        ranks = [p for p in children(job.pid)
                 if os.path.basename(os.readlink(f"/proc/{p}/exe")) == "syntorch"]
    time.sleep(1)
    return job, ranks


def check_ended(folder, job, ranks):
    output = job.communicate(timeout=HANGS)[0].decode("utf-8", "replace")
    assert job.returncode != 0, output
    while any(alive(p) for p in ranks):
        time.sleep(0.05)
    left = set(folder.files("out")) - {".trace.lock"}  # the next run replaces it
    assert not left, left
    return output


def test_a_killed_rank_ends_the_job():
    need_mpi()
    with Folder() as f:
        job, ranks = long_run(f)
        os.kill(ranks[1], signal.SIGKILL)
        assert "signal 9" in check_ended(f, job, ranks)


def test_an_interrupted_job_ends():
    need_mpi()
    with Folder() as f:
        job, ranks = long_run(f)
        job.send_signal(signal.SIGTERM)
        check_ended(f, job, ranks)


RANK_1 = '[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] && '


def test_a_rank_that_fails_ends_the_job():
    """One of two ranks has enough memory for its half of the weights, but not for everything
    else."""
    need_mpi()
    if SANITIZED:
        raise Skip("sanitizers need terabytes of address space")
    with Folder() as f:
        f.write("rank.sh", RANK_1 + 'ulimit -v 740000; exec "$@"\n')
        done = f.run("--tp", 2, "--model", "gpt3-350m", "--quiet", "--save_logits", "l.npy",
                     launcher=[*MPI, "sh", "rank.sh"])
        line = sentence_of(done, 1)
        assert "rank 1: out of memory" in line, line
        assert f.files() == ["rank.sh"]


def test_a_rank_that_cannot_begin():
    """If a rank cannot read a file, it prints the only message, whichever rank it is, and the other
    rank does not wait for it."""
    need_mpi()
    with Folder() as f:
        f.write("my.json", config())
        args = ["--tp", 2, "--model_config", "my.json", "--quiet"]
        for who, says in (("", "inference: rank 1: cannot read my.json"),
                          ("! ", "inference: cannot read my.json")):
            f.write("rank.sh", who + RANK_1 + 'cd /; exec "$@"\n')
            line = sentence_of(f.run(*args, launcher=[*MPI, "sh", "rank.sh"]), 1)
            assert line.startswith(says), line


def test_options_that_one_rank_refuses():
    """The rank that refuses its options prints the only message, whichever rank it is, also if each
    option is valid but the options contradict each other."""
    need_mpi()
    with Folder() as f:
        for mine, says in (("--foo", "--foo"), ("--greedy --top_k 3", "--top_k has no effect")):
            for who, begin in (("", "inference: rank 1: "), ("! ", "inference: ")):
                f.write("rank.sh", who + RANK_1 + 'set -- "$@" ' + mine + '\nexec "$@"\n')
                run = f.run("--tp", 2, "--quiet", launcher=[*MPI, "sh", "rank.sh"])
                line = sentence_of(run, run.returncode)  # 2, or 1 if the other rank ends first
                assert run.returncode in (1, 2) and line.startswith(begin) and says in line, line


def test_ranks_started_differently():
    """A rank that was started with other options than rank 0 is refused before the ranks exchange
    data, whatever the option."""
    need_mpi()
    with Folder() as f:
        for mine in ("--seed 5", "--num_output_tokens 3", "--batch_size 2", "--temperature 0.5",
                     "--attention unfused", "--prompt other", "--check_collectives", "--json"):
            f.write("rank.sh", RANK_1 + 'set -- "$@" ' + mine + '\nexec "$@"\n')
            line = sentence_of(f.run("--tp", 2, "--quiet", launcher=[*MPI, "sh", "rank.sh"]), 1)
            assert "rank 1 was started with other options" in line, (mine, line)


if __name__ == "__main__":
    main(globals())
