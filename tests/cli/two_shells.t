#!/usr/bin/perl
# Two shells at work in one box, with all kinds of commands: nothing that was acknowledged is lost, and the store stays whole.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $seed = seed_random();
my $world = fixture();
cow('write', 'demo:/work/shared.log', '--exact', '');
cow('mkdir', 'demo:/work/one');
cow('mkdir', 'demo:/work/two');

my $rounds = dose(25);

# One shell: each command's effect is written down once it was acknowledged, and checked at the end.
sub work {
	my ($me) = @_;
	srand $seed + ($me eq 'one' ? 1 : 2);
	my (%file, %kv, @lines, @problems);
	my $run = sub {
		my $r = cowbox('--who', $me, @_);
		push @problems, "@_: $r->{status} $r->{err}" if $r->{status} && !grep { $r->{status} == $_ } 1, 75;
		return $r->{status} == 0;
	};
	for my $n (1 .. $rounds) {
		my $path = "/work/$me/" . int rand 6;
		my $kind = pick(qw(write append edit kv mv rm mkdir tag fork checkpoint read read maintain));
		if ($kind eq 'write') { $file{$path} = "$me $n\n" if $run->('write', "demo:$path", "$me $n") }
		elsif ($kind eq 'append') { push @lines, "$me $n" if $run->('append', 'demo:/work/shared.log', "$me $n") }
		elsif ($kind eq 'edit' && defined $file{$path}) {
			$file{$path} = "edited $n\n" if $run->('edit', "demo:$path", '--old', $file{$path}, '--new', "edited $n\n");
		}
		elsif ($kind eq 'kv') { $kv{"$me-" . $n % 3} = $n if $run->('kv', 'set', 'demo', "$me-" . $n % 3, $n) }
		elsif ($kind eq 'mv' && defined $file{$path}) {
			my $to = "/work/$me/moved-" . int rand 3;
			$file{$to} = delete $file{$path} if $run->('mv', "demo:$path", "demo:$to");
		}
		elsif ($kind eq 'rm' && defined $file{$path}) { delete $file{$path} if $run->('rm', "demo:$path") }
		elsif ($kind eq 'mkdir') { $run->('mkdir', '-p', "demo:/work/$me/folder-$n/deep") }
		elsif ($kind eq 'tag' && defined $file{$path}) { $run->('tag', 'add', "demo:$path", "tag-$n") }
		elsif ($kind eq 'fork') {
			my $to = "/work/$me/merged-$n";
			$run->('fork', 'demo', "$me-$n") or next;
			$run->('write', "$me-$n:$to", "merged $n") or next;
			$file{$to} = "merged $n\n" if $run->('merge', "$me-$n", '--into', 'demo');
			$run->('delete', "$me-$n", '--yes');
		}
		elsif ($kind eq 'checkpoint') { $run->('checkpoint', 'save', 'demo', "$me-$n") }
		elsif ($kind eq 'read') { $run->(@{pick(['log', 'demo'], ['tree', 'demo'], ['diff', 'demo@-1', 'demo'], ['grep', '.', 'demo'], ['list'], ['audit'])}) }
		elsif ($kind eq 'maintain') { $run->(@{pick(['gc'], ['stats'], ['fsck'], ['find', 'demo'])}) }
	}
	return {file => \%file, kv => \%kv, lines => \@lines, problems => \@problems};
}

my %pid;
for my $me (qw(one two)) {
	my $pid = fork;
	if (!$pid) {
		my $done = eval { work($me) } || {problems => ["died: $@"]};
		spill("$world/$me.json", JSON::PP->new->utf8->encode($done));
		POSIX::_exit(0);
	}
	$pid{$me} = $pid;
}
waitpid $_, 0 for values %pid;

my $shared = cow('cat', 'demo:/work/shared.log');
my $count = 0;
for my $me (qw(one two)) {
	my $done = JSON::PP->new->utf8->decode(slurp("$world/$me.json"));
	is("@{$done->{problems}}", '', "$me: no command failed");
	my @lost = grep { cowbox('cat', "demo:$_")->{out} ne $done->{file}{$_} } sort keys %{$done->{file}};
	is("@lost", '', "$me: every file is as it was left") or diag($done->{file}{$lost[0]}, cowbox('cat', "demo:$lost[0]")->{out});
	is(cow('kv', 'get', 'demo', $_) =~ s/\n\z//r, $done->{kv}{$_}, "$me: the key $_") for sort keys %{$done->{kv}};
	my @own = grep { /^$me / } split /\n/, $shared;
	is_deeply(\@own, $done->{lines}, "$me: its lines in the shared file, in order");
	$count += @own;
	ok(!%{$done->{file}} || (grep { $_->{who} eq $me } @{json('log', 'demo')->{steps}}), "$me: its steps are recorded for it");
}
is(scalar(split /\n/, $shared), $count, 'no line of nobody');
cow('fsck', {notes => 1});
done_testing();
