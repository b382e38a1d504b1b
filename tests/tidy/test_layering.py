"""Every #include against the table of rooms: who may see whose headers, and where a third-party header may appear."""

import fnmatch
import re

import tidy

STORE = ("libckpt/base", "libckpt/format/*", "libckpt/store/disk", "kernels.h")
CLIENT = ("libckpt/base", "libckpt/format/*", "kernels.h", "ckpt.h")
KERNELS = ("libckpt/base", "libckpt/format/*", "kernels.h")
CLI = ("libckpt/base", "libckpt/format/*", "libckpt/config", "libckpt/store/*", "ckpt.h")

# Room: the rooms whose headers it may include, besides its own. A room is named by its folder; the deepest one counts.
MAY_INCLUDE = {
    "libckpt/base": (),
    "libckpt/format/tensor": ("libckpt/base",),
    "libckpt/format/document": ("libckpt/base", "libckpt/format/tensor"),
    "libckpt/format/arena": ("libckpt/base", "libckpt/format/tensor"),
    "libckpt/format/files": ("libckpt/base", "libckpt/format/tensor", "libckpt/format/document", "libckpt/format/arena"),
    "libckpt/format/message": ("libckpt/base", "libckpt/format/tensor", "libckpt/format/files", "libckpt/format/arena"),
    "libckpt/config": ("libckpt/base", "libckpt/format/*"),
    "libckpt/store/disk": ("libckpt/base", "libckpt/format/*"),
    "libckpt/store/read": STORE,
    "libckpt/store/check": (*STORE, "libckpt/store/read"),
    "libckpt/store/manage": (*STORE, "libckpt/store/read"),
    "libckpt/store/catalog": (*STORE, "libckpt/store/read"),
    "libckpt/client/capture": CLIENT,
    "libckpt/client/session": (*CLIENT, "libckpt/client/capture"),
    "libckpt/client/save": (*CLIENT, "libckpt/client/capture", "libckpt/client/session"),
    "libckpt/client/restore": (*CLIENT, "libckpt/client/capture", "libckpt/client/session"),
    "libckpt/reader": (*STORE, "libckpt/store/*", "ckpt.h", "ckpt_reader.h"),
    "libckpt": ("ckpt.h",),
    "kernels": ("libckpt/base", "libckpt/format/*"),
    "kernels/span": KERNELS,
    "kernels/host": (*KERNELS, "kernels/span"),
    "kernels/gpu": (*KERNELS, "kernels/span"),
    "kernels/runtime": (*KERNELS, "kernels/gpu"),
    "kernels/cuda": (*KERNELS, "kernels/span", "kernels/gpu", "kernels/runtime"),
    "kernels/capture": (*KERNELS, "kernels/span", "kernels/gpu", "kernels/runtime", "kernels/cuda"),
    "kernels/restore": (*KERNELS, "kernels/span", "kernels/gpu", "kernels/runtime", "kernels/cuda", "kernels/capture"),
    "ckptd": ("libckpt/base", "libckpt/format/*", "libckpt/config", "libckpt/store/*", "kernels.h"),
    "ckptd/cluster/link": ("libckpt/base", "libckpt/format/*", "ckptd"),
    "ckptd/cluster/net": ("libckpt/base", "libckpt/format/*", "ckptd", "ckptd/cluster/link"),
    "cli": (*CLI, "cli/*"),
    "cli/frame": CLI,
    "cli/inspect": (*CLI, "cli/frame"),
    "cli/change": (*CLI, "cli/frame"),
    "cli/operate": (*CLI, "cli/frame"),
    "cli/faults": (*CLI, "cli/frame"),
    "cli/plan": (*CLI, "cli/frame"),
    "cli/report": (*CLI, "cli/frame", "cli/plan"),
    "cli/journal": (*CLI, "cli/frame"),
    "cli/judge": (*CLI, "cli/frame", "cli/journal"),
    "cli/network": (*CLI, "cli/frame", "cli/process", "cli/journal"),
    "cli/campaign": (*CLI, "cli/frame", "cli/process", "cli/remote", "cli/faults", "cli/report", "cli/journal", "cli/judge", "cli/network"),
    "cli/process": (*CLI, "cli/frame"),
    "cli/remote": (*CLI, "cli/frame", "cli/process"),
    "cli/starter": (*CLI, "cli/frame", "cli/process", "cli/remote"),
    "cli/launcher": (*CLI, "cli/frame", "cli/process", "cli/starter"),
    "trainer/common": (),
    "trainer/collective": ("trainer/common", "ckpt.h"),
    "trainer/model": ("trainer/common", "trainer/collective"),
    "trainer/cuda": ("trainer/common", "trainer/collective", "trainer/model"),
    "trainer/loop": ("trainer/common", "trainer/collective", "trainer/model", "ckpt.h"),
    "trainer": ("trainer/*", "ckpt.h"),
    "bench": ("*",),
    "tests": ("*",),
    "docs": ("ckpt.h",),
    "python": ("ckpt.h",),
}

