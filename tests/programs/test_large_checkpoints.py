"""Tests checkpoints that are large compared with the memory: a run needs little more memory than
the weights, and a checkpoint that does not fit is refused before it is loaded."""
from inference_runs import *  # noqa: F403
from zero_checkpoint import parser, write


def zeros(f, name="zeros", **shape):
    """Writes a checkpoint of zeros. Returns the number of bytes of its tensors."""
    options = [f / name]
    for key, value in shape.items():
        options += [f"--{key}", str(value)]
    return write(parser().parse_args(options))


def test_weights_are_in_memory_once():
    """Weights stay in memory as they are in the file, whatever the type of the arithmetic. They are
    not copied to transpose, pack or convert them."""
    if SANITIZED:
        raise Skip("sanitizers have shadows of all memory")
    with Folder() as f:
        bytes_of = [zeros(f, name, layers=layers, hidden=1024, heads=16, inner=2816, vocab=16000)
                    for name, layers in (("less", 1), ("more", 8))]
        assert bytes_of[1] > 2e8, bytes_of
        ids = f.write("ids.txt", "1 2 3 4 5\n")
        for how in ([], ["--dtype", "bf16"], ["--tp", 2]):
            peaks = []
            for name in ("less", "more"):
                s = summary(f, "--weights", name, "--prompt_ids", ids, "--num_output_tokens", 1,
                            "--temperature", 0, *how)
                assert s["weight_dtype"] == "bf16" and len(s["tokens"][0]) == 1, s
                peaks.append(s["memory"]["process_peak_bytes"])
            growth = peaks[1] - peaks[0]
            assert growth <= 1.1 * (bytes_of[1] - bytes_of[0]), (how, peaks, bytes_of)
            assert peaks[1] <= 1.1 * bytes_of[1] + 150e6, (how, peaks, bytes_of)


def test_larger_than_memory_is_reported_before_loading():
    with open("/proc/meminfo", encoding="utf-8") as lines:
        total = 1024 * int(next(n for n in lines if n.startswith("MemTotal")).split()[1])
    with Folder() as f:
        size = zeros(f, layers=1 + int(1.2 * total / 4e8), shards=3)
        assert size > total
        ids = f.write("ids.txt", "1 2 3\n")
        how = ["--weights", "zeros", "--prompt_ids", ids, "--num_output_tokens", 1]
        for more in ([], ["--tp", 2], ["--dtype", "bf16"]):
            refuse(f, how + more, 1, "out of memory: the weights of zeros and the KV cache",
                   "has ", " available; --device meta needs no memory for tensors")
        expect_ok(f.run(*how, "--device", "meta", "--quiet"))
        if not SANITIZED:
            refuse(f, how, 1, "of address space to map", limit=1500000)


def least_limit(f, how):
    """Returns about the least address space in KiB with which the run can start. It is measured
    because it depends on OpenBLAS's buffers, and thus on the machine. The addresses of the threads'
    heaps change it slightly."""
    fails, works = 0, 1 << 25
    while works - fails > 16384:
        middle = (fails + works) // 2
        if f.run(*how, "--quiet", limit=middle).returncode == 0:
            works = middle
        else:
            fails = middle
    return works


def test_more_than_the_shell_allows():
    if SANITIZED:
        raise Skip("sanitizers need terabytes of address space")
    with Folder() as f:
        size = zeros(f, layers=45, hidden=1024, heads=16, inner=2816, vocab=16000) // 1024
        zeros(f, "small", layers=1, hidden=64, heads=4, inner=64, vocab=100)
        ids = f.write("ids.txt", "1 2 3\n")
        how = ["--prompt_ids", ids, "--num_output_tokens", 1]
        least = least_limit(f, how + ["--weights", "small"])
        how += ["--weights", "zeros"]
        refuse(f, how, 1, "out of memory: the weights of zeros", "need 1.14 GiB",
               "the limit on the address space (ulimit -v) leaves", limit=least + size + 100000)
        expect_ok(f.run(*how, "--quiet", limit=least + 2 * size + 700000))


if __name__ == "__main__":
    main(globals())
