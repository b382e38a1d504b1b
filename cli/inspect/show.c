/* ckpt show: all that the documents of one checkpoint say. */
#include "frame/output.h"
#include "frame/target.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "store/manage/tags.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Totals of a node or of a tensor group. */
struct sum {
	const char *name;
	uint64_t files, bytes, stored;
	uint32_t ranks, last_rank;
};

static void add_file(struct sum *sum, const struct manifest_file *f)
{
	sum->files++;
	sum->bytes += f->size;
	sum->stored += manifest_stored(f);
	/* The files of a node stand by rank. */
	if (!sum->ranks || sum->last_rank != f->rank)
		sum->ranks++;
	sum->last_rank = f->rank;
}

static struct sum sum_node(const struct node_manifest *node)
{
	struct sum sum = {.name = node->node};
	for (uint32_t f = 0; f < node->nfiles; f++)
		add_file(&sum, &node->files[f]);
	return sum;
}

enum { GROUPS_MAX = 64 };

/* Groups in the order in which they appear; those beyond GROUPS_MAX are summed in the last. */
static size_t sum_groups(const struct checkpoint *ck, struct sum groups[GROUPS_MAX])
{
	size_t n = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		for (uint32_t f = 0; f < ck->nodes[i].nfiles; f++) {
			const struct manifest_file *file = &ck->nodes[i].files[f];
			size_t g = 0;
			while (g < n && strcmp(groups[g].name, file->group) && g + 1 < GROUPS_MAX)
				g++;
			if (g == n)
				groups[n++] = (struct sum){.name = file->group};
			if (g + 1 == GROUPS_MAX && strcmp(groups[g].name, file->group))
				groups[g].name = "(others)";
			add_file(&groups[g], file);
		}
	}
	return n;
}

struct facts {
	struct health health;
	struct health_mark mark;
	struct pin pin;
	int health_rc, mark_rc, pin_rc;
	const char *state;
	enum tone tone;
	struct tag_found *tags;
	size_t ntags;
};

static void read_facts(const struct checkpoint *ck, struct facts *facts)
{
	facts->health_rc = checkpoint_health(ck, &facts->health, NULL);
	facts->mark_rc = checkpoint_health_mark(ck, &facts->mark, NULL);
	facts->pin_rc = checkpoint_pin(ck, &facts->pin, NULL);
	tags_list(ck->repo, ck->ref.job, &facts->tags, &facts->ntags, NULL);
	facts->state = "committed";
	facts->tone = TONE_PLAIN;
	if (!facts->health_rc) {
		facts->state = facts->health.damaged ? "damaged" : "verified";
		facts->tone = facts->health.damaged ? TONE_BAD : TONE_GOOD;
	}
}

static void line(const char *what, enum tone tone, const char *value)
{
	out(TONE_DIM, "%-11s", what);
	out(tone, "%s\n", value);
}

static const char *mark_word(const struct health_mark *v)
{
	return v->unhealthy ? "unhealthy" : "healthy";
}

static void print_mark(const struct health_mark *v)
{
	char text[MARK_TEXT_MAX + 80], age[32];
	snprintf(text, sizeof(text), "%s%s%s (%s)", mark_word(v), v->reason[0] ? ": " : "", v->reason,
		 text_age(age, sizeof(age), v->given_at));
	line("mark", v->unhealthy ? TONE_WARN : TONE_PLAIN, text);
}

static void print_marks(const struct checkpoint *ck, const struct facts *facts)
{
	char text[64], age[32];
	line("state", facts->tone, facts->state);
	if (!facts->health_rc) {
		snprintf(text, sizeof(text), "%s (%s)", text_time(age, sizeof(age), facts->health.verified_at),
			 text_age((char[32]){0}, 32, facts->health.verified_at));
		line("checked", TONE_PLAIN, text);
		if (facts->health.damaged)
			line("damage", TONE_BAD, facts->health.detail);
	}
	if (!facts->mark_rc)
		print_mark(&facts->mark);
	if (!facts->pin_rc)
		line("pinned", TONE_PLAIN, facts->pin.note[0] ? facts->pin.note : "yes");
	else if (facts->pin_rc != -ENOENT)
		line("pinned", TONE_WARN, "yes (the mark is damaged)");
	for (size_t i = 0; (i = tags_next(facts->tags, facts->ntags, i, ck->ref.id)) < facts->ntags; i++)
		line("tag", TONE_PLAIN, facts->tags[i].tag.name);
}

static void print_sums(const char *what, const struct sum *sums, size_t n)
{
	char size[40], text[256];
	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%s: %" PRIu64 " files, %s, %u rank%s", sums[i].name, sums[i].files,
			 text_sizes(size, sizeof(size), sums[i].bytes, sums[i].stored), sums[i].ranks,
			 sums[i].ranks == 1 ? "" : "s");
		line(what, TONE_PLAIN, text);
	}
}

