/* types.h: what all the headers share: the handles, names, and giving memory back. Conventions are at the head of cowbox.h. */
#ifndef COWBOX_TYPES_H
#define COWBOX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cowbox/error.h>

/*
 * Structs grow, and a program may meet a library older or newer than the one it was compiled for. So each struct begins with its size
 * as its maker knew it:
 *
 *   cb_box_info info = CB_INIT(cb_box_info);               in C and C++: all else is 0
 *   cb_write_file(box, path, bytes, size, &CB_WITH(cb_write_options, .append = true), &err);          in C
 *
 * What a caller hands over, to be read or filled, it makes so. CB_INVALID: struct_size was not set or is less than the struct had when it
 * was published first, or something is set that this library does not know. Nothing is read or written past struct_size. What the library
 * lends carries its own size: a member is there when it ends within that. Structs point to others and never hold them. Frozen, so without
 * a size, are cb_error, which a failing call must be able to fill whatever the caller did, and the elements of arrays: cb_replacement,
 * cb_resolution, cb_bind, cb_grep_match.
 *
 * Enums are as wide as an int; their values stay what they are, and new ones come after them.
 */
#ifdef __cplusplus
extern "C++" { /* also where the header is included in an extern "C" */
template <class T> static inline T cb_init_()
{
	T made = T();
	made.struct_size = sizeof(T);
	return made;
}
}
#define CB_INIT(T) (cb_init_<T>())
#else
#define CB_INIT(T) ((T){.struct_size = sizeof(T)})
#define CB_WITH(T, ...) ((T){.struct_size = sizeof(T), __VA_ARGS__})
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CB_VERSION_STRING "0.1.0"
#define CB_NAME_MAX 64 /* box and checkpoint names: 1-64 of letters, digits, '.', '_', '-', not starting with '.' or '-' */

/* As the size of bytes that are handed over: up to their NUL. */
#define CB_STRING SIZE_MAX

typedef struct cb_store cb_store;
typedef struct cb_box cb_box;
typedef struct cb_file cb_file;

/* Of this library. */
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
