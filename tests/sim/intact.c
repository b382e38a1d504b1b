#include "intact.h"

#include "world.h"

bool intact_take(const struct memory *mem, uint32_t slot)
{
	bool intact = atomic_exchange(&mem->head->slots[slot].intact, 0);
	for (uint64_t leaf = 0; intact && leaf < mem->layout.nleaves; leaf++) {
		uint64_t found;
		memory_digest(mem, slot, leaf, 1, &found);
		SIM_CHECK(found == memory_leaves(mem, slot)[leaf], "leaf %lu of slot %u is not what was captured",
			  (unsigned long)leaf, slot);
	}
	return intact;
}
