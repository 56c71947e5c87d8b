"""Tests `syntorch calibrate`: the errors of the built-in stacks on measured rows (tests/measured)
stay below their limits, a fit finds the constants of the formulas that computed its rows, and
invalid rows and options are refused."""
import csv
import json
import os
import subprocess
import tempfile

import checks
from checks import BUILD, SOURCE, check, finish
from measured_rows import BLOCKING, MEASURED

WIDTH = {"read_gb_per_s": 10, "gflop_per_s": {"linear": [[1, 10]]}}
MEASURED_CPU = {
    "name": "a-cpu",
    "hardware": {"peak_tflops": {"f32": 0.1}, "memory_gib": 8, "memory_gb_per_s": 10,
                 "node_ranks": 2, "intra": {"alpha_us": 1, "gb_per_s": 10}},
    "stack": {"name": "syntorch", "launch_us": 1, "matmul_efficiency": 1, "memory_efficiency": 1},
    "kernels": {"alone": {"ranks": 1, "launch_us": 1, "memory": [[1, 10]], "f32": WIDTH}}}


# Machine and stack, name of the file of rows, number of rows, limit of the mean error.
ALL_REDUCES = (("a100-80g+pytorch-eager", "a100", 140, 0.05),
               ("a100-80g+pytorch-eager", "a100_8", 60, 0.17),
               ("a100-80g+pytorch-eager", "a100_16_32", 53, 0.12),
               ("a100-80g+pytorch-eager", "a100_nodes", 21, 0.15),
               ("h100+pytorch-eager", "h100_8", 39, 0.13),
               ("h100+pytorch-eager", "h100_nodes", 7, 0.03),
               ("h100+pytorch-eager", "h100_16_64", 43, 0.09),
               ("h200+pytorch-eager", "h200", 39, 0.135),
               ("v100-32g+pytorch-eager", "v100", 19, 0.03),
               (os.path.join(MEASURED, "dgx2.json"), "v100_dgx2", 21, 0.06))
# The same for files with all-reduces, all-gathers, reduce-scatters and all-to-alls.
COLLECTIVES = (("a100-80g+pytorch-eager", "a100", 132, 0.23),
               ("h100+pytorch-eager", "h100", 132, 0.1))


def run(*args):
    done = checks.run("calibrate", *args)
    done.stderr = done.stderr.decode() if isinstance(done.stderr, bytes) else done.stderr
    return done


def calibrate(*args):
    done = run("--json", *args)
    check(done.returncode == 0, f"{args}: {done.stderr}")
    return json.loads(done.stdout)


def some_rows(folder, name, keep):
    """Writes those rows of a measured file for which keep(index, row) is true. Returns the path."""
    path = os.path.join(folder, name)
    with open(os.path.join(MEASURED, name), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, rows[0])
        out.writeheader()
        out.writerows(r for i, r in enumerate(rows) if keep(i, r))
    return path


def built_in_stacks(folder):
    """The built-in stacks, and the stack of BLOCKING, predict the measured rows with mean errors
    below these limits."""
    piped = some_rows(folder, "training_a100_pipelines.csv", lambda i, r: i % 4 == 0)
    cluster = some_rows(folder, "training_a100_cluster.csv", lambda i, r: int(r["pp"]) <= 4)
    short = some_rows(folder, "gpt_inference_a100.csv", lambda i, r: int(r["output_tokens"]) <= 20)
    steps = some_rows(folder, "training_a100.csv", lambda i, r: i % 3 == 0)
    for hw, rows, stack, n, mean in (("a100-80g+serving", short, "ft", 93, 0.045),
                                     ("a100-80g+megatron", short, "megatron", 4, 0.06),
                                     ("a100-80g+megatron", steps, None, 47, 0.06),
                                     (BLOCKING, piped, None, 40, 0.065),
                                     (BLOCKING, cluster, None, 14, 0.06),
                                     *((hw, os.path.join(MEASURED, f"all_reduce_{name}.csv"),
                                        None, n, mean) for hw, name, n, mean in ALL_REDUCES),
                                     *((hw, os.path.join(MEASURED, f"collectives_{name}.csv"),
                                        None, n, mean) for hw, name, n, mean in COLLECTIVES)):
        got = calibrate("--check", "--hw", hw, "--rows", rows,
                        *(["--rows_stack", stack] if stack else []))["given"]
        check(got["rows"] == n and got["mean"] <= mean, f"{hw}: {got}")


