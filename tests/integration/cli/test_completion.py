"""ckpt completion: every command and option of the table is offered, by a real bash, and by zsh and fish where they are installed."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from single_node import DEADLINE, Failure
from offline import BIN, USAGE, case, cases, ckpt, data, equal, has, make, top

repo = top / "my repo"
make(repo, 1000)
make(repo, 2000)
ckpt("tag", 1000, "best", "--repo", repo)
table = data("help")
GENERAL = [o["name"] for o in table["general_options"]]
REPOSITORY = [o["name"] for o in table["repository_options"]]
script = top / "ckpt.bash"
script.write_text(ckpt("completion", "bash")[0])


def complete(*words, cwd=top):
    """What bash offers for the last word."""
    quoted = " ".join("'" + w.replace("'", "'\\''") + "'" for w in ("ckpt", *words))
    text = (f"source {script}; compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _ckpt; "
            'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-euc", text], capture_output=True, text=True, cwd=cwd, timeout=DEADLINE)
    equal((done.returncode, done.stderr), (0, ""), words)
    return [line for line in done.stdout.split("\n") if line]


def options(command):
    return [f"--{o['name']}" for o in command["options"]] + [f"--{n}" for n in (REPOSITORY if command["repository"] else []) + GENERAL]


@case("bash: commands, and all options of each, and nothing else")
def _():
    equal(complete(""), [c["name"] for c in table["commands"]])
    equal(complete("ver"), ["verify", "version"])
    equal(complete("--repo", "x", "ver"), ["verify", "version"])
    equal(complete("--j"), ["--job", "--json"])
    for command in table["commands"]:
        equal(complete(command["name"], "-"), options(command), command["name"])
    equal(complete("help", "sh"), ["show"])
    equal(complete("completion", ""), ["bash", "zsh", "fish", "steps"])
    equal(complete("nonsense", "-"), [])


@case("bash: checkpoints and tags of the repository that the line names")
def _():
    due = ["latest", "1000.e0001", "2000.e0001", "best"]
    equal(complete("show", "--repo", str(repo), ""), due)
    equal(complete("--repo", str(repo), "diff", "1000", "b"), ["best"])
    equal(complete("show", "--repo", str(top / "none"), ""), ["latest"])
    equal(complete("show", "--repo", str(repo), "--job", "other", ""), ["latest"])


@case("bash: values: directories, files, and silence where only a person knows")
def _():
    (top / "folder").mkdir()
    (top / "file").write_text("")
    equal(complete("list", "--repo", "f"), ["folder"])
    equal(sorted(complete("dump", "1000", "w", "--output", "f")), ["file", "folder"])
    equal(complete("list", "--last", ""), [])
    equal(complete("list", "--repo", "=", "f"), ["folder"])
    equal(sorted(complete("import", "f")), ["file", "folder"])


@case("zsh and fish: every command and option stands in the script")
def _():
    zsh, fish = (ckpt("completion", shell)[0] for shell in ("zsh", "fish"))
    for command in table["commands"]:
        has(zsh, f"'{command['name']}:")
        has(fish, f"-a {command['name']} -d ")
        part = zsh.split(f"\t{command['name']})\n")[1].split(";;")[0]
        for option in options(command):
            equal(f"{option}[" in part or f"{option}=[" in part, True, (command["name"], option))
            has(fish, f"'__fish_seen_subcommand_from {command['name']}' -l {option[2:]}")


@case("the scripts parse: bash")
def _():
    subprocess.run(["bash", "-n", script], check=True)


@case("zsh completes commands and options")
def _():
    if not shutil.which("zsh"):
        return "zsh is not installed"
    (top / "_ckpt").write_text(ckpt("completion", "zsh")[0])
    subprocess.run(["zsh", "-n", top / "_ckpt"], check=True)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", PATH=f"{BIN}:{os.environ['PATH']}")
        os.execvp("zsh", ["zsh", "-f", "-i"])

    def typed(keys, wanted):
        os.write(terminal, keys)
        text, limit = "", time.monotonic() + DEADLINE
        while not re.search(wanted, text):
            left = limit - time.monotonic()
            if left < 0 or not select.select([terminal], [], [], left)[0]:
                raise Failure(f"{wanted!r} does not come: {text!r}")
            text += os.read(terminal, 4096).decode(errors="replace")

    try:
        typed(f"fpath=('{top}' $fpath); autoload -Uz compinit; compinit -u -D; print rea''dy\n".encode(), "ready")
        typed(b"ckpt ver\t\t", r"verify +--[^\n]*\s+version +--")
        typed(b"\x15ckpt list --la\t", "--last=")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


@case("fish completes commands")
def _():
    if not shutil.which("fish"):
        return "fish is not installed"
    (top / "ckpt.fish").write_text(ckpt("completion", "fish")[0])
    done = subprocess.run(["fish", "--no-config", "-c", f"source {top}/ckpt.fish; complete -C 'ckpt ver'"], capture_output=True, text=True)
    equal([line.split("\t")[0] for line in done.stdout.splitlines()], ["verify", "version"], done.stderr)


@case("JSON, and what is no shell")
def _():
    equal(data("completion", "bash")["text"], script.read_text())
    has(ckpt("completion", "tcsh", code=USAGE)[1], "bash, zsh, fish")
    equal(ckpt("completion", "steps", "--repo", repo)[0].split(), ["1000.e0001", "2000.e0001", "best"])


sys.exit(cases.end())
