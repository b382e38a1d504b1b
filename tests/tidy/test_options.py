"""The options, commands and exit codes of the programs against their pages, both ways. Options of a page are those in the
first column of its tables, so that a mention in the text does not count as documentation."""

import json
import os
import re
import subprocess
import sys

import tidy

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def sections(text):
    """The parts of a page by their headings; what stands before the first one is part ""."""
    parts = re.split(r"^## +(.*)$", text, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def first_column(text):
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]


def options_of_tables(text):
    """In code, as `--ranks N`, `-n N`: the long name."""
    return {name for cell in first_column(text) for code in re.findall(r"`([^`]*)`", cell) for name in OPTION.findall(code)}


def codes_of_tables(text):
    return {int(cell) for cell in first_column(text) if re.fullmatch(r" *\d+ *", cell)}


def differences(what, program, page):
    return ([f"{what} {name}: not in the page" for name in sorted(program - page, key=str)]
            + [f"{what} {name}: in the page, not in the program" for name in sorted(page - program, key=str)])


def options_of_help(text):
    """Of a help whose options begin their lines; more than one may stand there before the explanation."""
    return {name for line in text.splitlines() if re.match(r" +-", line)
            for name in OPTION.findall(re.split(r" {2,}(?=[^ -])", line.strip())[0])}


def check_program(text, page):
    """A program without commands: all options of its help in any table of its page."""
    return differences("option", options_of_help(text), options_of_tables(page))


def check_ckpt(document, page):
    """ckpt: a section per command, with the options of that command alone."""
    parts = sections(page)
    commands = {command["name"]: command for command in document["commands"]}
    problems = differences("command", set(commands), {title[5:] for title in parts if title.startswith("ckpt ")})
    for name, command in commands.items():
        own = {f"--{option['name']}" for option in command["options"]}
        problems += differences(f"ckpt {name}: option", own, options_of_tables(parts.get(f"ckpt {name}", "")))
    general = {f"--{option['name']}" for option in document["general_options"] + document["repository_options"]}
    problems += differences("general option", general, options_of_tables(parts.get("General options", "")))
    codes = {entry["code"] for entry in document["exit_codes"]}
    return problems + differences("exit code", codes, codes_of_tables(parts.get("Exit codes", "")))


def rows_of_tables(text):
    """Cells of the rows whose first one is in code."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0].startswith("`")]


def check_settings(document, page):
    """[section] of the page: each row is `key`*, `--flag VALUE` | `VARIABLE` | default | meaning; * where a restart is needed."""
    def rows_of_program():
        for s in document["settings"]:
            flags = [f"--{s['flag']}"] + ([f"--no-{s['flag']}"] if s["no_flag"] else [])
            yield (s["section"], s["key"], s["restart"], *flags, s["environment"], s["default"])

    def rows_of_page():
        for title, part in sections(page).items():
            for key, variable, default, *_ in rows_of_tables(part) if title.startswith("[") else []:
                name = re.match(r"`([a-z-]+)`(\*?)", key)
                yield (title.strip("[]"), name.group(1), bool(name.group(2)), *OPTION.findall(key), variable.strip("`"), default)

    return differences("setting", set(rows_of_program()), set(rows_of_page()))


# ---- that the checks can fail

HELP = """Usage: x [--wrong]
  --one N        like --three, but better
  --two, --four  without a value
  -h, --help     says so