def predicted(*args):
    done = subprocess.run([os.path.join(BUILD, "inference"), "--device", "meta", "--json",
                           "--model", "gpt3-13b", "--num_input_tokens", "128",
                           "--num_output_tokens", "8", *args], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def expected_errors(folder):
    """hardware_errors.def has a row for each measured run. A predicted run that resembles the
    measured runs has an expected error. If a run is outside of their range, the output names what
    is extrapolated. Without measured runs of the machine and dtype, there is no expected error."""
    path = os.path.join(SOURCE, "syntorch/hardware/hardware_errors.def")
    with open(path, encoding="utf-8") as f:
        known = [line for line in f if line[0] in "XY"]
    for start, n in (('X("serving", 0', 135), ('X("megatron", 0', 7), ('X("megatron", 1', 351),
                     ('Y("serving", 0', 1), ('Y("megatron", 1', 1)):
        got = sum(line.startswith(start) for line in known)
        check(got == n, f"{got} rows {start}: ./dev bench accuracy makes them")

    like = predicted("--dtype", "f16")
    check(0.005 < like["predicted_error"] < 0.15 and like["extrapolated"] == "", str(like))
    far = predicted("--dtype", "f16", "--batch_size", "1000")
    check(far["extrapolated"] == "batch", str(far))
    config = os.path.join(folder, "wide.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump({"model_type": "gpt2", "vocab_size": 51200, "n_positions": 1024, "n_embd": 30720,
                   "n_layer": 128, "n_head": 240}, f)
    wide = json.loads(subprocess.run(
        [os.path.join(BUILD, "inference"), "--device", "meta", "--json", "--model_config", config,
         "--tp", "16", "--num_input_tokens", "128", "--num_output_tokens", "8", "--dtype", "f16"],
        check=True, stdout=subprocess.PIPE).stdout)
    check(wide["extrapolated"] == "layers, hidden size" and
          wide["predicted_error"] > like["predicted_error"], f"models left out are off: {wide}")
    file = os.path.join(SOURCE, "examples/configs/hw_a100.json")
    for other in (["--dtype", "f32"], ["--dtype", "f16", "--hw", "h100"],
                  ["--dtype", "f16", "--hw", file]):
        check("predicted_error" not in predicted(*other), str(other))


def worst_all_reduce(_):
    done = run("--check", "--hw", "a100-80g+pytorch-eager", "--rows",
               os.path.join(MEASURED, "all_reduce_a100.csv"))
    check(b": all-reduce, 8 ranks, 1.00 MiB)" in done.stdout, done.stdout)


def collectives_by_kind(folder):
    """--check prints mean errors by kind of collective, number of ranks and class of sizes. They
    must be the means that this function computes from the predicted and measured time of each
    row."""
    rows, times = os.path.join(MEASURED, "collectives_h100.csv"), os.path.join(folder, "kinds.csv")
    done = run("--check", "--hw", "h100+pytorch-eager", "--rows", rows, "--predictions", times)
    with open(times, encoding="utf-8") as f:
        table = list(csv.DictReader(f))
    lines = [line.split() for line in done.stdout.decode().splitlines() if line.endswith(" %")]
    check(len(lines) == 12, done.stdout)
    for kind, ranks, *means in lines:
        for limits, mean in zip(((0, 2**20), (2**20, 2**26), (2**26, 2**40)), means[::2]):
            off = [abs(float(r["predicted_ms"]) / float(r["measured_ms"]) - 1) for r in table
                   if (r["model"], r["tp"]) == (kind, ranks)
                   and limits[0] <= int(r["bytes"]) < limits[1]]
            check(off and abs(100 * sum(off) / len(off) - float(mean)) < 0.06,
                  f"{kind}, {ranks}, {limits}: {mean}")


