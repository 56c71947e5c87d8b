"""Tests the Dockerfile without Docker: runs the commands that docs/training.md gives to the image
with its entry point, from another folder, as a user who owns only that folder and has no home."""
import fnmatch
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
BUILD, SOURCE = os.environ["SYN_BUILD"], os.environ["SYN_SOURCE"]
USER = 12345 if os.getuid() == 0 else os.getuid()
failures = 0


def check(cond, text):
    global failures
    if not cond:
        failures += 1
        print(f"FAILED: {text}")
    return cond


def lines(name):
    """Returns the lines of a file without comments, with continued lines joined."""
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        text = re.sub(r"^\s*#.*\n", "", f.read(), flags=re.M).replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def become_user():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)


class Image:
    """A folder like the image's, with built programs. The user owns none of its files."""

    def __init__(self, work):
        self.folder, self.out = os.path.join(work, "image"), os.path.join(work, "out")
        os.makedirs(os.path.join(self.folder, "build"))
        os.mkdir(self.out)
        if os.getuid() == 0:
            os.chown(self.out, USER, USER)
        shutil.copy2(os.path.join(SOURCE, "dev"), self.folder)
        shutil.copytree(os.path.join(SOURCE, "examples"), os.path.join(self.folder, "examples"))
        for name in ("inference", "pretrain", "syntorch"):
            shutil.copy2(os.path.join(BUILD, name), os.path.join(self.folder, "build"))
        with open(os.path.join(self.folder, "build", ".built"), "w", encoding="utf-8"):
            pass
        subprocess.run(["chmod", "-R", "a+rX,go-w", self.folder], check=True)
        os.chmod(work, 0o755)

    def run(self, words):
        env = {"PATH": os.environ["PATH"], "HOME": "/", "ASAN_OPTIONS": "detect_leaks=0"}
        return subprocess.run([os.path.join(self.folder, "dev"), *words], cwd=self.out, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              preexec_fn=become_user, timeout=300, check=False)


def steps():
    """Checks that each step of the Dockerfile is possible, and that the entry point is in the
    folder to which the files are copied. Returns the instructions by name."""
    found = {"RUN": [], "WORKDIR": [], "COPY": []}
    for line in lines("Dockerfile"):
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    usage = subprocess.run([os.path.join(SOURCE, "dev"), "help"], capture_output=True, text=True,
                           check=True).stdout
    commands = re.findall(r"\./dev (\w+)", " ".join(found["RUN"]))
    check(commands == ["setup", "build"], f"RUN: {commands}")
    check(all(re.search(f"^  {name} ", usage, re.M) for name in commands), f"no such: {commands}")
    for rest in found["COPY"]:
        check(os.path.exists(os.path.join(SOURCE, rest.split()[0])), f"COPY {rest}")
    check(found["ENTRYPOINT"] == [f'["{found["WORKDIR"][0]}/dev"]'], f"{found['ENTRYPOINT']}")
    ignored = lines(".dockerignore")
    check({".git", "build"} <= set(ignored), f".dockerignore: {ignored}")
    needed = ["dev", "CMakeLists.txt", "cmake", "syntorch", "ops", "comm", "models", "export",
              "tools", "examples", "tests"]
    lost = [name for name in needed if any(fnmatch.fnmatch(name, p) for p in ignored)]
    check(not lost, f".dockerignore leaves out {lost}")
    return found


def documented():
    """Returns the arguments after the image's name for each `docker run` on the page."""
    with open(os.path.join(SOURCE, "docs", "training.md"), encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    runs = [shlex.split(line) for line in re.findall(r"^    (docker run .*)$", text, re.M)]
    check(len(runs) >= 2, f"{len(runs)} runs of the image on the page")
    return [words[words.index("syntorch") + 1:] for words in runs]


def runs(found):
    with tempfile.TemporaryDirectory() as work:
        image = Image(work)
        default = [word.strip('" ') for word in found["CMD"][0].strip("[]").split(",")]
        for words in [default, *documented()]:
            if words[0] == "pretrain" and "--device" not in words:
                words = [*words, "--device", "meta"]  # takes minutes on a CPU
            done = image.run(words)
            check(done.returncode == 0 and "dev: building" not in done.stdout,
                  f"{words}: exit {done.returncode}: {done.stdout}")
        traces = glob.glob(os.path.join(image.out, "outputs", "*.et"))
        check(len(traces) == 2 + 14, f"traces in the folder: {sorted(traces)}")
        check(all(os.stat(path).st_uid == USER for path in traces), "they are another user's")
        done = image.run(["pretrain", "--max-steps", "1", "--max-seq-length", "16"])
        check(done.returncode == 0
              and os.path.isdir(os.path.join(image.out, "checkpoints", "gpt2-mini")), done.stdout)


runs(steps())
print(f"{failures} failures")
sys.exit(1 if failures else 0)
