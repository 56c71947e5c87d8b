"""Tests --save_weights: the saved folder works without its source, tensors keep their types and
bytes, tokenizer files are copied unchanged, and an existing model is not lost if the new one cannot
be written."""
from inference_runs import *  # noqa: F403

EXAMPLES = os.path.join(SOURCE, "examples")
GPT2, BERT = os.path.join(EXAMPLES, "tiny-gpt2"), os.path.join(EXAMPLES, "tiny-bert")
TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def all_tensors(folder):
    found = {}
    for path in glob.glob(folder + "/*.safetensors"):
        found.update(read_tensors(path))
    return found


def save(f, weights, to, *how, ids=True, **kwargs):
    prompt = ["--prompt_ids", f.write("ids.txt", "1 2 3\n")] if ids else []
    return f.run("--weights", weights, *prompt, "--quiet", "--save_weights", to, *how, **kwargs)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_tensors_stay_in_the_types_they_came_in():
    with Folder() as f:
        for name in ("tiny_gpt2_f32", "tiny_gpt2_bf16", "tiny_gpt2_f16_shards", "tiny_llama",
                     "tiny_gpt2_f32_untied", "head_gpt2_bf16"):
            for tp in (1, 2):
                source = checkpoint(name)
                expect_ok(save(f, source, name, "--tp", tp))
                tensors = all_tensors(source)
                assert all_tensors(f / name) == tensors, name
                saved = load_json(f / f"{name}/config.json")
                assert saved["dtype"] == TYPES[next(iter(tensors.values()))[0]], name
                assert f.files(name) == ["config.json", "generation_config.json",
                                         "model.safetensors"], f.files(name)


def test_files_of_mixed_types():
    """Tensors of two types keep their types. The saved configuration has the type that the source
    names under dtype or torch_dtype, even if no tensor has it. If the source names none, it has the
    type of most bytes."""
    with Folder() as f:
        shutil.copytree(checkpoint("tiny_gpt2_f32"), f / "mixed")
        path = f / "mixed/model.safetensors"
        tensors = read_tensors(path)
        for name, (_, shape, data) in tensors.items():
            if ".mlp." in name or ".attn." in name:
                half = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
                tensors[name] = ("BF16", shape, half)
        assert {t[0] for t in tensors.values()} == {"F32", "BF16"}
        write_tensors(path, dict(sorted(tensors.items(), key=lambda t: t[1][0], reverse=True)))
        usual = load_json(f / "mixed/config.json")
        for key in ("dtype", "torch_dtype", None):
            config = {k: v for k, v in usual.items() if k not in ("dtype", "torch_dtype")}
            if key:
                config[key] = "float16"
            f.write("mixed/config.json", json.dumps(config))
            expect_ok(save(f, f / "mixed", "out"))
            assert read_tensors(f / "out/model.safetensors") == tensors
            assert load_json(f / "out/config.json")["dtype"] == ("float16" if key else "bfloat16")


def test_another_type_where_one_is_asked_for():
    with Folder() as f:
        for how, types, dtype in ((["--dtype", "bf16"], {"BF16"}, "bfloat16"),
                                  (["--dtype", "f32"], {"F32"}, "float32"),
                                  (["--weight_dtype", "bf16"], {"F32", "BF16"}, "float32")):
            expect_ok(save(f, GPT2, "out", *how))
            assert {t[0] for t in all_tensors(f / "out").values()} == types
            assert load_json(f / "out/config.json")["dtype"] == dtype


def test_the_folder_works_alone():
    """The saved folder has a tokenizer and stop tokens, and generates the same text as its
    source."""
    with Folder() as f:
        shutil.copytree(GPT2, f / "source")
        f.write("source/generation_config.json", '{"eos_token_id": 7, "bos_token_id": 5}')
        f.write("source/special_tokens_map.json", "{}")
        f.write("source/chat_template.jinja", "{{ messages }}")
        f.write("source/notes.txt", "are nobody's business")
        expect_ok(save(f, "source", "out", ids=False))
        assert f.files("out") == sorted(n for n in f.files("source") if n != "notes.txt")
        for name in f.files("out"):
            if name not in ("config.json", "model.safetensors"):
                assert content(f / f"out/{name}") == content(f / f"source/{name}"), name
        how = ["--prompt", "The answer is", "--temperature", 0, "--num_output_tokens", 20]
        a, b = (summary(f, "--weights", w, *how) for w in ("source", "out"))
        assert a["tokens"] == b["tokens"] and len(a["tokens"][0]) == 20
        expect_ok(save(f, BERT, "bert", "--prompt", "a [MASK]", ids=False))
        assert "generation_config.json" not in f.files("bert")
        how = ["--prompt", "Paris is the [MASK] of France."]
        a, b = (summary(f, "--weights", w, *how)["masks"] for w in (BERT, "bert"))
        assert a == b


