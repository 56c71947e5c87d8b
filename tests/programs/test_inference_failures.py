"""Tests failures of the inference program: wrong options, models and files, full disks, too little
memory, and signals. Each failure ends with one sentence and the right exit code, and leaves no
incomplete file."""
from inference_runs import *  # noqa: F403


def test_usage():
    with Folder() as f:
        for args, says in [
            (["--temprature", "1"], "did you mean --temperature?"),
            (["--num-output-token", "1"], "did you mean --num_output_tokens?"),
            (["--xyzzy"], "unknown option --xyzzy (--help"),
            (["--foo"], "unknown option --foo (--help"),
            (["--\x1b[31m\n"], "\\x1b[31m\\n"),
            (["--" + "x" * 5000], "unknown option"),
            (["tokens"], "'tokens' is not an option"),
            (["-t", "2"], "'-t' is not an option"),
            (["--"], "not an option"),
            (["--tp"], "--tp needs a value"),
            (["--quiet=1"], "accepts no value"),
            (["--device", "gpu"], "cpu, meta or cuda, not 'gpu'"),
            (["--attention", "flash"], "auto, fused or unfused, not 'flash'"),
            (["--save_logits", "x.npy", "--device", "meta"], "computes none"),
            (["--model", "gpt2", "--model_config", TINY], "give one"),
        ]:
            refuse(f, args, 2, says)


def test_numbers():
    with Folder() as f:
        for name, values in {
            "temperature": ["nan", "-nan", "inf", "-1", "1e999", "1e7", "warm", "", "1 ", " 1",
                            "1,5", "0.5x"],
            "top_p": ["0", "-0.1", "1.0001", "nan", "inf", "half"],
            "top_k": ["-1", "1.5", "99999999999999999999", "nan"],
            "tp": ["0", "-2", "65537", "4294967297", "9223372036854775808", "two", "0x2", "2.0",
                   ""],
            "num_input_tokens": ["0", "-5", "1000000001", "1e3"],
            "num_output_tokens": ["0", "-5", "18446744073709551617"],
            "batch_size": ["0", "-1", "1000001"],
            "seed": ["-1", "9007199254740993", "abc"],
            "watchdog": ["-1", "never"],
        }.items():
            for value in values:
                refuse(f, [f"--{name}={value}"], 2, f"--{name}")
                refuse(f, ["--" + name.replace("_", "-"), value], 2, f"--{name}")


def test_what_does_not_fit_the_model():
    with Folder() as f:
        refuse(f, ["--tp", 3], 1, "tp 3", "8 attention heads")
        refuse(f, ["--tp", 16], 1, "tp 16", "8 attention heads")
        refuse(f, ["--num_input_tokens", 300], 1, "300", "16", "315", "256")
        line = refuse(f, ["--num_output_tokens", 1000000000], 1,
                      "1000000000 new tokens need more than the 256 positions")
        assert "prompt tokens" not in line, line  # they are not counted yet
        refuse(f, ["--num_output_tokens", 257], 1,
               "16 prompt tokens and 257 new tokens need 272 positions")
        refuse(f, ["--num_input_tokens", 1000000000, "--num_output_tokens", 1000000000,
                   "--batch_size", 1000000], 1, "256")
        refuse(f, ["--prompt", "x" * 300], 1, "300")
        refuse(f, ["--prompt", ""], 1, "prompt is empty")
        bert = os.path.join(SOURCE, "examples", "configs", "bert-tiny.json")
        # An empty prompt has no ids to copy, which a build with sanitizers checks.
        refuse(f, ["--model_config", bert, "--prompt", ""], 1, "no [MASK]")
        refuse(f, ["--model", "gpt5"], 1, "gpt5", "gpt3-175b")
        refuse(f, ["--model", "gpt2", "--tp", 8], 1, "tp 8", "12 attention heads")
        refuse(f, ["--hw", "a1000"], 1, "a1000", "a100-80g")


def test_model_configs():
    with Folder() as f:
        whole = config()
        os.mkdir(f / "folder")
        os.symlink("loop", f / "loop")
        os.symlink("b", f / "a")
        os.symlink("a", f / "b")
        f.write("secret", whole)
        for path, says in [
            ("absent.json", "No such file"), ("folder", "folder"), ("loop", "symbolic links"),
            ("a", "symbolic links"),
            ("/dev/null", "/dev/null:1:1"), ("/dev/zero", "/dev/zero"),
            ("secret/x", "Not a directory"), ("", "")]:
            refuse(f, ["--model_config", path], 1, says)
        for i in range(0, len(whole) - 1, 17):  # truncated at any byte
            refuse(f, ["--model_config", f.write("cut.json", whole[:i])], 1, "cut.json:")
        for text, says in [
            (config(n_layer=10**9), "1000000000"),
            (config(n_layer=10**400), "n_layer"),
            (config(n_layer=-1), "-1"),
            (config(n_layer=1.5), "1.5"),
            (config(n_layer="2"), '"2"'),
            (config(n_layer=[2]), "n_layer"),
            (config(n_layer=None), "n_layer"),
            (config(n_head=7), "7"),
            (config(n_embd=2**40), str(2**40)),
            (config(vocab_size=0), "vocab_size"),
            (config(vocab_size=100), "256"),  # the byte tokenizer needs 256
            (config(activation_function="tanh"), "tanh"),
            (config(layer_norm_epsilon=-1), "layer_norm_epsilon"),
            (config(eos_token_id="256"), "eos_token_id"),
            (whole.replace('"n_layer": 2', '"n_layer": NaN'), "bad.json:1:"),
            (whole[:-1] + ', "n_layer": 3}', "n_layer"),
            ("[" * 100000, "bad.json:1:"),
            ('{"a":' * 100000, "bad.json:1:"),
            ("[]", "bad.json:1:"),
            ("null", "bad.json:1:"),
            (whole + "x", "bad.json:1:"),
            ("\x00", "bad.json:1:"),
        ]:
            refuse(f, ["--model_config", f.write("bad.json", text)], 1, says)
        refuse(f, ["--model_config", f.write("long.json", whole + " " * (2 << 20))], 1, "long.json",
               "1048576")


