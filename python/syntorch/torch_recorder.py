"""Records the ops that PyTorch dispatches as rows of a graph. The module needs PyTorch, so
torch_modules imports it only when it is used."""
import torch
from torch.nn.modules import module
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from .torch_ops import (bytes_of, category_of, extents_of, is_allocation, name_of, reads_only_rows,
                        reads_target, writes_only_rows)
from .torch_rows import Node, Rows


class _Storage:
    """The tensors of the graph that share a storage."""

    def __init__(self, keep):
        self.keep = keep    # a tensor, so that the storage's address is not used again
        self.ids = {}       # geometry -> index of the tensor in the graph
        self.base = self.latest = None
        self.readers = []   # nodes that read the current version


def _geometry(tensor):
    if tensor.layout is not torch.strided:
        return id(tensor)
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _storage_key(tensor):
    if tensor.layout is not torch.strided:
        return id(tensor)
    return tensor.untyped_storage()._cdata


def _tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _written(func, args, kwargs):
    """The tensors that a call overwrites, according to the op's schema."""
    found = []
    for i, argument in enumerate(getattr(getattr(func, "_schema", None), "arguments", ())):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += _tensors(args[i] if i < len(args) else kwargs.get(argument.name))
    return found


class Recorder(TorchDispatchMode):
    """While it is active, every op becomes a node of `rows`."""

    supports_higher_order_operators = True

    def __init__(self, names):
        super().__init__()
        self.rows = Rows()
        self._names = names           # module -> its path
        self._stack = []              # paths of the modules that run
        self._storages = {}
        self._given = {}              # storage -> (name, flag, tensor, shard)
        self._scopes = {}             # sequence number of autograd -> scope
        self.phase = "forward"        # "backward" after the forward pass

    # ---- Modules ----

    def hooks(self):
        """Starts to follow which modules run, until the returned hooks are removed."""
        return [module.register_module_forward_pre_hook(self._begin),
                module.register_module_forward_hook(self._end, always_call=True)]

    def _begin(self, of, _):
        if of in self._names:
            self._stack.append(self._names[of])

    def _end(self, of, *_):
        if of in self._names:
            self._stack.pop()

    def _place(self):
        """The scope and phase of the op that runs now. A backward op has the scope of its forward
        op, which has the same sequence number. Modules run in backward if they are recomputed."""
        node = torch._C._current_autograd_node()
        if torch._C._current_graph_task_id() == -1:
            scope = self._stack[-1] if self._stack else ""
            self._scopes.setdefault(torch.autograd._get_sequence_nr() - 1, scope)
            return scope, self.phase
        if self._stack:
            self._scopes.setdefault(torch.autograd._get_sequence_nr() - 1, self._stack[-1])
            return self._stack[-1], "recompute"
        if node is not None and hasattr(node, "variable"):  # sums the gradients of a parameter
            name = self._given.get(_storage_key(node.variable), ("",))[0]
            return name.rpartition(".")[0], "backward"
        return self._scopes.get(node._sequence_nr(), "") if node is not None else "", "backward"

    # ---- Tensors ----

    def give(self, tensor, name, flag, shard=None):
        """Names a tensor that no op produces."""
        key = _storage_key(tensor)
        self._given.setdefault(key, (name, flag, tensor, shard))

    def _storage(self, tensor):
        key = _storage_key(tensor)
        if key not in self._storages:
            self._storages[key] = _Storage(tensor)
        return self._storages[key]

    def _read(self, tensor):
        """The index of a tensor that an op reads."""
        storage, geometry = self._storage(tensor), _geometry(tensor)
        if storage.latest is None:
            unnamed = ("constant", "input", tensor, None)
            name, flag, whole, shard = self._given.get(_storage_key(tensor), unnamed)
            storage.base = storage.latest = self.rows.add_tensor(name, whole, flag, shard=shard)
            storage.ids[_geometry(whole)] = storage.latest
        if geometry not in storage.ids:  # another view of what was written last
            scope, phase = self._place()
            self._add_node(Node("view", "view", scope, phase, virtual=True), [storage.latest],
                           [storage], [tensor], [])
        return storage.ids[geometry]

    def _add_node(self, node, inputs, storages, outputs, written):
        """Adds a node, which reads the tensors `inputs` of the storages, and its outputs.
        written: the storages that it overwrites."""
        producers = {self.rows.producer(i) for i in inputs} - {None}
        deps = {(producer, "data") for producer in producers}
        for storage in written:
            deps |= {(reader, "inplace") for reader in storage.readers}
        node.inputs, node.deps = inputs, sorted(deps)
        index = self.rows.add_node(node)
        for storage in storages:
            if storage not in written and not node.virtual:
                storage.readers.append(index)
        for storage in written:
            storage.ids, storage.readers = {}, []
        for tensor in outputs:
            node.outputs.append(self._add_output(tensor, index, node, written))
        return index

    def _add_output(self, tensor, index, node, written):
        storage = self._storage(tensor)
        view = storage.base is not None and storage not in written
        name = f"{node.scope}/{node.label}:{len(node.outputs)}"
        out = self.rows.add_tensor(name, tensor, "view" if view else "", index, storage.base)
        if storage.base is None:
            storage.base = out
        if not view or storage.latest is None:
            storage.latest = out
        storage.ids[_geometry(tensor)] = out
        return out

    # ---- Ops ----

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            return self._record(func, func, args, kwargs)
        packet = func._overloadpacket
        if packet not in flop_registry and func.namespace != "prim":
            with self:
                out = func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
        return self._record(func, packet, args, kwargs)

    def _record(self, func, packet, args, kwargs):
        written = _written(func, args, kwargs)
        versions = [self._read(tensor) for tensor in _tensors((args, kwargs))]
        out = func(*args, **kwargs)
        outputs = _tensors(out)
        if outputs or written:
            self._add_op(func, packet, args, kwargs, versions, out, outputs, written)
        return out

    def _add_op(self, func, packet, args, kwargs, versions, out, outputs, written):
        inputs = _tensors((args, kwargs))
        storages = [self._storage(tensor) for tensor in inputs]
        over = [self._storage(tensor) for tensor in written]
        new = [tensor for tensor in outputs if self._storage(tensor) not in over]
        views = [tensor for tensor in new if self._storage(tensor) in storages]
        name, (scope, phase) = name_of(func), self._place()
        virtual = not written and (len(views) == len(outputs) or is_allocation(func))
        if virtual and views and all(_geometry(tensor) in self._storage(tensor).ids
                                     for tensor in views):
            return  # detach, alias and other calls that return the same tensor
        node = Node("aten::" + name if getattr(func, "namespace", "aten") == "aten" else name, name,
                    scope, phase, virtual=virtual)
        formula = flop_registry.get(packet)
        node.flops = int(formula(*args, **kwargs, out_val=out)) if formula is not None else 0
        node.category = "view" if virtual else category_of(func, node.op, node.flops)
        node.fused = node.category == "attention"
        node.extents = extents_of(func, args, kwargs, out, node.flops)
        if not virtual:
            node.read, node.written = _bytes(name, inputs, written, new)
        unique = list(dict.fromkeys(versions))
        self._add_node(node, unique, list(dict.fromkeys(storages)), _distinct(written) + new,
                       list(dict.fromkeys(over)))

    def communicate(self, kind, label, tensor, group, output=None):
        """Adds a collective of the rank's `tensor`, which it overwrites, or whose result is
        `output`."""
        scope, phase = self._place()
        read, storage = self._read(tensor), self._storage(tensor)
        node = Node(kind, label, scope, phase, category="communication")
        node.comm, node.group, node.comm_bytes = kind, group, bytes_of(tensor)
        node.read = node.comm_bytes
        node.written = bytes_of(tensor if output is None else output)
        if output is None:
            self._add_node(node, [read], [storage], [tensor], [storage])
        else:
            target, buffer = self._read(output), self._storage(output)
            self._add_node(node, [read, target], [storage], [output], [buffer])


def _distinct(tensors):
    return list({(_storage_key(tensor), _geometry(tensor)): tensor for tensor in tensors}.values())


def _bytes(name, inputs, written, new):
    """The bytes that an op reads and writes."""
    out = sum(map(bytes_of, new))
    read = _distinct(inputs)
    if reads_only_rows(name):  # lookups
        return out + sum(map(bytes_of, read[1:])), out
    if written and writes_only_rows(name):
        rows = sum(map(bytes_of, read[1:]))
        return 2 * rows, rows
    if written and not reads_target(name):
        target = {(_storage_key(tensor), _geometry(tensor)) for tensor in written}
        read = [tensor for tensor in read
                if (_storage_key(tensor), _geometry(tensor)) not in target]
    return sum(map(bytes_of, read)), out + sum(map(bytes_of, _distinct(written)))
