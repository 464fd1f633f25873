#!/usr/bin/perl
# The shell blocks of the documents run as they stand, one after the other, wherever they are pasted, and leave what is there alone; the tour runs
# to its end.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

sub project {
	world();
	mkdir 'src';
	spill('a.txt', "hello\nworld\n");
	spill('src/main.c', "int main(void)\n{\n\treturn 0;\n}\n");
	spill('README.md', "# A project\n");
}

for my $document ('README.md', 'docs/concepts.md', 'docs/agents.md') {
	subtest "blocks of $document" => sub {
		project();
		# Files and boxes of the user that happen to have the names of the page.
		spill($_, "mine\n") for qw(greeting.txt main.c list.txt answer.txt copy-of-a.txt demo.cowbox task-17.cowbox plan.md);
		mkdir 'out';
		cow('new', $_, '--from', '.') for qw(demo task-17);
		cow('write', "$_:greeting.txt", 'of the box') for qw(demo task-17);
		mkdir '../temporary';
		my $picture = sub { scalar(`find . | sort; find . -type f -exec sha256sum {} + | sort`) . cow('list') . cow('log', 'demo') . cow('log', 'task-17') };
		my $before = $picture->();
		my @blocks = slurp(root_of() . "/$document") =~ /^```sh\n(.*?)^```$/msg;
		ok(@blocks >= 3, 'there are some');
		# Lines are told before they run, so that a failure names its line.
		my $r = shell("set -eu\nPS4='+ '\nset -x\nexport TMPDIR=\"\$PWD/../temporary\"\n" . join('', @blocks) . "cowbox fsck\n");
		is($r->{status}, 0, 'they run to the end') or diag(substr $r->{err}, -1500);
		my @failed = grep { /^cowbox: / } split /\n/, $r->{err};
		note($_) for @failed;
		is($picture->(), $before, 'what was there is as it was');
	};
}

# A block that is pasted where the first one was not, or failed, does nothing: line by line, as a person's shell takes them.
subtest 'blocks without the first' => sub {
	for my $document ('README.md', 'docs/concepts.md', 'docs/agents.md') {
		project();
		spill($_, "mine\n") for qw(greeting.txt demo.cowbox task-17.cowbox);
		cow('new', $_, '--from', '.') for qw(demo task-17);
		my $picture = sub { scalar(`find . | sort; find . -type f -exec sha256sum {} + | sort`) . cow('list') . cow('log', 'demo') . cow('log', 'task-17') };
		my $before = $picture->();
		my (undef, @blocks) = slurp(root_of() . "/$document") =~ /^```sh\n(.*?)^```$/msg;
		spill('../pasted', join '', @blocks);
		for my $unset ('unset try', 'try=') {
			my $r = shell("$unset; bash --norc --noprofile -i <../pasted");
			like($r->{err}, qr/try: parameter null or not set/, "$document, $unset: it says why");
			is($picture->(), $before, "$document, $unset: and does nothing");
		}
	}
};

# Every line of a block that begins with cowbox names a command of the table, also in blocks that are not run.
subtest 'commands in the documents exist' => sub {
	my %has = map { $_->{name} => 1 } @{json('help')->{commands}};
	for my $document ('README.md', 'docs/concepts.md', 'docs/agents.md', 'ARCHITECTURE.md', 'HACKING.md', 'SECURITY.md') {
		my $text = slurp(root_of() . "/$document");
		my %named = map { $_ => 1 } $text =~ /(?:^|`|\s)cowbox ([a-z]+)(?=[\s`])/mg;
		delete @named{qw(is keeps does on from and has can stores it in to)};
		is(join(' ', grep { !$has{$_} } sort keys %named), '', $document);
	}
};

subtest 'the tour' => sub {
	project();
	mkdir 'temporary';
	my $tour = root_of() . '/examples/tour.sh';
	my $r = shell("TMPDIR=\"\$PWD/temporary\" sh '$tour' </dev/null");
	is($r->{status}, 0, 'it runs to the end') or diag(substr($r->{out}, -1500) . $r->{err});
	is($r->{err}, '', 'without a complaint');
	unlike($r->{out}, qr/\e/, 'plain off a terminal');
	my @shown = $r->{out} =~ /^\$ .*?cowbox (?:--who \S+ )?([a-z]+)/mg;
	my %shown = map { $_ => 1 } @shown;
	ok($shown{$_}, "it shows $_") for qw(new write edit rm log diff undo fork merge blame checkpoint restore apply pack unpack audit);
	is(join(' ', glob 'temporary/* temporary/.??*'), '', 'it leaves nothing behind') or diag(`find temporary`);
	ok(!-e "$ENV{HOME}/.local" && !-e $ENV{COWBOX_STORE}, 'and touches no store of the user');
	is(shell("sh '$tour' --nonsense")->{status}, 2, 'a wrong option is 2');
	# Ctrl-C in the middle cleans up as well.
	$r = shell("TMPDIR=\"\$PWD/temporary\" timeout -s INT 0.3 sh '$tour' >/dev/null");
	is(join(' ', glob 'temporary/*'), '', 'interrupted it leaves nothing behind either');
};

done_testing();
