/*
 * wire.h: what the caller (libcowbox, with the store) and the holder (cowbox-box, without) say to each other over one private
 * SOCK_SEQPACKET pair. One packet is one message: a type, then fields, little-endian, strings as u32 size and bytes. Descriptors travel
 * with the packet that speaks of them.
 *
 * Messages are answered in order, and a caller may send several before it reads an answer: a cold run is WORK, BUILD..., ENTER, RUN
 * in one go. After WIRE_FAIL the holder does nothing more: the caller reads the reason and closes; the holder cleans up and ends.
 *
 * Adversary: the box. It never speaks on this socket, but the names, sizes and attributes in ENTRY messages are its words: the
 * receiver checks every field. The decoder takes any bytes (fuzz_wire).
 *
 *   caller                         holder
 *   WORK                        -> makes or takes the folders, mounts          <- READY
 *   BUILD*, BUILD_END           -> changes the tree through the mount          <- BUILT
 *   ENTER (plan)                -> makes the sandbox (init)                    <- ENTERED
 *   RUN + stdin stdout stderr   -> starts a command                            <- STARTED (+ terminal) ... EXITED
 *   SIGNAL                      -> to the running command                         (no answer)
 *   SCAN                        -> walks the upper                             <- ENTRY* (+ files), SCAN_END
 *   MORE                        -> another WIRE_WINDOW packets of entries may come
 *   KEEP                        -> what was scanned is known from now on          (no answer)
 *   SEAL / WIPE / REMOVE        -> the folders                                 <- DONE
 *   BYE, or end of file         -> ends all, cleans up, exits                  <- end of file
 */
#ifndef SANDBOX_WIRE_H
#define SANDBOX_WIRE_H

#include "base/buf.h"
#include "base/limits.h"

typedef enum wire_type {
	WIRE_WORK = 1,
	WIRE_BUILD,
	WIRE_BUILD_END,
	WIRE_ENTER,
	WIRE_RUN,
	WIRE_SIGNAL,
	WIRE_SCAN,
	WIRE_MORE,
	WIRE_KEEP,
	WIRE_SEAL,
	WIRE_WIPE,
	WIRE_REMOVE,
	WIRE_BYE,
	WIRE_READY = 64,
	WIRE_BUILT,
	WIRE_ENTERED,
	WIRE_STARTED,
	WIRE_EXITED,
	WIRE_ENTRY,
	WIRE_SCAN_END,
	WIRE_DONE,
	WIRE_FAIL,
} wire_type;

enum {
	WIRE_PACKET_BYTES = 60 << 10, /* so that several fit into a socket's default buffer */
	WIRE_FDS = 32,                /* with one packet */
	WIRE_WINDOW = 4,              /* packets of entries on the way, so that descriptors in flight stay few */
};

typedef struct wire_packet {
	wire_type type;
	span body; /* lent: in the buffer given to wire_receive */
	int fds[WIRE_FDS];
	size_t fd_count;
} wire_packet;

/* Blocks until it is sent. CB_IO with "the other side is gone" when it is. Descriptors are copied, not taken. */
cb_code wire_send(int socket, wire_type type, span body, const int *fds, size_t fd_count, cb_error *err);
/* buffer: WIRE_PACKET_BYTES + 8. *out_end: the other side closed (then the packet is empty). Descriptors are the caller's,
 * close-on-exec. CB_CORRUPT: no message (too short, too long, unknown type, too many descriptors: all are closed). */
cb_code wire_receive(int socket, uint8_t *buffer, wire_packet *out, bool *out_end, cb_error *err);
void wire_packet_done(wire_packet *p); /* closes the descriptors that were not taken (-1) */

/* ---- bodies: each has put (append to a buf) and get (CB_CORRUPT; strings and lists are copied into the arena-like buf `hold`) ---- */

/* A list of strings, each with its NUL, one after the other. */
typedef struct wire_strings {
	const char *bytes;
	size_t size, count;
} wire_strings;
/* NULL at the end; pass NULL to begin. */
const char *wire_strings_next(const wire_strings *list, const char *previous);

