"""Tests `syntorch repair`: damaged traces become JSON that Python parses strictly and that has
every undamaged node. Valid files do not change by a byte. Python's own decoder determines the
expected nodes."""
import concurrent.futures
import gzip
import json
import os
import random
import re
import sys
import tempfile

import checks
from checks import DATA, check, failures, finish, skip

if not DATA or not os.path.isdir(os.path.join(DATA, "pytorch-traces")):
    skip("no shared data")
folder = tempfile.TemporaryDirectory()
random.seed(4)


def refuse_word(word):
    raise ValueError(word)


def strict(data):
    """Parses JSON by RFC 8259: UTF-8, no NaN."""
    return json.loads(data.decode("utf-8"), parse_constant=refuse_word)


def source(name, trace="synth_allfeatures"):
    with gzip.open(os.path.join(DATA, "pytorch-traces", trace, name + ".0.json.gz")) as f:
        return f.read()


def repair(data, *args):
    """Repairs the bytes of a file. Returns the exit code, the output (None: no file) and standard
    error."""
    with tempfile.TemporaryDirectory(dir=folder.name) as own:
        path, out = os.path.join(own, "in.json"), os.path.join(own, "out.json")
        with open(path, "wb") as f:
            f.write(data)
        r = checks.run("repair", "--input", path, "--output", out, *args)
        with open(path, "rb") as f:
            check(f.read() == data, f"the input was changed: {args}")
        made = None
        if os.path.exists(out):
            with open(out, "rb") as f:
                made = f.read()
        check((r.returncode == 0) == (made is not None),
              f"exit {r.returncode}, file {made is not None}: {r.stderr}")
        return r.returncode, made, r.stderr.decode()


def expect(what, data, want, *notes, args=()):
    """Checks that the repaired file means `want`, and that the report has exactly these notes:
    (kind, count, first byte or None)."""
    code, made, said = repair(data, *args)
    if code != 0:
        return check(False, f"{what}: exit {code}: {said}")
    try:
        got = strict(made)
    except ValueError as e:
        return check(False, f"{what}: {e}")
    check(got == want, f"{what}: differs: {str(got)[:300]} != {str(want)[:300]}")
    if notes == (None,):
        return None
    found = [(m[1], int(m[2]), int(m[3]))
             for m in re.finditer(r"^\S+: (.*?): (\d+), .*\(first at byte (\d+)\)$", said, re.M)]
    check(len(found) == len(notes), f"{what}: {said}")
    for met, count, first in notes:
        hits = [f for f in found if met in f[0]]
        check(len(hits) == 1 and hits[0][1] == count and first in (None, hits[0][2]),
              f"{what}: {met} {count} {first}: {said}")
    return None


def places(data, key):
    """Returns the begin and end of each element of the list `key`."""
    text, decoder, found = data.decode("utf-8"), json.JSONDecoder(), []
    at = re.search(r'"%s"\s*:\s*\[\s*' % key, text).end()
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        found.append((at, end))
        at = re.compile(r"\s*,?\s*").match(text, end).end()
    return found


def cut_one(data, key, where, at):
    code, made, said = repair(data[:at])
    whole = strict(data)
    begin = data.index(b'"%s"' % key.encode())
    if code != 0:
        return check(at <= begin and ("can be repaired" in said or "is empty" in said
                                      or "has no JSON" in said), f"cut at {at}: {said}")
    try:
        got = strict(made)
    except ValueError as e:
        return check(False, f"cut at {at}: {e}")
    left = [e for _, e in where if e <= at]
    check(got.get(key, []) == whole[key][:len(left)],
          f"cut at {at}: {len(got.get(key, []))} elements, want {len(left)}")
    check(all(got[k] == whole[k] for k in got if k != key), f"cut at {at}: {list(got)}")
    if left:
        check(all(k in got for k in whole if data.index(b'"%s"' % k.encode()) < begin),
              f"cut at {at}: {list(got)}")
        check("%d nodes or events" % len(left) in said and "ends" not in said.split("\n")[-1],
              f"cut at {at}: {said}")
        check(made[:left and where[len(left) - 1][1]] == data[:where[len(left) - 1][1]],
              f"cut at {at}: bytes differ")
    if at < len(data.rstrip()):
        check("truncated by the end of the file: 1, " in said, f"cut at {at}: {said}")
    return None


def truncation():
    jobs = []
    for name, key, n in (("host", "nodes", 100), ("device", "traceEvents", 100)):
        data = source(name)
        where = places(data, key)
        cuts = {random.randrange(1, len(data))
                for _ in range(n - 12)} | {random.randrange(1, 200) for _ in range(6)}
        for begin, end in random.sample(where, 2):
            cuts |= {begin, end, end + 1}
        jobs += [(data, key, where, at) for at in sorted(cuts)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: cut_one(*job), jobs))


