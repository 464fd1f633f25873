/* mounts.c: see mounts.h. */
#include "harness/mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/harness.h"

static const char boot_id[] = "/proc/sys/kernel/random/boot_id";
static char boot_file[512], empty_folder[512];

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0) (void)close(fd);
	return ok;
}

static bool unshare_mounts(void)
{
	char map[64];
	unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
	if (unshare(CLONE_NEWNS) == 0) return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
	(void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	bool ok = write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", map);
	(void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return ok && write_text("/proc/self/gid_map", map);
}

bool mounts_try(void)
{
	return unshare_mounts() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

void mounts_own(void)
{
	if (!mounts_try()) test_lacks("mount", "no mounts of one's own here");
}

void boots_set(unsigned long long boot)
{
	char text[64];
	int fd = open(boot_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	(void)snprintf(text, sizeof(text), "%08llx-0000-4000-8000-%012llx\n", boot & 0xffffffff, boot);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

bool boots_try(void)
{
	(void)snprintf(boot_file, sizeof(boot_file), "%s/boot_id", test_tmpdir());
	(void)snprintf(empty_folder, sizeof(empty_folder), "%s/no-random", test_tmpdir());
	boots_set(1);
	CHECK(mkdir(empty_folder, 0700) == 0);
	return mount(boot_file, boot_id, NULL, MS_BIND, NULL) == 0;
}

void boots_fake(void)
{
	if (!boots_try()) test_lacks("mount", "boot_id cannot be mounted over here");
}

void boots_hide(bool hidden)
{
	static const char folder[] = "/proc/sys/kernel/random";
	CHECK((hidden ? mount(empty_folder, folder, NULL, MS_BIND, NULL) : umount2(folder, MNT_DETACH)) == 0);
	CHECK(access(boot_id, F_OK) == (hidden ? -1 : 0));
}

void mounts_read_only(const char *folder)
{
	CHECK(mount(folder, folder, NULL, MS_BIND, NULL) == 0);
	CHECK(mount(NULL, folder, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0);
}

void mounts_writable(const char *folder)
{
	CHECK(umount2(folder, MNT_DETACH) == 0);
}
