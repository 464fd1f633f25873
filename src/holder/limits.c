/*
 * limits.c: what the kernel itself holds for a sandbox: resource limits, processors, capabilities. Done once in init; commands
 * inherit it.
 *
 * No bound of address space or data: node, the JVM, Go and sanitizers reserve far more than they use. RLIMIT_NPROC is counted per
 * user namespace, so other processes of the same user do not count, and threads do.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "holder/command.h"

enum {
	OWN_PROCESSES = 2, /* init and the reaper, which count as the user's */
	OPEN_FILES_SOFT = 1024,
	OOM_SCORE = 500, /* a box goes before what else runs on the machine */
};

/* Not above what init itself may have. */
static cb_code limit_set(__rlimit_resource_t which, const char *what, uint64_t soft, uint64_t hard, cb_error *err)
{
	struct rlimit now;
	if (getrlimit(which, &now) != 0) return cb_err_errno(err, errno, "cannot read the limit of %s", what);
	if (hard > now.rlim_max) hard = now.rlim_max;
	if (soft > hard) soft = hard;
	struct rlimit want = {.rlim_cur = soft, .rlim_max = hard};
	if (setrlimit(which, &want) != 0) return cb_err_errno(err, errno, "cannot set the limit of %s", what);
	return CB_OK;
}

/* As many processors as the bound, rounded up, of those that init may use. */
static cb_code limit_cpus(uint32_t cpus_milli, bool *out_pinned, cb_error *err)
{
	cpu_set_t may, use;
	if (sched_getaffinity(0, sizeof(may), &may) != 0)
		return CB_OK; /* more processors than the set holds: no bound by this way */
	unsigned wanted = (cpus_milli + 999) / 1000, have = 0;
	CPU_ZERO(&use);
	for (unsigned i = 0; i < CPU_SETSIZE && have < wanted; i++) {
		if (!CPU_ISSET(i, &may)) continue;
		CPU_SET(i, &use);
		have++;
	}
	if (sched_setaffinity(0, sizeof(use), &use) != 0) return cb_err_errno(err, errno, "cannot bound the processors");
	*out_pinned = true;
	return CB_OK;
}

static void oom_prefer(void)
{
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", OOM_SCORE);
	if (fd >= 0 && write(fd, text, (size_t)n) < 0) return; /* a preference, not a wall */
}

cb_code limits_apply(const plan_limits *limits, uint64_t others, bool *out_pinned, cb_error *err)
{
	*out_pinned = false;
	oom_prefer();
	CB_TRY(limit_set(RLIMIT_CORE, "core files", 0, 0, err));
	if (limits->pids) {
		uint64_t most = (uint64_t)limits->pids + OWN_PROCESSES + others;
		CB_TRY(limit_set(RLIMIT_NPROC, "processes", most, most, err));
	}
	if (limits->open_files) CB_TRY(limit_set(RLIMIT_NOFILE, "open files", OPEN_FILES_SOFT, limits->open_files, err));
	if (limits->file_bytes) CB_TRY(limit_set(RLIMIT_FSIZE, "the size of a file", limits->file_bytes, limits->file_bytes, err));
	if (limits->cpus_milli) CB_TRY(limit_cpus(limits->cpus_milli, out_pinned, err));
	return CB_OK;
}

static int capabilities_set(uint64_t keep)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
		{.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
	};
	return syscall(SYS_capset, &header, data) == 0 ? 0 : errno;
}

cb_code limits_capabilities(uint64_t keep, cb_error *err)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
		return cb_err_errno(err, errno, "cannot clear ambient capabilities");
	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0) return cb_err_errno(err, errno, "cannot drop capability %lu", i);
	if (prctl(PR_SET_SECUREBITS,
	          SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
	                  SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
	          0, 0, 0) != 0)
		return cb_err_errno(err, errno, "cannot lock the secure bits");
	int error = capabilities_set(keep);
	if (error) return cb_err_errno(err, error, "cannot drop capabilities");
	return CB_OK;
}

int limits_capabilities_none(void)
{
	return capabilities_set(0);
}
