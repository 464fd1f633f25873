/* limits.h: every bound of the library, with its unit and its reason. docs/limits.md repeats this table. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* clang-format off: one line each, so that additions merge */
enum {
	LIMIT_NAME_BYTES = 255,   /* a file, xattr, tag, key name: as ext4 */
	LIMIT_PATH_BYTES = 4096,  /* a path handed in, its NUL included: as PATH_MAX */
	LIMIT_SYMLINK_DEPTH = 40, /* symlinks followed in one resolution: as Linux */
	LIMIT_SYMLINK_TARGET_BYTES = 4095,
	LIMIT_BOX_NAME_BYTES = 64,
	LIMIT_LINKS = 65000,              /* hard links of one file: as ext4 */
	LIMIT_TREE_DEPTH = 2048,          /* folders on the way of one path: 4096 bytes cannot name more */
	LIMIT_XATTR_VALUE_BYTES = 65536,  /* as Linux XATTR_SIZE_MAX */
	LIMIT_KV_VALUE_BYTES = 64 << 20,  /* a key-value's value */
	LIMIT_STEP_FIELD_BYTES = 1 << 20, /* parameters or result kept with a step, one content; longer is refused */
	LIMIT_INLINE_BYTES = 112,         /* file data, symlink or value kept in the map itself; measured: more slows listings */
	LIMIT_CONTENT_BYTES = 1 << 20,    /* one stored content; a file has as many as it needs */
	LIMIT_CONTENT_TABLE_BYTES =
		64 << 10,                  /* contents up to this size live in the table, larger ones, flushed each, in segments */
	LIMIT_DIFF_PATHS_BYTES = 1 << 30,  /* of one difference: of nested folders each is named with all those above it */
	LIMIT_WALK_DEPTH = 16384,          /* nested folders of one walk: renames nest deeper than a path can say; some KB each */
	LIMIT_DIFF_TEXT_BYTES = 16 << 20,  /* a file larger than this is compared as binary */
	LIMIT_CONFLICTS = 1 << 16,         /* conflicts of one merge that are listed by path; more are counted */
	LIMIT_JSON_BYTES = 64 << 20,       /* a JSON text that is read: an edit's texts fit, escaped */
	LIMIT_JSON_NODES = 1 << 20,        /* values in it, 48 bytes each in memory */
	LIMIT_HOST_DEPTH = 4096,           /* nested folders of the host: a quarter of what a walk of a box holds */
	LIMIT_IGNORE_PATTERN_BYTES = 4096, /* one pattern of what to leave out: as long as a path */
	LIMIT_IGNORE_BYTES = 16 << 20,     /* all patterns in force at one place: compiled, each byte takes eight and more */
	LIMIT_HOST_PATH_BYTES =
		512 << 10, /* a path below a folder of the host, its NUL included: half of what a walk of a box holds */
	LIMIT_HOST_LISTING_BYTES = 1 << 30,  /* names of the folders a walk of the host is in, held in memory to be sorted */
	LIMIT_TAR_HEADER_BYTES = 4 << 20,    /* an extended header of a tar member: names, attributes, an old sparse map */
	LIMIT_TAR_REGIONS = 1 << 20,         /* parts of a sparse file in a tar stream */
	LIMIT_TAR_FOLDERS_BYTES = 256 << 20, /* paths of the folders of a tar stream, whose times are set at its end */
	LIMIT_ZSTD_WINDOW_LOG = 27,   /* 128 MiB: the memory a compressed stream may ask for; what zstd itself takes by default */
	LIMIT_INUSE_BLOCKS = 16384,   /* of the table of states in use: one per store handle, one more for each 64 states; 64 MiB */
	LIMIT_AUDIT_ROWS = 10000,     /* newest deeds, and as many refusals, that the audit keeps: some megabytes */
	LIMIT_AUDIT_TEXT_BYTES = 512, /* of an entry's subject; the rest is cut */
	LIMIT_AUTO_CHECKPOINTS = 32,  /* newest automatic checkpoints of a box that are kept */
	LIMIT_SETTING_VALUE_BYTES = 1 << 20, /* a setting's value */
	LIMIT_PACK_BLOCK_BYTES = 4 << 20,    /* of a pack, unpacked: what is compressed at once; also what one block may grow to */
	LIMIT_PACK_DEPTH = 65536, /* nested folders of a box that is unpacked: a bound for the check that each leads to the root */
	LIMIT_PACK_RECORD_BYTES = 4 << 20, /* one record of a pack: a step with its parameters and result, or 4,096 keys */
	LIMIT_PACK_BATCH_BYTES = 16 << 20, /* records read from a pack before they are written, with pauses for others */
	LIMIT_EDIT_BYTES = 64 << 20,       /* a file that is edited, before and after: both are held in memory */
	LIMIT_EDIT_REPLACEMENTS = 1000,    /* in one edit */
	LIMIT_GREP_PATTERN_BYTES = 32 << 10,
	LIMIT_GREP_WINDOW_BYTES = 16 << 20, /* a file is searched so much at a time; a longer line is searched in pieces */
	LIMIT_GREP_MATCHES = 1 << 20,       /* matches of one line that are listed, 16 bytes each */
	LIMIT_GREP_CONTEXT_LINES = 10000,   /* before or after a match */
	LIMIT_WORK_PLAIN = 500,        /* entries of a box that lives in one plain folder: a full scan of it costs a millisecond */
	LIMIT_WORK_UPPER = 500,        /* entries of an upper before it is sealed into a layer: scanning them costs a millisecond */
	LIMIT_WORK_LAYERS = 24,        /* layers of a stack before it is made anew; each costs 7 us to mount and some to look up */
	LIMIT_WORK_SLOTS = 256,        /* commands at once in one box */
	LIMIT_WORK_ENTRIES = 16 << 20, /* entries of one scan */
	LIMIT_HOLDER_END_MS = 10000,   /* wait for killed processes to be gone */
	LIMIT_HOLDER_CANCEL_MS = 40,   /* the same when the call was cancelled: half of the 100 ms it has */
	LIMIT_RECOVER_WAIT_MS = 60000, /* wait for another process that captures what a command left */
	LIMIT_UPKEEP_WAIT_MS = 60000,  /* wait of a prune, or a check, for another prune, a gc, a vacuum or a backup */
	LIMIT_WATCH_MS = 100,          /* between two looks at memory, disk and files */
	LIMIT_EXEC_ARGS_BYTES = 2 << 20,  /* argv and environment of a command: as Linux's default ARG_MAX */
	LIMIT_PLAN_OPS = 256,             /* mounts, folders and links of one sandbox */
	LIMIT_PLAN_TEXT_BYTES = 32 << 10, /* paths of a plan together: it travels in one packet */
	LIMIT_EXEC_PIDS = 4096, /* processes and threads of a command unless said otherwise: a parallel build, not a fork bomb */
	LIMIT_EXEC_OPEN_FILES = 65536, /* descriptors of one process: what servers and bundlers ask for */
	LIMIT_SANDBOX_TMPFS_BYTES =
		512 << 20, /* /dev/shm, /var, and with one subtree /tmp and the home: each a bound, not a reservation */
	LIMIT_SANDBOX_RUN_BYTES = 32 << 20, /* /run, and a root that is not the box's: sockets, locks, mount points */
	LIMIT_SANDBOX_DEV_BYTES = 1 << 20,  /* /dev itself: names only */
	LIMIT_ETC_BYTES = 64 << 20,         /* of an /etc that is copied; a full one has 5 MB */
	LIMIT_ETC_ENTRIES = 20000,          /* the same */
	LIMIT_GREP_GLOBS = 1000,            /* include, and exclude */
	LIMIT_STRUCT_BYTES = 16 << 10,      /* of a caller's options or result: a size that was not set is larger, or 0 */
};
/* clang-format on */

#define LIMIT_FILE_BYTES ((uint64_t)1 << 43) /* 8 TiB: the size of a (sparse) file */
#define LIMIT_BOX_BYTES \
	((uint64_t)1 << 62) /* 4 EiB: the sizes of all files of a box; sums and differences of two fit a signed number */

#endif
