"""The oldest CUDA toolkit that is promised, 12.8: what is C compiles against its headers, and calls nothing that its runtime has not. The kernels
need its compiler, and are built by integration/test_cuda_oldest. Where the headers are not, they are fetched (1 MB); this skips if they
cannot be."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tidy

FETCHED = tidy.ROOT / "build" / "cuda-12.8"
PACKAGE = "nvidia-cuda-runtime-cu12==12.8.*"
PLACES = [FETCHED, pathlib.Path("/usr/local/cuda-12.8")]
NEWER = pathlib.Path("/usr/local/cuda/include")  # has what the runtime's headers take from nvcc's: decorations
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-DCKPT_HAVE_CUDA", "-Wall", "-Wextra", "-Werror"]
# 12.8 wants to say which copy failed, 13 does not.
PLANTED = """#include <cuda_runtime_api.h>
int plant(void **to, const void **from, const size_t *n, struct cudaMemcpyAttributes *how, size_t *all);
int plant(void **to, const void **from, const size_t *n, struct cudaMemcpyAttributes *how, size_t *all)
{
	return cudaMemcpyBatchAsync(to, from, n, 1, how, all, 1, 0);
}
"""
OLDEST = "#include <cuda_runtime_api.h>\n_Static_assert(CUDART_VERSION == 12080, \"12.8\");\n"


def headers(place):
    """The folders to include from; [] where they are not."""
    runtime = sorted(place.rglob("cuda_runtime_api.h"))
    crt = sorted(place.rglob("crt/host_defines.h")) or sorted(NEWER.glob("crt/host_defines.h"))
    return [runtime[0].parent, crt[0].parent.parent] if runtime and crt else []


def compiled(source, includes, out=None):
    """What the compiler says; '' when it is content."""
    rooms = [tidy.ROOT / room for room in ("libckpt", "kernels", "trainer", "trainer/cuda")]
    command = ["cc", *FLAGS, *(f"-I{room}" for room in rooms), *(f"-isystem{folder}" for folder in includes)]
    done = subprocess.run([*command, *(["-c", "-o", out] if out else ["-fsyntax-only"]), source], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def sources():
    return [path for room in ("kernels/cuda", "kernels/capture", "kernels/restore", "kernels/runtime", "trainer/cuda") for path in sorted((tidy.ROOT / room).glob("*.c"))]


def snippets(includes):
    with tempfile.TemporaryDirectory() as folder:
        planted, oldest = pathlib.Path(folder) / "planted.c", pathlib.Path(folder) / "oldest.c"
        planted.write_text(PLANTED)
        oldest.write_text(OLDEST)
        problems = [] if compiled(planted, includes) else ["planted, not found: a call as CUDA 13 has it"]
        return [*problems, *compiled(oldest, includes).splitlines()]


def symbols(*command):
    done = subprocess.run(["nm", *command], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line.strip()}
    return {name for name in names if re.match("cuda[A-Z]", name)}


def calls(place, includes):
    """Of the runtime, beyond what it has."""
    runtime = sorted(place.rglob("libcudart.so.12*"))
    if not runtime:
        return []
    with tempfile.TemporaryDirectory() as folder:
        wrong, wanted = "", set()
        for path in sorted((tidy.ROOT / "kernels/runtime").glob("cuda_rt_*.c")):
            wrong += compiled(path, includes, f"{folder}/real.o")
            wanted |= set() if wrong else symbols("-u", f"{folder}/real.o")
    problems = [] if len(wanted) > 10 else [f"it calls next to nothing: {wanted} {wrong}"]
    return [*problems, *(f"{name} is not in {runtime[0].name}" for name in sorted(wanted - symbols("-D", runtime[0])))]


def look():
    return next(((place, headers(place)) for place in PLACES if headers(place)), None)


def fetch():
    """'' or why not."""
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--target", FETCHED, PACKAGE],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(FETCHED, ignore_errors=True)
    return (done.stderr.strip().splitlines() or ["no output"])[-1] if done.returncode else ""


why = "" if look() else fetch()
found = look()
if not found:
    tidy.skip(f"the headers of CUDA 12.8 are not here, and cannot be fetched: {why or 'there is no crt/host_defines.h'}")
tidy.report([
    ("the headers are those of 12.8, and tell a call of 13 from one of theirs", snippets(found[1])),
    ("what is C compiles against them", [line for path in sources() for line in compiled(path, found[1]).splitlines()]),
    ("and calls what the runtime has", calls(*found)),
])
