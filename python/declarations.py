"""Writes the module through which cffi calls the library:

    declarations.py COMPILER INCLUDES HEADER OUT

The declarations come from the installed headers in INCLUDES and from HEADER, which the preprocessor
expands, so there is no second list of structs and functions. OUT is a Python module that cffi reads
without a compiler."""
import re
import subprocess
import sys

import cffi


def preprocess(compiler, includes, header, *options):
    return subprocess.run([compiler, "-E", "-I", includes, "-x", "c", *options, "-"], check=True,
                          input=f'#include <syntorch/syntorch.h>\n#include "{header}"\n',
                          capture_output=True, text=True).stdout


def of_ours(text, includes, header):
    """The lines of our headers alone, without those of the system's."""
    kept, ours = [], False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = marker.group(1).startswith((includes, header))
        elif ours and not line.startswith("#"):
            kept.append(line)
    return "\n".join(kept)


def without_bodies(text):
    """Removes inline functions, which a library does not export."""
    out = []
    at = 0
    for match in re.finditer(r"static inline[^{;]*\{", text):
        if match.start() < at:
            continue
        out.append(text[at:match.start()])
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
    return "".join(out) + text[at:]


def constants(text):
    """Macros of our headers that are integers: #define SYN_MAX_RANK 6."""
    found = re.findall(r"^#define (SYN_[A-Z0-9_]+) (\d+)[uU]?$", text, re.M)
    return "".join(f"#define {name} {value}\n" for name, value in sorted(found))


def declarations(compiler, includes, header):
    text = without_bodies(of_ours(preprocess(compiler, includes, header), includes, header))
    text = re.sub(r"_Pragma\(\"[^\"]*\"\)|__attribute__\s*\(\([^()]*(\([^()]*\))?[^()]*\)\)", "",
                  text)
    return constants(preprocess(compiler, includes, header, "-dM")) + text


def main():
    compiler, includes, header, out = sys.argv[1:]
    ffi = cffi.FFI()
    ffi.set_source("_declarations", None)
    ffi.cdef(declarations(compiler, includes, header))
    ffi.emit_python_code(out)


if __name__ == "__main__":
    main()
