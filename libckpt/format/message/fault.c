#include "format/message/fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define REPLACED "the rank is replaced, and all go on from the newest snapshot that every rank has"
#define PLAYED "the rank has taken it from its arena"
#define PROGRAM "a program that plays faults, such as ckpt-train"
#define PLAYS_MS 60000
#define SPACES "a campaign on several nodes, root, and ip of iproute2"
#define PACKETS "root; in a campaign several nodes and ip of iproute2, else Linux 6.6 with BPF"
#define WAITS                                                                                                          \
	"training waits; nodes that miss each other for longer than peer-timeout go on from a snapshot when they "     \
	"meet again"

/* clang-format off */
const struct fault_entry fault_catalogue[] = {
	{FAULT_KILL, "kill", FAULT_AT_RANK, FAULT_BY_SIGNAL, FAULT_TIME_NONE, true, SIGKILL,
	 "SIGKILL to the rank's process", "", "the process has died", REPLACED, 5000, FAULT_AT_WORK_MS},
	{FAULT_ABORT, "abort", FAULT_AT_RANK, FAULT_BY_SIGNAL, FAULT_TIME_NONE, true, SIGABRT,
	 "SIGABRT to the rank's process", "", "the process has died", REPLACED, 5000, FAULT_AT_WORK_MS},
	{FAULT_STOP, "stop", FAULT_AT_RANK, FAULT_BY_SIGNAL, FAULT_TIME_MAY, true, SIGSTOP,
	 "SIGSTOP to the rank's process, and SIGCONT after the time that is given", "", "the process is stopped",
	 "the rank is named as hung; with --hang-timeout of ckpt run it is replaced", 5000, FAULT_NAMED_MS},
	{FAULT_EXIT_EARLY, "exit-early", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "the rank's process ends with status 0 in the middle of its work", PROGRAM, PLAYED, REPLACED, PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_ABSENT, "absent", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "the rank waits for ever before a collective", PROGRAM, PLAYED,
	 "the rank is named as hung; with --hang-timeout of ckpt run it is replaced", PLAYS_MS, FAULT_NAMED_MS},
	{FAULT_MISMATCH, "mismatch", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "the rank enters another collective than the others", PROGRAM, PLAYED,
	 "the collective fails, the rank is named if a third one can tell, and all go back", PLAYS_MS, FAULT_NAMED_MS},
	{FAULT_SLOW, "slow", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_MUST, true, 0,
	 "the rank is slower by the time that is given, in each of 30 steps", PROGRAM, PLAYED,
	 "the rank is named as slow", PLAYS_MS, 0},
	{FAULT_NAN, "nan", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "a NaN in a gradient", PROGRAM, PLAYED, "all go back to the newest healthy checkpoint", PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_LOSS_SPIKE, "loss-spike", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "the loss that all ranks hand over is far too high in each of 8 steps; gradients stay as they are", PROGRAM, PLAYED,
	 "ckptd names the spike in the third of these steps, if it knows 32 steps before them; training goes on", PLAYS_MS, 10000},
	{FAULT_FLIP, "flip", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "a bit of a parameter flips before a save", PROGRAM, PLAYED,
	 "the save fails, since replicas differ, and all go back", PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_TRAP, "trap", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "a kernel traps (on the host: what it reports is played)", PROGRAM, PLAYED, REPLACED, PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_ILLEGAL_ADDRESS, "illegal-address", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "a kernel reads an illegal address (on the host: played)", PROGRAM, PLAYED, REPLACED, PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_NEVER_ENDS, "never-ends", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "a kernel never ends (on the host: played)", PROGRAM, PLAYED,
	 "the rank is named as hung; with --hang-timeout of ckpt run it is replaced", PLAYS_MS, FAULT_NAMED_MS},
	{FAULT_DEVICE_LOST, "device-lost", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "the device is lost (on the host: played)", PROGRAM, PLAYED, REPLACED, PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_ECC, "ecc", FAULT_AT_RANK, FAULT_BY_RANK, FAULT_TIME_NONE, true, 0,
	 "the device's memory has an uncorrectable ECC error (played)", PROGRAM, PLAYED, REPLACED, PLAYS_MS, FAULT_AT_WORK_MS},
	{FAULT_KILL_DAEMON, "kill-daemon", FAULT_AT_DAEMON, FAULT_BY_COMMAND, FAULT_TIME_NONE, true, SIGKILL,
	 "SIGKILL to ckptd", "the daemon's user, or root", "the process has died",
	 "whoever watches ckptd starts it again; it gets the arenas back, and training goes on", 5000, FAULT_AT_WORK_MS},
	{FAULT_RESTART_DAEMON, "restart-daemon", FAULT_AT_DAEMON, FAULT_BY_COMMAND, FAULT_TIME_NONE, false, SIGTERM,
	 "SIGTERM to ckptd, which ends by itself", "the daemon's user, or root", "the process has ended",
	 "whoever watches ckptd starts it again; it gets the arenas back, and training goes on", 30000, FAULT_AT_WORK_MS},
	{FAULT_STOP_DAEMON, "stop-daemon", FAULT_AT_DAEMON, FAULT_BY_COMMAND, FAULT_TIME_MUST, false, SIGSTOP,
	 "SIGSTOP to ckptd, and SIGCONT after the time that is given", "the daemon's user, or root",
	 "the process was stopped", "training goes on; other nodes count this one as lost after peer-timeout", 5000, FAULT_AT_WORK_MS},
	{FAULT_CLOCK_JUMP, "clock-jump", FAULT_AT_DAEMON, FAULT_BY_DAEMON, FAULT_TIME_MUST, false, 0,
	 "the time of day as ckptd reads it is a day ahead, or ahead or behind by what --by says, for the time that is given, and then right again; libraries and other processes read the right one",
	 "", "ckptd has read a time of day that was so far ahead or behind", "training, saves and recoveries go on; in a cluster the node tells that its clock is off; what ckptd records meanwhile is dated wrongly", 0, FAULT_AT_WORK_MS},
	{FAULT_FLIP_ARENA, "flip-arena", FAULT_AT_RANK, FAULT_BY_DAEMON, FAULT_TIME_NONE, false, 0,
	 "a bit flips in the newest complete snapshot in the rank's arena", "a snapshot in memory",
	 "the bit reads back flipped", "a restore finds it, and takes another source for this rank", 5000, 0},
	{FAULT_FLIP_REPLICA, "flip-replica", FAULT_AT_RANK, FAULT_BY_DAEMON, FAULT_TIME_NONE, false, 0,
	 "a bit flips in the copy of the rank's snapshot that this node holds for another node", "a cluster",
	 "the bit reads back flipped", "who fetches the copy finds it, and takes another source", 5000, 0},
	{FAULT_FLIP_FILE, "flip-file", FAULT_AT_CHECKPOINT, FAULT_BY_COMMAND, FAULT_TIME_NONE, false, 0,
	 "a bit flips in a data file of a checkpoint", "the right to write to the store", "the bit reads back flipped",
	 "ckpt verify, a scrub or a restore names the tensor; a restore takes another source", 5000, 0},
	{FAULT_FLIP_SIDECAR, "flip-sidecar", FAULT_AT_CHECKPOINT, FAULT_BY_COMMAND, FAULT_TIME_NONE, false, 0,
	 "a bit flips in a sidecar of a checkpoint: in the digests of a data file", "the right to write to the store",
	 "the bit reads back flipped", "ckpt verify, a scrub or a restore names the file; a restore takes another source", 5000, 0},
	{FAULT_FLIP_MANIFEST, "flip-manifest", FAULT_AT_CHECKPOINT, FAULT_BY_COMMAND, FAULT_TIME_NONE, false, 0,
	 "a bit flips in MANIFEST.json of a checkpoint", "the right to write to the store",
	 "the bit reads back flipped", "ckpt verify, a scrub or a restore names the file", 5000, 0},
	{FAULT_DISK_FULL, "disk-full", FAULT_AT_STORE, FAULT_BY_DAEMON, FAULT_TIME_MUST, false, 0,
	 "what ckptd writes to its store fails as on a full disk, for the time that is given", "a store",
	 "a write was refused", "the save fails with -ENOSPC, its copy in memory stays, and a later save is durable",
	 0, FAULT_AT_WORK_MS},
	{FAULT_DISK_EIO, "disk-eio", FAULT_AT_STORE, FAULT_BY_DAEMON, FAULT_TIME_MUST, false, 0,
	 "what ckptd writes to its store fails with an I/O error, for the time that is given", "a store",
	 "a write was refused", "the save fails with -EIO, its copy in memory stays, and a later save is durable", 0, FAULT_AT_WORK_MS},
	{FAULT_DISK_READ_ONLY, "disk-read-only", FAULT_AT_STORE, FAULT_BY_DAEMON, FAULT_TIME_MUST, false, 0,
	 "what ckptd writes to its store fails as on a file system that was mounted read-only, for the time that is given", "a store",
	 "a write was refused", "the save fails with -EROFS, its copy in memory stays, and a later save is durable", 0, FAULT_AT_WORK_MS},
	{FAULT_DISK_STALL, "disk-stall", FAULT_AT_STORE, FAULT_BY_DAEMON, FAULT_TIME_MUST, false, 0,
	 "what ckptd asks of its store does not begin before the time that is given is over", "a store",
	 "an operation has waited", "training and saves to memory go on; the save to storage is durable later", 5000, FAULT_AT_WORK_MS},
	{FAULT_DISK_SLOW, "disk-slow", FAULT_AT_STORE, FAULT_BY_DAEMON, FAULT_TIME_MUST, false, 0,
	 "each operation of ckptd at its store begins 100 ms late, for the time that is given", "a store",
	 "an operation has waited", "training goes on at its pace; saves to storage take longer, and become durable", 5000, FAULT_AT_WORK_MS},
	{FAULT_DISK_CORRUPT, "disk-corrupt", FAULT_AT_STORE, FAULT_BY_DAEMON, FAULT_TIME_NONE, false, 0,
	 "a bit of the next write of ckptd to a checkpoint changes on its way to the store; the write succeeds", "a store, and /proc",
	 "the byte was written so",
	 "the read-back of that checkpoint finds it, and repairs data from memory; else who restores it takes another source",
	 60000, 0},
	{FAULT_DRAIN, "drain", FAULT_AT_NODE, FAULT_BY_COMMAND, FAULT_TIME_MAY, false, 0,
	 "the node's ranks go to other nodes, as with ckpt drain; it may have some again after the time that is given",
	 "a job started with --min-ranks or --spare",
	 "the coordinator has taken it; in a campaign: the node had no ranks, and may have some again",
	 "no step is lost; without a time, take it back with ckpt drain --undo", 5000, 90000},
	{FAULT_KILL_NODE, "kill-node", FAULT_AT_NODE, FAULT_BY_DAEMON, FAULT_TIME_MAY, false, SIGKILL,
	 "SIGKILL to ckptd, ckpt run and all ranks of the node at once; a campaign starts it again, after the time that is given",
	 "a node whose loss the job survives; in a campaign: several nodes", "the process of ckptd has died; in a campaign: all of the node",
	 "when the node is back all go on from the newest snapshot of which the other nodes have copies", 5000, FAULT_AT_WORK_MS},
	{FAULT_POWER_CUT, "power-cut", FAULT_AT_NODE, FAULT_BY_DAEMON, FAULT_TIME_MAY, false, SIGKILL,
	 "what the node's ckptd has written to its store and not fsynced is lost, in whole or in part; SIGKILL to it, to ckpt run and to all ranks of the node; a campaign starts it again, after the time that is given",
	 "a node whose loss the job survives; in a campaign: several nodes", "ckptd has undone its writes, and then its process has ended",
	 "what was said to be durable is in the store, whole; when the node is back all go on from the newest snapshot of which the other nodes have copies, or from the store",
	 20000, FAULT_AT_WORK_MS},
	{FAULT_REBOOT, "reboot", FAULT_AT_NODE, FAULT_BY_CAMPAIGN, FAULT_TIME_MUST, false, SIGKILL,
	 "the node falls silent and loses its memory: its cable is pulled, all its processes are killed, and it is started again, after the time that is given",
	 SPACES, "no probe passes between the node and the others, and all these processes have died",
	 "the others find the node silent; when it is back all go on from the newest snapshot of which they have copies", 5000, FAULT_AT_WORK_MS},
	{FAULT_LINK_DOWN, "link-down", FAULT_AT_NETWORK, FAULT_BY_COMMAND, FAULT_TIME_MUST, false, 0,
	 "the cable of a node is pulled, and put back after the time that is given; ckpt fault drops all that an interface sends and gets", PACKETS,
	 "packets were dropped; in a campaign: no probe passes between the node and the others, either way", WAITS, 5000, FAULT_AT_WORK_MS},
	{FAULT_ONE_WAY, "one-way", FAULT_AT_NETWORK, FAULT_BY_COMMAND, FAULT_TIME_MUST, false, 0,
	 "what a node sends to others is lost for the time that is given, and what they send arrives", PACKETS,
	 "packets were dropped; in a campaign: no probe of the node arrives, and those of the others do", WAITS, 5000, FAULT_AT_WORK_MS},
	{FAULT_PARTITION, "partition", FAULT_AT_NETWORK, FAULT_BY_CAMPAIGN, FAULT_TIME_MUST, false, 0,
	 "nothing passes between sides, which are sets of nodes, for the time that is given", SPACES,
	 "no probe passes between two sides, and all others do", WAITS, 5000, FAULT_AT_WORK_MS},
	{FAULT_LINK_SLOW, "link-slow", FAULT_AT_NETWORK, FAULT_BY_CAMPAIGN, FAULT_TIME_MUST, false, 0,
	 "the cable of a node is slow, either way, for the time that is given", SPACES ", and a kernel with tbf",
	 "the kernel has held packets back", "training and copies are slower, and nothing is lost", 5000, FAULT_AT_WORK_MS},
	{FAULT_LINK_LOSS, "link-loss", FAULT_AT_NETWORK, FAULT_BY_COMMAND, FAULT_TIME_MUST, false, 0,
	 "the cable of a node loses some of the packets, either way, for the time that is given", PACKETS,
	 "packets were lost", "what is lost is sent again: training and copies are slower, and nothing else is lost", 5000, FAULT_AT_WORK_MS},
	{FAULT_LINK_DELAY, "link-delay", FAULT_AT_NETWORK, FAULT_BY_CAMPAIGN, FAULT_TIME_MUST, false, 0,
	 "what passes the cable of a node arrives later, either way, for the time that is given", SPACES,
	 "packets were delayed", "training and copies are slower, and nothing is lost", 5000, FAULT_AT_WORK_MS},
	{0},
};
/* clang-format on */

