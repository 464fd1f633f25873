#!/usr/bin/perl
# cp in every direction, and new --from: nothing is lost on the way, nothing is followed out, all or nothing, nothing into the store's own folder.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo', '--use');
cow('new', 'other');
my $big = pack 'L*', map { $_ * 2_654_435_761 % 4_294_967_296 } 1 .. 750_000;
cow('write', 'd/a.txt', '-p', 'hello');
cow('ln', 'd/a.txt', 'd/b.txt');
cow('ln', '-s', 'a.txt', 'd/link');
cow('ln', '-s', '/etc/passwd', 'd/out');
cow('write', "d/sub/bad\xff\nname", '-p', 'odd');
cow('write', 'd/big', {in => $big});
cow('tag', 'add', 'd/a.txt', 'tagged');
cow('meta', 'set', 'd/a.txt', 'author', 'ann');
cow('tag', 'add', 'd/sub', 'folder-tag');
cow('chmod', '751', 'd/sub');
cow('chmod', '604', 'd/a.txt');
cow('touch', '--time', '2020-02-02T02:02:02Z', 'd/a.txt', 'd/sub', 'd');

sub steps { json('info', $_[0])->{steps} }

# Everything below a folder but what a copy cannot have: inode, version and change time.
sub picture {
	my ($place) = @_;
	my @all;
	my %first;
	for my $e (@{json('tree', $place)->{entries}}) {
		(my $path = $e->{path}) =~ s{^/work/[^/]+}{};
		my $same = $first{$e->{ino}} ||= $path;
		push @all, [$path, @$e{qw(type mode size links mtime)}, $e->{target}, $same];
	}
	return \@all;
}

# ---- between boxes ----
my $copied = json('cp', '-r', 'demo:d', 'other:');
is($copied->{step}, 1, 'one step');
is_deeply($copied->{copied}, [{from => 'demo:d', to => '/work/d'}], 'json of cp');
is_deeply(picture('other:d'), picture('demo:d'), 'modes, times, links, hard links, targets');
ok(cow('cat', 'other:d/big') eq $big, 'a large file');
is_deeply(json('stat', 'other:d/a.txt')->{entries}[0]{$_}, json('stat', 'demo:d/a.txt')->{entries}[0]{$_}, $_) for qw(tags metadata);
is_deeply(json('stat', 'other:d/sub')->{entries}[0]{tags}, ['folder-tag'], 'tags of folders');
is(json('stat', 'other:d')->{entries}[0]{mtime}, '2020-02-02T02:02:02.000000000Z', 'times of folders');
cow('cp', 'demo@1:d/a.txt', 'other:old.txt');
is(cow('cat', 'other:old.txt'), "hello\n", 'from an old state');
cow('write', 'demo:d/a.txt', 'changed');
cow('cp', '-r', 'demo@1:d', 'demo:d-at-1');
is(cow('cat', 'demo:d-at-1/a.txt'), "hello\n", 'from an old state of the same box');
cow('cp', '-r', 'demo:d', 'other:');
is(cow('cat', 'other:d/a.txt'), "changed\n", 'folders are joined, files replaced');
cow('cp', 'demo:d/a.txt', 'demo:d/big', 'other:d/sub');
ok(cow('cat', 'other:d/sub/big') eq $big, 'several files into a folder');
cow('ln', '-s', '/work/old.txt', 'other:through');
cow('cp', 'demo:d/a.txt', 'other:through');
is(json('stat', 'other:through')->{entries}[0]{type}, 'file', 'a link at the target is replaced, not written through');
is(cow('cat', 'other:old.txt'), "hello\n", 'what it led to stays');

