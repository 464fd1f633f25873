#!/usr/bin/perl
# Every command of the table: it is described whole, its examples run as printed, and its JSON is one object of documented members.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use JSON::PP;

my $world = fixture();
my $table = json('help')->{commands};

# [words, description]: a command with subcommands stands for these.
sub runnable {
	my ($command, @parents) = @_;
	my @words = (@parents, $command->{name});
	return [[@words], $command] unless @{$command->{subcommands}};
	return map { runnable($_, @words) } @{$command->{subcommands}};
}
my @all = map { runnable($_) } @$table;

subtest 'every command the project promises is there' => sub {
	my %has = map { $_->{name} => 1 } @$table;
	ok($has{$_}, $_) for qw(new list use info rename delete fork ls cat write append edit cp mv rm mkdir touch ln chmod tree stat find grep tag
		meta kv log show diff restore undo redo checkpoint merge blame import export apply pack unpack stats quota retention prune gc fsck backup
		audit doctor config completion help);
};

subtest 'every command is described whole' => sub {
	for (@all) {
		my ($words, $k) = @$_;
		my $name = "@$words";
		ok($k->{summary} =~ /\A[^\n]+[^.\n]\z/, "$name: summary") or diag($k->{summary});
		ok(@{$k->{examples}} > 0, "$name: an example");
		ok(length($k->{json} || ''), "$name: the shape of its JSON");
		ok($_->{help} =~ m{\A[^\n]+(?:[^.\n]|\.\.\.)\z}, "$name: help of $_->{name}") for @{$k->{options}}, @{$k->{operands}};
		my %seen;
		ok(!$seen{$_}++, "$name: -$_ once") for grep { defined } map { $_->{letter} } @{$k->{options}};
		my $help = cow(@$words, '--help');
		like($help, qr/\Q$_\E/, "$name --help: $_") for $k->{summary}, $k->{usage}, map("--$_->{name}", @{$k->{options}}), @{$k->{examples}};
		is(cow('help', @$words), $help, "help $name is the same");
	}
	ok((grep { length $_->{summary} } @$table) == @$table, 'commands with subcommands have a summary');
};

sub json_object {
	my ($text) = @_;
	my $value = eval { JSON::PP->new->utf8->decode($text) };
	return ref $value eq 'HASH' && $text =~ /\A[^\n]*\n\z/ ? $value : undef;
}

for (@all) {
	my ($words, $k) = @$_;
	subtest "examples of @$words" => sub {
		for my $line (@{$k->{examples}}) {
			fixture_again();
			script_ok($line, $line);
			like($line, qr/\bcowbox\b.*\b\Q$words->[-1]\E\b|\bcowbox (?:[^|;&]* )?\Q$words->[0]\E\b/, 'it shows its command');
			# One call of cowbox, without pipes and redirections.
			next if $line !~ /\Acowbox / || $line =~ /[|;&<>`]|\$\(/;
			fixture_again();
			(my $with = $line) =~ s/\Acowbox/cowbox --json/;
			my $object = json_object(script_ok($with, $with));
			ok($object, 'exactly one JSON object, on a line') or next;
			my @unknown = grep { $k->{json} !~ /(?<![\w-])\Q$_\E(?![\w-])/ } grep { $_ ne 'notes' } sort keys %$object;
			is("@unknown", '', 'all of its members are documented');
			ok(!(grep { !/\A[a-z][a-z0-9_]*\z/ } keys %$object), 'names are lower_snake_case');
		}
	};
}
fixture_again();

done_testing();
