/* main.c: nothing but main, so that tests can be linked with the rest of the command line. */
#include "cli/core.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
