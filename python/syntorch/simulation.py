"""Simulation and validation of sets of Chakra execution traces."""
from __future__ import annotations

import contextlib
import json as _json
import os
import tempfile
import typing

from ._core import (FormatError, InvalidError, c_text, call, ffi, lib, quick, text)
from .tables import table

if typing.TYPE_CHECKING:
    import pandas

    from .traces import SVG, Trace

Paths = typing.Union["Trace", str, os.PathLike, typing.Sequence[typing.Union[str, os.PathLike]]]


def _paths(paths):
    """The paths as a C array, and what it refers to."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if not paths:
        raise InvalidError("no file is given")
    keep = [ffi.new("char[]", c_text(path)) for path in paths]
    return ffi.new("char *[]", keep), len(keep), keep


class Simulation:
    """What the ranks of a set do over time. Times are in ns."""

    def __init__(self, result):
        self._result = result

    @property
    def end_ns(self) -> int:
        """When the last node ends."""
        return self._result.end_ns

    @property
    def deadlock(self) -> str | None:
        """None, or which rank waits for what."""
        return text(self._result.deadlock) or None

    @property
    def n_nodes(self) -> int:
        return self._result.n_nodes

    def ranks(self) -> pandas.DataFrame:
        """A row for each rank: its end, and the time with computation, with exposed communication
        and with neither."""
        rows = self._result.ranks[0:self._result.n_ranks]
        names = ("rank", "same_as", "end_ns", "compute_ns", "exposed_ns", "wait_ns")
        return table({name: [int(getattr(row, name)) for row in rows] for name in names})

    def groups(self) -> pandas.DataFrame:
        """A row for each group, and one for all messages (group None)."""
        rows = self._result.groups[0:self._result.n_groups]
        out = {"group": [text(row.name) if row.name else None for row in rows]}
        for name in ("n_ranks", "n_calls", "bytes", "ns"):
            out[name] = [int(getattr(row, name)) for row in rows]
        return table(out)

    def traffic(self) -> pandas.DataFrame:
        """A row for each pair of ranks with the bytes that the first sends to the second."""
        rows = self._result.pairs[0:self._result.n_pairs]
        out = {"from": [row.__getattribute__("from") for row in rows],
               "to": [row.to for row in rows], "bytes": [row.bytes for row in rows]}
        return table(out)

    def critical_path(self) -> pandas.DataFrame:
        """A row for each node of the critical path, in order."""
        rows = self._result.path[0:self._result.n_path]
        texts = ffi.addressof(self._result.path_texts)

        def entry(i):
            if i == 0xFFFFFFFF:
                return None
            return text(ffi.cast("char *", lib.syn_intern_get(texts, i)))
        return table({"rank": [row.rank for row in rows], "id": [int(row.id) for row in rows],
                      "name": [entry(row.name) for row in rows],
                      "kind": [text(row.kind) for row in rows],
                      "group": [entry(row.group) for row in rows],
                      "start_ns": [int(row.start_ns) for row in rows],
                      "ns": [int(row.ns) for row in rows]})

    def svg(self) -> SVG:
        """A picture of what each rank does over time."""
        from .traces import SVG
        sink = ffi.new("syn_sink **")
        quick(lib.syn_sink_open_memory, sink)
        lib.syn_simulation_draw_times(self._result, sink[0])
        return SVG(_text_of(sink[0]))

    def _repr_html_(self):
        picture = self.svg()
        return f"<p>{self!r}</p>{picture[picture.find('<svg'):]}"

    def __repr__(self):
        state = f", deadlock: {self.deadlock}" if self.deadlock else ""
        return (f"<syntorch.Simulation {self._result.n_ranks} ranks, {self.n_nodes} nodes, "
                f"{self.end_ns} ns{state}>")


def _text_of(sink):
    """The contents of a memory sink, which is closed."""
    n = ffi.new("size_t *")
    data = lib.syn_sink_data(sink, n)
    out = bytes(ffi.buffer(data, n[0])).decode("utf-8", "replace") if data else ""
    quick(lib.syn_sink_close, sink, False)
    return out


@contextlib.contextmanager
def _files(paths):
    """The paths; of a Trace, those of temporary files."""
    from .traces import Trace
    if not isinstance(paths, Trace):
        yield paths
        return
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "trace")
        paths.save(prefix + ".et", as_set=True)
        yield prefix


def simulate(paths: Paths, network: str | None = None, system: str | None = None,
             to: str | None = None, groups: str | None = None) -> Simulation:
    """Simulates a set, given by its prefix, its files or a Trace, until its end. network, system:
    ASTRA-sim's files; without them, times are those of the traces. to: another machine, for which
    the times are predicted again. Returns a Simulation."""
    with _files(paths) as files:
        return _simulate(files, network, system, to, groups)


def _simulate(paths, network, system, to, groups):
    array, n, _keep = _paths(paths)
    result = ffi.new("syn_simulation *")
    options = ffi.new("syn_simulate_options *")
    keep = []
    for name, value in (("network", network), ("system", system), ("groups", groups)):
        if value is not None:
            keep.append(ffi.new("char[]", c_text(value)))
            setattr(options, name, keep[-1])
    options.traffic = options.critical_path = True
    options.dtype = lib.SYN_DTYPE_COUNT
    options.threads = os.cpu_count() or 1
    if to is not None:
        from .traces import hardware
        keep += [hardware(_recorded_machine(array, n)), hardware(to)]
        setattr(options, "from", keep[-2])
        options.to = keep[-1]
    owner = ffi.gc(result, lib.syn_simulation_free)
    call(lib.syn_simulate, result, array, n, options)
    return Simulation(owner)


def _recorded_machine(array, n):
    """The machine for which the times of a set were predicted."""
    first = ffi.new("syn_simulation *")
    owner = ffi.gc(first, lib.syn_simulation_free)
    options = ffi.new("syn_simulate_options *")
    options.dtype = lib.SYN_DTYPE_COUNT
    call(lib.syn_simulate, first, array, n, options)
    machine, stack = text(owner.hardware.machine), text(owner.hardware.stack)
    if not machine:
        raise InvalidError("the traces do not name the machine of their times; `to` needs it")
    if owner.hardware.own_constants:
        raise InvalidError("the times of the traces are for a machine from a file; `to` needs a "
                           "preset")
    return machine + (f"+{stack}" if stack else "")


class Validation(dict):
    """The findings of a validation, as in `syntorch validate --json`."""

    @property
    def ok(self) -> bool:
        """Whether there are no problems. Warnings are allowed."""
        return self["problems"] == 0

    def findings(self) -> pandas.DataFrame:
        """A row for each finding."""
        rows = self["findings"]
        names = sorted({name for row in rows for name in row})
        return table({name: [row.get(name) for row in rows] for name in names})


def validate(paths: Paths, any_node: bool = False, single: bool = False,
             groups: str | None = None) -> Validation:
    """Checks a set, given by its prefix, its files or a Trace: whether the files are intact, and
    whether a simulator would run them to the end. Returns a Validation."""
    with _files(paths) as files:
        return _validate(files, any_node, single, groups)


def _validate(paths, any_node, single, groups):
    array, n, _keep = _paths(paths)
    options = ffi.new("syn_validate_options *", {"any_node": any_node, "single": single})
    if groups is not None:
        keep = ffi.new("char[]", c_text(groups))
        options.groups = keep
    result = ffi.new("syn_validation *")
    owner = ffi.gc(result, lib.syn_validation_free)
    call(lib.syn_validate, result, array, n, options)
    sink = ffi.new("syn_sink **")
    quick(lib.syn_sink_open_memory, sink)
    lib.syn_validation_json(owner, sink[0])
    try:
        return Validation(_json.loads(_text_of(sink[0])))
    except ValueError as error:
        raise FormatError(str(error)) from None
