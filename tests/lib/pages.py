"""What the pages of docs/howto tell to type, for the tests that type it."""

import pathlib
import re

HOWTO = pathlib.Path(__file__).parents[2] / "docs" / "howto"


def commands(page, prompt="$"):
    """"$": by a user, "#": by an administrator."""
    found = re.findall(rf"^ +{re.escape(prompt)} (.*)$", (HOWTO / page).read_text(), re.M)
    assert found, f"{page} tells nothing to type"
    return found


def at(command, places):
    """With other paths in place of the page's: {page's: ours}."""
    return re.sub("|".join(map(re.escape, sorted(places, key=len, reverse=True))), lambda found: str(places[found.group()]), command)
