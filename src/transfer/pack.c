/*
 * pack.c: cb_pack and cb_unpack: the records of a box (box/pack.h) to and from a stream, with the caller asked now and then whether to
 * go on.
 */
#include "transfer/pack.h"
#include "base/args.h"
#include "base/entry.h"
#include "base/sized.h"
#include "box/box.h"
#include "transfer/guard.h"
#include "transfer/watch.h"

#include "base/cancel.h"

typedef struct carrying {
	unsigned era; /* (entry.h) in which it began */
	int fd;
	const cb_transfer_watch *watch;
	cb_progress progress;
	cb_pack_info info;
	pack_writer out;
	pack_reader in;
} carrying;

static cb_code go_on(const carrying *c, const char *ended, cb_error *err)
{
	CB_TRY(cancel_check(err));
	bool on = !c->watch->progress || c->watch->progress(c->watch->context, &c->progress);
	CB_TRY(entry_stays(c->era, err));
	return on ? CB_OK : cb_err_set(err, CB_INTERRUPTED, "%s", ended);
}

/* ---- out ---- */

static cb_code out_begin(void *context, uint32_t format, cb_error *err)
{
	carrying *c = context;
	return pack_writer_init(&c->out, c->fd, format, (pack_pause){c->watch, &c->progress, c->era}, err);
}

static cb_code out_put(void *context, pack_type type, span head, span body, cb_error *err)
{
	carrying *c = context;
	return pack_record(&c->out, type, head, body, err);
}

static cb_code out_tell(void *context, cb_error *err)
{
	return go_on(context, "packing was interrupted", err);
}

cb_code cb_pack(cb_box *b, int fd, const cb_pack_options *options, cb_pack_info *out, cb_error *err)
{
	NEED(err, "box", b);
	BOX_STAYS(b);
	cb_pack_options o;
	cb_transfer_watch watch;
	CB_TRY(SIZED_TAKE(cb_pack_options, watch, &o, options, err));
	CB_TRY(watch_take(&o.watch, &watch, err));
	CB_TRY(SIZED_CHECK(cb_pack_info, history, out, err));
	CB_TRY(guard_stream(box_about(b).store, fd, "a pack", err));
	carrying c = {.era = entry_era(),
	              .fd = fd,
	              .watch = o.watch,
	              .progress = CB_INIT(cb_progress),
	              .info = CB_INIT(cb_pack_info),
	              .out = {.fd = -1}};
	const pack_sink sink = {out_begin, out_put, out_tell, &c, &c.progress, &c.info};
	cb_code code = pack_out(b, !o.no_history, &sink, err);
	if (code == CB_OK) code = pack_flush(&c.out, err);
	c.info.packed_bytes = c.out.bytes;
	pack_writer_done(&c.out);
	if (code == CB_OK) SIZED_GIVE(out, &c.info);
	return code;
}

/* ---- in ---- */

static cb_code in_begin(void *context, uint32_t *out_format, cb_error *err)
{
	carrying *c = context;
	CB_TRY(pack_reader_init(&c->in, c->fd, (pack_pause){c->watch, &c->progress, c->era}, err));
	*out_format = c->in.format;
	return CB_OK;
}

static cb_code in_next(void *context, buf *out, cb_error *err)
{
	carrying *c = context;
	return pack_next(&c->in, out, err);
}

/* With the end record its block ends too; what follows that is not the pack's, and is left unread. */
static cb_code in_end(void *context, cb_error *err)
{
	const carrying *c = context;
	return pack_at_block_end(&c->in) ? CB_OK : cb_err_set(err, CB_CORRUPT, "the pack is not sound: something follows its end");
}

static cb_code in_tell(void *context, cb_error *err)
{
	return go_on(context, "unpacking was interrupted", err);
}

cb_code cb_unpack(cb_store *cs, int fd, const char *name, const cb_transfer_watch *watch, cb_pack_info *out, cb_error *err)
{
	NEED(err, "store", cs);
	STORE_STAYS(cs);
	cb_transfer_watch ours;
	CB_TRY(watch_take(&watch, &ours, err));
	CB_TRY(SIZED_CHECK(cb_pack_info, history, out, err));
	carrying c = {.era = entry_era(),
	              .fd = fd,
	              .watch = watch,
	              .progress = CB_INIT(cb_progress),
	              .info = CB_INIT(cb_pack_info),
	              .in = {.fd = -1}};
	const pack_source source = {in_begin, in_next, in_end, in_tell, &c, &c.progress, &c.info};
	cb_code code = pack_in(cs, name, &source, err);
	c.info.packed_bytes = c.in.bytes;
	pack_reader_done(&c.in);
	if (code == CB_OK) SIZED_GIVE(out, &c.info);
	return code;
}
