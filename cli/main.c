#include "frame/command.h"

#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

/* Of a caller who has closed one of these: what is opened next must not be taken for an output. */
static void keep_outputs(void)
{
	int fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO)
		fd = open("/dev/null", O_RDWR);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	keep_outputs();
	log_init("ckpt");
	return cli_main(argc, argv);
}
