"""Rows of a graph in Python, and the graph of the library that they become on each rank."""
from ._core import c_text, error_of, ffi, lib, owned, quick

_dtypes = {"torch.float32": lib.SYN_F32, "torch.float16": lib.SYN_F16,
           "torch.bfloat16": lib.SYN_BF16, "torch.int32": lib.SYN_I32, "torch.int64": lib.SYN_I64}
_flags = {"": 0, "param": lib.SYN_TENSOR_PARAM, "input": lib.SYN_TENSOR_INPUT,
          "state": lib.SYN_TENSOR_STATE, "view": lib.SYN_TENSOR_VIEW}
_deps = {"data": lib.SYN_DEP_DATA, "inplace": lib.SYN_DEP_INPLACE}
_phases = {"forward": lib.SYN_PHASE_FORWARD, "backward": lib.SYN_PHASE_BACKWARD,
           "recompute": lib.SYN_PHASE_RECOMPUTE}
_comms = {"all_reduce": lib.SYN_COMM_ALL_REDUCE, "all_gather": lib.SYN_COMM_ALL_GATHER}
_categories = {ffi.string(lib.syn_category_name(i)).decode(): i
               for i in range(lib.SYN_CATEGORY_COUNT)}
_name_bytes = lib.SYN_MAX_NAME - 1
_no_node = 0xFFFFFFFF


class Node:
    """A row of the graph. inputs, outputs: indices of tensors; deps: (node, class)."""

    def __init__(self, op, label, scope, phase, virtual=False, category="view"):
        self.op, self.label, self.scope, self.phase = op, label, scope, phase
        self.virtual, self.category, self.fused = virtual, category, False
        self.inputs, self.outputs, self.deps = [], [], []
        self.flops = self.read = self.written = 0
        self.extents = (0, 0, 0, 0)
        self.comm, self.group, self.comm_bytes = None, 0, 0


def _spec(tensor):
    """(dtype, dims). Dtypes that the library lacks become f32 or i32, complex numbers pairs, and
    the first dimensions are merged if there are too many."""
    dims = list(tensor.shape)
    dtype = _dtypes.get(str(tensor.dtype))
    if tensor.dtype.is_complex:
        dims.append(2)
    if dtype is None:
        real = tensor.is_floating_point() or tensor.dtype.is_complex
        dtype = lib.SYN_F32 if real else lib.SYN_I32
    while len(dims) > lib.SYN_MAX_RANK:
        dims[0:2] = [dims[0] * dims[1]]
    return dtype, dims


