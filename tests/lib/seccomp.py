"""System calls that are refused, as a container's profile refuses them."""

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
EPERM, EINVAL = 1, 22
CALLS = {"io_uring_setup": 425, "pidfd_open": 434, "memfd_create": 319, "linkat": 265, "flock": 73, "openat": 257, "fsync": 74}  # of x86_64


def forbid(call, error=EPERM, flag=None):
    """In the child (preexec_fn): a seccomp filter. flag: only when that bit is set in the third argument."""
    def statement(code, jump_true, jump_false, k):
        return struct.pack("HBBI", code, jump_true, jump_false, k)

    load, equals, has_bit, answer = 0x20, 0x15, 0x45, 0x06
    program = [statement(load, 0, 0, 0), statement(equals, 0, 1 if flag is None else 3, CALLS[call])]
    if flag is not None:
        program += [statement(load, 0, 0, 16 + 2 * 8), statement(has_bit, 0, 1, flag)]
    program += [statement(answer, 0, 0, 0x00050000 | error), statement(answer, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))

    def set_up():
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, 2, header):
            os._exit(99)

    set_up.keeps = code
    return set_up
