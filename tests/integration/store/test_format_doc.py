"""The worked example and the test vectors of docs/reference/format.md are what the code makes."""

import os
import pathlib
import subprocess
import sys

program = os.path.join(os.environ["CKPT_BUILD"], "format_example")
lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
page = pathlib.Path(__file__).resolve().parents[3] / "docs" / "reference" / "format.md"
written = {line.strip() for line in page.read_text().splitlines()}
missing = [line for line in lines if line.strip() not in written]
for line in missing:
    print(f"docs/reference/format.md lacks this line:\n    {line}")
if len(lines) < 20:
    print(f"{program} printed only {len(lines)} lines")
sys.exit(1 if missing or len(lines) < 20 else 0)
