/* inuse.c: the table of states in use; inuse.h says how it works and why it holds. */
#include "store/inuse.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "store/lock.h"

_Static_assert(sizeof(inuse_block) == INUSE_BLOCK_BYTES, "a block is a page");
_Static_assert(sizeof(inuse_head) <= INUSE_BLOCK_BYTES, "the header is a page");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "slots shared by processes need lock-free atomics");

static const char file_name[] = "inuse";
enum { CHUNK_BYTES = INUSE_CHUNK_BLOCKS * INUSE_BLOCK_BYTES };

void (*inuse_stage_hook)(const char *stage);

static void stage(const char *name)
{
	if (inuse_stage_hook) inuse_stage_hook(name);
}

/* ---- the file and its pages ---- */

static bool is_own(const inuse *t, size_t number)
{
	return t->is_own[number / 8] >> (number % 8) & 1;
}

/* The caller knows that the file holds the block. */
static cb_code block_at(inuse *t, size_t number, inuse_block **out, cb_error *err)
{
	inuse_block **chunk = &t->chunk[number / INUSE_CHUNK_BLOCKS];
	if (!*chunk && t->memory) {
		*chunk = mem_alloc_aligned(CHUNK_BYTES);
		if (!*chunk) return cb_err_nomem(err);
		memset(*chunk, 0, CHUNK_BYTES);
	}
	if (!*chunk) {
		off_t at = (off_t)(number / INUSE_CHUNK_BLOCKS) * CHUNK_BYTES;
		void *p = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, at); /* may reach past the end */
		if (p == MAP_FAILED) return cb_err_errno(err, errno, "'%s/%s'", t->in->path, file_name);
		*chunk = p;
	}
	*out = *chunk + number % INUSE_CHUNK_BLOCKS;
	return CB_OK;
}

static size_t block_count(const inuse *t)
{
	struct stat st;
	if (t->memory) return t->blocks;
	size_t n = fstat(t->fd, &st) == 0 ? (size_t)st.st_size / INUSE_BLOCK_BYTES : 0;
	return n < INUSE_BLOCKS_MAX ? n : INUSE_BLOCKS_MAX;
}

/* Only ever longer: shortening it would kill whoever has it mapped. */
static cb_code grow(inuse *t, size_t from, cb_error *err)
{
	if (from >= INUSE_BLOCKS_MAX)
		return cb_err_set(err, CB_LIMIT, "the table of states in use is full: %d blocks are taken by living handles",
		                  INUSE_BLOCKS_MAX - 1);
	size_t to = from + INUSE_BLOCKS_FIRST < INUSE_BLOCKS_MAX ? from + INUSE_BLOCKS_FIRST : INUSE_BLOCKS_MAX;
	if (t->memory) {
		t->blocks = to;
		return CB_OK;
	}
	io_bounded bounded = io_bounded_begin();
	int error = posix_fallocate(t->fd, 0, (off_t)to * INUSE_BLOCK_BYTES);
	if (error) error = posix_fallocate(t->fd, 0, (off_t)(from + 1) * INUSE_BLOCK_BYTES);
	io_bounded_end(&bounded);
	if (error == EDQUOT) error = ENOSPC;
	return error ? cb_err_errno(err, error, "the table of states in use '%s/%s' cannot grow", t->in->path, file_name) : CB_OK;
}

/* ---- blocks ---- */

static void block_empty(inuse_block *b)
{
	for (size_t i = 0; i < INUSE_SLOTS; i++) {
		uint64_t turn = atomic_load(&b->slot[i].turn);
		if (turn & 1) atomic_store(&b->slot[i].turn, turn + 1);
	}
}

static cb_code block_take(inuse *t, size_t number, unsigned era, cb_error *err)
{
	inuse_block *b = NULL;
	CB_TRY(block_at(t, number, &b, err));
	inuse_own *own = mem_alloc(sizeof(*own));
	if (!own) return cb_err_nomem(err);
	block_empty(b); /* of whoever had it before */
	*own = (inuse_own){.next = t->own, .number = number};
	for (size_t i = INUSE_SLOTS; i > 0; i--) {
		store_use *u = &own->places[i - 1];
		*u = (store_use){&b->slot[i - 1], atomic_load(&b->slot[i - 1].turn), era, t->free};
		t->free = u;
	}
	t->own = own;
	t->is_own[number / 8] |= (uint8_t)(1u << number % 8);
	return CB_OK;
}

/* The lock on the block's byte is what owns it; a store in memory has nobody to share with. An error is not taken for a lock of somebody
 * else's: who claims would make block after block. */
