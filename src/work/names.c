/* names.c: the names of a file, collected. */
#include "work/internal.h"

cb_code work_name_add(void *context, uint64_t dir, span name, cb_error *err)
{
	work_name row = {.dir = dir, .size = name.size};
	memcpy(row.name, name.bytes, name.size);
	return buf_append(context, &row, sizeof(row), err);
}
