#!/usr/bin/perl
# new, use, info, rename, delete, fork: boxes come, get names, are chosen, and go.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();

# ---- without a store ----
fails(['list'], 'NOTFOUND', 4, qr/cowbox new NAME/);
fails(['use'], 'NOTFOUND', 4, qr/cowbox new NAME/);
fails(['delete', 'demo', '--yes'], 'NOTFOUND', 4, qr/./);

# ---- new ----
is(cow('new', 'demo'), '', 'new is silent');
my $box = json('new', 'second');
is($box->{name}, 'second', 'json: name');
is($box->{steps}, 0, 'json: no steps yet');
like($box->{created}, qr/^\d{4}-\d\d-\d\dT[\d:.]+Z$/, 'json: created');
ok(!exists $box->{imported}, 'json: nothing imported');
fails(['new', 'demo'], 'EXISTS', 5, qr/cowbox delete demo/);
fails(['new'], 'INVALID', 2, qr/NAME/);
fails(['new', $_], 'INVALID', 2, qr/./) for '.hidden', 'a/b', 'a b', "a\nb", "\xff", 'x' x 65, '';
fails(['new', '--', '-dash'], 'INVALID', 2, qr/./);
cow('new', 'x' x 64);
cow('delete', 'x' x 64, '--yes');
fails(['new', 'third', '--gitignore'], 'INVALID', 2, qr/--from/);
fails(['new', 'third', '--exclude', '*.o'], 'INVALID', 2, qr/--from/);
{
	local $ENV{COWBOX_STORE} = "$ENV{HOME}/no/such";
	fails(['new', 'x'], 'NOTFOUND', 4, qr/make that first$/);
	fails(['list'], 'NOTFOUND', 4, qr/cowbox new NAME/);
}
spill('one-file', 'x');
fails(['new', 'third', '--from', 'one-file'], 'NOTDIR', 6, qr/one-file.*cowbox cp/);
ok(cowbox('new', 'third', '--from', 'no-such-folder')->{status} != 0, 'a folder that is not there');
is_deeply([map { $_->{name} } @{json('list')->{boxes}}], ['demo', 'second'], 'a failed import leaves no box');
is(cow('ls', 'demo:/'), "home\ntmp\nwork\n", 'what a new box holds');

