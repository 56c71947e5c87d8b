"""Tests that control characters in the names of files and models are escaped before they reach a
terminal."""
from tool_runs import *  # noqa: F403

EVIL = "a\x1b[31mb\nc\u009b7m\u202ed\r"
SHOWN = "a\\x1b[31mb\\nc\\xc2\\x9b7m\\xe2\\x80\\xaed\\x0d"


def printable(data):
    """Checks that the bytes are only printable text and line breaks. Returns the text."""
    text = data.decode()
    odd = [c for c in text if c != "\n" and not c.isprintable()]
    assert not odd, f"{odd} in {text!r}"
    return text


def test_names_reach_the_terminal_escaped():
    with Folder() as f:
        host_and_device(f, EVIL)
        f.write("w.txt", "DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 5\n")
        host, device = EVIL + "_host.json", EVIL + "_device.json"
        both = ["--host", host, "--device", device]
        for args in (["convert-all", "."], ["convert", "pytorch", *both, "--output", EVIL + ".et"],
                     ["convert", "pytorch", *both, "--output", EVIL + ".et", "--compat"],
                     ["link", *both, "--output", EVIL + ".json"],
                     ["repair", "--input", host, "--output", EVIL],
                     ["convert", "text", "--input", "w.txt", "--output", EVIL, "--num_npus", 1],
                     ["json", "--input", EVIL + ".et", "--output", EVIL], ["stat", EVIL + ".et"],
                     ["validate", "--any-node", EVIL + ".et"], ["validate", EVIL], [EVIL],
                     ["convert", EVIL], ["stat", "--" + EVIL],
                     ["convert-all", EVIL], ["export", "--input", EVIL + "x", "--output", "x.svg"],
                     ["weights", EVIL]):
            r = run(f, *args)
            text = printable(r.stdout) + printable(r.stderr)
            assert SHOWN in text or args[:2] == ["stat", EVIL + ".et"], f"{args}: {text!r}"
        f.write(EVIL + "_host.json", "{")
        text = printable(run(f, "convert-all", ".").stdout)
        assert SHOWN in text and "failed" in text, text


def test_names_of_the_inference_program():
    with Folder() as f:
        config = load_json(TINY)
        config["name"] = "gpt\u202e"
        f.write("config.json", json.dumps(config))
        r = f.run("--model_config", "config.json", "--device", "meta", "--visualize_trace",
                  "--out_dir", EVIL, "--num_output_tokens", 1, "--debug")
        printable(r.stdout)
        printable(r.stderr)
        assert r.returncode == 0 and SHOWN in r.stdout.decode() \
            and "gpt\\xe2\\x80\\xae" in r.stdout.decode(), text_of(r)


main(globals())
