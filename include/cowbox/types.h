/* types.h: what all the headers share: the handles, names, and giving memory back. Conventions are at the head of cowbox.h. */
#ifndef COWBOX_TYPES_H
#define COWBOX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cowbox/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CB_VERSION_STRING "0.1.0"
#define CB_NAME_MAX 64 /* box and checkpoint names: 1-64 of letters, digits, '.', '_', '-', not starting with '.' or '-' */

typedef struct cb_store cb_store;
typedef struct cb_box cb_box;
typedef struct cb_file cb_file;

CB_API const char *cb_version(void);
/* The SQLite that is linked in: "3.40.1". */
CB_API const char *cb_sqlite_version(void);
/* Frees whatever a call gave away. Accepts NULL. */
CB_API void cb_free(void *p);

/* A name with a value: attributes, tags (value NULL), metadata, key-values. Lent for the call. */
typedef cb_code (*cb_name_visit)(void *context, const char *name, const char *value, size_t size, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
