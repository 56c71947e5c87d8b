"""Builds wheels of the Python package (PEP 517). It first builds the C library with ./dev, which
takes a minute or more if nothing is built yet, and packs build/python. It needs no other package,
so that nothing is downloaded, whichever Python calls it."""
import base64
import hashlib
import importlib.machinery
import os
import subprocess
import sys
import sysconfig
import zipfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)
package = os.path.join(root, "build", "python", "syntorch")

METADATA = """Metadata-Version: 2.1
Name: syntorch
Version: {version}
Summary: Records transformer runs as graphs and Chakra traces, also on machines you do not own
Requires-Python: >=3.8
{requires}Provides-Extra: notebook
Requires-Dist: pandas; extra == "notebook"
Requires-Dist: networkx; extra == "notebook"
Description-Content-Type: text/markdown

{description}"""
ENTRY_POINTS = """[console_scripts]
syntorch = syntorch.__main__:main
"""
WHEEL = """Wheel-Version: 1.0
Generator: build_syntorch
Root-Is-Purelib: false
Tag: {tag}
"""


def _read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def _version():
    for line in _read(root, "CMakeLists.txt").decode().splitlines():
        if line.startswith("project(syntorch VERSION "):
            return line.split()[2]
    raise RuntimeError("CMakeLists.txt has no version")


def _files():
    """The files of the built package, as (path, name in the wheel)."""
    for folder, _, names in os.walk(package):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if "__pycache__" not in path:
                yield path, "syntorch/" + os.path.relpath(path, package).replace(os.sep, "/")


def _is_backend(name):
    """Whether a file is cffi's run-time module, and whether this Python can load it."""
    base = name.rsplit("/", 1)[-1]
    start = "_cffi_backend"
    return base.startswith(start), base[len(start):] in importlib.machinery.EXTENSION_SUFFIXES


def _write(path, tag, version, files, requires):
    info = f"syntorch-{version}.dist-info"
    records = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name, data, mode=0o644):
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{name},sha256={digest},{len(data)}\n")
        for source, name in files:
            add(name, _read(source), 0o755 if os.access(source, os.X_OK) else 0o644)
        add(f"{info}/METADATA", METADATA.format(version=version, requires=requires,
                                                description=_read(here, "README.md").decode()
                                                ).encode())
        add(f"{info}/WHEEL", WHEEL.format(tag=tag).encode())
        add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
        records.append(f"{info}/RECORD,,\n")
        wheel.writestr(f"{info}/RECORD", "".join(records))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("PYTHON")}
    built = subprocess.run([os.path.join(root, "dev"), "python"], env=environment,
                           stdout=sys.stderr)
    if built.returncode != 0:
        sys.exit("the C library was not built (see above); ./dev setup installs what it needs")
    files = list(_files())
    bundled = any(all(_is_backend(name)) for _, name in files)
    files = [(path, name) for path, name in files
             if not _is_backend(name)[0] or _is_backend(name)[1]]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{python}-{python}-{platform}" if bundled else f"py3-none-{platform}"
    name = f"syntorch-{_version()}-{tag}.whl"
    _write(os.path.join(wheel_directory, name), tag, _version(), files,
           "" if bundled else "Requires-Dist: cffi\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("there is no source distribution of the Python package, because it is built "
                       "with the C library; build a wheel")


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
