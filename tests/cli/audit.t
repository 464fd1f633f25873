#!/usr/bin/perl
# audit: who did what, what was refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('--who', 'ada', 'write', 'demo:a.txt', 'one');
cow('fork', 'demo', 'try');
cow('--who', 'bob', 'write', 'try:a.txt', 'two');
fails(['--who', 'eve', 'write', 'demo:/usr/x', '--parents', 'x'], 'RESERVED', 2, qr/usr/);
cow('quota', 'demo', '--bytes', '10');
fails(['--who', 'eve', 'write', 'demo:b.txt', 'x' x 100], 'QUOTA', 10, qr/may hold/);
cow('delete', 'try', '--yes');

my @e = @{json('audit')->{entries}};
is_deeply([map { "$_->{who} $_->{action} $_->{box}" . ($_->{step} ? "\@$_->{step}" : '') . ($_->{refused} ? " $_->{refused} x$_->{count}" : '') } @e],
	['tester delete try', 'eve write demo QUOTA x2', 'tester quota demo', 'eve write demo RESERVED x2', 'bob write try@1', 'tester fork try',
		'ada write demo@1', 'tester create demo'], 'newest first, with the steps of a deleted box');
is($e[3]{subject}, '/usr/x', 'what it was about');
like($e[3]{message}, qr/belongs to the system/, 'why it was refused');
my @times = map { $_->{time} } @e;
is_deeply(\@times, [sort { $b cmp $a } @times], 'by time');

is(scalar @{json('audit', '--refused')->{entries}}, 2, 'only refusals');
is(scalar @{json('audit', '--by', 'eve')->{entries}}, 2, 'by one');
is(scalar @{json('audit', 'try')->{entries}}, 3, 'of a box that is gone');
is(scalar @{json('audit', 'try', '--by', 'bob')->{entries}}, 1, 'by one, of a box that is gone');
is(scalar @{json('audit', 'try', '--by', 'nobody')->{entries}}, 0, 'nothing by somebody else, of a box that is gone');
is(scalar @{json('audit', '-n', '3')->{entries}}, 3, 'at most');
is(scalar @{json('audit', '--since', '1h')->{entries}}, 8, 'since');
is(scalar @{json('audit', '--since', '2100-01-01')->{entries}}, 0, 'since later');
is(scalar(() = cow('audit') =~ /\n/g), 8, 'a line each');
cow('gc');
is(join(' ', map { $_->{action} } @{json('audit', 'try')->{entries}}), 'delete fork', 'gc takes the steps of a deleted box');
is(scalar @{json('audit', 'try', '--by', 'bob')->{entries}}, 0, 'and then nothing is left of who did them');
like(cow('audit', '--refused'), qr/eve  demo  write  .*refused: the box may hold 10 bytes \(2 times\)\n/, 'as text');
fails(['audit', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['audit', '--since', 'yesterday-ish'], 'INVALID', 2, qr/yesterday-ish/);
fails(['audit', '--since', $_], 'INVALID', 2, qr/\Q$_\E/) for '2026-02-30', '2026-04-31', '2025-02-29', '2026-13-01', '2026-00-01';
cow('audit', '--since', $_) for '2024-02-29', '2026-12-31';
{
	local @ENV{'LOGNAME', 'USER'};
	delete @ENV{'LOGNAME', 'USER'};
	cow('mkdir', 'demo:/work/whose');
	is(json('audit', 'demo', '-n', '1')->{entries}[0]{who}, scalar getpwuid($>), 'without a name in the environment, the login name');
	SKIP: {
		my $uid = 54321;
		my @as = ($^X, '-e', '$) = "@ARGV[0, 0]"; $( = $ARGV[0]; $< = $> = shift; exec @ARGV or exit 99', $uid);
		skip('needs root and a build that others may run', 1) if $> || getpwuid($uid) || system(@as, 'test', '-x', program());
		my $world = $ENV{HOME} =~ s{/home$}{}r;
		chmod 0755, $world;
		mkdir "$world/theirs";
		chown $uid, $uid, "$world/theirs";
		local $ENV{COWBOX_STORE} = "$world/theirs/store";
		is(system(@as, program(), '--quiet', 'new', 'mine'), 0, 'nor is there a login name: a step of nobody known');
	}
}

# hostile: control bytes are shown as such on a terminal, values of settings never
cow('write', "demo:\e[31mred", 'x');
unlike(pty("cowbox --no-pager --color never audit -n 1"), qr/\e\[31m/, 'control bytes are escaped on a terminal');
cow('config', 'set', 'import.exclude', 'very-secret', '--for', 'demo');
my $all = cow('audit');
unlike($all, qr/very-secret/, 'no value of a setting');
like($all, qr/setting  config\.import\.exclude/, 'but its name');

# two shells at once: every refusal is counted
my @pids = map {
	my $pid = fork;
	if (!$pid) { cowbox('--who', 'mallory', 'write', 'demo:/etc/x', '-p', 'x') for 1 .. 5; POSIX::_exit(0) }
	$pid
} 1 .. 2;
waitpid $_, 0 for @pids;
my $sum = 0;
$sum += $_->{count} for @{json('audit', '--by', 'mallory', '--refused')->{entries}};
is($sum, 10, 'none is lost');

done_testing();
