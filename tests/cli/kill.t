#!/usr/bin/perl
# kill -9 at random moments of every command that changes something: afterwards the store opens, fsck is clean, and what the command does is
# there whole or not at all.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use Time::HiRes qw(sleep);

seed_random();
my $world = fixture();
# For redo, unpack and tar streams.
script_ok('cowbox pack demo >../demo.pack && cowbox export demo:/work - >../demo.tar && cowbox write other:/work/x one && cowbox undo other && tar -cf ../host.tar a.txt');
system('mkdir', '-p', 'more');
spill("more/file-$_", "$_\n" x 50) for 1 .. 40;
system("rm -rf '$world/pristine' && mkdir '$world/pristine' && cp -a '$world/store' '$world/folder' '$world/pristine'") == 0 or die;

# A kill leaves the configuration whole as well: fixture_again() leaves it alone, so it is put back here.
my $config = "# mine\ncolor = never\ndiff.context = 3\n";
sub again {
	fixture_again();
	system('mkdir', '-p', "$ENV{HOME}/.config/cowbox") == 0 or die;
	spill("$ENV{HOME}/.config/cowbox/config", $config);
	system('rm', '-rf', "$world/out");
	mkdir "$world/out" or die;
}
again();

# Lines that change the store. A list of states in between: the command is two steps, and says so.
my @lines = (
	['cowbox new fresh'],
	['cowbox new fresh --from more'],
	['cowbox use demo'],
	['cowbox rename other another'],
	['cowbox delete other --yes'],
	['cowbox fork demo fresh'],
	['cowbox write demo:/work/a.txt changed'],
	['cowbox write demo:/work/new/deep/a.txt --parents changed'],
	['cowbox write demo:/work/big --file ../demo.tar'],
	['cowbox append demo:/work/a.txt more'],
	['cowbox edit demo:/work/a.txt --old hello --new goodbye'],
	['cowbox cp demo:/work/src demo:/work/copy -r'],
	['cowbox cp -r more demo:/work/more'],
	['cowbox mv demo:/work/src demo:/work/moved'],
	['cowbox rm -r demo:/work/src'],
	['cowbox mkdir -p demo:/work/x/y/z'],
	['cowbox touch demo:/work/touched'],
	['cowbox ln -s a.txt demo:/work/link'],
	['cowbox chmod 600 demo:/work/a.txt'],
	['cowbox tag add demo:/work/a.txt fine'],
	['cowbox tag remove demo:/work/a.txt draft'],
	['cowbox meta set demo:/work/a.txt k v'],
	['cowbox meta remove demo:/work/a.txt author'],
	['cowbox kv set demo key value'],
	['cowbox kv delete demo plan'],
	['cowbox restore demo@1'],
	['cowbox undo demo'],
	['cowbox redo other'],
	['cowbox checkpoint save demo named'],
	['cowbox checkpoint delete demo before-refactor'],
	['cowbox merge try-1 --into demo'],
	['cowbox import more demo:/work/more'],
	['cowbox import - demo:/work/tar <../host.tar'],
	['cowbox apply demo', 'cowbox apply demo a.txt'],
	['cowbox unpack ../demo.pack fresh'],
	['cowbox quota demo --bytes 10M'],
	['cowbox retention demo --steps 100'],
	['cowbox prune demo --keep 1 --yes'],
	['cowbox gc'],
	['cowbox config set diff.context 5 --for demo'],
	['cowbox config unset diff.context --for demo'],
	['cowbox new fresh --from more --use', 'cowbox new fresh --from more'],
	['cowbox config set diff.context 7'],
	['cowbox config unset color'],
);

# Everything that a user sees of the store but times and numbers that differ between runs.
my $look = <<'END';
boxes=$(cowbox list --json | grep -o '"name":"[^"]*"' | cut -d '"' -f 4)
for box in $boxes; do
	echo "== $box"
	cowbox info $box --json | sed -E 's/"(id|state)":[0-9]+|"created":"[^"]*"//g'
	cowbox log $box --json | grep -o '"\(step\|kind\)":[^,}]*'
	cowbox grep -n '' $box:/
	cowbox find $box:/
done 2>&1
cd /
cowbox use
cowbox kv list demo
cowbox checkpoint list demo --json | sed 's/"created":"[^"]*"//g'
cowbox stat demo:/work/a.txt --json | sed -E 's/"(ino|version)":[0-9]+|"[mca]time":"[^"]*"//g'
cowbox config get diff.context --for demo
cat "$HOME/.config/cowbox/config"
END
sub state_now { return shell($look)->{out} }

# Runs a line and kills it at some moment; true when it was faster.
sub killed {
	my ($line) = @_;
	my $pid = fork;
	if (!$pid) {
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		exec 'sh', '-c', "exec $line" or POSIX::_exit(99);
	}
	sleep(rand(0.03));
	kill 'KILL', $pid;
	waitpid $pid, 0;
	return $? == 0;
}

# Prune takes steps in batches, each a transaction: a part of them may be gone, and nothing else.
sub without_steps {
	return join "\n", grep { !/\A"(?:step|kind)":/ } split /\n/, $_[0];
}

sub is_partly_pruned {
	my ($line, $now, $after) = @_;
	return $line =~ /\bprune\b/ && without_steps($now) eq without_steps($after);
}

