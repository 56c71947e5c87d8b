"""Tests how the inference program samples tokens and stops: its tokens match transformers'
generate() (tests/reference/generation.json). Also tests the generated text as it is printed, in
JSON, and on a terminal, where it appears while it is generated."""
import re

import terminals
from inference_runs import *  # noqa: F403

BYTES = ["--tokenizer", "bytes"]
GPT2 = ["--weights", os.path.join(SOURCE, "examples", "tiny-gpt2")]


def run_case(f, number, case, prompts, *more, **kwargs):
    """Generates from both prompts in one batch, in which the shorter one is padded, and compares
    the tokens with those of the case."""
    folder = f / str(number)
    if not os.path.exists(folder):
        shutil.copytree(checkpoint(case["checkpoint"]), folder)
        if case["generation_config"] is not None:
            f.write(f"{number}/generation_config.json", json.dumps(case["generation_config"]))
    got = summary(f, "--weights", folder, "--prompt_ids", prompts, "--num_output_tokens", 50,
                  *case["options"], *more, **kwargs)
    fill = got["sampling"]["eos"][:1]
    for row, want in zip(got["tokens"], case["tokens"]):
        rest = row[len(want):]
        assert row[:len(want)] == want and rest == fill * len(rest), (case, more, row)
    assert len(got["tokens"]) == len(case["tokens"])
    return got


def test_tokens_of_generate():
    fixture = load_json(os.path.join(REFERENCE, "generation.json"))
    with Folder() as f:
        ids = write_ids(f, fixture["prompts"])
        for i, case in enumerate(fixture["cases"]):
            for tp in (1, 2, 4) if i < 4 else (2,):
                run_case(f, i, case, ids, "--tp", tp)
        penalized = fixture["cases"][1]
        run_case(f, 1, penalized, ids, "--attention", "unfused")
        cpu = run_case(f, 1, penalized, ids, "--tp", 2, "--attention", "fused")
        meta = summary(f, "--weights", f / "1", "--prompt_ids", ids, "--num_output_tokens", 50,
                       *penalized["options"], "--tp", 2, "--device", "meta")
        assert meta["trace_hash"] == cpu["trace_hash"]
        assert meta["texts"] == meta["prompts"] == meta["tokens"] == []
        ops = {row["op"]: row["calls"] for row in cpu["ops"]}
        assert ops["repetition_penalty"] == 50 and ops["concat"] >= 49, ops
        if MPI and b"this build has no MPI" not in f.run("--version").stdout:
            over = run_case(f, 1, penalized, ids, "--tp", 2, launcher=MPI)
            assert over["trace_hash"] == cpu["trace_hash"]


def test_16_bits_are_penalized_as_f32():
    with Folder() as f:
        got = summary(f, *GPT2, "--greedy", "--repetition_penalty", "1.2", "--dtype", "bf16")
        ops = {row["op"]: row["calls"] for row in got["ops"]}
        assert ops["cast"] == ops["repetition_penalty"] == got["new_tokens"], ops
        plain = summary(f, *GPT2, "--greedy", "--dtype", "bf16")
        assert "cast" not in {row["op"] for row in plain["ops"]}


def test_file_settings_are_reported():
    with Folder() as f:
        shutil.copytree(GPT2[1], f / "w")
        f.write("w/generation_config.json", '{"do_sample": true, "temperature": 0.5, "top_k": 20, '
                '"top_p": 0.75, "min_p": null, "eos_token_id": [13, 511]}')
        how = ["--weights", f / "w"]
        said = "temperature 0.5, top_k 20, top_p 0.75, as generation_config.json says\n"
        assert "sampling: " + said in expect_ok(f.run(*how))
        others = ["--temperature", 2, "--top_k", 0]
        assert "sampling: top_p 0.75, as" in expect_ok(f.run(*how, *others))
        for quiet in (["--greedy"], ["--temperature", 0]):
            assert "sampling: " not in expect_ok(f.run(*how, *quiet))
        sampling = {"temperature": 0.5, "top_k": 20, "top_p": 0.75, "min_p": 0,
                    "repetition_penalty": 1, "eos": [13, 511]}
        assert summary(f, *how)["sampling"] == sampling
        same = ["--temperature", 0.5, "--top_k", 20, "--top_p", 0.75, "--eos", "13,511", *GPT2]
        assert summary(f, *how)["tokens"] == summary(f, *same)["tokens"]
        # Without do_sample these options have no effect.
        f.write("w/generation_config.json", '{"temperature": -3, "top_p": 7}')
        assert summary(f, *how)["sampling"]["temperature"] == 1
        f.write("w/generation_config.json", '{"do_sample": true, "temperature": 0.5, "top_p": 7}')
        refuse(f, how, 1, "generation_config.json sets top_p to 7", "1e-09 and 1; give --top_p")
        expect_ok(f.run(*how, "--top_p", 1))
        f.write("w/generation_config.json", '{"do_sample": 1}')
        refuse(f, how, 1, '"do_sample" must be true, false or null')


