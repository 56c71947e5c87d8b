"""Reads the data of an HTML report, which `syntorch export --format html` writes.
export/html/html_columns.h describes the format. Needs only the standard library."""
import base64
import html.parser
import json
import zlib

SIGNED = {"id", "gap", "tag", "tensor_base"}


class Parts(html.parser.HTMLParser):
    """Parses an HTML report. tags: elements with their attributes. scripts: attributes and text of
    each script. text: texts outside of scripts and styles. cells: texts of table cells."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.text, self.cells, self.inside = [], [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append([dict(attrs), ""])
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1][1] += data
        elif self.inside != "style":
            self.text.append(data)
        if self.inside in ("th", "td"):
            self.cells.append(data)


def varints(data):
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
    assert shift == 0, "a number without an end"
    return out


def signed(value):
    return -(value + 1) // 2 if value % 2 else value // 2


class Rank:
    """The data of one rank. Each column is an attribute, a list of numbers: one for each node or,
    if the column's name begins with tensor_, one for each tensor. inputs, outputs and deps are
    lists with an entry for each node."""

    def __init__(self, head, about, columns):
        self.head, self.about = head, about
        for name, data in zip(head["columns"], columns):
            values = varints(data)
            if name not in ("uses", "deps"):
                count = about["tensors" if name.startswith("tensor_") else "nodes"]
                values = values or [0] * count
                assert len(values) == count, (name, len(values), count)
            setattr(self, name, [signed(v) for v in values] if name in SIGNED else values)
        for name in ("gap", "duration", "wait"):
            sizes = getattr(self, name + "_size")
            setattr(self, name, [v << s for v, s in zip(getattr(self, name), sizes)])
        self.wait = [min(w, d) for w, d in zip(self.wait, self.duration)]
        for i in range(1, len(self.id)):
            self.id[i] += self.id[i - 1]
        self.rename()
        self.read_uses()
        self.read_deps()

    def rename(self):
        """Gives an identical rank its own groups, peers and tags."""
        for name, pairs in self.about.get("renamed", {}).items():
            to = dict(pairs)
            setattr(self, name, [to.get(v, v) if name != "tag" or peer else v
                                 for v, peer in zip(getattr(self, name), self.peer)])

    def read_uses(self):
        self.inputs, self.outputs, at, last = [], [], 0, 0
        for _ in range(self.about["nodes"]):
            sides = []
            for side in range(2):
                n = self.uses[at] if self.uses else 0
                tensors = []
                for k in range(n):
                    step = signed(self.uses[at + 1 + k])
                    tensors.append(last - step if side == 0 else last + step)
                    if side == 1:
                        last = tensors[-1]
                sides.append(tensors)
                at += 1 + n
            self.inputs.append(sides[0])
            self.outputs.append(sides[1])

    def read_deps(self):
        values, at, classes = self.deps, 0, self.head["classes"]
        self.deps = []
        for i in range(self.about["nodes"]):
            n = values[at] if values else 0
            found = {}
            for value in values[at + 1:at + 1 + n]:
                bits = value & ((1 << len(classes)) - 1)
                found[i - (value >> len(classes))] = {
                    c for k, c in enumerate(classes) if bits >> k & 1}
            self.deps.append(found)
            at += 1 + n

    def times(self):
        """Returns (start, end) of each node in ns, or None if the node is not shown."""
        free, out = {}, []
        for lane, gap, duration in zip(self.lane, self.gap, self.duration):
            start = free.get(lane, 0) + gap
            out.append((start, start + duration) if lane else None)
            free[lane] = start + duration
        return out

    def text(self, name, i):
        return self.head["texts"][getattr(self, name)[i]]

    def tensor_names(self):
        names = [self.head["texts"][n - 1] if n else None for n in self.tensor_name]
        for i, outputs in enumerate(self.outputs):
            for k, t in enumerate(outputs):
                if names[t] is None:
                    names[t] = f"{self.text('scope', i)}/{self.text('label', i)}:{k}"
        return names


def read_trace(script):
    """Returns the header and the ranks in the data of a <script>. script: its attributes and its
    text."""
    attributes, text = script
    data = base64.b64decode(text, validate=True)
    if attributes["data-packed"] == "deflate":
        data = zlib.decompress(data)
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4:4 + length])
    at = 4 + length

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    held = []
    for _ in range(number()):
        n = number()
        held.append(data[at:at + n])
        at += n
    ranks = [Rank(head, about, [held[number()] for _ in head["columns"]])
             for about in head["ranks"]]
    assert at == len(data), "bytes behind the last column"
    return head, ranks