typedef enum wire_mode {
	WIRE_PLAIN = 1, /* one folder, NAME/tree, which is the root itself */
	WIRE_STACK,     /* overlayfs: NAME/upper over layers, LAYER/tree each, the newest first */
	WIRE_THROWAWAY, /* as WIRE_STACK, with an upper that is removed at the end; layers may be a slot's tree */
} wire_mode;

/* Names are relative to the area (the folder of layers, the holder's working folder), each one component. */
typedef struct wire_work {
	wire_mode mode;
	const char *name;      /* of the slot's folder; made when it is not there */
	wire_strings layers;   /* folders of the area, the newest first */
	bool wipe;             /* begin with an empty tree or upper */
	bool memory;           /* the area is a tmpfs that ends with the holder */
	uint64_t memory_bytes; /* its size */
} wire_work;
cb_code wire_work_put(buf *to, const wire_work *m, cb_error *err);
cb_code wire_work_get(span body, wire_work *out, cb_error *err); /* strings are lent from body */

/* BUILD: any number of these, one after the other. Paths are relative to the root, not "", not within the system names of the root.
 * A FILE is followed by its DATAs (which may come in later packets) until the next op. */
typedef enum wire_op_type {
	WIRE_OP_REMOVE = 1, /* whatever is there, whole; nothing is fine too */
	WIRE_OP_DIR, /* made, or kept when it is one; anything else there goes first. Mode, attributes. Times: as of the DIR_TIMES */
	WIRE_OP_DIR_TIMES, /* after what is in it */
	WIRE_OP_FILE,      /* made anew; anything there goes first. size: all of it, holes where no DATA comes */
	WIRE_OP_DATA,      /* path may be "" */
	WIRE_OP_SYMLINK,   /* target in data */
	WIRE_OP_LINK,      /* to another path, in data, which was built before */
	WIRE_OP_ATTRS,     /* mode, times and attributes of what is there (not of a symlink) */
} wire_op_type;
typedef struct wire_op {
	wire_op_type type;
	const char *path;
	uint32_t mode; /* 0777, folders also 01000 */
	uint64_t size, offset;
	int64_t mtime_ns, atime_ns;
	span data;
	/* attributes: name with NUL, u32 size, value ... all user.*; set exactly (others are removed) */
	span xattrs;
} wire_op;
cb_code wire_op_put(buf *to, const wire_op *op, cb_error *err);
/* Takes the next op off *rest. *out_end: none left. */
cb_code wire_op_get(span *rest, wire_op *out, bool *out_end, cb_error *err);
/* A put that finds no room in `to` (CB_LIMIT) leaves it as it was: so do wire_op_put and wire_entry_put. */
cb_code wire_xattr_put(buf *to, const char *name, span value, cb_error *err);
/* Takes the next attribute off *rest; false at the end. Both are lent from *rest. */
bool wire_xattr_next(span *rest, const char **out_name, span *out_value);

/* ENTRY: any number of these, one after the other; parents before children, names of a folder in byte order. */
typedef enum wire_entry_type {
	WIRE_ENTRY_FILE = 1,
	WIRE_ENTRY_DIR,
	WIRE_ENTRY_SYMLINK,
	WIRE_ENTRY_WHITEOUT, /* what the layers have at this path is gone */
	WIRE_ENTRY_SPECIAL,  /* FIFO, socket, device: data says which ("a FIFO") */
	WIRE_ENTRY_LEAVE,    /* the end of a folder: everything in it was listed before */
	WIRE_ENTRY_UNKEPT,   /* what no box can have there, or what cannot be read: data says why */
} wire_entry_type;
typedef struct wire_entry {
	wire_entry_type type;
	const char *path; /* relative to the root; "" is the root itself (DIR, LEAVE, UNKEPT) */
	bool known;       /* as it was at the last KEEP: no descriptor, no attributes, no target; what it had then still holds */
	bool opaque;      /* a folder that hides what the layers have below it */
	bool cut;         /* it has attributes that are not in xattrs */
	bool has_fd;      /* a descriptor for reading came with this packet, in the order of the entries */
	uint32_t mode;    /* 07777 */
	uint64_t size, ino, links, allocated_bytes;
	int64_t mtime_ns, atime_ns, ctime_ns;
	span data;   /* target of a symlink; what kind of special file; why it is not kept */
	span xattrs; /* as in wire_op; user.* but for user.overlay.* */
} wire_entry;
cb_code wire_entry_put(buf *to, const wire_entry *e, cb_error *err);
cb_code wire_entry_get(span *rest, wire_entry *out, bool *out_end, cb_error *err);

