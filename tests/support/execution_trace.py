"""An independent reader and writer of execution traces (.et). It does not use the library, so that
tests can compare the library's files with it."""
from checks import check

INT64, STRING = 9, 29
METADATA, COMP, SEND, RECV, COLL = 1, 4, 5, 6, 7


# ---- Reading ----


def take_varint(b, i):
    n = shift = 0
    while True:
        n, shift, i = n | (b[i] & 0x7F) << shift, shift + 7, i + 1
        if b[i - 1] < 0x80:
            return n, i


def fields(b):
    i = 0
    while i < len(b):
        key, i = take_varint(b, i)
        if key & 7 == 0:
            value, i = take_varint(b, i)
        else:
            size, i = (8, i) if key & 7 == 1 else (4, i) if key & 7 == 5 else take_varint(b, i)
            value, i = b[i:i + size], i + size
            if len(value) != size:
                raise ValueError("a field is cut off")
        yield key >> 3, value


def numbers(b):
    out, i = [], 0
    while i < len(b):
        n, i = take_varint(b, i)
        out.append(n)
    return out


def attribute(b):
    """Returns the name and the value of an attribute, and the field number of the value in the
    oneof."""
    name, value, kind = "", None, None
    for field, v in fields(b):
        kind = field
        if field == 1:
            name = v.decode()
        elif field in (7, 9):
            value = v - (1 << 64) if v >> 63 else v
        elif field == 14:
            value = [n for f, list_ in fields(v) for n in numbers(list_)]
        elif field == 29:
            value = v.decode()
        elif field == 30:
            value = [text.decode() for f, text in fields(v)]
        else:
            value = v
    return name, value, kind


class Node:
    def __init__(self, b):
        self.id, self.name, self.type, self.ctrl, self.data, self.start, self.dur = 0, "", 0, [], \
            [], None, 0
        self.attr, self.field, self.io = {}, {}, []
        for field, v in fields(b):
            if field == 10:
                name, value, kind = attribute(v)
                check(name not in self.attr, f"node {self.id} has two attributes {name}")
                self.attr[name], self.field[name] = value, kind
            elif field in (8, 9):
                self.io.append({f: t.decode() for f, t in fields(v)})
            elif field in (4, 5):
                setattr(self, {4: "ctrl", 5: "data"}[field], numbers(v))
            else:
                setattr(self, {1: "id", 2: "name", 3: "type", 6: "start", 7: "dur"}[field],
                        v.decode() if field == 2 else v)
        self.deps = set(self.ctrl) | set(self.data)
        self.on_gpu = "stream" in self.attr


def messages(data):
    i = 0
    while i < len(data):
        size, i = take_varint(data, i)
        if i + size > len(data):
            raise ValueError("a message is cut off")
        yield data[i:i + size]
        i += size


def read_et(data):
    """Returns the attributes of the metadata, and the nodes in the order of the file."""
    first, *nodes = messages(data)
    meta = {a[0]: a[1] for a in (attribute(v) for f, v in fields(first) if f == 2)}
    return meta, [Node(m) for m in nodes]


# ---- Writing ----


def varint(n, longer=0):
    """Encodes n as a varint. longer: number of bytes beyond the shortest encoding."""
    out, n = b"", n & (1 << 64) - 1
    while n > 127 or longer:
        out += bytes([n & 127 | 128])
        n >>= 7
        longer = max(0, longer - 1) if n == 0 else longer
    return out + bytes([n])


def field(number, value):
    """Encodes a field: an integer as a varint, text and bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + frame(value)


def frame(message):
    return varint(len(message)) + message
