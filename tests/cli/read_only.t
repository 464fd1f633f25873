#!/usr/bin/perl
# A store on a read-only filesystem, and one whose owner may not write it: every command that reads says what it said before, every one that
# writes says in one line why it cannot, and nothing of the store is changed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use POSIX ();

# In a mount namespace of its own.
if (!$ENV{COWBOX_TEST_MOUNTS}) {
	$ENV{COWBOX_TEST_MOUNTS} = 1;
	my @how = ('unshare', ($> == 0 ? () : '-Ur'), '-m', '--propagation', 'private');
	if (system(@how, 'true') != 0) {
		BAIL_OUT('no mounts of one\'s own') if must_work();
		plan skip_all => 'no mounts of one\'s own';
	}
	exec @how, $^X, $0 or die;
}

my $world = fixture();
my $store = "$world/store";
script_ok('cowbox use demo');
script_ok('cowbox exec demo -- true') if system('cowbox exec try-1 --discard -- true >/dev/null 2>&1') == 0;

my @reads = (
	'ls demo', 'ls -l demo:/work', 'cat demo:/work/a.txt', 'cat a.txt', 'cat demo@1:/work/a.txt', 'log demo', 'log demo:/work/a.txt', 'diff demo@1', 'diff demo try-1',
	'diff --stat demo@before-refactor demo', 'show demo@1', 'show demo', 'stat demo:/work/a.txt', 'find demo', 'grep hello demo', 'tree demo',
	'export demo -', 'pack demo --no-history >/dev/null', 'pack demo | wc -c', 'blame demo:/work/a.txt', 'stats', 'fsck', 'list', 'info demo', 'kv get plan',
	'kv list', 'tag list a.txt', 'meta get a.txt author', 'checkpoint list demo', 'audit', 'quota demo', 'retention demo', 'use',
	'completion bash', '__complete -- cat demo:', 'apply --dry-run demo', 'backup ../copy && rm -r ../copy',
);
my @writes = (
	'write demo:x y', 'append a.txt y', 'edit a.txt --old hello --new x', 'rm demo:/work/a.txt', 'mv demo:/work/a.txt demo:/work/b', 'mkdir demo:/work/n', 'touch a.txt',
	'chmod 600 a.txt', 'ln demo:/work/a.txt demo:/work/l', 'cp demo:/work/a.txt demo:/work/c', 'tag add a.txt t', 'meta set a.txt k v', 'kv set k v', 'undo demo', 'restore demo@1', 'redo demo',
	'merge try-1 --into demo', 'checkpoint save demo c', 'new x', 'fork demo x', 'rename demo x', 'delete demo --yes', 'import README.md demo:/work/z', 'gc', 'prune demo --keep 1 --yes',
	'quota demo --files 5', 'retention demo --steps 5', 'use other', 'exec demo -- true',
);

# Figures that a second run changes by itself: none of these commands writes, so there should be none.
sub said { my ($line) = @_; my $r = shell("cowbox $line"); return "$r->{status}\n$r->{out}$r->{err}" }
sub picture { return scalar `cd '$store' && find . -type f ! -path './work/*' -exec sha256sum {} + | sort; ls -lR --time-style=full-iso .` }

# What the last one left beside the database: a log as a killed one leaves it, with and without its index, or nothing.
system('cp', '-a', $store, "$world/whole") == 0 or die;
sub leave {
	my ($what) = @_;
	system("rm -rf '$store' && cp -a '$world/whole' '$store'") == 0 or die;
	unlink "$store/cowbox.db-shm" if $what eq 'a log without its index';
	return 1 if $what ne 'neither';
	# Folded in by SQLite itself.
	system("sqlite3 '$store/cowbox.db' 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null 2>&1") == 0 or return 0;
	unlink "$store/cowbox.db-wal", "$store/cowbox.db-shm";
	return 1;
}

# doctor knows it too: what can be done here, and what to do.
sub doctor_wrong {
	my ($why) = @_;
	my $r = shell('cowbox doctor');
	my $json = shell('cowbox --json doctor');
	my $wrong = '';
	$wrong .= "status $r->{status}\n" if $r->{status} != 77 || $json->{status} != 77;
	$wrong .= "not said: $r->{out}" unless $r->{out} =~ /^ok    the store '[^']*' opens for reading: \d+ box/m && $r->{out} =~ /^fail  the store cannot be written: $why\n      'cowbox backup FOLDER'/m
		&& $r->{out} =~ /\nThe store can be read here, and not written: [^\n]*\n\z/;
	$wrong .= "words of C: $r->{out}" if $r->{out} =~ /read_only/;
	$wrong .= "json: $json->{out}" unless $json->{out} =~ /"works":false,"readable":true}/;
	return $wrong;
}

# What is wrong; '': nothing.
sub wrong {
	my ($before, $why) = @_;
	my $picture = picture();
	my $wrong = '';
	for (@reads) {
		my $now = said($_);
		$wrong .= "cowbox $_: $now, before: $before->{$_}\n" if $now ne $before->{$_};
	}
	for (@writes) {
		my $r = shell("cowbox $_");
		my $status = /^exec/ ? 125 : 77;
		$wrong .= "cowbox $_: status $r->{status}: $r->{err}\n" unless $r->{status} == $status && $r->{err} =~ /\A[^\n]+\n\z/ && $r->{err} =~ $why;
	}
	$wrong .= doctor_wrong($why eq qr/read-only filesystem/ ? qr/it is on a read-only filesystem/ : qr/its rights keep you from it/);
	$wrong .= "the store changed\n" if picture() ne $picture;
	return $wrong;
}

for my $what ('log and index', 'a log without its index', 'neither') {
	leave($what) or next;
	my %before = map { $_ => said($_) } @reads;
	leave($what); # a command that reads may have made the index
	for (@reads) { like($before{$_}, qr/\A0\n/, "cowbox $_") if $what eq 'log and index' }
	system("mount --bind '$store' '$store' && mount -o remount,bind,ro '$store'") == 0 or BAIL_OUT('mounting');
	is(wrong(\%before, qr/read-only filesystem/), '', "$what, read-only filesystem");
	system("umount -l '$store'") == 0 or die;
	next if $> != 0; # in a user namespace we are root, whom rights do not hold
	system("chown -R 12345:12345 '$world' && chmod 755 '$world' && chmod -R a-w '$store'") == 0 or die;
	my $pid = fork;
	if (!$pid) {
		$) = '12345 12345';
		$( = 12345;
		($<, $>) = (12345, 12345);
		spill("$world/wrong", wrong(\%before, qr/cannot be written by you/));
		POSIX::_exit(0);
	}
	waitpid $pid, 0;
	is(slurp("$world/wrong"), '', "$what, without the right to write");
	system("chown -R 0:0 '$world' && chmod -R u+w '$store'") == 0 or die;
}
done_testing();
