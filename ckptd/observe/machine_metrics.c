#include "observe/machine_metrics.h"

#include "machine/room.h"
#include "observe/metric_text.h"

static void put_memory(const struct checkup *c, struct wbuf *out)
{
	static const char name[] = "ckpt_node_memory_errors_total";
	if (!c->devices_read || c->memory_rc)
		return;
	metric_family(out, name, "counter", "Errors of this node's memory that the kernel has counted.");
	metric_sample(out, name, labels_and(no_labels, "kind", "corrected"), c->memory.corrected);
	metric_sample(out, name, labels_and(no_labels, "kind", "uncorrected"), c->memory.uncorrected);
}

static void put_disk(const struct checkup *c, struct wbuf *out)
{
	if (!c->disk_read || c->disk.rc)
		return;
	metric_family(out, "ckpt_node_disk_seconds", "gauge", "For a small file to be on the store, at the last look.");
	metric_seconds(out, "ckpt_node_disk_seconds", no_labels, c->disk.ns);
}

/* A number of each GPU. */
struct gpu_metric {
	const char *name, *type, *help;
	uint64_t (*of)(const struct gpu *gpu);
};

static uint64_t is_there(const struct gpu *gpu)
{
	return !gpu->lost && !gpu->reset;
}

static uint64_t uncorrected(const struct gpu *gpu)
{
	return gpu->uncorrected;
}

static uint64_t xids(const struct gpu *gpu)
{
	return gpu->xids;
}

static uint64_t slowed(const struct gpu *gpu)
{
	return gpu->slowed;
}

static uint64_t lanes(const struct gpu *gpu)
{
	return gpu->width;
}

static const struct gpu_metric gpu_metrics[] = {
	{"ckpt_node_gpu_up", "gauge", "1: the driver answers for the GPU, and it needs no reset.", is_there},
	{"ckpt_node_gpu_ecc_errors_total", "counter", "Uncorrected, since the driver was loaded.", uncorrected},
	{"ckpt_node_gpu_xids_total", "counter", "Errors of the hardware that the driver has reported.", xids},
	{"ckpt_node_gpu_slowed", "gauge", "1: by heat or by its power supply.", slowed},
	{"ckpt_node_gpu_link_lanes", "gauge", "Width of its PCIe link.", lanes},
};

static void put_gpus(const struct checkup *c, struct wbuf *out)
{
	for (size_t i = 0; c->gpus.n && i < sizeof(gpu_metrics) / sizeof(gpu_metrics[0]); i++) {
		const struct gpu_metric *m = &gpu_metrics[i];
		metric_family(out, m->name, m->type, m->help);
		for (unsigned g = 0; g < c->gpus.n; g++)
			metric_sample(out, m->name, labels_and(no_labels, "gpu", c->gpus.gpu[g].bus_id),
				      m->of(&c->gpus.gpu[g]));
	}
}

static void put_peers(const struct checkup *c, struct wbuf *out)
{
	struct clock_check clock = peer_check_clock(&c->peers);
	if (!clock.n)
		return;
	metric_family(out, "ckpt_node_clock_ahead_seconds", "gauge",
		      "Of this node's clock, of the median of the other nodes' clocks.");
	metric_real(out, "ckpt_node_clock_ahead_seconds", no_labels, (double)clock.ahead_ns / 1e9);
	metric_family(out, "ckpt_node_round_trip_seconds", "gauge", "To another node and back, at the last look.");
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++)
		if (*c->peers.peers[i].name)
			metric_seconds(out, "ckpt_node_round_trip_seconds",
				       labels_and(no_labels, "peer", c->peers.peers[i].name),
				       c->peers.peers[i].trip_ns);
}

void machine_metrics(const struct machine *machine, struct wbuf *out)
{
	const struct checkup *c = machine_checkup(machine);
	if (!c || (!c->disk_read && !c->devices_read))
		return;
	metric_family(out, "ckpt_node_fit", "gauge",
		      "0: something is wrong with this node for which it gets no ranks.");
	metric_sample(out, "ckpt_node_fit", no_labels, !*machine_unfit(machine));
	put_memory(c, out);
	put_disk(c, out);
	put_gpus(c, out);
	put_peers(c, out);
}