class Rows:
    """The nodes and tensors of one rank. All ranks have the same, apart from shards."""

    def __init__(self):
        self.nodes, self._tensors = [], []

    def producer(self, tensor):
        """The node that produces a tensor; None for parameters and inputs."""
        return self._tensors[tensor][3]

    def add_node(self, node):
        self.nodes.append(node)
        return len(self.nodes) - 1

    def add_tensor(self, name, tensor, flag, producer=None, base=None, shard=None):
        self._tensors.append((name, _spec(tensor), flag, producer, base, shard))
        return len(self._tensors) - 1

    def set_labels(self, leaves):
        """An op that is the only one of a module without children is labelled with the module's
        name, unless that is a number: "q_proj" in the scope of the parent."""
        ops = {}
        for node in self.nodes:
            if not node.virtual and node.comm is None:
                ops.setdefault((node.scope, node.phase == "backward"), set()).add(node.op)
        for node in self.nodes:
            own = node.scope.rpartition(".")[2]
            if (node.scope in leaves and not own.isdigit() and
                    len(ops.get((node.scope, False), ())) == 1):
                node.scope, _, label = node.scope.rpartition(".")
                node.label = node.label if node.comm is not None or node.virtual else label

    def graph(self, ranks, metadata):
        """The graph with these rows on `ranks` ranks."""
        numbers = ffi.new("int32_t[]", list(range(ranks)))
        out = ffi.new("syn_graph **")
        quick(lib.syn_graph_new, out, numbers, ranks, ranks)
        graph = owned(out[0], lib.syn_graph_free)
        for name, value in metadata.items():
            self._set_meta(graph, name, value)
        if ranks > 1:
            name = ffi.new("char[]", b"tp0")
            quick(lib.syn_graph_add_group, graph, ffi.new("syn_graph_group *", {
                "id": 1, "name": name, "ranks": numbers, "n_ranks": ranks}))
        for rank in range(ranks):
            self._fill(graph, rank)
        error = ffi.new("syn_error *")
        if lib.syn_graph_verify(graph, error) != lib.SYN_OK:
            raise error_of(error)
        return graph

    def _set_meta(self, graph, name, value):
        keep = [ffi.new("char[]", c_text(name))]
        entry = ffi.new("syn_attribute *", {"name": keep[0]})
        if isinstance(value, bool):
            entry.type, entry.i64 = lib.SYN_VALUE_BOOL, value
        elif isinstance(value, int):
            entry.type, entry.i64 = lib.SYN_VALUE_I64, value
        else:
            keep.append(ffi.new("char[]", c_text(value)))
            entry.type, entry.text = lib.SYN_VALUE_TEXT, keep[1]
        quick(lib.syn_graph_set_meta, graph, entry)

    def _fill(self, graph, rank):
        calls = {}
        for i, node in enumerate(self.nodes):
            self._add_node(graph, rank, i, node, calls)
        for i, (name, (dtype, dims), flag, producer, base, shard) in enumerate(self._tensors):
            keep = ffi.new("char[]", c_text(name)[:_name_bytes])
            row = ffi.new("syn_graph_tensor *", {
                "name": keep, "flags": _flags[flag], "base": i if base is None else base,
                "producer": _no_node if producer is None else producer})
            row.spec = {"dtype": dtype, "rank": len(dims),
                        "dims": dims + [0] * (lib.SYN_MAX_RANK - len(dims))}
            if shard is not None:
                row.shard = {"axis": shard, "parts": 1, "index": rank,
                             "count": graph.n_ranks}
            quick(lib.syn_graph_add_tensor, graph, rank, row)

    def _add_node(self, graph, rank, i, node, calls):
        keep = [ffi.new("char[]", c_text(name)[:_name_bytes])
                for name in (node.op, node.label, node.scope)]
        keep += [ffi.new("uint32_t[]", node.inputs), ffi.new("uint32_t[]", node.outputs),
                 ffi.new("syn_dep[]", [(to, _deps[kind]) for to, kind in node.deps])]
        row = ffi.new("syn_node *", {
            "id": i + 1, "op": keep[0], "label": keep[1], "scope": keep[2],
            "category": _categories[node.category], "phase": _phases[node.phase],
            "flags": (lib.SYN_NODE_VIRTUAL if node.virtual else 0) |
                     (lib.SYN_NODE_FUSED if node.fused else 0),
            "inputs": keep[3], "n_inputs": len(node.inputs), "outputs": keep[4],
            "n_outputs": len(node.outputs), "deps": keep[5], "n_deps": len(node.deps),
            "flops": node.flops, "bytes_read": node.read, "bytes_written": node.written,
            "extents": node.extents, "reduce": -1, "peer": -1, "root": -1})
        for name in ("start_ns", "wall_ns", "cpu_ns", "wait_ns", "predicted_ns"):
            setattr(row, name, -1.0)
        if node.comm is not None:
            row.kind, row.comm = lib.SYN_NODE_COLLECTIVE, _comms[node.comm]
            row.group, row.comm_bytes = node.group, node.comm_bytes
            row.comm_index = calls[node.group] = calls.get(node.group, -1) + 1
            row.stream = 1
            row.flags |= lib.SYN_NODE_BLOCKING
            row.reduce = lib.SYN_REDUCE_SUM if node.comm == "all_reduce" else -1
        quick(lib.syn_graph_add_node, graph, rank, row)
