/*
 * clean.c: folders that nobody uses.
 *
 * Slots are taken, and layers chosen and sealed, under a shared lock, and named in a stamp before it is let go; here the lock is held
 * alone, so a slot without a stamp and a layer that no stamp names are nobody's. What a layer is made of is its slot's until then, and a
 * slot that somebody has, or whose command was not captured, is passed over. Files of stamps go first and folders after them: a folder
 * without a stamp is found again, a stamp without a folder says nothing false. The holder removes, and keeps the lock until that is done:
 * what programs left may have any modes.
 */
#include "work/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

enum { NAMES_BYTES = 16 << 10 }; /* of one message */

typedef struct cleaning {
	cb_store *cs;
	work_dirs d;
	bool all;
	buf slots;   /* names of slots that stay, each with its NUL */
	buf used;    /* the same of layers */
	bool unread; /* what a slot in use stands on could not be read: all layers stay */
	buf removed; /* of folders that go */
	uint64_t count;
} cleaning;

static bool list_has(const buf *list, const char *name)
{
	for (size_t at = 0; at < list->size; at += strlen((const char *)list->bytes + at) + 1)
		if (strcmp((const char *)list->bytes + at, name) == 0) return true;
	return false;
}

static cb_code list_add(buf *list, const char *name, cb_error *err)
{
	return buf_append(list, name, strlen(name) + 1, err);
}

bool work_box_is_gone(cb_store *cs, uint64_t box)
{
	cb_box *b = NULL;
	cb_code code = box_open_id(cs, box, &b, NULL);
	cb_box_close(b);
	return code == CB_NOTFOUND;
}

static cb_code slot_stays(cleaning *c, const char *name, const stamp *s, cb_error *err)
{
	CB_TRY(list_add(&c->slots, name, err));
	for (size_t i = 0; i < s->layer_count; i++) CB_TRY(list_add(&c->used, s->layers[i], err));
	return CB_OK;
}

static cb_code look_at_slot(void *context, uint64_t box, unsigned number, cb_error *err)
{
	cleaning *c = context;
	slot_file f;
	bool got = false;
	CB_TRY(slot_try(&c->d, box, number, false, &f, &got, err));
	stamp now = f.stamp;
	cb_code read = got ? CB_OK : slot_peek(&c->d, box, number, &now, NULL);
	if (read != CB_OK) memset(&now, 0, sizeof(now));
	if (read != CB_OK && read != CB_NOTFOUND) c->unread = true; /* it may be written just now */
	cb_code code = CB_OK;
	if (got && !now.base.box && (c->all || work_box_is_gone(c->cs, box))) (void)unlinkat(c->d.slots, f.name, 0);
	else code = slot_stays(c, f.name, &now, err);
	slot_file_done(&f);
	return code;
}

static bool layer_stays(const cleaning *c, const char *id)
{
	return c->unread || list_has(&c->used, id);
}

static cb_code look_at_layer(void *context, const char *id, cb_error *err)
{
	cleaning *c = context;
	(void)err;
	if (!layer_stays(c, id)) (void)unlinkat(c->d.layers, id, 0);
	return CB_OK;
}

/* Folders of the area whose stamp is gone. "etc-..." is made anew for each sandbox that needs it. */
static cb_code look_at_folder(cleaning *c, const char *name, cb_error *err)
{
	if (name[0] == '.') return CB_OK;
	bool slot_name = name[0] >= '1' && name[0] <= '9', layer_name_ = stamp_id_valid(span_str(name));
	bool stays = slot_name ? list_has(&c->slots, name) : layer_name_ ? layer_stays(c, name) : c->slots.size || !c->all;
	if (stays) return CB_OK;
	c->count++;
	return list_add(&c->removed, name, err);
}

static cb_code look_at_area(cleaning *c, cb_error *err)
{
	int copy = openat(c->d.area, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list) {
		if (copy >= 0) (void)close(copy);
		return cb_err_errno(err, errno, "listing 'work/area' of the store");
	}
	cb_code code = CB_OK;
	for (const struct dirent *e; code == CB_OK && (e = readdir(list)) != NULL;) code = look_at_folder(c, e->d_name, err);
	(void)closedir(list);
	return code;
}

static cb_code send_some(link_t *l, const char *names, size_t size, size_t count, cb_error *err)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	wire_strings list = {names, size, count};
	CB_TRY(wire_names_put(&body, &list, err));
	CB_TRY(link_send(l, WIRE_REMOVE, buf_span(&body), NULL, 0, err));
	return link_expect(l, WIRE_DONE, NULL, err);
}

static cb_code remove_all(cleaning *c, int lock, cb_error *err)
{
	if (c->removed.size == 0) return CB_OK;
	link_t *l = NULL;
	link_options options = {.lock = lock, .area = c->d.area, .uid = c->d.uid};
	CB_TRY(link_open(&options, &l, err));
	cb_code code = CB_OK;
	const char *names = (const char *)c->removed.bytes;
	for (size_t at = 0, size = 0, count = 0; code == CB_OK && at + size < c->removed.size;) {
		size += strlen(names + at + size) + 1;
		count++;
		if (size < NAMES_BYTES && at + size < c->removed.size) continue;
		code = send_some(l, names + at, size, count, err);
		at += size;
		size = count = 0;
	}
	link_close(l);
	return code;
}

static cb_code clean_in(cleaning *c, cb_error *err)
{
	AUTO_FD int lock = -1;
	CB_TRY(layers_lock(&c->d, true, &lock, err));
	CB_TRY(slots_each(&c->d, look_at_slot, c, err));
	CB_TRY(layers_each(&c->d, look_at_layer, c, err));
	CB_TRY(look_at_area(c, err));
	return remove_all(c, lock, err);
}

/* A slot's pins are wanted while somebody has it, or while what its command left was not captured. */
static bool pin_wanted(void *context, const char *owner)
{
	const cleaning *c = context;
	uint64_t box = 0;
	unsigned number = 0;
	slot_file f;
	stamp s;
	bool got = false;
	if (!slot_of_owner(owner, &box, &number) || c->d.slots < 0) return false;
	if (slot_peek(&c->d, box, number, &s, NULL) == CB_NOTFOUND) return false;
	if (slot_try(&c->d, box, number, false, &f, &got, NULL) != CB_OK || !got) return true;
	bool wanted = f.stamp.base.box != 0;
	slot_file_done(&f);
	return wanted;
}

cb_code work_clean(cb_store *cs, bool all, uint64_t *out_removed, cb_error *err)
{
	cleaning c = {.cs = cs, .d = WORK_DIRS_NONE, .all = all};
	bool found = false;
	CB_TRY(box_store_writable(cs, err));
	c.slots = c.used = c.removed = BUF_INIT(SIZE_MAX);
	CB_TRY(dirs_find(cs, &c.d, &found, err));
	cb_code code = CB_OK;
	if (found) {
		code = work_recover(cs, 0, NULL, err); /* what waits to be captured is not to be thrown away */
		cb_code cleaned = clean_in(&c, code == CB_OK ? err : NULL);
		if (code == CB_OK) code = cleaned;
	}
	if (code == CB_OK) code = box_pins_sweep(cs, BOX_WORK_OWNER, pin_wanted, &c, err);
	buf_done(&c.slots);
	buf_done(&c.used);
	buf_done(&c.removed);
	dirs_done(&c.d);
	if (out_removed) *out_removed = c.count;
	return code;
}
