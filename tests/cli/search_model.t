#!/usr/bin/perl
# find against a plain model over random trees and criteria; grep against GNU grep -E over random texts and patterns.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

seed_random();
my $rounds = dose(40);
$ENV{LC_ALL} = 'C';
world();

# ---- a random tree: path => {type, size, mtime}; the host folder has it too ----
my %tree = ('/work' => {type => 'd', size => 0});
sub grow {
	my ($host, $path, $depth) = @_;
	mkdir $host;
	for (1 .. 2 + int rand 5) {
		my $name = pick('a', 'b', 'A', 'x.c', 'y.c', 'z.txt', 'Make', "new\nline", '.hidden', "\xff", 'long' . int rand 100);
		my ($h, $p) = ("$host/$name", "$path/$name");
		next if $tree{$p};
		my $kind = rand;
		if ($depth < 4 && $kind < 0.35) {
			$tree{$p} = {type => 'd', size => 0};
			grow($h, $p, $depth + 1);
		} elsif ($kind < 0.45) {
			symlink 'a' x (1 + int rand 20), $h or die;
			$tree{$p} = {type => 'l', size => length readlink $h};
		} else {
			spill($h, 'x' x pick(0, 0, 1, 5, 1023, 1024, 1025, 5000));
			my $age = pick(0, 1000, 100_000, 10_000_000);
			utime time, time - $age, $h;
			$tree{$p} = {type => 'f', size => -s $h, age => $age};
		}
	}
}
grow('tree', '/work', 0);
cow('new', 'demo', '--from', 'tree');
for my $path (sort grep { $tree{$_}{type} ne 'l' && $_ ne '/work' } keys %tree) { # tags follow links
	next if rand > 0.3;
	my ($tag, $value) = (pick(qw(red blue)), pick(qw(1 2)));
	cow('tag', 'add', "demo:$path", $tag, {name => 'tag'});
	cow('meta', 'set', "demo:$path", 'level', $value, {name => 'meta'});
	$tree{$path}{tag} = $tag;
	$tree{$path}{level} = $value;
}

# Each gives [words, test of (path, entry)].
sub glob_test {
	my ($glob, $fold) = @_;
	my $pattern = join '', map { $_ eq '*' ? '.*' : $_ eq '?' ? '.' : quotemeta } split //, $glob;
	return $fold ? qr/\A$pattern\z/si : qr/\A$pattern\z/s;
}
my @criteria = (
	sub { my $g = pick('*.c', 'a', '?', '*', 'x*', 'long*', '*i*'); my $r = glob_test($g); [['--name', $g], sub { ($_[0] =~ m{([^/]*)\z})[0] =~ $r }] },
	sub { my $g = pick('a', 'MAKE', '*.C'); my $r = glob_test($g, 1); [['--iname', $g], sub { ($_[0] =~ m{([^/]*)\z})[0] =~ $r }] },
	sub { my $t = pick(qw(f d l)); [['--type', $t], sub { $_[1]{type} eq $t }] },
	sub { my $n = pick(0, 1, 5, 1024, 5000); [['--size', "+$n"], sub { $_[1]{type} ne 'd' && $_[1]{size} >= $n }] },
	sub { my $n = pick(0, 1, 1024); [["--size=-$n"], sub { $_[1]{type} ne 'd' && $_[1]{size} <= $n }] },
	sub { my $n = pick(0, 5, 1025); [['--size', $n], sub { $_[1]{type} ne 'd' && $_[1]{size} == $n }] },
	sub { my $t = pick(qw(red blue)); [['--tag', $t], sub { ($_[1]{tag} || '') eq $t }] },
	sub { my $v = pick(qw(1 2)); [['--meta', "level=$v"], sub { ($_[1]{level} || '') eq $v }] },
	sub { [['--meta', 'level'], sub { defined $_[1]{level} }] },
	sub { my $n = 1 + int rand 3; [['--max-depth', $n], sub { ($_[0] =~ tr{/}{}) - 1 <= $n }] },
	sub { my $s = pick(500, 50_000, 1_000_000); [['--type', 'f', '--older', "${s}s"], sub { $_[1]{type} eq 'f' && $_[1]{age} > $s }] },
	sub { my $s = pick(500, 50_000, 1_000_000); [['--type', 'f', '--newer', "${s}s"], sub { $_[1]{type} eq 'f' && $_[1]{age} < $s }] },
	sub { [['--empty'], sub { my ($p, $e) = @_; $e->{type} eq 'f' ? $e->{size} == 0 : $e->{type} eq 'd' && !grep { m{\A\Q$p\E/} } keys %tree }] },
);
subtest 'find' => sub {
	for (1 .. $rounds) {
		# An option is given once only, since its last value would hold, and of --name and --iname one.
		my (@words, @tests, %used);
		for (1 .. 1 + int rand 3) {
			my $i = int rand @criteria;
			my ($w, $t) = @{$criteria[$i]->()};
			(my $option = $w->[0]) =~ s/=.*//s;
			$option = '--name' if $option eq '--iname';
			next if $used{$option}++ || ($option eq '--type' && $used{'--type'} > 1);
			$used{'--type'}++ if @$w > 2;
			push @words, @$w;
			push @tests, $t;
		}
		redo if ($used{'--type'} || 0) > 1;
		my @want = sort grep { my $p = $_; !grep { !$_->($p, $tree{$p}) } @tests } keys %tree;
		my $r = cowbox('find', 'demo:/work', '--print0', @words);
		my @got = sort split /\0/, $r->{out};
		is_deeply([$r->{err}, @got], ['', @want], "find @words");
	}
};

# ---- grep ----
sub pattern {
	my ($depth) = @_;
	my $kind = int rand($depth > 2 ? 5 : 9);
	return pick('a', 'b', 'ab', 'c', '\\.') if $kind < 3;
	return pick('[ab]', '[^a]', '[a-c]', '[[:digit:]]', '[[:space:]]', '.') if $kind < 5;
	return '(' . pattern($depth + 1) . '|' . pattern($depth + 1) . ')' if $kind == 5;
	return '(' . pattern($depth + 1) . ')' . pick('*', '+', '?', '{2}', '{1,2}') if $kind == 6;
	return pattern($depth + 1) . pattern($depth + 1);
}
sub random_text { return join '', map { join('', map { pick('a', 'b', 'c', 'A', 'B', ' ', '.', '1', "\t") } 1 .. int rand 12) . "\n" } 1 .. 1 + int rand 30 }
subtest 'grep' => sub {
	for (1 .. $rounds) {
		my $text = random_text();
		$text =~ s/\n\z// if rand() < 0.2;
		spill('text', $text);
		cow('write', 'demo:text', '--file', 'text', {name => 'a text'});
		for (1 .. 5) {
			my $pattern = (rand() < 0.2 ? '^' : '') . pattern(0) . (rand() < 0.2 ? '$' : '');
			my @options = grep { rand() < 0.3 } '-i', '-v', '-n';
			push @options, pick('-c', '-c', '-A1', '-B2', '-C1') if rand() < 0.4;
			my $ours = cowbox('grep', @options, '--', $pattern, 'demo:text');
			my $quoted = join ' ', map { "'$_'" } @options;
			my $theirs = shell("grep -E $quoted -- '$pattern' text");
			is("$ours->{status}\n$ours->{out}", "$theirs->{status}\n$theirs->{out}", "grep -E @options '$pattern'") or diag($ours->{err}, $text);
		}
	}
};
done_testing();