static cb_code block_try(inuse *t, size_t number, bool *out_taken, cb_error *err)
{
	cb_error why;
	*out_taken = false;
	if (is_own(t, number)) return CB_OK;
	cb_code code = t->memory ? CB_OK : lock_byte_try(t->fd, number, cb_err_aside(&why));
	*out_taken = code == CB_OK;
	return code == CB_OK || code == CB_BUSY ? CB_OK : cb_err_pass(err, code, &why);
}

static inuse_head *head_of(const inuse *t)
{
	return (inuse_head *)(void *)t->chunk[0];
}

static cb_code block_claim(inuse *t, unsigned era, cb_error *err)
{
	for (;;) {
		size_t count = block_count(t), hint = atomic_load(&head_of(t)->hint);
		for (size_t i = 0; count > 1 && i < count - 1; i++) {
			size_t number = 1 + (hint % (count - 1) + i) % (count - 1);
			bool taken = false;
			CB_TRY(block_try(t, number, &taken, err));
			if (!taken) continue;
			cb_code code = block_take(t, number, era, err);
			if (code != CB_OK && !t->memory) lock_byte_release(t->fd, number);
			atomic_store(&head_of(t)->hint, number);
			return code;
		}
		/* Others may take what is made here: then more is made, up to the bound. */
		CB_TRY(grow(t, count, err));
	}
}

/* ---- opening and closing ---- */

static uint64_t pid_space(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static cb_code open_first(inuse *t, unsigned era, cb_error *err)
{
	inuse_block *head = NULL;
	if (!t->memory) CB_TRY(io_file_open(t->in, file_name, O_RDWR | O_CREAT, &t->fd, err));
	if (block_count(t) < 2) CB_TRY(grow(t, 1, err));
	CB_TRY(block_at(t, 0, &head, err));
	return block_claim(t, era, err);
}

cb_code inuse_open(inuse *t, const io_folder *in, bool optional, unsigned era, cb_error *err)
{
	*t = (inuse){.fd = -1, .memory = !in, .in = in, .pid = (uint64_t)getpid(), .space = pid_space()};
	(void)pthread_mutex_init(&t->mutex, NULL);
	cb_error why = {0};
	cb_code code = open_first(t, era, &why);
	t->here = code == CB_OK;
	if (code == CB_OK) return CB_OK;
	bool full = t->fd >= 0 && block_count(t) == INUSE_BLOCKS_MAX; /* and the folder can be written */
	inuse_close(t);
	if (optional && code != CB_NOMEM && code != CB_CORRUPT && !full) return CB_OK;
	if (err) *err = why;
	return code;
}

void inuse_forget_fd(inuse *t)
{
	if (t->fd >= 0) (void)close(t->fd);
	t->fd = -1;
}

static void unmap(inuse *t)
{
	for (size_t i = 0; i < INUSE_CHUNKS; i++) {
		if (t->chunk[i] && t->memory) free(t->chunk[i]);
		else if (t->chunk[i]) (void)munmap(t->chunk[i], CHUNK_BYTES);
		t->chunk[i] = NULL;
	}
	t->own = NULL;
	t->free = NULL;
	t->here = false;
}

void inuse_abandon(inuse *t)
{
	inuse_forget_fd(t);
	unmap(t);
}

void inuse_close(inuse *t)
{
	for (inuse_own *own = t->own, *next; own; own = next) {
		next = own->next;
		inuse_block *b = t->chunk[own->number / INUSE_CHUNK_BLOCKS] + own->number % INUSE_CHUNK_BLOCKS;
		block_empty(b);
		atomic_store(&head_of(t)->hint, own->number - 1);
		free(own);
	}
	unmap(t);
	inuse_forget_fd(t); /* and the locks on its bytes */
	(void)pthread_mutex_destroy(&t->mutex);
}

/* ---- places ---- */

cb_code inuse_claim(inuse *t, unsigned era, store_use **out, cb_error *err)
{
	(void)pthread_mutex_lock(&t->mutex);
	cb_code code = t->free ? CB_OK : block_claim(t, era, err);
	if (code == CB_OK) {
		*out = t->free;
		t->free = t->free->next;
		(*out)->next = NULL;
	}
	(void)pthread_mutex_unlock(&t->mutex);
	return code;
}

void inuse_release(inuse *t, store_use *u)
{
	inuse_hide(u);
	(void)pthread_mutex_lock(&t->mutex);
	u->next = t->free;
	t->free = u;
	(void)pthread_mutex_unlock(&t->mutex);
}

static uint64_t slot_sum(uint64_t box, uint64_t seq, uint64_t root, uint64_t since, uint64_t who, uint64_t space)
{
	uint64_t sum = 0x696e757365u; /* an empty slot has no right sum */
	const uint64_t all[] = {box, seq, root, since, who, space};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) sum = hash_u64(sum + all[i]);
	return sum;
}