def undamaged():
    for name in ("host", "device", "linked"):
        data = source(name)
        for form in (data, b"\n " + data + b"\n\n", json.dumps(strict(data), indent=1).encode()):
            for args in ((), ("--object", "0"), ("--object", "all")):
                code, made, said = repair(form, *args)
                check(code == 0 and made == form and "nothing to repair" in said,
                      f"{name} {args}: {said}")


def commas():
    data = source("host")
    whole, where = strict(data), places(data, "nodes")
    end = where[-1][1]
    expect("trailing comma", data[:end] + b"," + data[end:], whole, ("extra commas", 1, end))
    middle = where[5][1]
    expect("doubled commas", data[:middle] + b",  ,," + data[middle:], whole,
           ("extra commas", 3, middle + 3))
    first = where[0][0]
    expect("leading comma", data[:first] + b"," + data[first:], whole,
           ("extra commas", 1, first))
    check(data[middle:middle + 1] == b",", "the test's place")
    expect("missing comma", data[:middle] + data[middle + 1:], whole,
           ("missing commas", 1, middle + 1))
    inner = data.replace(b', "ctrl_deps"', b' "ctrl_deps"').replace(b'}, {"name"', b'}{"name"')
    expect("missing commas", inner, whole, ("missing commas",
                                            data.count(b', "ctrl_deps"')
                                            + data.count(b'}, {"name"'), None))
    loose = data.replace(b"}]}", b"},]}").replace(b'"values": [', b'"values": [,')
    n = data.count(b"}]}") + data.count(b'"values": [')
    expect("commas everywhere", loose, whole, ("extra commas", n, None))


def strings():
    data = source("host")
    node = strict(data)["nodes"][4]
    name = b'"name": "%s"' % node["name"].encode()
    at = data.index(name) + 9

    def renamed(raw, value, *notes):
        whole = strict(data)
        whole["nodes"][4]["name"] = value
        expect(repr(raw), data.replace(name, b'"name": "' + raw + b'"', 1), whole, *notes)

    renamed(b"a\nb\x00c\x1f", "a\nb\x00c\x1f", ("control characters inside", 3, at + 1))
    renamed(b'say "x" now', 'say "x" now', ("unescaped quotes", 2, at + 4))
    for pg in ('[{"pg": "0"}]',
               '[{"pg_name": "0", "ranks": [], "n": 2}, {"pg_name": "1", "ranks": [0, 1]}]',
               '{"a": "}"}'):
        renamed(pg.encode(), pg, ("unescaped quotes", pg.count('"'), at + pg.index('"')))
    renamed(b"C:\\dir\\x \\'q\\' \\u12", "C:\\dir\\x 'q' \\u12",
            ("start no valid escape", 5, at + 2))
    renamed(b"\xff\xc3 \xed\xa0\x80\xc3\xa9", "\ufffd\ufffd \ufffd\ufffd\ufffdé",
            ("not UTF-8", 5, at))
    renamed(b"\\ud83d\\ude00 \\ud83d \\ude00\\u00e9", "\U0001F600 \ufffd \ufffdé",
            ("surrogate", 2, at + 13))


def values():
    data = source("host")
    whole = strict(data)
    key = b'"start_ts": %d' % whole["start_ts"]
    at = data.index(key) + 12
    check(data.count(key) == 1, "the test's number")
    for word, value in ((b"NaN", None), (b"-Infinity", None), (b"None", None), (b"nan", None),
                        (b"True", True), (b"FALSE", False), (b"N/A", None), (b"-nan(ind)", None),
                        (b"1.#QNAN", None), (b"<object at 0x7f>", None), (b"f(1, 2)", None),
                        (b"80 GB", None), (b"", None)):
        whole["start_ts"] = value
        expect(word, data.replace(key, b'"start_ts": ' + word), whole,
               ("words that are not JSON", 1, at))
    for word, value in ((b"+1", 1), (b"007", 7), (b"-.5", -0.5), (b"1.", 1.0), (b"2.e3", 2000.0),
                        (b"0x1F", "0x1F"), (b"1.2.3", "1.2.3"),
                        (b"9" * 5000, "9" * 5000), (b"-000", 0), (b"1e", "1e")):
        whole["start_ts"] = value
        expect(word, data.replace(key, b'"start_ts": ' + word), whole,
               ("numbers that are not", 1, at))
    whole = strict(data)
    expect("between values", data.replace(b'"nodes": ', b'"nodes"\x00:\x01 '), whole,
           ("control characters between", 2, None))


