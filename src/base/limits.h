/* limits.h: every bound of the library, with its unit and its reason. docs/limits.md repeats this table. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

enum {
	LIMIT_NAME_BYTES = 255,   /* a file, xattr, tag, key name: as ext4 */
	LIMIT_PATH_BYTES = 4096,  /* a path handed in, its NUL included: as PATH_MAX */
	LIMIT_SYMLINK_DEPTH = 40, /* symlinks followed in one resolution: as Linux */
	LIMIT_SYMLINK_TARGET_BYTES = 4095,
	LIMIT_BOX_NAME_BYTES = 64,
	LIMIT_LINKS = 65000,              /* hard links of one file: as ext4 */
	LIMIT_TREE_DEPTH = 2048,          /* nested folders: a path of 4096 bytes cannot be deeper */
	LIMIT_XATTR_VALUE_BYTES = 65536,  /* as Linux XATTR_SIZE_MAX */
	LIMIT_KV_VALUE_BYTES = 64 << 20,  /* a key-value's value */
	LIMIT_STEP_FIELD_BYTES = 1 << 20, /* parameters or result kept with a step, one content; longer is refused */
	LIMIT_INLINE_BYTES = 112,         /* file data, symlink or value kept in the map itself; measured: more slows listings */
	LIMIT_CONTENT_BYTES = 1 << 20,    /* one stored content; a file has as many as it needs */
	LIMIT_CONTENT_TABLE_BYTES =
		64 << 10,                 /* contents up to this size live in the table, larger ones, flushed each, in segments */
	LIMIT_DIFF_TEXT_BYTES = 16 << 20, /* a file larger than this is compared as binary */
};

#define LIMIT_FILE_BYTES ((uint64_t)1 << 43) /* 8 TiB: the size of a (sparse) file */

#endif
