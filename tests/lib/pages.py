"""What the pages of docs/howto tell to type, for the tests that type it; and what those of the command line say."""

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs"
HOWTO = DOCS / "howto"


def command_line():
    """All of it: cli.md, and a page for each group of commands."""
    reference = DOCS / "reference"
    return "\n".join(path.read_text() for path in (reference / "cli.md", *sorted(reference.glob("cli-*.md"))))


def commands(page, prompt="$"):
    """"$": by a user, "#": by an administrator."""
    found = re.findall(rf"^ +{re.escape(prompt)} (.*)$", (HOWTO / page).read_text(), re.M)
    assert found, f"{page} tells nothing to type"
    return found


def at(command, places):
    """With other paths in place of the page's: {page's: ours}."""
    return re.sub("|".join(map(re.escape, sorted(places, key=len, reverse=True))), lambda found: str(places[found.group()]), command)
