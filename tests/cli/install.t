#!/usr/bin/perl
# `make install` into a folder of its own: everything is there and works from there; pkg-config finds it; man pages and completion are in place;
# each header stands alone.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();
my $root = root_of();
# The variant under test may be without a shared library: the release build is what is installed.
plan skip_all => 'only the release build is installed' if program() !~ m{/build/release/cowbox\z};
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
my $r = shell("make -C '$root' -j2 VARIANT=release install DESTDIR='$world/dest' PREFIX=/opt/cowbox");
is($r->{status}, 0, 'make install') or diag($r->{err}, $r->{out});
my $at = "$world/dest/opt/cowbox";
my @stray = grep { !m{\A\./opt/cowbox/(?:bin|lib|libexec|include|share)/} } split /\n/, `cd '$world/dest' && find . -type f`;
is("@stray", '', 'nothing outside the prefix');
is((stat "$at/bin/cowbox")[2] & 07777, 0755, 'the program');
like(`'$at/bin/cowbox' --version`, qr/\Acowbox \d+\.\d+/, 'which runs');
like(`COWBOX_STORE='$world/s' '$at/bin/cowbox' new demo 2>&1; COWBOX_STORE='$world/s' '$at/bin/cowbox' list`, qr/demo/, 'and works');
is(`COWBOX_BOX_HELPER= COWBOX_STORE='$world/s' '$at/bin/cowbox' exec demo -- echo ran 2>&1`, "ran\n", 'with its own helper');

my $table = json('help')->{commands};
for my $page ('cowbox', map { "cowbox-$_->{name}" } @$table) {
	ok(-s "$at/share/man/man1/$page.1", "$page.1");
}
like(`MANPATH='$at/share/man' man -P cat cowbox-write 2>&1`, qr/NAME.*EXAMPLE/s, 'man finds them') if `sh -c 'command -v man'`;
is(slurp("$at/share/$_->[1]"), cow('completion', $_->[0]), "completion of $_->[0]")
	for ['bash', 'bash-completion/completions/cowbox'], ['zsh', 'zsh/site-functions/_cowbox'], ['fish', 'fish/vendor_completions.d/cowbox.fish'];

