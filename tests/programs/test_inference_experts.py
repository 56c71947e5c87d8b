"""Tests expert parallelism in the inference program: with experts on the tensor-parallel ranks, and
on those of several parts of a batch, logits and tokens match transformers
(tests/reference/moe.json) or one rank, as threads and over MPI. Traces without data have the
collectives of each layout."""
from inference_runs import *  # noqa: F403

FAMILIES = ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss",
            "gpt_oss_mxfp4")
TENSOR = ["--tp 2 --ep 2", "--tp 2 --ep 2 --sp"]
FOUR = ["--tp 4 --ep 4", "--tp 4 --ep 2 --etp 2"]
# Layouts for two prompts, and for four.
DATA = ["--dp 2 --ep 2", "--dp 2 --tp 2 --ep 4", "--dp 2 --tp 2 --ep 2",
        "--dp 2 --ep 2 --moe_dispatcher alltoall"]
MORE = ["--dp 4 --ep 4", "--dp 4 --tp 2 --ep 4", "--dp 2 --pp 2 --ep 2", "--tp 2 --pp 2 --ep 2",
        "--dp 2 --tp 2 --sp --ep 4", "--dp 2 --tp 2 --sp --ep 4 --moe_dispatcher alltoall",
        "--dp 4 --ep 2 --etp 2", "--dp 4 --ep 2 --etp 2 --moe_dispatcher alltoall",
        "--dp 2 --tp 2 --sp --ep 2 --etp 2 --moe_dispatcher alltoall",
        "--dp 2"]
QWEN = {"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 32,
        "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 48,
        "moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 259,
        "max_position_embeddings": 256, "norm_topk_prob": True, "head_dim": 8}


def infer(f, weights, prompts, new_tokens, *more, launcher=None):
    """Returns the logits after each prompt, and the tokens that follow."""
    got = summary(f, "--weights", weights, "--prompt_ids", write_ids(f, prompts), "--top_k", 1,
                  "--num_output_tokens", new_tokens, "--save_logits", "logits.npy", *more,
                  launcher=launcher)
    return read_rows(f / "logits.npy"), got["tokens"]


def test_families():
    moe = load_json(os.path.join(REFERENCE, "moe.json"))
    for name in FAMILIES:
        want, weights = moe[name], checkpoint(f"tiny_{name}")
        with Folder() as f:
            experts = load_json(os.path.join(weights, "config.json"))
            divides = experts.get("num_experts", 8) % 4 == 0
            for layout in TENSOR + (FOUR if divides else []) + (DATA if divides else DATA[:1]):
                logits, _ = infer(f, weights, want["ids"], 1, *layout.split())
                off = difference(logits, want["logits"])
                assert off < 1e-5, f"{name}, {layout}: off by {off}"
                ids = want["ids"][:1] * (2 if "--dp" in layout else 1)
                _, tokens = infer(f, weights, ids, 30, *layout.split())
                assert tokens == [want["tokens"]] * len(ids), f"{name}, {layout}: {tokens}"


def one_rank(f, *more):
    """A run of random weights with prompts of different lengths."""
    got = summary(f, "--model_config", "qwen.json", "--prompts", "prompts", "--top_k", 1,
                  "--save_logits", "logits.npy", *more)
    return got, read_rows(f / "logits.npy")


def write_inputs(f):
    f.write("qwen.json", json.dumps(QWEN))
    f.write("prompts", "Hello there\nHi\nA somewhat longer prompt here\nxyz\n")


def test_layouts():
    """Sequences of a part may all end before those of another part."""
    with Folder() as f:
        write_inputs(f)
        ends = ["--num_output_tokens", 40]
        free, _ = one_rank(f, *ends)
        # The first sequence ends at its second token, and the last one later.
        stop = ["--eos", ",".join(str(free["tokens"][i][at])
                                  for i, at in ((0, 1), (1, 9), (2, 4), (3, 14)))]
        want, logits = one_rank(f, *ends, *stop)
        assert 4 < want["new_tokens"] < 40, want["new_tokens"]
        for layout in DATA + MORE:
            got, own = one_rank(f, *ends, *stop, *layout.split())
            off = difference(own, logits)
            assert off < 1e-5, f"{layout}: off by {off}"
            assert got["tokens"] == want["tokens"], f"{layout}: {got['tokens']}"
            assert got["texts"] == want["texts"] and got["prompts"] == want["prompts"], layout
            numbers = dict(zip(layout.split(), layout.split()[1:]))
            assert got["ep"] == int(numbers.get("--ep", 1)), got["ep"]
        # One rank has a half of the experts.
        for layout in ("--tp 2 --ep 2", "--dp 2 --ep 2", "--tp 2 --ep 2 --etp 1"):
            got, _ = one_rank(f, *ends, *layout.split(), "--save_weights", "saved")
            saved = read_tensors(f / "saved/model.safetensors")
            experts = sum(len(t[2]) for name, t in saved.items() if ".experts." in name)
            whole = sum(len(t[2]) for t in saved.values())
            assert experts == 2 * 8 * 3 * 24 * 32 * 4, experts
            own = got["memory"]["weights_bytes"]
            assert own < whole - experts / 2 + 1 if "--tp" in layout else \
                own == whole - experts / 2, (layout, own, whole, experts)


