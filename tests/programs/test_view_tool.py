"""Tests `syntorch view`: it writes the report of a file, a set or two traces, opens it in the
browser, and reports unreadable files and missing browsers."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, PROGRAM, SOURCE, check, enter_folder, finish  # noqa: E402
from page_data import Parts, read_trace  # noqa: E402

BROWSER = "#!/bin/sh\nprintf '%s' \"$1\" > opened\n"


def view(*args, **env):
    """Runs the command with a folder for temporary files, without a display and $BROWSER."""
    clean = {name: value for name, value in os.environ.items()
             if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run([PROGRAM, "view", *args], capture_output=True, text=True, check=False,
                          timeout=60, env={**clean, "TMPDIR": os.getcwd(), **env})
    return done.returncode, done.stdout.strip(), done.stderr


def heads(path):
    with open(path, encoding="utf-8") as f:
        return [read_trace(script)[0] for script in Parts(f.read()).scripts[:-1]]


def main():
    enter_folder()
    done = subprocess.run([os.path.join(BUILD, "inference"), "--device", "meta", "--tp", "2",
                           "--num_output_tokens", "2", "--visualize_trace", "--out_dir", "run"],
                          cwd=os.getcwd(), capture_output=True, check=False)
    check(done.returncode == 0, f"inference: {done.stderr.decode()}")
    # without a browser and a display, only the path is printed
    for trace, ranks in (("run/tensor_trace_graph.json", 2), ("run/trace.1.et", 1),
                         ("run/trace", 2)):
        code, path, said = view(trace)
        check(code == 0 and os.path.basename(path) == os.path.basename(trace) + ".html" and
              path.startswith(os.getcwd()), f"{trace}: {code}, {path}, {said}")
        check([len(head["ranks"]) for head in heads(path)] == [ranks], f"{trace}: ranks")
        check(os.stat(os.path.dirname(path)).st_mode & 0o77 == 0, "others can read the folder")
    code, path, said = view("run/trace", "run/trace.0.et", "--out", "two.html")
    check(code == 0 and path == "two.html" and
          [len(head["ranks"]) for head in heads(path)] == [2, 1], f"two: {code}, {path}, {said}")
    # the first program of $BROWSER that exists gets the path
    with open("browser", "w", encoding="utf-8") as f:
        f.write(BROWSER)
    os.chmod("browser", 0o755)
    code, path, said = view("run/trace", BROWSER="no-such-browser:./browser")
    with open("opened", encoding="utf-8") as f:
        check(code == 0 and f.read() == path, f"browser: {code}, {said}")
    names = set(os.listdir("."))
    for args, env, says in (
            (["missing"], {}, "neither the file missing nor the set missing.<rank>.et exists"),
            ([os.path.join(SOURCE, "README.md")], {}, "README.md"),
            (["run/trace", "--out", "no/folder.html"], {}, "the folder no does not exist"),
            (["run/trace.0.et", "--out", "run/trace.0.et"], {}, "is an input"),
            (["run/trace", "--out", "x.html"], {"BROWSER": "none1:none2"}, "no browser"),
            (["run/trace", "--out", "x.html"], {"BROWSER": "false"}, "failed with exit code 1"),
            (["run/trace", "--out", "x.html"], {"DISPLAY": ":9", "PATH": "."}, "'xdg-open'")):
        code, _, said = view(*args, **env)
        check(code == 1 and says in said and said.count("\n") == 1, f"{args}: {code}, {said}")
    check(set(os.listdir(".")) == names | {"x.html"}, "a failure left files")
    code, _, said = view("run/trace", "run/trace", "run/trace")
    check(code == 2 and "at most 2" in said, f"three traces: {code}, {said}")
    check(view()[0] == 2 and view("run/trace", "--out", "-")[0] == 2, "no file")
    finish()


if __name__ == "__main__":
    main()
