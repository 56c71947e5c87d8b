"""Tests pipes and inputs that grow when they are read. Commands do not wait for a pipe that nobody
writes to, gzip input unpacks to a limited size, and deep nesting does not enlarge the output out of
proportion."""
import gzip
import socket
import threading

from tool_runs import *  # noqa: F403


def test_a_pipe_without_a_writer_is_not_waited_for():
    with Folder() as f:
        traced(f)
        os.mkdir(f / "all")
        host_and_device(f, "all/p")
        for name in ("pipe", "all/q_host.json", "out/trace.2.et"):
            os.mkfifo(f / name)
        commands = [["stat", "pipe"], ["validate", "pipe"], ["stat", "out/trace"],
                    ["export", "--input", "pipe", "--output", "x.svg"],
                    ["convert", "pytorch", "--host", "pipe", "--output", "x.et"],
                    ["repair", "--input", "pipe", "--output", "x.json"],
                    ["convert", "text", "--input", "pipe", "--output", "x", "--num_npus", 2],
                    ["convert-all", "all"]]
        started = [subprocess.Popen([SYNTORCH, *map(str, c)], cwd=f.path, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for c in commands]
        for command, p in zip(commands, started):
            out, err = p.communicate(timeout=HANGS)
            text = (out + err).decode()
            assert p.returncode == 1 and "a pipe without a writer" in text, \
                f"{command}: {p.returncode} {text}"
        assert "ok" in text, text  # other traces in the folder are converted


def test_a_slow_writer_is_waited_for():
    with Folder() as f:
        traced(f)
        os.mkfifo(f / "pipe")
        want = expect_ok(run(f, "stat", "out/trace.0.et"))
        for command in ("cat out/trace.0.et > pipe",
                        "exec 3> pipe; sleep 6; cat out/trace.0.et >&3",
                        "sleep 2; cat out/trace.0.et > pipe"):
            with subprocess.Popen(["sh", "-c", command], cwd=f.path):
                got = expect_ok(run(f, "stat", "pipe"))
            assert got.split("schema")[0].split("\n", 2)[2:] \
                == want.split("schema")[0].split("\n", 2)[2:], got


def test_standard_input_may_be_a_socket():
    with Folder() as f:
        traced(f)
        with open(f / "out/trace.0.et", "rb") as file:
            trace = file.read()
        want = expect_ok(run(f, "stat", "-", "--json", input=trace))
        for blocking in (True, False):
            ours, theirs = socket.socketpair()
            theirs.setblocking(blocking)
            with ours, theirs:
                sender = threading.Thread(
                    target=lambda: (ours.sendall(trace), ours.shutdown(socket.SHUT_WR)))
                sender.start()
                got = expect_ok(run(f, "stat", "-", "--json", stdin=theirs))
                sender.join()
            assert got == want, got


def packed(folder, name, text):
    write_bytes(folder, name, gzip.compress(text, 9))
    return len(text) / os.path.getsize(folder / name)


def without_zlib(folder):
    packed(folder, "small.gz", b"{}")
    return b"built without zlib" in run(folder, "repair", "--input", "small.gz", "--output",
                                        "x").stderr


def test_gzip_unpacks_to_what_a_recording_may_hold():
    with Folder() as f:
        if without_zlib(f):
            raise Skip("built without zlib")
        host_and_device(f, "p")
        with open(f / "p_host.json", "rb") as file:
            host = file.read()
        assert packed(f, "bomb.json", host + b" " * (24 << 20)) > 900
        for args in (["convert", "pytorch", "--host", "bomb.json", "--output", "x.et"],
                     ["convert", "pytorch", "--host", "p_host.json", "--device", "bomb.json",
                      "--output", "x.et"],
                     ["convert", "pytorch", "--host", "bomb.json", "--output", "x.et", "--compat"],
                     ["link", "--host", "bomb.json", "--device", "p_device.json", "--output",
                      "x.json"],
                     ["repair", "--input", "bomb.json", "--output", "x.json"],
                     ["stat", "bomb.json"], ["validate", "bomb.json"],
                     ["json", "--input", "bomb.json", "--output", "x"]):
            r = run(f, *args)
            assert r.returncode == 1 and b"of gzip unpack to more than" in r.stderr \
                and b"--max_unpacked_mib" in r.stderr, text_of(r)
            r = run(f, *args, "--max_unpacked_mib", 25)  # enough to unpack all of it
            assert b"unpack to more" not in r.stderr, text_of(r)
        expect_ok(run(f, "convert", "pytorch", "--host", "bomb.json", "--output", "x.et",
                      "--max_unpacked_mib", 25))
        os.mkdir(f / "all")
        os.rename(f / "bomb.json", f / "all/b_host.json.gz")
        assert run(f, "convert-all", "all").returncode == 1
        expect_ok(run(f, "convert-all", "all", "--max-unpacked-mib", 25))


def test_the_densest_recordings_are_read():
    """A trace of one op in a loop, pretty-printed, is read although gzip compresses it more than
    any real PyTorch trace (at most 52:1)."""
    with Folder() as f:
        if without_zlib(f):
            raise Skip("built without zlib")
        host_and_device(f, "p")
        trace = load_json(f / "p_host.json")
        op = trace["nodes"][1]
        for i in range(3, 6000):
            attrs = [dict(op["attrs"][0], value=i), *op["attrs"][1:]]
            io = {"values": [[7, 8, 0, 64, 4, "cpu"]] * 4, "shapes": [[64, 64]] * 4,
                  "types": ["Tensor(float)"] * 4, "strides": [[64, 1]] * 4}
            trace["nodes"].append(dict(op, id=i, attrs=attrs, inputs=io, outputs=io))
        ratio = packed(f, "loop.json", json.dumps(trace, indent=4).encode())
        assert 100 < ratio < 200, ratio
        expect_ok(run(f, "convert", "pytorch", "--host", "loop.json", "--output", "x.et"))


def test_deep_nesting_is_linked_in_proportion():
    with Folder() as f:
        host_and_device(f, "p")
        for depth in (1000, 50000):
            for nested in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth,
                           "[1," * depth + "1" + "]" * depth):
                trace = load_json(f / "p_host.json")
                trace["nodes"][1]["inputs"] = "HERE"
                host = json.dumps(trace).replace('"HERE"', nested)
                f.write("deep.json", host)
                expect_ok(run(f, "link", "--host", "deep.json", "--device", "p_device.json",
                              "--output", "linked.json"))
                size = os.path.getsize(f / "linked.json")
                assert size < 8 * len(host) + 100000, f"{len(host)} bytes became {size}"


main(globals())
