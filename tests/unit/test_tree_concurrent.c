/* test_tree_concurrent.c: readers of shared maps and roots beside a writer. Meant for the thread sanitizer as well. */
#include "harness/harness.h"

#include <pthread.h>

#include "tree/tree.h"
#include "unit/test_tree_nodes.h"

enum { KEYS = 400, READERS = 3, ROUNDS = 300 };

/* What the writer publishes: a map in which every value is the round it was made in. */
typedef struct board {
	pthread_mutex_t lock;
	pmap map;
	uint32_t round;
	uint64_t root;
	tree_nodes nodes;
	bool over;
} board;

static span key_of(uint32_t n, char *room)
{
	return span_make(room, (size_t)sprintf(room, "some/folder/name-%05u", n));
}

static bool take(board *b, pmap *map, uint32_t *round)
{
	pthread_mutex_lock(&b->lock);
	*map = pmap_ref(&b->map);
	*round = b->round;
	bool over = b->over;
	pthread_mutex_unlock(&b->lock);
	return !over;
}

/* A map that is held never changes, and a root under it reads the same in every thread. */
static void *read_maps(void *context)
{
	board *b = context;
	for (bool more = true; more;) {
		pmap map;
		uint32_t round;
		more = take(b, &map, &round);
		const tree_view v = {&b->nodes, b->root, &map, NULL};
		tree_cursor *c;
		cb_error err;
		CHECK_OK(tree_cursor_open(&v, span_make(NULL, 0), &c, &err));
		span key, value;
		size_t n = 0;
		for (; tree_cursor_get(c, &key, &value); n++) {
			CHECK(value.size == 4 && memcmp(value.bytes, &round, 4) == 0);
			CHECK_OK(tree_cursor_next(c, &err));
		}
		tree_cursor_close(c);
		CHECK_U64(n, round == 0 ? KEYS : KEYS - 1);
		/* A change of its own does not reach anyone else. */
		char room[64];
		CHECK_OK(pmap_put(&map, key_of(round % KEYS, room), span_str("mine"), &err));
		pmap_done(&map);
	}
	return NULL;
}

static void write_round(board *b, pmap *map, uint32_t round)
{
	cb_error err;
	char room[64];
	for (uint32_t i = 0; i < KEYS; i++) {
		if (i == round % KEYS) CHECK_OK(pmap_put_tombstone(map, key_of(i, room), &err));
		else CHECK_OK(pmap_put(map, key_of(i, room), span_make(&round, 4), &err));
	}
	pthread_mutex_lock(&b->lock);
	pmap old = b->map;
	b->map = pmap_ref(map);
	b->round = round;
	b->over = round == ROUNDS;
	pthread_mutex_unlock(&b->lock);
	pmap_done(&old);
}

TEST(readers_beside_a_writer)
{
	cb_error err;
	char room[64];
	node_table table = {0};
	board b = {.lock = PTHREAD_MUTEX_INITIALIZER, .nodes = node_table_nodes(&table)};
	pmap map = PMAP_EMPTY;
	uint32_t zero = 0;
	for (uint32_t i = 0; i < KEYS; i++) CHECK_OK(pmap_put(&map, key_of(i, room), span_make(&zero, 4), &err));
	CHECK_OK(tree_apply(&b.nodes, 0, &map, &b.root, &err));
	b.map = pmap_ref(&map);

	pthread_t readers[READERS];
	for (int i = 0; i < READERS; i++) CHECK(pthread_create(&readers[i], NULL, read_maps, &b) == 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) write_round(&b, &map, round);
	for (int i = 0; i < READERS; i++) CHECK(pthread_join(readers[i], NULL) == 0);
	CHECK(pmap_sound(&map));
	pmap_done(&map);
	pmap_done(&b.map);
	node_table_done(&table);
}
