/*
 * pins.c: steps that commands began from, "base BOX SEQ STATE" in the stamps of STORE/work/slots (src/work/stamp.h), and those of the
 * layers they stand on, "under BOX SEQ STATE".
 *
 * Only these lines are known here; a stamp is one small text that is rewritten whole, so a line is there or not. Whoever starts a
 * command writes its line first and then looks whether the step is still there, and prune reads the lines under the writer lock: one
 * of the two sees the other.
 */
#include "box/box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"

enum { STAMP_MAX = 4096 };

/* The step that a line of a stamp names, if it is one of the box. */
static cb_code pin_line(const char *line, uint64_t box, buf *seqs, cb_error *err)
{
	unsigned long long in_box, number;
	if (!line || sscanf(line, "%*s %llu %llu", &in_box, &number) != 2 || in_box != box) return CB_OK;
	uint64_t seq = number;
	return buf_append(seqs, &seq, sizeof(seq), err);
}

static cb_code pin_of(int folder, const char *name, uint64_t box, buf *seqs, cb_error *err)
{
	char text[STAMP_MAX + 1];
	size_t size = 0;
	AUTO_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) return errno == ENOENT ? CB_OK : cb_err_errno(err, errno, "cannot read what runs in the box");
	CB_TRY(io_pread_all(fd, text, STAMP_MAX, 0, &size, err));
	text[size] = 0;
	const char *base = strstr(text, "\nbase ");
	if (!base) return CB_OK;
	CB_TRY(pin_line(base + 1, box, seqs, err));
	const char *under = strstr(text, "\nunder ");
	return under ? pin_line(under + 1, box, seqs, err) : CB_OK;
}

cb_code box_pins(cb_store *cs, uint64_t box, buf *seqs, cb_error *err)
{
	const char *path = store_path(cs->s);
	if (!path) return CB_OK;
	AUTO_FD int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int work = top < 0 ? -1 : openat(top, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int folder = work < 0 ? -1 : openat(work, "slots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0) return errno == ENOENT ? CB_OK : cb_err_errno(err, errno, "cannot look at what runs in the box");
	DIR *list = fdopendir(folder);
	if (!list) {
		(void)close(folder);
		return cb_err_nomem(err);
	}
	cb_code code = CB_OK;
	for (const struct dirent *e; code == CB_OK && (e = readdir(list)) != NULL;)
		if (e->d_name[0] != '.') code = pin_of(folder, e->d_name, box, seqs, err);
	(void)closedir(list);
	return code;
}
