"""Trace: the graph of a run, read from files or recorded, with its tables, pictures and files."""
from __future__ import annotations

import json as _json
import os
import tempfile
import typing
import weakref

from ._core import (Error, InvalidError, c_text, call, ffi, lib, owned, quick, text)
from ._values import _integer
from .tables import Codes, rows_with, table, take

if typing.TYPE_CHECKING:
    import networkx
    import numpy
    import pandas


class SVG(str):
    """An SVG picture. Notebooks show it; str(picture) is its source."""

    def __repr__(self):
        return f"<syntorch.SVG of {len(self)} characters>"

    def _repr_svg_(self):
        return str(self)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the picture to a file. Trace.save writes other formats, such as .png."""
        if os.fspath(path).lower().endswith((".png", ".pdf", ".jpg")):
            raise InvalidError(f"{path}: this picture is SVG; Trace.save writes .png and .pdf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self)


class HTML(str):
    """A page in one HTML file. Notebooks show it in a frame; str(page) is its source."""

    height = 720

    def __repr__(self):
        return f"<syntorch.HTML of {len(self)} characters>"

    def _repr_html_(self):
        import html
        return (f'<iframe srcdoc="{html.escape(self, quote=True)}" style="width:100%;'
                f'height:{self.height}px;border:1px solid #ccc" title="Syntorch trace"></iframe>')

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self)


class Arrays(dict):
    """Columns of a table as numpy arrays, by name. Columns of texts and of enumerations have codes;
    names(column) is the list that they index."""

    def __init__(self, columns, names):
        super().__init__(columns)
        self._names = names

    def names(self, column: str) -> list[str] | None:
        """The names that the codes of a column stand for; None for a column of numbers."""
        return self._names[column]() if column in self._names else None


_numpy_types = {lib.SYN_COLUMN_U8: "u1", lib.SYN_COLUMN_U32: "u4", lib.SYN_COLUMN_I32: "i4",
                lib.SYN_COLUMN_U64: "u8", lib.SYN_COLUMN_F64: "f8", lib.SYN_COLUMN_TEXT: "u4"}
_c_types = {"u1": "uint8_t *", "u4": "uint32_t *", "i4": "int32_t *", "u8": "uint64_t *",
            "f8": "double *"}
_table_kinds = {text(lib.syn_table_name(kind)): kind for kind in range(lib.SYN_TABLE_COUNT)}


class _Columns:
    """A table of one rank, in memory of the library."""

    def __init__(self, trace, index, kind):
        out = ffi.new("syn_columns **")
        call(lib.syn_columns_read, out, trace._graph, index, 1 << kind, os.cpu_count() or 1)
        self._owner = owned(out[0], lib.syn_columns_free, trace._graph)
        of = out[0].tables[kind]
        self.n_rows = of.n_rows
        self.columns = {text(of.columns[i].name): of.columns[i] for i in range(of.n_columns)}
        self._texts = None

    def texts(self):
        """All texts that columns of this table refer to."""
        if self._texts is None:
            table_ = ffi.addressof(self._owner.texts)
            self._texts = [text(ffi.cast("char *", lib.syn_intern_get(table_, i)))
                           for i in range(table_.n_entries)]
        return self._texts

    def names(self, name):
        column = self.columns[name]
        if column.type == lib.SYN_COLUMN_TEXT:
            return self.texts
        if column.n_codes:
            return lambda: [text(column.code_name(i)) for i in range(column.n_codes)]
        return None

    def memory(self, name):
        """The values of a column as a buffer, which keeps the table alive, and their type."""
        column = self.columns[name]
        type_ = _numpy_types[column.type]
        start = ffi.gc(ffi.cast("char *", column.data), lambda _, owner=self._owner: None)
        return ffi.buffer(start, self.n_rows * int(type_[1])), type_

    def array(self, name):
        import numpy
        buffer, type_ = self.memory(name)
        return numpy.frombuffer(buffer, dtype=type_)

    def values(self, name):
        """The column for a table: an array or list of numbers, or Codes."""
        try:
            values = self.array(name)
        except ImportError:
            _, type_ = self.memory(name)
            values = ffi.unpack(ffi.cast(_c_types[type_], self.columns[name].data), self.n_rows)
        names = self.names(name)
        return values if names is None else Codes(values, names())


_op_columns = ("id", "op", "label", "scope", "kind", "category", "phase", "step", "stream", "dtype",
               "flops", "read_bytes", "written_bytes", "comm_bytes", "group", "peer", "start_ns",
               "wall_ns", "wait_ns", "predicted_ns")


def _joined(parts):
    """Joins the parts of one column, which come from several ranks."""
    if isinstance(parts[0], Codes):
        ids, codes = {}, []
        for part in parts:
            final = [ids.setdefault(name, len(ids)) for name in part.names]
            codes.append(_taken(final, part.codes))
        return Codes(_joined(codes), list(ids))
    if isinstance(parts[0], list):
        return [value for part in parts for value in part]
    import numpy
    return parts[0] if len(parts) == 1 else numpy.concatenate(parts)


def _repeated(value, n):
    try:
        import numpy
    except ImportError:
        return [value] * n
    return numpy.full(n, value, dtype="i4")


def _taken(final, codes):
    if isinstance(codes, list):
        return [final[code] for code in codes]
    import numpy
    return numpy.asarray(final, dtype="u4")[codes] if final else codes


class Trace:
    """The ops of the ranks of a run as a graph. `trace`, `load` and others create it.

    Indices of ranks count the ranks of the trace; `ranks` has their global numbers."""

    def __init__(self, graph, hardware=None):
        self._graph = graph
        self._hardware = hardware  # kept alive: predicted times refer to it
        self.notes: list[str] = []  # of convert: what the files lack
        self._cache: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

    # ---- What the trace is ----

    @property
    def ranks(self) -> list[int]:
        """The global numbers of the ranks in this trace, a list."""
        return [self._graph.ranks[i].rank for i in range(self._graph.n_ranks)]

    @property
    def world_size(self) -> int:
        """The number of ranks of the job; the trace may have fewer."""
        return self._graph.world_size

    @property
    def metadata(self) -> dict[str, typing.Any]:
        """Properties of the run: model, tp, dtype, hardware, ..., a dict."""
        out = {}
        for i in range(self._graph.n_metadata):
            entry = self._graph.metadata[i]
            out[text(entry.name)] = {
                lib.SYN_VALUE_I64: lambda e: int(e.i64), lib.SYN_VALUE_F64: lambda e: float(e.f64),
                lib.SYN_VALUE_BOOL: lambda e: bool(e.i64),
                lib.SYN_VALUE_TEXT: lambda e: text(e.text)}[entry.type](entry)
        return out

    @property
    def groups(self) -> dict[str, list[int]]:
        """The process groups: name -> list of global ranks, in ring order."""
        return {text(group.name): list(group.ranks[0:group.n_ranks]) for group in self._groups()}

    def _groups(self):
        return [self._graph.groups[i] for i in range(self._graph.n_groups)]

    def __len__(self) -> int:
        """The number of nodes of all ranks."""
        return sum(self._graph.ranks[i].n_nodes for i in range(self._graph.n_ranks))

    def __repr__(self):
        meta = self.metadata
        parts = [str(meta["model"])] if "model" in meta else []
        parts += [f"{key} {meta[key]}" for key in ("tp", "pp", "dp", "ep", "cp")
                  if str(meta.get(key, 1)) != "1"]
        if "hardware" in meta:
            parts.append(f"{meta['hardware']}+{meta.get('stack', '')}")
        return (f"<syntorch.Trace {', '.join(parts + [f'{len(self)} nodes'])}, "
                f"{self._graph.n_ranks} of {self.world_size} ranks>")

    def _index(self, rank):
        if rank is None:
            return 0
        if not isinstance(rank, int):
            rank = _integer("rank", rank, 32)
        try:
            return self.ranks.index(rank)
        except ValueError:
            raise InvalidError(f"the trace has no rank {rank}; it has "
                               f"{self._shown_ranks()}") from None

    def _shown_ranks(self):
        ranks = self.ranks
        return str(ranks) if len(ranks) <= 16 else f"{len(ranks)} ranks from {ranks[0]}"

    # ---- Tables ----

    def _table(self, index, kind):
        key = (index, kind)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = _Columns(self, index, _table_kinds[kind])
        return found

    def arrays(self, rank: int | None = None, table: str = "nodes") -> Arrays:
        """The columns of a rank (default: the first) as numpy arrays that share the library's
        memory. table: "nodes", "deps" (node `to` waits for node `from`), "operands" (which tensors
        nodes read and write) or "tensors". Returns an Arrays."""
        if table not in _table_kinds:
            raise InvalidError(f"table {table!r}: it must be one of {', '.join(_table_kinds)}")
        columns = self._table(self._index(rank), table)
        names = {name: columns.names(name) for name in columns.columns if columns.names(name)}
        return Arrays({name: columns.array(name) for name in columns.columns}, names)

    def _nodes(self, rank, columns):
        indices = range(self._graph.n_ranks) if rank is None else [self._index(rank)]
        ranks = self.ranks
        parts = {name: [] for name in columns}
        numbers = []
        for index in indices:
            of = self._table(index, "nodes")
            numbers.append(_repeated(ranks[index], of.n_rows))
            for name in columns:
                parts[name].append(of.values(name))
        return {"rank": _joined(numbers), **{name: _joined(part) for name, part in parts.items()}}

    def ops(self, rank: int | None = None) -> pandas.DataFrame:
        """A row for each node of all ranks, or of one: a pandas.DataFrame. Quantities have their
        unit in the column's name; a time that is unknown is NaN. `group` is a group's id, 0 for
        none."""
        return table(self._nodes(rank, _op_columns))

    def collectives(self, rank: int | None = None) -> pandas.DataFrame:
        """A row for each collective and message. comm_bytes is the size of this rank's input."""
        columns = self._nodes(rank, ("id", "comm", "label", "scope", "phase", "step", "group",
                                     "comm_bytes", "peer", "tag", "start_ns", "wall_ns", "wait_ns",
                                     "predicted_ns"))
        comm = columns["comm"]
        rows = rows_with(comm.codes, comm.names.index("none"), False)
        out = {name: take(values, rows) for name, values in columns.items()}
        by_id = {group.id: group for group in self._groups()}
        ids = out.pop("group")
        names = {i: text(group.name) for i, group in by_id.items()}
        out["group"] = [names.get(int(i)) for i in ids]
        out["group_size"] = [by_id[int(i)].n_ranks if int(i) in by_id else 0 for i in ids]
        return table(out)

    def memory(self) -> pandas.DataFrame:
        """The memory that tensors use, a row for each change, of all ranks. time_us is the time at
        which the host calls the op, as PyTorch's profiler records it; on a GPU, the host runs ahead
        of the device."""
        import csv
        import io
        rows = list(csv.reader(io.StringIO(self._exported("memory"))))
        return table({name: [_number(row[i]) for row in rows[1:]]
                      for i, name in enumerate(rows[0])})

    # ---- Times ----

    @property
    def predicted_ns(self) -> float | None:
        """The predicted duration of the run in ns: all ranks, with their waits and overlaps. None
        if the trace has no predicted times."""
        ns = ffi.new("double *")
        call(lib.syn_predicted_duration, ns, self._graph)
        return ns[0] if ns[0] > 0 else None

    def predict(self, hw: str) -> Trace:
        """The trace with the times that it would have on the machine `hw` ("h100", "h200+serving"
        or a JSON file): a new Trace."""
        machine = hardware(hw)
        out = ffi.new("syn_graph **")
        quick(lib.syn_graph_copy, out, self._graph)
        copy = out[0]
        error = ffi.new("syn_error *")
        if lib.syn_graph_predict(out, copy, machine, error) != lib.SYN_OK:
            lib.syn_graph_free(copy)
            from ._core import error_of
            raise error_of(error)
        return Trace(owned(out[0], lib.syn_graph_free))

    def critical_path(self) -> pandas.DataFrame:
        """The nodes on which the duration of the run depends, across ranks: a row for each, whose
        times add up to the duration. See simulate."""
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "trace")
            self.save(prefix + ".et", as_set=True)
            from .simulation import simulate
            return simulate(prefix).critical_path()

    # ---- Pictures and files ----

    def _options(self, rank=None, **given):
        options = ffi.new("syn_export_options *")
        keep = [ffi.new("char[]", c_text("syntorch " + version()))]
        options.version = keep[0]
        if rank is not None:
            self._index(rank)
            number = ffi.new("int32_t *", rank)
            options.rank = number
            keep.append(number)
        for name, value in given.items():
            if name == "title" and not isinstance(value, str):
                raise InvalidError(f"title must be a text, not {value!r}")
            if isinstance(value, (str, os.PathLike)):
                value = ffi.new("char[]", c_text(value))
                keep.append(value)
            setattr(options, name, value)
        return options, keep

    def _exported(self, name, **how):
        """What an exporter writes, as text."""
        return self._exported_bytes(name, **how).decode("utf-8", "replace")

    def _exported_bytes(self, name, rank=None, **how):
        exporter = lib.syn_exporter_by_name(c_text(name))
        if not exporter:
            raise InvalidError(f"unknown format {name!r}")
        options, _keep = self._options(rank, **how)
        sink = ffi.new("syn_sink **")
        call(lib.syn_export_memory, sink, self._graph, exporter, options)
        n = ffi.new("size_t *")
        data = lib.syn_sink_data(sink[0], n)
        out = bytes(ffi.buffer(data, n[0])) if data else b""
        quick(lib.syn_sink_close, sink[0], False)
        return out

    def svg(self, rank: int | None = None, comm: bool = False, detail: str = "auto",
            fold: bool = True, title: str | None = None) -> SVG:
        """A picture of one rank's graph (default: the first) or, with comm, of the communication
        of all ranks. detail: "auto", "tensors", "ops", "modules" or "layers". fold: draw repeated
        layers once. Returns an SVG, which notebooks show."""
        how = {"comm_graph": comm, "no_fold": not fold, "detail": _detail(detail),
               "view": lib.SYN_VIEW_GRAPH}
        if title is not None:
            how["title"] = title
        return SVG(self._exported("svg", rank=None if comm else rank, **how))

    def timeline(self, title: str | None = None) -> SVG:
        """A picture of when the ranks compute and communicate. Returns an SVG. `save` writes a
        timeline for Perfetto: t.save("timeline.json", format="chrome")."""
        how = {"view": lib.SYN_VIEW_TIMELINE}
        if title is not None:
            how["title"] = title
        return SVG(self._exported("svg", **how))

    def html(self, compare: Trace | None = None) -> HTML:
        """The interactive report in one page; compare: a second Trace to show next to this one.
        Returns an HTML, which notebooks show in a frame."""
        if compare is not None and not isinstance(compare, Trace):
            raise InvalidError(f"compare must be a Trace, not {compare!r}")
        how = {} if compare is None else {"compare": compare._graph}
        return HTML(self._exported("html", **how))

    def networkx(self) -> networkx.DiGraph:
        """The graph as a networkx.DiGraph: a node for each op and tensor, such as "r0.o12"."""
        try:
            import networkx
        except ImportError:
            raise ImportError("networkx() needs networkx: pip install networkx") from None
        data = _json.loads(self._exported_bytes("json"))
        data.setdefault("edges", data.get("links"))
        data.setdefault("links", data.get("edges"))
        return networkx.node_link_graph(data, directed=data["directed"],
                                        multigraph=data["multigraph"])

    def save(self, path: str | os.PathLike, rank: int | None = None, format: str | None = None,
             title: str | None = None, as_set: bool | None = None) -> list[str]:
        """Writes the trace in the format of the path's extension: .et, .json, .graphml, .dot, .svg,
        .png, .pdf, .html, .memory.csv, or that of `format`, such as "chrome", "chakra" or "kineto".
        An .et file has one rank. If the trace has several and `rank` is not given, "x.et" writes
        the set x.<rank>.et with x.comm_group.json; as_set=True does so for one rank, too. title: of
        a picture. Returns the list of written paths."""
        path = os.path.expanduser(os.fspath(path))
        if as_set is None:
            as_set = rank is None and self._graph.n_ranks > 1
        if path.endswith(".et") and format is None and as_set:
            return self._save_set(path[:-3])
        exporter = ffi.NULL
        if format is not None:
            exporter = lib.syn_exporter_by_name(c_text(format))
            if not exporter:
                raise InvalidError(f"unknown format {format!r}")
        how = {} if title is None else {"title": title}
        options, _keep = self._options(rank, **how)
        call(lib.syn_export_file, self._graph, exporter, options, c_text(path))
        return [path]

    def _save_set(self, prefix):
        options, _keep = self._options()
        call(lib.syn_export_et_set, self._graph, options, c_text(prefix))
        return [f"{prefix}.{rank}.et" for rank in self.ranks] + [prefix + ".comm_group.json"]

    def _repr_html_(self):
        import html
        meta = self.metadata
        rows = "".join(f"<tr><th style='text-align:left'>{html.escape(str(key))}</th>"
                       f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
                       for key, value in meta.items())
        head = f"<p><b>{html.escape(repr(self)[1:-1])}</b></p>"
        try:
            large = len(self) > 200 * self._graph.n_ranks
            picture = self.svg(comm=self._graph.n_ranks > 1, detail="layers" if large else "auto")
        except Error as error:
            picture = f"<p>{html.escape(str(error))}</p>"
        picture = picture[picture.find("<svg"):] if "<svg" in picture else picture
        return (f"{head}<details><summary>properties</summary><table>{rows}</table></details>"
                f"<div style='overflow:auto;max-height:720px'>{picture}</div>")


