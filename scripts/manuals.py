#!/usr/bin/env python3
"""manuals.py HELP.json TREE OUT: writes the manual pages into OUT/man1, man3, man5, man8.

Section 1 is the table of commands (`ckpt help --json`), with what docs/reference/cli.md and cli-*.md say beyond it; section 3 is what the comments of
libckpt/ckpt.h and ckpt_reader.h say; sections 5 and 8 are docs/reference/config.md, docs/reference/format.md and docs/reference/ckptd.md. Nothing is written here that is not written there."""

import json
import pathlib
import re
import sys


# ---- roff


def text(s):
    """A line of running text: nothing in it is taken for a request or an escape."""
    s = s.replace("\\", "\\e").replace("-", "\\-").replace("\u2019", "\\(cq").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga")
    return "\\&" + s if s[:1] in (".", "'") else s


def markup(s):
    """Running text with `code`, **strong** and [links](target) of Markdown."""
    s = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", s)
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*)", s)
    done = ""
    for part in parts:
        if part.startswith("`"):
            done += "\\fB" + text(part[1:-1]).removeprefix("\\&") + "\\fR"
        elif part.startswith("**"):
            done += "\\fB" + text(part[2:-2]).removeprefix("\\&") + "\\fR"
        elif part.startswith("*") and len(part) > 2:
            done += "\\fI" + text(part[1:-1]).removeprefix("\\&") + "\\fR"
        else:
            done += text(part).removeprefix("\\&")
    return "\\&" + done if done[:1] in (".", "'") else done


def head(name, section, summary, version):
    return [f'.TH {name.upper()} {section} "" "ckpt {version}" "ckpt"', ".ad l", ".SH NAME", f"{text(name)} \\- {text(summary)}"]


def code(lines):
    return [".PP", ".nf", ".RS 4", *[text(line) if line.strip() else "\\&" for line in lines], ".RE", ".fi"]


# ---- Markdown, as far as docs/ use it


def cells(line):
    return [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def table(rows, skip_options):
    names, body = cells(rows[0]), [cells(r) for r in rows[2:]]
    if skip_options and names[0] == "option":
        return []
    done = []
    for row in body:
        rest = [f"{n}: {c}" if len(row) > 2 and n else c for n, c in zip(names[1:], row[1:]) if c]
        done += [".TP", markup(row[0]) or "\\&", markup("; ".join(rest)) or "\\&"]
    return done


def markdown(lines, skip_options=False):
    """Body of a page; headings become sections."""
    done, i = [], 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("#"):
            level, title = len(line) - len(line.lstrip("#")), line.lstrip("# ").replace("`", "")
            done.append(f'{".SH" if level <= 2 else ".SS"} "{text(title.upper() if level <= 2 else title)}"')
            i += 1
        elif line.startswith("    "):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            block = lines[i:end]
            while not block[-1].strip():
                block.pop()
            done += code([b[4:] for b in block])
            i = end
        elif line.startswith("|"):
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            done += table(lines[i:end], skip_options)
            i = end
        else:
            item = re.match(r"(- |\d+\. )", line)
            end = i + 1
            while end < len(lines) and lines[end].strip() and not re.match(r"(- |\d+\. |#|\|)", lines[end]):
                end += 1
            joined = " ".join(part.strip() for part in lines[i:end])
            if item:
                mark = "\\(bu" if item.group(1) == "- " else text(item.group(1).strip())
                done += [f".IP {mark} 4", markup(joined[len(item.group(1)):])]
            else:
                done += [".PP", markup(joined)]
            i = end
    return done


def section_of(page, title):
    """The lines below a heading "## title", without it."""
    lines = page.splitlines()
    if f"## {title}" not in lines:
        return []
    start = lines.index(f"## {title}") + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith(("# ", "## "))), len(lines))
    return lines[start:end]


# ---- section 1


def options(title, rows):
    done = [f".SH {title}"] if rows else []
    for o in rows:
        value = f" \\fI{text(o['value'])}\\fR" if o["value"] else ""
        done += [".TP", f"\\fB{text('--' + o['name'])}\\fR{value}", text(o["help"][0].upper() + o["help"][1:] + ".")]
    return done


def exit_codes(rows):
    done = [".SH EXIT STATUS"]
    for code_ in rows:
        done += [".TP", str(code_["code"]), text(f"{code_['name']}: {code_['text']}.")]
    return done


def command_page(command, table_, page, version):
    name = f"ckpt-{command['name']}"
    args = f" \\fI{text(command['args'])}\\fR" if command["args"] else ""
    done = head(name, 1, command["summary"], version)
    done += [".SH SYNOPSIS", f"\\fBckpt {text(command['name'])}\\fR [options]{args}", ".SH DESCRIPTION"]
    more = section_of(page, f"ckpt {command['name']}")
    done += markdown(more, skip_options=True) or [text(command["summary"][0].upper() + command["summary"][1:] + ".")]
    done += options("OPTIONS", command["options"])
    if command["repository"]:
        done += options('"REPOSITORY OPTIONS"', table_["repository_options"])
    done += options('"GENERAL OPTIONS"', table_["general_options"])
    return done + exit_codes(table_["exit_codes"]) + [".SH SEE ALSO", "\\fBckpt\\fR(1), \\fBckptd\\fR(8), \\fBckpt\\-format\\fR(5)"]