def attention_in_separate_ops(_):
    """The stacks were fitted to attention as one op. Attention as separate ops must have the same
    predicted time within 2 %."""
    for stack in ("serving", "megatron"):
        for args in ([], ["--batch_size", "16"], ["--tp", "8", "--num_input_tokens", "1000"],
                     ["--model", "gpt2"], ["--model", "llama-3-8b"]):
            one, four = (predicted("--dtype", "f16", "--hw", f"a100-80g+{stack}", "--attention",
                                   how, *args) for how in ("fused", "unfused"))
            for time in ("predicted_prefill_ns", "predicted_decode_ns"):
                check(abs(four[time] / one[time] - 1) < 0.02, f"{stack} {args}: {one} {four}")


def errors_of_own_rows(folder):
    """A fitted file contains the errors of its rows, from which predictions get an expected error.
    After a constant was changed by hand, the error is unknown."""
    rows = some_rows(folder, "gpt_inference_a100.csv", lambda i, r: r["stack"] == "ft" and
                     r["model"] != "GPT-530B" and int(r["output_tokens"]) <= 8)
    found, times = os.path.join(folder, "own.json"), os.path.join(folder, "times.csv")
    got = calibrate("--hw", "a100-80g+serving", "--rows", rows, "--output", found, "--rounds", "5",
                    "--fix", "collective_hop_us", "--predictions", times)
    with open(times, encoding="utf-8") as f:
        off = [float(r["left_out_ms"]) / float(r["measured_ms"]) - 1 for r in csv.DictReader(f)]
    with open(found, encoding="utf-8") as f:
        file = json.load(f)
    kept = [row[-1] for row in file["errors"]["rows"]]
    check(len(kept) == got["given"]["rows"] and
          all(abs(a - b) < 1e-6 for a, b in zip(kept, off)), f"{kept[:3]} {off[:3]}")
    mean = sum(map(abs, off)) / len(off)
    check(abs(got["left_out"]["a tenth of the rows"] - mean) < 1e-6, f"{mean}: {got}")
    for split, name in (("model", "a model"), ("tp", "a tp degree"), ("batch", "a batch size")):
        check(abs(file["errors"]["inference"][split] - got["left_out_rms"][name]) < 1e-9, str(file))
    own = predicted("--dtype", "f16", "--hw", found)
    check(own["predicted_error"] > 0, str(own))
    file["stack"]["kernel_us"] += 0.001
    with open(found, "w", encoding="utf-8") as f:
        json.dump(file, f)
    done = subprocess.run([os.path.join(BUILD, "inference"), "--device", "meta", "--model",
                           "gpt3-13b", "--dtype", "f16", "--hw", found], capture_output=True,
                          text=True, check=True)
    check("unknown: constants of a100-80g+serving were changed after the fit" in
          done.stdout, done.stdout)


def few_rows(folder):
    """A row that is left out has no influence on the fit, not even through the constants that the
    fit starts with. With four rows, errors of left-out rows are therefore much larger than errors
    of the fit."""
    path = some_rows(folder, "gpt_inference_a100.csv", lambda i, r: r["stack"] == "ft" and i < 4)
    got = calibrate("--hw", "a100-80g+serving", "--rows", path)
    check(got["left_out"]["a tenth of the rows"] > 2 * got["fitted"]["mean"], str(got))
    files = [os.path.join(folder, "few.csv"), os.path.join(folder, "few.json")]
    done = run("--hw", "a100-80g+serving", "--rows", path, "--predictions", files[0], "--output",
               files[1])
    check(b"4 rows are too few for" in done.stdout, done.stdout)
    check(done.stdout.decode().splitlines()[-2:] == [f"written: {name}" for name in files],
          done.stdout)


