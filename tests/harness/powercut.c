/* powercut.c: see powercut.h. Map: the log; files that are followed; what calls report; the model; images. */
#include "harness/powercut.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

enum {
	MOST_FILES = 8192,
	NAME_BYTES = 64,
	ROOT = 1, /* the disk itself */
	SECTOR = 512,
	BLOCK = 4096,
	LIVE_BYTES = 4096,
};
static const size_t log_bytes = (size_t)3 << 30; /* of address space */

typedef enum power_op {
	OP_NEW,     /* a file or folder under a name */
	OP_REMOVED, /* a name */
	OP_RENAMED,
	OP_WRITE,
	OP_ZEROS,
	OP_SIZE,
	OP_FLUSH,
	OP_LIVE, /* what `live` held */
	OP_NOTE,
} power_op;

/* The bytes of OP_WRITE, OP_LIVE and OP_NOTE follow. */
typedef struct entry {
	uint32_t op;
	uint32_t file, folder, folder_to;
	bool is_folder;
	uint64_t offset, size; /* OP_FLUSH: offset is the number of entries when it began */
	uint64_t payload;
	char name[NAME_BYTES], name_to[NAME_BYTES];
} entry;

typedef struct known {
	dev_t dev;
	ino_t ino;
	bool is_folder;
} known;

struct power_log {
	pthread_mutex_t mutex; /* shared by processes */
	uint64_t count;        /* of entries */
	size_t end;            /* of their bytes, from the beginning of this struct */
	uint32_t files;        /* ids 1 to files */
	known file[MOST_FILES];
	char live_file[PATH_MAX];
	uint64_t shake; /* 0: not at all */
	_Alignas(64) uint8_t entries[];
};

static power_log *in_use;

/* ---- the log ---- */

static _Thread_local bool in_log; /* the log's own mutex is no place to sleep at */

static void lock_log(power_log *l)
{
	in_log = true;
	(void)pthread_mutex_lock(&l->mutex);
}

static void unlock_log(power_log *l)
{
	(void)pthread_mutex_unlock(&l->mutex);
	in_log = false;
}

void power_lock(void)
{
	lock_log(in_use);
}

void power_unlock(void)
{
	unlock_log(in_use);
}

static void add_to(power_log *l, const entry *e, const void *bytes, size_t size)
{
	size_t whole = (sizeof(*e) + size + 7) & ~(size_t)7;
	CHECK_MSG(l->end + whole <= log_bytes, "the log of calls is full");
	entry *to = (entry *)(void *)((uint8_t *)l + l->end);
	*to = *e;
	to->payload = size;
	if (size) memcpy(to + 1, bytes, size);
	l->end += whole;
	l->count++;
}

static void add(const entry *e, const void *bytes, size_t size)
{
	add_to(in_use, e, bytes, size);
}

static void name_copy(char to[NAME_BYTES], const char *name)
{
	CHECK(strlen(name) < NAME_BYTES);
	(void)snprintf(to, NAME_BYTES, "%s", name);
}

void power_note(power_log *l, const void *bytes, size_t size)
{
	lock_log(l);
	add_to(l, &(entry){.op = OP_NOTE}, bytes, size);
	unlock_log(l);
}

uint64_t power_count(power_log *l)
{
	lock_log(l);
	uint64_t n = l->count;
	unlock_log(l);
	return n;
}

void power_log_use(power_log *l)
{
	in_use = l;
}

void power_log_shake(power_log *l, uint64_t seed)
{
	l->shake = seed | 1;
}

void power_pause(power_pause_kind kind, size_t size)
{
	if (!in_use || !in_use->shake || in_log) return;
	uint64_t n = hash_u64(__atomic_add_fetch(&in_use->shake, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED));
	bool large = size > 32 << 10;
	uint64_t one_in = kind == PAUSE_UNLOCK ? 64 : large ? 2 : 16;
	long most_us = large ? 2000 : kind == PAUSE_UNLOCK ? 500 : 300;
	if (n % one_in == 0) (void)nanosleep(&(struct timespec){0, (long)((n >> 32) % 1000) * most_us}, NULL);
}

/* ---- files that are followed ---- */

static bool is_left_out(const char *name)
{
	size_t n = strlen(name);
	return strcmp(name, "locks") == 0 || strcmp(name, "live") == 0 || strcmp(name, "inuse") == 0 ||
	       (n > 4 && strcmp(name + n - 4, "-shm") == 0);
}

