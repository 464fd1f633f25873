/* fault_state.h: what fault.c keeps of a plan. */
#ifndef STORE_FAULT_STATE_H
#define STORE_FAULT_STATE_H

#include <pthread.h>
#include <sqlite3.h>

#include "store/fault.h"

enum { FAULT_PAGE_BYTES = 4096 };

typedef struct fault_page {
	size_t index;
	uint8_t *bytes; /* as of the last flush */
} fault_page;

typedef struct fault_file {
	char *path;
	uint8_t *latest;
	size_t length, capacity;
	size_t durable_length;
	bool is_durable;   /* its name survives a power cut */
	bool deleted;      /* but a cut may bring it back */
	fault_page *pages; /* changed since the last flush */
	size_t page_count, page_capacity;
	uint64_t flushes;
	struct fault_file *next;
} fault_file;

typedef struct fault_state {
	pthread_mutex_t mutex;
	fault_file *files;
	sqlite3_vfs vfs;
	char vfs_name[48];
	bool vfs_registered;
} fault_state;

#endif
