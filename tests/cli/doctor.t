#!/usr/bin/perl
# doctor: says what works and what does not, changes with the machine, leaves nothing behind.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();

sub checks {
	my ($options, @words) = @_;
	my $r = cowbox('--json', @words, 'doctor', $options);
	my $report = eval { JSON::PP->new->utf8->decode($r->{out}) } || {};
	my %by_name = map { $_->{name} => $_ } @{$report->{checks} || []};
	return ($r, $report, \%by_name);
}

sub left_behind {
	my @found = glob("$world/.cowbox-doctor-* $world/*/.cowbox-doctor-* /tmp/.cowbox-doctor-*");
	return "@found";
}

my ($r, $report, $by) = checks({});
is($r->{status}, 0, 'works without a store');
ok($report->{works}, 'json: works');
is($by->{store}{status}, 'ok', 'a store that is not there yet is fine');
like($by->{store}{what}, qr/not there yet.*cowbox new/, 'and said');
ok(!-e "$world/store", 'and not made');
is($by->{writing}{status}, 'ok', 'journal and locks, tried');
like($by->{version}{what}, qr/cowbox \d\S* with SQLite 3\.\d+\S*, zstd 1\.\S+, PCRE2 10\.\d+ on Linux/, 'versions');
for my $name (qw(filesystem space terminal pager git rg user-namespaces namespaces overlayfs landlock seccomp openat2 cgroups exec-overlay exec-folder exec-weak)) {
	my $check = $by->{$name} || {};
	like($check->{status} || '', qr/\A(ok|warn)\z/, "$name is looked at");
	ok(($check->{status} || '') eq 'ok' || length $check->{fix} || $name eq 'filesystem', "$name: what to do when it is not there");
}
is(left_behind(), '', 'nothing left behind');

cow('new', 'demo');
($r, $report, $by) = checks({});
like($by->{store}{what}, qr/opens: 1 box, 1 step/, 'a store that opens');
my $plain = cow('doctor');
like($plain, qr/^ok    the store '\Q$world\E\/store' opens/m, 'in plain words');
like($plain, qr/\ncowbox works here\.\n\z/, 'the verdict');
is(left_behind(), '', 'nothing left behind');
is(cow('list') =~ /trial/ ? 1 : 0, 0, 'no trial in the store');

# What is wrong with the store is seen.
spill("$world/file", "not a store\n");
($r, $report, $by) = checks({env => {COWBOX_STORE => "$world/file"}});
is($r->{status}, 69, 'a store that is a file: status');
is($by->{store}{status}, 'fail', 'a store that is a file');
like($by->{store}{what}, qr/not a folder/, 'why');
ok(!$report->{works}, 'json: does not work');
is(slurp("$world/file"), "not a store\n", 'the file is as it was');
($r, $report, $by) = checks({}, '--store', "$world/no/such/folder");
is($r->{status}, 69, 'a folder that is not there: status');
like($by->{store}{fix}, qr/mkdir -p/, 'what to do');
ok(!-e "$world/no", 'nothing made');
mkdir "$world/foreign";
spill("$world/foreign/cowbox.db", 'x' x 5000);
($r, $report, $by) = checks({}, '--store', "$world/foreign");
is($by->{store}{status}, 'fail', 'a database that is none') or diag($r->{out});
($r) = cowbox('--store', "$world/no/such/folder", 'doctor');
like($r->{out}, qr/^fail  the folder of the store.*\n      make its folder/m, 'in plain words');
like($r->{out}, qr/The store cannot work here/, 'the verdict');
SKIP: {
	skip lacks('user', 'root may write everywhere'), 2 if $> == 0;
	mkdir "$world/closed", 0500;
	($r, $report, $by) = checks({}, '--store', "$world/closed/store");
	is($r->{status}, 69, 'a folder that is not writable: status');
	is($by->{writing}{status}, 'fail', 'a folder that is not writable');
}
SKIP: {
	skip 'no /proc/sys', 1 unless -d '/proc/sys';
	($r, $report, $by) = checks({}, '--store', '/proc/sys/cowbox-store');
	is($r->{status}, 69, 'a place where nothing can be written');
}
is(left_behind(), '', 'nothing left behind');

# Programs and the terminal.
mkdir "$world/bin";
($r, $report, $by) = checks({env => {PATH => "$world/bin"}});
is($by->{pager}{status}, 'warn', 'no pager in PATH');
like($by->{pager}{fix}, qr/PAGER/, 'what to do');
is($by->{git}{status}, 'warn', 'no git in PATH');
is($r->{status}, 0, 'which is no failure');
spill("$world/bin/$_", "#!/bin/sh\n") and chmod 0755, "$world/bin/$_" for qw(mypager git);
($r, $report, $by) = checks({env => {PATH => "$world/bin", PAGER => 'mypager -x'}});
is($by->{pager}{status}, 'ok', 'a pager with options');
is($by->{git}{status}, 'ok', 'git is there');
like($by->{rg}{what}, qr/no rg/, 'rg is not');
like(pty('TERM=dumb cowbox doctor'), qr/warn.*TERM is dumb/, 'a dumb terminal');
like(pty('TERM=xterm cowbox doctor'), qr/ok.*a terminal \(xterm\)/, 'a terminal');

done_testing();
