#include "operate/doctor.h"

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/disk/disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <sys/utsname.h>

enum { DESCRIPTORS = 1024, CAPABILITY_IPC_LOCK = 14 };

/* A moment when this program did not exist. */
#define LONG_AGO (1700000000 * CLOCK_NS_PER_S)

/* ---- small files of the kernel --------------------------------------------------------------------------------- */

/* The beginning of a file, as text; "" when it cannot be read. */
static const char *read_text(const char *path, char *dst, size_t size)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, dst, size - 1);
	dst[n > 0 ? n : 0] = 0;
	return dst;
}

/* The number behind "Name:" in a file of such lines; `absent` when there is none. */
static uint64_t number_of(const char *path, const char *name, int base, uint64_t absent)
{
	char text[8192];
	const char *at = strstr(read_text(path, text, sizeof(text)), name);
	return at ? strtoull(at + strlen(name), NULL, base) : absent;
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static void check_io_uring(struct doctor *d)
{
	struct err err = {""};
	struct disk *disk = NULL;
	int root, rc = disk_new(NULL, &disk, &root, &err);
	bool uring = !rc && !strcmp(disk_engine(disk), "io_uring");
	doctor_add(d, "io_uring",
		   rc      ? RESULT_BROKEN
		   : uring ? RESULT_FINE
			   : RESULT_DEGRADED,
		   "Threads with ordinary system calls read and write in its place: the same, at more processor time.",
		   "Allow io_uring in the container's seccomp profile, set kernel.io_uring_disabled to 0, and leave "
		   "CKPT_DISK_ENGINE alone.",
		   "%s",
		   rc      ? err.text
		   : uring ? "allowed"
			   : "not allowed here, or CKPT_DISK_ENGINE says threads");
	disk_free(disk);
}

static void check_memlock(struct doctor *d)
{
	struct rlimit limit;
	char text[16];
	bool free_of_it = number_of("/proc/self/status", "CapEff:", 16, 0) >> CAPABILITY_IPC_LOCK & 1;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return;
	bool enough = free_of_it || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= d->memory_limit;
	doctor_add(d, "memlock", enough ? RESULT_FINE : RESULT_DEGRADED,
		   "Arenas beyond the limit are written from unpinned memory: three times the processor time per byte.",
		   "Raise the limit of locked memory for ckptd to the size of the arenas: ulimit -l, or LimitMEMLOCK= "
		   "in the unit.",
		   "%s",
		   free_of_it                        ? "no limit (CAP_IPC_LOCK)"
		   : limit.rlim_cur == RLIM_INFINITY ? "no limit"
						     : bytes_human(text, sizeof(text), limit.rlim_cur));
}

static bool transparent_for_shared_memory(void)
{
	char text[256];
	struct utsname name;
	unsigned major = 0, minor = 0;
	read_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled", text, sizeof(text));
	if (!*text || strstr(text, "[deny]"))
		return false;
	if (strstr(text, "[advise]") || strstr(text, "[within_size]") || strstr(text, "[always]") ||
	    strstr(text, "[force]"))
		return true;
	/* Later kernels collapse on demand, whatever the file says. */
	return !uname(&name) && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 1));
}

static void check_huge_pages(struct doctor *d)
{
	uint64_t pool = number_of("/proc/meminfo", "HugePages_Free:", 10, 0),
		 kib = number_of("/proc/meminfo", "Hugepagesize:", 10, 0);
	bool transparent = transparent_for_shared_memory();
	doctor_add(d, "huge-pages", pool || transparent ? RESULT_FINE : RESULT_DEGRADED,
		   "Arenas in ordinary pages are touched more slowly, and a killed rank is seen later.",
		   "Reserve pages (vm.nr_hugepages), or write advise to "
		   "/sys/kernel/mm/transparent_hugepage/shmem_enabled.",
		   "%lu pages of %lu KiB free in the pool, transparent ones %s", (unsigned long)pool,
		   (unsigned long)kib, transparent ? "possible" : "not for shared memory");
}