def broken_nodes():
    for name, key in (("host", "nodes"), ("device", "traceEvents")):
        data = source(name)
        where, whole = places(data, key), strict(data)
        for victims in ([0], [7], [len(where) - 1], [3, 4, 5], [0, 1, 20, len(where) - 1]):
            for damage in (b'"value"', b']', b'"x": [1}'):
                bad = data
                for v in reversed(victims):
                    end = where[v][1] - 1
                    bad = bad[:end] + b", " + damage + bad[end:]
                left = [n for i, n in enumerate(whole[key]) if i not in victims]
                want = {**whole, key: left}
                if damage == b"]" and len(where) - 1 in victims:  # the list's end is unknown
                    want = {k: v for k, v in want.items() if k != "finish_ts" and k != "traceName"}
                expect(f"{name} {victims} {damage}", bad, want,
                       ("unreadable values", len(victims), where[victims[0]][0]))
    whole = strict(source("host"))  # "name" first, as in the oldest traces
    whole["nodes"] = [dict(sorted(n.items(), reverse=True)) for n in whole["nodes"]]
    data = json.dumps(whole).encode()
    at = places(data, "nodes")[9][1] - 1
    whole["nodes"].pop(9)
    expect("other keys first", data[:at] + b", <[" + data[at:], whole,
           ("unreadable values", 1, None))
    data = source("device")
    whole = strict(data)
    pg = data.index(b'"distributedInfo": {') + 20
    del whole["distributedInfo"]
    expect("header", data[:pg] + b'1, ' + data[pg:], whole, ("unreadable values", 1, pg - 20))


def objects():
    data = source("host").rstrip()
    other = data.replace(b'"pid": 4242', b'"pid": 7', 1)
    where, one, two = places(data, "nodes"), strict(data), strict(other)
    check(one != two, "the test's pid")
    both, met = data + other, "JSON objects in one file"
    expect("last", both, two, (met, 2, len(data)))
    expect("last of three", both + b"\n" + data, one, (met, 3, len(data)))
    expect("first", both, one, (met, 2, len(data)), args=("--object", "0"))
    expect("second", both, two, (met, 2, len(data)), args=("--object", "1"))
    expect("all", both + data, {**one, "nodes": one["nodes"] * 3}, (met, 3, len(data)),
           args=("--object", "all"))
    cut = len(data) + where[50][0] + 10
    expect("second cut", both[:cut], one, (met, 2, len(data)))
    expect("all, second cut", both[:cut], {"schema": one["schema"],
                                           **{k: one[k] for k in ("pid", "time", "start_ts")},
                                           "nodes": one["nodes"] + two["nodes"][:50]},
           (met, 2, len(data)), ("truncated by the end of the file", 1, cut - 13),
           args=("--object", "all"))
    expect("cut, and another", data[:where[50][0] + 10] + b'\n' + other,
           {**two, **{k: one[k] for k in ("pid",)},
    "nodes": one["nodes"][:50] + two["nodes"]}, (None))
    end = where[-1][1] - 1
    expect("all, the first damaged", data[:end] + b", ]" + data[end:] + other,
           {**{k: v for k, v in one.items() if k != "finish_ts"}, **two,
    "pid": one["pid"], "nodes": one["nodes"][:-1] + two["nodes"]}, None, args=("--object", "all"))
    expect("another before, cut", b'{"log": [1]}' + data[:cut - len(data)],
           {k: one[k] for k in one if k not in ("nodes", "finish_ts")} | {
        "nodes": one["nodes"][:50]}, (met, 2, 12), ("truncated by the end of the file", 1, None))
    expect("a log around", b"\xef\xbb\xbf[W] began\n" + data + b"\nended", one,
           ("text before or after", 2, 0))
    code, _, said = repair(both, "--object", "2")
    check(code == 1 and "has 2 JSON objects" in said, said)
    for wrong in ("-1", "x", ""):
        code, _, said = repair(both, "--object", wrong)
        check(code == 2 and "--object must be last" in said, said)


def packed():
    data = source("host")
    whole, where = strict(data), places(data, "nodes")
    code, made, said = repair(gzip.compress(data))
    if code == 1 and "without zlib" in said:
        return
    check(code == 0 and made == data, f"gzip: {said}")
    end = where[-1][1]
    expect("gzip, damaged", gzip.compress(data[:end] + b"," + data[end:]), whole,
           ("extra commas", 1, end))
    code, made, said = repair(gzip.compress(data)[:-2000])
    got = strict(made or b"{}")
    check(code == 0 and got["nodes"] == whole["nodes"][:len(got["nodes"])]
          and len(got["nodes"]) > 10, f"gzip, cut: {said}")
    check(re.search(r"truncated by the end of the file: \d+,", said), said)
    code, made, said = repair(gzip.compress(data)[:-3])
    check(code == 0 and made == data and "truncated by the end of the file: 1," in said,
          f"gzip, all but its check: {said}")
    code, _, said = repair(gzip.compress(data)[:12])
    check(code == 1 and "gzip file that is damaged" in said, said)


