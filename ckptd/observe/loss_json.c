#include "observe/loss_json.h"

#include "runtime/room.h"

#include <math.h>

/* JSON has no other numbers. */
static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *norm(double x)
{
	return x < 0 ? json_null() : number(x);
}

static json_t *trouble(enum loss_trouble is)
{
	return is == LOSS_GOOD ? json_null() : json_string(loss_trouble_name(is));
}

static json_t *episode(const struct loss_episode *e)
{
	char text[LOSS_TEXT_MAX + 32];
	return json_pack("{s:s, s:I, s:o, s:I, s:o, s:o}", "kind", loss_trouble_name(e->found.kind), "step",
			 (json_int_t)e->found.step, "rank",
			 e->by_rank ? json_integer((json_int_t)e->rank) : json_null(), "since_ns",
			 (json_int_t)e->since_wall_ns, "until_ns",
			 e->until_wall_ns ? json_integer((json_int_t)e->until_wall_ns) : json_null(), "text",
			 plain_json_text(loss_episode_text(e, text, sizeof(text))));
}

json_t *loss_json(const struct job *job)
{
	const struct loss_watch *w = &job->loss;
	const struct loss *l = &w->now;
	bool known = l->losses.n >= LOSS_KNOWN;
	if (!l->steps)
		return json_null();
	json_t *episodes = json_array();
	for (uint32_t i = 0; i < w->nepisodes; i++)
		json_array_append_new(episodes, episode(&w->episodes[i]));
	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "step", (json_int_t)l->step, "loss",
			 number(l->value), "gradient_norm", norm(l->norm), "trouble", trouble(l->is), "median",
			 known ? json_real(l->losses.median) : json_null(), "noise",
			 known ? json_real(l->losses.noise) : json_null(), "smoothed",
			 known ? json_real(l->smoothed) : json_null(), "best", known ? json_real(l->best) : json_null(),
			 "best_step", known ? json_integer((json_int_t)l->best_step) : json_null(), "episodes",
			 episodes);
}

json_t *loss_json_rank(const struct rank *rank)
{
	const struct loss_rank *is = &rank->job->loss.ranks.ranks[rank->index];
	if (!is->known)
		return json_null();
	return json_pack("{s:I, s:o, s:o}", "step", (json_int_t)is->said.step, "loss", number(is->said.loss),
			 "gradient_norm", norm((double)is->said.gradient_norm));
}
