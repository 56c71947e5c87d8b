"""Runs models: records them as a Trace in this process, or starts the `syntorch` program."""
from __future__ import annotations

import json as _json
import os
import re
import signal
import subprocess
import sys
import tempfile
import typing

from ._core import Error, InvalidError, c_text, call, ffi, lib, owned, text, _folder
from .simulation import _files
from .tables import table
from .traces import Trace, load

if typing.TYPE_CHECKING:
    import pandas

lib.syn_embed_set_data(c_text(os.path.join(_folder, "share", "syntorch")))


def models() -> list[str]:
    """The names of the model presets."""
    names, i = [], 0
    while lib.syn_model_preset(i):
        names.append(text(lib.syn_model_preset(i)))
        i += 1
    return names


def machines() -> list[str]:
    """The names of the machines whose times can be predicted."""
    return _list(lib.syn_hardware_presets())


def stacks() -> list[str]:
    """The names of the software stacks of machines."""
    return _list(lib.syn_stack_presets())


def _list(names):
    out, i = [], 0
    while names[i]:
        out.append(text(names[i]))
        i += 1
    return out


def _arguments(options):
    """Options of Python as arguments: tp=2 -> --tp 2, sp=True -> --sp, sweep=[...] -> values."""
    out, flags = [], []  # flags are last, so that none of them takes an option for its value
    for name, value in options.items():
        value = _plain(value)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise InvalidError(f"unknown option {name!r}")
        if value is None or value is False:
            continue
        if value is True:
            flags.append("--" + name)
            continue
        out.append("--" + name)
        if isinstance(value, (list, tuple)):
            if not value:
                raise InvalidError(f"{name} is an empty list")
            out += [_word(name, _plain(v)) for v in value]
        else:
            out.append(_word(name, value))
    return out + flags


def _plain(value):
    """Numbers and arrays of numpy as those of Python."""
    return value.tolist() if hasattr(value, "tolist") else value


def _word(name, value):
    if isinstance(value, (str, int, float, os.PathLike)):
        word = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
        if "\0" in word:
            raise InvalidError(f"{name} has a NUL character")
        return word
    raise InvalidError(f"{name} has a value of type {type(value).__name__}, which is not supported")


def _renamed(message):
    """Messages of programs name options as on the command line: --micro-batch is micro_batch."""
    return re.sub(r"--([a-z][a-z0-9_-]*)", lambda m: m.group(1).replace("-", "_"), message)


