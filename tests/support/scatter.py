"""Draws predicted against measured times for the benchmarks (tests/bench). Each data set has a
panel with logarithmic axes, a band of 10 % around equality, and the names of the points with the
largest errors."""
import math
from xml.sax.saxutils import escape

SIDE, GAP, LEFT, TOP, BOTTOM = 300, 84, 66, 44, 46
INK, MUTED, GRID, BAND, POINT, FAR = ("#1f2328", "#59636e", "#d8dee4", "#dcebfa", "#2f6fb2",
                                      "#b3261e")
BAND_PART, NAMED = 0.1, 3


def ticks(low, high):
    """Returns the powers of ten between `low` and `high`, which are decimal logarithms. If the
    range has less than two decades, also returns their multiples by 2 and 5."""
    tens = [10.0 ** e for e in range(math.floor(low), math.ceil(high) + 1)]
    if high - low < 2:
        tens += [2 * t for t in tens] + [5 * t for t in tens]
    return sorted(t for t in tens if low <= math.log10(t) <= high)


def time_text(ms):
    for unit, scale in (("s", 1e3), ("ms", 1), ("µs", 1e-3)):
        if ms >= scale:
            return f"{ms / scale:g} {unit}"
    return f"{ms * 1e3:g} µs"


def text(x, y, what, size=11, anchor="start", colour=INK, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}" font-weight="{weight}">{escape(what)}</text>')


def line(x1, y1, x2, y2, colour, width=1.0):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


class Panel:
    """The panel of one data set. rows: (name, measured ms, predicted ms)."""

    def __init__(self, x0, title, rows):
        self.x0, self.title, self.rows = x0, title, rows
        all_ms = [ms for row in rows for ms in row[1:]]
        low, high = math.log10(min(all_ms)), math.log10(max(all_ms))
        margin = 0.06 * (high - low) + 0.02
        self.low, self.high = low - margin, high + margin

    def at(self, ms):
        return (math.log10(ms) - self.low) / (self.high - self.low) * SIDE

    def place(self, measured, predicted):
        return self.x0 + self.at(measured), TOP + SIDE - self.at(predicted)

    def axes(self):
        yield text(self.x0, TOP - 22, self.title, 13, weight="bold")
        errors = [abs(p / m - 1) for _, m, p in self.rows]
        yield text(self.x0, TOP - 7, f"{len(errors)} rows, mean error "
                   f"{100 * sum(errors) / len(errors):.1f} %", 11, colour=MUTED)
        for ms in ticks(self.low, self.high):
            x, y = self.place(ms, ms)
            yield line(x, TOP, x, TOP + SIDE, GRID)
            yield line(self.x0, y, self.x0 + SIDE, y, GRID)
            yield text(x, TOP + SIDE + 15, time_text(ms), 10, "middle", MUTED)
            yield text(self.x0 - 6, y + 3.5, time_text(ms), 10, "end", MUTED)
        yield text(self.x0 + SIDE / 2, TOP + SIDE + 33, "measured", 11, "middle", MUTED)
        x, y = self.x0 - 54, TOP + SIDE / 2
        yield (f'<text x="{x}" y="{y}" font-size="11" text-anchor="middle" fill="{MUTED}" '
               f'transform="rotate(-90 {x} {y})">predicted</text>')

    def band(self):
        ends = 10 ** self.low, 10 ** self.high
        corners = [self.place(ends[0], ends[0] * (1 - BAND_PART)),
                   self.place(ends[1], ends[1] * (1 - BAND_PART)),
                   self.place(ends[1], ends[1] * (1 + BAND_PART)),
                   self.place(ends[0], ends[0] * (1 + BAND_PART))]
        yield (f'<polygon clip-path="url(#c{self.x0})" fill="{BAND}" points="'
               + " ".join(f"{x:.1f},{y:.1f}" for x, y in corners) + '"/>')
        yield line(*self.place(ends[0], ends[0]), *self.place(ends[1], ends[1]), MUTED)

    def points(self):
        ranked = sorted(self.rows, key=lambda r: abs(math.log(r[2] / r[1])))
        for i, (name, measured, predicted) in enumerate(ranked):
            x, y = self.place(measured, predicted)
            far = i - (len(ranked) - NAMED)
            said = f"{name}: {100 * (predicted / measured - 1):+.0f} %"
            yield (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4 if far >= 0 else 3}" '
                   f'fill="{FAR if far >= 0 else POINT}" '
                   f'fill-opacity="{1 if far >= 0 else 0.55}"><title>{escape(said)}, measured '
                   f"{time_text(round(measured, 4))}</title></circle>")
            if far >= 0:  # names are in the lower right corner, where there are few points
                yield text(self.x0 + SIDE - 8, TOP + SIDE - 10 - 14 * (NAMED - 1 - far), said, 10,
                           "end", FAR)
        yield text(self.x0 + SIDE - 8, TOP + SIDE - 10 - 14 * NAMED, "largest errors", 10, "end",
                   MUTED)

    def draw(self):
        yield (f'<clipPath id="c{self.x0}"><rect x="{self.x0}" y="{TOP}" width="{SIDE}" '
               f'height="{SIDE}"/></clipPath>')
        yield from self.axes()
        yield from self.band()
        yield (f'<rect x="{self.x0}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" '
               f'stroke="{MUTED}"/>')
        yield from self.points()


def write(path, sets, across=2):
    """Writes an SVG file. sets: a list of (title, rows), with rows as in Panel. across: panels per
    row."""
    down = (len(sets) + across - 1) // across
    wide, high = LEFT + across * (SIDE + GAP), down * (TOP + SIDE + BOTTOM)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
                f'width="{wide}" height="{high}" font-family="sans-serif">\n'
                f'<rect width="{wide}" height="{high}" fill="white"/>\n')
        for i, (title, rows) in enumerate(sets):
            f.write(f'<g transform="translate(0 {i // across * (TOP + SIDE + BOTTOM)})">\n'
                    + "\n".join(Panel(LEFT + i % across * (SIDE + GAP), title, rows).draw())
                    + "\n</g>\n")
        f.write("</svg>\n")