def steps_as_printed(folder):
    """For a training row, calibrate predicts the time that pretrain prints: with overlap of
    all-reduces and products, without overlap, and with pipelines of all lengths."""
    config, times = os.path.join(folder, "config.json"), os.path.join(folder, "steps.csv")
    for name, hw, keep in (
            ("training_a100.csv", "a100-80g+megatron", lambda i, r: r["tp"] == "4" and i < 60),
            ("training_a100.csv", BLOCKING, lambda i, r: r["dp"] == "4" and i < 9),
            ("training_a100_pipelines.csv", BLOCKING, lambda i, r: i < 12),
            ("training_a100_pipelines.csv", "a100-80g+megatron", lambda i, r: i < 3),
            ("training_a100_cluster.csv", BLOCKING, lambda i, r: r["dp"] == "32" and i < 5)):
        rows = some_rows(folder, name, keep)
        calibrate("--check", "--hw", hw, "--rows", rows, "--predictions", times)
        with open(rows, encoding="utf-8") as f:
            sources = list(csv.DictReader(f))[-2:]
        with open(times, encoding="utf-8") as f:
            results = list(csv.DictReader(f))[-2:]
        for source, result in zip(sources, results):
            got, printed = float(result["predicted_ms"]), printed_step(config, source, hw)
            check(abs(printed / got - 1) < 2e-3,
                  f"{hw}, {source}: calibrate {got} ms, pretrain {printed} ms")


