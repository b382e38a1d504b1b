#include "faults/drop.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 6.6: older headers have no names for them. */
enum { AT_ENTRY = 46, AT_EXIT = 47, PACKET_NEXT = -1, PACKET_DROP = 2 };

enum { STACK_KEY = -4, INSTRUCTIONS_MAX = 40 };

/* ---- the program --------------------------------------------------------------------------------------------------- */

struct program {
	struct bpf_insn at[INSTRUCTIONS_MAX];
	unsigned n;
	unsigned to_pass[2], npass; /* jumps to where a packet goes on */
};

static void put(struct program *p, uint8_t code, uint8_t dst, uint8_t src, int16_t off, int32_t imm)
{
	p->at[p->n++] = (struct bpf_insn){.code = code, .dst_reg = dst, .src_reg = src, .off = off, .imm = imm};
}

/* Takes two. */
static void put_number(struct program *p, uint8_t dst, uint8_t kind, uint64_t value)
{
	put(p, BPF_LD | BPF_DW | BPF_IMM, dst, kind, 0, (int32_t)(uint32_t)value);
	put(p, 0, 0, 0, 0, (int32_t)(uint32_t)(value >> 32));
}

static void call(struct program *p, int32_t helper)
{
	put(p, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

/* A packet goes on if r0 >= the number. */
static void pass_from(struct program *p, uint64_t number)
{
	put_number(p, BPF_REG_1, 0, number);
	p->to_pass[p->npass++] = p->n;
	put(p, BPF_JMP | BPF_JGE | BPF_X, BPF_REG_0, BPF_REG_1, 0, 0);
}

static void count(struct program *p, int counter)
{
	put(p, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, STACK_KEY, 0);
	put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0);
	put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, STACK_KEY);
	put_number(p, BPF_REG_1, BPF_PSEUDO_MAP_FD, (uint32_t)counter);
	call(p, BPF_FUNC_map_lookup_elem);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0);
	put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1);
	put(p, BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_1, 0, BPF_ADD);
}

static void end(struct program *p, int32_t returns)
{
	put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, returns);
	put(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void write_program(struct program *p, int counter, uint32_t percent, uint64_t until_ns)
{
	*p = (struct program){.n = 0};
	call(p, BPF_FUNC_ktime_get_ns);
	pass_from(p, until_ns);
	if (percent < 100) {
		call(p, BPF_FUNC_get_prandom_u32);
		pass_from(p, ((uint64_t)percent << 32) / 100);
	}
	count(p, counter);
	end(p, PACKET_DROP);
	for (unsigned i = 0; i < p->npass; i++)
		p->at[p->to_pass[i]].off = (int16_t)(p->n - p->to_pass[i] - 1);
	end(p, PACKET_NEXT);
}

/* ---- the kernel ---------------------------------------------------------------------------------------------------- */

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	int fd = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
	return fd < 0 ? -errno : fd;
}

static uint64_t pointer(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static int make_counter(void)
{
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = sizeof(uint32_t);
	attr.value_size = sizeof(uint64_t);
	attr.max_entries = 1;
	return bpf(BPF_MAP_CREATE, &attr);
}

static int load(const struct program *p)
{
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SCHED_CLS;
	attr.insns = pointer(p->at);
	attr.insn_cnt = p->n;
	attr.license = pointer("");
	return bpf(BPF_PROG_LOAD, &attr);
}

static int attach(int program, unsigned index, uint32_t where)
{
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.target_ifindex = index;
	attr.link_create.attach_type = where;
	return bpf(BPF_LINK_CREATE, &attr);
}

static int prepare(struct drop *d, uint32_t percent, uint64_t for_ns)
{
	struct program program;
	d->counter = make_counter();
	if (d->counter < 0)
		return d->counter;
	write_program(&program, d->counter, percent, clock_now() + for_ns); /* ktime_get_ns() counts the same */
	d->program = load(&program);
	return d->program < 0 ? d->program : 0;
}

static int begin(struct drop *d, unsigned index, bool in, uint32_t percent, uint64_t for_ns)
{
	int rc = prepare(d, percent, for_ns);
	if (rc)
		return rc;
	d->exit = attach(d->program, index, AT_EXIT);
	if (d->exit < 0)
		return d->exit == -EINVAL ? -EOPNOTSUPP : d->exit;
	if (in)
		d->entry = attach(d->program, index, AT_ENTRY);
	return in && d->entry < 0 ? d->entry : 0;
}

int drop_begin(struct drop *d, const char *interface, bool in, uint32_t percent, uint64_t for_ns, struct err *err)
{
	unsigned index = if_nametoindex(interface);
	*d = (struct drop){-1, -1, -1, -1};
	if (!index)
		return err_set(err, -ENODEV, "there is no interface %s", interface);
	int rc = begin(d, index, in, percent, for_ns);
	if (!rc)
		return 0;
	drop_end(d);
	if (rc == -EPERM)
		return err_set(err, rc,
			       "no packet can be dropped at %s: it needs CAP_BPF and CAP_NET_ADMIN, as root has them",
			       interface);
	if (rc == -EOPNOTSUPP || rc == -ENOSYS)
		return err_set(err, rc, "no packet can be dropped at %s: it needs Linux 6.6, with BPF", interface);
	return err_set(err, rc, "no packet can be dropped at %s: %s", interface, err_name(rc));
}

uint64_t drop_count(const struct drop *d)
{
	union bpf_attr attr;
	uint32_t key = 0;
	uint64_t n = 0;
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)d->counter;
	attr.key = pointer(&key);
	attr.value = pointer(&n);
	return bpf(BPF_MAP_LOOKUP_ELEM, &attr) < 0 ? 0 : n;
}

void drop_end(struct drop *d)
{
	int *const all[] = {&d->entry, &d->exit, &d->program, &d->counter};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (*all[i] >= 0)
			close(*all[i]);
		*all[i] = -1;
	}
}
