"""Contexts: programs of your own, whose ops are recorded."""
from __future__ import annotations

import contextlib
import queue
import threading
import typing

from ._builders import Builders
from ._core import (InvalidError, OutOfMemoryError, call, error_of, ffi, lib, owned, quick,
                   stack_is_small, stack_of_kernels, text)
from ._values import PerRank, Rank, Tensor, _choice, _id, _integer, _items, _spec, name_text
from .traces import Trace, hardware

if typing.TYPE_CHECKING:
    import numpy

_DEVICES = {"meta": lib.SYN_DEVICE_META, "cpu": lib.SYN_DEVICE_CPU, "cuda": lib.SYN_DEVICE_CUDA}
_INITS = {"zero": lib.SYN_INIT_ZERO, "one": lib.SYN_INIT_ONE, "normal": lib.SYN_INIT_NORMAL}


class _Round:
    """A call on every rank. The threads of the ranks store the results, because Ctrl-C may
    interrupt the main thread anywhere."""

    def __init__(self, jobs):
        self.jobs, self.lock, self.done = jobs, threading.Lock(), threading.Event()
        self.results = {}  # in the order in which the ranks finish

    def do(self, i):
        try:
            result = (True, self.jobs[i]())
        except BaseException as error:
            result = (False, error)
        with self.lock:
            self.results[i] = result
            if len(self.results) == len(self.jobs):
                self.done.set()


class _Ranks:
    """The ranks of one process. On devices with data, each has a thread, because collectives wait
    for each other."""

    MOST = 1024

    def __init__(self, n):
        if n > self.MOST:
            raise InvalidError(f"{n} ranks: at most {self.MOST} can run in one process; on meta, "
                               "any number can be recorded")
        self._queues = []
        self._round = None  # the call that is running, or that Ctrl-C interrupted
        try:
            with stack_of_kernels():
                for i in range(n):
                    rounds: queue.SimpleQueue = queue.SimpleQueue()
                    threading.Thread(target=self._work, args=(i, rounds), daemon=True).start()
                    self._queues.append(rounds)
        except RuntimeError:
            self.stop()
            raise OutOfMemoryError(f"the system cannot start {n} threads") from None

    def _work(self, i, rounds):
        last = None
        while (now := rounds.get()) is not None:
            if now is not last:  # a round that was interrupted is given twice
                now.do(i)
            last = now

    def _settle(self):
        """Completes the current round. A round that Ctrl-C interrupted may not have reached all
        ranks, which would wait for each other forever."""
        if self._round is None:
            return {}
        for rounds in self._queues:
            rounds.put(self._round)
        self._round.done.wait()
        results, self._round = self._round.results, None
        return results

    def run(self, jobs):
        self._settle()
        self._round = _Round(jobs)
        results = self._settle()
        for done, result in results.values():
            if not done:
                raise result
        made = [results[i][1] for i in range(len(jobs))]
        results.clear()  # the threads keep the round until the next one
        return made

    def stop(self):
        for rounds in self._queues:
            rounds.put(None)

    def finish(self):
        """Waits for calls that were interrupted, and ends the threads."""
        self._settle()
        self.stop()


