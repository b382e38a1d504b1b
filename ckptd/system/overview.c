#include "overview.h"

#include "base/clock.h"
#include "format/document/json_out.h"

static const char *state_name(const struct user *user)
{
	static const char *const names[] = {"resting", "starting", "served", "ending"};
	return user->refused                                   ? "refused"
	       : user->state == USER_RESTING && user->failures ? "failing"
							       : names[user->state];
}

static void number(struct wbuf *out, const char *key, uint64_t value)
{
	jout_raw(out, key);
	jout_u64(out, value);
}

static void put_user(struct wbuf *out, const struct user *user)
{
	bool runs = user->state != USER_RESTING;
	jout_raw(out, "{\"name\":");
	jout_text(out, user->name);
	number(out, ",\"uid\":", user->uid);
	jout_raw(out, ",\"state\":");
	jout_text(out, state_name(user));
	number(out, ",\"pid\":", runs ? (uint64_t)user->worker.pid : 0);
	number(out, ",\"memory_bytes\":", user->leased);
	number(out, ",\"memory_limit_bytes\":", user->memory_limit);
	number(out, ",\"arenas_held\":", user->nheld);
	number(out, ",\"connections\":", user->passed);
	number(out, ",\"waiting\":", user->npending);
	number(out, ",\"starts\":", user->starts);
	jout_raw(out, ",\"error\":");
	if (*user->why)
		jout_text(out, user->why);
	else
		jout_raw(out, "null");
	jout_raw(out, "}");
}

int overview_encode(const struct users *u, uint64_t started_ns, struct wbuf *out)
{
	uint64_t leased = 0;
	bool first = true;
	list_for(node, &u->list)
		leased += list_entry(node, struct user, link)->leased;
	jout_raw(out, "{\"schema\":1,\"system\":true,\"node\":");
	jout_text(out, u->config.node);
	jout_raw(out, ",\"version\":");
	jout_text(out, CKPT_VERSION);
	number(out, ",\"uptime_s\":", (clock_now() - started_ns) / CLOCK_NS_PER_S);
	number(out, ",\"memory\":{\"used\":", leased);
	number(out, ",\"limit\":", u->config.memory_limit);
	jout_raw(out, "},\"users\":[");
	list_for(node, &u->list) {
		if (!first)
			jout_raw(out, ",");
		first = false;
		put_user(out, list_entry(node, struct user, link));
	}
	jout_raw(out, "]}");
	return wbuf_finish(out);
}
