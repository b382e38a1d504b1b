"""venv.py FOLDER REQUIREMENTS: makes a Python environment once. Without a network it cannot be made: then FOLDER/why-not
says so, and the tests that need it skip with that reason."""

import pathlib
import shutil
import subprocess
import sys


def make(folder, requirements):
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--timeout", "15", "--retries", "1"]
    subprocess.run(pip + ["install", "-q", "-r", str(requirements)], check=True, capture_output=True, text=True)


def main():
    folder, requirements = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    made_from, why_not = folder / "made-from", folder / "why-not"
    wanted = requirements.read_text()
    if made_from.exists() and made_from.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    print("venv: installing the Python packages of the tests", flush=True)
    try:
        make(folder, requirements)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or str(error)).strip().splitlines() or ["no output"]
        folder.mkdir(parents=True, exist_ok=True)
        why_not.write_text(f"build/venv cannot be made (no network?): {lines[-1]}\n")
        print(f"venv: {lines[-1]}")
        return
    made_from.write_text(wanted)


main()
