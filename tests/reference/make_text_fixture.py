#!/usr/bin/env python3
"""Makes text_workloads.json: text workloads, with the SHA-256 of each file that MLCommons Chakra's
`chakra_converter Text` writes for them.

    make_text_fixture.py CHAKRA     a checkout of mlcommons/chakra (made with 21585d8); needs protoc
                                    and protobuf for Python
"""
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))


def layer(name, fwd, ig, wg, times=(5, 7, 9), size=1048576):
    parts = [f"{t}\t{c}\t{0 if c == 'NONE' else size}" for t, c in zip(times, (fwd, ig, wg))]
    return "\t".join([name, "-1", *parts, "3"])


MIXED = [layer("embed", "ALLTOALL", "ALLTOALL", "ALLREDUCE", (1, 2, 3)),
         layer("fc1", "ALLGATHER", "REDUCESCATTER", "ALLREDUCE", (10, 0, 30), 128),
         layer("fc2", "ALLREDUCE", "ALLREDUCE", "NONE"),
         layer("fc3", "NONE", "NONE", "ALLREDUCE"),
         layer("Schicht_größer", "ALLTOALL", "ALLGATHER", "REDUCESCATTER", (2**40, 1, 1), 2**40)]


def text(kind, layers, end="\n", told=None):
    return end.join([kind, str(told or len(layers)), *layers]) + end


CASES = {kind.lower(): (text(kind, MIXED), 3, 2)
         for kind in ("MICRO", "DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA",
                      "HYBRID_DLRM 2", "HYBRID_DLRM_ENHANCED 3")}
CASES["one layer"] = (text("HYBRID_MODEL_DATA", MIXED[1:2]), 2, 3)
CASES["one NPU"] = (text("DATA", MIXED), 1, 1)
CASES["carriage returns"] = (text("MODEL", MIXED[:2], "\r\n"), 2, 1)
CASES["no end of line"] = (text("DATA", MIXED[:2])[:-1].replace("\t", "  "), 2, 1)
CASES["wrong count"] = (text("HYBRID_DATA_MODEL extra", [line + " more" for line in MIXED[:3]],
                             told=9), 2, 2)
CASES["unknown collective"] = (text("MICRO", [layer("x", "NONE", "NONE", "BROADCAST", size=-1)]), 2,
                               1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "chakra")
        for part in ("src", "schema"):
            shutil.copytree(os.path.join(sys.argv[1], part), os.path.join(package, part))
        schema = os.path.join(package, "schema", "protobuf")
        subprocess.run(["protoc", "-I", schema, "--python_out", schema, "et_def.proto"], check=True)
        sys.path.insert(0, folder)
        converter = importlib.import_module("chakra.src.converter.text_converter").TextConverter
        out = []
        for name, (content, npus, passes) in CASES.items():
            source, prefix = os.path.join(folder, "w.txt"), os.path.join(folder, "w")
            with open(source, "w", newline="") as f:
                f.write(content)
            converter(source, prefix, npus, passes).convert()
            sums = [hashlib.sha256(open(f"{prefix}.{i}.et", "rb").read()).hexdigest()
                    for i in range(npus)]
            out.append({"name": name, "text": content, "npus": npus, "passes": passes,
                        "sha256": sums})
    with open(os.path.join(here, "text_workloads.json"), "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


main()
