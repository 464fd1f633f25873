#!/usr/bin/perl
# stats, quota, retention, prune, gc, fsck, backup: each changes something and sees it there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();
fails(['stats'], 'NOTFOUND', 4, qr/no store.*cowbox new/);
cow('new', 'demo');

# stats
my $before = json('stats');
is($before->{boxes}, 1, 'one box');
cow('write', 'demo:big', {in => 'x' x 200_000});
cow('new', 'second');
my $after = json('stats');
is($after->{boxes}, 2, 'two boxes');
is($after->{steps}, $before->{steps} + 2, 'a write, and the beginning of a box');
is($after->{content_bytes}, $before->{content_bytes} + 200_000, 'bytes of the content');
ok($after->{$_} >= 0, "stats: $_") for qw(nodes node_bytes contents segments segment_bytes database_bytes wal_bytes);
like(cow('stats'), qr/^boxes +2$/m, 'stats as text');
is_deeply($after->{kept}, [], 'nobody reads');

# quota
my $q = json('quota', 'demo');
is("$q->{quota_bytes} $q->{quota_files} $q->{quota_file_bytes} $q->{bytes}", '0 0 0 200000', 'no bounds at first');
cow('quota', 'demo', '--bytes', '300k', '--files', '20');
cow('quota', 'demo', '--file-bytes', '1M');
$q = json('quota', 'demo');
is("$q->{quota_bytes} $q->{quota_files} $q->{quota_file_bytes}", '307200 20 1048576', 'bounds are kept until named again');
like(cow('quota', 'demo'), qr/^bytes +200000 of 307200$/m, 'as text');
fails(['write', 'demo:more', 'y' x 110_000], 'QUOTA', 10, qr/may hold 307200 bytes; 'cowbox quota demo'/);
like(cowbox('quota', 'demo', '--bytes', '10')->{err}, qr/holds more than that already/, 'a bound below what is there is said');
cow('quota', 'demo', '--none');
is(json('quota', 'demo')->{quota_bytes}, 0, 'lifted');
cow('write', 'demo:more', 'y' x 110_000);
fails(['quota', 'demo', '--none', '--files', '3'], 'INVALID', 2, qr/one of them/);
fails(['quota', 'demo@1', '--files', '3'], 'INVALID', 2, qr{a box is wanted});
fails(['quota', 'demo', '--bytes', 'lots'], 'INVALID', 2, qr/lots/);
is(json('quota', 'second', '--files', '0')->{box}, 'second', 'setting answers in JSON');

