"""Tables of a trace: a pandas.DataFrame, or a small stand-in if pandas is not installed."""


def table(columns):
    """A DataFrame of the columns, a dict of lists, arrays or Codes; without pandas a Table."""
    try:
        import pandas
    except ImportError:
        return Table({name: list(values) for name, values in columns.items()})
    return pandas.DataFrame({name: _pandas_column(pandas, v) for name, v in columns.items()})


def _pandas_column(pandas, values):
    return pandas.Categorical.from_codes(*values.used()) if isinstance(values, Codes) else values


class Codes:
    """A column whose values are names, stored as indices into the list of names."""

    def __init__(self, codes, names):
        self.codes, self.names = codes, names

    def __len__(self):
        return len(self.codes)

    def __iter__(self):
        names = self.names
        return (names[code] for code in self.codes)

    def used(self):
        """Codes and names without the names that do not occur. Needs numpy."""
        import numpy
        codes = numpy.asarray(self.codes)
        occurs = numpy.flatnonzero(numpy.bincount(codes, minlength=len(self.names)))
        new = numpy.zeros(len(self.names), dtype="i4")
        new[occurs] = numpy.arange(len(occurs))
        return new[codes], [self.names[i] for i in occurs]

    def take(self, rows):
        """The values in these rows."""
        return Codes(take(self.codes, rows), self.names)


def take(values, rows):
    """The values in some rows of a list, an array or Codes."""
    if isinstance(values, Codes):
        return values.take(rows)
    return [values[i] for i in rows] if isinstance(values, list) else values[rows]


def rows_with(codes, code, equal):
    """The rows in which a code is, or is not, `code`."""
    if isinstance(codes, list):
        return [i for i, c in enumerate(codes) if (c == code) == equal]
    import numpy
    return numpy.flatnonzero((codes == code) == equal)


class Table:
    """The columns of a table as lists, with the parts of DataFrame that a first look needs.
    `pip install pandas` replaces it by DataFrame."""

    def __init__(self, columns):
        self._columns = columns

    @property
    def columns(self):
        return list(self._columns)

    @property
    def shape(self):
        return len(self), len(self._columns)

    def __len__(self):
        return len(next(iter(self._columns.values()), []))

    def __getitem__(self, column):
        return self._columns[column]

    def __iter__(self):
        return iter(self._columns)

    def head(self, n=5):
        """The first n rows."""
        return Table({name: values[:n] for name, values in self._columns.items()})

    def rows(self):
        """The rows as dicts."""
        names = list(self._columns)
        return [dict(zip(names, row)) for row in zip(*self._columns.values())]

    def _shown(self):
        shown = self.head(60)
        return [list(shown._columns)] + [[_cell(v) for v in row]
                                         for row in zip(*shown._columns.values())]

    def __repr__(self):
        lines = self._shown()
        widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
        text = "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in lines)
        return text + (f"\n({len(self)} rows)" if len(self) > 60 else "")

    def _repr_html_(self):
        import html
        head, *rows = self._shown()
        return ("<table><thead><tr>" + "".join(f"<th>{html.escape(c)}</th>" for c in head) +
                "</tr></thead><tbody>" +
                "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>"
                        for row in rows) +
                "</tbody></table>" + (f"<p>{len(self)} rows</p>" if len(self) > 60 else ""))


def _cell(value):
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None else str(value)