# A program of somebody else, with what pkg-config says.
spill("$world/use.c", <<'END');
#include <cowbox/cowbox.h>
#include <stdio.h>
int main(void)
{
	cb_store *s = 0;
	cb_box *b = 0;
	cb_error err;
	if (cb_store_open(":memory:", 0, &s, &err) || cb_box_create(s, "demo", &b, &err)) return 1;
	if (cb_write_file(b, "/work/a", "x", 1, 0, &err)) return 2;
	puts(cb_version());
	cb_box_close(b);
	cb_store_close(s);
	return 0;
}
END
my $pc = "PKG_CONFIG_PATH='$at/lib/pkgconfig' PKG_CONFIG_SYSROOT_DIR='$world/dest' pkg-config";
is(shell("$pc --modversion cowbox")->{out}, (cow('--version') =~ /cowbox (\S+)/)[0] . "\n", 'pkg-config: the version');
for my $kind ('', '--static') {
	my $how = $kind ? '-static' : '';
	$r = shell("cc $how -o '$world/use' '$world/use.c' \$($pc --cflags --libs $kind cowbox)" . ($kind ? ' -lm -lpthread' : ''));
	is($r->{status}, 0, "a program is built $kind") or diag($r->{err});
	is(shell("LD_LIBRARY_PATH='$at/lib' '$world/use'")->{status}, 0, 'and runs');
}
# The examples, as README says a program is compiled.
my ($line) = slurp("$root/README.md") =~ /^    (cc prog\.c .*? -o prog) /m;
ok($line, 'README says how a program is compiled');
for my $example (glob "$root/examples/*.c") {
	(my $how = $line) =~ s/pkg-config/$pc/;
	$how =~ s/prog\.c/'$example'/;
	$r = shell("cd '$world' && $how");
	is("$r->{status}$r->{err}", '0', $example);
	# In strict C too, where what a header does not declare would be taken for a function that returns int.
	for my $std ('c11', 'gnu17') {
		$r = shell("cd '$world' && $how -std=$std -Wall -Wextra -pedantic");
		is("$r->{status}$r->{err}", '0', "$example, -std=$std");
		next unless $example =~ /history\.c\z/;
		cow('new', "times-$std");
		cow('write', "times-$std:a", 'x');
		$r = shell("LD_LIBRARY_PATH='$at/lib' '$world/prog' \"\$COWBOX_STORE\" times-$std /work/a");
		is("$r->{status}$r->{err}", '0', 'it runs');
		like($r->{out}, qr/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/, 'and tells the time');
	}
}
# Each header alone, first and only: its structs can be made, and every call it declares is in the library.
for my $path (glob "$at/include/cowbox/*.h") {
	my ($name) = $path =~ m{/(\w+)\.h\z};
	my $text = slurp($path);
	my @calls = $text =~ /^CB_API [^;]*?\b(cb_\w+)\(/mg;
	my @structs = $text =~ /^typedef struct (cb_\w+) \{\n\tsize_t struct_size;/mg;
	my $source = "#include <cowbox/$name.h>\n" . join('', map { "void use_$_($_ *one);\nvoid use_$_($_ *one)\n{\n\t*one = CB_INIT($_);\n}\n" } @structs)
		. "typedef void (*call)(void);\ncall all[] = {" . join(', ', (map { "(call)$_" } @calls), '0') . "};\nint main(void)\n{\n\treturn 0;\n}\n";
	spill("$world/$name.$_", $source) for 'c', 'cc';
	for my $how ("gcc -std=c11 $name.c", "clang -std=c11 $name.c", "g++ -std=c++17 $name.cc", "clang++ -std=c++17 $name.cc") {
		my ($compiler) = split ' ', $how;
		next unless `sh -c 'command -v $compiler'`;
		$r = shell("cd '$world' && $how -Wall -Wextra -Werror -pedantic -o alone \$($pc --cflags --libs cowbox) && LD_LIBRARY_PATH='$at/lib' ./alone");
		is($r->{status}, 0, "$name.h alone: $how") or diag($r->{err});
	}
}
# Its own names may be any that the library has inside.
my @names = sort map { (split)[2] // () } grep { / [TDBRVW] / } split /\n/, `nm -g --defined-only '$at/lib/libcowbox.a' 2>/dev/null`;
cmp_ok(scalar @names, '>', 100, 'the archive has the calls');
is("@{[grep { !/\Acb_/ } @names]}", '', 'and no other name');
spill("$world/clash.c", <<'END');
#include <cowbox/cowbox.h>
int json_parse(void);
int buf_append(void);
int json_parse(void)
{
	return 1;
}
int buf_append(void)
{
	return 2;
}
int main(void)
{
	cb_store *s = 0;
	cb_error err;
	if (cb_store_open(":memory:", 0, &s, &err) || cb_box_create(s, "demo", 0, &err)) return 1;
	cb_store_close(s);
	return json_parse() + buf_append() == 3 ? 0 : 2;
}
END
$r = shell("cc -o '$world/clash' '$world/clash.c' '$at/lib/libcowbox.a' \$($pc --cflags cowbox) \$($pc --libs --static cowbox) -lm -lpthread");
is($r->{status}, 0, 'a program with such names is linked') or diag($r->{err});
is(shell("'$world/clash'")->{status}, 0, 'and runs');

spill("$world/use.cc", qq(extern "C" {\n#include <cowbox/cowbox.h>\n}\nint main() { cb_box_info i = CB_INIT(cb_box_info); return i.struct_size ? 0 : 1; }\n));
$r = shell("c++ -o '$world/usecc' '$world/use.cc' \$($pc --cflags --libs cowbox)");
is($r->{status}, 0, 'C++ may include it as C') or diag($r->{err});
done_testing();