# retention and prune
fails(['prune', 'demo', '--yes'], 'INVALID', 2, qr/nothing says.*retention/);
is(cow('retention', 'demo'), "all steps are kept\n", 'everything at first');
cow('retention', 'demo', '--steps', '3');
cow('retention', 'demo', '--age', '0');
is(json('retention', 'demo')->{keep_steps}, 3, 'kept');
cow('write', 'demo:a', $_) for 1 .. 8;
cow('checkpoint', 'save', 'demo@4', 'named');
# A bare number may be meant as days: an age has a unit.
fails($_, 'INVALID', 2, qr/'30' has no unit: write it as 30s, 5m, 12h, 7d or 2w/) for ['retention', 'demo', '--age', '30'], ['prune', 'demo', '--keep-age', '30'];
is(json('retention', 'demo')->{keep_seconds}, 0, 'and nothing was set');
cow('new', 'aged');
is(json('retention', 'aged', '--age', $_->[0])->{keep_seconds}, $_->[1], "$_->[0] is $_->[1] seconds") for ['1.5d', 129600], ['0.1h', 360], ['1d12h', 129600], ['0', 0], ['500ms', 0.5];
like(cow('--json', 'retention', 'aged', '--age', '1.5d'), qr/"keep_seconds":129600\}/, 'in whole ones');
cow('write', 'aged:f', $_) for 1 .. 3;
fails(['prune', 'aged', '--keep-age', '1ms', '--keep', '2'], 'INVALID', 2, qr/up to 1 of 3 steps .*\(the newest 2, those of the last 1ms, checkpoints/);
fails(['prune', 'demo'], 'INVALID', 2, qr/up to 6 of 10 steps of 'demo' would be lost.*--yes/);
is(json('prune', 'demo', '--yes')->{pruned_steps}, 6, 'by retention');
is(cow('cat', 'demo@named:a'), "2\n", 'a checkpoint stays');
fails(['cat', 'demo@2:a'], 'STALE', 4, qr/pruned/);
is(cow('prune', 'demo'), "0 steps pruned\n", 'nothing to lose needs no question');
is(cowbox('prune', 'demo', '--keep', '2', '--yes')->{out}, "1 step pruned\n", 'one step is one');
cow('retention', 'demo', '--all');
is(json('retention', 'demo')->{keep_steps}, 0, 'all again');
fails(['retention', 'demo', '--all', '--steps', '3'], 'INVALID', 2, qr/one of them/);
is(json('prune', 'demo', '--keep-age', '1h', '--yes')->{pruned_steps}, 0, 'all are younger');

# gc
cow('rm', 'demo:big') if cowbox('help', 'rm')->{status} == 0;
cow('delete', 'second', '--yes');
my $gc = json('gc', '--vacuum');
is($gc->{boxes_freed}, 1, 'the deleted box is gone');
ok($gc->{vacuumed}, 'vacuumed');
my $again = cowbox('gc');
like($again->{out}, qr/^0 bytes freed: 0 contents, 0 nodes, 0 deleted boxes$/, 'nothing more');
like($again->{err}, qr/\Acowbox: what a step removed stays until that step is pruned[^\n]*: make one more, then prune\n\z/, 'and why');

# What the newest step took away can be undone, and keeps its room: prune says so, and what it says to do helps.
cow('new', 'room');
my $long = join '', map { "line $_\n" } 1 .. 20000;
spill('long', $long);
cow('write', 'room:long', '--file', 'long');
is(cow('prune', 'room', '--keep', '1', '--yes'), "0 steps pruned\n", 'nothing to prune, nothing to say');
cow('write', 'room:other', 'x');
my $pruned = cowbox('prune', 'room', '--keep', '1', '--yes');
is($pruned->{err}, "cowbox: room comes back with 'cowbox gc'\n", 'the newest step took nothing away');
cow('rm', 'room:long');
$pruned = cowbox('prune', 'room', '--keep', '1', '--yes');
like($pruned->{err}, qr/\Acowbox: room comes back with 'cowbox gc', but for what step 3 removed or overwrote, as it can be undone: make one more step, then prune and gc again\n\z/,
	'it took something');
is(json('gc')->{contents_freed}, 0, 'true: it is kept');
cow('write', 'room:other', 'y');
my $json = json('prune', 'room', '--keep', '1', '--yes');
is_deeply($json->{notes}, ["room comes back with 'cowbox gc', but for what step 4 removed or overwrote, as it can be undone: make one more step, then prune and gc again"],
	'an overwritten file too, and in JSON');
my $freed = json('gc');
ok($freed->{contents_freed} >= 1 && $freed->{bytes_freed} >= length $long, 'and then it is freed') or diag(explain($freed));
ok(!$freed->{notes}, 'with nothing more to say');

# backup
cow('backup', 'copy');
is(cow('--store', 'copy', 'cat', 'demo:a'), "8\n", 'the copy is a store');
fails(['backup', 'copy'], 'EXISTS', 5, qr/does not exist yet/);
fails(['backup', "$ENV{COWBOX_STORE}$_"], 'INVALID', 2, qr/store's own folder/) for '/copy', '/seg/copy';
like(json('backup', 'copy2')->{folder}, qr{/folder/copy2$}, 'json: where it is');

# fsck
is(cow('fsck'), "the store is sound\n", 'sound');
ok(json('fsck')->{sound}, 'json: sound');
my $db = "$world/folder/copy/cowbox.db";
SKIP: {
	skip('no sqlite3 here', 3) if !-x '/usr/bin/sqlite3' && !must_work();
	my $sql = "UPDATE setting SET value='x'; UPDATE checkpoint SET seq=seq+1";
	# Left in the log, which cowbox folds in itself: pages that sqlite3 folds in have wrong sums, and hide what is in them.
	system('sqlite3', '-cmd', '.dbconfig no_ckpt_on_close on', $db, $sql) == 0 or die;
	my $r = cowbox('--store', 'copy', 'fsck');
	is($r->{status}, 65, 'damage has an exit status of its own');
	like($r->{out}, qr/demo.*\n.*complaint/, 'and is named');
	my $j = JSON::PP->new->utf8->decode(cowbox('--json', '--store', 'copy', 'fsck')->{out});
	ok(!$j->{sound} && @{$j->{complaints}} > 0, 'json: complaints');
}

done_testing();
