/* Parts of messages between nodes that say who is late again and again. */
#include "format/message/peer_parts.h"

#include "format/tensor/fields.h"

static const struct field rank_pace_fields[] = {
	FIELD_U32_OF(struct peer_rank_pace, rank),
	FIELD_U64_OF(struct peer_rank_pace, step),
	FIELD_U64_OF(struct peer_rank_pace, waited_ns),
	FIELD_U64_OF(struct peer_rank_pace, left),
	{0},
};

const struct field peer_pace_fields[] = {
	FIELD_U64_OF(struct peer_pace, clock_ns),
	FIELD_LIST_OF(struct peer_pace, n, of, rank_pace_fields),
	{0},
};

int peer_pace_check(const struct peer_pace *m, struct err *err)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].rank >= RANK_MAX || (i && m->of[i].rank <= m->of[i - 1].rank))
			return peer_bad(PEER_PACE, err, "rank", m->of[i].rank);
	return 0;
}

static const struct field straggler_fields[] = {
	FIELD_BOOL_OF(struct peer_straggler, whole),
	FIELD_U32_OF(struct peer_straggler, rank),
	FIELD_U32_OF(struct peer_straggler, node),
	FIELD_U32_OF(struct peer_straggler, ratio),
	FIELD_U64_OF(struct peer_straggler, lasted_ns),
	FIELD_U64_OF(struct peer_straggler, lost_ns),
	{0},
};

static const struct field own_part_fields[] = {
	FIELD_U32_OF(struct peer_own_part, rank), FIELD_BOOL_OF(struct peer_own_part, late),
	FIELD_U32_OF(struct peer_own_part, own),  FIELD_U32_OF(struct peer_own_part, ratio),
	FIELD_U32_OF(struct peer_own_part, cost), {0},
};

const struct field peer_stragglers_fields[] = {
	FIELD_U32_OF(struct peer_stragglers, epoch),
	FIELD_LIST_OF(struct peer_stragglers, n, of, straggler_fields),
	FIELD_LIST_OF(struct peer_stragglers, nown, own, own_part_fields),
	{0},
};

static int check_own_part(const struct peer_own_part *o, struct err *err)
{
	if (o->rank >= RANK_MAX)
		return peer_bad(PEER_STRAGGLERS, err, "rank", o->rank);
	if (o->own > PEER_SHARE || o->cost > o->own)
		return peer_bad(PEER_STRAGGLERS, err, "own part", o->own);
	return 0;
}

int peer_stragglers_check(const struct peer_stragglers *m, struct err *err)
{
	int rc = 0;
	if (!m->epoch || m->epoch > EPOCH_MAX)
		return peer_bad(PEER_STRAGGLERS, err, "epoch", m->epoch);
	for (uint32_t i = 0; i < m->n; i++) {
		const struct peer_straggler *s = &m->of[i];
		if (s->rank >= RANK_MAX || (s->whole && s->rank))
			return peer_bad(PEER_STRAGGLERS, err, "rank", s->rank);
		if (s->lost_ns > s->lasted_ns)
			return peer_bad(PEER_STRAGGLERS, err, "cost", s->lost_ns);
	}
	for (uint32_t i = 0; !rc && i < m->nown; i++)
		rc = check_own_part(&m->own[i], err);
	return rc;
}