/* SCAN_END */
typedef struct wire_scanned {
	uint64_t entries, bytes;  /* in the upper or tree, all of them */
	uint64_t sent;            /* that were not known, */
	uint64_t sent_bytes;      /* and what the files of these take on the disk */
	uint64_t xattrs_left_out; /* attributes of overlayfs, too large for a packet, or that the filesystem would not read */
	bool ended;               /* the sandbox had to end for it: ENTER before the next RUN */
} wire_scanned;
cb_code wire_scanned_put(buf *to, const wire_scanned *m, cb_error *err);
cb_code wire_scanned_get(span body, wire_scanned *out, cb_error *err);

/* ENTER carries a plan (sandbox/plan.h). With it come the descriptors of binds that the plan numbers. */

typedef struct wire_run {
	wire_strings argv, env;
	const char *cwd;
	bool tty;
	uint16_t rows, columns;
} wire_run; /* + stdin, stdout, stderr unless tty; bounds are the plan's. A body that is larger than a packet comes in a memfd,
 * as the first
              descriptor, and the packet's is empty. At most LIMIT_EXEC_ARGS_BYTES */
cb_code wire_run_put(buf *to, const wire_run *m, cb_error *err);
cb_code wire_run_get(span body, wire_run *out, cb_error *err);

/* STARTED: empty, + the terminal's master when tty. */

typedef enum wire_end {
	WIRE_END_STATUS = 1, /* status is wait(2)'s */
	WIRE_END_MEMORY,
	WIRE_END_DISK,
	WIRE_END_NOT_FOUND, /* status is the errno */
	WIRE_END_NOT_RUN,   /* the same */
} wire_end;
typedef struct wire_exited {
	wire_end end;
	int32_t status;
	int64_t started_ns, ended_ns; /* monotonic */
	int64_t user_ns, system_ns;
	uint64_t peak_bytes;
	const char *reason; /* "" or one line */
} wire_exited;
cb_code wire_exited_put(buf *to, const wire_exited *m, cb_error *err);
cb_code wire_exited_get(span body, wire_exited *out, cb_error *err);

typedef struct wire_signal {
	int32_t signal;
	bool everybody; /* all processes of the command, each also continued; otherwise the command's process group */
} wire_signal;
cb_code wire_signal_put(buf *to, const wire_signal *m, cb_error *err);
cb_code wire_signal_get(span body, wire_signal *out, cb_error *err);

/* SEAL: the sandbox and mount end; NAME/upper (or NAME/tree) becomes LAYER/tree. The slot is then without a mount, to be given WORK
 * again. WIPE: the sandbox and mount end, tree or upper are emptied, then as after SEAL. REMOVE: the named folders of the area go.
 * One or more names. */
cb_code wire_names_put(buf *to, const wire_strings *names, cb_error *err);
cb_code wire_names_get(span body, wire_strings *out, cb_error *err);

/* READY, BUILT, ENTERED, DONE: empty. FAIL: */
typedef struct wire_failed {
	cb_code code;
	const char *message;
} wire_failed;
cb_code wire_failed_put(buf *to, const wire_failed *m, cb_error *err);
cb_code wire_failed_get(span body, wire_failed *out, cb_error *err);

#endif
