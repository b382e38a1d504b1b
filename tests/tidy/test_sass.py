"""The machine code of the kernels: a warp that digests or packs asks for all that it takes at once before it uses the first of it, so that it
waits for memory once; and no kernel of a save keeps anything in local memory. Needs nvcc, and nvdisasm from tests/requirements.txt."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import tidy

# What a lane loads before it uses any of it, in words of 16 bytes.
WANTED = {"digest_kernel": 8, "pack_kernel": 4, "unpack_kernel": 4}
FILES = {"gpu_digest.cu": ["digest_kernel"], "gpu_pack.cu": ["pack_kernel", "unpack_kernel"]}
ARCHITECTURES = (80, 90, 100, 120)
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


def nvdisasm():
    python = os.environ.get("CKPT_PYTHON", "")
    beside = sorted(pathlib.Path(python).parent.parent.glob("lib/python*/site-packages/nvidia/*/bin/nvdisasm")) if python else []
    return str(beside[0]) if beside else shutil.which("nvdisasm")


def functions(source, architecture, disassembler):
    """name → (lines of its machine code, bytes of its stack)."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["nvcc", "-std=c++17", "-O2", "-cubin", f"-arch=sm_{architecture}", "-Xptxas", "-v", f"-I{tidy.ROOT}/kernels",
                   f"-I{tidy.ROOT}/libckpt", str(source), "-o", f"{folder}/code.cubin"]
        built = subprocess.run(command, capture_output=True, text=True, check=True)
        code = subprocess.run([disassembler, "-c", f"{folder}/code.cubin"], capture_output=True, text=True, check=True).stdout
    stacks = dict(re.findall(r"Compiling entry function '(\S+)'.*\n(?:.*\n)?\s+(\d+) bytes stack frame", built.stderr))
    found = {}
    for part in re.split(r"^\.text\.", code, flags=re.M)[1:]:
        name = part.split(":")[0]
        found[name] = (part.splitlines(), int(stacks.get(name, -1)))
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


def problems_of(source, wanted, architecture, disassembler):
    problems = []
    code = functions(source, architecture, disassembler)
    for kernel in wanted:
        name = next((mangled for mangled in code if kernel in mangled and len(mangled) < 80), None)
        if not name:
            problems.append(f"sm_{architecture}: no {kernel} in {source.name}")
            continue
        lines, stack = code[name]
        words = at_once(lines)
        if words < WANTED[kernel]:
            problems.append(f"sm_{architecture}: {kernel} has {words} words of 16 bytes under way, not {WANTED[kernel]}")
        # The fast way is in front of what it calls, which stands behind the kernel's own end.
        if kernel == "digest_kernel" and stack:
            problems.append(f"sm_{architecture}: {kernel} keeps {stack} bytes in local memory")
    return problems


def planted(disassembler):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "planted.cu"
        source.write_text(PLANTED)
        found = problems_of(source, ["digest_kernel"], 90, disassembler)
    return [f"planted, not found: {what}" for what in ("under way", "local memory") if not any(what in line for line in found)]


disassembler = nvdisasm()
if not shutil.which("nvcc"):
    tidy.skip("nvcc is not here")
if not disassembler:
    tidy.skip("nvdisasm is not here: scripts/test installs it from tests/requirements.txt")
tidy.report([
    ("a kernel that waits for each word, and one with local memory, are found", planted(disassembler)),
    *((f"sm_{architecture}: loads are under way together, in registers",
       [line for name, kernels in FILES.items()
        for line in problems_of(tidy.ROOT / "kernels" / name, kernels, architecture, disassembler)])
      for architecture in ARCHITECTURES),
])
