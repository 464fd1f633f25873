/*
 * cowbox.h: a copy-on-write box for files, attributes and key-values, with every step kept.
 *
 * Words. A *store* is a folder of boxes (or ":memory:"). A *box* is a named workspace. Each call that changes a box is one *step*; a
 * step leads from one immutable *state* to the next. A *fork* is a new box that starts at any state of another.
 *
 * Addresses. "demo" is a box at its newest state; "demo@7" is its state after step 7, "demo@-1" one step back, "demo@name" a
 * checkpoint. Paths are absolute inside the box; a relative one starts at "/". ".." and symbolic links never leave the box.
 *
 * Calls return CB_OK and leave *err (which may be NULL) as it was, or return a negative code and fill it. Outputs are written only
 * on success; cb_merge, cb_txn_commit and cb_exec_wait say where else. What a call gives away is said at the call: "cb_free() it". A
 * handle in *out is the caller's to close: cb_store_close, cb_box_close (transactions and drafts too), cb_close, cb_cursor_close,
 * cb_sandbox_close, cb_exec_close, cb_cancel_free.
 *
 * Codes. A call names those that are its own. Any call may also return CB_NOMEM, CB_IO, CB_NOSPACE, CB_CORRUPT, CB_BUSY, CB_DENIED,
 * CB_BADHANDLE, CB_FORKED, CB_INTERNAL, and CB_CANCELLED and CB_TIMEOUT (cancel.h); one with a path CB_NOTFOUND, CB_NOTDIR, CB_ISDIR,
 * CB_LOOP and CB_NAMETOOLONG; one that changes something CB_READONLY, CB_RESERVED, CB_QUOTA, CB_TOOBIG and CB_LIMIT. Codes are added:
 * take one that you do not know for a failure.
 *
 * NULL. A pointer may be NULL where the call says so, and these everywhere: err, the context of a visitor, `options` (all defaults),
 * and numbers told beside the result (`out_size`, `out_seq` ...). The few exceptions are said at the call. Else NULL is CB_INVALID
 * and names the argument; what closes or frees accepts it.
 *
 * Bytes. Contents, values, parameters and results of steps are any bytes, and have a size beside them; CB_STRING as that size means
 * up to the NUL. NULL has the size 0; any other, CB_STRING too, is CB_INVALID. What a call gives away has a NUL after its last byte,
 * which the size does not count. What cannot hold a NUL is a C string: paths, names, addresses, keys of key-values and settings, tags,
 * targets of symbolic links, patterns, kinds of steps, who, texts for people. None of them need be UTF-8.
 *
 * Empty strings. A path that is empty, of the box or the host, names nothing: CB_NOTFOUND, and so is a symbolic link without a target. A
 * name, a key, a tag, a kind, an owner, a glob, or an element of an array of paths or patterns that is empty is CB_INVALID, also where it
 * is asked for or removed; so is a path that must be absolute (exec.h). What may be empty: values, contents and texts for people; who;
 * the pattern of cb_grep, which is in every line; the prefix of cb_kv_list, which every key has; arguments of programs.
 *
 * Structs begin with struct_size: make them with CB_INIT or CB_WITH (types.h says why and how).
 *
 * Values. What a call does not know decides nothing: a value that is no member of its enum, a bit of `flags` that is not the call's, a
 * mode above 07777, a duration or an age below zero are CB_INVALID, and the message names the argument and the value.
 *
 * Visitors. A visitor returns CB_OK to go on, CB_INTERRUPTED to end the walk with CB_OK, another code to end it with that code. Then it
 * may fill the *err that it is given; when it does not, the call says that the visitor returned it. What is no cb_code is CB_INVALID.
 *
 * Called back. Visitors and all other functions of the caller's run in the thread that made the call; what they are given is lent until
 * they return. They may take their time, no lock of the store is held, and use the library, the same handle included. They may close
 * whatever they like, the box and the store that they are called for included: the call goes on with what it holds, or ends with
 * CB_BADHANDLE. They must not wait for another thread's call on the same handle: that may wait for theirs (cb_step_get, cb_import,
 * cb_pack, cb_merge).
 *
 * Threads. A store and its boxes may be used from any thread. Calls on one cb_box handle, and on the files opened through it, take turns;
 * open one handle per thread to work in parallel. Close a handle when no other thread uses it any more.
 *
 * fork(). The child may go on with disk stores and their handles, whatever other threads of the parent were doing: a call in it may fail,
 * but never hangs. fork() waits for calls of other threads, 0.4 seconds at most. Of a call that is longer the handle is CB_FORKED in the
 * child; of one that has the store's writer lock, or is inside the database, all handles of that store are, and opening it; and if the
 * database is not left for another 0.2 seconds (a long flush), all stores are, until the child calls exec. Always the parent's, and
 * CB_FORKED in every call: stores in memory, transactions, drafts, cursors, sandboxes and their programs. To close them does no harm.
 * And so is a call whose visitor, progress() or other function forks: in the child it ends with CB_FORKED when that returns, whatever it
 * says, unless it only reads, and touches nothing that the parent's makes.
 * What open files of the parent wrote and did not commit yet is the parent's too: the child sees the box without it. A file that went
 * from the box, and with it the last state that had it, is CB_STALE. This is not for programs whose other threads use SQLite
 * themselves, nor for fork() in a signal handler, _Fork() and clone().
 *
 * Signals. No call raises one in its caller: a descriptor that nobody reads any more is CB_IO, with EPIPE in os_error, and so is a file
 * that would become larger than RLIMIT_FSIZE, with EFBIG.
 *
 * Mode bits are stored and given back; this API does not enforce them (the caller owns the box). Surfaces for agents do.
 */
#ifndef COWBOX_COWBOX_H
#define COWBOX_COWBOX_H

#include <cowbox/audit.h>
#include <cowbox/box.h>
#include <cowbox/cancel.h>
#include <cowbox/cursor.h>
#include <cowbox/error.h>
#include <cowbox/exec.h>
#include <cowbox/files.h>
#include <cowbox/history.h>
#include <cowbox/kv.h>
#include <cowbox/search.h>
#include <cowbox/store.h>
#include <cowbox/transfer.h>
#include <cowbox/txn.h>
#include <cowbox/types.h>

#endif