# The header that stands for a whole room where only its public face may be seen.
PUBLIC = {"libckpt/ckpt.h": "ckpt.h", "libckpt/ckpt_reader.h": "ckpt_reader.h", "kernels/kernels.h": "kernels.h"}

# Third-party headers, and the files that may include them; tests and benchmarks may include any but CUDA's. Headers of the
# C library and the kernel are free.
THIRD_PARTY = {
    "liburing.h": ("libckpt/store/disk/disk_real_uring*",),
    "rdma/*": ("ckptd/cluster/net/*",),
    "sqlite3.h": ("ckptd/catalog/catalog.c", "ckptd/catalog/catalog_db.c", "libckpt/store/catalog/catalog_view.c", "libckpt/store/catalog/database.c", "libckpt/store/catalog/listed.c", "libckpt/store/catalog/recovered.c"),
    "jansson.h": ("cli/frame/output*", "ckptd/observe/status.c", "ckptd/observe/interval_json*", "ckptd/observe/loss_json*", "ckptd/runtime/json_values*", "ckptd/restore/recovery_json*", "ckptd/registry/json*"),
    "xxhash.h": ("libckpt/format/*", "kernels/*"),
    "cuda*": ("kernels/*", "trainer/cuda/*"),
    "nccl*": ("trainer/*",),
    "nv*": ("kernels/*", "trainer/cuda/*"),
    "zstd.h": ("libckpt/format/*", "libckpt/store/*"),
    "curl/*": ("ckptd/registry/*",),
    "ini.h": ("libckpt/config/file.c",),
    "microhttpd.h": ("ckptd/observe/http*.c",),
    "openssl*": ("ckptd/cluster/link/*", "ckptd/cluster/net/*"),
    "isa-l*": ("ckptd/*", "kernels/*"),
    "systemd/*": ("ckptd/*",),
    "criterion/*": (),
}
CUDA = ("cuda*", "nv*")


def room_of(name):
    return max((room for room in MAY_INCLUDE if name.startswith(room + "/")), key=len, default=None)


def resolve(root, name, header):
    """The included project file, looked for as the compiler does."""
    for folder in ((root / name).parent, root / "libckpt", root / "kernels", root / room_of(name), root / room_of(name).split("/")[0]):
        path = (folder / header).resolve()
        if path.is_file() and path.is_relative_to(root.resolve()):
            return str(path.relative_to(root.resolve()))
    return None


def allowed(name, target):
    room, other = room_of(name), room_of(target)
    may = MAY_INCLUDE[room]
    return room == other or PUBLIC.get(target) in may or any(fnmatch.fnmatch(other, each) for each in may)


def third_party_problem(name, header):
    for pattern, places in THIRD_PARTY.items():
        if not fnmatch.fnmatch(header, pattern):
            continue
        if any(fnmatch.fnmatch(name, place) for place in places):
            return None
        free = name.startswith(("tests/", "bench/")) and pattern not in CUDA
        return None if free else f"<{header}> may only be included by {', '.join(places) or 'tests and bench'}"
    return None


