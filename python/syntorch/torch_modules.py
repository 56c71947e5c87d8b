"""Traces of PyTorch modules, which run on fake tensors: without memory for data and without
computation. Recorder records their ops."""
import contextlib
import functools
import logging
import operator
from collections.abc import Mapping

from ._core import InvalidError
from .traces import Trace

_dtype_names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def _torch():
    try:
        import torch
    except ImportError:
        raise InvalidError("from_torch needs PyTorch, which is not installed: pip install "
                           "torch") from None
    return torch


def from_torch(module, example_inputs=(), kwargs=None, *, tp=1, tp_plan=None, dtype=None, hw=None,
               training=False, name=None):
    """Traces a torch.nn.Module without running it. No data is read, so the parameters may be on
    the device meta.

    example_inputs: the positional arguments of the call, a tuple; also one tensor, or a dict of
        keyword arguments. Only shapes and dtypes matter. kwargs: its keyword arguments.
    tp: tensor-parallel ranks. tp_plan: how modules are sharded, a dict such as {"*.q_proj":
        "colwise", "*.o_proj": "rowwise"}, with the names of transformers and of torch's
        parallelize_module; by default, the plan of a model of transformers.
    dtype: "f32", "f16" or "bf16", to which floating-point parameters and inputs are converted.
    hw: the machine whose times are predicted, such as "h100".
    training: trace forward and backward. The loss is the output's `loss`; without one, the sum of
        all outputs. Whether dropout is active depends on module.training.

    Ops have the flops of torch.utils.flop_counter. Returns a Trace."""
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise InvalidError(f"module must be a torch.nn.Module, not {type(module).__name__}")
    args, kwargs = _call(torch, example_inputs, kwargs)
    if not isinstance(tp, int) or isinstance(tp, bool) or tp < 1:
        raise InvalidError(f"tp must be a number of ranks, not {tp!r}")
    if not isinstance(training, bool):
        raise InvalidError(f"training must be True or False, not {training!r}")
    if name is not None and not isinstance(name, str):
        raise InvalidError(f"name must be a text, not {name!r}")
    title = name or type(module).__name__
    run = _Run(torch, module, _dtype(torch, dtype))
    plan = None
    if tp > 1 or tp_plan is not None:
        from .torch_parallel import Plan
        plan = Plan(module, tp, tp_plan)
    rows = run.record(args, kwargs, training, plan)
    metadata = {"model": title, "phase": "train" if training else "forward", "tp": tp,
                "dtype": _dtype_name(torch, run.computed_dtype()), "torch": torch.__version__}
    trace = Trace(rows.graph(tp, metadata))
    return trace if hw is None else trace.predict(hw)