def test_ids_of_begin_and_end():
    with Folder() as f:
        source = checkpoint("tiny_llama")
        for says, want in (({"bos_token_id": 3, "eos_token_id": [4, 5], "pad_token_id": 6},
                            {"bos_token_id": 3, "eos_token_id": [4, 5], "pad_token_id": 6}),
                           ({"bos_token_id": None, "eos_token_id": 4},
                            {"bos_token_id": None, "eos_token_id": 4}),
                           ({"bos_token_id": None, "eos_token_id": None},
                            {"bos_token_id": None, "eos_token_id": None}),
                           ({}, {"bos_token_id": 1, "eos_token_id": 2})):  # of LlamaConfig
            shutil.rmtree(f / "source", ignore_errors=True)
            shutil.copytree(source, f / "source")
            config = load_json(f / "source/config.json")
            for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
                config.pop(key, None)
            f.write("source/config.json", json.dumps({**config, **says}))
            if os.path.exists(f / "source/generation_config.json"):
                os.remove(f / "source/generation_config.json")
            expect_ok(save(f, "source", "out"))
            for name in ("config.json", "generation_config.json"):
                saved = load_json(f / f"out/{name}")
                assert {k: v for k, v in saved.items() if k.endswith("token_id")} == want, saved


def test_an_older_model_is_replaced():
    """Files of the older model that have other names are removed. Other files stay."""
    with Folder() as f:
        shutil.copytree(checkpoint("tiny_gpt2_f16_shards"), f / "out")
        f.write("out/README.md", "mine")
        for name in ("vocab.txt", "added_tokens.json", "tokenizer.model"):  # GPT2 has none of them
            f.write(f"out/{name}", "of another tokenizer")
        assert "model.safetensors.index.json" in f.files("out")
        expect_ok(save(f, GPT2, "out"))
        assert [n for n in f.files("out") if "model" in n] == ["model.safetensors"]
        assert f.files("out") == sorted({"README.md", "generation_config.json", *f.files(GPT2)})
        assert all_tensors(f / "out") == all_tensors(GPT2)


def test_nothing_is_lost():
    with Folder() as f:
        expect_ok(save(f, GPT2, "out"))
        before = {n: content(f / f"out/{n}") for n in f.files("out")}
        assert "vocab.json" in before
        llama = checkpoint("tiny_llama")
        ids = f.write("ids.txt", "1 2 3\n")
        arguments = [PROGRAM, "--weights", llama, "--prompt_ids", ids, "--save_weights", "out"]
        small = ["sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$0" "$@"']
        for more in ([], ["--tp", "2", "--dtype", "bf16"]):
            result = subprocess.run(small + arguments + more, cwd=f.path, env=ENV,
                                    capture_output=True, timeout=HANGS)
            assert "File too large" in sentence_of(result, 1)
            assert {n: content(f / f"out/{n}") for n in f.files("out")} == before
        # folders that are inputs
        shutil.copytree(GPT2, f / "source")
        os.symlink("source", f / "link")
        shutil.copytree(checkpoint("tiny_gpt2_f16_shards"), f / "shards")
        for weights, to in (("source", "source"), ("source", "link"), ("link", "source/"),
                            ("source/model.safetensors", "source"), ("shards", "shards")):
            refuse(f, ["--weights", weights, "--prompt_ids", ids, "--save_weights", to], 1,
                   "is an input, which is never overwritten")
        refuse(f, ["--weights", GPT2, "--tokenizer", "source", "--save_weights", "source"], 1,
               "is an input, which is never overwritten")
        # a file, and a folder that cannot be created
        refuse(f, ["--save_weights", "ids.txt"], 1, "ids.txt")
        refuse(f, ["--save_weights", "/proc/model"], 1, "/proc/model")


if __name__ == "__main__":
    main(globals())