class Context(Builders):
    """Records the ops that a program calls. The program runs on all ranks of a job at once: each
    call of a builder is a call on every rank, and each Tensor is one tensor per rank.

        with syntorch.Context(device="meta", tp=2, hw="h100") as s:
            x = s.input("x", (1, 128, 768))
            w = s.param("w", (768, 3072), axis=1)      # each rank has half of the columns
            y = s.gelu(s.linear(s.tp_enter(x, "tp"), w))
        t = s.trace()

    device: "meta" (shapes only), "cpu" or "cuda". tp, pp, dp, cp, ep: the mesh; on meta it may have
    any size. ranks: on meta, the ranks to record; default: all. A value that differs between ranks
    is given as s.per_rank(function of the rank). The methods for ops have the names of the C
    functions without "syn_"; Python raises the error of the first op that fails, and the context
    records nothing afterwards."""

    def __init__(self, device: str = "meta", tp: int = 1, pp: int = 1, dp: int = 1, cp: int = 1,
                 ep: int = 1, zero: int = 0, sp: bool = False,
                 ranks: typing.Sequence[int] | None = None, hw: str | None = None,
                 threads: int = 1):
        if device not in _DEVICES:
            raise InvalidError(f"device must be meta, cpu or cuda, not {device!r}")
        self._closed = False
        self._pool = None
        self._rank_list: list[Rank] = []
        self._world = ffi.NULL
        self._hardware = hardware(hw) if hw is not None else None
        sizes = {name: _integer(name, value, 32) for name, value in
                 (("tp", tp), ("pp", pp), ("dp", dp), ("cp", cp), ("ep", ep), ("zero", zero))}
        for name, value in sizes.items():
            if value < (0 if name == "zero" else 1):
                raise InvalidError(f"{name} must be at least 1, not {value}")
        self._plan = ffi.new("syn_plan *", {**sizes, "sp": bool(sp)})
        quick(lib.syn_plan_complete, self._plan)
        world = self._plan.ranks
        self._device = device
        chosen = list(range(world)) if ranks is None else [_integer("a rank", r, 32) for r in
                                                           _items("ranks", ranks)]
        if not chosen or any(not 0 <= r < world for r in chosen):
            raise InvalidError(f"ranks must be from 0 to {world - 1}")
        if device != "meta" and len(chosen) != world:
            raise InvalidError(f"device {device} runs all {world} ranks; omit `ranks`")
        try:
            self._open(chosen, threads)
        except BaseException:
            self.close()
            raise

    def _open(self, chosen, threads):
        world = self._plan.ranks
        if self._device != "meta" and (world > 1 or stack_is_small()):
            self._pool = _Ranks(world)
        if self._device != "meta" and world > 1:
            out = ffi.new("syn_local_world **")
            quick(lib.syn_local_world_new, out, world)
            self._world = out[0]
        for index, number in enumerate(chosen):
            comm = ffi.new("syn_comm **")
            if self._world:
                quick(lib.syn_comm_local_new, comm, self._world, number)
            else:
                quick(lib.syn_comm_fake_new if self._device == "meta" else _self_comm, comm, number,
                      world)
            rank = Rank(self, index, number, ffi.NULL, comm[0], ffi.new("syn_mesh *"))
            self._rank_list.append(rank)
            quick(lib.syn_mesh_open, rank.mesh, rank.comm, self._plan)
            ctx = ffi.new("syn_ctx **")
            quick(lib.syn_ctx_new, ctx, _DEVICES[self._device], rank.comm)
            rank.ctx = ctx[0]
            quick(lib.syn_ctx_set_threads, rank.ctx, _integer("threads", threads, 31))

    # ---- Running ----

    def _each(self, function):
        """The results of function(rank) on all ranks."""
        if self._closed:
            raise InvalidError("the context is closed")
        if self._pool is None:
            return [function(rank) for rank in self._rank_list]
        return self._pool.run([lambda rank=rank: function(rank) for rank in self._rank_list])

    def _build(self, build):
        """Calls a builder on all ranks, and returns its tensors."""
        by_rank = self._each(build)
        self._check()
        tensors = [Tensor(self, ids) for ids in zip(*by_rank)]
        if any(isinstance(values[0], list) for values in zip(*by_rank)):
            tensors = [[Tensor(self, list(ids)) for ids in zip(*values)]
                       if isinstance(values[0], list) else Tensor(self, values)
                       for values in zip(*by_rank)]
        return tensors[0] if len(tensors) == 1 else tuple(tensors) or None

    def _check(self):
        for rank in self._rank_list:
            if lib.syn_ctx_status(rank.ctx) != lib.SYN_OK:
                raise error_of(lib.syn_ctx_error(rank.ctx))

    def _status(self, function):
        """Calls a function that returns a syn_status and stores its error in the context."""
        self._each(function)
        self._check()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_):
        return False

    def close(self) -> None:
        """Frees the context. Traces that were taken from it stay valid."""
        if self._closed:
            return
        self._closed = True
        if self._pool is not None:
            self._pool.finish()
        for rank in self._rank_list:
            if rank.ctx:
                lib.syn_ctx_free(rank.ctx)
        for rank in self._rank_list:
            lib.syn_comm_close(rank.comm)
        lib.syn_local_world_free(self._world)

    def __del__(self):
        if not getattr(self, "_closed", True):
            self.close()

    # ---- Tensors ----

    @property
    def ranks(self) -> list[int]:
        """The numbers of the ranks that run here."""
        return [rank.number for rank in self._rank_list]

    def per_rank(self, function: typing.Callable[[int], typing.Any]) -> PerRank:
        """A value for each rank: function(rank's number)."""
        return PerRank(function(rank.number) for rank in self._rank_list)

    def input(self, name: str, shape: typing.Any, dtype: str = "f32") -> Tensor:
        """A tensor given from outside. shape: its shape or, on devices with data, an array of
        numpy, whose dtype it gets, or a PerRank of arrays."""
        def build(rank, value=shape):
            value = rank.own(value)
            spec, data = _array(value, dtype)
            if not data and self._device != "meta":
                data = bytes(lib.syn_spec_bytes(spec))
            return [_id(lib.syn_input(rank.ctx, name_text("name", name), spec,
                                      ffi.from_buffer(data) if data else ffi.NULL))]
        return self._build(build)

    def param(self, name: str, shape: typing.Sequence[int], dtype: str = "f32",
              axis: int | None = None, group: str = "tp", parts: int = 1, init: str = "normal",
              std: float = 0.02, seed: int = 0) -> Tensor:
        """A parameter. shape: of the whole parameter. axis: the dimension that the ranks of `group`
        divide; None: each rank has all of it. parts: the number of equal blocks along `axis` that
        are divided one by one, such as 3 for joined q, k and v. init: "normal", "zero" or "one"."""
        if init not in _INITS:
            raise InvalidError(f"init must be normal, zero or one, not {init!r}")

        def build(rank):
            spec = _spec(shape, dtype)
            shard = (ffi.new("syn_shard *", {"parts": 1, "count": 1}) if axis is None else
                     _shard(rank, spec, axis, group, parts))
            return [_id(lib.syn_param(rank.ctx, name_text("name", name), spec, shard[0],
                                      _INITS[init], rank.real("std", std), -1,
                                      _integer("seed", seed) % 2 ** 64))]
        return self._build(build)

    def state(self, name: str, shape: typing.Sequence[int], dtype: str = "f32") -> Tensor:
        """A tensor that lives across steps, such as a KV cache, at first zero."""
        return self._build(lambda rank: [_id(lib.syn_state(rank.ctx, name_text("name", name),
                                                           _spec(shape, dtype)))])

    def buffer(self, name: str, shape: typing.Sequence[int], dtype: str = "f32") -> Tensor:
        """A tensor that is stored with the parameters but not trained."""
        return self._build(lambda rank: [_id(lib.syn_buffer(rank.ctx, name_text("name", name),
                                                            _spec(shape, dtype)))])

    def name(self, tensor: Tensor, label: str) -> Tensor:
        """Labels the op that produced a tensor. Returns the tensor."""
        return self._build(lambda rank: [_id(lib.syn_name(
            rank.ctx, rank.tensor("tensor", tensor, True), name_text("label", label)))])

    def read(self, tensor: Tensor, rank: int | None = None) -> numpy.ndarray:
        """The values of a tensor on one rank (default: the first) as a numpy array, on devices with
        data."""
        index = 0 if rank is None else self._index(rank)
        of = self._rank_list[index]
        id_ = of.tensor("tensor", tensor, True)
        import numpy
        spec = lib.syn_tensor_spec(of.ctx, id_)
        shape = tuple(spec.dims[0:spec.rank])
        name = text(lib.syn_dtype_name(spec.dtype))
        kinds = {"f32": "f4", "f16": "f2", "bf16": "f4", "i32": "i4", "i64": "i8"}
        out = numpy.empty(shape, dtype=kinds[name])
        buffer = ffi.from_buffer(out.reshape(-1).view("u1")) if out.size else ffi.new("char[1]")
        if name == "bf16":
            status = lib.syn_tensor_read_f32(of.ctx, id_, ffi.cast("float *", buffer), out.size)
        else:
            status = lib.syn_tensor_read(of.ctx, id_, buffer, out.nbytes)
        if status != lib.SYN_OK:
            raise error_of(lib.syn_ctx_error(of.ctx))
        return out

    def _index(self, number):
        if number not in self.ranks:
            raise InvalidError(f"the context has no rank {number}")
        return self.ranks.index(number)

    # ---- Scopes, steps and gradients ----

    @contextlib.contextmanager
    def scope(self, name: str, index: int | None = None) -> typing.Iterator[None]:
        """Ops within the block get the scope `name`, or `name.index`."""
        label = name_text("name", name if index is None else f"{name}.{_integer('index', index)}")
        self._each(lambda rank: lib.syn_push_scope(rank.ctx, label))
        self._check()
        try:
            yield
        finally:
            if not self._closed:
                self._each(lambda rank: lib.syn_pop_scope(rank.ctx))

    def phase(self, name: str) -> None:
        """Sets the phase of the next ops: forward, prefill, decode, backward or optimizer."""
        value = _choice("syn_phase", "phase", name)
        self._each(lambda rank: lib.syn_set_phase(rank.ctx, value))

    def next_step(self) -> None:
        """Begins the next step."""
        self._each(lambda rank: lib.syn_next_step(rank.ctx))

    def require_grad(self, tensor: Tensor | None = None) -> None:
        """Marks a tensor, or all parameters so far, as requiring a gradient."""
        def mark(rank):
            if tensor is None:
                lib.syn_require_grads(rank.ctx)
            else:
                lib.syn_require_grad(rank.ctx, rank.tensor("tensor", tensor, True))
        self._status(mark)

    def backward(self, loss: Tensor) -> None:
        """Records the backward pass of a loss, which has one element."""
        self._status(lambda rank: lib.syn_backward(rank.ctx, rank.tensor("loss", loss, True)))

    def grad(self, tensor: Tensor) -> Tensor:
        """The gradient of a tensor that was passed to require_grad."""
        ids = self._each(lambda rank: _id(lib.syn_grad(rank.ctx,
                                                       rank.tensor("tensor", tensor, True))))
        self._check()
        if not ids[0][0]:
            raise InvalidError("the tensor has no gradient: call require_grad before it is used, "
                               "and backward afterwards")
        return Tensor(self, ids)

    def adamw_step(self, params: typing.Sequence[Tensor], grads: typing.Sequence[Tensor], m: Tensor,
                   v: Tensor, rates: Tensor, scale: Tensor, masters: Tensor | None = None,
                   beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
                   weight_decay: float = 0.0, decayed: int = 0) -> tuple:
        """One AdamW step. params, grads: lists of tensors. m, v and masters have the elements of
        all parameters; masters are for 16-bit parameters. rates: three f32 elements: the learning
        rate, learning rate / (1 - beta1^t) and 1 / sqrt(1 - beta2^t). scale: one f32 element.
        decayed: bit i: weight decay for parameter i. Returns the new (params, m, v, masters)."""
        def build(rank):
            ps, gs = rank.tensors("params", params), rank.tensors("grads", grads)
            if len(ps) != len(gs):
                raise InvalidError(f"there are {len(ps)} params, but {len(gs)} grads")
            slots = [rank.slot(name, value) for name, value in (("m", m), ("v", v))]
            master = ffi.NULL if masters is None else rank.slot("masters", masters)
            step = ffi.new("syn_adamw_call *", {
                "params": ps, "grads": gs, "n": len(ps), "m": slots[0], "v": slots[1],
                "masters": master, "rates": rank.tensor("rates", rates, True),
                "scale": rank.tensor("scale", scale, True), "beta1": rank.real("beta1", beta1),
                "beta2": rank.real("beta2", beta2), "eps": rank.real("eps", eps),
                "weight_decay": rank.real("weight_decay", weight_decay),
                "decayed": rank.integer("decayed", decayed)})
            lib.syn_adamw_step(rank.ctx, step)
            return [[_id(p) for p in ps], _id(slots[0][0]), _id(slots[1][0])] + (
                [_id(master[0])] if master else [])
        return self._build(build)

    # ---- Results ----

    @property
    def peak_bytes(self) -> list[int]:
        """The most bytes of tensor data that a rank has had at once, by rank."""
        return self._each(lambda rank: lib.syn_ctx_peak_bytes(rank.ctx))

    def trace(self) -> Trace:
        """A Trace of the ops that were recorded so far. Later ops do not change it."""
        if self._closed:
            raise InvalidError("the context is closed")
        n = len(self._rank_list)
        traces = ffi.new("syn_trace *[]", [ffi.cast("syn_trace *", lib.syn_ctx_trace(rank.ctx))
                                           for rank in self._rank_list])
        view, out = ffi.new("syn_graph **"), ffi.new("syn_graph **")
        quick(lib.syn_trace_graph, view, traces, n, self._hardware or ffi.NULL)
        try:
            if self._hardware:
                quick(lib.syn_graph_set_hardware, view[0], self._hardware)
            call(lib.syn_graph_copy, out, view[0])
        finally:
            lib.syn_graph_free(view[0])
        return Trace(owned(out[0], lib.syn_graph_free))