def _detail(name):
    names = {"auto": lib.SYN_DETAIL_AUTO, "tensors": lib.SYN_DETAIL_TENSORS,
             "ops": lib.SYN_DETAIL_OPS, "modules": lib.SYN_DETAIL_MODULES,
             "layers": lib.SYN_DETAIL_LAYERS}
    if name not in names:
        raise InvalidError(f"detail {name!r}: it must be one of {', '.join(names)}")
    return names[name]


def _number(cell):
    if cell == "":
        return float("nan")
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    return text(lib.syn_embed_version())


def hardware(name):
    """The machine `name` as a syn_hardware of the library."""
    out = ffi.new("syn_hardware *")
    quick(lib.syn_hardware_load, out, c_text(name), ffi.NULL)
    return out


def _first_of_set(prefix):
    """The file of a set with the lowest rank; None if there is none."""
    folder, name = os.path.split(prefix)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return None
    ranks = [n[len(name) + 1:-3] for n in names if n.startswith(name + ".") and n.endswith(".et")]
    numbers = [int(rank) for rank in ranks if rank.isdecimal()]
    return f"{prefix}.{min(numbers)}.et" if numbers else None


def load(path: str | os.PathLike) -> Trace:
    """Reads a trace: a Chakra .et file of one rank, the prefix of a set (all ranks), NetworkX JSON
    or Chakra JSON. Returns a Trace."""
    path = os.path.expanduser(os.fspath(path))
    out = ffi.new("syn_graph **")

    def abandon():
        lib.syn_graph_free(out[0])
    first = None
    if not os.path.exists(path):  # "x", or "x.et" as for save
        first = _first_of_set(path) or (path.endswith(".et") and _first_of_set(path[:-3])) or None
    if first is not None:
        call(lib.syn_import_et, out, c_text(first), True, abandon=abandon)
    else:
        call(lib.syn_import_any, out, c_text(path), abandon=abandon)
    return Trace(owned(out[0], lib.syn_graph_free))
