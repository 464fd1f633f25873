/* transfers.h: every transfer that takes a watch, as a table, and a world in which each can be made again and again. */
#ifndef TESTS_TRANSFERS_H
#define TESTS_TRANSFERS_H

#include "harness/boxes.h"

typedef struct transfer_world {
	cb_store *s;
	cb_box *b; /* came from `folder` of home and is linked with it */
	unsigned files;
	const cb_transfer_watch *watch; /* the transfers'; NULL: none */
	char home[4096];
} transfer_world;

/* So many files of random bytes, as a folder, a tar stream, a pack and boxes. */
void transfer_world_open(transfer_world *w, unsigned files, size_t file_bytes);
/* The store is sound. */
void transfer_world_close(transfer_world *w);

typedef struct transfer {
	const char *name;
	cb_code (*run)(transfer_world *w, cb_error *err);
	/* What it made is whole; and then away with it. */
	void (*check)(transfer_world *w);
} transfer;

extern const transfer transfers[];
extern const size_t transfer_count;

#endif
