/* libFuzzer entry point: the parser of configuration files. What is accepted fills the settings of a job; what is refused is refused with
 * a sentence. */
#include "config/file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct sources *sources;
	if (sources_new(&sources, &err))
		return 0;
	int rc = file_parse(sources, "fuzz.conf", (const char *)data, size, &err);
	if (rc && !err.text[0])
		abort();
	struct policy policy;
	if (!rc)
		sources_fill(sources, SCOPE_JOB, "gpt", &policy);
	sources_free(sources);
	return 0;
}