const struct fault_entry *fault_find(const char *name, uint64_t len)
{
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++)
		if (strlen(f->name) == len && !memcmp(f->name, name, len))
			return f;
	return NULL;
}

const struct fault_entry *fault_of(enum fault_kind kind)
{
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++)
		if (f->kind == kind)
			return f;
	return NULL;
}

const char *fault_kind_name(enum fault_kind kind)
{
	const struct fault_entry *f = fault_of(kind);
	return f ? f->name : "?";
}

const char *fault_target_name(enum fault_target target)
{
	static const char *const names[] = {"?", "rank", "daemon", "checkpoint", "store", "node", "network"};
	return names[target <= FAULT_AT_NETWORK ? target : 0];
}

const char *fault_actor_name(enum fault_actor actor)
{
	static const char *const names[] = {"?", "signal", "rank", "daemon", "command", "campaign"};
	return names[actor <= FAULT_BY_CAMPAIGN ? actor : 0];
}

char *fault_names(bool run_only, char *dst, uint64_t size)
{
	uint64_t left = 0, len = 0;
	dst[0] = '\0';
	for (const struct fault_entry *f = fault_catalogue; f->kind; f++)
		left += f->run || !run_only;
	for (const struct fault_entry *f = fault_catalogue; f->kind && len < size; f++)
		if (f->run || !run_only) {
			left--;
			len += (uint64_t)snprintf(dst + len, size - len, "%s%s", f->name,
						  left > 1    ? ", "
						  : left == 1 ? " and "
							      : "");
		}
	return dst;
}
