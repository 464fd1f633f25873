/* folder.h: which host folder belongs to which box. */
#ifndef TRANSFER_FOLDER_H
#define TRANSFER_FOLDER_H

#include <cowbox/transfer.h>

/* The folder (a path without links) becomes the box's own, at that place in the box, and the box the folder's. */
cb_code folder_link(cb_box *b, const char *host_path, const char *box_path, cb_error *err);
/* Inside a write transaction: a box that was linked as a draft, which no folder can have, becomes its folder's. */
cb_code folder_link_again(cb_box *b, cb_error *err);

#endif
