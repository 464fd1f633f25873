#!/usr/bin/perl
# The wall between layers as tools/lint-includes sees it: every form in which a file can be included is followed or refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
my $tool = root_of() . '/tools/lint-includes';
my $table = root_of() . '/tools/include-table';
mkdir $_ for qw(src src/search);

# What is told about a file of the layer search that has this text.
sub told {
	my ($text) = @_;
	spill('src/search/x.c', $text);
	return scalar qx(awk -f '$tool' '$table' src/search/x.c);
}

my @refused = (
	'#include "box/internal.h"', '#include <box/internal.h>', '#include "search/../box/internal.h"', '#include <cowbox/../box/internal.h>',
	'#include "./box/internal.h"', '#include "search//../x.h"', '#include "/usr/include/stdio.h"', '#import "box/internal.h"',
	'#include_next "box/internal.h"', '#include NAME', "#include NAME(\"box/internal.h\")", '/* a */ #include "box/internal.h"',
	"/* a\n b */ #include \"box/internal.h\"", '# /* a */ include "box/internal.h"', '#/**/include/**/"box/internal.h"',
	"#inc\\\nlude \"box/internal.h\"", "# \\\n include \"box/internal.h\"", '%:include "box/internal.h"', "char *s = \"/*\";\n#include \"box/internal.h\"",
	'#include "internal.h"', '#include <sqlite3.h>', '#include "transfer/transfer.h"',
);
my @passed = (
	'#include "box/box.h"', '#include <cowbox/cowbox.h>', '#include <stdio.h>', '#include <sys/stat.h>', '#include "search/search.h"', "/*\n#include \"box/internal.h\"\n*/",
	'// #include "box/internal.h"', "const char *s = \"/*\";\nint x; /* a \"quote */\n#include <stdio.h>", "#define A \\\n\t1\n", '/* #import */',
);
for my $text (@refused) {
	(my $name = $text) =~ s/\n/ | /g;
	like(told("$text\n"), qr{^src/search/x\.c:\d+: }, "refused: $name");
}
for my $text (@passed) {
	(my $name = $text) =~ s/\n/ | /g;
	is(told("$text\n"), '', "passed: $name");
}
done_testing();
