"""ckpt help and version, and what may stand on its command line: the same for all commands; the page of the commands knows them."""

import re
import shutil
import sys

import pages
from offline import NO_REPO, STEP1000, USAGE, case, cases, ckpt, data, steps, top
from tap import equal, has

repo = top / "repo"
steps(repo)


@case("help names every command, and each has a help of its own")
def _():
    text, _ = ckpt("help")
    for command in data("help")["commands"]:
        has(text, command["name"], command["summary"])
        one, _ = ckpt("help", command["name"])
        equal(one, ckpt(command["name"], "--help")[0], command["name"])
        equal(one, ckpt(command["name"], "-h")[0], command["name"])
        has(one, command["summary"], *[f"--{o['name']}" for o in command["options"]])
    equal(text, ckpt("--help")[0])


@case("version is told in three ways")
def _():
    has(ckpt("version")[0], data("version")["version"])
    equal(ckpt("--version")[0], ckpt("version")[0])


@case("the documentation knows every command, option and exit code")
def _():
    text, document = pages.command_line(), data("help")
    names = [c["name"] for c in document["commands"]]
    for command in document["commands"]:
        has(text, f"ckpt {command['name']}")
        has(text, *[f"`--{o['name']}" for o in command["options"]])
    for option in document["general_options"] + document["repository_options"]:
        has(text, f"`--{option['name']}")
    for code in document["exit_codes"]:
        has(text, f"| {code['code']} | {code['name']} |")
    options = {o["name"] for c in document["commands"] for o in c["options"]}
    options |= {o["name"] for o in document["general_options"] + document["repository_options"]}
    for option in re.findall(r"`--([a-z-]+)", text):
        has(options, option)
    for name in re.findall(r"^## ckpt ([a-z]+)", text, re.M):
        has(names, name)


# ---- usage

@case("what is wrong on the command line is said, with code 2")
def _():
    wrong = [
        ([], "which command"), (["lst"], 'did you mean "list"'), (["xyzzy"], "no command"),
        (["list", "--jsn"], 'did you mean "--json"'), (["list", "--frobnicate"], "--frobnicate"), (["list", "-x"], "-x"),
        (["list", "--repo"], "wants a value"), (["list", "--repo="], "empty"), (["list", "--json=1"], "takes no value"),
        (["list", "extra"], "extra"), (["show", "1", "2"], '"2"'), (["help", "nothing"], "nothing"),
        (["list", "--last", "x"], "whole number"), (["list", "--last", "-1"], "whole number"),
        (["list", "--last", "99999999999999999999"], "whole number"), (["version", "--repo", "x"], "--repo"),
        (["--repo", "x", "version"], "--repo"), (["list", "--repo", repo, "--job", "../x"], "job"),
        (["show", "--repo", repo, "1x"], "1x"), (["show", "--repo", repo, "step-1"], "step-1"),
        (["show", "--repo", repo, "1.e"], "1.e"), (["show", "--repo", repo, "1" * 40], "no checkpoint"),
        (["verify", "--repo", repo, "--quick", "--read-data"], "exclude"), (["verify", "--all", "1000"], "exclude"),
    ]
    for share in ("0", "0%", "101%", "-5%", "five", "nan", "inf", "5%%", "1e400"):
        wrong.append((["verify", "--read-data-subset", share], "share"))
    for args, part in wrong:
        has(ckpt(*args, code=USAGE)[1], part)
    has(ckpt("list", "--repo", repo, code=USAGE, env={"CKPT_JOB": "a b"})[1], "CKPT_JOB")


@case("sizes and times are read as settings are, by every command that takes one")
def _():
    arguments = {"restore": ["latest", "--to", top / "sized"], "export": ["latest", "--to", top / "sized", "--format", "hf"], "drain": ["node1"],
                 "run": ["true"], "forget": ["--dry-run"], "halt": ["--now"], "rollback": ["latest"], "fault": ["stop", "0"]}
    clock, seen = {("halt", "before"), ("fault", "by")}, set()  # a moment; ahead or behind
    wrong = {"SIZE": ("1x", "1.G", "-1G", "G", "1 G"), "TIME": ("1x", "1.m", "0.0001s", "-1s", "s", "99999999999999999999d")}
    for command in data("help")["commands"]:
        store = ["--repo", repo] if command["repository"] else []
        for option in command["options"]:
            name, value = option["name"], option["value"]
            equal(value in ("SECONDS", "MS", "BYTES"), False, name)
            if value not in wrong or (command["name"], name) in clock or command["name"] == "plan":  # plans have TB and years
                continue
            for text in wrong[value]:
                _, err = ckpt(command["name"], f"--{name}={text}", *store, *arguments.get(command["name"], []), code=USAGE)
                has(err, f'--{name}: "{text}" is not allowed: expected a ', "such as")
            seen.add((command["name"], name))
    equal(len(seen) >= 15, True, f"only {seen}")
    whole, files = top / "sized", {}
    for size in ("100M", "16K", "16384"):
        data("restore", 1000, "--repo", repo, "--to", whole, "--max-file", size)
        files[size] = sorted((p.name, p.stat().st_size) for p in whole.iterdir())
        shutil.rmtree(whole)
    equal(len(files["16K"]) > len(files["100M"]), True, "nothing was split")
    equal(files["16384"], files["16K"])
    has(ckpt("flush", "--socket", top / "none", "--timeout", "1500ms", code=USAGE)[1], "whole seconds")
    for good in ("2m", "90", "0", "90s", "1d", "1.5m"):
        ckpt("flush", "--socket", top / "none", "--timeout", good, code=12)


@case("options stand before or after the command, with = or without")
def _():
    def lines(*args, **more):
        """Without the ages, which go on meanwhile."""
        return re.sub(r"\d+ (s|min) ago", "then", ckpt(*args, **more)[0]).split()

    due = lines("list", "--repo", repo)
    equal(lines("--repo", repo, "list"), due)
    equal(lines(f"--repo={repo}", "list"), due)
    equal(lines("list", env={"CKPT_REPO": str(repo)}), due)
    equal(lines("list", "--repo", "/nowhere", "--repo", repo), due, "the last one wins")
    has(ckpt("show", "--repo", repo, "--", "1000")[0], STEP1000)


@case("no repository is code 10, and said so")
def _():
    empty, file = top / "empty", top / "file"
    empty.mkdir()
    file.write_text("x")
    for command in ("list", "show", "ls", "verify"):
        has(ckpt(command, code=NO_REPO)[1], "--repo", "CKPT_REPO")
        has(ckpt(command, "--repo", top / "none", code=NO_REPO)[1], str(top / "none"))
        has(ckpt(command, "--repo", empty, code=NO_REPO)[1], "not a repository")
        ckpt(command, "--repo", file, code=NO_REPO)


sys.exit(cases.end())
