/* main.c: cowbox-box, which cowbox starts; nobody else has a use for it. */
#include <stdio.h>
#include <stdlib.h>

#include "holder/enter.h"

static int usage(void)
{
	(void)fputs("cowbox-box: a helper that cowbox starts to isolate programs; it does nothing by hand\n", stderr);
	return 2;
}

static bool parse_uid(const char *text, uid_t *out)
{
	char *end = NULL;
	unsigned long uid = strtoul(text, &end, 10);
	*out = (uid_t)uid;
	/* 0 is what it must not be, -1 means "as it is" to setresuid. */
	return *text >= '0' && *text <= '9' && *end == 0 && uid > 0 && uid < UINT32_MAX;
}

static int hold(char **arguments)
{
	holder_options options = {0};
	for (; *arguments; arguments++) {
		if (strcmp(*arguments, "--weak") == 0) options.weak = true;
		else if (strcmp(*arguments, "--old-kernel") == 0) enter_force_old(true);
		else if (strcmp(*arguments, "--uid") == 0 && arguments[1] && parse_uid(arguments[1], &options.uid)) arguments++;
		else return usage();
	}
	return holder_main(&options);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "hold") == 0) return hold(argv + 2);
	/* As PID 1 of the sandbox; in the weak mode as any. Started by hand it has no socket and ends. */
	if (argc == 2 && strcmp(argv[1], "init") == 0 && argv[0] && strcmp(argv[0], "cowbox-box") == 0)
		init_main(HOLDER_INIT_SOCKET_FD, HOLDER_INIT_PLAN_FD);
	return usage();
}
