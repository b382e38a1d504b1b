/* What a stress program demands: it ends where that does not hold. */
#ifndef CKPT_TESTS_STRESS_CHECK_H
#define CKPT_TESTS_STRESS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#endif
