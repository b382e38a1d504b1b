/* What a process lacks that is to be a rank: who starts it, its job's name, and the daemon of its node. */
#include "operate/doctor.h"

#include "base/clock.h"
#include "base/err.h"
#include "frame/contact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { ANSWER_WITHIN_S = 5 };

#define FIRST_PIDS "pid:[4026531836]" /* that of the host has this number for ever (PROC_PID_INIT_INO) */

/* In the order in which libckpt asks them (docs/reference/libckpt.md). */
static const struct {
	const char *starter, *rank, *world;
} launchers[] = {
	{"ckpt run", "CKPT_RANK", "CKPT_WORLD"},
	{"torchrun", "RANK", "WORLD_SIZE"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"MPI by PMI", "PMI_RANK", "PMI_SIZE"},
	{"a step of Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static void check_launcher(struct doctor *d)
{
	const char *rank = NULL, *world = NULL;
	size_t i = 0, n = sizeof(launchers) / sizeof(launchers[0]);
	for (; i < n; i++) {
		rank = variable(launchers[i].rank);
		world = variable(launchers[i].world);
		if (rank && world)
			break;
	}
	if (i < n)
		doctor_add(d, "job-launcher", RESULT_FINE, NULL, NULL, "%s: rank %.32s of %.32s", launchers[i].starter,
			   rank, world);
	else if (variable("SLURM_JOB_ID"))
		doctor_add(d, "job-launcher", RESULT_NOTE, "A program that is started here is one rank alone.",
			   "Start ranks with srun, or with ckpt run.",
			   "this is Slurm's batch script or its prolog, no task of a step");
	else
		doctor_add(d, "job-launcher", RESULT_NOTE, "A program that is started here is one rank alone.",
			   "Start ranks with ckpt run, srun, mpirun or torchrun; or set CKPT_RANK and CKPT_WORLD.",
			   "no launcher has set its variables");
}

static void check_name(struct doctor *d)
{
	const char *job = variable("CKPT_JOB"), *slurm = variable("SLURM_JOB_ID"),
		   *torch = variable("TORCHELASTIC_RUN_ID");
	if (job)
		doctor_add(d, "job-name", RESULT_FINE, NULL, NULL, "%.63s", job);
	else if (slurm)
		doctor_add(d, "job-name", RESULT_NOTE, "The next job that is submitted begins at step 0.",
			   "Set CKPT_JOB to a name that stays the same.", "slurm-%.32s: of this submission alone",
			   slurm);
	else
		doctor_add(d, "job-name", RESULT_DEGRADED,
			   "Jobs without a name of their own take each other's checkpoints.", "Set CKPT_JOB.",
			   "%s%.32s", torch ? "torch-" : "default", torch ? torch : "");
}

static const char *how_to_get_a_daemon(void)
{
	if (variable("SLURM_JOB_ID"))
		return "Look into the log of Slurm's prolog on this node (/run/ckpt-slurm/prolog.log), or start ranks "
		       "with "
		       "ckpt run.";
	if (variable("KUBERNETES_SERVICE_HOST"))
		return "Mount the folder of the socket into the pod, set CKPT_SOCKET, and run the pod as ckptd's user.";
	if (variable("OMPI_COMM_WORLD_RANK"))
		return "Start ckptd on this node, and pass CKPT_SOCKET on (mpirun -x CKPT_SOCKET).";
	if (!access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK))
		return "Start ckptd outside this container, mount the folder of its socket into it, and set "
		       "CKPT_SOCKET.";
	if (!access("/run/systemd/system", F_OK))
		return "Start ckptd (systemctl --user start ckptd.socket), or name its socket in CKPT_SOCKET; or start "
		       "ranks with ckpt run.";
	return "Start ckptd on this node, or name its socket in CKPT_SOCKET; or start ranks with ckpt run.";
}

static void check_daemon(struct doctor *d, const char *socket)
{
	char path[CONTACT_PATH_MAX];
	struct err err = {""};
	json_t *status = NULL;
	int rc = contact_path(socket, path, &err);
	if (!rc)
		rc = contact_status(path, NULL, clock_deadline(ANSWER_WITHIN_S * CLOCK_NS_PER_S), &status, &err);
	if (rc)
		doctor_add(d, "job-daemon", RESULT_BROKEN, "A rank cannot open its session.", how_to_get_a_daemon(),
			   "%.250s", err.text);
	else
		doctor_add(d, "job-daemon", RESULT_FINE, NULL, NULL, "answers at %s", path);
	if (!rc)
		doctor_daemon(d, status);
	json_decref(status);
}

/* Where a rank and ckptd see different processes, ckptd gets to know the rank by a pidfd that comes over the socket. */
static void check_processes(struct doctor *d)
{
	char space[32] = "";
	struct utsname name;
	unsigned major = 0, minor = 0;
	bool own = readlink("/proc/self/ns/pid", space, sizeof(space) - 1) > 0 && strcmp(space, FIRST_PIDS) != 0;
	bool old = uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2 || major < 6 ||
		   (major == 6 && minor < 9);
	doctor_add(d, "job-processes", own && old ? RESULT_DEGRADED : RESULT_FINE,
		   "A ckptd of another PID namespace, on the host or in another container, refuses this rank.",
		   "Use Linux 6.9 or later, or share the host's PID namespace with ckptd (--pid=host, hostPID).",
		   own ? "a PID namespace of its own, on Linux %.64s" : "the PID namespace of the host, on Linux %.64s",
		   name.release);
}

void doctor_job(struct doctor *d, const char *socket)
{
	check_launcher(d);
	check_name(d);
	check_processes(d);
	check_daemon(d, socket);
}
