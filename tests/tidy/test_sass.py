"""The machine code of the kernels as they were built, of each architecture: a warp that digests or packs asks for all that it takes at once before it
uses the first of it, so that it waits for memory once; and no kernel of a save or a restore keeps anything in local memory, nor spills to it.
Needs the release build, and nvdisasm and cuobjdump from tests/requirements.txt."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import tidy

# What a lane loads before it uses any of it, in words of 16 bytes.
WANTED = {"digest_kernel": 8, "pack_kernel": 4, "unpack_kernel": 4, "tell_kernel": 0}
FILES = {"gpu_digest": ["digest_kernel"], "gpu_pack": ["pack_kernel", "unpack_kernel"], "gpu_tell": ["tell_kernel"]}
OLDEST = "80"
PLANTED = """
#include <cuda_runtime.h>
__global__ void digest_kernel(const uint4 *from, uint4 *to, int n, int k)
{
	volatile int kept[64];
	uint4 sum = from[threadIdx.x];
	for (int i = 1; i < n; i++) {
		kept[i % 64] = sum.x;
		sum.x += from[sum.x % 1024].y + kept[k % 64];
		to[i] = sum;
	}
}
"""


def tool(name):
    python = os.environ.get("CKPT_PYTHON", "")
    beside = sorted(pathlib.Path(python).parent.parent.glob(f"lib/python*/site-packages/nvidia/*/bin/{name}")) if python else []
    return str(beside[0]) if beside else shutil.which(name)


def said(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **more).stdout


def images(compiled):
    """architecture → kernel → (lines of its machine code, bytes of its stack), of an object file or of device code alone."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        code = [compiled]
        if compiled.suffix == ".o":
            said(CUOBJDUMP, "-xelf", "all", compiled.resolve(), cwd=folder)
            code = sorted(pathlib.Path(folder).glob("*.cubin"))
        for cubin in code:
            usage = said(CUOBJDUMP, "-res-usage", cubin)
            stacks = {name: int(stack) for name, stack in re.findall(r"Function (\S+):\s+REG:\d+ STACK:(\d+)", usage)}
            architecture = re.search(r"\.sm_(\d+)", cubin.name).group(1)
            for part in re.split(r"^\.text\.", said(NVDISASM, "-c", cubin), flags=re.M)[1:]:
                name = part.split(":")[0]
                if name in stacks:
                    found.setdefault(architecture, {})[name] = (part.splitlines(), stacks[name])
    return found


def at_once(lines):
    """The most words of 16 bytes that are asked for before any of them is used."""
    most, pending = 0, []
    for line in lines:
        words = re.search(r"\*/\s+(@!?U?P\d+ )?(\S+)(.*?);", line)
        if not words:
            continue
        guard, operation, rest = words.groups()
        loads = operation.startswith("LDG") and "128" in operation
        used = {int(register) for register in re.findall(r"\bR(\d+)\b", rest.split(",", 1)[1] if loads else rest)}
        if any(first <= register < first + 4 for first in pending for register in used) or operation.startswith(("EXIT", "RET")):
            pending = []
        if loads and not guard:
            pending.append(int(re.search(r"R(\d+)", rest).group(1)))
            most = max(most, len(pending))
    return most


def problems_of(name, wanted, architecture, code):
    problems = []
    for kernel in wanted:
        lines, stack = next((code[mangled] for mangled in code if re.search(rf"\d{kernel}", mangled)), (None, 0))
        if not lines:
            problems.append(f"sm_{architecture}: no {kernel} in {name}")
            continue
        words = at_once(lines)
        if words < WANTED[kernel]:
            problems.append(f"sm_{architecture}: {kernel} has {words} words of 16 bytes under way, not {WANTED[kernel]}")
        if stack:
            problems.append(f"sm_{architecture}: {kernel} keeps {stack} bytes in local memory")
    return problems


def planted():
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = pathlib.Path(folder) / "planted.cu", pathlib.Path(folder) / f"planted.sm_{OLDEST}.cubin"
        source.write_text(PLANTED)
        said("nvcc", "-O2", "-cubin", f"-arch=sm_{OLDEST}", source, "-o", compiled)
        found = [line for architecture, code in images(compiled).items() for line in problems_of("planted.cu", ["digest_kernel"], architecture, code)]
    return [f"planted, not found: {what}" for what in ("under way", "local memory") if not any(what in line for line in found)]


def built():
    """name → its object of the release build, if that is of the sources as they are now."""
    objects = {}
    newest = max(path.stat().st_mtime for path in tidy.sources(tidy.ROOT / "kernels", ".cu", ".cuh"))
    for name in FILES:
        found = sorted((tidy.ROOT / "build" / "release" / "kernels").glob(f"**/{name}.cu.o"))
        if found and found[0].stat().st_mtime > newest:
            objects[name] = found[0]
    return objects


def checked(objects):
    """architecture → problems, of all objects."""
    problems = {}
    for name, compiled in objects.items():
        for architecture, code in images(compiled).items():
            problems.setdefault(architecture, []).extend(problems_of(name, FILES[name], architecture, code))
    return problems


NVDISASM, CUOBJDUMP = tool("nvdisasm"), tool("cuobjdump")
if not shutil.which("nvcc"):
    tidy.skip("nvcc is not here")
if not NVDISASM or not CUOBJDUMP:
    tidy.skip("nvdisasm or cuobjdump is not here: scripts/test installs them from tests/requirements.txt")
if len(built()) < len(FILES):
    tidy.skip("build/release has no kernels of the present sources: scripts/build makes them")
architectures = checked(built())
tidy.report([
    ("a kernel that waits for each word, and one with local memory, are found", planted()),
    ("there is code for the oldest architecture", [] if OLDEST in architectures else [f"no code for sm_{OLDEST}"]),
    *((f"sm_{architecture}: loads are under way together, in registers", lines) for architecture, lines in architectures.items()),
])
