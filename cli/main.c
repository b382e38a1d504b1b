#include "command.h"

#include "base/log.h"

int main(int argc, char **argv)
{
	log_init("ckpt");
	return cli_main(argc, argv);
}
