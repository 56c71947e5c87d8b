"""Programs on a terminal of the test's own."""
import os
import pty


def why_none():
    """Why this system gives no terminals; "" if it does."""
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        return f"this system gives no terminals: {error}"
    return ""


def start(begin):
    """(pid, terminal) of a process that calls `begin`, which is to become a program."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            begin()
        finally:
            os._exit(127)
    return pid, fd


def read(fd, most=65536):
    """What was written next; b"" when nobody writes any more."""
    try:
        return os.read(fd, most)
    except OSError:
        return b""


def end(pid, fd):
    """Its exit code, or minus the signal that ended it."""
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