and --five in the text
"""
PAGE = "See `--four`.\n\n| option | is |\n|---|---|\n| `--one N` | not `--two` |\n| `--help` | |\n| `--six N`, `-s` | |\n"
DOCUMENT = {
    "commands": [{"name": "list", "options": [{"name": "all"}, {"name": "last"}]}, {"name": "gone", "options": []}],
    "general_options": [{"name": "json"}], "repository_options": [{"name": "repo"}],
    "exit_codes": [{"code": 0}, {"code": 3}],
}
SETTINGS = {"settings": [
    {"section": "node", "key": "store", "flag": "store", "no_flag": False, "environment": "STORE", "default": "none", "restart": True},
    {"section": "job", "key": "verify", "flag": "verify", "no_flag": True, "environment": "VERIFY", "default": "yes", "restart": False},
    {"section": "job", "key": "linger", "flag": "linger", "no_flag": False, "environment": "LINGER", "default": "1m", "restart": False}]}
SETTINGS_PAGE = """| `elsewhere`, `--else` | `E` | 1 | |
## [node]
| setting | variable | default | is |
| `store`*, `--store DIR` | `STORE` | none | here |
## [job]
| `verify`, `--verify`, `--no-verify` | `VERIFY` | no | wrong default |
"""
CKPT_PAGE = """| `--all` | elsewhere |
## General options
| `--json` | |
## Exit codes
| 0 | ok |
| 4 | |
## ckpt list
| `--last N` | |
| `--json` | |
## ckpt new
"""


def planted(check, text, page, expected):
    found = check(text, page)
    return [] if sorted(found) == sorted(expected) else [f"expected {sorted(expected)}", f"found    {sorted(found)}"]


PLANTED = [
    *planted(check_program, HELP, PAGE, ["option --four: not in the page", "option --two: not in the page",
                                         "option --six: in the page, not in the program"]),
    *planted(check_ckpt, DOCUMENT, CKPT_PAGE, [
        "command gone: not in the page", "command new: in the page, not in the program", "ckpt list: option --all: not in the page",
        "ckpt list: option --json: in the page, not in the program", "general option --repo: not in the page",
        "exit code 3: not in the page", "exit code 4: in the page, not in the program"]),
    *planted(check_settings, SETTINGS, SETTINGS_PAGE, [
        "setting ('job', 'linger', False, '--linger', 'LINGER', '1m'): not in the page",
        "setting ('job', 'verify', False, '--verify', '--no-verify', 'VERIFY', 'yes'): not in the page",
        "setting ('job', 'verify', False, '--verify', '--no-verify', 'VERIFY', 'no'): in the page, not in the program"]),
]

# ---- the programs

PROGRAMS = tidy.programs()
for name in ("ckpt", "ckptd", "ckpt-train"):
    if not (PROGRAMS / name).exists():
        sys.exit(f"{PROGRAMS / name} is not there: scripts/build makes it")


def help_of(program):
    return tidy.output_of(PROGRAMS / program, "--help")


def settings_of_ckpt():
    env = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
    command = [PROGRAMS / "ckpt", "config", "--config", "/dev/null", "--socket", "/nowhere", "--quiet", "--json"]
    return json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout)


def page_of(names):
    """All whose name is like this, as one."""
    return "\n".join(path.read_text() for path in sorted(tidy.ROOT.glob(names)))


def exit_codes_of_train():
    """The one program whose help lists them in a sentence."""
    said = {int(code) for code in re.findall(r"\b(\d) ", help_of("ckpt-train").split("Exit status:")[1])}
    return differences("exit code", said, codes_of_tables(page_of("docs/reference/ckpt-train.md")))


tidy.report([
    ("what is planted is found", PLANTED),
    ("ckpt: commands, options and exit codes", check_ckpt(json.loads(tidy.output_of(PROGRAMS / "ckpt", "help", "--json")),
                                                          page_of("docs/reference/cli*.md"))),
    ("ckptd: options", check_program(help_of("ckptd"), page_of("docs/reference/ckptd.md") + page_of("docs/reference/config.md"))),
    ("settings", check_settings(settings_of_ckpt(), page_of("docs/reference/config.md"))),
    ("ckpt-train: options", check_program(help_of("ckpt-train"), page_of("docs/reference/ckpt-train.md"))),
    ("ckpt-train: exit codes", exit_codes_of_train()),
    ("scripts/demo: options", check_program(tidy.output_of(tidy.ROOT / "scripts" / "demo", "--help"), page_of("README.md"))),
])
