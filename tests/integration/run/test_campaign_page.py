"""The page of ckpt report in a browser without a screen: it shows what the campaign's folder says, and nothing of that becomes markup."""

import json
import re
import subprocess
import sys

from browser import DARK, Text, browse, complaints, framed, picture, served
from launcher import CKPT, ENVIRONMENT, top
from tap import DEADLINE, Cases, equal, expect, has

EVIL = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
BEGIN = 1_700_000_000_000_000_000
cases = Cases()
case = cases.case


def at(ms):
    return BEGIN + int(ms * 1e6)


def way(event, rank, epoch, ms, took, **more):
    return {"event": event, "rank": rank, "epoch": epoch, "at_ns": at(ms), "total_ms": took, "step": 40, "source": "memory", "reason": "",
            "left": "", "passed_over": ""} | more


def folder(name, word, recoveries=1):
    """A campaign of two ranks in which every text is that, with so many kills."""
    journal = [{"event": "begin", "file": word, "seed": 3, "faults": recoveries + 2, "left_out": 1, "ranks": 2, "save_memory_every": 2,
                "save_storage_every": 10, "hang_ms": 4000},
               {"event": "started", "wall_ns": at(0)}, {"event": "daemon", "answers": True, "wall_ns": at(90)},
               {"event": "fault", "index": 0, "kind": word[:20], "rank": 0, "cause": word, "outcome": "not-fired", "wall_ns": at(950), "ms": 1, "text": word}]
    train = [way("start", rank, 1, 900, 300, source="none") for rank in range(2)]
    spans = []
    for i in range(recoveries):
        ms, lost = 2000 * i + 2000, f"rank 1 is lost: {word}"
        journal.append({"event": "fault", "index": i + 1, "kind": "kill", "rank": 1, "cause": word, "outcome": "fired", "wall_ns": at(ms), "ms": 3,
                        "text": word})
        train += [way("recovery", 0, i + 2, ms + 300, 290, reason=lost, left=word, steps_lost=i % 7, detect_ms=4, decide_ms=2, restore_ms=30,
                      first_step_ms=9),
                  way("start", 1, i + 2, ms + 300, 100, reason=lost)]
        train += [{"event": "save", "rank": rank, "at_ns": at(ms + 500 + 10 * i), "step": 10 * i, "begin_ms": 0.2, "fence_ms": 3.0 + i % 11}
                  for rank in range(2)]
        spans.append({"span": "save", "node": word, "target": "storage", "begun_ns": at(ms + 500), "captured_ns": 1000000, "durable_ns": 30000000,
                      "write_ns": 20000000, "captured_bytes": 1000000, "error": word if i == 1 else None})
    end = 2000 * recoveries + 3000
    journal += [{"event": "fault", "index": recoveries + 1, "kind": "disk-full", "rank": 0, "cause": "", "outcome": "fired", "wall_ns": at(end - 900),
                 "ms": 3, "text": word},
                {"event": "daemon", "answers": False, "wall_ns": at(end - 500)}, {"event": "daemon", "answers": True, "wall_ns": at(end - 300)},
                {"event": "stopped", "wall_ns": at(end)}, {"event": "end", "step": 900, "params": word, "calm_params": word},
                {"event": "judged", "exit": 1, "invariants": [{"name": word, "held": False, "looked_at": 7, "text": word}]}]
    (top / name).mkdir()
    for file, lines in (("journal", journal), ("train.jsonl", train), ("spans", spans)):
        (top / name / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (top / name / "run.log").write_text(f"ckpt run: rank 1 hangs: {word}\n")
    return top / name


def page(where):
    file = top / "page.html"
    done = subprocess.run([CKPT, "report", where, "--html", file], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal((done.returncode, done.stdout), (0, ""), done.stderr)
    return file.read_text()


def served_page(text):
    return served({"/": text})


@case("all parts of the report are shown, the browser complains of nothing, and it looks as it should")
def _():
    text = page(folder("plain", "a GPU that fails", 20))
    with served_page(text) as address:
        shown = Text(browse(address, "--dump-dom"))
        equal(complaints(address), [])
        for width in (400, 1600):
            picture(address, f"campaign-page-{width}-light", f"{width},2400")
            picture(address, f"campaign-page-{width}-dark", f"{width},2400", DARK)
    has(shown.text, "Campaign a GPU that fails", "21 of 22", "An invariant was broken", "Timeline", "Faults", "Recoveries", "Goodput", "Distributions",
        "By cause", "rank 1 is lost", "disk-full", "not-fired", "recovered", "by Daly's formula", "simulated", "Steps lost")
    pictures = [a for tag, a in shown.attributes if tag == "svg"]
    strips = [a["aria-label"] for a in pictures if a.get("class") == "strip"]
    equal(len(strips), 2 + 2 + 21 + 1, "faults, daemon, two ranks, a recovery or start each, and the goodput")
    has(" ".join(strips), "rank 0: computing ", "rank 1: computing ", "detect 4 ms, decide 2 ms, gather 249 ms", "times that it did not answer: 1")
    expect(all(a.get("aria-hidden") or (a["role"] == "img" and a["aria-label"]) for a in pictures), "each picture has its words", pictures)
    expect(not re.search(r"\b(nan|inf|null|undefined)\b", shown.text), shown.text[:3000])


@case("it can be read by keyboard and by ear: headings, captions, and tables that take the focus")
def _():
    shown = Text(page(folder("ear", "words")))
    equal([tag for tag in shown.elements if re.fullmatch("h[1-6]|main|header", tag)], ["header", "h1", "main"] + ["h2"] * shown.elements.count("h2"))
    expect(shown.elements.count("section") == shown.elements.count("h2") >= 8, shown.elements)
    equal(shown.elements.count("caption"), shown.elements.count("table"))
    scrolling = [a for tag, a in shown.attributes if a.get("class", "").startswith("scroll")]
    equal(len(scrolling), shown.elements.count("table"))
    expect(all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in scrolling), scrolling)
    expect(all(a.get("scope") == "col" for tag, a in shown.attributes if tag == "th"), "heads of columns")
    equal(shown.attributes[0], ("html", {"lang": "en"}))


@case("what the folder says stays text, whatever it is")
def _():
    text = page(folder("evil", EVIL))
    with served_page(re.sub(r"<meta http-equiv[^>]*>", "", text)) as address:  # without the policy that would help it
        shown = Text(browse(address, "--dump-dom"))
    equal([shown.elements.count(tag) for tag in ("img", "script")], [0, 0])
    expect(shown.text.count("<img src=x") >= 10, "shown as text:", shown.text.count("<img src=x"))
    expect(all(not key.startswith("on") for _, attributes in shown.attributes for key in attributes), "no handler")
    has(text, "default-src 'none'; img-src data:")


@case("on a telephone the page does not scroll sideways: its tables do")
def _():
    for i, word in enumerate(("a few words of one sentence, as an error has it", "x" * 63, "/scratch/" + "long-name_" * 30)):
        text = page(folder(f"narrow{i}", word, 3))
        for width in (400, 320):
            wide, scrolling, _ = framed({"/page": text}, width, "section")
            expect(wide == width and scrolling >= 3, f"{wide} wide in {width}, {scrolling} tables scroll; {word[:20]}")


@case("a campaign that has only begun, and one of a thousand faults, have their page, too")
def _():
    (top / "begun").mkdir()
    (top / "begun" / "journal").write_text('{"event":"begin","file":"c","ranks":64}\n')
    shown = Text(page(top / "begun"))
    has(shown.text, "The campaign has not ended", "rank 63")
    long = page(folder("long", "a cause", 1000))
    expect(len(long) < 4 << 20, len(long))
    equal(Text(long).text.count("rank 1 is lost: a cause"), 2 * 1000)


@case("a page that cannot be written is said so, and what was there stays")
def _():
    (top / "there").mkdir()
    for target in (top / "none" / "page.html", top / "there"):
        done = subprocess.run([CKPT, "report", top / "plain", "--html", target], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
        equal(done.returncode, 1)
        has(done.stderr, str(target))
    expect((top / "there").is_dir() and not list(top.glob("*.part")), "nothing is left", list(top.iterdir()))


@case("the file fetches nothing and runs nothing")
def _():
    text = page(top / "plain")
    for word in ("<script", "src=", "@import", "url(", "http:", "https:", "javascript:"):
        expect(word not in text, word)
    equal(re.findall(r'href="([^"]*)"', text), ["data:,"])


sys.exit(cases.end())
