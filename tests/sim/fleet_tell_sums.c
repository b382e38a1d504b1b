/* What has happened in all seeds together. */
#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
	const char *name;
	const uint64_t *count;
} totals[] = {
	{"snapshots captured", &fleet_sum.captured},
	{"replicated", &fleet_sum.replicated},
	{"durable", &fleet_sum.durable},
	{"copied too late", &fleet_sum.late},
	{"epochs", &fleet_sum.epochs},
	{"ranks restored", &fleet_sum.restores},
	{"of them from memory", &fleet_sum.from_memory},
	{"from another node", &fleet_sum.from_peer},
	{"from storage", &fleet_sum.from_storage},
	{"fresh", &fleet_sum.fresh},
	{"ranks killed", &fleet_sum.kills},
	{"daemons killed", &fleet_sum.daemons},
	{"daemons that were told to end", &fleet_sum.stops},
	{"nodes lost", &fleet_sum.losses},
	{"moved", &fleet_sum.moves},
	{"ways cut", &fleet_sum.cuts},
	{"power cuts", &fleet_sum.power_cuts},
	{"restores of what was replicated", &fleet_sum.held},
	{"looks at what is replicated", &fleet_sum.promised},
	{"last losses", &fleet_sum.trials},
	{"checkpoints verified", &fleet_sum.checked},
	{"slots taken intact", &fleet_sum.intact},
	{"elastic jobs", &fleet_sum.elastic},
	{"plans heard", &fleet_sum.plans},
	{"worlds shrunk", &fleet_sum.shrunk},
	{"grown", &fleet_sum.grown},
	{"spilled steps restored", &fleet_sum.spilled},
	{"steps cut anew out of memory", &fleet_sum.recut},
	{"changes without a repeated step", &fleet_sum.asked},
	{"launchers asked to leave", &fleet_sum.leaves},
	{"nodes drained", &fleet_sum.drains},
	{"coordinators lost before a drain was on record", &fleet_sum.drain_early},
	{"drains that held under the next one", &fleet_sum.drain_held},
	{"halts asked for", &fleet_sum.halts},
	{"coordinators lost before a halt was on record", &fleet_sum.halt_early},
	{"halts that held under the next one", &fleet_sum.halt_held},
	{"halts that ended with all who were asked", &fleet_sum.halt_anew},
	{"launchers without ranks let go", &fleet_sum.let_go},
	{"coordinators lost when it was on record that all had finished", &fleet_sum.end_untold},
	{"launchers killed", &fleet_sum.launchers},
	{"nodes returned", &fleet_sum.returns},
	{"jobs asked to end", &fleet_sum.stopped},
	{"losses after a node had finished", &fleet_sum.early},
	{"launchers started again", &fleet_sum.restarted},
	{"jobs ended", &fleet_sum.ends},
	{"elections", &fleet_sum.elections},
	{"jobs handed over", &fleet_sum.heirs},
	{"daemons that joined a cluster", &fleet_sum.joins},
	{"machines replaced", &fleet_sum.replaced},
	{"nodes frozen", &fleet_sum.freezes},
	{"coordinators lost before a plan was told", &fleet_sum.untold},
	{"when some nodes had been told", &fleet_sum.half_told},
	{"epochs that went on under another coordinator", &fleet_sum.resumed},
	{"of them by a plan", &fleet_sum.planned},
	{"rollbacks asked for", &fleet_sum.rollbacks},
	{"rollbacks", &fleet_sum.went_back},
	{"schedules that all ranks were told alike", &fleet_sum.schedules},
	{"leases that lapsed", &fleet_sum.lapses},
	{"transactions done and not answered", &fleet_sum.unanswered},
	{"done late", &fleet_sum.late_done},
	{"renewals without an answer", &fleet_sum.unrenewed},
	{"leases that ended sooner than promised", &fleet_sum.early_ends},
	{"looks at two coordinators", &fleet_sum.doubles},
	{"times another member of the registry led", &fleet_sum.leads},
	{"partitions with the registry on one side", &fleet_sum.partitions},
	{"that another coordinator than before outlived", &fleet_sum.elsewhere},
	{"in which an epoch began", &fleet_sum.parted_epochs},
	{"long absences of the registry", &fleet_sum.absences},
	{"saves copied by all ranks when no lease stood", &fleet_sum.alone},
	{"epochs that went on after an absence", &fleet_sum.outlived},
	{"saves of an absence that outlived a rank", &fleet_sum.meanwhile},
	{"of coordinators without ranks", &fleet_sum.rankless},
	{"nodes removed from a cluster", &fleet_sum.removed},
	{"of them while their daemon ran", &fleet_sum.removed_alive},
	{"not removed, since their daemon was there", &fleet_sum.not_removed},
	{"daemons that ended, since they were removed", &fleet_sum.put_out},
	{"nodes that joined anew", &fleet_sum.anew},
	{"looks for sessions with who was removed", &fleet_sum.gone},
	{"parked sessions that went on", &fleet_sum.called},
};

bool fleet_tell_sums(void)
{
	bool all = true;
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		printf("%s %" PRIu64 " %s", i ? "," : "", *totals[i].count, totals[i].name);
		all &= *totals[i].count > 0;
	}
	return all;
}