def test_random_choices():
    """Data-parallel ranks choose with different random numbers."""
    with Folder() as f:
        write_inputs(f)
        got = summary(f, "--model_config", "qwen.json", "--batch_size", 4, "--dp", 4, "--ep", 4,
                      "--num_output_tokens", 12)
        assert len({tuple(t) for t in got["tokens"]}) == 4, got["tokens"]


def test_mpi():
    need_mpi()
    weights = checkpoint("tiny_qwen3_moe")
    want = load_json(os.path.join(REFERENCE, "moe.json"))["qwen3_moe"]
    with Folder() as f:
        for layout in ("--tp 2 --ep 2", "--dp 2 --ep 2", "--dp 2"):
            logits, tokens = infer(f, weights, want["ids"], 30, *layout.split(),
                                   "--check_collectives", launcher=MPI)
            assert difference(logits, want["logits"]) < 1e-5, layout
            assert tokens[0] == want["tokens"], f"{layout}: {tokens}"
        refuse(f, ["--weights", weights, "--dp", 4, "--ep", 2], 2,
               "2 MPI processes were started, but --tp x --dp is 4", launcher=MPI)


def collectives(f, *layout):
    """The collectives of one MoE layer: kind, group and bytes."""
    summary(f, "--device", "meta", "--model_config", "qwen.json", "--dtype", "f32", "--hw", "h100",
            "--num_input_tokens", 16, "--num_output_tokens", 2, "--visualize_trace", "--out_dir",
            "out", *layout)
    graph = load_json(f / "out/tensor_trace_graph.json")
    found = []
    for node in graph["nodes"]:
        scope = str(node.get("scope", ""))
        if node.get("comm_bytes") and "layers.1" in scope and "mlp" in scope and \
                node.get("rank", 0) == 0 and node.get("phase") == "decode":
            found.append((node["op"], str(node.get("group_name", "")), node["comm_bytes"]))
    return found


def test_traces():
    """A decode step of 4 sequences of hidden size 32 in f32, with 2 experts of 8 per token."""
    row = 32 * 4
    with Folder() as f:
        write_inputs(f)
        for layout, batch, want in (
                ("--tp 2 --ep 2", 4, ["all_reduce"]),
                ("--tp 2 --dp 2 --ep 4", 8, ["gather_tokens", "gather_tokens", "all_gather",
                                             "reduce_scatter", "all_reduce"]),
                ("--dp 2 --ep 2", 8, ["gather_tokens", "gather_tokens", "all_gather",
                                      "reduce_scatter"]),
                ("--dp 2 --ep 2 --moe_dispatcher alltoall", 8,
                 ["all_gather", "all_to_all", "all_to_all", "all_to_all"]),
                ("--dp 2 --ep 2 --moe_dispatcher deepep", 8,
                 ["deepep_all_to_all", "deepep_all_to_all"])):
            got = collectives(f, "--batch_size", batch, *layout.split())
            assert sorted(op for op, *_ in got) == sorted(want), f"{layout}: {got}"
            if "all_reduce" in want:
                assert ("all_reduce", got[-1][1], 4 * row) == got[-1], f"{layout}: {got}"


def test_refused():
    with Folder() as f:
        write_inputs(f)
        model = ["--model_config", "qwen.json"]
        for args, code, says in (
                (["--ep", 2], 1, "tp 1 x dp 1 = 1 ranks are not a multiple of etp 1 x ep 2 = 2"),
                (["--ep", 16, "--dp", 16], 1, "ep 16 does not divide the 8 experts"),
                (["--tp", 4, "--ep", 2], 1,
                 "etp 1 x ep 2 = 2 must be a multiple of tp 4"),
                (["--tp", 2, "--etp", 1], 1, "etp 1 x ep 1 = 1 must be a multiple of tp 2"),
                (["--dp", 2, "--ep", 2, "--batch_size", 3], 1,
                 "--dp 2 does not divide the batch of 3 sequences"),
                (["--tp", 2, "--ep", 2, "--moe_dispatcher", "alltoall"], 2,
                 "--moe_dispatcher has no effect with --tp"),
                (["--tp", 2, "--moe_dispatcher", "alltoall"], 2, "has no effect without --ep"),
                (["--dp", 2, "--ep", 2, "--moe_dispatcher", "deepep"], 2,
                 "deepep is for --device meta"),
                (["--dp", 4, "--ep", 2, "--etp", 2, "--batch_size", 4, "--moe_dispatcher",
                  "deepep", "--device", "meta"], 1,
                 "deepep cannot be used with --etp 2 and --ep 2"),
                (["--dp", 2, "--ep", 2, "--moe_dispatch_fp8"], 2,
                 "--moe_dispatch_fp8 has no effect without --moe_dispatcher deepep"),
                (["--dp", 2, "--logits", "all", "--save_logits", "x.npy"], 2,
                 "--dp divides a batch of texts that are generated")):
            refuse(f, [*model, *args], code, says)
        refuse(f, ["--ep", 2, "--tp", 2], 1, "has no experts: ep and etp have no effect")


if __name__ == "__main__":
    main(globals())
