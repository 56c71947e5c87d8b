"""Tests Llama and all families with similar layers in the inference program with folders that
transformers saved. On 1, 2 and 4 ranks, logits and greedy tokens match transformers
(tests/reference/llama.json, neox.json, moe.json, dense.json and variants.json)."""
import random

from inference_runs import *  # noqa: F403

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "neox", "neox_sequential", "mixtral", "qwen2_moe",
            "qwen3_moe", "deepseek_v2", "deepseek_v3", "starcoder2", "phi3", "olmo2", "granite",
            "smollm3", "gemma2", "gemma3_text", "opt", "gpt_oss", "gpt_oss_mxfp4")


def reference(name):
    return load_json(os.path.join(REFERENCE, name))


def infer(f, weights, prompts, new_tokens, *more):
    """Returns the logits after each prompt, and the tokens that follow."""
    got = summary(f, "--weights", weights, "--prompt_ids", write_ids(f, prompts), "--top_k", 1,
                  "--num_output_tokens", new_tokens, "--save_logits", "logits.npy", *more)
    return read_rows(f / "logits.npy"), got["tokens"]


def check_model(f, what, weights, want, ways):
    for tp, attention in ways:
        options = ["--tp", tp, "--attention", attention]
        logits, _ = infer(f, weights, want["ids"], 1, *options)
        off = difference(logits, want["logits"])
        assert off < 1e-5, f"{what}, tp {tp}, {attention}: off by {off}"
        _, tokens = infer(f, weights, want["ids"][:1], 30, *options)
        assert tokens == [want["tokens"]], f"{what}, tp {tp}, {attention}: {tokens}"


def test_families():
    want = {}
    for name in ("llama", "neox", "moe", "dense"):
        want |= reference(f"{name}.json")
    for name in FAMILIES:
        with Folder() as f:
            weights = checkpoint(f"tiny_{name}")
            check_model(f, name, weights, want[name], [(1, "fused"), (1, "unfused"), (2, "fused"),
                                                       (4, "fused"), (4, "unfused")])
            # In a batch, the shorter text is padded on its left.
            long, short = want[name]["ids"][0], want[name]["ids"][1][:9]
            both, _ = infer(f, weights, [long, short], 1)
            alone, _ = infer(f, weights, [short], 1)
            assert difference(both[:1], want[name]["logits"][:1]) < 1e-5, name
            assert difference(both[1:], alone) < 1e-5, name
            # Saved by one rank and by four ranks, and read again.
            for tp in (1, 4):
                infer(f, weights, want[name]["ids"], 1, "--tp", tp, "--save_weights", f"by{tp}")
                logits, _ = infer(f, f"by{tp}", want[name]["ids"], 1)
                assert difference(logits, want[name]["logits"]) < 1e-5, f"{name}, saved by {tp}"


def test_longrope():
    """Phi-3's longrope: texts of more than original_max_position_embeddings tokens have other
    frequencies, so a shorter text cannot grow to that length."""
    want = reference("dense.json")["phi3_longrope"]
    weights = checkpoint("tiny_phi3_longrope")
    with Folder() as f:
        check_model(f, "longrope", weights, want, [(1, "fused"), (2, "unfused")])
        ids = [want["ids"][0][:9]]
        logits, _ = infer(f, weights, ids, 8, "--save_weights", "saved")
        assert difference(logits, [want["short"]]) < 1e-5
        check_model(f, "saved longrope", "saved", want, [(1, "fused")])
        done = f.run("--weights", weights, "--prompt_ids", write_ids(f, ids),
                     "--num_output_tokens", 9)
        assert done.returncode == 1 and b"cannot grow to 17" in done.stderr, done.stderr


def test_neox_of_transformers_4():
    """transformers 4 wrote rotary_pct and rotary_emb_base instead of rope_parameters. If a file has
    both, rope_parameters count. Saved models have both."""
    want = reference("neox.json")["neox"]
    said = load_json(checkpoint("tiny_neox/config.json"))
    rope = said.pop("rope_parameters")
    old = {"rotary_pct": rope["partial_rotary_factor"], "rotary_emb_base": 10000}
    both = old | {"partial_rotary_factor": 0.34, "rope_theta": 10000, "rope_scaling": None}
    for more in (old, both, {"rotary_pct": 1.0, "rotary_emb_base": 77, "rope_parameters": rope}):
        with Folder() as f:
            weights = with_config(f, "old", said | more, "tiny_neox")
            check_model(f, f"{more}", weights, want, [(2, "fused")])
            infer(f, weights, want["ids"], 1, "--save_weights", "saved")
            saved = load_json(f / "saved/config.json")
            assert saved["rotary_pct"] == saved["rope_parameters"]["partial_rotary_factor"] == 0.34
            assert saved["rotary_emb_base"] == saved["rope_parameters"]["rope_theta"] == 10000


