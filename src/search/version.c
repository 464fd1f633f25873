/* version.c: of the regular expressions. */
#include <cowbox/cowbox.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

const char *cb_pcre2_version(void)
{
	/* The number alone, of "10.42 2022-12-11". */
	static _Thread_local char text[64];
	if (!text[0] && pcre2_config(PCRE2_CONFIG_VERSION, NULL) < (int)sizeof(text)) {
		(void)pcre2_config(PCRE2_CONFIG_VERSION, text);
		text[strcspn(text, " ")] = 0;
	}
	return text;
}
