"""Prometheus' text format 0.0.4: read strictly, and held against its conventions of naming."""

import re

from tap import Failure, expect

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
BASE_UNITS = ("seconds", "bytes", "ratio")
OTHER_UNITS = ("milliseconds", "microseconds", "nanoseconds", "ms", "ns", "us", "minutes", "hours", "kilobytes", "megabytes", "percent")


class Family:
    def __init__(self, name, help):
        self.name, self.help, self.type, self.samples = name, help, None, {}

    def value(self, name=None, **labels):
        """The one sample with these labels (and others perhaps)."""
        found = [v for (n, items), v in self.samples.items() if n == (name or self.name) and set(labels.items()) <= set(items)]
        expect(len(found) == 1, f"{len(found)} samples of {name or self.name} {labels}")
        return found[0]


def labels_of(text):
    at, labels = 0, []
    while at < len(text or ""):
        match = LABEL.match(text, at)
        if not match:
            raise Failure(f"labels: {text[at:]!r}")
        labels.append((match[1], re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), match[2])))
        at = match.end()
    expect(len({name for name, _ in labels}) == len(labels), f"a label twice: {text}")
    return tuple(sorted(labels))


def parse(text):
    """{name: Family}. Each family once, HELP and TYPE first, its samples together and none twice."""
    families, now = {}, None
    expect(text.endswith("\n"), "the last line does not end")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, help = line[7:].partition(" ")
            expect(name not in families and help, f"HELP: {line}")
            now = families[name] = Family(name, help)
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            expect(now and now.name == name and now.type is None, f"TYPE without its HELP: {line}")
            expect(kind in ("counter", "gauge", "histogram"), line)
            now.type = kind
        else:
            match = SAMPLE.fullmatch(line)
            expect(match and now and now.type, f"no sample: {line!r}")
            allowed = [now.name] if now.type != "histogram" else [f"{now.name}_{part}" for part in ("bucket", "sum", "count")]
            expect(match[1] in allowed, f"{match[1]} among the samples of {now.name}")
            key = match[1], labels_of(match[2])
            expect(key not in now.samples, f"twice: {line}")
            now.samples[key] = float(match[3])
    return families


def check_histogram(family):
    buckets = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            rest = tuple(pair for pair in labels if pair[0] != "le")
            buckets.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    for labels, pairs in buckets.items():
        expect(pairs == sorted(pairs) and pairs[-1][0] == float("inf"), f"{family.name}: buckets out of order: {pairs}")
        expect([v for _, v in pairs] == sorted(v for _, v in pairs), f"{family.name}: not cumulative: {pairs}")
        expect(family.samples[f"{family.name}_count", labels] == pairs[-1][1], f"{family.name}: +Inf is not the count")
        expect((f"{family.name}_sum", labels) in family.samples, f"{family.name}: no sum")


def lint(families, prefix):
    """What promtool check metrics complains of."""
    for family in families.values():
        name, words = family.name, family.name.split("_")
        expect(name.startswith(prefix) and name == name.lower() and ":" not in name, f"{name}: name")
        expect((words[-1] == "total") == (family.type == "counter"), f"{name}: a {family.type}")
        expect(not set(words) & set(OTHER_UNITS), f"{name}: not in base units")
        expect(not set(words) & {"gauge", "counter", "histogram"}, f"{name}: its type in its name")
        expect(words[-1] not in ("count", "sum", "bucket"), f"{name}: ends like a part of a histogram")
        expect(family.type != "histogram" or words[-1] in BASE_UNITS, f"{name}: without a unit")
        expect(family.help.endswith("."), f"{name}: its help is no sentence")
        if family.type == "counter":
            expect(all(value >= 0 for value in family.samples.values()), f"{name}: negative")
        if family.type == "histogram":
            check_histogram(family)