def main_page(table_, page, version):
    done = head("ckpt", 1, "checkpoints of training jobs: list, check, restore, run", version)
    done += [".SH SYNOPSIS", "\\fBckpt\\fR \\fICOMMAND\\fR [options] [arguments]", ".SH DESCRIPTION"]
    lines = page.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("## "))
    done += markdown(lines[3:first]) + [".SH COMMANDS"]
    for command in table_["commands"]:
        done += [".TP", f"\\fBckpt\\-{text(command['name'])}\\fR(1)", text(command["summary"][0].upper() + command["summary"][1:] + ".")]
    done += options('"REPOSITORY OPTIONS"', table_["repository_options"]) + options('"GENERAL OPTIONS"', table_["general_options"])
    general = section_of(page, "General options")
    done += markdown(general, skip_options=True) + [".SH JSON"] + markdown(section_of(page, "JSON"))
    return done + exit_codes(table_["exit_codes"]) + [".SH SEE ALSO", "\\fBckptd\\fR(8), \\fBckpt\\-format\\fR(5), \\fBlibckpt\\fR(3)"]


# ---- section 3


def uncomment(comment):
    lines = [re.sub(r"^ \*(?: |(?=\t)|$)", "", line) for line in comment.split("\n")]
    lines[0] = lines[0].removeprefix("/* ")
    lines[-1] = re.sub(r"\s*\*/$", "", lines[-1])
    return lines


def ticks(s):
    """Running text of a comment: `names` stand out; a star is a star."""
    parts = re.split(r"(`[^`]+`)", s)
    done = "".join("\\fI" + text(p[1:-1]).removeprefix("\\&") + "\\fR" if p.startswith("`") else text(p).removeprefix("\\&") for p in parts)
    return "\\&" + done if done[:1] in (".", "'") else done


TERM = re.compile(r"(\S+(?: \S+)*?)  +(\S.*)")


def block(lines):
    """Lines that begin with a tab: a list of terms, two blanks, what they mean, where further lines stand below that; else they are set as they are."""
    lines = [line[1:].replace("\t", "    ") for line in lines]
    if not all(line.startswith("   ") or TERM.match(line) for line in lines) or not TERM.match(lines[0]):
        return "code", lines
    terms = []
    for line in lines:
        if line.startswith("   "):
            terms[-1][1] += " " + line.strip()
        else:
            terms.append(list(TERM.match(line).groups()))
    return ("errors" if all(re.match(r"-E[A-Z0-9]+", term) for term, _ in terms) else "terms"), terms


def parts(lines):
    """A comment as (kind, content): "text" and "item" are running text, for the others see block()."""
    found, run, tabbed = [], [], []

    def flush():
        if run:
            joined = " ".join(run)
            found.append(("item", joined[2:]) if joined.startswith("- ") else ("text", joined))
        if tabbed:
            found.append(block(tabbed))
        run.clear()
        tabbed.clear()

    for line in lines:
        if not line.strip() or line.startswith("- ") or line.startswith("\t") != bool(tabbed):
            flush()
        if line.strip():
            (tabbed if line.startswith("\t") else run).append(line if line.startswith("\t") else line.strip())
    flush()
    return found


def render(found):
    done = []
    for kind, content in found:
        titled = re.match(r"([A-Z][a-z]+)\. (?=[A-Z])", content) if kind == "text" else None
        if titled:
            done += [f".SS {text(titled.group(1))}", ticks(content[titled.end():])]
        elif kind == "text":
            done += [".PP", ticks(content)]
        elif kind == "item":
            done += [".IP \\(bu 4", ticks(content)]
        elif kind == "code":
            done += code(content)
        else:
            for term, meaning in content:
                done += [".TP", f"\\fB{text(term)}\\fR", ticks(meaning)]
    return done


def parse_header(header):
    """[(comment, declarations)] in order: what stands together in a paragraph of the header."""
    starts = "#define CKPT_VERSION_MAJOR" if "#define CKPT_VERSION_MAJOR" in header else "/* Returns"
    body = header[header.index(starts):header.rindex("#if defined(__GNUC__)")]
    found = []
    for block in re.split(r"\n\s*\n", body):
        block = "\n".join(line for line in block.split("\n") if not line.startswith("/* ----"))
        comment = re.match(r"\s*(/\*.*?\*/)\n", block, re.S)
        rest = block[comment.end():] if comment else block
        found.append((uncomment(comment.group(1)) if comment else [], rest.strip("\n")))
    return found


