"""Tests how programs load OpenBLAS, with substitutes of the library: one that chooses narrow
kernels, as OpenBLAS does on processors that it does not know, and one that lacks a function."""
from checks import *  # noqa: F403

SUBSTITUTE = """
#include <stdio.h>
#include <stdlib.h>
void openblas_set_num_threads(int n) { (void)n; }
int openblas_get_num_threads(void) { return 1; }
char *openblas_get_config(void) { return "OpenBLAS 9.8.7 substitute"; }
static char core[32] = "Prescott";
__attribute__((constructor)) static void choose(void) {
    const char *chosen = getenv("OPENBLAS_CORETYPE");
    if (chosen) snprintf(core, sizeof core, "%s", chosen);
}
char *openblas_get_corename(void) { return core; }
void cblas_sgemm(void) {}
"""


def device(*more_source, **env):
    """Returns the line of the summary that describes matrix products, and the warnings."""
    with open("blas.c", "w", encoding="utf-8") as f:
        f.write("\n".join([SUBSTITUTE, *more_source]))
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-Wl,-soname,libopenblas.so.0", "blas.c", "-o",
                    "libopenblas.so.0"], check=True)
    done = run("inference", "--num_output_tokens", "1",
               env={**os.environ, "LD_LIBRARY_PATH": os.getcwd(), **env})
    check(done.returncode == 0, done.stderr.decode())
    lines = [x for x in done.stdout.decode().split("\n") if x.startswith("device:")]
    return lines[0] + done.stderr.decode()


if "OpenBLAS" not in run("inference", "--num_output_tokens", "1").stdout.decode():
    skip("built without OpenBLAS")
enter_folder()
os.symlink(os.path.join(SOURCE, "examples"), "examples")
with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
    wide = {"avx2", "fma"} <= set(cpuinfo.read().split())
whole = "void cblas_sgemv(void) {}"
said = device(whole)
if "9.8.7" not in said:
    skip("OpenBLAS is linked statically")
check(("Prescott kernels" in said) != wide, said)
check("warning" not in said, said)
said = device(whole, OPENBLAS_CORETYPE="Nehalem")
check("Nehalem kernels" in said and "warning: OPENBLAS_CORETYPE=Nehalem" in said, said)
said = device()
check("plain loops (libopenblas.so.0 has no cblas_sgemv)" in said, said)
finish()