def _self_comm(comm, number, world, error):
    return lib.syn_comm_self_new(comm, error)


def _shard(rank, spec, axis, group, parts):
    axis = _integer("axis", axis, 31)
    axis = axis + spec.rank if axis < 0 else axis
    if not 0 <= axis < spec.rank:
        raise InvalidError(f"axis {axis}: the parameter has {spec.rank} dimensions")
    of = rank.group(group, True)
    members = list(of.ranks[0:of.size])
    parts = _integer("parts", parts, 31)
    if parts < 1 or spec.dims[axis] % (parts * of.size):
        raise InvalidError(f"dimension {axis} of length {spec.dims[axis]} cannot be divided into "
                           f"{parts} x {of.size} pieces")
    return ffi.new("syn_shard *", {"axis": axis, "parts": parts, "count": of.size,
                                   "index": members.index(rank.number)})


def _array(value, dtype):
    """The spec of a shape or an array, and the bytes of an array."""
    if not hasattr(value, "__array_interface__"):
        return _spec(value, dtype), None
    import numpy
    array = numpy.ascontiguousarray(value)
    names = {"f4": "f32", "f2": "f16", "i4": "i32", "i8": "i64", "f8": "f32"}
    name = names.get(array.dtype.str[1:])
    if name is None or array.dtype.byteorder == ">":
        raise InvalidError(f"arrays of {array.dtype} are not supported")
    if array.dtype.str[1:] == "f8":
        array = array.astype("f4")
    return _spec(array.shape, name), array.tobytes()
