#include "frame/command.h"

#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

/* Of a caller who has closed one of these: what is opened next must not be taken for an output. Writing there fails, as it would have: who
 * asks for a result and gets none is told so. */
static void keep_outputs(void)
{
	int fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO)
		fd = open("/dev/null", O_RDONLY);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	keep_outputs();
	log_init("ckpt");
	return cli_main(argc, argv);
}
