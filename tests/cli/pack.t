#!/usr/bin/perl
# pack and unpack: there and back, with and without history; damage; names; terminals; no pack into the store's own folder.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:/work/a.txt', 'one');
cow('write', 'demo:/work/a.txt', 'two');

script_ok('cowbox pack demo > demo.cbx', 'pack to standard output');
ok(-s 'demo.cbx', 'the pack is there');
like(cow('unpack', 'demo.cbx', 'copy'), qr/^copy: 2 steps/, 'unpack under another name');
is(cow('cat', 'copy:/work/a.txt'), "two\n", 'the newest state');
is(cow('cat', 'copy@1:/work/a.txt'), "one\n", 'an older one');

my $p = json('pack', 'demo', '-o', 'again.cbx');
is($p->{file}, 'again.cbx', 'json: file');
is($p->{steps}, 2, 'json: steps, as of info');
is($p->{packed_bytes}, -s 'again.cbx', 'json: packed_bytes');
ok($p->{history}, 'json: history');
fails(['pack', 'demo', '-o', 'again.cbx'], 'EXISTS', 5, qr/--force/);
cow('pack', 'demo', '-o', 'again.cbx', '--force');
is_deeply([glob 'again.cbx*'], ['again.cbx'], 'nothing is left beside the pack');

json('pack', 'demo@1', '--no-history', '-o', 'old.cbx');
my $u = json('unpack', 'old.cbx', 'old');
is($u->{name}, 'old', 'json: name');
is($u->{steps}, 0, 'no steps without history');
is(cow('cat', 'old:/work/a.txt'), "one\n", 'a state without history');

script_ok('cowbox pack demo | cowbox unpack - piped', 'through a pipe');
is(cow('cat', 'piped:/work/a.txt'), "two\n", 'what came through the pipe');

fails(['unpack', 'demo.cbx'], 'EXISTS', 5, qr/another name/);
fails(['unpack', 'demo.cbx', 'demo'], 'EXISTS', 5, qr/another name/);
fails(['unpack', 'nosuch.cbx'], 'NOTFOUND', 4, qr/nosuch/);
mkdir 'folder';
fails(['unpack', 'folder'], 'ISDIR', 6, qr/'folder' is a folder, not a pack/);
for my $text ('x', "some text\n", 'text ' x 100) {
	spill('text', $text);
	fails(['unpack', 'text'], 'CORRUPT', 65, qr/'text': this is not a pack/);
}
fails(['unpack', 'demo.cbx', '-x'], 'INVALID', 2, qr/./);
fails(['pack', 'demo', '-o', 'no/such/x.cbx'], 'NOTFOUND', 4, qr{making 'no/such/x.cbx': the folder above it is not there});
fails(['pack', 'demo', '-o', 'again.cbx/x.cbx'], 'NOTDIR', 6, qr{'again.cbx' is no folder});
fails(['pack', 'nosuch', '-o', 'x.cbx'], 'NOTFOUND', 4, qr/cowbox list/);
is(-e 'x.cbx', undef, 'a pack that failed leaves no file');

my $bytes = slurp('demo.cbx');
for my $cut (0, 10, length($bytes) / 2, length($bytes) - 1) {
	spill('cut.cbx', substr $bytes, 0, $cut);
	fails(['unpack', 'cut.cbx', 'bad'], 'CORRUPT', 65, qr/pack/);
}
seed_random();
for (1 .. 20) {
	my $at = int rand length $bytes;
	my $damaged = $bytes;
	substr($damaged, $at, 1) ^= chr(1 << int rand 8);
	spill('damaged.cbx', $damaged);
	my $r = cowbox('unpack', 'damaged.cbx', 'bad');
	is($r->{status}, 65, "a flipped bit in byte $at is refused");
}
fails(['cat', 'bad:/work/a.txt'], 'NOTFOUND', 4, qr/bad/);

like(pty('cowbox pack demo'), qr/terminal.*-o/s, 'no pack to a terminal');
$ENV{COWBOX_STORE} .= '-new';
cow('unpack', 'demo.cbx');
is(cow('cat', 'demo:/work/a.txt'), "two\n", 'into a store that was not there, under its own name');
spill('longer.cbx', slurp('demo.cbx') . 'more');
cow('unpack', 'longer.cbx', 'longer');
is(cow('cat', 'longer:/work/a.txt'), "two\n", 'what follows a pack is left unread');

# Not over the store's own files, nor beside them, by whatever way.
symlink $ENV{COWBOX_STORE}, 'way' or die;
fails(['pack', 'demo', '-f', '-o', $_], 'INVALID', 2, qr/lies in the store's own folder: a pack needs a place outside of it/)
	for "$ENV{COWBOX_STORE}/cowbox.db", "$ENV{COWBOX_STORE}/new.cbx", 'way/seg/new.cbx', "../folder/way/./x.cbx";
like(shell("cowbox pack demo >>way/cowbox.db")->{err}, qr/'cowbox\.db': it lies in the store's own folder: a pack needs/, 'nor by the shell');
is_deeply([glob 'way/.cowbox-tmp-* way/*.cbx way/seg/*.cbx'], [], 'nothing is made there');
cow('fsck');

# A box of another store that steps name is none of this one, though one has its name.
cow('new', 'base');
cow('write', 'base:/work/x', '1');
cow('fork', 'base', 'twig');
ok(!exists json('log', 'twig')->{steps}[-1]{foreign}, 'a box of this store');
cow('pack', 'twig', '-o', 'twig.cbx');
$ENV{COWBOX_STORE} .= '-er';
cow('new', 'base');
cow('unpack', 'twig.cbx');
my $first = json('log', 'twig')->{steps}[-1];
is("$first->{kind} $first->{other}\@$first->{other_step} $first->{foreign}", 'fork base@1 1', 'a box of the store it was packed in');
like(cow('log', 'twig', '--oneline'), qr/^0 fork of base\@1 in another store/m, 'so to people');
# So are the lines that it began with: nothing was pruned.
cow('append', 'twig:/work/x', '2');
is_deeply([map { [@$_{qw(step box foreign text)}] } @{json('blame', 'twig:/work/x')->{lines}}], [[0, 'base', JSON::PP::true(), '1'], [1, 'twig', undef, '2']], 'blame');
like(cow('blame', 'twig:/work/x'), qr/\Abase in another store .* 1\) 1\n1 +append .* 2\) 2\n\z/, 'so to people');

done_testing();
