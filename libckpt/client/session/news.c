#include "base/cleanup.h"
#include "base/clock.h"
#include "client/session/session.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void news_event(struct service *service, const struct wire_event *event)
{
	service->news.events[service->news.nevents++ % NEWS_MAX] = *event;
	pthread_cond_broadcast(&service->changed);
}

void news_epoch(struct service *service, uint32_t epoch, const char *reason)
{
	struct news *news = &service->news;
	if (epoch <= news->epoch)
		return;
	news->epoch = epoch;
	snprintf(news->reason, sizeof(news->reason), "%s", reason);
}

/* Of an eventfd that does not block: its count does not matter, only whether there is one. */
static void set_over(const struct service *service, bool over)
{
	uint64_t count = 1;
	ssize_t ignored =
		over ? write(service->over, &count, sizeof(count)) : read(service->over, &count, sizeof(count));
	(void)ignored;
}

void news_tell(ckpt *s)
{
	struct news *news = &s->service.news;
	char reason[WIRE_TEXT_MAX];
	pthread_mutex_lock(&s->service.lock);
	uint32_t epoch = news->epoch;
	bool due = news->joined && !news->joining && epoch > news->joined && epoch > news->told;
	if (due) {
		news->told = epoch;
		memcpy(reason, news->reason, sizeof(reason));
		set_over(&s->service, true);
	}
	pthread_mutex_unlock(&s->service.lock);
	if (due && s->settings.on_epoch)
		s->settings.on_epoch(s->settings.on_epoch_arg, epoch, reason);
}

static const struct wire_event *find_event(const struct news *news, struct step_id id)
{
	uint32_t n = news->nevents < NEWS_MAX ? news->nevents : NEWS_MAX;
	for (uint32_t i = 0; i < n; i++) {
		const struct wire_event *e = &news->events[(news->nevents - 1 - i) % NEWS_MAX];
		if (e->rc && e->id.step == id.step && e->id.epoch == id.epoch)
			return e;
	}
	return NULL;
}

bool news_sentence(ckpt *s, struct step_id id, uint64_t deadline, char *dst, size_t size)
{
	struct service *service = &s->service;
	struct timespec until = {.tv_sec = (time_t)(deadline / CLOCK_NS_PER_S),
				 .tv_nsec = (long)(deadline % CLOCK_NS_PER_S)};
	LOCK_SCOPE(&service->lock);
	const struct wire_event *e = find_event(&service->news, id);
	while (!e && clock_now() < deadline && service->state == SERVICE_READY) {
		pthread_cond_clockwait(&service->changed, &service->lock, CLOCK_MONOTONIC, &until);
		e = find_event(&service->news, id);
	}
	if (e)
		snprintf(dst, size, "%s", e->text);
	return e != NULL;
}

void news_join_begins(ckpt *s)
{
	LOCK_SCOPE(&s->service.lock);
	s->service.news.joining = true;
}

void news_join_ends(ckpt *s, uint32_t epoch)
{
	pthread_mutex_lock(&s->service.lock);
	struct news *news = &s->service.news;
	news->joining = false;
	if (epoch)
		news->joined = epoch;
	if (news->epoch < epoch)
		news->epoch = epoch;
	if (epoch && news->epoch == epoch)
		set_over(&s->service, false);
	pthread_mutex_unlock(&s->service.lock);
	/* An epoch that was raised meanwhile is told now. */
	service_poke(s);
}
