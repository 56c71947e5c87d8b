"""Tests `syntorch doctor`: libraries that the build lacks are off, programs that are not in the
PATH are missing, and variables that force slower kernels are named."""
import json
import re

from checks import *  # noqa: F403

LIBRARIES = {"MPI": "MPI", "protobuf-c": "PROTOBUF_C", "PCRE2": "PCRE2", "utf8proc": "UTF8PROC",
             "zlib": "ZLIB", "cgraph": "CGRAPH", "OpenBLAS": "OPENBLAS"}


def doctor(**env):
    """Returns the checks by name, as --json prints them. The report has the same."""
    env = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
    done, text = run("doctor", "--json", env=env), run("doctor", env=env).stdout.decode()
    check(done.returncode == 0, done.stderr.decode())
    said = json.loads(done.stdout)
    check(list(said)[0] == "schema" and said["schema"] == "syntorch.doctor/1" and said["ok"],
          str(said))
    rows = [line.split() for line in text.split("\n")[:-1]]
    check([row[0] for row in rows] == [x["state"] for x in said["checks"]], text)
    for x in said["checks"]:
        check(x["state"] == "ok" or x["effect"], f"{x} has no effect")
        check(not x["package"] or f"apt install {x['package']}" in text, text)
    return {x["name"]: x for x in said["checks"]}


enter_folder()
os.symlink(os.path.join(SOURCE, "examples"), "examples")
usual = {"OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None, "SYNTORCH_SIMD": None}
plain = doctor(**usual)
with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
    options = dict(re.findall(r"^SYN_(\w+):STRING=(.*)$", cache.read(), re.M))
for name, option in LIBRARIES.items():
    want = {"OFF": ["off"], "ON": ["ok"], "AUTO": ["ok", "off"]}[options[option]]
    check(plain[name]["state"] in want, f"{name}: {plain[name]}")
check(plain["cpu"]["state"] == "ok" and plain["data files"]["state"] == "ok", str(plain))

bare = doctor(**usual, PATH="/nowhere")
check(bare["neato"]["state"] == "missing" and bare["neato"]["package"] == "graphviz", str(bare))
if "avx" in plain["cpu"]["detail"]:
    slow = doctor(SYNTORCH_SIMD="scalar")
    check(slow["cpu"]["state"] == "slow" and "SYNTORCH_SIMD" in slow["cpu"]["effect"], str(slow))
if plain["OpenBLAS"]["state"] == "ok":
    slow = doctor(OPENBLAS_CORETYPE="Prescott")
    check(slow["OpenBLAS"]["state"] == "slow" and "Prescott" in slow["OpenBLAS"]["detail"],
          str(slow))
check(run("doctor", "now").returncode == 2, "doctor accepts an argument")
finish()