/* The newest with that number: filesystems give the number of a removed file to the next. */
static uint32_t find_known(const power_log *l, const struct stat *st)
{
	for (uint32_t id = __atomic_load_n(&l->files, __ATOMIC_ACQUIRE); id > 0; id--) {
		const known *k = &l->file[id];
		if (k->dev == st->st_dev && k->ino == st->st_ino && k->is_folder == S_ISDIR(st->st_mode)) return id;
	}
	return 0;
}

static uint32_t add_known(power_log *l, const struct stat *st)
{
	uint32_t id = l->files + 1;
	CHECK(id < MOST_FILES);
	l->file[id] = (known){st->st_dev, st->st_ino, S_ISDIR(st->st_mode)};
	__atomic_store_n(&l->files, id, __ATOMIC_RELEASE);
	return id;
}

uint32_t power_file_of(int fd)
{
	struct stat st;
	return in_use && fd > 2 && fstat(fd, &st) == 0 ? find_known(in_use, &st) : 0;
}

uint32_t power_folder_of(int at, const char *path, const char **out_name)
{
	char above[PATH_MAX];
	struct stat st;
	const char *slash = strrchr(path, '/');
	if (!in_use || strlen(path) >= sizeof(above)) return 0;
	*out_name = slash ? slash + 1 : path;
	size_t n = slash ? (size_t)(slash - path) : 0;
	memcpy(above, path, n);
	above[n] = 0;
	const char *folder = !slash ? "." : n == 0 ? "/" : above;
	if (is_left_out(*out_name) || fstatat(at, folder, &st, 0) != 0) return 0;
	return find_known(in_use, &st);
}

uint32_t power_file_take(int fd)
{
	if (!in_use) return 0;
	power_lock();
	uint32_t id = power_file_of(fd);
	if (!id) power_unlock();
	return id;
}

uint32_t power_folder_take(int at, const char *path, const char **out_name)
{
	if (!in_use) return 0;
	power_lock();
	uint32_t id = power_folder_of(at, path, out_name);
	if (!id) power_unlock();
	return id;
}

static void follow(power_log *l, uint32_t folder, const char *name, const struct stat *st)
{
	entry e = {.op = OP_NEW, .folder = folder, .is_folder = S_ISDIR(st->st_mode), .file = add_known(l, st)};
	name_copy(e.name, name);
	add_to(l, &e, NULL, 0);
}

/* ---- what calls report ---- */

void power_saw_new(uint32_t folder, const char *name, int at, const char *path, bool is_folder)
{
	struct stat st;
	if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) == is_folder) follow(in_use, folder, name, &st);
}

void power_saw_removed(uint32_t folder, const char *name)
{
	entry e = {.op = OP_REMOVED, .folder = folder};
	name_copy(e.name, name);
	add(&e, NULL, 0);
}

void power_saw_renamed(uint32_t folder, const char *name, uint32_t folder_to, const char *name_to)
{
	entry e = {.op = OP_RENAMED, .folder = folder, .folder_to = folder_to};
	CHECK(folder == folder_to); /* between two, either's flush would make both durable */
	name_copy(e.name, name);
	name_copy(e.name_to, name_to);
	add(&e, NULL, 0);
}

void power_saw_write(uint32_t file, uint64_t offset, const void *bytes, size_t size)
{
	add(&(entry){.op = OP_WRITE, .file = file, .offset = offset, .size = size}, bytes, size);
}

void power_saw_zeros(uint32_t file, uint64_t offset, uint64_t size)
{
	add(&(entry){.op = OP_ZEROS, .file = file, .offset = offset, .size = size}, NULL, 0);
}

void power_saw_size(uint32_t file, uint64_t size)
{
	add(&(entry){.op = OP_SIZE, .file = file, .size = size}, NULL, 0);
}

uint64_t power_flush_begins(void)
{
	return in_use->count;
}