static void check_memory(struct doctor *d)
{
	struct sysinfo info;
	char all[16], group[16], arenas[16];
	uint64_t limit = cgroup_memory_limit(), total = sysinfo(&info) ? 0 : (uint64_t)info.totalram * info.mem_unit;
	uint64_t ceiling = total && total < limit ? total : limit;
	bool over = d->memory_limit > ceiling;
	bytes_human(all, sizeof(all), total);
	bytes_human(group, sizeof(group), limit);
	doctor_add(d, "memory", over ? RESULT_DEGRADED : RESULT_FINE,
		   "A job that fills the limit is killed by the kernel before ckptd can refuse it.",
		   "Lower --memory-limit, or raise memory.max of the control group.",
		   "arenas may take %s of %s; the control group allows %s",
		   bytes_human(arenas, sizeof(arenas), d->memory_limit), all, limit == UINT64_MAX ? "all" : group);
}

static int try_arena(void)
{
	AUTO_CLOSE int fd = (int)syscall(SYS_memfd_create, "ckpt-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return -errno;
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno : 0;
}

static void check_kernel(struct doctor *d)
{
	int rc = try_arena();
	doctor_add(d, "arenas", rc ? RESULT_BROKEN : RESULT_FINE,
		   "Without sealed memory files there are no arenas: nothing is saved.",
		   "Use a kernel and a container that allow memfd_create and its seals.", "%s",
		   rc ? err_name(rc) : "memory files can be sealed");
	AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	doctor_add(d, "pidfd", pidfd < 0 ? RESULT_DEGRADED : RESULT_FINE,
		   "The death of a rank is seen when its connection ends, which a child that holds the socket delays.",
		   "Use Linux 5.3 or later, and a seccomp profile that allows pidfd_open.", "%s",
		   pidfd < 0 ? "refused" : "processes can be watched");
}

static void check_descriptors(struct doctor *d)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	doctor_add(d, "descriptors", limit.rlim_max < DESCRIPTORS ? RESULT_DEGRADED : RESULT_FINE,
		   "Arenas, doorbells and files take several for each rank: large jobs are refused.",
		   "Raise the hard limit of open files: ulimit -Hn, or LimitNOFILE= in the unit.", "at most %lu",
		   (unsigned long)limit.rlim_max);
}

static void check_clock(struct doctor *d)
{
	struct timex t = {.modes = 0};
	int state = adjtimex(&t);
	bool wrong = clock_wall() < LONG_AGO;
	doctor_add(d, "clock",
		   wrong                 ? RESULT_DEGRADED
		   : state == TIME_ERROR ? RESULT_NOTE
					 : RESULT_FINE,
		   "Ages in listings and retention by time are wrong. Checkpoints are ordered by epoch and step all "
		   "the same.",
		   "Set the clock, and let a time service keep it (chrony, systemd-timesyncd).", "%s",
		   wrong                 ? "it is years behind"
		   : state == TIME_ERROR ? "no time service says that it keeps it"
					 : "synchronised");
}

/* ---- devices --------------------------------------------------------------------------------------------------- */

static bool loads(const char *library)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	if (handle)
		dlclose(handle);
	return handle != NULL;
}

static void check_fabric(struct doctor *d)
{
	bool there = loads("libfabric.so.1"), verbs = !access("/sys/class/infiniband", F_OK);
	doctor_add(d, "fabric", there ? RESULT_FINE : RESULT_NOTE,
		   "Only copies by RDMA need it: ckptd with fabric-provider verbs does not start without it.",
		   "To copy by RDMA, install libfabric1.", "libfabric %s, %s", there ? "is there" : "does not load",
		   verbs ? "RDMA devices: see the setting fabric-provider" : "no RDMA device: nodes copy over tcp");
}

void doctor_machine(struct doctor *d)
{
	check_kernel(d);
	check_io_uring(d);
	check_memlock(d);
	check_huge_pages(d);
	check_memory(d);
	check_descriptors(d);
	check_clock(d);
	doctor_gpu(d);
	check_fabric(d);
}
