"""The kernels, the device layer and the trainer's kernels built by the oldest CUDA toolkit that is promised, 12.8: its headers, its assembler,
its runtime. No package index has its nvcc, so clang is the compiler in its place. The program that comes out starts, and says that there is no
GPU. Nightly, since the toolkit's packages have 44 MB; skips where they cannot be installed, or where clang is too old."""
# timeout: 1500

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

import tap

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOLKIT = ROOT / "build" / "cuda-12.8-toolkit"
PACKAGES = ("nvidia-cuda-runtime-cu12==12.8.*", "nvidia-cuda-nvcc-cu12==12.8.*", "nvidia-cuda-cccl-cu12==12.8.*")
CLANGS = range(30, 17, -1)  # 18 is the first that knows CUDA 12.3, and all of its later headers
ARCHITECTURES = ("sm_80", "sm_90")
ROOMS = ("libckpt", "kernels", "trainer", "trainer/cuda", "bench/shared", "tests/unit/kernels")
SKIPPED, NO_GPU = 77, "no GPU: not measured ("
# What nvcc's headers have and clang's have not.
MISSING = """#pragma once
template <typename T> static __device__ inline T __ldcs(const T *at) { return *at; }
template <typename T> static __device__ inline void __stcs(T *at, T value) { *at = value; }
"""
# CUDA 13's program has other words for what clang says; 12.8's is not among the packages.
FATBINARY = """#!/usr/bin/env python3
import os, re, sys
def word(arg):
    found = re.fullmatch(r"-?-image=profile=(sm|compute)_(\\d+),file=(.*)", arg)
    return f"--image3=kind={'elf' if found[1] == 'sm' else 'ptx'},sm={found[2]},file={found[3]}" if found else arg
os.execv(FATBINARY, [FATBINARY, *map(word, sys.argv[1:])])
"""


def skip(why):
    print(f"skipped: {why}" if why else "skipped")
    sys.exit(SKIPPED)


def ran(*command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    tap.expect(done.returncode == 0, *command, "\n", done.stdout[-tap.SHOWN:])
    return done.stdout


def compiler():
    found = next((name for n in CLANGS for name in (f"clang++-{n}",) if shutil.which(name)), None)
    return found or skip(f"no clang++ of version {CLANGS[-1]} or newer")


def fetch(folder):
    """The packages' files, as the toolkit has them."""
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--target", folder, *PACKAGES],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        skip(f"the packages of CUDA 12.8 cannot be installed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")


def toolkit():
    fatbinary = shutil.which("fatbinary") or "/usr/local/cuda/bin/fatbinary"
    if not os.path.exists(fatbinary):
        skip("no fatbinary of a newer CUDA toolkit")
    if (TOOLKIT / "made").exists():
        return TOOLKIT
    shutil.rmtree(TOOLKIT, ignore_errors=True)
    wheels = TOOLKIT / "wheels"
    fetch(wheels)
    for package in ("cuda_runtime", "cuda_nvcc", "cuda_cccl"):
        shutil.copytree(wheels / "nvidia" / package / "include", TOOLKIT / "include", dirs_exist_ok=True)
    shutil.copytree(wheels / "nvidia" / "cuda_nvcc" / "nvvm" / "libdevice", TOOLKIT / "nvvm" / "libdevice")
    for folder in ("bin", "lib64"):
        (TOOLKIT / folder).mkdir()
    shutil.copy(wheels / "nvidia" / "cuda_nvcc" / "bin" / "ptxas", TOOLKIT / "bin" / "ptxas")
    (TOOLKIT / "bin" / "fatbinary").write_text(FATBINARY.replace("FATBINARY", repr(fatbinary)))
    for name in ("ptxas", "fatbinary"):
        (TOOLKIT / "bin" / name).chmod(0o755)
    (TOOLKIT / "missing.cuh").write_text(MISSING)
    (TOOLKIT / "made").touch()
    return TOOLKIT


def includes(home):
    return [*(f"-I{ROOT / room}" for room in ROOMS), "-isystem", home / "include"]


def compile_kernel(clang, home, source, out):
    ran(clang, "-std=c++17", "-O2", "-fPIC", "-x", "cuda", f"--cuda-path={home}", *(f"--cuda-gpu-arch={a}" for a in ARCHITECTURES),
        "-Wno-unknown-cuda-version", "-include", home / "missing.cuh", *includes(home), "-c", source, "-o", out)


def compile_c(home, source, out):
    ran("cc", "-std=gnu17", "-D_GNU_SOURCE", "-DCKPT_HAVE_CUDA", "-O1", *includes(home), "-c", source, "-o", out)


def objects(clang, home, folder, sources):
    outs = [folder / ("-".join(source.relative_to(ROOT).parts) + ".o") for source in sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        work = [pool.submit(compile_kernel, clang, home, source, out) if source.suffix == ".cu" else pool.submit(compile_c, home, source, out)
                for source, out in zip(sources, outs)]
        for one in work:
            one.result()
    return outs


def glob(*patterns):
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def main():
    if not tap.NIGHTLY and not os.environ.get("CKPT_CUDA_OLDEST"):
        skip("nightly, or with CKPT_CUDA_OLDEST=1")
    clang, home = compiler(), toolkit()
    tap.has(ran(home / "bin" / "ptxas", "--version"), "release 12.8,")
    folder = pathlib.Path(os.environ["TMPDIR"])
    kernels = glob("kernels/gpu/*.cu", "bench/shared/*.cu")
    tap.expect(len(kernels) > 3, "next to no kernels", kernels)
    program = glob("libckpt/base/*.c", "libckpt/format/*/*.c", "kernels/*/*.c", "bench/shared/gpu.c")
    program += [ROOT / "tests/unit/kernels/sample.c", ROOT / "tests/gpu/test_device.c"]
    outs = objects(clang, home, folder, kernels + program)
    objects(clang, home, folder, glob("trainer/cuda/*.cu"))
    runtime = next(home.glob("wheels/nvidia/cuda_runtime/lib/libcudart.so.12"))
    libraries = ran("pkg-config", "--libs", "libxxhash", "jansson").split()
    ran("c++", *outs, "-o", folder / "device", runtime, f"-Wl,-rpath,{runtime.parent}", *libraries, "-lpthread", "-ldl", "-lm")
    done = subprocess.run([folder / "device"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    tap.equal(done.returncode, SKIPPED, done.stdout + done.stderr)
    tap.has(done.stdout, NO_GPU)
    print(f"built with CUDA 12.8 by {clang} for {', '.join(ARCHITECTURES)}: {done.stdout.strip()}")


main()
