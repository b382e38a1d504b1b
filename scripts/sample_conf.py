#!/usr/bin/env python3
"""sample_conf.py CONFIG.json: writes /etc/ckpt/ckpt.conf as it is installed, from the table of settings (`ckpt config --json`): every
setting with its help, commented out. Where the default is a value, it stands there."""

import json
import sys
import textwrap

HEAD = """\
# Settings of ckptd: see ckpt.conf(5). All are commented out: the defaults hold. `ckpt config` shows what each comes to and
# from where, `ckpt config --check FILE` looks for mistakes; SIGHUP (systemctl reload) makes ckptd read this file again.
"""
WIDTH = 118
SECTIONS = {"node": "The daemon, all jobs together.", "job": "Every job. [job NAME] and [job PATTERN] (* and ?) are for some.",
            "user": "Every user of a system service. [user NAME], [user @GROUP] and [user PATTERN] (* and ?) are for some."}


def is_value(default):
    return default != "none" and " " not in default and not default.startswith("$")


def lines(setting):
    default = setting["default"]
    rest = "" if is_value(default) else f"; default: {default}"
    yield from textwrap.wrap(f"{setting['help']}{rest}", WIDTH, initial_indent="# ", subsequent_indent="# ")
    yield f"#{setting['key']} = {default if is_value(default) else ''}".rstrip()


def main():
    settings = json.load(open(sys.argv[1], encoding="utf-8"))["settings"]
    print(HEAD, end="")
    for section, text in SECTIONS.items():
        print(f"\n# {text}\n[{section}]")
        for setting in settings:
            if setting["section"] == section:
                print("", *lines(setting), sep="\n")


main()