def test_tokenizers():
    with Folder() as f:
        os.mkdir(f / "empty")
        os.makedirs(f / "half")
        f.write("half/vocab.json", "{}")
        os.makedirs(f / "wrong")
        f.write("wrong/vocab.json", '{"a": 0, "b"')
        f.write("wrong/merges.txt", "#version: 0.2\n")
        refuse(f, ["--tokenizer", "absent"], 1, "absent is not a folder with a tokenizer")
        refuse(f, ["--tokenizer", "empty"], 1, "empty is not a folder with a tokenizer")
        refuse(f, ["--tokenizer", "half"], 1, "half/")
        refuse(f, ["--tokenizer", "wrong"], 1, "wrong/vocab.json:1:")
        refuse(f, ["--tokenizer", TINY], 1, "gpt3-tiny.json is not a folder with a tokenizer")


def test_hardware_files():
    with Folder() as f:
        refuse(f, ["--hw", f.write("hw.json", '{"name": "x", "hardware"')], 1, "hw.json:1:")
        refuse(f, ["--hw", f.write("hw.json", "{}")], 1, "hw.json:1:")
        refuse(f, ["--hw", f.path], 1, "folder")


def test_places_that_cannot_be_written():
    with Folder() as f:
        draw = ["--visualize_trace", "--quiet", "--num_output_tokens", 1, "--out_dir"]
        f.write("file", "mine")
        os.symlink("loop", f / "loop")
        refuse(f, draw + ["file"], 1, "file")
        refuse(f, draw + ["file/below"], 1, "file")
        refuse(f, draw + ["/proc/new"], 1, "/proc/new")
        refuse(f, draw + ["/proc"], 1, "/proc")
        refuse(f, draw + ["loop"], 1, "loop")
        refuse(f, draw + [""], 1, "folder")
        refuse(f, draw + ["x" * 300], 1, "too long")
        with open(f / "file", encoding="utf-8") as kept:
            assert kept.read() == "mine"
        save = ["--quiet", "--num_output_tokens", 1, "--save_logits"]
        for path, says in [("absent/l.npy", "absent"), ("/dev/full", "No space"),
                           (f.path, "folder"), ("file/l.npy", "file"),
                           ("/proc/l.npy", "/proc/l.npy"), ("", "empty")]:
            refuse(f, save + [path], 1, says)


def test_ids_of_no_token():
    with Folder() as f:
        for line, says in (("1 999999 3", "'999999' is not the id"), ("1,x,2", "'x' is not the id"),
                           ("-1", "'-1' is not the id")):
            f.write("ids", line + "\n")
            refuse(f, ["--prompt_ids", "ids"], 1, says)


def test_files_without_a_folder_fail_before_the_run():
    with Folder() as f:
        for option in ("--save_logits", "--embeddings"):
            for path, says in (("absent/l.npy", "the folder absent does not exist"),
                               ("/absent/l.npy", "the folder /absent does not exist")):
                result = f.run("--num_output_tokens", 1, option, path)
                assert says in sentence_of(result, 1) and result.stdout == b"", result.stdout
            expect_ok(f.run("--num_output_tokens", 1, "--visualize_trace", "--out_dir", option[2:],
                            option, option[2:] + "/l.npy"))  # the run creates the folder
            assert os.path.exists(f / (option[2:] + "/l.npy"))


def test_a_folder_in_the_way_of_a_file():
    """A folder that has the name of an output file is left alone, and all other files are
    complete."""
    for name in promised(2):
        with Folder() as f:
            os.makedirs(f / f"out/{name}")
            line = sentence_of(f.run("--tp", 2, "--device", "meta", "--num_output_tokens", 1,
                                     "--visualize_trace", "--out_dir", "out", "--quiet"), 1)
            assert name in line, line
            check_whole(f, "out", name)
            if name.startswith("trace."):
                assert "trace.comm_group.json" not in f.files("out")  # only of complete sets


