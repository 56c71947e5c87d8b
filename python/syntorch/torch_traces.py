"""Records PyTorch programs with torch.profiler and ExecutionTraceObserver, and converts their
files to execution traces."""
import glob
import os
import re

from ._core import InvalidError
from .runs import convert_ranks


def record(path, rank=None, *, steps=None, warmup=1, with_stack=False):
    """Records what PyTorch does in a `with` block, and converts it to Chakra execution traces:

        with syntorch.record("run/trace", steps=1) as r:
            for batch in batches:
                train_step(batch)
                r.step()
        r.trace.notes

    path: the prefix of all files, such as "run/trace". Each rank writes run/trace.host.<rank>.json
        and run/trace.device.<rank>.json. Rank 0 converts them to the set run/trace.<rank>.et, so
        all ranks need the same file system.
    rank: by default, the rank in torch.distributed. If it is given, every rank converts only its
        own files; convert_all converts the set.
    steps: how many steps are recorded, after `warmup` steps. r.step() ends a step. By default, the
        whole block is recorded, with or without calls of r.step().
    with_stack: also record which module called each op.

    After the block, r.trace is the Trace on the rank that converted, None on the others. Its
    `notes` list what is missing or damaged in the files."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InvalidError("record needs PyTorch, which is not installed: pip install "
                           "torch") from None
    _check("rank", rank, 0)
    _check("steps", steps, 1)
    _check("warmup", warmup, 0)
    if warmup is None:
        raise InvalidError("warmup must be an integer, not None")
    return Recording(path, rank, steps, warmup, with_stack)


def _check(name, value, least):
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or
                              value < least):
        raise InvalidError(f"{name} must be an integer of at least {least}, not {value!r}")


def _job():
    """This process's rank and the number of ranks, according to torch.distributed."""
    import torch.distributed as dist
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class Recording:
    """What `record` returns."""

    def __init__(self, path, rank, steps, warmup, with_stack):
        try:
            self._prefix = os.fsdecode(path)
        except TypeError:
            raise InvalidError(f"path must be the prefix of the files, not {path!r}") from None
        self._rank, self._steps, self._warmup = rank, steps, warmup
        self._with_stack, self._ranks, self._n_steps = bool(with_stack), 1, 0
        self._profiler = self._observer = None
        self.trace = None

    def _file(self, kind):
        return f"{self._prefix}.{kind}.{self._number}.json"

    def __enter__(self):
        import torch
        from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
        if self._profiler is not None:
            raise InvalidError("a recording can be used only once")
        self._number, self._ranks = (self._rank, 1) if self._rank is not None else _job()
        folder = os.path.dirname(self._prefix)
        if folder:
            os.makedirs(folder, exist_ok=True)
        for kind in ("host", "device"):
            if os.path.exists(self._file(kind)):
                os.unlink(self._file(kind))
        activities, options = [ProfilerActivity.CPU], {}
        if torch.cuda.is_available():
            from torch._C._profiler import _ExperimentalConfig
            activities.append(ProfilerActivity.CUDA)
            # records which stream waits for which other stream
            options["experimental_config"] = _ExperimentalConfig(enable_cuda_sync_events=True)
        self._observer = ExecutionTraceObserver().register_callback(self._file("host"))
        self._profiler = profile(
            activities=activities, schedule=self._schedule(), record_shapes=True,
            with_stack=self._with_stack, execution_trace_observer=self._observer,
            on_trace_ready=lambda p: p.export_chrome_trace(self._file("device")), **options)
        self._profiler.__enter__()
        return self

    def _schedule(self):
        from torch.profiler import ProfilerAction, schedule
        if self._steps is None:
            return lambda step: ProfilerAction.RECORD
        return schedule(wait=0, warmup=self._warmup, active=self._steps, repeat=1)

    def step(self):
        """Ends a step."""
        if self._profiler is None:
            raise InvalidError("step is called outside of the `with` block of record")
        self._n_steps += 1
        self._profiler.step()

    def __exit__(self, kind, error, traceback):
        self._profiler.__exit__(kind, error, traceback)
        self._observer.unregister_callback()
        if kind is None:
            self._convert()

    def _convert(self):
        import torch.distributed as dist
        if self._ranks == 1:
            self._convert_own()
        elif dist.is_initialized():  # else the program has left the job: convert_all converts
            dist.barrier()
            try:
                self._convert_own()
            finally:
                dist.barrier()  # no rank may write to its files before they are converted

    def _convert_own(self):
        if not os.path.exists(self._file("device")):
            raise InvalidError(f"the block ended after {self._n_steps} steps, all of them warmup "
                               "steps; call step() after each step")
        path = f"{self._prefix}.{self._number}.et"
        if self._ranks == 1:
            self.trace = convert_ranks([(self._file("host"), self._file("device"), self._number)],
                                       path, path)
        elif self._number == 0:
            self.trace = convert_all(self._prefix, ranks=range(self._ranks))


def convert_all(path, ranks=None, profile="full", strict=False, trim=False):
    """Converts the files that `record` wrote with the prefix `path` to the set path.<rank>.et.
    ranks: their numbers; by default, all ranks that have files. The other arguments are those of
    convert. Returns the Trace with its notes."""
    prefix = os.fsdecode(path)
    found = {}
    for kind in ("host", "device"):
        for name in glob.glob(f"{glob.escape(prefix)}.{kind}.*.json"):
            number = name[len(prefix) + len(kind) + 2:-len(".json")]
            if re.fullmatch(r"\d{1,9}", number) and (ranks is None or int(number) in ranks):
                found.setdefault(int(number), {})[kind] = name
    if not found:
        raise InvalidError(f"there are no files {prefix}.host.<rank>.json or "
                           f"{prefix}.device.<rank>.json")
    files = [(of.get("host"), of.get("device"), rank) for rank, of in sorted(found.items())]
    first = f"{prefix}.{min(found)}.et"
    return convert_ranks(files, first if len(files) == 1 else prefix,
                         prefix if min(found) == 0 and len(files) > 1 else first, profile, strict,
                         trim)