# ---- within a box ----
my $before = steps('demo');
is(json('cp', ':d/a.txt', ':copy')->{step}, $before + 1, 'one step');
is(cow('cat', 'copy'), "changed\n", 'a file');
cow('cp', '-r', ':d', ':e');
# Within a box each name of a file becomes a file of its own.
my $apart = sub { [map { [@$_[0 .. 3, 5, 6]] } @{picture($_[0])}] };
is_deeply($apart->('demo:e'), $apart->('demo:d'), 'a folder');
is_deeply(json('stat', 'e/a.txt')->{entries}[0]{$_}, json('stat', 'd/a.txt')->{entries}[0]{$_}, $_) for qw(tags metadata);
cow('write', 'e/extra', 'x');
cow('write', 'e/a.txt', 'mine');
cow('cp', '-r', ':e', ':d-at-1');
is(cow('cat', 'd-at-1/e/extra'), "x\n", 'into a folder');
cow('cp', '-r', ':d', ':d-at-1/e/..');
cow('mkdir', 'joined', 'joined/e');
cow('write', 'joined/e/kept', 'kept');
cow('cp', '-r', ':e', ':joined');
is(cow('cat', 'joined/e/kept', 'joined/e/extra'), "kept\nx\n", 'folders are joined');
cow('cp', '-r', ':joined', ':joined/self');
is(cow('cat', 'joined/self/e/kept'), "kept\n", 'a folder into itself: what it was before');

cow('ln', '-s', 'copy', 'to-copy');
cow('cp', ':d-at-1/a.txt', ':to-copy');
is(cow('cat', 'copy', 'to-copy'), "changed\nhello\n", 'a link at the target is replaced');