def with_config(f, folder, config, weights="tiny_llama"):
    """Copies the tensors of a checkpoint and writes another configuration. Returns the folder."""
    os.makedirs(f / folder, exist_ok=True)
    shutil.copy(checkpoint(f"{weights}/model.safetensors"), f / folder)
    f.write(f"{folder}/config.json", json.dumps(config))
    return folder


def test_joined_matrices_that_do_not_fit():
    """Phi-3's checkpoints have q, k and v in one matrix, and gate and up in another."""
    said = load_json(checkpoint("tiny_phi3/config.json"))
    with Folder() as f:
        for more, says in (
                ({"num_key_value_heads": 1}, "qkv_proj.weight: the file has the shape [64, 24], "
                                             "but the model has 48 rows"),
                ({"intermediate_size": 36}, "gate_up_proj.weight: the file has the shape [80, 24], "
                                            "but the model has 72 rows")):
            folder = with_config(f, "uneven", {**said, **more}, "tiny_phi3")
            done = f.run("--weights", folder, "--prompt_ids", write_ids(f, [[1, 2]]))
            assert done.returncode == 1 and says in done.stderr.decode(), done.stderr


def test_stacks_that_do_not_fit():
    """gpt-oss's checkpoints have the matrices of all experts of a layer in one tensor, as floats or
    in MXFP4."""
    stem = "model.layers.1.mlp.experts."
    for weights, more, drop, says in (
            ("tiny_gpt_oss", {"intermediate_size": 20}, [],
             "gate_up_proj: the file has the shape [4, 24, 32], but the model has [4, 24, 40]"),
            ("tiny_gpt_oss", {}, ["down_proj_bias"],
             "down_proj_bias: missing; the model has it with the shape [4, 24]"),
            ("tiny_gpt_oss_mxfp4", {"intermediate_size": 32}, [],
             "down_proj_blocks: the file has the shape [4, 32, 2, 16], but the model has "
             "[4, 32, 1, 16]"),
            ("tiny_gpt_oss_mxfp4", {}, ["down_proj_scales"],
             "down_proj_scales: missing; the model has it with the shape [4, 32, 2]"),
            ("tiny_gpt_oss_mxfp4", {}, ["gate_up_proj_blocks"],
             "gate_up_proj: missing; the model has it with the shape [4, 32, 128]")):
        with Folder() as f:
            said = load_json(checkpoint(f"{weights}/config.json"))
            folder = with_config(f, "stacks", {**said, **more}, weights)
            tensors = read_tensors(checkpoint(f"{weights}/model.safetensors"))
            for name in drop:
                del tensors[stem + name]
            write_tensors(f / "stacks/model.safetensors", tensors)
            for option in ([], ["--tp", "2"]):
                done = f.run("--weights", folder, "--prompt_ids", write_ids(f, [[1, 2]]), *option)
                assert done.returncode == 1 and says in done.stderr.decode(), done.stderr


def f8_number(code):
    """The value of an E4M3 code: bias 7, three bits of the fraction, and no infinity."""
    exponent, fraction = code >> 3 & 15, code & 7
    size = fraction / 512 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    return -size if code & 128 else size


