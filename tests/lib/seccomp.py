"""System calls that are refused, as a container's profile refuses them. seccomp.py PROFILE COMMAND…: runs it under a profile as container runtimes
read it (x86_64)."""

import ctypes
import json
import os
import pathlib
import re
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
EPERM, EINVAL = 1, 22
CALLS = {"io_uring_setup": 425, "pidfd_open": 434, "memfd_create": 319, "linkat": 265, "flock": 73, "openat": 257, "fsync": 74}  # of x86_64


LOAD, EQUALS, HAS_BIT, AND, ANSWER = 0x20, 0x15, 0x45, 0x54, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ARGUMENTS, ARCH, X86_64 = 16, 4, 0xC000003E  # offsets in struct seccomp_data; AUDIT_ARCH_X86_64
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")


def statement(code, jump_true, jump_false, k):
    return struct.pack("HBBI", code, jump_true, jump_false, k)


def installs(program):
    """What puts the filter into force: for preexec_fn, or before exec."""
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))

    def set_up():
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, 2, header):
            os._exit(99)

    set_up.keeps = code
    return set_up


def forbid(call, error=EPERM, flag=None):
    """In the child (preexec_fn): a seccomp filter. flag: only when that bit is set in the third argument."""
    program = [statement(LOAD, 0, 0, 0), statement(EQUALS, 0, 1 if flag is None else 3, CALLS[call])]
    if flag is not None:
        program += [statement(LOAD, 0, 0, ARGUMENTS + 2 * 8), statement(HAS_BIT, 0, 1, flag)]
    return installs([*program, statement(ANSWER, 0, 0, ERRNO | error), statement(ANSWER, 0, 0, ALLOW)])


def numbers():
    """Those of all system calls; None where the header is missing."""
    path = next((path for path in map(pathlib.Path, HEADERS) if path.exists()), None)
    return path and {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", path.read_text())}


def permitted(rule, known):
    """A rule that allows, as statements behind the load of the number. Names that this processor does not have do not count."""
    assert rule["action"] == "SCMP_ACT_ALLOW", rule
    for name in rule["names"]:
        if name not in known:
            continue
        if not rule.get("args"):
            yield from (statement(EQUALS, 0, 1, known[name]), statement(ANSWER, 0, 0, ALLOW))
            continue
        (arg,) = rule["args"]
        mask, value = {"SCMP_CMP_EQ": (0xFFFFFFFF, arg["value"]), "SCMP_CMP_MASKED_EQ": (arg["value"], arg.get("valueTwo", 0))}[arg["op"]]
        yield from (statement(EQUALS, 0, 5, known[name]), statement(LOAD, 0, 0, ARGUMENTS + 8 * arg["index"]), statement(AND, 0, 0, mask),
                    statement(EQUALS, 0, 1, value), statement(ANSWER, 0, 0, ALLOW), statement(LOAD, 0, 0, 0))


def profile(document, known):
    assert document["defaultAction"] == "SCMP_ACT_ERRNO", document["defaultAction"]
    refused = statement(ANSWER, 0, 0, ERRNO | document.get("defaultErrnoRet", EPERM))
    program = [statement(LOAD, 0, 0, ARCH), statement(EQUALS, 1, 0, X86_64), refused, statement(LOAD, 0, 0, 0)]
    for rule in document["syscalls"]:
        program += permitted(rule, known)
    return installs([*program, refused])


if __name__ == "__main__":
    profile(json.loads(pathlib.Path(sys.argv[1]).read_text()), numbers())()
    os.execvp(sys.argv[2], sys.argv[2:])