def printed_step(config, source, hw):
    """The time in ms that pretrain predicts for a row."""
    with open(config, "w", encoding="utf-8") as f:
        json.dump({"model_type": "gpt2", "vocab_size": 51200, "n_positions": int(source["seq"]),
                   "n_embd": int(source["hidden"]), "n_layer": int(source["layers"]),
                   "n_head": int(source["heads"])}, f)
    passes = int(source["global_batch"]) // int(source["micro_batch"]) // int(source["dp"])
    done = subprocess.run(
        [os.path.join(BUILD, "pretrain"), "--device", "meta", "--model-config", config,
         "--num-gpus", source["gpus"], "--tp", source["tp"], "--pp", source["pp"], "--dtype",
         "bf16", "--batch-size", source["micro_batch"], "--gradient-accumulation-steps",
         str(passes), "--max-seq-length", source["seq"], "--activation-recompute", "full",
         "--tokenizer", "bytes", "--json", "--hw", hw], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["predicted_step_ns"] / 1e6


def sequence_parallelism(folder):
    """The column sp says whether a row has sequence parallelism."""
    path, times = os.path.join(folder, "sp.csv"), os.path.join(folder, "sp_ms.csv")
    def predict(pp, values):
        with open(path, "w", encoding="utf-8") as f:
            f.write("global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp,sp,iter_ms\n")
            f.writelines(f"8,4,2048,16,16,1024,4,1,{pp},{sp},200\n" for sp in values)
        return run("--check", "--hw", "a100-80g+megatron", "--rows", path, "--predictions", times)
    for pp in (1, 2):
        check(predict(pp, (0, 1)).returncode == 0, f"pp {pp}")
        with open(times, encoding="utf-8") as f:
            without, having = (float(row["predicted_ms"]) for row in csv.DictReader(f))
        check(0.5 < having / without < 1.2 and having != without, f"pp {pp}: {without} {having}")
    done = predict(2, (2,))
    check(done.returncode == 1 and '"sp" must be 0 or 1' in done.stderr, done.stderr)


def passes_are_counted(folder):
    """The predicted time is linear in the number of microbatches: the step with 65,536 takes longer
    than the one with 8 by 8,191 times the difference between 16 and 8 microbatches."""
    path, times = os.path.join(folder, "passes.csv"), os.path.join(folder, "passes_ms.csv")
    with open(path, "w", encoding="utf-8") as f:
        f.write("gpus,global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp,iter_ms\n")
        for passes in (8, 16, 65536):
            f.write(f"8,{passes},1,1024,16,24,1024,8,1,1,186\n")
    calibrate("--check", "--hw", "a100-80g+megatron", "--rows", path, "--predictions", times)
    with open(times, encoding="utf-8") as f:
        few, more, many = (float(row["predicted_ms"]) for row in csv.DictReader(f))
    check(abs((many - few) / (more - few) / 8191 - 1) < 1e-4, f"{few} {more} {many}")


def constants_come_back(folder):
    """A fit finds the constants of the minimum time of all-reduces (us, and us per additional rank)
    from times that were computed with them."""
    path, found = os.path.join(folder, "made.csv"), os.path.join(folder, "found.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write("gpus,bytes,ip_ns\n")
        for ranks in range(2, 9):
            for size in (1, 2, 4):
                f.write(f"{ranks},{1024 * size},{300e3 + 40e3 * (ranks - 2)}\n")
    got = calibrate("--hw", "a100-80g+megatron", "--rows", path, "--output", found)
    want = {"collective_us": 300, "collective_rank_us": 40}
    check(all(abs(got["constants"][k] / v - 1) < 1e-3 for k, v in want.items()), str(got))
    check(got["given"]["mean"] > 0.5 and got["fitted"]["mean"] < 1e-3, str(got))
    check(got["left_out"]["a tp degree"] < 1e-2, str(got))
    with open(found, encoding="utf-8") as f:
        stack = json.load(f)["stack"]
    check(all(abs(stack[k] / v - 1) < 1e-3 for k, v in want.items()), str(stack))
    again = calibrate("--check", "--hw", found, "--rows", path, "--predictions",
                      os.path.join(folder, "p.csv"))
    check(again["given"] == got["fitted"], f"{again} {got}")
    with open(os.path.join(folder, "p.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    check(len(rows) == 21 and all(abs(float(r["predicted_ms"]) / float(r["measured_ms"]) - 1) < 1e-2
                                  for r in rows), str(rows[:2]))
    fixed = calibrate("--hw", "a100-80g+megatron", "--rows", path, "--fix", "collective_us",
                      "collective_rank_us")
    check("collective_us" not in fixed["constants"] and fixed["fitted"]["mean"] > 0.5, str(fixed))


def quoted_fields(folder):
    """Files in the format of spreadsheets (RFC 4180), with commas, quotes and line breaks in
    fields, and files that people have aligned with spaces, give the same rows as a plain file."""
    plain, quoted = os.path.join(folder, "plain.csv"), os.path.join(folder, "quoted.csv")
    aligned = os.path.join(folder, "aligned.csv")
    with open(plain, "w", encoding="utf-8") as f:
        f.write("stack,gpus,bytes,ip_ns\na,2,1024,5\nb,4,2048,7\n")
    with open(quoted, "w", encoding="utf-8", newline="") as f:
        f.write('"note","stack",gpus,"bytes",ip_ns\r\n'
                '"one, two",a,"2",1024,5\r\n\r\n"a ""line""\nand more","b",4,"2048","7"\r\n')
    with open(aligned, "w", encoding="utf-8") as f:
        f.write("stack, gpus , bytes,\tip_ns\n a, 2, 1024, 5\n   \n b , 4, \"2048\", 7 \n")
    got = [calibrate("--check", "--hw", "a100-80g", "--rows", path, *how)["given"]
           for how in ([], ["--rows_stack", "b"]) for path in (plain, quoted, aligned)]
    check([g["rows"] for g in got] == [2, 2, 2, 1, 1, 1], str(got))
    check([g["mean"] for g in got] == [got[0]["mean"]] * 3 + [got[3]["mean"]] * 3, str(got))
    check([g["worst_line"] for g in got[4:]] == [4, 4],
          f"line of a record behind an empty line: {got[4:]}")


def beyond_the_fit(folder):
    """Rows outside of the ranges to which constants were fitted are reported as extrapolated. A fit
    stores the ranges of its own rows."""
    path, found = os.path.join(folder, "many.csv"), os.path.join(folder, "ranges.json")
    for gpus, words in ((128, []), (256, ["all-reduce over 256 ranks (fitted for 2 to 128)"]),
                        (512, ["all-reduce over 512 ranks (fitted for 2 to 128)"])):
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"gpus,bytes,ip_ns\n{gpus},1024,60000\n16,1048576,90000\n")
        how = ("--check", "--hw", "a100-80g+pytorch-eager", "--rows", path)
        check(calibrate(*how)["extrapolations"] == words, f"{gpus} GPUs")
        lines = [line for line in run(*how).stdout.decode().splitlines()
                 if line.startswith("extrapolated")]
        check(lines == [f"extrapolated: {w}" for w in words], f"{gpus} GPUs: {lines}")
    part = some_rows(folder, "all_reduce_a100.csv", lambda i, r: r["gpus"] in "35" and i % 2)
    with open(part, encoding="utf-8") as f:
        sizes = [int(r["bytes"]) for r in csv.DictReader(f)]
    calibrate("--hw", "a100-80g+pytorch-eager", "--rows", part, "--output", found, "--rounds", "1")
    with open(found, encoding="utf-8") as f:
        file = json.load(f)
    check(file["collectives"]["fitted"]["all_reduce"] ==
          {"ranks": [3, 5], "nodes": [1, 1], "bytes": [min(sizes), max(sizes)]}, f"{file}")
    got = calibrate("--check", "--hw", found, "--rows", path)["extrapolations"]
    check("all-reduce over 512 ranks (fitted for 3 to 5)" in got, f"{got}")


def refused(folder):
    def refuses(text, says, *more):
        path = os.path.join(folder, "bad.csv")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = run("--check", "--rows", path, *more)
        check(done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1,
              f"{text!r}: {done.returncode} {done.stderr}")

    refuses("", "has no usable rows")
    refuses("gpus,bytes,ip_ns\n2,1024,x\n", 'bad.csv:2: "ip_ns" must be a number above 0')
    refuses("gpus,bytes,ip_ns\n2.5,1024,9\n", '"gpus" must be an integer, not 2.5')
    refuses("gpus,bytes\n2,1024\n", 'bad.csv:1: a column of times is missing: "latency_ms"')
    refuses("gpus,ip_ns\n2,1024\n", 'bad.csv:1: the column "bytes" is missing')
    refuses("\ufeffgpus,bytes,ip_ns\n2,1024,x\n", 'bad.csv:2: "ip_ns" must be a number above 0')
    refuses("layers,heads,head_dim,tp,batch,input_tokens,output_tokens,latency_ms\n"
            "2,4,32,3,1,8,8,5\n", "bad.csv:2: ")
    refuses("gpus,bytes,ip_ns\n1,1024,5\n", 'bad.csv:2: a collective needs at least two "gpus"')
    refuses("collective,gpus,bytes,ip_ns\nall_sum,2,1024,5\n",
            'bad.csv:2: "collective" must be all_reduce, all_gather, ')
    refuses("gpus,bytes,ip_ns\n2,0.5,5\n", 'an integer as "bytes"')
    refuses("gpus,bytes,ip_ns\n2000,1024,5\n", "2000 ranks exceed the limit of 1024")
    refuses('gpus,bytes,ip_ns\n2,"1024\n,5\n', "bad.csv:2: a quote is not closed")
    refuses('note,gpus,bytes,ip_ns\n"a\nb"c,2,1024,5\n', "bad.csv:3: a closing quote must be")
    refuses('note,gpus,bytes,ip_ns\n"a\nb",2,1024,5\nc,2,0,5\n', 'bad.csv:4: "bytes" must be')
    refuses("gpus,bytes,ip_ns\n2,1024,5\n", "cannot read a1000", "--hw", "a1000")
    cpu, rows = os.path.join(folder, "cpu.json"), os.path.join(folder, "one.csv")
    with open(cpu, "w", encoding="utf-8") as f:
        json.dump(MEASURED_CPU, f)
    with open(rows, "w", encoding="utf-8") as f:
        f.write("gpus,bytes,ip_ns\n2,1024,5\n")
    done = run("--hw", cpu, "--rows", rows)
    check(done.returncode == 1 and "predicted from measured kernels" in done.stderr and
          done.stderr.count("\n") == 1, done.stderr)
    check(run("--hw", cpu, "--rows", rows, "--check").returncode == 0, "errors of measured kernels")
    done = run()
    check(done.returncode == 2 and "--rows" in done.stderr, done.stderr)
    done = run("--rows", os.path.join(MEASURED, "all_reduce_a100.csv"), "--fix", "speed")
    check(done.returncode == 1 and "--fix speed" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as where:
    built_in_stacks(where)
    expected_errors(where)
    attention_in_separate_ops(where)
    worst_all_reduce(where)
    collectives_by_kind(where)
    errors_of_own_rows(where)
    few_rows(where)
    steps_as_printed(where)
    sequence_parallelism(where)
    passes_are_counted(where)
    constants_come_back(where)
    quoted_fields(where)
    beyond_the_fit(where)
    refused(where)
finish()
