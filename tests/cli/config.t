#!/usr/bin/perl
# config: the user's file, values for a box, what wins.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();
my $file = "$world/home/.config/cowbox/config";
is(cow('config', 'get', 'diff.context'), "3\n", 'a default, without file and store');
cow('config', 'set', 'diff.context', '7');
is(slurp($file), "diff.context = 7\n", 'in the file');
is((stat $file)[2] & 0777, 0600, 'nobody else reads it');
is(cow('config', 'get', 'diff.context'), "7\n", 'it holds');
spill($file, "# mine\n\n  diff.context=1 \nwho = kept\ndiff.context = 2\npager = less -R\n");
is(cow('config', 'get', 'diff.context'), "2\n", 'the last line holds');
cow('config', 'set', 'diff.context', '9');
is(slurp($file), "# mine\n\ndiff.context = 9\nwho = kept\npager = less -R\n", 'the rest of the file stays');
cow('config', 'unset', 'diff.context');
is(slurp($file), "# mine\n\nwho = kept\npager = less -R\n", 'unset');
is(cow('config', 'get', 'pager'), "less -R\n", 'text with blanks');

my $list = json('config');
is($list->{file}, $file, 'where the file is');
my %keys = map { $_->{key} => $_ } @{$list->{keys}};
is($keys{pager}{source}, 'user', 'from the user');
is($keys{color}{source}, 'default', 'from nobody');
ok($keys{$_}{help}, "$_ is explained") for sort keys %keys;
like(cow('config', 'list'), qr/^diff\.context = 3  # default; /m, 'as text');
fails(['config', 'get', 'pager'], 'ISDIR', 6, qr{configuration file '\Q$world\E/home' is a folder}, {env => {COWBOX_CONFIG => "$world/home"}});

# comments, quotes, and lines that set nothing
spill($file, "diff.context = 6   # more\nwho =\t# nobody\npager = less -R#x \"y\"\nstore = \"/a # b\\\\\\\"\"  # quoted\n");
is(cow('config', 'get', $_->[0]), "$_->[1]\n", "$_->[0]") for ['diff.context', 6], ['who', ''], ['pager', 'less -R#x "y"'], ['store', '/a # b\\"'];
for my $value ('a # b', '#', ' a', 'a ', '"', '"a" b', '\\', 'a#b', '', 'x\\"', '"x" # y') {
	cow('config', 'set', 'pager', $value);
	is(cow('config', 'get', 'pager'), "$value\n", "read back as it was set: <$value>");
	my $pasted = cow('config', 'list');
	spill($file, $pasted);
	is(cow('config', 'list') =~ s/# user;/# default;/gr, $pasted =~ s/# user;/# default;/gr, 'a list is a file');
}
spill($file, "colour = never\n# fine\nwho = ann\nnonsense\npager = \"less\n");
my $said = cowbox('config', 'get', 'who');
is($said->{out}, "ann\n", 'the rest holds');
is($said->{err}, "cowbox: $file:1: no setting 'colour': ignored\n" .
	join('', map { "cowbox: $file:$_: no 'key = value': ignored\n" } 4, 5), 'and what does not is said');
cowbox('config', 'set', 'who', 'bob');
like(slurp($file), qr/^colour = never\n.*^who = bob\nnonsense\n/ms, 'and stays');
is(cowbox('--quiet', 'config', 'get', 'who')->{err}, '', 'unless nothing is to be said');

# a file that is kept elsewhere
mkdir "$world/dotfiles";
spill("$world/dotfiles/cowbox", "who = ann\n");
chmod 0644, "$world/dotfiles/cowbox";
unlink $file;
symlink "$world/dotfiles/cowbox", $file;
cow('config', 'set', 'diff.context', '8');
ok(-l $file, 'the link stays');
is(slurp("$world/dotfiles/cowbox"), "who = ann\ndiff.context = 8\n", 'what it leads to is written');
is((stat $file)[2] & 0777, 0644, 'with its mode');
unlink "$world/dotfiles/cowbox";
fails(['config', 'set', 'diff.context', '8'], 'NOTFOUND', 4, qr/leads nowhere/);
unlink $file;
spill($file, "pager = less -R\n");

# for a box
cow('new', 'demo');
cow('new', 'other');
is(json('config', 'set', 'diff.context', '5', '--for', 'demo')->{source}, 'box', 'set for a box');
is(cow('config', 'get', 'diff.context', '--for', 'demo'), "5\n", 'holds there');
is(cow('config', 'get', 'diff.context', '--for', 'other'), "3\n", 'not for others');
is(cow('config', 'get', 'diff.context'), "3\n", 'nor for the user');
cow('config', 'set', 'diff.context', '4');
is(cow('config', 'get', 'diff.context', '--for', 'demo'), "5\n", 'the box wins');
cow('config', 'unset', 'diff.context', '--for', 'demo');
is(json('config', 'get', 'diff.context', '--for', 'demo')->{source}, 'user', 'then the user');

# it does something
cow('config', 'set', 'who', 'configured');
cow('write', 'demo:a', 'x');
is(json('audit', 'demo', '-n', '1')->{entries}[0]{who}, 'configured', 'who');
cow('config', 'set', 'checkpoint.every', '1');
cow('new', 'third');
cow('write', 'third:a', 'x');
is(cow('cat', 'third@auto-1:a'), "x\n", 'checkpoint.every of the user holds for new boxes');
cow('config', 'set', 'checkpoint.every', '0', '--for', 'third');
cow('write', 'third:a', 'y');
fails(['cat', 'third@auto-2:a'], 'NOTFOUND', 4, qr/auto-2/);
cow('config', 'unset', 'checkpoint.every', '--for', 'third');
cow('write', 'third:a', 'z');
is(cow('cat', 'third@auto-3:a'), "z\n", 'unset for the box: the user\'s again');

# mistakes
fails(['config', 'get', 'no.such'], 'INVALID', 2, qr/cowbox config/);
fails(['config', 'set', 'no.such', '1'], 'INVALID', 2, qr/no\.such/);
fails(['config', 'set', 'color', 'blue'], 'INVALID', 2, qr/auto\|always\|never/);
fails(['config', 'set', 'diff.context', 'many'], 'INVALID', 2, qr/many/);
fails(['config', 'set', 'pager', "a\nb"], 'INVALID', 2, qr/one line/);
fails(['config', 'set', 'store', '/x', '--for', 'demo'], 'INVALID', 2, qr/not for one box/);
fails(['config', 'set', 'diff.context', '1', '--for', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['config', 'set', 'diff.context'], 'INVALID', 2, qr/VALUE/);
spill($file, "color = blue\n");
fails(['config', 'get', 'color'], 'INVALID', 2, qr/color/);
spill($file, 'x' x 2_000_000);
fails(['config', 'get', 'pager'], 'TOOBIG', 10, qr/bytes/);

done_testing();
