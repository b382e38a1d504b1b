/* make_store ROOT STEP[.EPOCH] … [options]: checkpoints for shell tests, by store_maker.h. */
#include "store_maker.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
	{"job", required_argument, NULL, 'j'},
	{"world", required_argument, NULL, 'w'},
	{"nodes", required_argument, NULL, 'n'},
	{"rows", required_argument, NULL, 'r'},
	{"cols", required_argument, NULL, 'c'},
	{"seed", required_argument, NULL, 's'},
	{"file-max", required_argument, NULL, 'f'},
	{"partial", no_argument, NULL, 'p'},
	{"packed", no_argument, NULL, 'z'},
	{"weights", no_argument, NULL, 'W'},
	{"healthy", no_argument, NULL, 'h'},
	{"damaged", required_argument, NULL, 'd'},
	{"verdict", required_argument, NULL, 'v'},
	{"pin", required_argument, NULL, 'P'},
	{"count", required_argument, NULL, 'C'},
	{"boxes", no_argument, NULL, 'b'},
	{NULL},
};

struct wishes {
	struct store_spec spec;
	bool healthy, weights;
	const char *damaged, *mark, *pin;
	uint64_t count; /* of steps from each STEP on */
};

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	if (*end || end == text) {
		fprintf(stderr, "make_store: \"%s\" is not a number\n", text);
		exit(2);
	}
	return n;
}

static void parse_options(int argc, char **argv, struct wishes *w)
{
	struct store_spec *s = &w->spec;
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
		switch (c) {
		case 'j':
			s->job = optarg;
			break;
		case 'w':
			s->world = (uint32_t)number(optarg);
			break;
		case 'n':
			s->nodes = (uint32_t)number(optarg);
			break;
		case 'r':
			s->rows = number(optarg);
			break;
		case 'c':
			s->cols = number(optarg);
			break;
		case 's':
			s->seed = number(optarg);
			break;
		case 'f':
			s->file_max = number(optarg);
			break;
		case 'p':
			s->partial = true;
			break;
		case 'z':
			s->packed = true;
			break;
		case 'b':
			s->boxes = true;
			break;
		case 'W':
			w->weights = true;
			break;
		case 'h':
			w->healthy = true;
			break;
		case 'd':
			w->damaged = optarg;
			break;
		case 'v':
			w->mark = optarg;
			break;
		case 'P':
			w->pin = optarg;
			break;
		case 'C':
			w->count = number(optarg);
			break;
		default:
			exit(2);
		}
	}
}

static int make(const struct wishes *w, struct err *err)
{
	int rc = store_make(&w->spec, err);
	if (!rc && (w->healthy || w->damaged))
		rc = store_mark_health(&w->spec, w->damaged != NULL, w->damaged ? w->damaged : "", err);
	if (!rc && w->mark)
		rc = store_put_mark(&w->spec, !strcmp(w->mark, "unhealthy"), "as the loss says", err);
	if (!rc && w->pin)
		rc = store_mark_pin(&w->spec, w->pin, err);
	return rc;
}

int main(int argc, char **argv)
{
	struct wishes w = {.count = 1};
	struct err err = {0};
	parse_options(argc, argv, &w);
	if (optind + 1 >= argc) {
		fputs("usage: make_store [options] ROOT STEP[.EPOCH]...\n", stderr);
		return 2;
	}
	w.spec.seed |= w.weights ? STORE_WEIGHTS : 0;
	w.spec.root = argv[optind++];
	for (; optind < argc; optind++) {
		char *dot = strchr(argv[optind], '.');
		if (dot)
			*dot++ = 0;
		w.spec.id = (struct step_id){number(argv[optind]), dot ? (uint32_t)number(dot) : 1};
		for (uint64_t i = 0; i < w.count; i++, w.spec.id.step++) {
			if (make(&w, &err) < 0) {
				fprintf(stderr, "make_store: %s\n", err.text);
				return 1;
			}
		}
	}
	return 0;
}
