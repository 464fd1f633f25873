/* kv.h: key-values, which fork, undo and merge with their box. */
#ifndef COWBOX_KV_H
#define COWBOX_KV_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keys are C strings of 1 to 255 bytes; values are any bytes. */
CB_API cb_code cb_kv_set(cb_box *box, const char *key, const void *value, size_t size, cb_error *err);
/* cb_free() it; out_size may be NULL. CB_NOTFOUND. */
CB_API cb_code cb_kv_get(cb_box *box, const char *key, char **out, size_t *out_size, cb_error *err);
CB_API cb_code cb_kv_delete(cb_box *box, const char *key, cb_error *err); /* CB_NOTFOUND */
/* Keys that begin with exactly these bytes, in byte order. */
CB_API cb_code cb_kv_list(cb_box *box, const char *prefix, cb_name_visit visit, void *context, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
