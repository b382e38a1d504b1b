"""Each picture of docs/pictures is what the program beside it prints, so that nobody edits a picture and loses that with the next change."""

import subprocess
import sys

import tidy

FOLDER = "docs/pictures"
SHARED = "svg.py"


def check(root):
    folder, problems = root / FOLDER, []
    programs = {path.stem: path for path in folder.glob("*.py") if path.name != SHARED}
    pictures = {path.stem: path for path in folder.glob("*.svg")}
    for name in sorted(programs.keys() | pictures.keys()):
        if name not in programs or name not in pictures:
            problems.append(f"{FOLDER}/{name}: needs a .py and its .svg")
            continue
        done = subprocess.run([sys.executable, "-B", programs[name]], capture_output=True, text=True, timeout=60)
        if done.returncode:
            problems.append(f"{FOLDER}/{name}.py: fails: {done.stderr.strip().splitlines()[-1:]}")
        elif done.stdout != pictures[name].read_text():
            problems.append(f"{FOLDER}/{name}.svg: not what {name}.py prints: python3 {FOLDER}/{name}.py > {FOLDER}/{name}.svg")
    return problems


PLANTED = {
    "docs/pictures/svg.py": "def show():\n    print('<svg/>')\n",
    "docs/pictures/good.py": "import svg\nsvg.show()\n",
    "docs/pictures/good.svg": "<svg/>\n",
    "docs/pictures/edited.py": "import svg\nsvg.show()\n",
    "docs/pictures/edited.svg": "<svg>by hand</svg>\n",
    "docs/pictures/broken.py": "import nothing_of_that_name\n",
    "docs/pictures/broken.svg": "<svg/>\n",
    "docs/pictures/alone.svg": "<svg/>\n",
}

tidy.report([
    ("an edited, a broken and a lonely picture are found", tidy.finds(check, PLANTED, ["edited.svg", "broken.py", "alone"])),
    ("every picture is what its program prints", check(tidy.ROOT)),
])
