#!/usr/bin/perl
# JSON over all commands: the examples are run with --json; every member is documented with its command, times and sizes have one form, and a
# member has one type wherever it occurs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use JSON::PP;

fixture();
my $table = json('help')->{commands};
my %described;
for my $k (@$table) {
	$described{$k->{name}} = $k;
	$described{"$k->{name} $_->{name}"} = $_ for @{$k->{subcommands}};
}
# A command that says "as of X" means the members of X too.
sub words_of {
	my ($name) = @_;
	my $text = $described{$name}{json};
	my @others = grep { $described{$_} } $text =~ /as of (\w+)/g;
	push @others, grep { $described{$_} } map { $described{$_}{json} =~ /as of (\w+)/g } @others;
	$text .= " $described{$_}{json}" for @others;
	return map { $_ => 1 } $text =~ /\b([a-z][a-z0-9_]*)\b/g;
}

# Two things share a word: a list, or in a summary how many there are. Beyond these a member has one type.
my %is_plural = map { $_ => 1 } qw(boxes steps checkpoints files changes forks);
# A program's version is a text, a file's a number; the sides of a diff are states, those of a copy paths; undo names the change it took back, exec
# lists what changed. Of a command usage is how it is called, of a program what it took.
my %has_two = map { $_ => 1 } qw(version from to change changed usage);
my (%type, %where, %undocumented, @wrong);

sub type_of {
	my ($v) = @_;
	return 'null' if !defined $v;
	return ref $v eq 'HASH' ? 'object' : ref $v eq 'ARRAY' ? 'list' : JSON::PP::is_bool($v) ? 'boolean' : encode_json([$v]) =~ /\A\["/ ? 'text' : 'number';
}
sub walk {
	my ($name, $words, $v) = @_;
	if (ref $v eq 'ARRAY') { walk($name, $words, $_) for @$v; return }
	return if ref $v ne 'HASH';
	for my $member (sort keys %$v) {
		my $t = type_of($v->{$member});
		(my $plain = $member) =~ s/_base64\z//;
		push @wrong, "$name: '$member' is no lower_snake_case" if $member !~ /\A[a-z][a-z0-9]*(?:_[a-z0-9]+)*\z/;
		$undocumented{"$name: $member"} = 1 unless $words->{$plain} || ($member eq 'notes' && $name ne 'merge');
		if ($t ne 'null') { $type{$member}{$t} = $where{$member}{$t} = $name }
		my $value = $v->{$member};
		push @wrong, "$name: $member is '$value'"
			if $member =~ /\A(?:[mac]time|time|created|started|ended)\z/ && ($t ne 'text' || $value !~ /\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\z/);
		push @wrong, "$name: $member is '$value'" if $member =~ /(?:\A|_)(?:size|bytes|step)\z/ && ($t ne 'number' || $value !~ /\A\d+\z/);
		push @wrong, "$name: $member is '$value'" if $member =~ /(?:\A|_)mode\z/ && $value !~ /\A[0-7]{4}\z/;
		push @wrong, "$name: $member is '$value'" if $member eq 'type' && $value !~ /\A(?:file|folder|symlink)\z/;
		walk($name, $words, $value);
	}
}

# Besides the examples: what they do not show.
my %more = (
	'kv get' => ['cowbox --json kv get demo plan'],
	'stat' => ['cowbox --json stat demo:/work/a.txt'],
	'info' => ['cowbox --json info try-1'],
	'redo' => ['cowbox undo demo >/dev/null && cowbox --json redo demo'],
	'log' => ['(cowbox undo demo && cowbox redo demo && cowbox merge try-1 --into demo) >/dev/null && cowbox --json log demo --patch', 'cowbox --json log try-1'],
	'grep' => ['cowbox --json grep -l hello demo', 'cowbox --json grep -c hello demo', 'cowbox --json grep -C1 hello demo'],
	'show' => ['cowbox --json show demo@1:/work/a.txt', 'cowbox --json show demo@1:/work', 'cowbox --json show demo@2'],
	'diff' => ['cowbox kv set demo plan x && cowbox mv demo:/work/a.txt demo:/work/b.txt && cowbox --json diff --patch demo@before-refactor demo'],
	'apply' => ['cowbox ln -s /etc/passwd demo:/work/link && cowbox write demo:/work/.envrc x && cowbox --json apply demo --dry-run'],
	'audit' => ['cowbox quota demo --bytes 1; cowbox write demo:/work/x xx; cowbox --json audit'],
	'prune' => ['cowbox --json --yes prune demo --keep 1'],
	'delete' => ['cowbox --json --yes delete demo other'],
	'pack' => ['cowbox --json pack demo -o x.cbx'],
	'export' => ['cowbox --json export demo:/work out'],
	'find' => ['cowbox --json find demo try-1 --name a.txt'],
	'help' => ['cowbox --json help options', 'cowbox --json help exit-codes', 'cowbox --json help checkpoint save'],
	'merge' => ['cowbox --json merge try-1 --into demo --prefer /work/none=demo'],
	'use' => ['cowbox --json use demo'],
);
for my $name (sort keys %described) {
	my $k = $described{$name};
	next if @{$k->{subcommands} || []};
	my %words = words_of($name);
	my $shown = 0;
	for my $example (@{$k->{examples}}, @{$more{$name} || []}) {
		my $line = $example;
		next if $line !~ /--json/ && $line !~ s/(.*)\bcowbox \Q$name\E\b/$1cowbox --json $name/s;
		fixture_again();
		my $r = shell($line);
		my $value = eval { JSON::PP->new->utf8->decode($r->{out}) } or next;
		$shown++;
		walk($name, \%words, $value);
	}
	ok($shown, "$name: seen");
}
is(join("\n", sort keys %undocumented), '', 'every member is documented with its command');
is(join("\n", @wrong), '', 'times, sizes, steps and modes have one form');
for my $member (sort keys %type) {
	next if $is_plural{$member} || $has_two{$member};
	my @types = sort keys %{$type{$member}};
	is(scalar @types, 1, "$member is a " . join ' and a ', map { "$_ ($where{$member}{$_})" } @types) if @types > 1;
}
note(join ' ', sort keys %type);
done_testing();
