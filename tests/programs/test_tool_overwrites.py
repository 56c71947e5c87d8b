"""Tests that no command overwrites one of its inputs, also if the output is another name of the
same file."""
from tool_runs import *  # noqa: F403


def keeps(folder, name, *args, program=SYNTORCH):
    """Checks that the command is refused and that the file does not change."""
    with open(folder / name, "rb") as f:
        before = f.read()
    r = subprocess.run([program, *map(str, args)], cwd=folder.path, env=ENV, capture_output=True,
                       timeout=HANGS)
    assert r.returncode in (1, 2) and b"is an input, which is never overwritten" in r.stderr, \
        f"{args}: {r.returncode} {text_of(r)}"
    with open(folder / name, "rb") as f:
        assert f.read() == before, f"{args} overwrote {name}"


def links_to(folder, name):
    """Yields the name of the file, of a symbolic link and of a hard link to it."""
    os.symlink(name, folder / "soft")
    os.link(folder / name, folder / "hard")
    yield from (name, "soft", "hard")
    os.unlink(folder / "soft")
    os.unlink(folder / "hard")


def test_no_input_is_overwritten():
    with Folder() as f:
        traced(f)
        keeps(f, "out/trace.0.et", "export", "--input", "out/trace.0.et", "--output",
              "out/trace.0.et", "--format", "svg")
        keeps(f, "out/trace.1.et", "export", "--input", "out/trace", "--output", "out/trace.1.et",
              "--format", "dot")
        keeps(f, "out/trace.1.et", "export", "--input", "out/trace", "--output", "out/trace.et")
        keeps(f, "out/trace.1.et", "export", "--input", "out/trace.0.et", "--all_ranks", "--output",
              "out/trace.et")
        keeps(f, "out/trace.comm_group.json", "export", "--input", "out/trace", "--output",
              "out/trace.comm_group.json", "--format", "json")
        keeps(f, "out/tensor_trace_graph.json", "export", "--input", "out/tensor_trace_graph.json",
              "--output", "out/tensor_trace_graph.json")
        os.rename(f / "out/tensor_trace_graph.json", f / "all.7.et")
        f.write("all.comm_group.json", "{}")
        for rank in range(2, 7):
            f.write(f"all.{rank}.et", "")
        # Files of an older set with more ranks are removed, but not if one is the input.
        keeps(f, "all.7.et", "export", "--input", "all.7.et", "--output", "all.et")

        workload = "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n"
        for name in ("w.0.et", "w.comm_group.json", "w.1.et"):
            f.write(name, workload)
            keeps(f, name, "convert", "text", "--input", name, "--output", "w", "--num_npus", 2)
        f.write("w.txt", workload)
        for link in (os.symlink, os.link):
            os.unlink(f / "w.1.et")
            link("w.txt" if link is os.symlink else f / "w.txt", f / "w.1.et")
            keeps(f, "w.txt", "convert", "text", "--input", "w.txt", "--output", "w", "--num_npus",
                  2)

        host_and_device(f, "p")
        both = ["--host", "p_host.json", "--device", "p_device.json"]
        for name in ("p_host.json", "p_device.json"):
            for output in links_to(f, name):
                keeps(f, name, "convert", "pytorch", *both, "--output", output)
                keeps(f, name, "link", *both, "--output", output)
                keeps(f, name, "repair", "--input", name, "--output", output)
        for output in links_to(f, "w.txt"):
            keeps(f, "w.txt", "json", "--input", "w.txt", "--output", output)

        expect_ok(f.run("--save_weights", "model", "--num_output_tokens", 1))
        keeps(f, "model/model.safetensors", "--weights", "model", "--tokenizer", "bytes",
              "--save_weights", "model", program=PROGRAM)
        keeps(f, "model/model.safetensors", "--weights", "model", "--tokenizer", "bytes",
              "--save_logits", "model/model.safetensors", program=PROGRAM)
        for name in ("vocab.json", "merges.txt", "generation_config.json"):
            f.write("model/" + name, "{}\n")
            keeps(f, "model/" + name, "--weights", "model", "--tokenizer", "bytes", "--save_logits",
                  "model/" + name, program=PROGRAM)
        for name in ("timeline.json", "trace.0.et"):
            with open(TINY, encoding="utf-8") as config:
                f.write(name, config.read())
            keeps(f, name, "--model_config", name, "--visualize_trace", "--out_dir", ".",
                  program=PROGRAM)
        f.write("prompts.txt", "a\n")
        keeps(f, "prompts.txt", "--prompts", "prompts.txt", "--save_logits", "prompts.txt",
              program=PROGRAM)


def test_convert_all_keeps_its_inputs():
    with Folder() as f:
        host_and_device(f, "p")
        os.symlink("p_host.json", f / "p.et")
        before = open(f / "p_host.json").read()
        r = run(f, "convert-all", ".")
        assert r.returncode == 1 and b"never overwritten" in r.stdout, text_of(r)
        assert open(f / "p_host.json").read() == before


main(globals())
