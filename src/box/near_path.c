/* near_path.c: paths of folders, one near the other. */
#include "box/near_path.h"

typedef struct folder_end {
	uint64_t ino;
	size_t end; /* of its path in the text */
} folder_end;

static size_t near_count(const near_path *near)
{
	return near->folders.size / sizeof(folder_end);
}

static const folder_end *near_at(const near_path *near, size_t i)
{
	return (const folder_end *)(const void *)near->folders.bytes + i;
}

/* How many folders of the known path lead to this one. */
static bool near_find(const near_path *near, uint64_t ino, size_t *out)
{
	uint8_t number[8];
	span found;
	put_be64(number, ino);
	*out = 0;
	if (ino == INO_ROOT) return true;
	if (pmap_get(&near->numbers, span_make(number, sizeof(number)), &found) != PMAP_VALUE) return false;
	memcpy(out, found.bytes, sizeof(*out));
	++*out;
	return true;
}

static cb_code near_cut(near_path *near, size_t count, cb_error *err)
{
	for (size_t i = near_count(near); i > count; i--) {
		uint8_t number[8];
		put_be64(number, near_at(near, i - 1)->ino);
		CB_TRY(pmap_forget(&near->numbers, span_make(number, sizeof(number)), err));
		near->folders.size -= sizeof(folder_end);
	}
	near->text.size = count ? near_at(near, count - 1)->end : 0;
	return CB_OK;
}

static cb_code near_add(near_path *near, uint64_t ino, span name, cb_error *err)
{
	uint8_t number[8];
	size_t index = near_count(near);
	put_be64(number, ino);
	CB_TRY(buf_append_byte(&near->text, '/', err));
	CB_TRY(buf_append(&near->text, name.bytes, name.size, err));
	folder_end f = {ino, near->text.size};
	CB_TRY(buf_append(&near->folders, &f, sizeof(f), err));
	return pmap_put(&near->numbers, span_make(number, sizeof(number)), span_make(&index, sizeof(index)), err);
}

static cb_code near_fill(near_path *near, const tree_view *v, uint64_t ino, size_t *out_count, cb_error *err)
{
	typedef struct passed {
		uint64_t ino;
		place at;
	} passed;
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX);
	climb up = climb_from(ino);
	while (!near_find(near, up.at, out_count)) {
		passed p = {.ino = up.at};
		CB_TRY(climb_up(&up, v, &p.at, err));
		CB_TRY(buf_append(&way, &p, sizeof(p), err));
	}
	size_t more = way.size / sizeof(passed);
	if (more == 0) return CB_OK;
	CB_TRY(near_cut(near, *out_count, err));
	*out_count += more;
	for (; more > 0; more--) {
		const passed *p = (const passed *)(const void *)way.bytes + (more - 1);
		CB_TRY(near_add(near, p->ino, place_name(&p->at), err));
	}
	return CB_OK;
}

cb_code near_path_of(near_path *near, const tree_view *v, uint64_t folder, buf *out, cb_error *err)
{
	size_t count = 0;
	CB_TRY(near_fill(near, v, folder, &count, err));
	return count ? buf_append(out, near->text.bytes, near_at(near, count - 1)->end, err) : CB_OK;
}

void near_path_done(near_path *near)
{
	buf_done(&near->text);
	buf_done(&near->folders);
	pmap_done(&near->numbers);
}
