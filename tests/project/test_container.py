"""Tests the Dockerfile without Docker: runs the commands that docs/training.md gives to the image
with its entry point, from another folder, as a user who owns only that folder and has no home. The
libraries of the installed program must be in the packages of the image."""
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
LINKS = ["inference", "pretrain", "synth", "calibrate"]
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
    """A folder like the image's, with installed programs. The user owns none of its files."""

    def __init__(self, work):
        self.folder, self.out = os.path.join(work, "image"), os.path.join(work, "out")
        build = os.path.join(self.folder, "build")
        self.program = os.path.join(work, "usr", "bin", "syntorch")
        os.makedirs(build)
        os.mkdir(self.out)
        if os.getuid() == 0:
            os.chown(self.out, USER, USER)
        shutil.copy2(os.path.join(SOURCE, "dev"), self.folder)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", os.path.join(work, "usr")],
                       check=True, stdout=subprocess.DEVNULL)
        os.symlink(self.program, os.path.join(build, "syntorch"))
        for name in LINKS:
            os.symlink("syntorch", os.path.join(build, name))
        with open(os.path.join(build, ".built"), "w", encoding="utf-8"):
            pass
        subprocess.run(["chmod", "-R", "a+rX,go-w", self.folder, os.path.join(work, "usr")],
                       check=True)
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
    check(commands == ["setup"], f"RUN: {commands}")
    made = re.findall(r"ln -s syntorch (\w+)", found["RUN"][-1])
    check(made == LINKS, f"links in the image: {made}")
    check(all(re.search(f"^  {name} ", usage, re.M) for name in commands), f"no such: {commands}")
    for rest in found["COPY"]:
        check(rest.startswith("--from=build /installed/")
              or os.path.exists(os.path.join(SOURCE, rest.split()[0])), f"COPY {rest}")
    check(found["ENTRYPOINT"] == ['["/opt/syntorch/dev"]'], f"{found['ENTRYPOINT']}")
    check("dev /opt/syntorch/" in found["COPY"], f"COPY: {found['COPY']}")
    ignored = lines(".dockerignore")
    check({".git", "build"} <= set(ignored), f".dockerignore: {ignored}")
    needed = ["dev", "CMakeLists.txt", "cmake", "syntorch", "ops", "comm", "models", "export",
              "tools", "examples", "tests"]
    lost = [name for name in needed if any(fnmatch.fnmatch(name, p) for p in ignored)]
    check(not lost, f".dockerignore leaves out {lost}")
    return found


def packages(found):
    """Returns the packages that the image's last stage installs, with all that they depend on.
    None: not all of them are installed here."""
    apt = next(rest for rest in found["RUN"] if rest.startswith("apt-get"))
    left = apt.split("--no-install-recommends ")[1].split(" &&")[0].split()
    all_of_them = set()
    while left:
        name = left.pop()
        if name in all_of_them:
            continue
        all_of_them.add(name)
        done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Depends}\n", name],
                              capture_output=True, text=True, check=False)
        if name in apt.split() and not done.stdout.startswith("installed"):
            return None
        left += re.findall(r"[,|]? *([a-z0-9][a-z0-9+.-]+)(?:[:( ][^,|]*)?",
                           done.stdout.partition(" ")[2])
    return all_of_them


def libraries(image, found):
    """Checks that the image has the libraries of the installed program."""
    have = packages(found) if shutil.which("dpkg-query") else None
    if have is None:
        return print("the packages are not installed here: not checked")
    needed = subprocess.run(["ldd", image.program], capture_output=True, text=True, check=True)
    for path in re.findall(r"=> (/\S+)", needed.stdout):
        owner = subprocess.run(["dpkg", "-S", os.path.realpath(path).replace("/usr", "*", 1)],
                               capture_output=True, text=True, check=False).stdout.split(":")[0]
        check(owner in have or not owner, f"no package of the image has {path} ({owner})")
    return check("libopenblas0-pthread" in have, "the image has no OpenBLAS")


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
        libraries(image, found)
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