# A look at the whole store takes longer than any command: a run tries an eighth of them, drawn by the seed, so that some commits try them all.
my $rounds = soak();
sub some_of {
	my @left = @_;
	return @left if $rounds > 1;
	return map { splice @left, int rand @left, 1 } 1 .. (@_ + 7) / 8;
}
my $before = state_now();
for (some_of(@lines)) {
	my ($line, @between) = @$_;
	my %allowed = ($before => 1);
	for my $whole (@between, $line) {
		again();
		my $r = shell($whole);
		is($r->{status}, 0, $whole) or diag($r->{err});
		$allowed{$whole eq $line ? 'after' : $whole} = state_now();
	}
	my $after = $allowed{after};
	my %is_allowed = ($before => 'before', map { $allowed{$_} => $_ } grep { $_ ne $before } keys %allowed);
	my ($wrong, $seen) = ('', '');
	for (1 .. $rounds) {
		again();
		my $acknowledged = killed($line);
		my $fsck = cowbox('fsck');
		$wrong ||= "fsck: $fsck->{status} $fsck->{out}$fsck->{err}" if $fsck->{status};
		my $now = state_now();
		$wrong ||= "half of it is there:\n$now\nbefore:\n$before\nafter:\n$after" unless $is_allowed{$now} || is_partly_pruned($line, $now, $after);
		$wrong ||= "acknowledged, but not there:\n$now\nwanted:\n$after" if $acknowledged && $now ne $after;
		$seen .= $acknowledged ? 'a' : $now eq $after ? 'A' : 'b';
	}
	is($wrong, '', "killed: $line ($seen)");
}

# Lines that write to the host: whatever has its final name is whole, nothing in the store changed, and the same line, or the one that takes
# over what is there, ends the work. What a kill leaves beside has a name that says so, and goes with the next.
my @host_lines = (
	['cowbox cp demo:/work/src/main.c ../out/main.c', 'cowbox cp demo:/work/src/main.c ../out/main.c'],
	['cowbox cp -r demo:/work/more ../out/tree', 'rm -rf ../out/tree && cowbox cp -r demo:/work/more ../out/tree'],
	['cowbox export demo:/work ../out/tree', 'cowbox export demo:/work ../out/tree --overwrite'],
	['cowbox export demo:/work/README.md ../out/README.md', 'cowbox export demo:/work/README.md ../out/README.md --overwrite'],
	['cowbox pack demo -o ../out/demo.cbx', 'cowbox pack demo -o ../out/demo.cbx --force'],
	['cowbox pack demo --no-history --force -o ../out/demo.cbx', 'cowbox pack demo --no-history --force -o ../out/demo.cbx'],
	['cowbox backup ../out/copy', 'cowbox backup ../out/copy-2'],
);
# {path => content} of all files below out, those with names of unfinished ones left out.
sub host_files {
	my %seen;
	for (split /\0/, `cd '$world/out' && find . -type f -print0`) {
		$seen{$_} = slurp("$world/out/$_") unless m{/\.cowbox-tmp-};
	}
	return \%seen;
}
again(); # whichever line was the last to be drawn
script_ok('cowbox import more demo:/work/more');
system("rm -rf '$world/pristine/store' && cp -a '$world/store' '$world/pristine/store'") == 0 or die;
for (some_of(@host_lines)) {
	my ($line, $retry) = @$_;
	again();
	script_ok($line);
	my $whole = host_files();
	ok(scalar keys %$whole, "$line writes something");
	my ($wrong, $seen) = ('', '');
	for (1 .. $rounds * 4) {
		again();
		my $unchanged = state_now();
		my $acknowledged = killed($line);
		my $now = host_files();
		if ($line =~ /backup/) {
			my $r = -e "$world/out/copy" ? cowbox('--store', "$world/out/copy", 'fsck') : {status => 0};
			$wrong ||= "half a store: $r->{out}$r->{err}" if $r->{status};
		} elsif ($line =~ /no-history/) { # its time differs
			my $r = %$now ? cowbox('--store', "$world/out/store", 'unpack', '../out/demo.cbx') : {status => 0};
			$wrong ||= "half a pack: $r->{err}" if $r->{status};
		} else {
			for (sort keys %$now) {
				$wrong ||= "'$_' is none of its files" unless exists $whole->{$_};
				$wrong ||= "half of '$_'" unless $now->{$_} eq ($whole->{$_} // '');
			}
		}
		$wrong ||= 'acknowledged, but not there' if $acknowledged && keys %$now != keys %$whole;
		$wrong ||= 'the store changed' if state_now() ne $unchanged && $line !~ /pack|backup/;
		my $r = shell($retry);
		$wrong ||= "again: $r->{err}" if $r->{status};
		$wrong ||= 'again, but not all there' if keys %{host_files()} < keys %$whole;
		my $left = `cd '$world/out' && find . -name '.cowbox-tmp-*'`;
		$wrong ||= "left by the one that was killed: $left" if $left;
		$seen .= $acknowledged ? 'a' : %$now ? 'p' : '-';
	}
	is($wrong, '', "killed: $line ($seen)");
}

# A kill in the middle of a long import: no box, and the same command then makes it.
subtest 'a long import' => sub {
	again();
	mkdir "$world/out/many";
	spill("$world/out/many/$_", "$_\n" x 2000) for 1 .. 1500;
	my $line = 'cowbox new fresh --from ../out/many';
	for (1 .. $rounds) {
		last if killed($line);
		is(cowbox('info', 'fresh')->{status}, 4, 'no box');
		my $r = shell($line);
		is($r->{status}, 0, 'the same command again') or diag($r->{err});
		is(json('info', 'fresh')->{files}, 1504, 'and it is whole');
		cow('delete', 'fresh', '--yes', {notes => 1});
	}
	cow('gc');
	is(cow('fsck'), "the store is sound\n", 'and gc takes what was begun');
};
done_testing();
