#include "frame/command.h"

#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

/* Of a caller who has closed one of these: what is opened next must not be taken for an output. Writing there fails, as it would have: who
 * asks for a result and gets none is told so. */
static void keep_outputs(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0) /* the lowest that is free is this one */
			(void)open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

int main(int argc, char **argv)
{
	keep_outputs();
	log_init("ckpt");
	return cli_main(argc, argv);
}
