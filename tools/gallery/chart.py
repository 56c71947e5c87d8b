"""Draws what ranks do over time, from the files that `syntorch simulate` writes with --chart and
--timeline. Compared with that chart, a picture has fewer columns and rows, so that it has some ten
KiB instead of hundreds. The areas stay the same. If all ranks do the same, the rows are instead
computation and each kind of collective."""
import json
import re

COLUMNS, COLUMN = 240, 3  # of a row, and the width of one in pixels
LEFT, TOP, HEIGHT, GAP = 104, 66, 24, 5
MOST_ROWS = 16
COMPUTING, COMMUNICATING, IDLE, NOTHING = "#4f7aa8", "#d98d3f", "#f6e3bd", "#f4f4f4"
RANKS = {COMPUTING: "computation", COMMUNICATING: "exposed communication", IDLE: "waiting"}
KINDS = {COMPUTING: "computation", COMMUNICATING: "communication"}
# Collectives of experts, which have names of their own.
NAMED = {"counts": "all-gather", "dispatched": "all-to-all", "returned": "all-to-all"}


def read_rows(svg):
    """Yields (label, {colour: heights of the columns from 0 to 1}) for each row of the chart."""
    parts = re.split(r'<text x="[\d.]+" y="[\d.]+" text-anchor="end">([^<]*)</text>', svg)
    for label, part in zip(parts[1::2], parts[2::2]):
        area = re.search(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="([\d.]+)"', part)
        left, width, height = (float(number) for number in area.groups())
        scale = re.search(r"scale\(([\d.]+) 1\)", part)
        stretch = float(scale.group(1)) if scale else 1
        rows = {}
        for colour, path in re.findall(r'<path fill="(#\w+)" d="([^"]*)"', part):
            columns = [0.0] * COLUMNS
            for x, w, h in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v-([\d.]+)", path):
                begin = (float(x) - left) * stretch / width * COLUMNS
                add(columns, begin, begin + float(w) * stretch / width * COLUMNS,
                    float(h) / height)
            rows[colour] = columns
        yield label, rows


def add(columns, begin, end, height):
    """Adds a rectangle of this height from begin to end, in columns."""
    for i in range(max(int(begin), 0), min(int(end) + 1, COLUMNS)):
        columns[i] += height * max(0.0, min(end, i + 1) - max(begin, i))


def outline(heights, y):
    """The path around columns of these heights."""
    path, at, run = [f"M{LEFT} {y + HEIGHT}"], 0, 0
    for i, height in enumerate(heights):
        run += COLUMN
        following = heights[i + 1] if i + 1 < COLUMNS else None
        if following != height:
            path.append(f"v{at - height}h{run}")
            at, run = height, 0
    return "".join(path) + f"v{at}z"


def chosen(rows):
    """At most MOST_ROWS rows, with the first and the last one."""
    if len(rows) <= MOST_ROWS:
        return rows
    return [rows[round(i * (len(rows) - 1) / (MOST_ROWS - 1))] for i in range(MOST_ROWS)]


def kind_rows(timeline):
    """Returns the rows of a single rank's timeline: computation, and each kind of collective."""
    events = [e for e in json.loads(timeline)["traceEvents"] if e["ph"] == "X"]
    end = max(e["ts"] + e["dur"] for e in events)
    rows = {"computation": [0.0] * COLUMNS}
    for event in events:
        kind = "computation"
        if event["tid"] != 0:
            name = event["name"].rpartition("/")[2].removesuffix("_coalesced")
            kind = NAMED.get(name, name.replace("_", "-"))
        begin = event["ts"] / end * COLUMNS
        add(rows.setdefault(kind, [0.0] * COLUMNS), begin, begin + event["dur"] / end * COLUMNS, 1)
    return [(kind, {COMPUTING if kind == "computation" else COMMUNICATING: columns})
            for kind, columns in rows.items() if max(columns) * HEIGHT > 0.5]


def picture(svg, timeline, title, subtitle):
    """svg: the chart. timeline: of the only rank, else None."""
    rows = kind_rows(timeline) if timeline else chosen(list(read_rows(svg)))
    legend, idle = (KINDS, NOTHING) if timeline else (RANKS, IDLE)
    ticks = re.findall(r'<line x1="([\d.]+)".*?\n<text x="[\d.]+" y="[\d.]+" '
                       r'text-anchor="middle"[^>]*>([^<]*)</text>', svg)
    left, width = map(float, re.search(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" '
                                       rf'height="[\d.]+" fill="{IDLE}"/>\n<[gp]', svg).groups())
    right, bottom = LEFT + COLUMNS * COLUMN, TOP + 16 + len(rows) * (HEIGHT + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{right + 24}" height="{bottom + 8}" '
           f'viewBox="0 0 {right + 24} {bottom + 8}" '
           'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="11" fill="#222">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="14" font-weight="bold">{title}</text>',
           f'<text x="{LEFT}" y="35">{subtitle}</text>']
    x = LEFT
    for colour, name in legend.items():
        out += [f'<rect x="{x}" y="44" width="11" height="11" fill="{colour}"/>',
                f'<text x="{x + 16}" y="53">{name}</text>']
        x += 40 + 7 * len(name)
    for at, label in ticks:
        x = LEFT + (float(at) - left) / width * COLUMNS * COLUMN
        out += [f'<path d="M{x:.0f} {TOP + 12}V{bottom}" stroke="#ccc" stroke-width="0.5"/>',
                f'<text x="{x:.0f}" y="{TOP + 10}" text-anchor="middle" fill="#666">{label}'
                '</text>']
    for i, (label, areas) in enumerate(rows):
        y = TOP + 16 + i * (HEIGHT + GAP)
        # simulate lists all ranks that do the same.
        name = label if timeline else "rank " + re.match(r"\d+", label).group()
        out += [f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{name}</text>',
                f'<rect x="{LEFT}" y="{y}" width="{COLUMNS * COLUMN}" height="{HEIGHT}" '
                f'fill="{idle}"/>']
        # Communication is drawn on top of computation: first the sum of both, then computation.
        exact = [areas.get(c, [0.0] * COLUMNS) for c in (COMPUTING, COMMUNICATING)]
        computing = [min(round(h * HEIGHT), HEIGHT) for h in exact[0]]
        both = [min(round((a + b) * HEIGHT), HEIGHT) for a, b in zip(*exact)]
        for colour, heights in ((COMMUNICATING, both), (COMPUTING, computing)):
            if any(heights):
                out.append(f'<path fill="{colour}" d="{outline(heights, y)}"/>')
    return "\n".join(out + ["</svg>", ""])