# ---- refusals, without a change ----
$before = steps('demo');
fails(['cp', ':d', ':x'], 'ISDIR', 6, qr/-r/);
fails(['cp', ':nosuch', ':x'], 'NOTFOUND', 4, qr/nosuch/);
fails(['cp', ':copy', ':nosuch', ':d'], 'NOTFOUND', 4, qr/nosuch/);
fails(['cp', ':copy', ':d/a.txt', ':d/big'], 'NOTDIR', 6, qr/several/);
fails(['cp', '-n', ':copy', ':d/a.txt'], 'EXISTS', 5, qr/there already/);
fails(['cp', '-n', 'other:old.txt', ':copy'], 'EXISTS', 5, qr/there already/);
fails(['cp', ':copy', ':nosuch/'], 'NOTFOUND', 4, qr/no folder/);
fails(['cp', ':copy', ':nosuch/x'], 'NOTFOUND', 4, qr/./);
fails(['cp', ':copy', 'demo@1:x'], 'READONLY', 77, qr/cowbox fork/);
fails(['cp', ':copy', 'nosuch:x'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['cp', 'a', 'b'], 'NOTFOUND', 4, qr/BOX:\/PATH/);
fails(['cp', 'x'], 'INVALID', 2, qr/TARGET/);
fails(['cp', ':copy', ':copy'], 'INVALID', 2, qr/same file/);
fails(['cp', '-r', ':d', ':d/..'], 'INVALID', 2, qr/same folder/);
fails(['cp', ':d/a.txt', ':e/a.txt', ':joined'], 'INVALID', 2, qr/two of the sources/);
cow('write', 'other:d-file', 'a file');
fails(['cp', '-r', 'other:d-file', ':copy', ':d', ':joined/e/kept'], 'NOTDIR', 6, qr/./);
cow('mkdir', 'clash', 'clash/a.txt');
$before = steps('demo');
cow('mkdir', 'other:clash');
cow('write', 'other:clash/0-first', 'x');
cow('write', 'other:clash/a.txt', 'x');
fails(['cp', '-r', 'other:clash', ':'], 'ISDIR', 6, qr/a\.txt/);
is(cow('ls', ':clash'), "a.txt\n", 'a copy that fails midway leaves nothing');
is(steps('demo'), $before, 'no step');

# ---- from the host ----
spill('host.txt', 'from the host');
chmod 0640, 'host.txt';
utime 1_500_000_000, 1_500_000_000, 'host.txt';
cow('cp', 'host.txt', 'demo:');
is(cow('cat', 'host.txt'), 'from the host', 'a file into a folder');
is_deeply([@{json('stat', 'host.txt')->{entries}[0]}{qw(mode mtime)}], ['0640', '2017-07-14T02:40:00.000000000Z'], 'mode and time');
cow('cp', './host.txt', 'demo:named.txt');
is(cow('cat', 'named.txt'), 'from the host', 'to a name');
spill('two.txt', 'two');
$before = steps('demo');
is(json('cp', 'host.txt', 'two.txt', 'demo:d')->{step}, $before + 1, 'several files: one step');
is(cow('cat', 'd/host.txt', 'd/two.txt'), 'from the hosttwo', 'all of them');
is_deeply([@{json('stat', 'd/host.txt')->{entries}[0]}{qw(mode mtime)}], ['0640', '2017-07-14T02:40:00.000000000Z'], 'with mode and time');
symlink 'two.txt', 'named-link';
cow('cp', 'named-link', 'demo:from-link');
is_deeply([@{json('stat', 'from-link')->{entries}[0]}{qw(type size)}], ['file', 3], 'a link that is named is followed');
mkdir 'tree';
mkdir 'tree/sub';
spill('tree/sub/file', 'deep');
symlink '/etc/passwd', 'tree/evil';
symlink 'sub/file', 'tree/good';
fails(['cp', 'tree', 'demo:'], 'ISDIR', 6, qr/-r/);
cow('cp', '-r', 'tree', 'demo:');
is(cow('cat', 'tree/sub/file', 'tree/good'), 'deepdeep', 'a folder');
is(json('stat', 'tree/evil')->{entries}[0]{target}, '/etc/passwd', 'a link stays a link');
fails(['cat', 'tree/evil'], 'NOTFOUND', 4, qr/./);
fails(['cp', '-r', 'tree', 'host.txt', 'demo:'], 'INVALID', 2, qr/of its own/);
fails(['cp', '-n', 'host.txt', 'demo:'], 'EXISTS', 5, qr/there already/);
fails(['cp', 'nosuch', 'demo:'], 'NOTFOUND', 4, qr/no 'nosuch' on the host/);
fails(['cp', 'host.txt', 'nosuch', 'demo:'], 'NOTFOUND', 4, qr/no 'nosuch'/);
fails(['cp', 'host.txt', 'two.txt'], 'INVALID', 2, qr/both of the host/);
is(json('info')->{folder}, undef, 'cp does not make the folder the box\'s own');

# ---- to the host ----
cow('cp', ':d/a.txt', 'out.txt');
is(slurp('out.txt'), "changed\n", 'a file to a name');
is((stat 'out.txt')[2] & 07777, 0604, 'its mode');
mkdir 'into';
fails(['cp', ':d/a.txt', 'demo@1:d/a.txt', ':d/big', 'into'], 'INVALID', 2, qr/two of the sources/);
cow('cp', 'demo@1:d/a.txt', ':d/big', 'into');
is(slurp('into/a.txt'), "hello\n", 'into a folder');
ok(slurp('into/big') eq $big, 'a large file');
cow('cp', '-r', ':d', 'new-folder');
is(slurp("new-folder/sub/bad\xff\nname"), "odd\n", 'a folder, with names from anywhere');
is(readlink 'new-folder/out', '/etc/passwd', 'a link is a link');
spill('victim', 'untouched');
symlink 'victim', 'trap';
cow('cp', ':d/a.txt', 'trap');
is(slurp('victim'), 'untouched', 'a link of the host is replaced, not written through');
mkdir 'outside';
spill('outside/f', 'untouched');
mkdir 'planted';
cow('ln', '-s', '../outside', ':res');
cow('cp', ':res', 'planted');
symlink 'outside', 'planted-too';
cow('rm', ':res');
cow('write', '--parents', ':res/f', 'evil');
fails(['cp', '-r', @$_], 'LOOP', 6, qr/is a symbolic link/) for [':res', 'planted'], [':res', 'planted-too'], [':res', ':d', 'planted-too'];
is(join(' ', slurp('outside/f'), glob 'outside/*'), 'untouched outside/f', 'a link that was copied out is not followed later');
cow('cp', '-r', ':res', 'planted-too/');
is(slurp('outside/res/f'), "evil\n", 'with a slash the folder it leads to is meant');
cow('rm', '-r', ':res');
fails(['cp', ':d/a.txt', 'not-there/'], 'NOTDIR', 6, qr/names a folder/);
fails(['cp', '-n', ':d/a.txt', 'out.txt'], 'EXISTS', 5, qr/there already/);
fails(['cp', ':d', 'elsewhere'], 'ISDIR', 6, qr/-r/);
fails(['cp', ':d/a.txt', ':d/big', 'nowhere'], 'NOTDIR', 6, qr/several/);
symlink $ENV{COWBOX_STORE}, 'way';
fails(['cp', '-r', @$_], 'INVALID', 2, qr/it lies in the store's own folder: an export needs a place outside of it/)
	for [':d/a.txt', "$ENV{COWBOX_STORE}/cowbox.db"], [':d/a.txt', 'way/'], [':d/a.txt', ':d/big', 'way/seg'], [':d', 'way/new'], [':d', '../store/new'];
fails(['cp', '-r', @$_, 'demo:'], 'INVALID', 2, qr/it lies in the store's own folder: an import needs a place outside of it/) for ['way/cowbox.db'], ['../store'];
unlink 'way';

# ---- new --from ----
my $world = world();
spill('a.txt', "hello\n");
mkdir 'src';
spill('src/main.c', 'int main(void) { return 0; }');
spill('src/main.o', 'object');
spill('.gitignore', "*.o\n");
symlink 'a.txt', 'link';
POSIX::mkfifo('pipe', 0600);
my $r = cowbox('new', 'demo', '--from', '.');
is($r->{status}, 0, 'new --from');
like($r->{err}, qr/\Acowbox: pipe: [^\n]*\n\z/, 'what is left out is said');
is(cow('ls'), ".gitignore\na.txt\nlink\nsrc\n", 'the folder is the box\'s own: no address needed');
is(json('use')->{by}, 'folder', 'chosen by the folder');
is(json('info')->{folder}, "$world/folder", 'info: the folder');
is(json('info')->{folder_path}, '/work', 'info: where it is');
is(json('info')->{steps}, 1, 'one step');
my $new = json('new', 'second', '--from', '.', '--gitignore', '--exclude', 'link');
is($new->{imported}{files}, 3, 'json: files');
is($new->{imported}{step}, 1, 'json: step');
is(scalar @{$new->{notes}}, 1, 'json: notes');
is(cow('ls', 'second', 'second:src'), "second:\n.gitignore\na.txt\nsrc\n\nsecond:src:\nmain.c\n", '--gitignore and --exclude');
is(json('use')->{box}, 'second', 'the folder is the newest box\'s');
is(cow('ls', 'demo:src', {env => {COWBOX_BOX => 'demo'}}), "main.c\nmain.o\n", 'demo has all');
chdir 'src';
is(json('use')->{box}, 'second', 'also in a folder below');
chdir '..';
fails(['new', 'third', '--from', 'nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['info', 'third'], 'NOTFOUND', 4, qr/./);
mkdir "$world/home/.config";
mkdir "$world/home/.config/cowbox";
spill("$world/home/.config/cowbox/config", "import.exclude = link *.txt\nimport.gitignore = yes\ncheckpoint.every = 2\n");
cow('new', 'configured', '--from', '.', '--quiet');
is(cow('ls', 'configured', 'configured:src'), "configured:\n.gitignore\nsrc\n\nconfigured:src:\nmain.c\n", 'the configuration holds');
is(json('info', 'configured')->{checkpoint_every}, 2, 'checkpoint.every too');
cow('new', 'back', '--from', '.', '--exclude', '!a.txt', '--quiet');
like(cow('ls', 'back'), qr/^a\.txt$/m, 'a pattern of the configuration is taken back');
unlink 'pipe';
like(pty('cowbox new shown --from .'), qr/files, .* from '\.'/, 'on a terminal it says what came');

# ---- what a link of the host is called, and where a copy may go ----
cow('new', 'into');
mkdir 'releases';
mkdir 'releases/42';
spill('releases/42/app', 'v42');
symlink 'releases/42', 'current';
is(json('cp', '-r', 'current', 'into:/work')->{copied}[0]{to}, '/work/current', 'a link that is named keeps its name');
is(json('cp', '-r', 'releases/42/.', 'into:/work')->{copied}[0]{to}, '/work/42', 'a dot is called as the folder is');
is(cow('cat', 'into:current/app', 'into:42/app'), 'v42v42', 'and it is followed');
fails(['cp', @$_, 'into:/work/no/such'], 'NOTFOUND', 4, qr/mkdir --parents/) for ['a.txt'], ['-r', 'releases'], ['into:42/app'], ['-r', 'into:42'];
is(cow('ls', 'into'), "42\ncurrent\n", 'a copy makes no folders above it, wherever it comes from');

done_testing();
