/* text_blame.c: line origins carried over a change. */
#include "box/text_lines.h"

cb_code text_blame_step(const uint64_t *old_origins, size_t old_count, span old_text, span new_text, uint64_t step,
                        uint64_t **out_origins, size_t *out_count, cb_error *err)
{
	AUTO_TEXT_PAIR text_pair p = {0};
	AUTO_FREE text_hunk *hunks = NULL;
	size_t hunk_count = 0;
	text_work work = TEXT_WORK_INIT;
	CB_TRY(text_pair_diff(&p, old_text, new_text, &work, &hunks, &hunk_count, err));
	if (old_count != p.old_side.count)
		return cb_err_set(err, CB_INVALID, "%zu origins for a text of %zu lines", old_count, p.old_side.count);
	uint64_t *origins = mem_alloc(p.new_side.count * sizeof(*origins));
	if (!origins) return cb_err_nomem(err);
	for (size_t i = 0, from = 0; i < p.new_side.count; i++) {
		while (p.old_side.changed[from]) from++;
		origins[i] = p.new_side.changed[i] ? step : old_origins[from++];
	}
	*out_origins = origins;
	*out_count = p.new_side.count;
	return CB_OK;
}