PROTOTYPE = re.compile(r"^(?!typedef|#|enum|struct|\s|\}|/\*)([a-z][\w *]*?\b(ckpt_\w+)\([^;{]*\));", re.M | re.S)


def functions(header):
    """{name: (prototype, comment)}: a function's comment is the one right above it, else that of its paragraph."""
    found = {}
    for comment, rest in parse_header(header):
        for match in PROTOTYPE.finditer(rest):
            above = re.search(r"(/\*(?:(?!\*/).)*\*/)\n$", rest[:match.start()], re.S)
            found[match.group(2)] = (match.group(1), uncomment(above.group(1)) if above else comment)
    return found


def summary_of(library, lines):
    """The first clause of the comment."""
    joined = " ".join(line.strip() for line in lines).replace("`", "")
    clause = re.split(r"(?<=[.:;])\s", re.sub(r" \([^()]*\)", "", joined))[0].rstrip(".:;")
    if not clause:
        return f"see {library}(3)"
    return clause if len(clause) <= 120 else clause[:117].rsplit(" ", 1)[0] + " ..."


def function_page(library, include, name, prototype, comment, version):
    flat = re.sub(r"\s+", " ", prototype)
    done = head(name, 3, summary_of(library, comment), version)
    done += [".SH SYNOPSIS", ".nf", f"\\fB#include <{include}>\\fR", "", f"\\fB{text(flat)};\\fR", ".fi", ".SH DESCRIPTION"]
    found = parts(comment)
    first = next((n for n, (kind, _) in enumerate(found) if kind == "errors"), len(found))
    done += render(found[:first]) or [".PP", f"See \\fB{library}\\fR(3)."]
    if found[first:]:
        done += [".SH ERRORS", *render(found[first:]), ".PP", f"Codes that most functions can return are in \\fB{library}\\fR(3)."]
    return done + [".SH SEE ALSO", f"\\fB{library}\\fR(3), \\fBckptd\\fR(8)"]


def library_page(library, include, header, found, version):
    overview = uncomment(re.match(r"/\*.*?\*/", header, re.S).group(0))
    title, body = overview[0], overview[1:]
    done = head(library, 3, title.partition(": ")[2].rstrip("."), version)
    done += [".SH SYNOPSIS", ".nf", f"\\fB#include <{include}>\\fR", "", f"\\fBcc\\fR ... $(pkg\\-config \\-\\-cflags \\-\\-libs {library[3:]})", ".fi",
             ".SH DESCRIPTION", *render(parts(body)), ".SH FUNCTIONS"]
    for name, (_, comment) in found.items():
        done += [".TP", f"\\fB{text(name)}\\fR(3)", text(summary_of(library, comment) + ".")]
    done += [".SH TYPES"]
    for comment, rest in parse_header(header):
        if re.search(r"^(typedef|enum|#define CKPT_(LATEST|INIT))", rest, re.M):
            done += render(parts(comment)) + code([line.replace("\t", "    ") for line in PROTOTYPE.sub("", rest).strip("\n").split("\n")])
    return done + [".SH SEE ALSO", "\\fBckptd\\fR(8), \\fBckpt\\fR(1), \\fBckpt\\-format\\fR(5)"]


# ---- pages from docs/


def document(name, section, summary, path, version):
    lines = path.read_text().splitlines()
    return head(name, section, summary, version) + [".SH DESCRIPTION"] + markdown(lines[1:])


def main():
    table_ = json.loads(pathlib.Path(sys.argv[1]).read_text())
    tree, out = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    header, reference = (tree / "libckpt/ckpt.h").read_text(), tree / "docs/reference"
    page = "\n".join(path.read_text() for path in (reference / "cli.md", *sorted(reference.glob("cli-*.md"))))
    version = ".".join(re.search(rf"CKPT_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
    pages = {("ckpt", 1): main_page(table_, page, version)}
    for command in table_["commands"]:
        pages[f"ckpt-{command['name']}", 1] = command_page(command, table_, page, version)
    for library, include in (("libckpt", "ckpt.h"), ("libckptreader", "ckpt_reader.h")):
        public = (tree / "libckpt" / include).read_text()
        found = functions(public)
        pages[library, 3] = library_page(library, include, public, found, version)
        for name, (prototype, comment) in found.items():
            pages[name, 3] = function_page(library, include, name, prototype, comment, version)
    pages["ckptd", 8] = document("ckptd", 8, "the checkpoint daemon of a node", tree / "docs/reference/ckptd.md", version)
    pages["ckpt-format", 5] = document("ckpt-format", 5, "the files of a checkpoint", tree / "docs/reference/format.md", version)
    pages["ckpt.conf", 5] = document("ckpt.conf", 5, "settings of the daemon, for a node and for each job", tree / "docs/reference/config.md", version)
    for (name, section), lines in pages.items():
        folder = out / f"man{section}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.{section}").write_text("\n".join(lines) + "\n")


main()