class _Model:
    """The options that select a model: a preset's name, the path of a config.json, a dict with the
    same keys, or a configuration of transformers."""

    def __init__(self, model):
        self._file = None
        if hasattr(model, "to_dict"):
            model = model.to_dict()
        if isinstance(model, dict):
            try:
                data = _json.dumps(model)
            except (TypeError, ValueError) as error:
                raise InvalidError(f"the model's configuration is no JSON: {error}") from None
            self._file = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
            with self._file as file:
                file.write(data)
            self.options = {"model_config": self._file.name}
        elif isinstance(model, os.PathLike) or (isinstance(model, str) and (
                model.endswith(".json") or os.path.isdir(model))):
            path = os.path.expanduser(os.fspath(model))
            self.options = {"model_config": os.path.join(path, "config.json")
                            if os.path.isdir(path) else path}
        elif isinstance(model, str):
            self.options = {"model": model}
        else:
            raise InvalidError("model must be a preset's name, the path of a config.json, a dict "
                               f"or a configuration of transformers, not {type(model).__name__}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._file is not None:
            os.unlink(self._file.name)


_not_for_trace = ("out", "dry_run", "gzip", "json", "quiet", "model", "model_config", "help",
                  "version")


def trace(model: typing.Any, *, phase: str = "train", tp: int = 1, pp: int = 1,
          dp: int | None = None, cp: int | None = None, ep: int | None = None, sp: bool = False,
          zero: int | None = None, hw: str | None = None,
          ranks: str | typing.Sequence[int] | None = None, **options: typing.Any) -> Trace:
    """Records a training step, or inference, of a model on any number of ranks, without data.

    model: a preset (see models()), the path of a config.json, a dict with its keys, or a
        configuration of transformers.
    phase: "train", "prefill", "decode" or "generate".
    tp, pp, dp, cp, ep: tensor, pipeline, data, context and expert parallelism; their product
        without ep is the number of ranks. sp: sequence parallelism. zero: ZeRO stage, 0 to 3.
    hw: the machine whose times are predicted, such as "h100", "h200+serving" or a JSON file.
    ranks: "all" (default), "one-per-program", or a list such as "0-7,16".
    options: any other option of `syntorch synth`, such as micro_batch=4, global_batch=64,
        max_seq_length=2048, num_input_tokens=512, schedule="zb-h1", dtype="bf16".

    Returns a Trace. synth writes the traces of thousands of ranks to files."""
    for name in _not_for_trace:
        if name in options:
            raise InvalidError(f"trace has no option {name!r}")
    ranks = _plain(ranks)
    if isinstance(ranks, (list, tuple, range)):
        ranks = ",".join(str(int(rank)) for rank in ranks)
    given = {"phase": phase, "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "sp": sp,
             "zero": zero, "hw": hw, "ranks": ranks, **options}
    with _Model(model) as chosen:
        arguments = ["synth"] + _arguments({**chosen.options, **given})
        keep = [ffi.new("char[]", c_text(argument)) for argument in arguments]
        array = ffi.new("char *[]", keep)
        out = ffi.new("syn_graph **")
        try:
            call(lib.syn_embed_trace, out, len(keep), array,
                 abandon=lambda: lib.syn_graph_free(out[0]))
        except Error as error:
            raise type(error)(_renamed(str(error))) from None
    return Trace(owned(out[0], lib.syn_graph_free))


# ---- The program ----

def program() -> str:
    """The path of the `syntorch` program of this package."""
    return os.path.join(_folder, "bin", "syntorch")


def run(*arguments: typing.Any, input: str | None = None) -> typing.Any:
    """Runs the `syntorch` program: run("stat", "x.et"). Prints its messages on standard error.
    Returns what it prints on standard output; with --json, the object. Raises Error if it fails."""
    words = [_word("an argument", argument) for argument in arguments]
    process = subprocess.Popen([program(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                               text=True, errors="replace")
    try:
        out, messages = process.communicate(input)
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise
    if "--json" not in words:
        if process.returncode != 0:
            raise _error(process.returncode, messages)
        sys.stderr.write(messages)
        return out
    try:
        result = _json.loads(out)
    except ValueError:
        raise _error(process.returncode, messages) from None
    if "error" in result:
        raise _error(result["error"]["exit_code"], result["error"]["message"])
    sys.stderr.write(messages)
    return result


def _error(code, messages):
    last = messages.strip().splitlines()[-1] if messages.strip() else f"exit code {code}"
    last = re.sub(r"^syntorch( [a-z-]+)*: ", "", last)
    return (InvalidError if code == 2 else Error)(_renamed(last))


def synth(model: typing.Any, out: str | os.PathLike, **options: typing.Any) -> dict:
    """Writes the set `out`.<rank>.et of a training step, or of inference, of any number of ranks.
    Options as in trace, for example tp=8, pp=8, global_batch=64, ranks="one-per-program". Returns
    the prediction, a dict."""
    with _Model(model) as chosen:
        return run("synth", *_arguments({**chosen.options, "out": out, **options}), "--json")


def pretrain(model: typing.Any = None, **options: typing.Any) -> typing.Any:
    """Trains a model, on the CPU or with device="meta" only as a prediction, as `syntorch pretrain`
    does: pretrain("gpt2", data=["train.json"], num_gpus=2, max_steps=10, save_dir="run"). Returns
    the prediction of device="meta" as a dict; otherwise a table with the rows of metrics.csv."""
    chosen = _Model(model) if model is not None else None
    try:
        arguments = _arguments({**(chosen.options if chosen else {}), **options})
        if options.get("device") == "meta":
            return run("pretrain", *arguments, "--json")
        with tempfile.TemporaryDirectory() as folder:
            if "save_dir" not in options:
                arguments += ["--save_dir", folder]
            run("pretrain", *arguments)
            return _csv(os.path.join(options.get("save_dir", folder), "metrics.csv"))
    finally:
        if chosen:
            chosen.__exit__()


def sweep(model: typing.Any, *combinations: str, program: str = "pretrain",
          **options: typing.Any) -> pandas.DataFrame:
    """Predicts all combinations of options: sweep("gpt3-175b", "tp=1,2,4,8", "hw=h100,h200",
    num_gpus=64). program: "pretrain" for training steps, "inference" for generation. Returns a
    table with a row for each combination."""
    if program not in ("pretrain", "inference"):
        raise InvalidError(f"program {program!r}: it must be pretrain or inference")
    if not combinations:
        raise InvalidError("sweep needs options to combine, such as \"tp=1,2,4\"")
    with _Model(model) as chosen, tempfile.TemporaryDirectory() as folder:
        run(program, *_arguments({**chosen.options, "device": "meta", "out_dir": folder,
                                  "quiet": True, **options, "sweep": list(combinations)}))
        return _csv(os.path.join(folder, "sweep.csv"))


def calibrate(*files: str, **options: typing.Any) -> dict:
    """Compares predicted with measured times, or fits constants to them, as `syntorch calibrate
    --json`: calibrate(rows="rows.csv", hw="h100")."""
    return run("calibrate", *files, *_arguments(options), "--json")


def compare(first: Trace | str | os.PathLike, second: Trace | str | os.PathLike) -> dict:
    """Compares two sets of execution traces, given by their prefixes or as Traces: "equal", "sets"
    and "differences"."""
    with _files(first) as one, _files(second) as two:
        return run("diff", one, two, "--json")


def predict(trace: Trace | str | os.PathLike, hw: str) -> Trace:
    """The times of a trace, or of a JSON file, on another machine; see Trace.predict."""
    return (trace if isinstance(trace, Trace) else load(trace)).predict(hw)


def _csv(path):
    import csv
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))
    from .traces import _number
    return table({name: [_number(row[i]) for row in rows[1:]] for i, name in enumerate(rows[0])})


# ---- PyTorch's traces ----

def convert(host: str | os.PathLike | None = None, device: str | os.PathLike | None = None,
            output: str | os.PathLike | None = None, rank: int | None = None,
            profile: str = "full", strict: bool = False, trim: bool = False) -> Trace:
    """Converts PyTorch's traces of one rank to a Chakra execution trace. host: what
    ExecutionTraceObserver wrote; device: what torch.profiler wrote; one of them may be missing.
    profile: "full" or "astra-sim" (only what ASTRA-sim runs). output: the .et file to write.
    Returns a Trace, whose `notes` list what is missing or damaged in the files."""
    if host is None and device is None:
        raise InvalidError("convert needs a host trace, a device trace, or both")
    with tempfile.TemporaryDirectory() as folder:
        # The name of a file of a set, because its groups are then written, too.
        path = (os.fspath(output) if output is not None
                else os.path.join(folder, f"trace.{rank or 0}.et"))
        return convert_ranks([(host, device, rank)], path, path, profile, strict, trim)


def convert_ranks(files, output, result, profile="full", strict=False, trim=False):
    """Converts the (host, device, rank) of each rank to `output`: a file, or for several ranks the
    prefix of a set. Returns the trace of the file `result` with its notes."""
    profiles = {"full": lib.SYN_PYTORCH_FULL, "astra-sim": lib.SYN_PYTORCH_ASTRA_SIM}
    if profile not in profiles:
        raise InvalidError(f"profile {profile!r}: it must be full or astra-sim")
    sources = ffi.new("syn_pytorch_source[]", len(files))
    keep = []
    for source, (host, device, rank) in zip(sources, files):
        for name, value in (("host", host), ("device", device)):
            if value is not None:
                keep.append(ffi.new("char[]", c_text(value)))
                setattr(source, name, keep[-1])
        if rank is not None:
            keep.append(ffi.new("int32_t *", rank))
            source.rank = keep[-1]
    options = ffi.new("syn_pytorch_options *", {"profile": profiles[profile], "strict": strict,
                                                "trim": trim})
    report = ffi.gc(ffi.new("syn_pytorch_report *"), lib.syn_pytorch_report_free)
    call(lib.syn_pytorch_convert, report, sources, len(files), c_text(output), options)
    trace = load(result)
    trace.notes = _notes(report)
    return trace


def _notes(report):
    hints = 0
    for i in range(report.n_ranks):
        hints |= report.ranks[i].hints
    out = [text(lib.syn_pytorch_hint_sentence(i)) for i in range(lib.SYN_PYTORCH_HINTS)
           if hints >> i & 1]
    for i in range(lib.SYN_PYTORCH_ANOMALIES):
        note = report.notes[i]
        if note.count:
            out.append(f"{text(lib.syn_pytorch_anomaly_met(i))}: {note.count}; "
                       f"{text(lib.syn_pytorch_anomaly_done(i))}")
    return out
