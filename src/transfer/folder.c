/* folder.c: which host folder belongs to which box. The box keeps it (box/folder.c); here are the public calls. */
#include <cowbox/cowbox.h>

#include "base/args.h"
#include "box/box.h"
#include "host/host.h"

cb_code cb_folder_get(cb_box *b, char **out_host_path, char **out_box_path, cb_error *err)
{
	NEED(err, "box out_host_path out_box_path", b, out_host_path, out_box_path);
	return box_folder_get(b, out_host_path, out_box_path, err);
}

cb_code cb_folder_box(cb_store *cs, const char *host_path, char **out_name, cb_error *err)
{
	NEED(err, "store host_path out_name", cs, host_path, out_name);
	AUTO_FREE char *real = NULL;
	CB_TRY(host_path_real(host_path, &real, err));
	for (size_t size = strlen(real); size > 0;) {
		cb_error why;
		cb_code code = box_folder_find(cs, real, size, out_name, cb_err_aside(&why));
		if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
		if (size == 1) break;
		while (size > 1 && real[size - 1] != '/') size--;
		if (size > 1) size--;
	}
	return cb_err_set(err, CB_NOTFOUND, "no box was imported from '%s' or applied to it", real);
}
