"""A build without a preset, `cmake -B DIR -DCMAKE_BUILD_TYPE=TYPE && cmake --build DIR`, makes the programs: no warning is an error there.
Nightly all of them, with every type and every compiler that is here (scripts/deps brings the oldest and the newest ones), with the kernels, and
optimised. By day the command alone: the presets compile the same files with the same compiler."""
# timeout: 5400

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import tap

ROOT = pathlib.Path(__file__).resolve().parents[3]
TYPES = ("Release", "Debug", "MinSizeRel", "RelWithDebInfo")
VERSIONS = range(9, 31)


def ran(*command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tap.expect(done.returncode == 0, shlex.join(str(word) for word in command), "\n", done.stdout[-tap.SHOWN:])
    return done.stdout


def compilers():
    """Those with a version in their name, beside the default one."""
    names = [f"{family}-{version}" for family in ("gcc", "clang") for version in VERSIONS]
    return ["cc"] + [name for name in names if shutil.which(name)]


def configure(folder, *settings):
    ran("cmake", "-S", ROOT, "-B", folder, *settings)
    return json.loads((folder / "compile_commands.json").read_text())


def errors_of(commands):
    return {word for command in commands for word in shlex.split(command["command"]) if word.startswith("-Werror")}


def build(top, compiler, kind):
    folder = top / f"{compiler}-{kind}"
    tests = "ON" if tap.NIGHTLY and compiler == "cc" else "OFF"
    quick = [] if tap.NIGHTLY else ["-DCKPT_CUDA=OFF", "-DCMAKE_C_FLAGS_RELEASE=-O0 -DNDEBUG"]
    commands = configure(folder, *quick, f"-DCKPT_TESTS={tests}", f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_BUILD_TYPE={kind}")
    tap.equal(errors_of(commands), set(), "warnings that are errors")
    ran("cmake", "--build", folder, "-j", os.cpu_count(), *([] if tap.NIGHTLY else ["--target", "ckpt"]))
    tap.has(ran(folder / "bin" / "ckpt", "--version"), "ckpt")
    shutil.rmtree(folder)


def presets(top):
    """The developers' builds do have them."""
    wanted = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    tap.equal({preset["name"]: preset["cacheVariables"].get("CKPT_WERROR") for preset in wanted},
              {preset["name"]: "ON" for preset in wanted})
    tap.expect("-Werror=return-type" in errors_of(configure(top / "strict", "-DCKPT_TESTS=OFF", "-DCKPT_WERROR=ON")), "CKPT_WERROR=ON has no effect")


cases = tap.Cases()
with tempfile.TemporaryDirectory() as folder:
    top = pathlib.Path(folder)
    cases.run("presets have errors of warnings, plain builds have none", presets, top)
    for compiler in compilers() if tap.NIGHTLY else ["cc"]:
        for kind in TYPES if tap.NIGHTLY else TYPES[:1]:
            cases.run(f"{kind} with {compiler}", build, top, compiler, kind)
    if tap.NIGHTLY:
        for family in ("gcc", "clang"):
            if not any(re.fullmatch(rf"{family}-\d+", name) for name in compilers()):
                cases.run(f"{family} with a version in its name", lambda family=family: f"no {family}-N is installed")
sys.exit(cases.end())