def check_whole(folder, name, but=None):
    """Checks that each file is one of the promised ones and complete, and that no file with a
    temporary name is left. but: name of a file that must not exist."""
    for file in folder.files(name):
        path = folder / f"{name}/{file}"
        assert file in promised(2) and file != but, file
        if file.endswith(".json"):
            load_json(path)
        elif file.endswith(".png"):
            check_png(path)
        elif file.endswith(".svg"):
            with open(path, encoding="utf-8") as f:
                assert f.read().rstrip().endswith("</svg>"), file


def test_a_full_disk():
    with Folder() as f:
        os.mkdir(f / "disk")
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", f / "disk"],
                          capture_output=True).returncode != 0:
            raise Skip("no file system of a known size can be mounted here")
        try:
            for room in (0, 100, 250):
                with open(f / "disk/filler", "wb") as filler:
                    filler.write(b"x" * (250 - room) * 1024)
                args = ["--tp", 2, "--visualize_trace", "--quiet", "--out_dir"]
                line = sentence_of(f.run(*args, "disk/out"), 1)
                assert "No space left" in line, line
                check_whole(f, "disk/out")
                shutil.rmtree(f / "disk/out", ignore_errors=True)
                os.remove(f / "disk/filler")
            with open(f / "disk/filler", "wb") as filler:
                filler.write(b"x" * 252 * 1024)
            line = sentence_of(f.run("--quiet", "--batch_size", 50, "--save_logits", "disk/l.npy"),
                               1)
            assert "No space left" in line and f.files("disk") == ["filler"], line
        finally:
            subprocess.run(["umount", f / "disk"], check=True)


def test_output_that_cannot_be_written():
    with Folder() as f:
        for args in (["--json"], [], ["--help"], ["--version"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *args], cwd=f.path, env=ENV, stdout=full,
                                      stderr=subprocess.PIPE)
            line = sentence_of(subprocess.CompletedProcess([], done.returncode, b"", done.stderr),
                               1)
            assert "standard output" in line, line
        for args in ("", "--json", "--help", "--debug 2>&1", "--visualize_trace --out_dir out"):
            done = subprocess.run(["bash", "-c",
                                   f'"$0" {args} | head -n 1 > first; echo "${{PIPESTATUS[0]}}"',
                                   PROGRAM],
                                  cwd=f.path, env=ENV, capture_output=True)
            assert int(done.stdout) in (0, 1, 128 + signal.SIGPIPE), done
            assert os.path.getsize(f / "first") > 0
            assert not done.stderr or done.stderr.count(b"\n") == 1, done.stderr


def test_too_little_memory():
    if SANITIZED:
        raise Skip("sanitizers need terabytes of address space")
    with Folder() as f:
        refuse(f, ["--model", "gpt3-175b"], 1, "out of memory", "651 GiB", "--device meta")
        refuse(f, ["--batch_size", 1000000, "--num_output_tokens", 200], 1, "out of memory",
               "KV cache")
        refuse(f, ["--model", "gpt2-xl", "--tp", 5], 1, "need 5.8", "but the limit on the address "
               "space (ulimit -v) leaves", " available", limit=2000000)
        for limit in (1200000, 1800000):  # KiB; enough to start, not for 6 GiB of weights
            for args in (["--model", "gpt2-xl"], ["--model", "gpt2-xl", "--tp", 5]):
                refuse(f, args, 1, "memory", limit=limit)
        for limit in (60000, 100000, 200000):
            for args in ([], ["--tp", 2]):
                line = refuse(f, args + ["--quiet"], 1, limit=limit)
                assert "address space" in line or "memory" in line or "thread" in line, line
        # KiB; enough for the weights, hardly for more: the run may fail, but must end
        for limit in (800000, 900000, 1000000):
            for tp in (1, 2):
                done = f.run("--model", "gpt2", "--tp", tp, "--quiet", "--num_output_tokens", 2,
                             limit=limit)
                if done.returncode != 0:
                    assert "memory" in sentence_of(done, 1)


def test_killed_while_it_writes():
    with Folder() as f:
        args = ["--tp", 2, "--device", "meta", "--num_output_tokens", 100, "--visualize_trace",
                "--quiet", "--out_dir"]
        start = time.monotonic()
        expect_ok(f.run(*args, "whole"))
        whole = time.monotonic() - start
        for i, kind in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
            name = f"killed{i}"
            program = subprocess.Popen([PROGRAM, *map(str, args), name], cwd=f.path, env=ENV,
                                       stderr=subprocess.DEVNULL)
            time.sleep(whole * (0.1 + 0.25 * i))
            program.send_signal(kind)
            code = program.wait(HANGS)
            assert code in (-kind, 0), code
            final = [n for n in f.files(name) if ".tmp." not in n]
            for n in f.files(name):
                if n not in final or n == ".trace.lock":
                    os.remove(f / f"{name}/{n}")
            check_whole(f, name)
            if "trace.comm_group.json" in final:
                assert {"trace.0.et", "trace.1.et"} <= set(final)


if __name__ == "__main__":
    main(globals())
