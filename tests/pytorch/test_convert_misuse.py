"""Tests mistakes of users with `syntorch convert pytorch` and related commands: outputs that are
also inputs, traces of different runs, options that exclude each other, files in other encodings.
The input is tests/reference/pytorch."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SYNTORCH = os.path.join(os.environ["SYN_BUILD"], "syntorch")
FIXTURE = os.path.join(os.environ["SYN_SOURCE"], "tests", "reference", "pytorch")


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for name in ("host", "device"):
            shutil.copy(os.path.join(FIXTURE, name + ".0.json"), self.path(name + ".json"))
        self.host, self.device = (json.load(open(self.path(n + ".json")))
                                  for n in ("host", "device"))

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def run_tool(self, *args):
        return subprocess.run([SYNTORCH, *args], cwd=self.folder.name, capture_output=True,
                              timeout=500)

    def convert(self, *args, host="host.json", device="device.json"):
        run = self.run_tool("convert", "pytorch", "--host", host, "--device", device, "--output",
                            "t.0.et", "--json", *args)
        self.assertEqual(run.returncode, 0, run.stderr)
        report = json.loads(run.stdout)
        return report, {a["kind"]: a["count"] for a in report["anomalies"]}

    def nodes(self):
        self.assertEqual(self.run_tool("json", "--input", "t.0.et", "--output",
                                       "t.json").returncode, 0)
        return json.load(open(self.path("t.json")))["ranks"][0]["nodes"]

    def refused(self, run, sentence, code=1):
        self.assertEqual(run.returncode, code, run.stdout)
        self.assertIn(sentence, run.stderr.decode())


class Misuse(Case):
    def test_nothing_was_recorded(self):
        """The advice in the message depends on the given files."""
        root = [n for n in self.host["nodes"] if n["name"].endswith("|process]")]
        self.write("none.json", {**self.host, "nodes": root})
        self.write("events.json", {"traceEvents": []})
        for files, advice in ((("--host", "none.json"), "together with its device trace"),
                              (("--host", "none.json", "--device", "events.json"),
                               "steps in which the profiler was active")):
            run = self.run_tool("convert", "pytorch", *files, "--output", "t.0.et",
                                "--profile", "astra-sim")
            self.refused(run, advice)
            self.assertFalse(os.path.exists(self.path("t.0.et")))

    def test_inputs_are_not_overwritten(self):
        pair = ("--host", "host.json", "--device", "device.json")
        os.symlink(self.path("host.json"), self.path("link.json"))
        for args in (("convert", "pytorch", *pair, "--output", "host.json"),
                     ("convert", "pytorch", *pair, "--output", "link.json"),
                     ("convert", "pytorch", *pair, "--output", "./device.json"),
                     ("link", *pair, "--output", "device.json"),
                     ("convert", "pytorch", *pair, "--compat", "--output", "host.json"),
                     ("link", *pair, "--compat", "--output", "host.json"),
                     ("convert", "pytorch", "--linked", "host.json", "--output", "host.json"),
                     ("json", "--input", "t.0.et", "--output", "t.0.et")):
            self.convert()
            before = {n: open(self.path(n), "rb").read()
                      for n in ("host.json", "device.json", "t.0.et")}
            self.refused(self.run_tool(*args), "is an input, which is never overwritten")
            self.assertEqual(before, {n: open(self.path(n), "rb").read() for n in before}, args)

    def test_standard_output(self):
        self.convert()
        run = self.run_tool("convert", "pytorch", "--host", "host.json", "--device", "device.json",
                            "--output", "-")
        self.assertEqual(run.stdout, open(self.path("t.0.et"), "rb").read())
        self.assertIn(b"in -> out", run.stderr)
        self.refused(self.run_tool("convert", "pytorch", "--host", "host.json", "--output", "-",
                                   "--json"), "standard output", 2)

    def test_compat_stops_where_the_reference_does(self):
        text = open(self.path("host.json"), "rb").read().rstrip()
        at = text.rindex(b"]")
        for damaged in (text[:at] + b"," + text[at:], text[:len(text) // 2], text + text):
            self.write("damaged.json", damaged)
            self.refused(self.run_tool("convert", "pytorch", "--compat", "--host", "damaged.json",
                                       "--device", "device.json",
                                       "--output", "c.et"), "JSONDecodeError")
            self.assertFalse(os.path.exists(self.path("c.et")))
        for option in (("--edges", "none"), ("--object", "0"), ("--dup_ids", "last"), ("--strict",),
                       ("--rank", "1"),
                       ("--thread_gap", "5"), ("--replay_check",), ("--profile", "astra-sim")):
            self.refused(self.run_tool("convert", "pytorch", "--compat", "--host", "host.json",
                                       "--output", "c.et", *option), "--compat", 2)
        self.refused(self.run_tool("convert", "pytorch", "--host", "host.json", "--output", "c.et",
                                   "--profile", "astra-sim", "--edges", "none"), "--edges", 2)

    def test_utf16(self):
        for codec in ("utf-16-le", "utf-16-be"):
            text = "\ufeff" + open(self.path("host.json")).read()
            self.write("wide.json", text.encode(codec))
            self.refused(self.run_tool("convert", "pytorch", "--host", "wide.json", "--output",
                                       "w.et"), "UTF-16")

    def test_groups_of_ranks_one_by_one(self):
        self.convert()
        self.write("t.comm_group.json", {"1": [0, 5]})
        run = self.run_tool("convert", "pytorch", "--host", "host.json", "--device", "device.json",
                            "--output", "t.0.et")
        self.assertIn(b"as a set", run.stdout)
        run = self.run_tool("convert", "pytorch", "--host", "host.json", "--device", "device.json",
                            "--output", "t.0.et")
        self.assertNotIn(b"as a set", run.stdout)


class OtherRuns(Case):
    def launchers(self):
        names = {n["id"]: n["name"] for n in self.nodes()}
        return sorted((n["name"], names[n["ctrlDeps"][0]]) for n in self.nodes() if "ctrlDeps" in n
                      and
                      any(a["name"] == "launch_deps" for a in n["attr"]))

    def test_ids_of_another_run(self):
        """Every record function id belongs to another op, so names and their order must match the
        pairs."""
        self.convert()
        wanted = self.launchers()
        self.assertTrue(wanted)
        for node in self.host["nodes"]:
            for a in node["attrs"]:
                if a["name"] == "rf_id" and a["value"] > 0:
                    a["value"] += 3
        self.write("shifted.json", self.host)
        report, anomalies = self.convert(host="shifted.json")
        self.assertIn("other-run", anomalies)
        self.assertEqual(report["ranks"][0]["matches"]["host_rf_id"], 0)
        self.assertEqual(self.launchers(), wanted)

    def test_escaped_names(self):
        """One file escapes characters that the other writes raw. The names must still be equal."""
        node = next(n for n in self.host["nodes"] if n["name"].startswith("aten::"))
        rf_id = next(a["value"] for a in node["attrs"] if a["name"] == "rf_id")
        event = next(e for e in self.device["traceEvents"]
                     if e.get("args", {}).get("Record function id") == rf_id)
        node["name"] = event["name"] = "op \u00e9 \U0001F600"
        self.write("host.json", json.dumps(self.host).encode())
        self.write("device.json", json.dumps(self.device, ensure_ascii=False).encode())
        report, anomalies = self.convert()
        self.assertEqual(anomalies, {})
        self.assertTrue(any(n["name"] == node["name"] for n in self.nodes()))

    def test_launches_outside_of_known_ops(self):
        """The host trace lost all ops but the first. Kernels are linked by time, and a message says
        so."""
        keep = [n for n in self.host["nodes"] if n["name"].startswith("[pytorch")]
        ops = sorted((n for n in self.host["nodes"] if n not in keep), key=lambda n: n["id"])
        self.host["nodes"] = keep + ops[:1]
        self.write("host.json", self.host)
        report, anomalies = self.convert()
        matches = report["ranks"][0]["matches"]
        self.assertEqual(matches["device_time"] + matches["device_none"],
                         anomalies.get("time-only", 0) + anomalies.get("orphan", 0))
        self.assertGreater(anomalies["time-only"], 0)

    def test_bad_times(self):
        kernels = [e for e in self.device["traceEvents"] if e.get("cat") == "kernel"]
        kernels[0]["dur"], kernels[1]["dur"] = -5, 1e300
        self.write("device.json", self.device)
        _, anomalies = self.convert()
        self.assertEqual(anomalies.get("bad-time"), 2)


class Parents(Case):
    def test_communication_is_not_multiplied(self):
        """Without callers, times show which ops belong to one call: c10d, record_param_comms and
        the kernel are one communication."""
        wanted = self.convert()[0]["ranks"][0]["communication"]
        for node in self.host["nodes"]:
            if not node["name"].startswith("[pytorch"):
                node["ctrl_deps"] = 10**6
        self.write("orphans.json", self.host)
        report, anomalies = self.convert(host="orphans.json")
        self.assertIn("missing-parent", anomalies)
        self.assertEqual(report["ranks"][0]["communication"], wanted)


class Timing(Case):
    """What is communicated, and in which order, does not depend on the source of the times
    (user-needs, behaviour j)."""

    def calls(self):
        kinds = ("comm_type", "comm_size", "pg_name", "comm_src", "comm_dst", "comm_tag")
        value = lambda a: next(v for k, v in a.items() if k != "name")
        return [(n["name"], n["type"], [(a["name"], value(a)) for a in n["attr"]
                                        if a["name"] in kinds]) for n in self.nodes()
                if n["type"].startswith("COMM_")]

    def test_pytorch(self):
        self.convert()
        wanted = self.calls()
        self.assertTrue(wanted)
        for slower in (0.5, 3):
            for event in self.device["traceEvents"]:
                for key in ("ts", "dur"):
                    if key in event:
                        event[key] *= slower
            self.write("device.json", self.device)
            self.convert()
            self.assertEqual(self.calls(), wanted)

    def test_inference(self):
        inference = os.path.join(os.environ["SYN_BUILD"], "inference")
        config = os.path.join(os.environ["SYN_SOURCE"], "examples", "configs", "gpt3-tiny.json")
        found = []
        for args in ([], ["--device", "meta"], ["--device", "meta", "--hw", "a100-80g"],
                     ["--device", "meta", "--hw", "cpu"]):
            subprocess.run([inference, "--tp", "2", "--model_config", config, "--num_output_tokens",
                            "3", "--visualize_trace", "--out_dir",
                            "out", "--quiet", *args], cwd=self.folder.name, check=True,
                           capture_output=True)
            shutil.copy(self.path("out/trace.0.et"), self.path("t.0.et"))
            found.append(self.calls())
        self.assertTrue(found[0])
        for other in found[1:]:
            self.assertEqual(other, found[0])


class Delays(Case):
    def test_a_delay_is_no_op(self):
        """Pictures and sums recognize an op by its attribute, so the delay before a matrix product
        must not be counted as a matrix product."""
        self.convert("--profile", "astra-sim")
        delays = [{a["name"] for a in n["attr"]} for n in self.nodes() if n["name"] == "host delay"]
        self.assertTrue(any("before" in names for names in delays))
        self.assertFalse(any("op" in names for names in delays))


class Objects(Case):
    def test_ids_count_anew_in_each(self):
        """One file has the objects of two observers. The caller of every node is in its own
        object."""
        second = json.loads(json.dumps(self.host))
        for node in second["nodes"]:
            if not node["name"].startswith("[pytorch"):
                node["name"] = "second " + node["name"]
        self.write("two.json", json.dumps(self.host).encode() + json.dumps(second).encode())
        self.convert("--object", "all", host="two.json")
        nodes = {n["id"]: n for n in self.nodes()}
        host = [n for n in nodes.values() if any(a["name"] == "is_cpu_op" and a["boolVal"]
                                                 for a in n["attr"])]
        self.assertEqual(len(host), 2 * len(self.host["nodes"]))
        for n in host:
            for parent in (nodes[p] for p in n.get("ctrlDeps", [])):
                if not parent["name"].startswith("[pytorch"):
                    self.assertEqual(parent["name"].startswith("second "),
                                     n["name"].startswith("second "), n["name"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"], warnings="ignore")
