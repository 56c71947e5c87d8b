"""Tests --help, `syntorch help`, man pages, completion scripts and colours: all of them contain
every option of a command."""
import pty
import re

from checks import *  # noqa: F403

NARROW = 80


def said(*args, code=0, **kwargs):
    done = run(*args, **kwargs)
    check(done.returncode == code, f"{args}: {done.returncode} {done.stderr.decode()}")
    return (done.stdout if code == 0 else done.stderr).decode()


def options_of(text):
    return set(re.findall(r"^  --(\w+)", text, re.M))


def complete(*words):
    """Returns what bash offers for the last word."""
    script = """. ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _syntorch
        printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True,
                          check=False)
    check(done.stderr == "", done.stderr)
    return done.stdout.split()


def on_terminal(*args, **env):
    """Returns what a command prints on a terminal."""
    here, there = pty.openpty()
    subprocess.run([PROGRAM, *args], stdin=there, stdout=there, stderr=there, check=False,
                   env={**os.environ, "TERM": "xterm", **env})
    os.close(there)
    text = b""
    try:
        while part := os.read(here, 4096):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(here)
    return text.decode()


enter_folder()
listing = said("help")
check(listing == said("--help"), "`syntorch help` and --help differ")
commands = [c.split() for c in re.findall(r"^  (\S+(?: \S+)?)  ", listing, re.M)]
scripts = {shell: said("completion", shell) for shell in ("bash", "zsh", "fish")}
with open("script", "w", encoding="utf-8") as f:
    f.write(scripts["bash"])
for command in commands:
    text = said(*command, "--help")
    for line in (listing + text).split("\n"):
        check(len(line) <= NARROW, f"{command}: more than {NARROW} columns: {line}")
    if command[0] in ("help", "man", "completion"):
        continue
    check(text == said("help", *command), f"help {command} differs from --help")
    options = options_of(text) - {"help", "version"}
    page = said("man", *command)
    for option in options:
        check(f"\n.B --{option}" in page.replace("\\-", "-"), f"man {command}: no --{option}")
    check(options <= {x[2:] for x in complete("syntorch", *command, "--")}, f"bash: {command}")
    for shell, start in (("zsh", "'--{}["), ("fish", f"\"{' '.join(command)}\"' -l {{}} ")):
        for option in options:
            script = scripts[shell].replace("=[", "[")
            check(start.format(option) in script, f"{shell}: {command} --{option}")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page.encode(),
                              capture_output=True, check=False)
        check(done.stderr == b"", f"{command}: {done.stderr.decode()}")

os.mkdir("some folder")
for words, want in ((["syntorch", "infer"], ["inference"]),
                    (["syntorch", "convert", "t"], ["text"]),
                    (["syntorch", "inference", "--attention", ""], ["auto", "fused", "unfused"]),
                    (["syntorch-inference", "--device", "m"], ["meta"]),
                    (["syntorch", "help", "doc"], ["doctor"]),
                    (["syntorch", "inference", "--tp", ""], []),
                    (["syntorch", "inference", "--hw", "h10"], ["h100"]),
                    (["syntorch", "inference", "--compare", "h10"], ["h100"]),
                    (["syntorch", "export", "--format", "kin"], ["kineto"]),
                    (["syntorch", "synth", "--model", "gpt2-x"], ["gpt2-xl"]),
                    (["syntorch", "inference", "--num-i"], ["--num-input-tokens"]),
                    (["syntorch", "inference", "--num_i"], ["--num_input_tokens"]),
                    (["syntorch", "inference", "--save-logits", "scr"], ["script"]),
                    (["syntorch", "inference", "--device", "=", "m"], ["meta"]),
                    (["syntorch", "inference", "--device", "="], ["cpu", "meta", "cuda"]),
                    (["syntorch", "inference", "--device=m"], ["--device=meta"]),
                    (["syntorch", "inference", "--weights", "scr"], ["script"])):
    check(complete(*words) == want, f"{words}: {complete(*words)}")

for words in (["help", "convert"], ["man", "convert"]):
    check(said(*words) == said("convert", "--help"), f"{words} differs from convert --help")
os.mkdir("bin")
with open("bin/man", "w", encoding="utf-8") as f:
    f.write("#!/bin/sh\necho man got \"$@\"; head -n 1\n")
os.chmod("bin/man", 0o755)
shown = on_terminal("man", "stat", PATH=os.path.abspath("bin") + ":" + os.environ["PATH"])
check(shown.split()[:6] == "man got -l - .TH SYNTORCH\\-STAT".split(), shown)
os.remove("bin/man")  # PATH has cat, but no man
os.symlink(shutil.which("cat"), "bin/cat")
shown = on_terminal("man", "stat", PATH=os.path.abspath("bin"))
check(shown.replace("\r", "") == said("man", "stat"), shown)
check("did you mean" in said("statt", code=2), "no suggestion")
for wrong in (["help", "nothing"], ["man", "help"], ["completion", "csh"], ["help", "stat", "x"]):
    check("\n" not in said(*wrong, code=2)[:-1], str(wrong))
BOLD, RED = "\033[1m", "\033[1;31merror:\033[0m"
check(BOLD + "Usage:" in on_terminal("stat", "--help", NO_COLOR=""), "--help has no bold heading")
check(RED in on_terminal("weights", "nothing", NO_COLOR=""), "the word error is not red")
for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
    plain = on_terminal("stat", "--help", **env) + on_terminal("weights", "nothing", **env)
    check("\033" not in plain and "nothing" in plain, f"{env}: {plain}")
check("\033" not in said("weights", "nothing", code=1), "a pipe gets colours")
finish()
