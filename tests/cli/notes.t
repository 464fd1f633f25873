#!/usr/bin/perl
# What a command says on standard error without --json is in "notes" with it, line for line; nothing is in only one of them.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use JSON::PP;

# The same command in the same world, twice. Lines of the error itself are not notes.
sub alike {
	my ($line, $pattern) = @_;
	fixture_again();
	my $plain = shell($line);
	fixture_again();
	(my $asked = $line) =~ s/(.*)\bcowbox /$1cowbox --json /s;
	my $r = shell($asked);
	my $value = eval { JSON::PP->new->utf8->decode($r->{out}) } || {};
	my $said = join '', map { "cowbox: $_\n" } @{$value->{notes} || []};
	is($said, $plain->{err}, "$line: notes are what is said");
	like($said, $pattern, "$line: and it is said");
	is($r->{status}, $plain->{status}, "$line: the status is the same");
	is($r->{err}, '', "$line: nothing else on standard error");
}

fixture();
subtest 'notes are what is said' => sub { alike(@$_) for (
	['cowbox merge try-1 --into demo >/dev/null; cowbox merge try-1 --into demo', qr/nothing to merge/],
	['cowbox fork demo same; cowbox merge same --into demo --dry-run', qr/nothing to merge/],
	['cowbox merge try-1 --into demo --prefer /work/none=demo --dry-run', qr/there is no conflict/],
	['cowbox new n; cowbox write n:a x; cowbox restore n@1', qr/so already/],
	['cowbox quota demo --bytes 1', qr/holds more than that already/],
	['cd / && cowbox use', qr/no box is chosen/],
	['cowbox use other', qr/still meant/],
	['cowbox --store bare new a; cowbox --store bare delete a --yes; cowbox --store bare list', qr/no boxes yet/],
	['cowbox write other:/tmp/x x; cowbox diff other@0 other', qr/1 change in .* left out/],
	['cowbox log demo --kind bogus', qr/no step of kind 'bogus'/],
	['cowbox undo demo -n 99', qr/nothing more to undo after/],
	['cowbox prune demo --keep 2 --yes >/dev/null 2>&1; cowbox show demo@-1', qr/was pruned/],
	['cowbox prune demo --keep 2 --yes', qr/room comes back/],
	['head -c 300 /dev/zero | cowbox write other:z; cowbox rm other:z; cowbox gc', qr/stays until that step is pruned/],
	['mkfifo fifo; cowbox import . other', qr/fifo: left out/],
	['cowbox prune demo --keep 1 --yes >/dev/null 2>&1; cowbox undo demo -n 9', qr/after 1: .*pruned/],
) };
done_testing();
