#!/usr/bin/env python3
"""Makes jsonizer.et, a trace that uses every member of AttributeProto's oneof with extreme values,
and jsonizer.json, the output of MLCommons Chakra's jsonizer for it: protobuf's MessageToJson of
each message in turn. Needs protoc and protobuf for Python (made with 7.36.2)."""
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
with tempfile.TemporaryDirectory() as folder:
    export = os.path.join(here, "../../export")
    subprocess.run(["protoc", "-I", export, "--python_out", folder, "et_def.proto"], check=True)
    sys.path.insert(0, folder)
    from et_def_pb2 import GlobalMetadata, Node
from google.protobuf.json_format import MessageToJson

DOUBLES = [0.0, -0.0, 1.0, 0.1, -2.5, 1e15, 1e16, 9999999999999998.0, 123456789012345680.0, 1e22,
           1e23, 1e-4, 1e-5, 0.00012,
           1 / 3, 5e-324, 2.0**-24, 2.0**-1022, 1.7976931348623157e308, float("inf"), float("-inf"),
           float("nan")]
FLOATS = [0.0, -0.0, 0.9, 0.1, 1.0, 16777216.0, 1e10, 1e16, 1e20, 3.4028234663852886e38, 1e-45,
          1.17549435e-38, 1 / 3, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "plain", 'a "quote", a \\, a /', "\b\t\n\v\f\r\0\x1f\x7f", "é\x80ߣ",
         "日本\u2028\ufffd\uffff", "😀𐀀\U0010ffff"]
BYTES = [b"", b"a", b"ab", b"abc", bytes(range(256))]


def integers(bits, signed):
    low, high = (-(2**(bits - 1)), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [0, 1, 127, 128, low, high] + ([-1, -64, -65] if signed else [])


VALUES = {"double": DOUBLES, "float": FLOATS, "bool": [False, True], "string": TEXTS,
          "bytes": BYTES}
for kind in ("int", "sint", "sfixed", "uint", "fixed"):
    for size in (32, 64):
        VALUES[f"{kind}{size}"] = integers(size, kind in ("int", "sint", "sfixed"))


def add_all(message):
    for kind, values in VALUES.items():
        for value in values:
            setattr(message.attr.add(name=kind), kind + "_val", value)
        getattr(message.attr.add(name=kind + "s"), kind + "_list").values.extend(values)
        getattr(message.attr.add(), kind + "_list").SetInParent()
    for text in TEXTS:
        message.attr.add(name=text, doc_string=text)


def trace():
    yield GlobalMetadata()
    everything = Node(id=2**64 - 1, name=TEXTS[6], start_time_micros=2**64 - 1, duration_micros=1)
    add_all(everything)
    yield everything
    for kind in range(1, 8):
        yield Node(id=kind, type=kind, name=f"node {kind}", data_deps=range(kind),
                   ctrl_deps=[2**64 - 1] * (kind % 3))
    for text in TEXTS:
        node = Node(name=text)
        node.inputs.SetInParent()
        node.outputs.values = text
        node.outputs.types = "[]"
        node.inputs.shapes = text
        yield node


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


with open(os.path.join(here, "jsonizer.et"), "wb") as et, \
        open(os.path.join(here, "jsonizer.json"), "w") as text:
    for i, message in enumerate(trace()):
        data = message.SerializeToString()
        assert data or i == 0, "an empty node ends the file for the reference"
        et.write(varint(len(data)) + data)
        text.write(MessageToJson(message))
