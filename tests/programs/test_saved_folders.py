"""Tests folders exactly as transformers 5 saves them (tests/reference/saved_*), in which
tokenizer.json is the only vocabulary. Token ids, logits, greedy tokens and texts match transformers
(tests/reference/saved.json), with threads and with MPI processes."""
from inference_runs import *  # noqa: F403

SAVED = load_json(os.path.join(REFERENCE, "saved.json"))
GENERATING = sorted(n for n in SAVED if n != "bert")
WAYS = [["--tp", 1, "--attention", "unfused"], ["--tp", 2], ["--tp", 4]]


def folder_of(name):
    return checkpoint(f"saved_{name}")


def before_end(name, tokens):
    """Returns the tokens before the end of the text. The end token and the padding after it are
    left out."""
    end = load_json(os.path.join(folder_of(name), "generation_config.json"))["eos_token_id"]
    return tokens[:tokens.index(end)] if end in tokens else tokens


def tokenize(name, *args):
    return subprocess.run([os.path.join(BUILD, "syntorch"), "tokenize", "--tokenizer",
                           folder_of(name), *map(str, args)], capture_output=True, check=True)


def test_files():
    """The folders have the files that save_pretrained writes, and no others."""
    for name in SAVED:
        files = [n for n in os.listdir(folder_of(name)) if not n.endswith(".safetensors")]
        generation = [] if name == "bert" else ["generation_config.json"]
        assert sorted(files) == sorted(["config.json", "model.safetensors.index.json",
                                        "tokenizer.json", "tokenizer_config.json"] + generation)


def test_ids_and_texts():
    for name, texts in SAVED.items():
        for want in texts:
            ids = json.loads(tokenize(name, "--json", want["text"]).stdout)["ids"]
            assert ids == want["ids"], (name, want["text"], ids)
            if "decoded" in want:
                tokens = before_end(name, want["tokens"])
                text = json.loads(tokenize(name, "--json", "--decode", *tokens).stdout)
                assert text["text"] == want["decoded"], (name, text)


def continue_text(f, name, want, *how, launcher=None):
    s = summary(f, "--weights", folder_of(name), "--prompt", want["text"], "--temperature", 0,
                "--num_output_tokens", 50, "--save_logits", "logits.npy", *how, launcher=launcher)
    off = difference(read_rows(f / "logits.npy")[0], want["logits"])
    assert off < 1e-5, (name, want["text"], how, off)
    assert s["prompt_tokens"] == len(want["ids"])
    assert s["tokens"] == [want["tokens"]], (name, want["text"], how, s["tokens"])
    assert s["texts"] == [want["decoded"]], (name, want["text"], how, s["texts"])


def test_texts_go_on():
    with Folder() as f:
        for name in GENERATING:
            for want in SAVED[name]:
                for how in WAYS:
                    continue_text(f, name, want, *how)


def test_over_mpi():
    need_mpi()
    with Folder() as f:
        for name in GENERATING:
            continue_text(f, name, SAVED[name][1], "--tp", 2, launcher=MPI)


def test_side_by_side():
    """In a batch with padding, each text continues as it does alone."""
    with Folder() as f:
        for name in GENERATING:
            texts = [want for want in SAVED[name] if "\n" not in want["text"]]
            f.write("prompts.txt", "".join(want["text"] + "\n" for want in texts))
            s = summary(f, "--weights", folder_of(name), "--prompts", "prompts.txt", "--greedy",
                        "--num_output_tokens", 50, "--tp", 2, "--save_logits", "logits.npy")
            for tokens, got, want in zip(s["tokens"], read_rows(f / "logits.npy"), texts):
                assert before_end(name, tokens) == before_end(name, want["tokens"]), (name, tokens)
                assert difference(got, want["logits"]) < 1e-5, (name, want["text"])


def test_masks():
    with Folder() as f:
        for want in SAVED["bert"]:
            for how, launcher in [(w, None) for w in WAYS] + ([(["--tp", 2], MPI)] if MPI else []):
                expect_ok(f.run("--weights", folder_of("bert"), "--prompt", want["text"],
                                "--save_logits", "logits.npy", *how, launcher=launcher))
                got = read_rows(f / "logits.npy")
                assert len(got) == len(want["logits"])
                for a, b in zip(got, want["logits"]):
                    assert difference(a, b) < 1e-5, (want["text"], how)


def test_tokenizers_of_other_models():
    """The message names the kind of the tokenizer and the kind that the model needs."""
    with Folder() as f:
        refuse(f, ["--weights", folder_of("llama3"), "--tokenizer", folder_of("bert")], 1,
               "is a BERT tokenizer, but", "needs a BPE tokenizer")
        refuse(f, ["--weights", folder_of("bert"), "--tokenizer", folder_of("llama2")], 1,
               "is a BPE tokenizer, but", "needs a BERT tokenizer")


main(globals())