# ---- use ----
my $r = cowbox('use');
is($r->{status}, 1, 'use without a choice: status 1');
is($r->{out}, '', 'and nothing on standard output');
$r = cowbox('--json', 'use');
is($r->{status}, 1, 'the same with --json');
like($r->{out}, qr/"box":null,"by":null/, 'json: null');
cow('use', 'demo');
is(cow('use'), "demo\t(cowbox use)\n", 'use shows the choice');
is_deeply(json('use'), {box => 'demo', by => 'use'}, 'json of use');
cow('write', 'a.txt', 'hello');
is(cow('cat', 'demo:/work/a.txt'), "hello\n", 'commands without an address mean it');
is(cow('--box', 'second', 'use'), "second\t(--box)\n", '--box comes first');
is(json('use', {env => {COWBOX_BOX => 'second'}})->{by}, 'COWBOX_BOX', 'then COWBOX_BOX');
is(json('--box', 'demo', 'use', {env => {COWBOX_BOX => 'second'}})->{by}, '--box', '--box before COWBOX_BOX');
like(cowbox('use', 'demo', {env => {COWBOX_BOX => 'second'}})->{err}, qr/'second' is still meant: COWBOX_BOX/, 'use says what comes before it');
fails(['use', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['use', 'demo@1'], 'INVALID', 2, qr/step/);
fails(['use', 'demo', '--none'], 'INVALID', 2, qr/--none/);
is(cow('use'), "demo\t(cowbox use)\n", 'a refused choice changes nothing');
ok((grep { $_->{chosen} && $_->{name} eq 'demo' } @{json('list')->{boxes}}), 'list marks it');
cow('use', '--none');
is(cowbox('use')->{status}, 1, 'none');
fails(['cat', 'a.txt'], 'INVALID', 2, qr/no box chosen.*cowbox use/);

# ---- fork ----
cow('use', 'demo');
cow('write', 'demo:a.txt', 'two');
cow('checkpoint', 'save', 'demo', 'here') if cowbox('checkpoint', '--help')->{status} == 0;
my $fork = json('fork', 'demo', 'try-1');
is($fork->{origin}, 'demo', 'json: origin');
is($fork->{origin_step}, 2, 'json: origin_step');
cow('write', 'try-1:a.txt', 'in the fork');
is(cow('cat', 'demo:a.txt'), "two\n", 'the origin stays');
cow('fork', 'demo@1', 'old');
is(cow('cat', 'old:a.txt'), "hello\n", 'a fork of an old state');
cow('fork', 'chosen', '--use');
is(json('use')->{box}, 'chosen', 'fork --use of the chosen box');
is(json('info')->{origin}, 'demo', 'which was demo');
cow('fork', '@0', 'at-nothing', '--box', 'demo');
is(cow('ls', 'at-nothing'), '', 'state 0 of the chosen box');
fails(['fork', 'demo', 'try-1'], 'EXISTS', 5, qr/try-1/);
fails(['fork', 'nosuch', 'y'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['fork', 'demo@99', 'y'], 'NOTFOUND', 4, qr/./);
fails(['fork', 'demo:/work', 'y'], 'INVALID', 2, qr/path/);
fails(['fork', 'demo', '.y'], 'INVALID', 2, qr/./);
fails(['fork'], 'INVALID', 2, qr/NAME/);

# ---- info ----
my $info = json('info', 'demo');
is($info->{name}, 'demo', 'info: name');
is($info->{steps}, 2, 'info: steps');
is($info->{forks}, 4, 'info: forks');
is($info->{files}, 5, 'info: files and folders');
is($info->{bytes}, 4, 'info: bytes');
is($info->{folder}, undef, 'info: no folder');
is($info->{$_}, 0, "info: $_") for qw(quota_bytes quota_files quota_file_bytes keep_steps keep_seconds checkpoint_every);
my $plain = cow('info', 'try-1');
like($plain, qr/^origin +demo\@2$/m, 'info: the origin in plain');
like($plain, qr/^steps +1$/m, 'info: steps in plain');
is(json('info', 'demo@1')->{bytes}, 6, 'info of an old state') or diag(cow('info', 'demo@1'));
fails(['info', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);

# ---- rename ----
cow('use', 'try-1');
is_deeply(json('rename', 'try-1', 'try-2'), {name => 'try-2', old_name => 'try-1'}, 'json of rename');
is(json('use')->{box}, 'try-2', 'the choice follows');
is(cow('cat', 'a.txt'), "in the fork\n", 'the content too');
cow('rename', 'second', 'zweite');
is(json('use')->{box}, 'try-2', 'the name of another box does not touch the choice');
fails(['rename', 'try-2', 'demo'], 'EXISTS', 5, qr/demo/);
fails(['rename', 'nosuch', 'y'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['rename', 'demo', 'a/b'], 'INVALID', 2, qr/./);
fails(['rename', 'demo@1', 'y'], 'INVALID', 2, qr/step/);
fails(['rename', 'demo'], 'INVALID', 2, qr/NEW/);

# ---- delete ----
fails(['delete', 'demo'], 'INVALID', 2, qr/2 steps, \d checkpoint.*4 forks live on; add --yes/);
fails(['delete', 'demo', 'nosuch', '--yes'], 'NOTFOUND', 4, qr/nosuch/);
fails(['delete', 'demo', 'demo', '--yes'], 'INVALID', 2, qr/twice/);
fails(['delete', 'demo@1', '--yes'], 'INVALID', 2, qr/step/);
fails(['delete', '--yes'], 'INVALID', 2, qr/BOX/);
is(cow('cat', 'demo:a.txt'), "two\n", 'nothing of that deleted anything');
like(pty('cowbox delete demo', "n\n"), qr/would be lost.*Go on\? \[y\/N\]/s, 'on a terminal it asks');
is(cow('cat', 'demo:a.txt'), "two\n", 'no is no');
pty('cowbox delete demo', "y\n");
fails(['info', 'demo'], 'NOTFOUND', 4, qr/./);
is(cow('cat', 'old:a.txt'), "hello\n", 'forks live on');
my $gone = json('delete', 'try-2', 'old', '--yes');
is_deeply($gone->{deleted}, ['try-2', 'old'], 'json of delete');
is(cowbox('use')->{status}, 1, 'the choice of a deleted box is gone');
cow('new', 'thin');
cow('write', 'thin:f', $_) for 1 .. 5;
cow('prune', 'thin', '--keep', '2', '--yes', {notes => 1});
fails(['delete', 'thin'], 'INVALID', 2, qr/lost: 2 steps,/);
is(json('delete', 'thin', '--yes')->{steps}, 2, 'pruned steps are not lost with a box');
cow('new', 'try-2');
is(cowbox('use')->{status}, 1, 'and does not come back with the name');
cow('fork', 'try-2', $_) for 'try-3', 'try-4';
fails(['delete', 'try-2', 'try-3'], 'INVALID', 2, qr/2 boxes .*; 1 fork lives on; add --yes/);
is(json('delete', 'try-2', 'try-3', '--yes')->{forks}, 1, 'one that goes too does not live on');

# Each box was listed once for each that goes: a thousand took minutes.
sub cpu_of_delete {
	my ($n) = @_;
	my @names = map { "many-$_" } 1 .. $n;
	cow('fork', 'try-4', $_) for @names;
	my (undef, undef, $user, $system) = times;
	cow('delete', @names, '--yes');
	my (undef, undef, $user_then, $system_then) = times;
	return $user_then + $system_then - $user - $system;
}
my ($few, $many) = (cpu_of_delete(25), cpu_of_delete(200));
ok($many < 12 * ($few + 0.01), "many boxes at once: 25 $few s, 200 $many s");

# A name that is taken: the next step.
cow('new', $_) for 'name-1', 'name-2';
fails(['rename', 'name-1', 'name-2'], 'EXISTS', 5, qr/take another name, or 'cowbox delete name-2' first/);

done_testing();
