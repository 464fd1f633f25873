#!/usr/bin/perl
# apply: what a box changed, back to its folder: listing, refusals, what is held back, chosen paths, JSON.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use JSON::PP;

my $world = fixture();

my $dry = cow('apply', 'demo', '--dry-run');
like($dry, qr/^would be written:\n  M README\.md\n  M a\.txt\n  M src\/main\.c\n/m, 'a dry run lists what would be written');
like($dry, qr/^new executables among them:\n  M src\/main\.c\n/m, 'new executables are listed apart');
like($dry, qr/nothing was written/, 'and says that it was one');
is(slurp('a.txt'), "hi\n", 'nothing is written by a dry run');

my $j = json('apply', 'demo', '--dry-run');
is($j->{dry_run}, 1, 'json: dry_run');
is(join(' ', map { "$_->{status}:$_->{path}" } @{$j->{items}}), 'write:README.md write:a.txt write:src/main.c', 'json: items');
ok($j->{items}[2]{new_executable}, 'json: new_executable');

cow('apply', 'demo', 'a.txt', '/work/src');
is(slurp('a.txt'), "hello\n", 'chosen paths are written');
is(slurp('README.md'), "# A project\n\nIt says hello.\n", 'others are not');
ok(-x 'src/main.c', 'with their mode');

spill('README.md', "mine\n");
my $refused = cowbox('apply', 'demo');
is($refused->{status}, 9, 'a conflict');
like($refused->{err}, qr/\Acowbox: [^\n]*1 path changed on the host since, nothing was written;[^\n]*--force[^\n]*\n\z/, 'one line says what to do');
like($refused->{out}, qr/README\.md: it was changed on the host/, 'and each path is named');
my $object = JSON::PP->new->decode(cowbox('--json', 'apply', 'demo')->{err})->{error};
is($object->{conflicts}[0]{path}, 'README.md', 'json: conflicts');
is(slurp('README.md'), "mine\n", 'what changed on the host is left alone');
like(cow('apply', 'demo', '--dry-run'), qr/refused without --force:\n  M README\.md  \(it was changed on the host\)/, 'a dry run tells it');
like(cow('apply', 'demo', '--force'), qr/written over what changed on the host:\n  M README\.md/, 'force overwrites it');
like(slurp('README.md'), qr/everybody/, 'with what the box has');
like(cow('apply', 'demo'), qr/has all of it already/, 'nothing is left to do');
is(json('apply', 'demo')->{written}, 0, 'json of nothing to do');
like(cow('log', 'demo'), qr/apply/, 'it is in the history');

cow('mkdir', '-p', 'demo:/work/.git/hooks');
cow('write', 'demo:/work/.git/hooks/pre-commit', 'evil');
cow('write', 'demo:/work/.envrc', 'evil');
cow('ln', '-s', '/etc/passwd', 'demo:/work/out');
my $held = cow('apply', 'demo');
like($held, qr/^held back.*--allow PATH.*:\n  A \.envrc  \(.*\)\n  A \.git\/hooks\/  \(.*\)\n  A \.git\/hooks\/pre-commit/m, 'what runs by itself is held back');
like($held, qr/^new symbolic links among them:\n  A out -> \/etc\/passwd  \(out of the folder\)\n/m, 'new links are listed apart');
ok(!-e '.envrc' && !-e '.git/hooks', 'and not written');
ok(-l 'out', 'links are links');
cow('apply', 'demo', '--allow', '.envrc');
is(slurp('.envrc'), "evil\n", 'unless it is allowed');
ok(!-e '.git/hooks', 'by name');

cow('undo', 'demo');
ok(1, 'undo skips the record');
fails(['apply', 'other'], 'NOTFOUND', 4, qr/--to/);
mkdir "$world/elsewhere";
cow('apply', 'try-1', '--to', "$world/elsewhere");
is(slurp("$world/elsewhere/a.txt"), "hello from a fork\n", 'another folder');
chdir "$world/elsewhere";
like(cow('info'), qr/try-1/, 'becomes the folder of the box');
fails(['apply', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['apply', 'demo', '../x'], 'INVALID', 2, qr/\.\./);

# ---- paths in any of their forms, in the folder's own box ----
{
	world();
	mkdir 'src';
	spill('src/a.c', "a\n");
	spill('b.txt', "b\n");
	cow('new', 'demo', '--from', '.');
	for my $first (':b.txt', 'demo:b.txt', '/work/b.txt', 'demo:/work/b.txt') {
		cow('append', 'demo:b.txt', $first);
		cow('append', 'demo:src/a.c', $first);
		cow('apply', $first);
		like(slurp('b.txt'), qr/\Q$first\E/, "apply $first writes the file");
		unlike(slurp('src/a.c'), qr/\Q$first\E/, '... and nothing else');
	}
	cow('apply', 'src/a.c', ':b.txt');
	is(slurp('src/a.c'), cow('cat', 'demo:src/a.c'), 'a path relative to the folder');
	fails(['apply', 'demo', 'other:b.txt'], 'INVALID', 2, qr/names a box/);
	fails(['apply', ':nosuch'], 'NOTFOUND', 4, qr/nosuch/);
}

done_testing();
