#!/usr/bin/python3
"""Proves that `syntorch json` converts an .et of any program to one JSON document and back to the
same bytes. The values in the document are compared with the output of protobuf's MessageToJson
(tests/reference/make_jsonizer_fixture.py), which --compat reproduces byte for byte."""
import base64
import glob
import gzip
import json
import os
import random
import struct
import subprocess
import tempfile

import checks
from checks import BUILD, DATA, SOURCE, check, finish
from execution_trace import field, frame, varint

REFERENCE = os.path.join(SOURCE, "tests", "reference", "jsonizer")


def run(folder, data, *more, name="x.et"):
    """Runs the command on the bytes. Returns its output (None: it wrote none) and the finished
    process."""
    source, out = os.path.join(folder, name), os.path.join(folder, "out")
    with open(source, "wb") as f:
        f.write(data)
    if os.path.exists(out):
        os.remove(out)
    r = checks.run("json", "--input", source, "--output", out, *more)
    return (open(out, "rb").read() if os.path.exists(out) else None), r


def refused(folder, data, says, *more):
    out, r = run(folder, data, *more)
    text = r.stderr.decode()
    check(r.returncode == 1 and out is None and says in text and text.count("\n") == 1,
          f"{data[:60]!r}: {r.returncode}, {'no ' if out is None else ''}file, {text}")


def there_and_back(folder, what, data, wire=0):
    """Converts an .et to a document and back, checks that the bytes return and that `wire` of its
    messages need "@wire", and returns the rank's part of the document."""
    text, r = run(folder, data, name="x.7.et")
    if text is None:
        return check(False, f"{what}: {r.stderr}")
    said = r.stderr.decode()
    check((f"{wire} message" in said and "kept in \"@wire\"" in said) if wire
          else "canonical" not in said, f"{what}: {said}")
    document = json.loads(text, parse_constant=lambda c: check(False, f"{what}: {c} is not JSON"))
    (rank,) = document["ranks"]
    check(sum("@wire" in m for m in [rank["metadata"]] + rank["nodes"]) == wire,
          f"{what}: not {wire} \"@wire\"")
    again, r = run(folder, text)
    check(again == data, f"{what}: other bytes come back; {r.stderr}")
    # The order of members, white space and escapes may differ.
    other = json.dumps(document, sort_keys=True, indent=3, ensure_ascii=True).encode()
    if len(other) < 1 << 20:
        check(run(folder, other)[0] == data, f"{what}: other bytes come back of sorted JSON")
    return rank


# ---- The reference's form ----


def objects(text):
    at, decoder = 0, json.JSONDecoder()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value