def problem_of(root, name, quote, header):
    if quote == "<":
        return third_party_problem(name, header)
    target = resolve(root, name, header)
    if name in PUBLIC and name.startswith("libckpt/") and header != "ckpt.h":
        return f'"{header}": the public header stands alone'
    if not target:
        # Tests find the headers of the rooms they test on their own include path.
        return None if name.startswith(("tests/", "bench/")) else f'"{header}" is not found'
    return None if allowed(name, target) else f'"{header}": {room_of(name)}/ may not include {target}'


def check(root):
    problems = []
    for path in tidy.sources(root, ".c", ".h", ".cu", ".cuh", ".cpp"):
        name = str(path.relative_to(root))
        if not room_of(name):
            problems.append(f"{name}: the folder is not in the table of rooms")
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            problem = found and problem_of(root, name, *found.groups())
            if problem:
                problems.append(f"{name}:{number}: {problem}")
    return problems


PLANTED = {
    "libckpt/base/err.h": "#include <errno.h>\n",
    "libckpt/base/bad.c": '#include "format/message/wire.h"\n',
    "libckpt/format/message/wire.h": '#include "base/err.h"\n#include <liburing.h>\n',
    "libckpt/ckpt.h": '#include "base/err.h"\n#include <stdint.h>\n',
    "libckpt/store/disk/disk_real_uring.c": "#include <liburing.h>\n",
    "libckpt/store/read/plan.c": '#include "kernels.h"\n#include "store/disk/disk.h"\n#include "store/check/verify.h"\n',
    "libckpt/store/check/verify.h": '#include "format/message/wire.h"\n',
    "libckpt/client/session/session.c": '#include "store/disk/disk.h"\n#include "kernels.h"\n',
    "libckpt/session_internal.h": "",
    "libckpt/store/disk/disk.h": "",
    "kernels/kernels.h": "",
    "kernels/private.h": "",
    "ckptd/job.c": '#include "job.h"\n#include "../kernels/private.h"\n#include <sqlite3.h>\n#include <cuda_runtime.h>\n',
    "ckptd/job.h": '#include "store/disk/disk.h"\n',
    "ckptd/catalog/catalog.c": "#include <sqlite3.h>\n",
    "ckptd/cluster/net/fabric.c": "#include <rdma/fabric.h>\n",
    "ckptd/cluster/net/fabric.h": "",
    "ckptd/cluster/link/link.c": '#include "cluster/net/fabric.h"\n#include <openssl/ssl.h>\n#include <rdma/fabric.h>\n',
    "cli/main.c": '#include "ckpt.h"\n#include "session_internal.h"\n#include "nowhere.h"\n#include "frame/output.h"\n',
    "cli/frame/output.h": "",
    "cli/frame/output.c": '#include "inspect/list.h"\n',
    "cli/inspect/list.h": '#include "frame/output.h"\n',
    "trainer/loop/step.c": '#include "base/err.h"\n#include "ckpt.h"\n',
    "trainer/cuda/model.cu": "#include <cuda_runtime.h>\n",
    "tests/unit/test_job.c": '#include "job.h"\n#include <criterion/criterion.h>\n#include <sqlite3.h>\n#include <cuda.h>\n',
    "extra/thing.c": "",
}
EXPECTED = [
    "libckpt/base/bad.c:1", "libckpt/format/message/wire.h:2", "libckpt/ckpt.h:1", "libckpt/client/session/session.c:1", "libckpt/store/read/plan.c:3", "ckptd/job.c:2",
    "ckptd/job.c:3", "ckptd/job.c:4", "ckptd/cluster/link/link.c:1", "ckptd/cluster/link/link.c:3", "cli/main.c:2", "cli/main.c:3", "cli/frame/output.c:1", "trainer/loop/step.c:1", "tests/unit/test_job.c:4",
    "extra/thing.c",
]

tidy.report([
    ("a planted include across the rooms is found", tidy.finds(check, PLANTED, EXPECTED)),
    ("every include stays within its room", check(tidy.ROOT)),
])
