#!/usr/bin/perl
# A disk that fails, and a bound on the size of files: one error, one line, and never an end by a signal.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:/work/w', {in => "one\n"});
cow('write', 'demo:/work/w', {in => "one\ntwo\n"});

subtest 'a bound on the size of files' => sub {
	spill('big', 'x' x 500_000);
	my $r = shell('ulimit -f 40; exec cowbox cp big demo:/work/big');
	isnt($r->{status}, 0, 'it fails');
	cmp_ok($r->{status}, '<', 128, 'and is not ended by SIGXFSZ');
	like($r->{err}, qr/\Acowbox: [^\n]+\n\z/, 'one line');
	is(cow('cat', 'demo:/work/w'), "one\ntwo\n", 'the box is as it was');
	for my $kib (4, 10, 40, 100, 400) {
		for my $size (10, 30_000, 500_000) {
			spill('some', 'x' x $size);
			my $r = shell("ulimit -f $kib; exec cowbox cp some demo:/work/some");
			next if $r->{status} == 0;
			like($r->{err}, qr/\Acowbox: [^\n]+ulimit -f[^\n]*\n\z/, "$size bytes with $kib KiB: told as the limit it is");
			unlike($r->{err}, qr/disk fails|make room/, 'and not as a disk that fails');
		}
		is(shell("ulimit -f $kib; exec cowbox cat demo:/work/w")->{out}, "one\ntwo\n", 'what is there can be read');
	}
};

subtest 'reads that fail' => sub {
	local $ENV{ASAN_OPTIONS} = 'detect_leaks=0'; # leaks cannot be looked for under strace
	my $strace = `sh -c 'command -v strace'`;
	plan skip_all => 'no strace' if !$strace && !must_work();
	plan skip_all => 'strace cannot trace here' if system('strace -o /dev/null true >/dev/null 2>&1') != 0;
	my $reads = () = shell('strace -e trace=pread64 cowbox blame demo:/work/w')->{err} =~ /^pread64/mg;
	cmp_ok($reads, '>', 10, 'there are reads');
	for my $n (1 .. $reads) {
		my $r = shell("strace -o /dev/null -e inject=pread64:error=EIO:when=$n+ cowbox blame demo:/work/w");
		next if $r->{status} == 0 && $r->{err} eq '';
		ok($r->{status} != 0 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, "from read $n on: one line") or diag("$r->{status} $r->{err}");
		unlike($r->{err}, qr/interrupted program/, 'and nothing of a program that never ran');
	}
};

done_testing();
