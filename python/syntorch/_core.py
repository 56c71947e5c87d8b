"""Loads the C library, and converts its errors, texts and memory."""
import contextlib
import importlib.machinery
import importlib.util
import os
import resource
import threading

_folder = os.path.dirname(os.path.abspath(__file__))


def _load_backend():
    """Makes cffi's run-time module importable: the installed one, or the one in this package."""
    try:
        import _cffi_backend  # noqa: F401
        return
    except ImportError:
        pass
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = os.path.join(_folder, "_cffi_backend" + suffix)
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location("_cffi_backend", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            import sys
            sys.modules["_cffi_backend"] = module
            return
    raise ImportError("syntorch needs cffi, which this Python does not have: pip install cffi")


_load_backend()
from ._declarations import ffi  # noqa: E402

lib = ffi.dlopen(os.path.join(_folder, "libsyntorch_python.so"))


class Error(Exception):
    """A call of the library failed. The text is the library's message."""


class InvalidError(Error, ValueError):
    """An argument is wrong, or arguments contradict each other."""


class ShapeError(InvalidError):
    """The shapes of tensors do not match."""


class FormatError(Error, ValueError):
    """A file is malformed."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class UnsupportedError(Error, NotImplementedError):
    """This build, or this combination of options, does not support the call."""


class CommunicationError(Error):
    """Ranks called different collectives, or wait for each other."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""


for _kind in (Error, InvalidError, ShapeError, FormatError, FileError, UnsupportedError,
              CommunicationError, OutOfMemoryError):
    _kind.__module__ = "syntorch"  # where users find them

_classes = {
    lib.SYN_E_NOMEM: OutOfMemoryError,
    lib.SYN_E_INVALID: InvalidError,
    lib.SYN_E_SHAPE: ShapeError,
    lib.SYN_E_IO: FileError,
    lib.SYN_E_FORMAT: FormatError,
    lib.SYN_E_COMM: CommunicationError,
    lib.SYN_E_UNSUPPORTED: UnsupportedError,
}


def text(pointer):
    """The Python string of a C string; "" for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def c_text(value):
    """The bytes of a string or path for a C function."""
    data = os.fsencode(value)
    if b"\0" in data:
        raise InvalidError("a text with a NUL character: %r" % (value,))
    return data


def error_of(error):
    """The exception for a syn_error."""
    return _classes.get(error.code, Error)(text(error.text))


def call(function, *args, abandon=None):
    """Calls function(*args, &error), which may take long, and raises its error. Ctrl-C interrupts
    the wait for it; `abandon` is then called when the function returns, to free its results."""
    error = ffi.new("syn_error *")
    if _in_thread(function, args + (error,), abandon) != lib.SYN_OK:
        raise error_of(error)


# Kernels keep blocks of hundreds of KiB on the stack, whatever the shell's limit is.
_STACK_BYTES = 8 << 20
_stack_lock = threading.Lock()


def stack_is_small():
    """Whether the main thread's stack is too small for kernels."""
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return limit != resource.RLIM_INFINITY and limit < _STACK_BYTES


@contextlib.contextmanager
def stack_of_kernels():
    """Threads that are started within the block have a stack that is large enough for kernels."""
    with _stack_lock:
        before = threading.stack_size(_STACK_BYTES)
        try:
            yield
        finally:
            threading.stack_size(before)


def _in_thread(function, args, abandon):
    """Python handles signals only between calls of the main thread, which therefore only waits."""
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    lock, done = threading.Lock(), threading.Event()
    state = {"abandoned": False, "result": None}

    def run():
        state["result"] = function(*args)
        with lock:
            done.set()
            if state["abandoned"] and abandon is not None:
                abandon()
    with stack_of_kernels():
        threading.Thread(target=run, daemon=True).start()
    try:
        done.wait()
    except BaseException:
        with lock:
            if done.is_set() and abandon is not None:
                abandon()
            state["abandoned"] = True
        raise
    return state["result"]


def quick(function, *args):
    """Like call, for functions that return at once."""
    error = ffi.new("syn_error *")
    if function(*args, error) != lib.SYN_OK:
        raise error_of(error)


def owned(pointer, free, *keep):
    """A pointer that `free` releases when it is no longer used, and which keeps objects alive."""
    return ffi.gc(pointer, lambda p, keep=keep: free(p))