def normal(value, key=""):
    """Returns a message with floats as the bits of their type and with empty "values" in lists that
    have none, so that messages can be compared."""
    if isinstance(value, dict):
        if key.endswith("List"):
            value = {"values": [], **value}
            return {"values": [normal(v, key) for v in value["values"]]}
        return {k: normal(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [normal(v, key) for v in value]
    if key.startswith(("float", "double")):
        return struct.pack("<f" if key[0] == "f" else "<d", float(value)).hex()
    return value


def check_reference(folder):
    data = open(REFERENCE + ".et", "rb").read()
    want = open(REFERENCE + ".json", "rb").read()
    got, r = run(folder, data, "--compat")
    check(got == want, f"--compat is not MessageToJson; {r.stderr}")
    rank = there_and_back(folder, "the fixture", data)
    check(rank["rank"] == 7, f"rank {rank['rank']} of x.7.et")
    messages = [normal(m) for m in objects(want.decode())]
    check([normal(m) for m in [rank["metadata"]] + rank["nodes"]] == messages,
          "the document is not what protobuf reads")
    check(len(messages) == 16, f"{len(messages)} messages")
    refused(folder, json.dumps({"ranks": [rank]}).encode(), "is JSON already", "--compat")
    # The file ends at an empty node.
    got, r = run(folder, data + b"\0" + data, "--compat")
    check(got == want and f"{len(data)} bytes after an empty message omitted"
          in r.stderr.decode(), f"{r.stderr}")


def check_shared(folder):
    for path in sorted(glob.glob(os.path.join(DATA or "", "pytorch-traces", "*", "*.et.gz"))):
        there_and_back(folder, path, gzip.open(path).read())


def check_own(folder):
    """Tests a trace set that the library writes: the document must equal the exporter's."""
    prefix = os.path.join(folder, "set")
    program = os.path.join(BUILD, "tests", "test_et")
    subprocess.run([program, "write_set"], env=dict(os.environ, SYN_ET_OUT=prefix),
                   capture_output=True, check=True)
    files = sorted(glob.glob(prefix + ".*.et"))
    check(len(files) == 8, f"files of the set: {files}")
    for path in files:
        data = open(path, "rb").read()
        there_and_back(folder, path, data)
        text, _ = run(folder, data)
        r = checks.run("export", "--input", path, "--format", "chakra", "--output", "-")
        check(r.stdout == text, f"{path}: export writes other JSON")
    every = checks.run("export", "--input", prefix + ".tp.0.et", "--all_ranks", "--format",
                       "chakra", "--output", "-").stdout
    refused(folder, every, "has several ranks, but an .et file has one")
    refused(folder, every, "does not have rank 2", "--rank", "2")
    got, r = run(folder, every, "--rank", "1")
    check(got == open(prefix + ".tp.1.et", "rb").read(), f"--rank 1: {r.stderr}")


# ---- What protobuf's JSON cannot hold ----


META = frame(field(1, "1.0.0"))
NODE = field(1, 5) + field(2, "n") + field(3, 4)
ATTR = field(1, "a")
CANONICAL = {
    "no metadata fields": b"\0" + frame(NODE),
    "metadata only": META,
    "empty node": META + b"\0" + frame(NODE) + b"\0",
    "attribute without a value": META + frame(NODE + field(10, ATTR) + field(10, b"")),
    "empty inputs": META + frame(NODE + field(8, b"") + field(9, field(2, "x"))),
    "empty list": META + frame(NODE + field(10, ATTR + field(10, b""))),
    "negative type": META + frame(field(3, 2**64 - 1)),
    "newer type": META + frame(field(3, 99)),
    "repeated ids, cycle, dangling": META + frame(NODE + field(5, b"\5\7")) * 2,
    "rank of the metadata": frame(field(2, field(1, "rank") + field(9, 3))) + frame(NODE),
    # Here a length is a bracket, or text looks like a key.
    "as if JSON": frame(field(1, "a" * 34) + field(2, field(1, "b" * 83))) + frame(NODE),
    "as if an array": frame(field(1, "]" * 89)) + frame(NODE),
}
WIRE = {
    "unknown field": NODE + field(11, 1),
    "unknown field of an attribute": NODE + field(10, ATTR + field(40, "x")),
    "other order": field(2, "n") + field(1, 5),
    "id twice": NODE + field(1, 6),
    "default written": field(1, 0) + field(2, "n"),
    "empty name written": NODE[:2] + field(2, ""),
    "empty list of ids written": NODE + field(4, b""),
    "ids not packed": NODE + field(5, 1) + field(5, 2),
    "ids in two parts": NODE + field(5, b"\1") + field(5, b"\2"),
    "longer number": NODE + varint(7 << 3) + varint(3, 2),
    "longer tag": NODE + varint(7 << 3, 1) + varint(3),
    "type beyond 32 bits": field(3, 2**32 + 4),
    "wrong wire type": NODE + field(6, "x"),
    "values not packed": NODE + field(10, ATTR + field(10, field(1, 1) + field(1, 2))),
    "unknown field of a list": NODE + field(10, ATTR + field(10, field(2, 1))),
    "list twice": NODE + field(10, ATTR + field(10, field(1, b"\1")) + field(10, field(1, b"\2"))),
    "two values": NODE + field(10, ATTR + field(9, 1) + field(7, 2)),
    "value before name": NODE + field(10, field(9, 1) + ATTR),
    "bool of 2": NODE + field(10, ATTR + field(27, 2)),
    "int32 beyond 32 bits": NODE + field(10, ATTR + field(7, 2**40)),
    "int32 not sign-extended": NODE + field(10, ATTR + field(7, 2**32 - 1)),
    "NaN with a payload": NODE + field(10, ATTR + varint(3 << 3 | 1)
                                       + struct.pack("<Q", 0x7FF8000000000001)),
    "float NaN with a sign": NODE + field(10,
                                          ATTR + varint(5 << 3 | 5)
                                          + struct.pack("<I", 0xFFC00000)),
    "unknown field of inputs": NODE + field(8, field(4, "strides")),
    "inputs twice": NODE + field(8, field(1, "a")) + field(8, field(2, "b")),
}


def check_wire(folder):
    for what, data in CANONICAL.items():
        rank = there_and_back(folder, what, data)
        if what == "rank of the metadata":
            check(rank["rank"] == 3, f"rank {rank['rank']}, not 3")
    for what, message in WIRE.items():
        there_and_back(folder, what, META + frame(NODE) + frame(message), 1)
    there_and_back(folder, "all", META + b"".join(map(frame, WIRE.values())), len(WIRE))
    there_and_back(folder, "longer length", META + varint(len(NODE), 2) + NODE, 1)
    there_and_back(folder, "odd metadata", frame(field(3, "x")) + frame(NODE), 1)
    there_and_back(folder, "odd empty node", META + b"\x80\0", 1)
    # Refuses "@wire" bytes that differ from the members.
    text, _ = run(folder, META + frame(WIRE["unknown field"]))
    node = json.loads(text)
    (message,) = node["ranks"][0]["nodes"]
    for change, says in ({"name": "m"}, "differs from its other members"), \
            ({"@wire": "AA=="}, "differs from its other members"), \
            ({"@wire": "Bw=="}, "exactly one message"), ({"@wire": ""}, "exactly one message"), \
            ({"@wire": base64.b64encode(frame(WIRE["unknown field"]) + b"\0").decode()},
             "must be exactly one message"), ({"@wire": "a"}, "base64"), \
            ({"@wire": 1}, "@wire"), ({"@wire": base64.b64encode(frame(b"\x07")).decode()},
                                      "is not a message"):
        refused(folder, json.dumps({"ranks": [{"nodes": [{**message, **change}]}]}).encode(), says)


# ---- Damage ----


def check_damage(folder):
    refused(folder, b"", "is empty")
    for data, says in ((META + b"\5ab", "byte 8: the file ends inside a message"),
                       (META + b"\x80", "byte 8: a number is truncated"),
                       (frame(NODE), "byte 1: the first message is a node"),
                       (META + frame(field(2, b"\xff")), "not valid UTF-8"),
                       (META + frame(b"\x0b"), "unknown wire type"),
                       (META + frame(b"\x12\x09ab"), "extends past its message"),
                       (META + b"\xff" * 11, "longer than 64 bits")):
        refused(folder, data, says)
        refused(folder, data, says, "--compat")
    good = '{"ranks":[{"rank":0,"metadata":{"version":"1"},"nodes":[{"id":"1"}]}]}'
    want = frame(field(1, "1")) + frame(field(1, 1))
    check(run(folder, good.encode())[0] == want, "the least document")
    check(run(folder, b'{"ranks":[{"nodes":[{"id":1,"ctrl_deps":["2"]}]}]}')[0] == b"\0"
          + frame(field(1, 1) + field(4, b"\2")), "other spellings")
    for cut in range(1, len(good), 3):
        refused(folder, good[:cut].encode(), "x.et:1:")
    node = '{"id":"1"}'
    for new, says in (('{"ID":"1"}', 'unknown member "ID"'),
                      ('{"id":"1","id":"2"}', '"id" appears twice'), ('{"id":-1}', "type uint64"),
                      ('{"id":1.5}', "type uint64"),
                      ('{"type":"COMPUTE"}', 'unknown node type "COMPUTE"'),
                      ('{"name":1}', "must be a string"),
                      ('{"attr":[{"int64Val":"1","boolVal":true}]}', "two values"),
                      ('{"attr":[{"Name":"x"}]}', 'unknown member "Name"'),
                      ('{"attr":[{"doubleVal":"1e999"}]}', "type double"),
                      ('{"attr":[{"floatVal":1e39}]}', "type float"),
                      ('{"attr":[{"int32Val":2147483648}]}', "type int32"),
                      ('{"attr":[{"bytesVal":"?"}]}', "type bytes"),
                      ('{"attr":[{"int64List":{"value":[]}}]}', 'unknown member "value"'),
                      ('{"inputs":{"strides":""}}', 'unknown member "strides"'),
                      ("1", "must be an object"), ('{"id\\u0000":"1"}', "unknown member")):
        refused(folder, good.replace(node, new).encode(), says)
    for document, says in (("{}", 'no "ranks"'), ('{"ranks":[]}', 'no "ranks"'),
                           ('{"ranks":1}', "ranks"), ("[]", "the file's content"),
                           ('{"nodes":[]}', 'unknown member "nodes"'),
                           ('{"ranks":[{"node":[]}]}', 'unknown member "node"'),
                           ('{"ranks":[{"nodes":[],"nodes":[]}]}', '"nodes" appears twice'),
                           ('{"ranks":[{"rank":-1}]}', "rank"),
                           ('{"ranks":[{"metadata":{},"metadata":{}}]}',
                            '"metadata" appears twice'), (good + good, "x.et:1:"),
                           ('{"ranks":[{"metadata":{"id":1}}]}', 'unknown member "id"')):
        refused(folder, document.encode(), says)


def check_random(folder):
    """Flips random bits: each file is refused with a message, or converts there and back."""
    whole = open(REFERENCE + ".et", "rb").read()
    pick = random.Random(1)
    small = META + frame(NODE + field(10, ATTR + field(10, field(1, b"\1\2")))
                         + field(8, field(1, "x")))
    for _ in range(60):
        data = bytearray(pick.choice((whole, small, small)))
        for _ in range(pick.randint(1, 3)):
            data[pick.randrange(len(data))] = pick.randrange(256)
        text, r = run(folder, bytes(data))
        if text is None:
            check(r.returncode == 1 and r.stderr.count(b"\n") == 1, f"{bytes(data)!r}: {r.stderr}")
        else:
            check(run(folder, text)[0] == data, f"{bytes(data)!r}: other bytes come back")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part in (check_reference, check_shared, check_own, check_wire, check_damage,
                     check_random):
            part(folder)
    finish()


main()
