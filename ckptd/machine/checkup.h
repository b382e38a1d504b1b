/* Checkup: what the readings of this machine mean. A pure function of readings and clock; all that is remembered is in the struct.
 *
 *	what                  is wrong when                                                       hard
 *	memory uncorrected    there was an uncorrected error since the kernel began to count      yes
 *	memory corrected      CHECKUP_CORRECTED more within an hour: single ones are ordinary     no
 *	disk dead             the store refused a small file, but not for want of room, or does   yes
 *	                      not answer for CHECKUP_STUCK_NS
 *	disk slow             the fastest of CHECKUP_ROW probes took longer than CHECKUP_SLOW_NS  no
 *	GPU lost              it is off its bus, wants a reset, or the driver does not answer     yes
 *	GPU ECC               there was an uncorrected error since the driver was loaded          yes
 *	GPU XID               the driver has reported an error of the hardware within an hour     yes
 *	GPU slowed            by heat or power supply, in CHECKUP_ROW looks                       no
 *	GPU link              narrower than it can be, or slower at full performance; so often    no
 *	clock                 farther from that of the other nodes than the limit, for sure       no
 *	far                   round trips to all peers are long: this node's own link is slow     no
 *	peer far              a round trip to it takes PEER_CHECK_FAR times as long as to others  no
 *
 * Hard is what makes a loss of the node, or of what its ranks compute, likely: the node gets no ranks while others can
 * have them. What is not hard costs speed. CHECKUP_ROW: a save that is just being written, or one hot minute, is no
 * failure. */
#ifndef CKPTD_MACHINE_CHECKUP_H
#define CKPTD_MACHINE_CHECKUP_H

#include "machine/gpu.h"
#include "machine/memory_errors.h"
#include "machine/peer_check.h"

enum {
	CHECKUP_CORRECTED = 100,
	CHECKUP_ROW = 3,
	CHECKUP_HOUR = 60, /* looks that are remembered of it, at most */
	CHECKUP_MAX = 6 * GPU_MAX + 5 + PEER_CHECK_MAX,
	CHECKUP_TEXT_MAX = 200,
};
#define CHECKUP_SLOW_NS 1000000000ull
#define CHECKUP_STUCK_NS 60000000000ull
#define CHECKUP_HOUR_NS 3600000000000ull

enum ailment_kind {
	AILMENT_MEMORY_UNCORRECTED = 0,
	AILMENT_DISK_DEAD,
	AILMENT_GPU_LOST,
	AILMENT_GPU_ECC,
	AILMENT_GPU_XID,
	AILMENT_HARD_END, /* those before are hard */
	AILMENT_MEMORY_CORRECTED = AILMENT_HARD_END,
	AILMENT_DISK_SLOW,
	AILMENT_GPU_SLOWED,
	AILMENT_GPU_LINK,
	AILMENT_CLOCK,
	AILMENT_FAR,
	AILMENT_PEER_FAR, /* never both: a peer is far if most others are near */
	AILMENT_END
};

struct ailment {
	enum ailment_kind kind;
	char text[CHECKUP_TEXT_MAX];
};

/* Of the store. */
struct disk_reading {
	int rc; /* of the probe; -ENOENT and no store: nothing was probed */
	uint64_t ns;
};

struct gpus_reading {
	int rc;
	unsigned n;
	struct gpu gpu[GPU_MAX];
};

struct checkup {
	struct memory_errors memory;
	int memory_rc;
	struct disk_reading disk;
	struct gpus_reading gpus;
	struct peer_check peers;
	uint64_t clock_limit_ns;      /* of the difference of clocks; 0: none */
	bool disk_read, devices_read; /* at least once */
	/* private */
	struct {
		uint64_t at_ns, corrected;
	} hour[CHECKUP_HOUR]; /* a ring */
	uint32_t nhour;
	uint64_t fast[CHECKUP_ROW]; /* probes, a ring */
	uint32_t nfast;
	struct {
		uint32_t slowed, narrow; /* looks in a row */
		uint32_t xid;            /* the last */
		uint64_t xid_ns;
	} of[GPU_MAX];
	uint64_t disk_since_ns, devices_since_ns; /* when was asked; 0: it has answered */
};

/* Asked just now. */
void checkup_asks_disk(struct checkup *c, uint64_t now);
void checkup_asks_devices(struct checkup *c, uint64_t now);
/* The answers. */
void checkup_take_disk(struct checkup *c, const struct disk_reading *is);
void checkup_take_devices(struct checkup *c, uint64_t now, int memory_rc, const struct memory_errors *memory,
			  const struct gpus_reading *gpus);

/* What is wrong now, what is hard first. Number of ailments, at most CHECKUP_MAX. */
unsigned checkup_find(const struct checkup *c, uint64_t now, struct ailment found[CHECKUP_MAX]);
static inline bool ailment_is_hard(enum ailment_kind kind)
{
	return kind < AILMENT_HARD_END;
}

#endif