def test_an_older_configuration_is_used():
    """Without generation_config.json, the sampling options in config.json are used, as in
    transformers' GenerationConfig.from_model_config. A saved model has them in
    generation_config.json."""
    with Folder() as f:
        shutil.copytree(GPT2[1], f / "w")
        config = load_json(f / "w/config.json")
        said = {"do_sample": True, "temperature": 0.5, "top_k": 20, "repetition_penalty": 1.5}
        f.write("w/config.json", json.dumps({**config, **said, "num_beams": 1, "min_length": 3}))
        # As long as there is a generation_config.json, those of config.json do not count.
        assert "sampling: " not in expect_ok(f.run("--weights", f / "w"))
        os.remove(f / "w/generation_config.json")
        r = f.run("--weights", f / "w", "--save_weights", f / "again")
        assert ("sampling: temperature 0.5, top_k 20, repetition_penalty 1.5, as config.json says\n"
                in expect_ok(r))
        assert f"{f / 'w/config.json'} sets min_length, which is not supported" in r.stderr.decode()
        saved = load_json(f / "again/generation_config.json")
        assert saved.items() >= said.items(), saved
        how = ["--prompt", "The answer is"]
        a, b = (summary(f, "--weights", f / name, *how) for name in ("w", "again"))
        assert a["tokens"] == b["tokens"]
        assert a["sampling"] == b["sampling"] == {**a["sampling"], "temperature": 0.5, "top_k": 20,
                                                  "repetition_penalty": 1.5}, a["sampling"]
        f.write("w/config.json", json.dumps({**config, **said, "top_p": 7}))
        refuse(f, ["--weights", f / "w"], 1, "config.json sets top_p to 7")


def test_ends():
    with Folder() as f:
        for said, ids in (("<|endoftext|>", [511]), (".", [13]), ("13, 511", [13, 511]),
                          ("none", []), (" the", [270])):
            got = summary(f, *GPT2, "--greedy", "--eos", said, "--num_output_tokens", 30)
            assert got["sampling"]["eos"] == ids, (said, got["sampling"])
            last = got["tokens"][0][-1]
            assert last in ids if ids else got["new_tokens"] == 30, (said, got["tokens"])
        expect_ok(f.run(*GPT2, "--eos", 13, "--save_weights", "w", "--quiet"))
        assert load_json(f / "w/config.json")["eos_token_id"] == 511  # --eos is not saved
        refuse(f, [*GPT2, "--eos", "no such"], 1, "--eos: 'no such' is not a token of the",
               "or none")
        refuse(f, ["--device", "meta", "--eos", "13"], 2, "--eos has no effect: --device meta")
        refuse(f, [*GPT2, "--eos", ""], 1, "--eos: '' is not a token")
        refuse(f, [*GPT2, "--eos", "512"], 1, "--eos: 512 is not one of the 512 token ids")
        refuse(f, [*GPT2, "--eos", "9" * 30], 1, "is not one of the 512 token ids")
        refuse(f, [*GPT2, "--eos", ",".join("1" * 17)], 1, "--eos: more than 16 ids")
        f.write("ids", "1 2\n")
        refuse(f, ["--prompt_ids", f / "ids", "--eos", "x"], 1, "as there is no tokenizer")


def test_contradictions():
    bert = ["--weights", os.path.join(SOURCE, "examples", "tiny-bert")]
    with Folder() as f:
        for args, says in (
                (["--greedy", "--temperature", 0.5], "--greedy takes the likeliest token"),
                (["--greedy", "--top_k", 3], "--top_k has no effect with --greedy"),
                (["--greedy", "--top_p", 0.5], "--top_p has no effect with --greedy"),
                (["--greedy", "--min_p", 0.5], "--min_p has no effect"),
                (["--temperature", 0, "--min_p", 0.5], "--min_p has no effect"),
                (["--min_p", 1.5], "--min_p"), (["--repetition_penalty", 0], "repetition_penalty"),
                ([*bert, "--greedy"], "--greedy: BERT"), ([*bert, "--min_p", 0.1], "--min_p: BERT"),
                ([*bert, "--eos", "none"], "--eos: BERT"),
                ([*bert, "--repetition_penalty", 2], "--repetition_penalty: BERT")):
            refuse(f, args, 2, says)
        expect_ok(f.run("--greedy", "--temperature", 0, "--quiet"))


def shown(text):
    """Escapes bytes in the way in which the program prints them on a terminal."""
    out = ""
    for c in text.decode("utf-8", "surrogateescape"):
        if c in "\n\t\\":
            out += {"\n": "\\n", "\t": "\\t", "\\": "\\\\"}[c]
        elif 0xDC80 <= ord(c) < 0xDD00:
            out += f"\\x{ord(c) - 0xDC00:02x}"
        elif ord(c) < 0x20 or 0x7f <= ord(c) < 0xA0 or re.match("[\u200e\u200f\u2028-\u202e"
                                                               "\u2066-\u2069\u061c]", c):
            out += "".join(f"\\x{b:02x}" for b in c.encode())
        else:
            out += c
    return out