/* Released, each: whoever sees one of these sees the even turn that was stored before it. */
static void put(_Atomic uint64_t *at, uint64_t value)
{
	atomic_store_explicit(at, value, memory_order_release);
}

void inuse_show(const inuse *t, store_use *u, const inuse_seen *what)
{
	inuse_slot *s = u->slot;
	uint64_t who = t->pid << 8 | what->why;
	bool same = atomic_load_explicit(&s->box, memory_order_relaxed) == what->box &&
	            atomic_load_explicit(&s->seq, memory_order_relaxed) == what->seq &&
	            atomic_load_explicit(&s->root, memory_order_relaxed) == what->root &&
	            atomic_load_explicit(&s->who, memory_order_relaxed) == who;
	if (same && u->turn & 1) return;
	if (!same) {
		inuse_hide(u);
		uint64_t since = (uint64_t)what->since_ns;
		put(&s->box, what->box);
		put(&s->seq, what->seq);
		put(&s->root, what->root);
		put(&s->since_ns, since);
		put(&s->who, who);
		put(&s->space, t->space);
		put(&s->sum, slot_sum(what->box, what->seq, what->root, since, who, t->space));
	}
	u->turn++;
	stage("show");
	/* An exchange and not a store: what is asked next must not be answered before this is seen by all. */
	(void)atomic_exchange(&s->turn, u->turn);
}

void inuse_hide(store_use *u)
{
	if (!(u->turn & 1)) return;
	u->turn++;
	put(&u->slot->turn, u->turn);
}

/* ---- reading the table ---- */

static uint64_t get(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

/* False: not shown, garbled, or changed while it was read: then what it showed before was given up since the reading began, and what it
 * shows now is of one who asks `removal` after that. */
static bool slot_read(const inuse *t, const inuse_slot *s, inuse_seen *out)
{
	uint64_t turn = atomic_load(&s->turn);
	if (!(turn & 1)) return false;
	uint64_t box = get(&s->box), seq = get(&s->seq), root = get(&s->root), since = get(&s->since_ns), who = get(&s->who),
		 space = get(&s->space), sum = get(&s->sum);
	if (atomic_load(&s->turn) != turn || sum != slot_sum(box, seq, root, since, who, space)) return false;
	*out = (inuse_seen){box, seq, root, (int64_t)since, space == t->space ? who >> 8 : 0, (uint8_t)who};
	return true;
}

static cb_code block_read(inuse *t, size_t number, buf *out, cb_error *err)
{
	inuse_block *b = NULL;
	inuse_seen seen;
	CB_TRY(block_at(t, number, &b, err));
	size_t i = 0;
	while (i < INUSE_SLOTS && !(atomic_load(&b->slot[i].turn) & 1)) i++;
	if (i == INUSE_SLOTS) return CB_OK;
	bool taken = false;
	CB_TRY(block_try(t, number, &taken, err));
	if (taken) { /* nobody's: its owner died */
		if (t->memory) return CB_OK;
		block_empty(b);
		lock_byte_release(t->fd, number);
		return CB_OK;
	}
	for (; i < INUSE_SLOTS; i++)
		if (slot_read(t, &b->slot[i], &seen)) CB_TRY(buf_append(out, &seen, sizeof(seen), err));
	return CB_OK;
}

cb_code inuse_read(inuse *t, buf *out, cb_error *err)
{
	if (!t->here) return CB_OK;
	cb_code code = CB_OK;
	(void)pthread_mutex_lock(&t->mutex);
	size_t count = block_count(t);
	for (size_t number = 1; code == CB_OK && number < count; number++) {
		stage("block");
		code = block_read(t, number, out, err);
	}
	(void)pthread_mutex_unlock(&t->mutex);
	return code;
}

/* ---- removers ---- */

cb_code inuse_removal_begin(inuse *t, buf *out, cb_error *err)
{
	if (!t->here) return CB_OK;
	uint64_t removal = (atomic_load(inuse_removal(t)) | 3) + 1 + INUSE_READING;
	atomic_store(inuse_removal(t), removal);
	cb_code code = inuse_read(t, out, err);
	atomic_store(inuse_removal(t), removal - INUSE_READING + INUSE_REMOVING);
	return code;
}

void inuse_removal_end(inuse *t)
{
	if (!t->here) return;
	uint64_t removal = atomic_load(inuse_removal(t));
	if (inuse_phase_of(removal) != INUSE_IDLE) atomic_store(inuse_removal(t), (removal | 3) + 1);
}
