"""Converts the arguments of builders to C, for one rank at a time."""
from ._core import InvalidError, c_text, ffi, lib

_NONE = (0, 0)  # the invalid tensor
_AXES = {"tp": lib.SYN_AXIS_TP, "dp": lib.SYN_AXIS_DP, "pp": lib.SYN_AXIS_PP}
_GROUPS = ("kv", "embedding", "model", "shard", "replicas", "gather", "ep", "etp", "experts",
           "edp", "expert_model", "world", "cp", "cp_a2a", "cp_p2p", "tp_cp", "stage")


def _id(tensor):
    """A syn_tensor as a tuple, which cffi accepts and which does not refer to memory of C."""
    return tensor.id, tensor.tag


class PerRank(list):
    """A value for each rank, where a builder expects one value."""


class Tensor:
    """A tensor of a Context. It has the same shape on all ranks of the context."""

    __slots__ = ("_context", "_ids")

    def __init__(self, context, ids):
        self._context, self._ids = context, ids

    def _spec(self):
        if self._context._closed:
            raise InvalidError("the context of this tensor is closed")
        rank = self._context._rank_list[0]
        return lib.syn_tensor_spec(rank.ctx, self._ids[0])

    @property
    def shape(self):
        """The dimensions, a tuple."""
        spec = self._spec()
        return tuple(spec.dims[0:spec.rank])

    @property
    def dtype(self):
        """"f32", "f16", "bf16", "i32" or "i64"."""
        return ffi.string(lib.syn_dtype_name(self._spec().dtype)).decode()

    def __add__(self, other):
        return self._context.add(self, other)

    def __mul__(self, other):
        if isinstance(other, (int, float)):
            return self._context.scale(self, other)
        return self._context.mul(self, other)

    __rmul__ = __mul__

    def __matmul__(self, other):
        return self._context.matmul(self, other)

    def __repr__(self):
        if self._context._closed:
            return "<syntorch.Tensor of a closed context>"
        return f"<syntorch.Tensor {self.dtype}{list(self.shape)}>"


