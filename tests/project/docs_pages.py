"""Parses README.md and docs/ for test_docs.py: finds commands, Python, JSON and the shown output of
commands, and compares shown with printed output.

A block (indented by four, or between fences) is Python if its fence or first word says so,
otherwise shell. Shell blocks in which a line begins with "$ " also show the output of the commands.
In shown output, a line "..." matches any lines, and "..." within a line matches any text. In other
shell blocks each line is a command. Inline code in a sentence or table is also a command if it
begins with one of our programs and has arguments.
"""
import difflib
import re

PROGRAMS = ("./dev ", "syntorch ", "inference ", "mpirun ", "cmake ", "python3 ", "build/",
            "torchrun ", "AstraSim_", "docker ", "git ")
SHELL = PROGRAMS + ("cp ", "mkdir ", "export ", "sed ", "head ", "cat ", "printf ", "gzip ", "$ ",
                    "# ")


class Command:
    """A command on a page, with the shown lines of its output (None: the page shows no output)."""

    def __init__(self, page, line, text, shown=None):
        self.page, self.line, self.text, self.shown = page, line, text, shown
        # first and last line of the shown output on the page, and its indentation
        self.shown_at = self.indent = None

    def __str__(self):
        return f"{self.page}:{self.line}: {self.text}"


class Code:
    """A block of another language."""

    def __init__(self, page, line, language, text):
        self.page, self.line, self.language, self.text = page, line, language, text

    def __str__(self):
        return f"{self.page}:{self.line}: {self.language}"


def blocks(text):
    """Yields (line number, indentation, fence, lines) for each block, and (line number, 0, None,
    [line]) for each other line."""
    lines, i, blank = text.split("\n"), 0, True
    while i < len(lines):
        fence = re.match(r"\s*```(\w*)$", lines[i])
        if fence:
            end = next(k for k in range(i + 1, len(lines)) if lines[k].strip() == "```")
            yield i + 1, 0, fence.group(1) or "text", lines[i + 1:end]
            i = end + 1
        elif blank and lines[i].startswith("    ") and lines[i].strip():
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            yield i, 4, "", [line[4:] for line in lines[i:end]]
            i = end
        else:
            blank = not lines[i].strip()
            yield i, 0, None, [lines[i]]
            i += 1


def shell_commands(page, first, indent, lines):
    """Returns the commands of a block that begins after line `first`."""
    shows, found, i = any(line.startswith("$ ") for line in lines), [], 0
    while i < len(lines):
        begin, text = i, lines[i][2:] if shows else lines[i]
        while text.endswith("\\"):
            i += 1
            text = text[:-1] + lines[i].strip()
        i += 1
        if not text.strip() or text.startswith("#"):
            continue
        command = Command(page, first + begin + 1, text.strip())
        if shows:
            end = next((k for k in range(i, len(lines)) if lines[k].startswith("$ ")), len(lines))
            last = end
            while last > i and not lines[last - 1].strip():
                last -= 1
            command.shown, command.shown_at, command.indent = lines[i:last], \
                (first + i, first + last), " " * indent
            i = end
        found.append(command)
    return found


def contents(page, text):
    """Returns the commands and code blocks in order, and the other lines of the page as (line
    number, text)."""
    found, prose = [], []
    for at, indent, fence, lines in blocks(text):
        if fence is None:
            prose.append((at + 1, lines[0]))
            for span in re.findall(r"`([^`]+)`", lines[0]):
                if span.startswith(PROGRAMS):
                    found.append(Command(page, at + 1, span))
        elif fence in ("python", "json", "text", "diff", "c"):
            found.append(Code(page, at + 1, fence, "\n".join(lines) + "\n"))
        elif indent and lines[0].startswith(("import ", "from ")):
            found.append(Code(page, at + 1, "python", "\n".join(lines) + "\n"))
        elif indent and not lines[0].startswith(SHELL):
            found.append(Code(page, at + 1, "unknown", "\n".join(lines) + "\n"))
        else:
            found += shell_commands(page, at, indent, lines)
    return found, prose


# ---- shown and printed output ----

NUMBER = r"\d+(?:\.\d+)?(?:e[+-]\d+)?"
STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d [\d:.]+\] ")  # time stamps of simulators
VARIES = [  # varies for every command: elapsed time and memory of the process
    (STAMP, ""),
    (re.compile(rf"in {NUMBER} s$"), "in TIME"),
    (re.compile(rf"the process {NUMBER} [KMGT]?i?B"), "the process SIZE"),
    (re.compile(r"\b\d\.\d{3}  (ok|invalid)"), r"TIME  \1"),  # a column of convert-all
]
MEASURED = [  # varies for runs that compute: measured times and rates
    (re.compile(rf"\b{NUMBER}( [kMGT])? tokens/s"), "RATE"),
    (re.compile(rf"\b{NUMBER} (ns|us|µs|ms|s)\b"), "TIME"),
    (re.compile(rf"\b{NUMBER}%"), "SHARE"),
    (re.compile(rf"(?<=SHARE)(.*?) {NUMBER}(?: [kMGTPE])? +{NUMBER}(?: [KMGTPE]iB| B)?(?=$| +\()"),
     r"\1 RATE RATE"),
]


def masked(line, measured):
    """Returns the line with values that vary between runs masked, and with single blanks."""
    for pattern, word in VARIES + (MEASURED if measured else []):
        line = pattern.sub(word, line)
    return " ".join(line.split())


def computes(command):
    """Whether the times in the command's output are measured."""
    return "inference" in command and "--device meta" not in command


def line_pattern(line, measured):
    return ".*".join(re.escape(" ".join(part.split()))
                     for part in masked(line, measured).split("..."))


def agrees(shown, printed, measured):
    """Whether the shown lines match the printed lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..."
                      else line_pattern(line, measured) + r"\n"
                      for line in trimmed(shown))
    text = "".join(masked(line, measured) + "\n" for line in trimmed(printed))
    return re.fullmatch(pattern, text) is not None


def trimmed(lines):
    """Returns the lines without empty lines at either end."""
    lines = [line.rstrip() for line in lines]
    while lines and not lines[0]:
        lines = lines[1:]
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def updated(shown, printed, measured):
    """Returns the new lines to show. Shown lines that still match stay; others are replaced by the
    most similar printed line. If the result does not match, returns all printed lines."""
    out, at, printed = [], 0, [STAMP.sub("", line) for line in printed]
    for line in trimmed(shown):
        if line.strip() == "...":
            out.append(line)
            continue
        same = [k for k in range(at, len(printed))
                if re.fullmatch(line_pattern(line, measured), masked(printed[k], measured))]
        if same:
            out.append(line)
            at = same[0] + 1
            continue
        like = sorted((-difflib.SequenceMatcher(None, line, printed[k]).ratio(), k)
                      for k in range(at, len(printed)))
        if like and like[0][0] < -0.6:
            out.append(printed[like[0][1]].rstrip())
            at = like[0][1] + 1
    return out if agrees(out, printed, measured) else [line.rstrip() for line in trimmed(printed)]