void power_saw_flush(uint32_t file, uint64_t began)
{
	uint8_t bytes[LIVE_BYTES];
	add(&(entry){.op = OP_FLUSH, .file = file, .offset = began}, NULL, 0);
	int fd = in_use->live_file[0] ? open(in_use->live_file, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return;
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
	if (n == (ssize_t)sizeof(bytes)) add(&(entry){.op = OP_LIVE}, bytes, sizeof(bytes));
	(void)close(fd);
}

/* ---- beginning with what is there ---- */

static void take_file(power_log *l, uint32_t file, const char *path, size_t size)
{
	uint8_t *bytes = malloc(size + 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(bytes && fd >= 0 && read(fd, bytes, size) == (ssize_t)size);
	(void)close(fd);
	add_to(l, &(entry){.op = OP_WRITE, .file = file, .size = size}, bytes, size);
	add_to(l, &(entry){.op = OP_FLUSH, .file = file, .offset = l->count}, NULL, 0);
	free(bytes);
}

static void take_folder(power_log *l, uint32_t folder, const char *path)
{
	DIR *d = opendir(path);
	CHECK(d != NULL);
	for (const struct dirent *e; (e = readdir(d));) {
		char below[PATH_MAX];
		struct stat st;
		if (e->d_name[0] == '.' || is_left_out(e->d_name)) continue;
		CHECK(snprintf(below, sizeof(below), "%s/%s", path, e->d_name) < (int)sizeof(below) && lstat(below, &st) == 0);
		follow(l, folder, e->d_name, &st);
		if (S_ISDIR(st.st_mode)) take_folder(l, l->files, below);
		else take_file(l, l->files, below, (size_t)st.st_size);
	}
	(void)closedir(d);
	add_to(l, &(entry){.op = OP_FLUSH, .file = folder, .offset = l->count}, NULL, 0);
}

power_log *power_log_create(const char *disk, const char *live_file)
{
	power_log *l = mmap(NULL, log_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_mutexattr_t shared;
	struct stat st;
	CHECK(l != MAP_FAILED);
	CHECK(pthread_mutexattr_init(&shared) == 0 && pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_mutex_init(&l->mutex, &shared) == 0);
	l->end = offsetof(power_log, entries);
	if (live_file) (void)snprintf(l->live_file, sizeof(l->live_file), "%s", live_file);
	CHECK(stat(disk, &st) == 0 && add_known(l, &st) == ROOT);
	take_folder(l, ROOT, disk);
	return l;
}

void power_log_destroy(power_log *l)
{
	if (l) (void)munmap(l, log_bytes);
}

/* ---- the model ---- */

typedef struct change { /* of a file's bytes or size */
	const entry *e;
	uint64_t at; /* its number */
} change;

typedef struct file {
	bool exists, is_folder;
	uint8_t *durable;
	size_t size, capacity;
	change *changes; /* not flushed */
	size_t change_count, change_capacity;
} file;

typedef struct turn { /* of a name */
	uint64_t at, key;
	uint32_t file; /* 0: nothing */
} turn;

typedef struct name {
	uint32_t folder;
	char text[NAME_BYTES];
	uint32_t durable, latest;
	turn *turns; /* not flushed */
	size_t turn_count, turn_capacity;
} name;

struct power_model {
	const power_log *l;
	const uint8_t *next; /* entry */
	uint64_t count;
	file files[MOST_FILES];
	name *names;
	size_t name_count, name_capacity;
	const entry *live;
};

#define GROW(array, count, capacity)                                                       \
	do {                                                                               \
		if ((count) < (capacity)) break;                                           \
		(capacity) = (capacity) ? 2 * (capacity) : 16;                             \
		CHECK(((array) = realloc((array), (capacity) * sizeof *(array))) != NULL); \
	} while (0)

power_model *power_model_create(const power_log *l)
{
	power_model *m = calloc(1, sizeof(*m));
	CHECK(m != NULL);
	m->l = l;
	m->next = l->entries;
	m->files[ROOT] = (file){.exists = true, .is_folder = true};
	return m;
}

void power_model_destroy(power_model *m)
{
	if (!m) return;
	for (size_t i = 0; i < MOST_FILES; i++) {
		free(m->files[i].durable);
		free(m->files[i].changes);
	}
	for (size_t i = 0; i < m->name_count; i++) free(m->names[i].turns);
	free(m->names);
	free(m);
}

static name *name_get(power_model *m, uint32_t folder, const char *text)
{
	for (size_t i = 0; i < m->name_count; i++)
		if (m->names[i].folder == folder && strcmp(m->names[i].text, text) == 0) return &m->names[i];
	GROW(m->names, m->name_count, m->name_capacity);
	name *n = &m->names[m->name_count++];
	*n = (name){.folder = folder};
	name_copy(n->text, text);
	return n;
}

static uint64_t name_key(const name *n)
{
	return hash64(n->text, strlen(n->text)) ^ hash_u64(n->folder);
}

static void name_turn(name *n, uint64_t at, uint64_t key, uint32_t to)
{
	GROW(n->turns, n->turn_count, n->turn_capacity);
	n->turns[n->turn_count++] = (turn){at, key, to};
	n->latest = to;
}

static void file_room(file *f, size_t size)
{
	if (size <= f->capacity) return;
	size_t wider = size + size / 2 + BLOCK;
	CHECK((f->durable = realloc(f->durable, wider)) != NULL);
	f->capacity = wider;
}

static void file_resize(file *f, size_t size)
{
	file_room(f, size);
	if (size > f->size) memset(f->durable + f->size, 0, size - f->size);
	f->size = size;
}

static void file_settle(file *f, const entry *e)
{
	if (e->op == OP_SIZE) {
		file_resize(f, e->size);
		return;
	}
	size_t end = e->offset + e->size;
	if (e->op == OP_ZEROS && end > f->size) end = f->size; /* a hole leaves the size as it is */
	if (end <= e->offset) return;
	if (end > f->size) file_resize(f, end);
	if (e->op == OP_WRITE) memcpy(f->durable + e->offset, e + 1, e->size);
	else memset(f->durable + e->offset, 0, end - e->offset);
}

static void flush_bytes(file *f, uint64_t began)
{
	size_t kept = 0;
	for (size_t i = 0; i < f->change_count; i++) {
		if (f->changes[i].at < began) file_settle(f, f->changes[i].e);
		else f->changes[kept++] = f->changes[i];
	}
	f->change_count = kept;
}

static void flush_names(power_model *m, uint32_t folder, uint64_t began)
{
	for (size_t i = 0; i < m->name_count; i++) {
		name *n = &m->names[i];
		size_t kept = 0;
		if (n->folder != folder) continue;
		for (size_t k = 0; k < n->turn_count; k++) {
			if (n->turns[k].at < began) n->durable = n->turns[k].file;
			else n->turns[kept++] = n->turns[k];
		}
		n->turn_count = kept;
	}
}

static void step(power_model *m, const entry *e)
{
	file *f = &m->files[e->file];
	switch ((power_op)e->op) {
	case OP_NEW: {
		name *n = name_get(m, e->folder, e->name);
		*f = (file){.exists = true, .is_folder = e->is_folder};
		name_turn(n, m->count, name_key(n), e->file);
		break;
	}
	case OP_REMOVED: {
		name *n = name_get(m, e->folder, e->name);
		name_turn(n, m->count, name_key(n), 0);
		break;
	}
	case OP_RENAMED: {
		uint32_t moved = name_get(m, e->folder, e->name)->latest;
		name *to = name_get(m, e->folder_to, e->name_to);
		uint64_t key = name_key(to);
		name_turn(to, m->count, key, moved);
		name_turn(name_get(m, e->folder, e->name), m->count, key, 0);
		break;
	}
	case OP_WRITE:
	case OP_ZEROS:
	case OP_SIZE:
		GROW(f->changes, f->change_count, f->change_capacity);
		f->changes[f->change_count++] = (change){e, m->count};
		break;
	case OP_FLUSH:
		if (f->is_folder) flush_names(m, e->file, e->offset);
		else flush_bytes(f, e->offset);
		break;
	case OP_LIVE:
		m->live = e;
		break;
	case OP_NOTE:
		break;
	}
}

void power_model_advance(power_model *m, uint64_t entries, power_visit visit, void *context)
{
	CHECK(entries <= m->l->count);
	while (m->count < entries) {
		const entry *e = (const entry *)(const void *)m->next;
		step(m, e);
		if (e->op == OP_NOTE && visit) visit(context, m->count, e + 1, e->payload);
		m->next += (sizeof(*e) + e->payload + 7) & ~(size_t)7;
		m->count++;
	}
}

/* ---- images ---- */

typedef enum mood { NOTHING_MORE, EVERYTHING, MIXED } mood;

typedef struct image {
	const power_model *m;
	test_rng *rng;
	mood names, bytes;
	size_t unit;
	uint64_t name_seed;
} image;

static mood mood_pick(test_rng *r)
{
	uint64_t n = test_rand_below(r, 6);
	return n == 0 ? NOTHING_MORE : n == 1 ? EVERYTHING : MIXED;
}

/* Everything before this moment is there: the beginning, the end, or any in between. */
static uint64_t moment_pick(test_rng *r, mood how, const change *changes, size_t n)
{
	uint64_t dice = test_rand_below(r, 3);
	if (n == 0 || how == NOTHING_MORE || (how == MIXED && dice == 0)) return 0;
	if (how == EVERYTHING || dice == 1) return UINT64_MAX;
	return changes[test_rand_below(r, n)].at + 1;
}

/* Copies, or zeroes, the parts of a change that lie in units which got so far. */
static void part_apply(const image *i, uint8_t *to, size_t room, const uint64_t *moments, const change *c)
{
	size_t end = c->e->offset + c->e->size;
	if (end > room) end = room;
	for (size_t at = c->e->offset; at < end;) {
		size_t stop = (at / i->unit + 1) * i->unit;
		if (stop > end) stop = end;
		if (c->at < moments[at / i->unit]) {
			if (c->e->op == OP_ZEROS) memset(to + at, 0, stop - at);
			else memcpy(to + at, (const uint8_t *)(c->e + 1) + (at - c->e->offset), stop - at);
		}
		at = stop;
	}
}

static void put(const char *path, const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, bytes + done, size - done);
		CHECK(n > 0);
		done += (size_t)n;
	}
	CHECK(close(fd) == 0);
}

static void put_file(const image *i, const file *f, const char *path)
{
	size_t room = f->size;
	for (size_t k = 0; k < f->change_count; k++) {
		const entry *e = f->changes[k].e;
		size_t end = e->op == OP_WRITE ? e->offset + e->size : e->op == OP_SIZE ? e->size : 0;
		if (end > room) room = end;
	}
	size_t units = room / i->unit + 1, size = f->size;
	uint8_t *bytes = calloc(1, room + 1);
	uint64_t *moments = calloc(units, sizeof(*moments));
	CHECK(bytes && moments);
	if (f->size) memcpy(bytes, f->durable, f->size);
	uint64_t size_moment = moment_pick(i->rng, i->bytes, f->changes, f->change_count);
	for (size_t k = 0; k < units; k++) moments[k] = moment_pick(i->rng, i->bytes, f->changes, f->change_count);
	for (size_t k = 0; k < f->change_count; k++) {
		const change *c = &f->changes[k];
		bool counts = c->at < size_moment;
		if (c->e->op == OP_SIZE && counts) {
			if (c->e->size < room) memset(bytes + c->e->size, 0, room - c->e->size);
			size = c->e->size;
		} else if (c->e->op != OP_SIZE) {
			part_apply(i, bytes, room, moments, c);
			if (c->e->op == OP_WRITE && counts && c->e->offset + c->e->size > size) size = c->e->offset + c->e->size;
		}
	}
	put(path, bytes, size);
	free(bytes);
	free(moments);
}

static uint32_t name_now(const image *i, const name *n)
{
	uint32_t now = n->durable;
	for (size_t k = 0; k < n->turn_count; k++) {
		const turn *t = &n->turns[k];
		test_rng r = {hash_u64(i->name_seed ^ t->key) | 1};
		uint64_t dice = test_rand_below(&r, 3);
		uint64_t moment = i->names == NOTHING_MORE ? 0 : i->names == EVERYTHING ? UINT64_MAX : 0;
		if (i->names == MIXED) moment = dice == 0 ? 0 : dice == 1 ? UINT64_MAX : test_rand_below(&r, i->m->count + 1);
		if (t->at < moment) now = t->file;
	}
	return now;
}

static void put_folder(const image *i, uint32_t folder, const char *path)
{
	CHECK(mkdir(path, 0700) == 0);
	for (size_t k = 0; k < i->m->name_count; k++) {
		char below[PATH_MAX];
		const name *n = &i->m->names[k];
		uint32_t id = n->folder == folder ? name_now(i, n) : 0;
		if (!id) continue;
		CHECK(snprintf(below, sizeof(below), "%s/%s", path, n->text) < (int)sizeof(below));
		if (i->m->files[id].is_folder) put_folder(i, id, below);
		else put_file(i, &i->m->files[id], below);
	}
}

void power_image(const power_model *m, test_rng *rng, const char *to)
{
	image i = {.m = m, .rng = rng, .names = mood_pick(rng), .bytes = mood_pick(rng), .name_seed = test_rand(rng)};
	i.unit = test_rand_below(rng, 2) ? SECTOR : BLOCK;
	put_folder(&i, ROOT, to);
	/* `live` is below the folder that it was in, when that is there. */
	const char *live = m->l->live_file, *last = strrchr(live, '/');
	if (!m->live || !last || test_rand_below(rng, 3) == 0) return;
	char path[PATH_MAX];
	const char *folder = last;
	while (folder > live && folder[-1] != '/') folder--;
	CHECK(snprintf(path, sizeof(path), "%s/%s", to, folder) < (int)sizeof(path));
	char *end = strrchr(path, '/');
	*end = 0;
	bool there = access(path, F_OK) == 0;
	*end = '/';
	if (there) put(path, (const uint8_t *)(m->live + 1), m->live->payload);
}