def _real(name, value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidError(f"{name} must be a number, not {value!r}") from None


def _integer(name, value, bits=64):
    if isinstance(value, float) and not value.is_integer():
        raise InvalidError(f"{name} must be an integer, not {value!r}")
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidError(f"{name} must be an integer, not {value!r}") from None
    if not -2 ** (bits - 1) <= number < 2 ** (bits - 1):
        raise InvalidError(f"{name} is {number}, which has more than {bits} bits")
    return number


def _truth(name, value):
    if value in (0, 1):
        return bool(value)
    raise InvalidError(f"{name} must be True or False, not {value!r}")


def _choice(type_, name, value):
    """The value of an enumeration whose name ends with `value`: "sum" is SYN_REDUCE_SUM."""
    names = {text.rsplit("_", 1)[-1].lower(): number
             for text, number in ffi.typeof(type_).relements.items() if not text.endswith("COUNT")}
    if value not in names:
        raise InvalidError(f"{name} must be one of {', '.join(sorted(names))}, not {value!r}")
    return names[value]


def _items(name, value):
    try:
        return list(value)
    except TypeError:
        raise InvalidError(f"{name} must be a list, not {value!r}") from None


def _spec(shape, dtype):
    """A syn_spec, checked by the library."""
    dims = [_integer("a dimension", d) for d in _items("shape", shape)]
    if len(dims) > lib.SYN_MAX_RANK:
        raise InvalidError(f"the shape has {len(dims)} dimensions; at most {lib.SYN_MAX_RANK} are "
                           "supported")
    spec = ffi.new("syn_spec *", {"dtype": _choice("syn_dtype", "dtype", dtype), "rank": len(dims),
                                  "dims": dims + [0] * (lib.SYN_MAX_RANK - len(dims))})
    if not lib.syn_spec_valid(spec):
        raise InvalidError(f"the shape {tuple(dims)} has a negative dimension or is too large")
    return spec


class Rank:
    """One rank of a context: its number and C objects, and conversions of values for it."""

    def __init__(self, context, index, number, ctx, comm, mesh):
        self.context, self.index, self.number = context, index, number
        self.ctx, self.comm, self.mesh = ctx, comm, mesh

    def own(self, value):
        return value[self.index] if isinstance(value, PerRank) else value

    def real(self, name, value):
        return _real(name, self.own(value))

    def integer(self, name, value, bits=64):
        return _integer(name, self.own(value), bits)

    def tensor(self, name, value, required):
        if value is None and not required:
            return _NONE
        if not isinstance(value, Tensor):
            raise InvalidError(f"{name} must be a Tensor, not {value!r}")
        if value._context is not self.context:
            raise InvalidError(f"{name} is a tensor of another context")
        return value._ids[self.index]

    def tensors(self, name, values):
        values = _items(name, values)
        return ffi.new("syn_tensor[]", [self.tensor(name, v, True) for v in values])

    def slot(self, name, value):
        return ffi.new("syn_tensor *", _NONE if value is None else self.tensor(name, value, True))

    def integers(self, name, element, values):
        bits = 64 if element == "int64_t" else 32
        values = _items(name, self.own(values))
        return ffi.new(element + "[]", [_integer(name, v, bits) for v in values])

    def counts(self, name, values, group):
        """An entry for each rank of the group; NULL for None."""
        if values is None:
            return ffi.NULL
        values = self.integers(name, "int64_t", values)
        size = self.group(group, True).size
        if len(values) != size:
            raise InvalidError(f"{name} has {len(values)} entries, but the group has {size} ranks")
        return values

    def group(self, name, required):
        """The group of this rank along an axis of the mesh, such as "tp"."""
        if name is None and not required:
            return ffi.NULL
        if name not in _AXES and name not in _GROUPS:
            raise InvalidError(f"group must be one of {', '.join([*_AXES, *_GROUPS])}, not "
                               f"{name!r}")
        found = self.mesh.group[_AXES[name]] if name in _AXES else getattr(self.mesh, name)
        if not found:
            raise InvalidError(f"rank {self.number} has no group {name!r} of at least two ranks")
        return found

    def struct(self, type_, value):
        """A struct with the members of a dict."""
        if not isinstance(value, dict):
            raise InvalidError(f"expected a dict with the members of {type_}, not {value!r}")
        out = ffi.new(type_ + " *")
        self._fill(out, ffi.typeof(type_), value)
        return out

    def _fill(self, out, type_, values):
        fields = dict(type_.fields)
        for name, value in values.items():
            if name not in fields:
                raise InvalidError(f"{type_.cname} has no member {name!r}; it has "
                                   f"{', '.join(fields)}")
            self._set(out, name, fields[name].type, value)

    def _set(self, out, name, type_, value):
        if type_.cname == "syn_tensor":
            setattr(out, name, self.tensor(name, value, False))
        elif type_.kind == "struct":
            if not isinstance(value, dict):
                raise InvalidError(f"{name} must be a dict, not {value!r}")
            self._fill(getattr(out, name), type_, value)
        elif type_.kind == "enum":
            setattr(out, name, _choice(type_.cname, name, value))
        elif type_.cname in ("double", "float"):
            setattr(out, name, self.real(name, value))
        elif type_.cname == "_Bool":
            setattr(out, name, _truth(name, value))
        elif type_.kind == "primitive":
            number = self.integer(name, value)
            try:
                setattr(out, name, number)
            except OverflowError:
                raise InvalidError(f"{name} is {number}, which is out of range") from None
        else:
            raise InvalidError(f"{name} cannot be given from Python")


def name_text(name, value):
    """A name of a tensor, scope or label as bytes."""
    if not isinstance(value, str) or not value:
        raise InvalidError(f"{name} must be a text, not {value!r}")
    return c_text(value)