def files():
    data = source("host")[:50000]
    own = os.path.join(folder.name, "files")
    os.mkdir(own)
    path, link, hard, out = (os.path.join(own, n) for n in ("in.json", "link", "hard", "out.json"))
    with open(path, "wb") as f:
        f.write(data)
    os.symlink(path, link)
    os.link(path, hard)

    def run(*args, stdin=None):
        return checks.run("repair", *args, input=stdin)

    for a, b in ((path, path), (path, link), (link, path), (path, hard),
                 (path, os.path.join(own, "../files/in.json"))):
        r = run("--input", a, "--output", b)
        check(r.returncode == 1 and b"never overwritten" in r.stderr,
              f"{a} {b}: {r.returncode} {r.stderr}")
    with open(path, "rb") as f:
        check(f.read() == data and os.path.islink(link), "the input was overwritten")
    r = run("--input", path, "--output", out)
    made = b""
    if r.returncode == 0:
        with open(out, "rb") as f:
            made = f.read()
    check(r.returncode == 0 and strict(made), f"{r.stderr}")
    r = run("--input", "-", "--output", "-", stdin=data)
    check(r.returncode == 0 and r.stdout == made and b"standard input: " in r.stderr, f"{r.stderr}")
    for text, words in ((b"", "is empty"), (b"hello", "has no JSON object"),
                        (b'{"nodes', "can be repaired"), (b"{]", "can be repaired")):
        code, _, said = repair(text)
        check(code == 1 and words in said and said.count("\n") == 1, f"{text}: {said}")
    r = run("--input", os.path.join(own, "none"), "--output", out)
    check(r.returncode == 1 and b"No such file" in r.stderr, f"{r.stderr}")
    r = run("--input", path)
    check(r.returncode == 2, f"{r.stderr}")


def random_damage():
    """Tests random damage: the output is JSON, or a single error message."""
    jobs = []
    for name in ("host", "device"):
        data = source(name)[:40000]
        for _ in range(40):
            bad = bytearray(data)
            for _ in range(random.choice((1, 3, 30))):
                at = random.randrange(len(bad))
                kind = random.randrange(4)
                if kind == 0:
                    del bad[at:at + random.choice((1, 2, 500))]
                elif kind == 1:
                    bad[at:at] = random.choice((b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":",
                                                b"\x00", b"NaN", b"\xff", b'{"nodes": [', b"}{"))
                elif kind == 2:
                    bad[at] = random.randrange(256)
                else:
                    bad[at:at] = bad[random.randrange(len(bad)):][:300]
            jobs.append((bytes(bad), random.choice(("last", "all", "0"))))

    def one(job):
        code, made, said = repair(job[0], "--object", job[1])
        if code != 0:
            return check(code == 1 and said.count("\n") == 1, f"random damage: {code} {said}")
        try:
            strict(made)
        except (ValueError, RecursionError) as e:
            check(False, f"random damage: {e}")
        return None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, jobs))


def hard_cases_end():
    """Tests damage at every step, or nested a million deep. With quadratic time, these cases would
    take hours."""
    n = 1000000
    for text in (b'{"nodes": [' + b'{"id":[' * n, b'{"nodes": [' + b'{"id": 1, <}, ' * n,
                 b'{"nodes": [' + b'{"x": 1, <}, ' * n,
                 b'{"a":' * n, b"{" * n, b'{"nodes": [' * n, b"{}" * n,
                 b'{"nodes": [' + b'"a" ' * n, b'{"nodes": [' + b'{"id": "' * n,
                 b'{"nodes": [{"id": ' + b"[" * 1000000 + b"]" * 1000000 + b"}]}"):
        code, made, said = repair(text)
        check(code in (0, 1), f"{text[:30]}: {said}")
    check(made == text, f"a million deep: {said}")


CASES = (undamaged, truncation, commas, strings, values, broken_nodes, objects, packed, files,
         random_damage, hard_cases_end)
for case in CASES:
    if len(sys.argv) < 2 or sys.argv[1] in case.__name__:
        before = len(failures)
        case()
        if len(failures) != before:
            print("FAILED", case.__name__)
folder.cleanup()
finish()
