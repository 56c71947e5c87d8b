"""Redraws the chart of `syntorch simulate --chart` for a page: fewer columns and rows, so that a
picture has some ten KiB instead of hundreds. The areas stay the same."""
import re

COLUMNS, COLUMN = 240, 3  # of a row, and the width of one in pixels
LEFT, TOP, HEIGHT, GAP = 84, 66, 24, 5
MOST_ROWS = 16
COLOURS = {"#4f7aa8": "computation", "#d98d3f": "exposed communication", "#f6e3bd": "waiting"}
IDLE = "#f6e3bd"


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


def redrawn(svg, title, subtitle):
    rows = chosen(list(read_rows(svg)))
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
    for colour, name in COLOURS.items():
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
        out += [f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">rank {label}</text>',
                f'<rect x="{LEFT}" y="{y}" width="{COLUMNS * COLUMN}" height="{HEIGHT}" '
                f'fill="{IDLE}"/>']
        # Communication is drawn on top of computation: first the sum of both, then computation.
        exact = [areas.get(colour, [0.0] * COLUMNS) for colour in list(COLOURS)[:2]]
        computing = [round(h * HEIGHT) for h in exact[0]]
        both = [min(round((a + b) * HEIGHT), HEIGHT) for a, b in zip(*exact)]
        for colour, heights in zip(list(COLOURS)[1::-1], (both, computing)):
            out.append(f'<path fill="{colour}" d="{outline(heights, y)}"/>')
    return "\n".join(out + ["</svg>", ""])
