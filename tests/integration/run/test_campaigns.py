"""scripts/campaigns: small parts of two campaigns. Its rows are rows of docs/reference/campaigns.md, and what is promised there holds.
timeout: 900"""

import json
import pathlib
import re
import shlex
import signal
import subprocess
import sys

from launcher import ENVIRONMENT, PACED, top
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "campaigns.md"
MISSED, STOPPED = 1, 130
SCRIPT = (sys.executable, ROOT / "scripts" / "campaigns", "--programs", BIN, "--trainer", shlex.join(PACED))
cases = Cases()
case = cases.case


def rows(text):
    """{figure: (floor, measured, command)}"""
    found = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {cells[0]: (cells[1], cells[2], cells[-1]) for cells in found if len(cells) > 3}


def campaigns(*args, codes=(0,)):
    done = subprocess.run([*SCRIPT, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=ENVIRONMENT, timeout=2 * DEADLINE)
    expect(done.returncode in codes, done.returncode, done.stdout, done.stderr)
    return rows(done.stdout), done.stderr


def on_page(measured):
    page = rows(PAGE.read_text())
    expect(measured, "rows were printed")
    for figure, (_, _, command) in measured.items():
        expect(figure in page, f"{figure} is a row of {PAGE.name}")
        equal(page[figure][-1], command, figure)


@case("hangs and mismatches: all fire, no promise is broken, and its rows are those of the page")
def _():
    # how soon a hang is named is a figure, and this machine may be busy
    measured, _ = campaigns("--dir", top / "c", "--part", "1/100", "hangs", codes=(0, MISSED))
    on_page(measured)
    figure = "hangs and mismatches, 2 nodes, 400 faults"
    equal(measured[f"{figure}: faults that fired"][1], "4 of 4")
    expect(re.fullmatch(r"\d+; 0", measured[f"{figure}: acknowledged checkpoints; promises broken"][1]), measured)
    expect((top / "c" / "hangs" / "d" / "report.html").exists(), "its folder stays")


@case("one that is complete is read, and not run again; another part needs another folder")
def _():
    journal = top / "c" / "hangs" / "d" / "journal"
    was = journal.read_bytes()
    measured, _ = campaigns("--dir", top / "c", "--part", "1/100", "hangs", codes=(0, MISSED))
    equal(measured["hangs and mismatches, 2 nodes, 400 faults: faults that fired"][1], "4 of 4")
    equal(journal.read_bytes(), was)
    has(campaigns("--dir", top / "c", "--part", "2/100", "hangs", codes=(MISSED,))[1], "give another --dir")


def lines(journal, event):
    whole = journal.read_text().rpartition("\n")[0].splitlines() if journal.exists() else []
    return [line for line in map(json.loads, whole) if line["event"] == event]


@case("one that is stopped says how to go on, and goes on with what is left")
def _():
    journal = top / "s" / "hangs" / "d" / "journal"
    process = subprocess.Popen([*SCRIPT, "--dir", top / "s", "--part", "1/100", "hangs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        until(lambda: lines(journal, "fault"), "a fault is in the journal", 2 * DEADLINE)
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=2 * DEADLINE)[1]
    equal(process.returncode, STOPPED, said)
    n = len(lines(journal, "fault"))
    expect(not (top / "s" / "hangs" / "outcome.json").exists(), "it is not complete")
    command = shlex.split(re.search(r"go on by: (.*)", said)[1])
    measured, _ = campaigns(*command[1:], codes=(0, MISSED))
    equal(measured["hangs and mismatches, 2 nodes, 400 faults: faults that fired"][1], "4 of 4")
    equal(len({line["index"] for line in lines(journal, "fault")}), len(lines(journal, "fault")), f"none comes twice, {n} had come before")
    equal(len(lines(journal, "started")), 2)


@case("three faults come at once, and no promise is broken")
def _():
    # a rank that is to play one may be lost with another one first; which kinds are drawn follows from the list of all
    measured, _ = campaigns("--dir", top / "t", "--part", "23/200", "triples", codes=(0, MISSED))
    on_page(measured)
    file = (top / "t" / "triples-1" / "campaign").read_text()
    equal([line.split()[0] for line in file.splitlines()[-3:]], ["at", "with", "with"], file)
    said = json.loads((top / "t" / "triples-1" / "outcome.json").read_text())
    equal(said["faults"] + said["left_out"], 3)
    equal(len(lines(top / "t" / "triples-1" / "d" / "journal", "fault")), said["faults"])
    expect(re.fullmatch(r"\d+; 0", measured["three faults at once, 200 times: acknowledged checkpoints; promises broken"][1]), measured)


@case("the faults of a published run come so many steps apart, with saves to storage alone, and again with copies: far fewer steps are lost")
def _():
    measured, _ = campaigns("--dir", top / "y", "--part", "1/210", "--trainer", "", "synchronous")
    on_page(measured)
    files = [(top / "y" / f"synchronous-{name}" / "campaign").read_text().splitlines() for name in ("alone", "copies")]
    equal([line for line in files[0] if line.startswith("after ")], [line for line in files[1] if line.startswith("after ")])
    equal([line for line in files[0] if line not in files[1]], ["save-memory-every 1000000"])
    for name in ("alone", "copies"):
        equal(measured[f"the 419 faults of llama3, saves every 360 steps, {name}: faults that fired"][1], "2 of 2")
    lost = [json.loads((top / "y" / f"synchronous-{name}" / "d" / "report.json").read_text())["totals"]["steps_lost"] for name in ("alone", "copies")]
    expect(0 < 20 * lost[1] < lost[0], lost)
    has(measured["steps lost: saves every 360 steps; with copies; less"][1], f"{lost[0]}; {lost[1]}; ")


@case("the plan reaches its floors, and its rows are written into the page, in place of those that were there")
def _():
    page, was = top / "page.md", PAGE.read_text()
    old = re.sub(r"(90 days: time \| 10 s \|) [^|]* \|", r"\1 99.9 s |", was)
    page.write_text(old)
    measured, _ = campaigns("--dir", top / "p", "--write", "--page", page, "plan")
    on_page(measured)
    new = page.read_text()
    expect("99.9 s" in old and "99.9 s" not in new, new)
    for figure, (floor, is_, command) in measured.items():
        equal(new.count(f"| {figure} | {floor} | {is_} | whole | {command} |\n"), 1, figure)
    others = [[line for line in text.splitlines() if "campaigns plan`" not in line] for text in (was, new)]
    equal(others[0], others[1], "the rest of it is as it was")


@case("of a campaign that the page does not have yet the rows come in the order of the campaigns")
def _():
    page = top / "page.md"
    page.write_text("| figure | floor | measured | part | command |\n|---|---|---|---|---|\n| **What is saved** | | | | |\n| a | b | c | whole | d |\n\nend\n")
    measured, _ = campaigns("--dir", top / "p", "--write", "--page", page, "plan")
    lines_ = page.read_text().splitlines()
    equal(lines_[2:5] + lines_[-2:], ["| **What is saved** | | | | |", "| a | b | c | whole | d |", "| **Plans** | | | | |", "", "end"])
    equal(len(lines_), 7 + len(measured))


@case("what is wrong is named before anything starts")
def _():
    has(campaigns("murder", codes=(2,))[1], "there is no campaign murder")
    has(campaigns("--part", "5/4", codes=(2,))[1], "a part such as 1/4 is wanted")


sys.exit(cases.end())
