/* base64.h: base64 with padding (RFC 4648, section 4). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

/* Encodes up to 3 bytes as 4 characters; size is 1 to 3. */
void base64_quad(const uint8_t *bytes, size_t size, char to[4]);
/* Appends the decoded bytes. CB_INVALID for other characters, missing or misplaced padding, or bits that no byte holds. */
cb_code base64_decode(span text, buf *to, cb_error *err);

#endif
