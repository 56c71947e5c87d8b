"""Runs programs on a pseudoterminal, for tests of output that depends on whether it goes to a
terminal."""
import os
import pty


def why_none():
    """Returns why this system has no pseudoterminals, or "" if it has them."""
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        return f"this system gives no terminals: {error}"
    return ""


def start(begin):
    """Starts a process that calls `begin`, which must exec a program. Returns (process id,
    descriptor of the terminal)."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            begin()
        finally:
            os._exit(127)
    return pid, fd


def read(fd, most=65536):
    """Returns the next output, or b"" if all writers have closed the terminal."""
    try:
        return os.read(fd, most)
    except OSError:
        return b""


def end(pid, fd):
    """Closes the terminal. Returns the exit code, or minus the signal that ended the process."""
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
