/*
 * weak.h: programs without namespaces, only when asked for: Landlock, the filter and resource limits in the process itself. Private
 * to the helper.
 *
 * `cowbox-box init` is started the same way as with namespaces, with the tree as its working folder; init_main sees plan->weak.
 * What this does not stop is listed in SECURITY.md: names and sizes of files of the host, changes of mode and times of what the
 * user owns, the list of processes, on older kernels signals to processes of the same user, and what a program does to be forgotten
 * by the process that started it.
 */
#ifndef HOLDER_WEAK_H
#define HOLDER_WEAK_H

#include "holder/command.h"

typedef struct weak {
	char root[LIMIT_PATH_BYTES]; /* of the tree, on the host */
	int folder;                  /* the tree: its path may lead through folders that this user cannot enter */
	int ruleset;                 /* Landlock's; kept open for commands, as is folder */
} weak;

/* In init, once: finds the tree (the working folder) and builds the rules. CB_UNSUPPORTED without Landlock. */
cb_code weak_init(weak *w, cb_error *err);
/* In the command, before its descriptors are closed; no_new_privs is set. Enters the working folder, which must be in the tree, and
 * confines. 0 or an errno. */
int weak_confine(const weak *w, const char *cwd);
/* The variables that name folders moved into the tree, and the program when it is a path of the box; COWBOX_ROOT says where the
 * tree is. What was allocated stays. */
cb_code weak_place(const weak *w, command *c, cb_error *err);

/* Processes of this user. */
uint64_t weak_count_others(void);
/* A signal (0: none) for all descendants of this process. Gives how many there were. */
size_t weak_signal_all(int signal);
/* Was it among them the last time? */
bool weak_is_ours(pid_t pid);
/* SIGKILL for all of them until none is left, or for LIMIT_HOLDER_END_MS; reaps them. */
void weak_kill_all(void);

#endif
