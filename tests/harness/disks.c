/* disks.c: see disks.h. */
#include "harness/disks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/mounts.h"

/* ---- the small filesystem ---- */

static bool run_quietly(const char *command)
{
	char line[9000];
	(void)snprintf(line, sizeof(line), "%s >/dev/null 2>&1", command);
	return system(line) == 0;
}

/* The loop device goes away with its last user: LO_FLAGS_AUTOCLEAR. */
static bool loop_attach(const char *file, char *out_device, size_t size)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control >= 0 ? ioctl(control, LOOP_CTL_GET_FREE) : -1;
	if (control >= 0) (void)close(control);
	if (number < 0) return false;
	(void)snprintf(out_device, size, "/dev/loop%d", number);
	int device = open(out_device, O_RDWR | O_CLOEXEC), backing = open(file, O_RDWR | O_CLOEXEC);
	struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR};
	bool ok = device >= 0 && backing >= 0 && ioctl(device, LOOP_SET_FD, backing) == 0;
	if (ok && ioctl(device, LOOP_SET_STATUS64, &info) != 0) {
		(void)ioctl(device, LOOP_CLR_FD);
		ok = false;
	}
	if (backing >= 0) (void)close(backing);
	/* Left open on purpose until the mount holds it: the last close would detach it. */
	if (!ok && device >= 0) (void)close(device);
	return ok;
}

static bool mount_image(const disk *d, disk_kind kind, uint64_t bytes)
{
	char image[4300], command[4500], device[64];
	(void)snprintf(image, sizeof(image), "%s.img", d->mount);
	int fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return false;
	(void)close(fd);
	(void)snprintf(command, sizeof(command), "mkfs.%s -q -m 0 %s '%s'", kind == DISK_EXT2 ? "ext2" : "ext4",
	               kind == DISK_EXT4_JOURNAL ? "" : "-O ^has_journal", image);
	if (!run_quietly(command)) test_skip("no mkfs.ext2 or mkfs.ext4 here: install e2fsprogs");
	if (!loop_attach(image, device, sizeof(device))) return false;
	return mount(device, d->mount, "ext4", MS_NOATIME, NULL) == 0; /* its driver knows ext2 too */
}

void disk_make(disk *d, disk_kind kind, uint64_t bytes)
{
	char options[64];
	d->refiller = 0;
	(void)snprintf(d->mount, sizeof(d->mount), "%s/disk", test_tmpdir());
	(void)snprintf(d->folder, sizeof(d->folder), "%s/store", d->mount);
	(void)snprintf(d->ballast, sizeof(d->ballast), "%s/ballast", d->mount);
	(void)snprintf(options, sizeof(options), "size=%" PRIu64 ",mode=0700", bytes);
	CHECK(mkdir(d->mount, 0700) == 0);
	mounts_own();
	if (kind != DISK_TMPFS && !mount_image(d, kind, bytes))
		test_lacks("loop", "no image can be mounted here (root and loop devices are needed)");
	if (kind == DISK_TMPFS && mount("none", d->mount, "tmpfs", 0, options) != 0)
		test_lacks("mount", "no tmpfs can be mounted here");
}

void disk_unmount(const disk *d)
{
	CHECK(umount(d->mount) == 0);
}

uint64_t disk_room(const disk *d)
{
	struct statvfs st;
	CHECK(statvfs(d->mount, &st) == 0);
	return (uint64_t)st.f_bavail * st.f_bsize;
}

void ballast_load(const disk *d, uint64_t spare)
{
	uint64_t room = disk_room(d);
	if (room <= spare) return;
	int fd = open(d->ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	static const char bytes[64 << 10] = {1};
	for (uint64_t left = room - spare; left > 0;) {
		ssize_t n = write(fd, bytes, left < sizeof(bytes) ? (size_t)left : sizeof(bytes));
		CHECK_MSG(n > 0 || errno == ENOSPC, "ballast");
		if (n <= 0) break;
		left -= (uint64_t)n;
	}
	(void)close(fd);
}

void ballast_drop(const disk *d)
{
	CHECK(unlink(d->ballast) == 0 || errno == ENOENT);
}

/* ---- the refiller ---- */

/* Takes what there is, the small rests too. */
static void take_all(int fd)
{
	static const char bytes[64 << 10] = {1};
	for (size_t n = sizeof(bytes); n >= 512; n /= 2)
		while (write(fd, bytes, n) > 0) {
		}
}

static void refill_for_ever(const disk *d, int tell)
{
	int fd = open(d->ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct timespec rest = {.tv_nsec = 200000};
	if (fd < 0) _exit(1);
	take_all(fd);
	(void)!write(tell, "", 1);
	for (;;) {
		(void)nanosleep(&rest, NULL);
		take_all(fd);
	}
}

void refiller_start(disk *d)
{
	int ends[2];
	char byte;
	CHECK(pipe(ends) == 0);
	d->refiller = fork();
	CHECK(d->refiller >= 0);
	if (d->refiller == 0) refill_for_ever(d, ends[1]);
	(void)close(ends[1]);
	CHECK(read(ends[0], &byte, 1) == 1);
	(void)close(ends[0]);
}

void refiller_stop(disk *d)
{
	if (!d->refiller) return;
	CHECK(kill(d->refiller, SIGKILL) == 0);
	CHECK(waitpid(d->refiller, NULL, 0) == d->refiller);
	d->refiller = 0;
}