static void print(const struct cli *cli, const struct checkpoint *ck, const struct facts *facts)
{
	char name[NAME_DIR_MAX + NAME_JOB_MAX], text[256], size[16], age[32], stamp[32];
	struct sum groups[GROUPS_MAX];
	line("checkpoint", TONE_HEAD, text_checkpoint(&ck->ref, name, sizeof(name)));
	line("repository", TONE_PLAIN, cli->repo->path);
	snprintf(text, sizeof(text), "%s (%s)", text_time(stamp, sizeof(stamp), ck->ref.committed_ns),
		 text_age(age, sizeof(age), ck->ref.committed_ns));
	line("committed", TONE_PLAIN, text);
	print_marks(ck, facts);
	snprintf(text, sizeof(text), "%" PRIu64 " files, %s (%" PRIu64 " bytes)", ck->manifest.files,
		 bytes_human(size, sizeof(size), ck->manifest.bytes), ck->manifest.bytes);
	line("size", TONE_PLAIN, text);
	if (ck->manifest.stored != ck->manifest.bytes) {
		snprintf(text, sizeof(text), "%s (%" PRIu64 " bytes, %.2f times less: packed)",
			 bytes_human(size, sizeof(size), ck->manifest.stored), ck->manifest.stored,
			 (double)ck->manifest.bytes / (double)max_u64(ck->manifest.stored, 1));
		line("stored", TONE_PLAIN, text);
	}
	snprintf(text, sizeof(text), "%u", ck->manifest.world);
	line("ranks", TONE_PLAIN, text);
	if (ck->manifest.began) {
		snprintf(text, sizeof(text), "in epoch %u, without restoring", ck->manifest.began);
		line("began", TONE_PLAIN, text);
	}
	print_sums("group", groups, sum_groups(ck, groups));
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		struct sum sum = sum_node(&ck->nodes[i]);
		print_sums("node", &sum, 1);
	}
}

static json_t *sums_json(const struct sum *sums, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(list,
				      json_pack("{s:o, s:I, s:I, s:I, s:i}", "name", json_text(sums[i].name), "files",
						(json_int_t)sums[i].files, "bytes", (json_int_t)sums[i].bytes, "stored",
						(json_int_t)sums[i].stored, "ranks", (int)sums[i].ranks));
	}
	return list;
}

static json_t *marks_json(json_t *doc, const struct checkpoint *ck, const struct facts *facts)
{
	json_t *health = json_null(), *mark = json_null(), *pin = json_null(), *tags = json_array();
	if (!facts->health_rc)
		health = json_pack("{s:I, s:b, s:o}", "verified_ns", (json_int_t)facts->health.verified_at, "damaged",
				   facts->health.damaged, "detail", json_text(facts->health.detail));
	if (!facts->mark_rc)
		mark = json_pack("{s:s, s:I, s:o}", "result", mark_word(&facts->mark), "given_ns",
				 (json_int_t)facts->mark.given_at, "reason", json_text(facts->mark.reason));
	if (!facts->pin_rc)
		pin = json_pack("{s:I, s:o}", "pinned_ns", (json_int_t)facts->pin.pinned_at, "note",
				json_text(facts->pin.note));
	for (size_t i = 0; (i = tags_next(facts->tags, facts->ntags, i, ck->ref.id)) < facts->ntags; i++)
		json_array_append_new(tags, json_text(facts->tags[i].tag.name));
	json_object_set_new(doc, "tags", tags);
	json_object_set_new(doc, "health", health);
	json_object_set_new(doc, "verdict", mark);
	json_object_set_new(doc, "pin", pin);
	json_object_set_new(doc, "pinned", json_boolean(facts->pin_rc != -ENOENT));
	return doc;
}

static void emit(const struct cli *cli, const struct checkpoint *ck, const struct facts *facts)
{
	char name[NAME_DIR_MAX];
	struct sum groups[GROUPS_MAX];
	size_t ngroups = sum_groups(ck, groups);
	json_t *doc = json_document(cli), *nodes = json_array();
	name_dir(ck->ref.id, name);
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		struct sum sum = sum_node(&ck->nodes[i]);
		json_t *one = sums_json(&sum, 1);
		json_array_extend(nodes, one);
		json_decref(one);
	}
	json_object_set_new(doc, "repository", json_text(cli->repo->path));
	json_object_set_new(doc, "job", json_text(ck->ref.job));
	json_object_set_new(doc, "step", json_integer((json_int_t)ck->ref.id.step));
	json_object_set_new(doc, "epoch", json_integer(ck->ref.id.epoch));
	json_object_set_new(doc, "name", json_text(name));
	json_object_set_new(doc, "state", json_text(facts->state));
	json_object_set_new(doc, "committed_ns", json_integer((json_int_t)ck->ref.committed_ns));
	json_object_set_new(doc, "bytes", json_integer((json_int_t)ck->manifest.bytes));
	json_object_set_new(doc, "stored", json_integer((json_int_t)ck->manifest.stored));
	json_object_set_new(doc, "files", json_integer((json_int_t)ck->manifest.files));
	json_object_set_new(doc, "ranks", json_integer(ck->manifest.world));
	json_object_set_new(doc, "began", ck->manifest.began ? json_integer(ck->manifest.began) : json_null());
	json_object_set_new(doc, "groups", sums_json(groups, ngroups));
	json_object_set_new(doc, "nodes", nodes);
	json_emit(marks_json(doc, ck, facts));
}

static int run(struct cli *cli)
{
	struct checkpoint ck;
	int code = cli_open(cli, &ck);
	if (code)
		return code;
	struct facts *facts = calloc(1, sizeof(*facts));
	if (!facts) {
		checkpoint_close(&ck);
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	}
	read_facts(&ck, facts);
	if (cli->json)
		emit(cli, &ck, facts);
	else
		print(cli, &ck, facts);
	free(facts->tags);
	free(facts);
	checkpoint_close(&ck);
	return EXIT_OK;
}

const struct command command_show = {
	.name = "show",
	.summary = "show what one checkpoint holds, where, and in which state",
	.detail = "STEP is a number (its newest epoch), \"1000.e0003\", or the directory's name. Without one: latest.",
	.args = "[STEP|latest]",
	.max_args = 1,
	.run = run,
};
