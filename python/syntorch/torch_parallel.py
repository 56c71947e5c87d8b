"""Tensor parallelism of PyTorch modules: which parameters are sharded, and the collectives of one
rank. The module needs PyTorch, so torch_modules imports it only when it is used."""
from collections.abc import Mapping
from fnmatch import fnmatchcase

import torch

from ._core import InvalidError

# Names of transformers, and what they mean: the dimension of the output (0) or input (1) of a
# linear layer that is sharded, and the collective of the output.
_styles = {
    "colwise": (0, None), "colwise_rep": (0, "all_gather"),
    "colwise_gather_output": (0, "all_gather"), "rowwise": (1, "all_reduce"),
    "rowwise_rep": (1, "all_reduce"), "rowwise_split_input": (1, "all_reduce"),
    "embedding_rowwise": (0, "all_reduce"), "embedding_colwise": (1, "all_gather"),
    "replicate": (None, None),
}
_split = ("rowwise_rep", "rowwise_split_input")
_group = 1


class _Enter(torch.autograd.Function):
    """The identity, whose gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx, tensor, recorder):
        ctx.recorder = recorder
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        ctx.recorder.communicate("all_reduce", "all_reduce", gradient, _group)
        return gradient, None


class _Sum(torch.autograd.Function):
    """The sum over the ranks, whose gradient is the identity."""

    @staticmethod
    def forward(ctx, tensor, recorder):
        recorder.communicate("all_reduce", "all_reduce", tensor, _group)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class _Gather(torch.autograd.Function):
    """The ranks' tensors, joined along the last dimension."""

    @staticmethod
    def forward(ctx, tensor, recorder, parts):
        ctx.columns = tensor.shape[-1]
        tensor = tensor.contiguous()
        out = tensor.new_empty((*tensor.shape[:-1], ctx.columns * parts))
        recorder.communicate("all_gather", "all_gather", tensor, _group, out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        return gradient.narrow(-1, 0, ctx.columns), None, None


class Plan:
    """The styles of a module's submodules for `parts` ranks."""

    def __init__(self, module, parts, plan):
        self.parts, self._module = parts, module
        given = plan is not None
        plan = plan if given else _plan_of(module)
        if not isinstance(plan, Mapping):
            raise InvalidError("tp_plan must be a dict from names of modules to styles, such as "
                               f"{{\"*.q_proj\": \"colwise\"}}, not {plan!r}")
        if not plan:
            raise InvalidError(
                f"tp is {parts}, but {type(module).__name__} has no plan of its own: give "
                "tp_plan={\"*.q_proj\": \"colwise\", \"*.o_proj\": \"rowwise\", ...}, which names "
                "the linear layers that are sharded")
        self._styles = self._matched(plan, given)

    def _matched(self, plan, given):
        out = {}
        for pattern, style in plan.items():
            found = [name for name, of in self._module.named_modules()
                     if fnmatchcase(name, str(pattern)) and hasattr(of, "weight")]
            if not found and given:
                raise InvalidError(f"tp_plan: no module with a weight has the name {pattern!r}")
            if found and (not isinstance(style, str) or style not in _styles):
                raise InvalidError(f"tp_plan: {pattern!r} has the style {style!r}; supported are "
                                   f"{', '.join(_styles)}")
            for name in found:
                out.setdefault(name, style)
        if not out:
            raise InvalidError(f"the plan of {type(self._module).__name__} names none of its "
                               "modules: give tp_plan")
        return out

    def axis(self, name, tensor):
        """The dimension along which a parameter is sharded; None if it is replicated."""
        path, _, own = name.rpartition(".")
        axis = _styles[self._styles.get(path, "replicate")][0]
        if isinstance(self._module.get_submodule(path), torch.nn.Embedding):
            axis = {"colwise": 1, "rowwise": 0}.get(self._styles.get(path), axis)
        if axis is None or own not in ("weight", "bias") or tensor.dim() <= axis:
            return None
        if tensor.shape[axis] % self.parts:
            raise InvalidError(f"{name} has {tensor.shape[axis]} "
                               f"{'columns' if axis else 'rows'}, which tp {self.parts} does not "
                               "divide")
        return axis

    def attach(self, recorder):
        """Adds hooks for the collectives to the submodules; returns them."""
        hooks, entered = [], {}

        def enter(module, args, kwargs):
            return (_entered(entered, args[0], recorder), *args[1:]), kwargs

        def split(module, args, kwargs):
            size = args[0].shape[-1] // self.parts
            return (_entered(entered, args[0], recorder).narrow(-1, 0, size), *args[1:]), kwargs

        def reduced(module, args, out):
            return _Sum.apply(out, recorder)

        def gathered(module, args, out):
            return _Gather.apply(out, recorder, self.parts)
        for name, style in self._styles.items():
            of = self._module.get_submodule(name)
            comm = _styles[style][1]
            if isinstance(of, torch.nn.Embedding):
                comm = {"colwise": "all_gather"}.get(style, comm)
            elif style != "replicate" and (style in _split or _styles[style][0] == 0):
                hooks.append(of.register_forward_pre_hook(split if style in _split else enter,
                                                          with_kwargs=True))
            if comm is not None:
                hooks.append(of.register_forward_hook(
                    reduced if comm == "all_reduce" else gathered))
        return hooks


def _entered(entered, tensor, recorder):
    """The tensor that column-parallel layers read. Layers with the same input share it, so that
    their gradients are summed before the all-reduce."""
    if not torch.is_grad_enabled() or not tensor.requires_grad:
        return tensor
    if id(tensor) not in entered:
        entered[id(tensor)] = tensor, _Enter.apply(tensor, recorder)
    return entered[id(tensor)][1]


def _plan_of(module):
    """The plan of a model of transformers; empty if there is none."""
    plan = getattr(module, "_tp_plan", None) or getattr(module, "tp_plan", None)
    return plan or getattr(getattr(module, "config", None), "base_model_tp_plan", None) or {}
