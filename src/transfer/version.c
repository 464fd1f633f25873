/* version.c: of the compressor. */
#include <cowbox/cowbox.h>

#include <zstd.h>

const char *cb_zstd_version(void)
{
	return ZSTD_versionString();
}
