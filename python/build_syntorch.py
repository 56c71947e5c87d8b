"""Builds wheels of the Python package (PEP 517). It first builds the C library with ./dev, which
takes a minute if nothing is built yet, and packs build/python. Nothing is downloaded on Debian 12:
setuptools, wheel and cffi are its packages."""
import glob
import importlib.machinery
import os
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)
package = os.path.join(root, "build", "python", "syntorch")

# pip hides the system's packages from builds in a virtual environment.
debian = "/usr/lib/python3/dist-packages"


def _has_setuptools():
    try:
        import setuptools.build_meta  # noqa: F401
        import wheel  # noqa: F401
        return True
    except ImportError:
        return False


def _find_setuptools():
    if not _has_setuptools() and os.path.isdir(debian):
        sys.path.append(debian)
    return _has_setuptools()


def get_requires_for_build_wheel(config_settings=None):
    return [] if _find_setuptools() else ["setuptools", "wheel"]


def _fits(path):
    """Whether this Python can load an extension module."""
    name = os.path.basename(path)
    return name[len("_cffi_backend"):] in importlib.machinery.EXTENSION_SUFFIXES


def _version():
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("project(syntorch VERSION "):
                return line.split()[2]
    raise RuntimeError("CMakeLists.txt has no version")


setup = """from setuptools import setup
from setuptools.dist import Distribution


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(version={version!r}, install_requires={requires!r}, packages=["syntorch"],
      package_data={{"syntorch": {files!r}}}, distclass=Binary, zip_safe=False)
"""


def _files(folder):
    return [os.path.relpath(os.path.join(at, name), folder)
            for at, _, names in os.walk(folder) for name in names if "__pycache__" not in at]


def _project(folder):
    """Writes a setuptools project with the built package."""
    inside = os.path.join(folder, "syntorch")
    shutil.copytree(package, inside, ignore=shutil.ignore_patterns("__pycache__"))
    backends = glob.glob(os.path.join(inside, "_cffi_backend*"))
    requires = [] if any(map(_fits, backends)) else ["cffi"]
    for backend in backends:
        if not _fits(backend):
            os.unlink(backend)
    with open(os.path.join(folder, "setup.py"), "w", encoding="utf-8") as file:
        file.write(setup.format(version=_version(), requires=requires, files=_files(inside)))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(os.path.join(here, name), folder)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_directory = os.path.abspath(wheel_directory)
    _find_setuptools()
    import setuptools.build_meta
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("PYTHON")}
    subprocess.run([os.path.join(root, "dev"), "python"], check=True, env=environment,
                   stdout=sys.stderr)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        _project(folder)
        os.chdir(folder)
        try:
            return setuptools.build_meta.build_wheel(wheel_directory)
        finally:
            os.chdir(before)


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("there is no source distribution of the Python package, because it is built "
                       "with the C library; build a wheel")


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
