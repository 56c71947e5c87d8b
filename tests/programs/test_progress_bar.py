"""Tests the progress bar of pretrain on a pseudoterminal: it fits the width of the terminal, also
after the width has changed, messages have lines of their own, and the lines that remain on the
screen at the end are right."""
import fcntl
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import termios

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
import terminals  # noqa: E402
from checks import check, finish, run, skip  # noqa: E402
from pretrain_runs import GPT, MPIRUN, PRETRAIN, launcher  # noqa: E402

OTHERS = "model:|dropout|validation|traced|written"  # lines that are not bars


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Terminal:
    """Runs a program on a terminal. Has its exit code and its output."""

    def __init__(self, words, columns, then=None, limit=None):
        """columns: width of the terminal. then: width from the first bar on. limit: limit of the
        size of files in bytes, to simulate a full disk."""
        self.written, self.after = "", None  # `after`: len(written) when the width changed

        def begin():
            set_width(0, columns)
            os.environ["NO_COLOR"] = "1"
            for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # they cause a warning
                os.environ.pop(name, None)
            if limit:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            os.execv(words[0], words)

        pid, fd = terminals.start(begin)
        while data := terminals.read(fd):
            self.written += data.decode()
            if then and self.after is None and "step" in self.written:
                set_width(fd, then)
                self.after = len(self.written)
        self.code = terminals.end(pid, fd)

    def bars(self, begin=0, end=None):
        """Returns the bars in written[begin:end], in order."""
        return [part for part in re.split(r"[\r\n]", self.written[begin:end])
                if re.match(r"(step +\d+/\d+)?[ #.\[\]]*\[[#.]", part)]

    def lines(self):
        """Returns the lines that the screen shows at the end, if it is as wide as any line."""
        shown = []
        for line in self.written.replace("\r\n", "\n").split("\n"):
            cells = []
            for text in line.split("\r"):
                cells[:len(text)] = text
            shown.append("".join(cells).rstrip())
        return shown


def widths(folder):
    for columns in (200, 80, 47, 20, 2, 0):
        t = Terminal([PRETRAIN, *SMALL, "--eval-steps", "6", "--save-dir", folder,
                      "--enable-tracing", "--out-dir", os.path.join(folder, "traces")],
                     columns)
        check(t.code == 0, f"{columns}: {t.written}")
        width = columns or 80  # width 0: unknown, 80 is assumed
        wide = [part for part in re.split(r"[\r\n]", t.written)
                if len(part) >= width and not re.search(OTHERS, part)]
        check(not wide, f"{columns} columns: {wide}")
        model, dropout, *lines = t.lines()
        check(" in f32 on cpu, " in model and dropout.startswith("dropout: 0.1 "),
              f"{model}, {dropout}")
        check([re.sub(r"[\d.]+$", "N", line) for line in lines if "validation" in line]
              == ["step 6  validation loss N", "step 12  validation loss N"], f"{lines}")
        check(len(lines) == 6 and lines[-1] == "" and lines[0].startswith("traced: ") and
              lines[-2].startswith("written: "), f"{lines}")
        if width == 80:
            whole = r"step 12/12 \[#{6,30}\]  loss \d\.\d{4}  took \d+:\d\d  \d+ tokens/s  lr .*"
            check(re.fullmatch(whole, lines[2]), lines[2])
        if width == 200:
            check(all(f in lines[2] for f in ("[" + 30 * "#" + "]", "loss ", "took", " tokens/s",
                                              "  lr ")), lines[2])
            first = t.bars()[0]
            check(first.startswith("step  1/12 [##") and re.search(r"  \d+:\d\d left  ", first),
                  first)
        if width == 47:
            check(re.match(r"step 12/12 \[#{6,30}\]  loss", lines[2]), lines[2])
        if width == 20:
            check(lines[2] == "step 12/12", lines[2])


def resized(folder):
    """After the width has changed, bars fit the new width. Only the bar that was being written may
    still have the old width."""
    for columns, then in ((120, 50), (50, 120)):
        bars = []
        for steps in ("300", "3000", "30000"):  # until bars follow the change
            t = Terminal([PRETRAIN, *SMALL, "--max-steps", steps, "--num-epochs", "1000",
                          "--skip-eval", "--save-dir",
                          os.path.join(folder, f"{steps} in {columns}")], columns, then)
            bars = t.bars(t.after)
            if not check(t.code == 0, t.written[-1000:]) or len(bars) > 1:
                break
        check(len(bars) > 1 and all(len(bar) < then for bar in bars[1:]),
              f"{columns}, then {then}: {bars}")
        check(len(bars[-1].rstrip()) < 50 or then == 120, f"{columns}, then {then}: {bars[-1]}")


def messages(folder):
    """Log lines, warnings and errors begin on lines without a bar."""
    t = Terminal([PRETRAIN, *SMALL, "--save-dir", folder, "--logging-steps", "5"], 80)
    lines = [line for line in t.lines() if re.match(r"step \d+/12  loss ", line)]
    check([line.split("/")[0] for line in lines] == ["step 1", "step 5", "step 10"], t.written)
    check(t.lines()[-4].startswith("step 12/12 [") and t.lines()[-2].startswith("written: "),
          t.written)
    t = Terminal([PRETRAIN, *SMALL, "--save-dir", os.path.join(folder, "full"), "--save-steps",
                  "4", "--skip-eval"], 80, limit=20000)
    warned = [line for line in t.lines() if "was not saved" in line]
    check(t.code == 1 and len(warned) == 4
          and all(line.startswith("pretrain: warning: checkpoint-") for line in warned[:3])
          and warned[3].startswith("pretrain: the run is finished, but "), t.written)
    t = Terminal([PRETRAIN, *SMALL, "--save-dir", folder, "--learning-rate", "1e3",
                  "--max-grad-norm", "0", "--max-seq-length", "64"], 80)
    check(t.code == 1 and re.match(r"pretrain: step \d: ", t.lines()[-2]), t.written)
    t = Terminal([PRETRAIN, *SMALL, "--save-dir", folder, "--quiet"], 80)
    check(t.code == 0 and t.written == "", t.written)


def elsewhere(folder):
    """Without a terminal, lines are printed instead of a bar. This is also true for MPI ranks: Open
    MPI gives them a terminal that nobody sees."""
    words = [PRETRAIN, *SMALL, "--eval-steps", "6", "--save-dir", folder]
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    steps = [line.split("  ")[0] for line in done.stdout.splitlines()[2:-1]]
    check(steps == ["step 1/12", "step 6", "step 10/12", "step 12/12", "step 12"]
          and "\r" not in done.stdout and done.stderr == "", f"{done.stdout}{done.stderr}")
    if not MPIRUN or b"this build has no MPI" in run("--version").stderr:
        print("not over MPI: there is none")
        return
    t = Terminal([*launcher("1"), *words], 80)
    check(t.code == 0 and "step 10/12  loss" in t.written and "[#" not in t.written, t.written)


if terminals.why_none():
    skip(terminals.why_none())
with tempfile.TemporaryDirectory() as work:
    with open(os.path.join(work, "gpt.json"), "w", encoding="utf-8") as file:
        json.dump(GPT, file)
    SMALL = ["--model-config", os.path.join(work, "gpt.json"), "--max-seq-length", "16",
             "--max-steps", "12"]
    widths(work)
    resized(work)
    messages(work)
    elsewhere(work)
finish()