def f8_checkpoints(draw):
    """Returns the tensors of a Mixtral with matrices in FP8, and the same numbers in f32. Their
    sides are no multiples of the 128 rows and columns of a block, which has its own scale."""
    hidden, inner, layer = 136, 264, "model.layers.0."
    experts = layer + "block_sparse_moe."
    matrices = {layer + f"self_attn.{k}_proj.weight": (rows, hidden)
                for k, rows in (("q", hidden), ("k", 68), ("v", 68), ("o", hidden))}
    for e in range(2):
        matrices |= {experts + f"experts.{e}.w{i}.weight": shape for i, shape in
                     ((1, (inner, hidden)), (2, (hidden, inner)), (3, (inner, hidden)))}
    floats = {"model.embed_tokens.weight": (61, hidden), "lm_head.weight": (61, hidden),
              "model.norm.weight": (hidden,), layer + "input_layernorm.weight": (hidden,),
              layer + "post_attention_layernorm.weight": (hidden,),
              experts + "gate.weight": (2, hidden)}
    both = {name: ("F32", list(shape), struct.pack(f"<{math.prod(shape)}f", *(
        draw.gauss(0, 1) for _ in range(math.prod(shape))))) for name, shape in floats.items()}
    packed, whole = dict(both), dict(both)
    for name, (rows, columns) in matrices.items():
        codes = bytes(draw.choice((0, 128)) + draw.randrange(96) for _ in range(rows * columns))
        down, right = -(-rows // 128), -(-columns // 128)
        scales = struct.pack(f"<{down * right}f",
                             *(draw.uniform(0.005, 0.02) for _ in range(down * right)))
        of = struct.unpack(f"<{down * right}f", scales)
        packed[name] = ("F8_E4M3", [rows, columns], codes)
        packed[name + "_scale_inv"] = ("F32", [down, right], scales)
        whole[name] = ("F32", [rows, columns], struct.pack(f"<{rows * columns}f", *(
            f8_number(codes[i]) * of[i // columns // 128 * right + i % columns // 128]
            for i in range(rows * columns))))
    said = load_json(checkpoint("tiny_mixtral/config.json")) | {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": 1,
        "num_local_experts": 2}
    how = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    return packed, whole, said | {"quantization_config": how}, said


def test_f8():
    """Matrices in FP8, as in DeepSeek-V3's checkpoints, are converted when they are read."""
    packed, whole, said, plain = f8_checkpoints(random.Random(4))
    ids = [[5, 17, 60, 2, 33, 8], [1, 44]]
    with Folder() as f:
        for name, tensors, config in (("f8", packed, said), ("f32", whole, plain)):
            with_config(f, name, config, "tiny_mixtral")
            write_tensors(f / f"{name}/model.safetensors", tensors)
        want, tokens = infer(f, "f32", ids, 5)
        for tp in (1, 2):
            logits, same = infer(f, "f8", ids, 5, "--tp", tp, "--save_weights", "saved")
            assert difference(logits, want) < (1e-6 if tp > 1 else 1e-9) and same == tokens, tp
        assert "quantization_config" not in load_json(f / "saved/config.json")
        assert infer(f, "saved", ids, 5)[1] == tokens
        name = "model.layers.0.self_attn.q_proj.weight"
        for scales, says in (
                (None, f"{name}: the file has F8_E4M3"),
                (("F32", [1, 2], bytes(8)), f"{name}_scale_inv: not in the model")):
            broken = {k: v for k, v in packed.items() if k != name + "_scale_inv"}
            if scales:
                broken[name + "_scale_inv"] = scales
            write_tensors(f / "f8/model.safetensors", broken)
            done = f.run("--weights", "f8", "--prompt_ids", write_ids(f, ids))
            assert done.returncode == 1 and says in done.stderr.decode(), done.stderr


def test_variants():
    """Rotary embeddings of all kinds work, configured by rope_parameters or, as in older files, by
    rope_scaling."""
    for want in reference("variants.json"):
        config = want["config"]
        rope = config["rope_parameters"]
        old = {k: v for k, v in config.items() if k != "rope_parameters"}
        old["rope_theta"] = rope["rope_theta"]
        old["rope_scaling"] = {("type" if k == "rope_type" else k): v for k, v in rope.items()
                               if k != "rope_theta"}
        with Folder() as f:
            for said in (config, old):
                check_model(f, f"{rope}", with_config(f, "variant", said), want,
                            [(1, "fused"), (2, "unfused")])
            infer(f, "variant", want["ids"], 1, "--save_weights", "again")
            check_model(f, f"{rope}, saved", "again", want, [(1, "fused")])


def test_several_sources():
    """Rotary parameters are read from rope_scaling if the file has it, otherwise from
    rope_parameters. If rope_theta is missing there, the value at the top level of the file is used,
    or else the default."""
    known = reference("variants.json")
    whole = [v for v in known
             if "partial_rotary_factor" not in v["config"]["rope_parameters"]]
    plain, linear = (next(v for v in whole if v["config"]["rope_parameters"]["rope_type"] == kind)
                     for kind in ("default", "linear"))
    said = linear["config"]["rope_parameters"]
    other = dict(rope_type="linear", rope_theta=77.0, factor=4.0)
    bare = {k: v for k, v in said.items() if k != "rope_theta"}
    for want, keys in (
            (plain, dict(rope_theta=77.0, rope_parameters=plain["config"]["rope_parameters"])),
            (plain, dict(rope_theta=77.0, rope_scaling=plain["config"]["rope_parameters"])),
            (linear, dict(rope_parameters=other, rope_scaling=said)),
            (linear, dict(rope_parameters=other, rope_scaling=bare)),  # default rope_theta
            (linear, dict(rope_theta=said["rope_theta"], rope_parameters=other,
                          rope_scaling=bare)),
            (linear, dict(rope_parameters=said, rope_scaling=None, rope_theta=None))):
        for order in (list(keys), list(reversed(keys))):
            config = dict(want["config"])
            del config["rope_parameters"]
            config.update((k, keys[k]) for k in order)
            with Folder() as f:
                check_model(f, f"{keys}", with_config(f, "sources", config), want,
                            [(1, "fused")])


if __name__ == "__main__":
    main(globals())