def text_line(printed):
    return re.search(r'^text:    "(.*)"\r?$', printed, re.M).group(1)


def test_texts_are_whole():
    """Random tokens of a byte tokenizer give text with characters of all kinds and much invalid
    UTF-8. All of it is printed, escaped on the terminal and with replacement characters in JSON."""
    with Folder() as f:
        how = [*BYTES, "--num_output_tokens", 240, "--seed", 5]
        got = summary(f, *how)
        text = bytes(got["tokens"][0])
        assert got["texts"] == [text.decode("utf-8", "replace")]
        assert got["prompts"] == ["Once upon a time"]
        assert text_line(expect_ok(f.run(*how))) == shown(text)
        f.write("ids", "1 2 3\n")
        ids = ["--weights", checkpoint("tiny_llama"), "--prompt_ids", f / "ids",
               "--num_output_tokens", 100, "--eos", "none"]
        got = summary(f, *ids)
        assert got["texts"] == got["prompts"] == [None]
        assert "token ids " + " ".join(map(str, got["tokens"][0])) + " (" in expect_ok(f.run(*ids))


def test_texts_of_a_batch():
    with Folder() as f:
        prompts = ["The cat", "Paris is", "The capital of Ireland is"]
        f.write("prompts", "\n".join(prompts) + "\n")
        got = summary(f, *GPT2, "--prompts", f / "prompts", "--greedy")
        assert got["prompts"] == prompts
        for prompt, text, row in zip(prompts, got["texts"], got["tokens"]):
            alone = summary(f, *GPT2, "--prompt", prompt, "--greedy")
            assert alone["texts"] == [text]
            assert "<|endoftext|>" not in text and len(row) == got["new_tokens"]


# ---- On a terminal ----

def on_terminal(folder, *args, until=None, code=0):
    """Returns what the program writes to a terminal. until: pattern; the program is killed when its
    output matches. Until then the output is read byte by byte, so that the program cannot have got
    much further."""
    def begin():
        os.chdir(folder.path)
        os.execve(PROGRAM, [PROGRAM, *map(str, args)], ENV)

    if terminals.why_none():
        raise Skip(terminals.why_none())
    pid, fd = terminals.start(begin)
    written, killed = b"", False
    while data := terminals.read(fd, 1 if until and not killed else 65536):
        written += data
        if until and not killed and re.search(until, written):
            os.kill(pid, signal.SIGKILL)
            killed = True
    got = terminals.end(pid, fd)
    assert got == (-signal.SIGKILL if killed else code), written
    return written.decode("utf-8")  # fails if a character is cut


def test_text_comes_as_it_is_made():
    with Folder() as f:
        long = f.write("long.json", config(n_positions=6015, n_embd=16, n_head=2, n_inner=16,
                                           n_layer=1))
        for how in ([*BYTES, "--num_output_tokens", 240, "--seed", 5],
                    [*GPT2, "--prompt", "The cat"], [*GPT2, "--greedy", "--num_output_tokens", 1],
                    ["--tp", 2, "--seed", 3]):
            written = on_terminal(f, *how)
            plain = expect_ok(f.run(*how))
            assert text_line(written) == text_line(plain), (written, plain)
            assert "\x1b" not in written and "generating" not in written
            assert written.startswith('prompt:  "') and written.count("text:  ") == 1
            assert written.index("model:  ") > written.index("text:  ")
        whole = on_terminal(f, "--model_config", long, "--num_output_tokens", 6000, *BYTES)
        assert "generating" not in whole and len(text_line(whole)) >= 6000
        begun = on_terminal(f, "--model_config", long, "--num_output_tokens", 6000, *BYTES,
                            until=rb'text:    "..........')
        assert "model: " not in begun and text_line(whole).startswith(begun.split('"')[3][:10])


def test_text_that_cannot_come_early():
    """Several texts and JSON are printed at the end. --quiet and meta print no text."""
    with Folder() as f:
        written = on_terminal(f, "--batch_size", 2)
        assert written.startswith("model:  ") and written.count("\ntext ") == 2, written
        json.loads(on_terminal(f, "--json"))
        assert on_terminal(f, "--quiet") == ""
        written = on_terminal(f, "--device", "meta")
        assert "text:" not in written and written.startswith("model:  "), written


def test_failure_ends_the_line():
    """If logits become NaN while a text is being printed, the message starts on a new line."""
    with Folder() as f:
        f.write("nan.json", config(initializer_range=10, n_inner=16384))
        written = on_terminal(f, "--model_config", "nan.json", "--dtype", "f16", code=1)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", written).replace("error: ", "")
        assert '"\r\ninference: the logits are NaN' in plain, written


if __name__ == "__main__":
    main(globals())