def _call(torch, inputs, kwargs):
    """The positional and keyword arguments of the call."""
    if isinstance(inputs, Mapping):
        if kwargs is not None:
            raise InvalidError("example_inputs is a dict of keyword arguments, so kwargs must not "
                               "be given")
        return (), dict(inputs)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)):
        raise InvalidError("example_inputs must be a tensor, a tuple of arguments or a dict of "
                           f"keyword arguments, not {type(inputs).__name__}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidError(f"kwargs must be a dict, not {type(kwargs).__name__}")
    return tuple(inputs), dict(kwargs or {})


def _dtype(torch, dtype):
    found = getattr(torch, _dtype_names[dtype]) if dtype in _dtype_names else dtype
    if found is not None and (not isinstance(found, torch.dtype) or not found.is_floating_point):
        raise InvalidError(f"dtype must be one of {', '.join(_dtype_names)}, not {dtype!r}")
    return found


def _dtype_name(torch, dtype):
    names = {getattr(torch, long): short for short, long in _dtype_names.items()}
    return names.get(dtype, str(dtype).removeprefix("torch."))


class _Run:
    """One call of a module on fake tensors. They are on the CPU, where, as on GPUs, attention is
    one fused op."""

    def __init__(self, torch, module, dtype):
        from torch._subclasses.fake_tensor import FakeTensorMode
        self._torch, self._module, self._dtype = torch, module, dtype
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._made = {}

    def computed_dtype(self):
        """The dtype of most of the parameters."""
        if self._dtype is not None:
            return self._dtype
        counts = {}
        for tensor in self._module.parameters():
            counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.numel()
        return max(counts, key=counts.get, default=self._torch.float32)

    def _fake(self, tensor, axis=None, parts=1):
        """A fake tensor like `tensor`, or like one of equal shards of it along an axis."""
        key = (id(tensor), axis)
        if key in self._made:
            return self._made[key][1]
        torch = self._torch
        dtype = self._dtype if self._dtype and tensor.is_floating_point() else tensor.dtype
        with self._mode:
            if tensor.layout is not torch.strided:
                out = self._mode.from_tensor(tensor).to(dtype=dtype)
            elif axis is None:
                out = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=dtype)
            else:
                shape = list(tensor.shape)
                shape[axis] //= parts
                out = torch.empty(shape, dtype=dtype)
        out.requires_grad_(tensor.requires_grad)
        self._made[key] = (tensor, out)
        return out

    def _state(self, recorder, plan):
        """The fake parameters and buffers, by their names in _step's module."""
        out = {}
        for kind, tensors in (
                ("param", self._module.named_parameters(remove_duplicate=False)),
                ("state", self._module.named_buffers(remove_duplicate=False))):
            for name, tensor in tensors:
                if tensor is None:
                    continue
                if self._torch.nn.parameter.is_lazy(tensor):
                    raise InvalidError(f"the shape of {name} is not known before the module has "
                                       "run once")
                axis = plan.axis(name, tensor) if plan is not None else None
                fake = self._fake(tensor, axis, plan.parts if plan is not None else 1)
                recorder.give(fake, name, kind, axis)
                out["module." + name] = fake
        return out

    def _inputs(self, recorder, args, kwargs):
        from torch.utils import _pytree as pytree
        named = {**{f"input{i}": arg for i, arg in enumerate(args)}, **kwargs}

        def convert(path, leaf):
            if not isinstance(leaf, self._torch.Tensor):
                return leaf
            out = self._fake(leaf)
            recorder.give(out, pytree.keystr(path).strip("[]'\"").replace("']['", "."), "input")
            return out
        out = pytree.tree_map_with_path(convert, named)
        return tuple(out.pop(f"input{i}") for i in range(len(args))), out

    def record(self, args, kwargs, training, plan):
        """The rows of the call."""
        from .torch_recorder import Recorder
        torch, module = self._torch, self._module
        recorder = Recorder({of: name for name, of in module.named_modules()})
        state = self._state(recorder, plan)
        args, kwargs = self._inputs(recorder, args, kwargs)
        hooks = recorder.hooks() + (plan.attach(recorder) if plan is not None else [])
        try:
            with _unfused(torch), self._mode, recorder, torch.set_grad_enabled(training):
                torch.func.functional_call(self._step(recorder, training), state, args, kwargs,
                                           tie_weights=False)
        except InvalidError:
            raise
        except Exception as error:
            raise InvalidError(_reason(module, error)) from error
        finally:
            for hook in hooks:
                hook.remove()
        leaves = {name for name, of in module.named_modules() if name and not any(of.children())}
        recorder.rows.set_labels(leaves)
        return recorder.rows

    def _step(self, recorder, training):
        """A module that calls the module and, in training, computes the gradients. Both happen in
        one forward, because backward runs modules again if they are checkpointed."""
        class Step(self._torch.nn.Module):
            def forward(step, *args, **kwargs):
                out = step.module(*args, **kwargs)
                if training:
                    loss = self._loss(out)
                    recorder.phase = "backward"
                    loss.backward()
        out = Step()
        out.module = self._module
        return out

    def _loss(self, out):
        from torch.utils import _pytree as pytree
        loss = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
        found = [loss] if loss is not None else pytree.tree_leaves(out)
        found = [t for t in found if isinstance(t, self._torch.Tensor) and t.requires_grad]
        if not found:
            raise InvalidError("training=True needs an output that depends on a parameter that "
                               "requires a gradient")
        return functools.reduce(operator.add, [t.sum() if t.dim() else t for t in found])


@contextlib.contextmanager
def _unfused(torch):
    """Turns off what only CPUs run as one op and FlopCounterMode does not count: LSTMs of MKL-DNN,
    and layers of TransformerEncoder in inference. Also keeps PyTorch from logging errors, which
    become exceptions."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    disabled = log.disabled
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    log.disabled = True
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch._C._set_mkldnn_enabled(mkldnn)
        log.disabled = disabled


def _reason(module, error):
    """Why the call failed, in one sentence."""
    from torch._subclasses import fake_tensor as fake
    what = type(module).__name__
    values = (fake.DataDependentOutputException, fake.DynamicOutputShapeException)
    if isinstance(error, values):
        shape = isinstance(error, fake.DynamicOutputShapeException)
        return (f"{what} cannot be traced because it depends on data: the "
                f"{'shape of the result' if shape else 'result'} of {error.func} depends on the "
                "values of a tensor")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"the call of {what} failed: {lines[0] if lines else type(error).__name__}"
