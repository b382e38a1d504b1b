#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

static const struct field replica_digest_fields[] = {
	FIELD_U64_OF(struct peer_replica_digest, set),
	FIELD_U64_OF(struct peer_replica_digest, sum),
	FIELD_U32_OF(struct peer_replica_digest, pieces),
	{0},
};

const struct field peer_replica_digests_fields[] = {
	FIELD_ID_OF(struct peer_replica_digests, id),
	FIELD_LIST_OF(struct peer_replica_digests, n, of, replica_digest_fields),
	{0},
};

int peer_replica_digests_check(const struct peer_replica_digests *m, struct err *err)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (!m->of[i].pieces || m->of[i].pieces > REGISTRATION_PIECES_MAX)
			return peer_bad(PEER_REPLICA_DIGESTS, err, "pieces", m->of[i].pieces);
	return peer_check_id(PEER_REPLICA_DIGESTS, m->id, false, err);
}

const struct field peer_compare_fields[] = {
	FIELD_ID_OF(struct peer_compare, id),
	FIELD_U64_OF(struct peer_compare, set),
	FIELD_U32_OF(struct peer_compare, first),
	FIELD_U32_OF(struct peer_compare, count),
	{0},
};

int peer_compare_check(uint16_t type, const struct peer_compare *m, struct err *err)
{
	if (!m->count || m->count > REGISTRATION_PIECES_MAX || m->first > REGISTRATION_PIECES_MAX - m->count)
		return peer_bad(type, err, "pieces", m->count);
	return peer_check_id(type, m->id, false, err);
}

static const struct field sum_fields[] = {
	FIELD_U32_OF(struct peer_sum, of),
	FIELD_U64_OF(struct peer_sum, sum),
	{0},
};

const struct field peer_compared_fields[] = {
	FIELD_PART_OF(struct peer_compared, ask, peer_compare_fields),
	FIELD_LIST_OF(struct peer_compared, n, of, sum_fields),
	FIELD_TEXT_OF(struct peer_compared, name),
	{0},
};

int peer_compared_check(const struct peer_compared *m, struct err *err)
{
	uint32_t end = m->ask.count == 1 ? RANK_MAX : PEER_COMPARE_PARTS;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].of >= end)
			return peer_bad(PEER_COMPARED, err, m->ask.count == 1 ? "rank" : "part", m->of[i].of);
	return peer_compare_check(PEER_COMPARED, &m->ask, err);
}
