/*
 * tty.c: a terminal for a command. Its two ends come from the sandbox's own devpts, so that nothing typed or asked of it reaches a
 * terminal of the host.
 *
 * Adversary: an earlier command owns /dev and may have put something else there. The devpts itself cannot be changed, so what is
 * opened is checked to be its multiplexer, and nothing is waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "holder/command.h"

cb_code tty_open(bool weak, uint16_t rows, uint16_t columns, int *out_master, int *out_terminal, cb_error *err)
{
	const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	AUTO_FD int master = open(weak ? "/dev/ptmx" : "/dev/pts/ptmx", flags | O_NONBLOCK | (weak ? 0 : O_NOFOLLOW));
	if (master < 0) return cb_err_errno(err, errno, "cannot open a terminal");
	struct stat st;
	struct statfs fs;
	if (fstat(master, &st) != 0 || fstatfs(master, &fs) != 0) return cb_err_errno(err, errno, "cannot look at the terminal");
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2) || (!weak && fs.f_type != DEVPTS_SUPER_MAGIC))
		return cb_err_set(err, CB_DENIED, "/dev/pts/ptmx is not what makes terminals");
	int unlock = 0;
	if (ioctl(master, TIOCSPTLCK, &unlock) != 0) return cb_err_errno(err, errno, "cannot unlock the terminal");
	AUTO_FD int terminal = ioctl(master, TIOCGPTPEER, flags);
	if (terminal < 0) return cb_err_errno(err, errno, "cannot open the terminal");
	struct winsize size = {.ws_row = rows, .ws_col = columns};
	if ((rows || columns) && ioctl(master, TIOCSWINSZ, &size) != 0) return cb_err_errno(err, errno, "cannot size the terminal");
	if (fcntl(master, F_SETFL, O_RDWR) != 0) return cb_err_errno(err, errno, "cannot open a terminal");
	*out_master = TAKE_FD(master);
	*out_terminal = TAKE_FD(terminal);
	return CB_OK;
}
