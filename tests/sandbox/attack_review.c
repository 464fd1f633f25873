/* attack_review.c: attacks that the tests make from outside, the traps found in review, and the head of docs/security-tests.md. */
#include "sandbox/attack_review.h"

#include "sandbox/attack.h"

const char review_head[] =
	"# Security tests\n"
	"\n"
	"Made by `build/release/tests/sandbox/attack --markdown`; a test compares the two.\n"
	"\n"
	"`tests/sandbox/attacks.t` makes every attack inside a box, as an ordinary user and (when it is run as root) as root, over "
	"overlayfs and\n"
	"over a plain folder. Each must be *held*: it was really made, and got nothing. `tests/sandbox/walls.t` shows that the "
	"tests can fail: it\n"
	"runs a build in which walls can be taken away one at a time, and the attacks marked so are *broken* when their wall is "
	"down. The same\n"
	"attacks outside of any box are broken too, where the machine and the user let them.\n"
	"\n"
	"| wall | what it is |\n"
	"|---|---|\n"
	"| root | pivot_root into a root that holds the box and the system's folders, nothing else |\n"
	"| read-only | system folders and binds, recursively |\n"
	"| etc | a listed /etc with synthesised files |\n"
	"| pid | a pid namespace and /proc for each command |\n"
	"| net, ipc | namespaces of the sandbox |\n"
	"| userns | no user namespaces inside |\n"
	"| caps | no capabilities, no_new_privs |\n"
	"| seccomp | a listed set of system calls |\n"
	"| fds, stdio | nothing is inherited; pipes or a terminal of its own |\n"
	"| exe | helper processes are not dumpable, their program lies on a read-only mount |\n"
	"| uid | on the host the box is the caller, or for root a reserved uid, never root |\n"
	"| proc-sys | /proc/sys is read-only, the kernel's files of /proc are masked |\n"
	"| limits | processes, memory, disk, files, output, time |\n"
	"| capture, kill | not of the sandbox: how the caller looks at what was left, and that nothing is left running |\n"
	"\n"
	"`--weak` has no namespaces: only Landlock, seccomp and the dropped rights hold there. The column says which attacks it "
	"does not hold\n"
	"(\"depends\": on the machine, or on who runs it).\n";

const attack attacks_outside[] = {
	{"cwd-proc-fd", "fds", "--cwd /proc/self/fd/3 and the like",
         "descriptors are closed before chdir; getcwd must be reachable", OUTSIDE, NULL},
	{"argv0-proc-fd", "fds", "a program named /proc/self/fd/N/...", "no such descriptor", OUTSIDE, NULL},
	{"exec-proc-self-exe", "exe", "runs /proc/self/exe", "the helper does nothing without its socket; its file stays as it is",
         OUTSIDE, NULL},
	{"script-proc-self-exe", "exe", "runs a script that begins with #!/proc/self/exe", "the same", OUTSIDE, NULL},
	{"log-truncate", "stdio", "output goes to a log file, the program empties it", "the log keeps what it had", OUTSIDE, NULL},
	{"terminal-of-caller", "stdio", "the caller is on a terminal; the program looks for it", "no terminal is inherited",
         OUTSIDE, NULL},
	{"tar-device", "caps", "tar unpacks devices and setuid files in the box", "no device, no bit is made", OUTSIDE, NULL},
	{"host-unharmed", "pid", "kill -1 and priorities", "processes of the same user on the host go on as they were", OUTSIDE,
         NULL},
	{"left-running", "kill", "looks in the host's /proc after each command", "no process of the box is there", OUTSIDE, NULL},
	{"caller-killed", "kill", "kill -9 of the caller", "the holder ends everything; the step is recovered", OUTSIDE, NULL},
	{"secrets-in-store", "capture", "searches the store for a value given by --env", "only names are recorded", OUTSIDE, NULL},
	{"host-mode-bits", "capture", "looks for setuid files and devices in the store's folder", "there are none", OUTSIDE, NULL},
	{"next-command", "capture", "after each trap: the next command in the same box", "it runs, with the system's own programs",
         OUTSIDE, NULL},
	{NULL}};

const review_item review_items[] = {
	{"the helper's file is overwritten through /proc/self/exe",
         "`proc1-exe`, `exe-of-others`, `exec-proc-self-exe`, `script-proc-self-exe`"},
	{"a leaked descriptor as working folder", "`leaked-fds`, `cwd-proc-fd`, `argv0-proc-fd`"},
	{"inherited output and terminal", "`stdio-kind`, `stdout-truncate`, `log-truncate`, `terminal-of-caller`, `tiocsti`, "
                                          "`tiocsti-high`, `tioclinux`, `tiocsetd`"},
	{"setuid files made inside", "`setid-*`, `file-capabilities`, `tar-device`, `host-mode-bits`"},
	{"Landlock alone", "the `--weak` column"},
	{"a box run by root", "every attack is made as root too; `read-root-file`, `core-pattern`, `read-store`"},
	{"apply as the way out", "tests/cli/apply.t, tests/contract/test_apply.c"},
	{"capture follows a link or blocks", "`trap-swapped`, `trap-swapping`, `trap-special`, `trap-overlay`"},
	{"a proxy that parses hostile bytes; joining a sandbox", "there is no proxy and no way to join a sandbox today; `setns`"},
	{"`run` in a home folder", "there is no `run` today; `exec` imports nothing"},
	{"secrets in the history", "`secrets-in-store`, `env-leak`"},
	{"one path, one file", "`next-command`: what one command leaves in /tmp and /home/agent the next one finds"},
	{"sealing under a live process", "nothing runs between commands: `left-running`"},
	{"stopping processes to look at them", "the same"},
	{"files and folders that cannot be read or removed", "`trap-modes`; tests/sandbox/test_slot.c"},
	{"changing an upper behind a live mount", "tests/sandbox/test_build.c, test_work.c: changes go through the mount"},
	{"two commands on one upper", "attacks.t: commands at once; tests/sandbox/forks.t"},
	{"the death of a caller's thread; a lock that is free too early", "`caller-killed`, `left-running`; tests/sandbox/kill.t"},
	{"a crash loses what ran", "`caller-killed`; tests/sandbox/kill.t, test_recover.c"},
	{"no overlayfs", "every attack is made over a plain folder too"},
	{"the command as process 1", "controls: signals, abort; `trap-ignore`, `trap-stop`, `signal-init`"},
	{"scanning everything for every command", "tests/sandbox/test_scan.c: what is known is not read again"},
	{"rules about which program may run", "there are none today"},
	{"disk and memory", "`memory-*`, `disk-*`, `files-many`, `fork-bomb`; controls: 16 TiB of addresses"},
	{"ptrace inside", "controls: ptrace of a child; `ptrace-init`"},
	{"a filter that widens by itself", "`unknown-calls`, `i386`, `x32`, `clone3-user`; tests/unit/test_filter.c"},
	{"starting real agents", "there is no `run` today"},
	{"programs that ignore a proxy", "there is no proxy today; `internet`"},
	{"a read-only bind with mounts below", "`write-bind`, `write-submount`"},
	{"the minimal root", "controls: files of the system; `host-services`, `listed-devices`, `etc-host`"},
	{"paths of the store in mountinfo", "`mount-table`"},
	{"sessions without a daemon", "there are no sessions today; `left-running`"},
	{NULL, NULL}};
