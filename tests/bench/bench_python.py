"""./dev bench python: how long the Python package takes to read all columns of a trace, beside
copying as many bytes, and for its first call in a new process. Exits with 1 if 500,000 nodes take
more than 0.1 s."""
import os
import statistics
import subprocess
import sys
import time

PACKAGE = os.path.join(os.environ["SYN_BUILD"], "python")
sys.path.insert(0, PACKAGE)
try:
    import numpy
    import syntorch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT_S, NODES, ROUNDS = 0.1, 500000, 7
trace = syntorch.trace("gpt3-175b", phase="generate", tp=8, ranks=[0], num_input_tokens=64,
                       num_output_tokens=200, hw="h100")


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def read():
    trace._cache.clear()
    return trace.arrays()


reads, copies, tables = [], [], []
for _ in range(ROUNDS):
    seconds, columns = timed(read)
    reads.append(seconds)
    copies.append(timed(lambda: [numpy.array(values) for values in columns.values()])[0])
    tables.append(timed(trace.ops)[0])
n = len(trace)
read_s, copy_s, table_s = (statistics.median(times) * NODES / n
                           for times in (reads, copies, tables))
code = "import syntorch; syntorch.trace('gpt2', tp=2, hw='h100').ops()"
first = statistics.median(
    timed(lambda: subprocess.run([sys.executable, "-c", code], check=True,
                                 env={**os.environ, "PYTHONPATH": PACKAGE}))[0] for _ in range(5))
print(f"{n} nodes with {len(columns)} columns; for {NODES} nodes:")
print(f"  arrays()          {1e3 * read_s:7.1f} ms")
print(f"  copying the bytes {1e3 * copy_s:7.1f} ms")
print(f"  ops()             {1e3 * table_s:7.1f} ms")
print(f"import, GPT-2 on two ranks and a table, in a new process: {1e3 * first:.0f} ms")
sys.exit(0 if read_s <= LIMIT_S else f"reading takes {read_s:.3f} s, more than {LIMIT_S} s")
