"""venv.py FOLDER REQUIREMENTS [BASE]: makes a Python environment once, which sees the packages of BASE, too. When it cannot be
made, FOLDER/why-not says why, and the tests that need it skip with that reason."""

import pathlib
import re
import shutil
import subprocess
import sys

UNTRUSTED = re.compile(r"certificate verify failed: ([^(')]+)")
BROKEN = re.compile(r"connection broken by '(?:\w+\((?:'<[^>]*>: )?)?(.+?)[')]*': /")


def cause(said):
    """Why pip failed. Its last line says "No matching distribution", also when it has not reached any server."""
    if found := UNTRUSTED.search(said):
        return f"the certificate of the package index is not trusted ({found[1].strip()}): name the right authority, PIP_CERT=FILE"
    if found := BROKEN.search(said):
        return f"the package index is not reached: {found[1]}"
    return (said.strip().splitlines() or ["no output"])[-1]


def make(folder, requirements, base):
    subprocess.run([str(base / "bin" / "python") if base else sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
    if base:
        for site, own in zip(sorted(base.glob("lib/python*/site-packages")), sorted(folder.glob("lib/python*/site-packages"))):
            (own / "base.pth").write_text(f"{site.resolve()}\n")
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--no-cache-dir", "--timeout", "15", "--retries", "1"]
    subprocess.run(pip + ["install", "-q", "-r", str(requirements)], check=True, capture_output=True, text=True)


def main():
    folder, requirements, *more = map(pathlib.Path, sys.argv[1:])
    base = more[0] if more else None
    made_from, why_not = folder / "made-from", folder / "why-not"
    wanted = requirements.read_text() + (f"# on {(base / 'made-from').read_text()}" if base and (base / "made-from").exists() else "")
    if made_from.exists() and made_from.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    print("venv: installing the Python packages of the tests", flush=True)
    try:
        if base and (base / "why-not").exists():
            raise subprocess.CalledProcessError(1, "venv", stderr=(base / "why-not").read_text())
        make(folder, requirements, base)
    except subprocess.CalledProcessError as error:
        why = cause(error.stderr or error.stdout or str(error))
        folder.mkdir(parents=True, exist_ok=True)
        why_not.write_text(f"{folder} cannot be made: {why}\n")
        print(f"venv: {why}")
        return
    made_from.write_text(wanted)


main()
