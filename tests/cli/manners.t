#!/usr/bin/perl
# What holds for every command: documents, exit statuses, errors, options, names, the choice of a box, terminals, closed and full outputs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use JSON::PP;

my $world = fixture();
my $table = json('help')->{commands};
my @runnable = map { my $k = $_; @{$k->{subcommands}} ? map([$k->{name}, $_->{name}], @{$k->{subcommands}}) : [$k->{name}] } @$table;
my %described = map { my $k = $_; ($k->{name} => $k, map { ("$k->{name} $_->{name}" => $_) } @{$k->{subcommands}}) } @$table;

sub decode { my $v = eval { JSON::PP->new->utf8->decode($_[0]) }; return ref $v ? $v : {} }

subtest 'documents are printed from the table' => sub {
	ok(slurp(root_of() . "/docs/$_->[0].md") eq cow("help", "--markdown", @{$_->[1]}), "docs/$_->[0].md; else: make docs")
		for ["commands", []], ["exit-codes", ["exit-codes"]];
	my $codes = json('help', 'exit-codes')->{exit_codes};
	my $header = slurp(root_of() . '/include/cowbox/error.h');
	my $count = () = $header =~ /^\tX\(/mg;
	is(scalar @$codes, $count, 'every code of error.h');
	like($header, qr/X\($_->{code}, -?\d+, \w+, $_->{exit}, "\Q$_->{text}\E"\)/, "$_->{code} is $_->{exit}") for @$codes;
	like(cow('help'), qr/^  \Q$_->{name}\E +\Q$_->{summary}\E$/m, "help lists $_->{name}") for @$table;
	is(json('--version')->{version}, (cow('--version') =~ /\Acowbox (\S+)\n\z/)[0], 'the version');
};

subtest 'man pages' => sub {
	my $groff = `sh -c 'command -v groff'`;
	plan skip_all => 'no groff' if !$groff && !must_work();
	for my $topic ([], map { [$_->{name}] } @$table) {
		spill('page.1', cow('help', '--man', @$topic));
		my $r = shell('groff -man -ww -Tutf8 page.1');
		is($r->{err}, '', "no warning of groff: @$topic");
		ok($r->{status} == 0 && length $r->{out} > 200, 'and a page');
		like(slurp('page.1'), qr/\Q$_\E/, 'its example') for map { s/\\/\\e/g; s/-/\\-/g; $_ } map { @{$_->{examples}} } map { $described{$_} } @$topic;
	}
	unlink 'page.1';
};

subtest 'errors are one line, or one object' => sub {
	for my $words (@runnable) {
		my $k = $described{"@$words"};
		my @operands = map { /\A(?:BOX|STATE|PLACE|FROM|TO|SOURCE|INTO|A|B)\z/ ? 'no-such-box' : /PATH/ ? 'no-such-box:/x' : 'no-such-box' }
			map { $_->{name} } grep { !$_->{optional} } @{$k->{operands}};
		next if $words->[0] =~ /\A(?:help|completion|doctor|config|new)\z/; # work without a box
		my $before = json('list');
		my $r = cowbox('--json', '--yes', '--box', 'no-such-box', @$words, @operands, {in => ''});
		next if $r->{status} == 0 && $words->[0] =~ /\A(?:list|stats|gc|fsck|backup|audit|unpack|use)\z/; # of the store
		my $error = decode($r->{err})->{error} || {};
		my $good = $r->{status} != 0 && $r->{out} eq '' && $r->{err} =~ /\A\{[^\n]*\}\n\z/ && ($error->{exit} || 0) == $r->{status} && $error->{code}
			&& $error->{message} && $error->{message} !~ /\n/;
		ok($good, "@$words of a box that is not there: an object") or diag("@operands: $r->{status} $r->{out}$r->{err}");
		my $plain = cowbox('--yes', '--box', 'no-such-box', @$words, @operands, {in => ''});
		my $same = $plain->{status} == $r->{status} || "@$words" eq 'pack'; # whose output cannot be both
		ok($same && $plain->{status} && $plain->{out} eq '' && $plain->{err} =~ /\Acowbox: [^\n]+\n\z/, "@$words: a line") or diag($plain->{err});
		is_deeply(json('list'), $before, 'no effect');
		fixture_again();
	}
	fails(['cat', 'demo:/work/none'], 'NOTFOUND', 4, qr{/work/none});
	fails(['cat', 'none:/work/a.txt'], 'NOTFOUND', 4, qr/none.*cowbox list/);
	fails(['cat', 'demo@99999:a.txt'], 'NOTFOUND', 4, qr/99999.*cowbox log/);
	fails(['new', 'demo'], 'EXISTS', 5, qr/demo/);
	fails(['list', '--color', 'pink'], 'INVALID', 2, qr/pink.*auto\|always\|never/);
	my $late = cowbox('list', '--color', 'pink', '--json');
	is(decode($late->{err})->{error}{code}, 'INVALID', '--json behind the word that is wrong');
	my $none = cowbox('--json');
	is("$none->{status}$none->{out}", '2', 'without a command nothing but an error');
	is(decode($none->{err})->{error}{code}, 'INVALID', 'which is an object');
	ok(json('help', 'options')->{options}[0]{help}, 'the options of every command are an object too');
};

subtest 'options' => sub {
	fails(['--store', '', 'list'], 'INVALID', 2, qr/--store: an empty name/);
	cow('write', 'demo:/work/o.txt', '--exact', 'one');
	cow('write', '--exact', 'demo:/work/o.txt', 'two');
	is(cow('cat', 'demo:/work/o.txt'), 'two', 'options anywhere');
	cow('write', 'demo:/work/o.txt', '--exact', '--', '--json');
	is(cow('cat', 'demo:/work/o.txt'), '--json', "'--' ends options");
	my $v = json('write', 'demo:/work/o.txt', 'x')->{version};
	cow('write', 'demo:/work/o.txt', "--expected-version=$v", 'y');
	cow('--box=demo', 'write', ':o.txt', 'z');
	is(cow('cat', 'demo:/work/o.txt'), "z\n", '--option=value');
	is(decode(cow('list', '--json'))->{boxes}[0]{name}, 'demo', 'a global option after the command');
	is(decode(cow('--json', 'list'))->{boxes}[0]{name}, 'demo', 'and before it');
	is(json('edit', 'demo:/work/o.txt', '--old', 'z', '--new', '--json')->{path}, '/work/o.txt', 'a value may look like an option');
	is(cow('cat', 'demo:/work/o.txt'), "--json\n", 'and is one');
	fails(['write', 'demo:/work/o.txt', '--parent', 'x'], 'INVALID', 2, qr/'--parent': did you mean '--parents'\?.*cowbox help write/);
	fails(['list', '--jsn'], 'INVALID', 2, qr/did you mean '--json'/);
	fails(['hlep'], 'INVALID', 2, qr/did you mean 'help'/);
	fails(['lgo'], 'INVALID', 2, qr/did you mean 'log'/);
	fails(['lst'], 'INVALID', 2, qr/did you mean '(?:list|ls)'/);
	fails(['checkpoint', 'svae', 'demo', 'x', 'y', 'z'], 'INVALID', 2, qr/save|too many/);
	fails(['list', '--json=yes'], 'INVALID', 2, qr/--json takes no value/);
	fails(['list', '--store'], 'INVALID', 2, qr/--store needs a value/);
	fails(['write'], 'INVALID', 2, qr/cowbox help write/);
	fails(['list', 'a', 'b'], 'INVALID', 2, qr/one word too many/);
	is(cowbox()->{status}, 2, 'nothing typed: the help, and 2');
	for my $words (['help', '--man'], ['help', 'ls', '--man'], ['help', '--markdown'], ['help', 'exit-codes', '--markdown']) {
		my $r = cowbox('--json', @$words);
		ok($r->{status} == 2 && $r->{out} !~ /^[.#]/ && "$r->{out}$r->{err}" =~ /with --json/, "--json @$words: a document is no JSON");
	}
	is(cowbox('--help')->{status}, 0, '--help: 0');
	fixture_again();
};

subtest 'units' => sub {
	for (['512', 512], ['10k', 10240], ['1.5M', 1572864], ['2GiB', 2147483648], ['3kb', 3072]) {
		cow('quota', 'demo', '--bytes', $_->[0]);
		is(json('quota', 'demo')->{quota_bytes}, $_->[1], "--bytes $_->[0]");
	}
	fails(['quota', 'demo', '--bytes', $_], 'INVALID', 2, qr/--bytes.*(?:no size|too large)/) for '', 'x', '1q', '-1', '1 k', '9999999999G';
	fixture_again();
	cow('write', 'demo:/work/now.txt', 'x');
	is(scalar @{json('log', 'demo', '--since', '2000-01-01')->{steps}} > 5, 1, 'since a date');
	is(scalar @{json('log', 'demo', '--since', '1h')->{steps}} > 5, 1, 'since an hour');
	fails(['log', 'demo', '--since', $_], 'INVALID', 2, qr/--since.*no time/) for 'yesterday', '2026-13-01', '5parsecs', '', '2026', '20260131', '30', '1d30', '2026-01-31T25:00', '2026-01';
	fails(['log', 'demo', '--since', '2026'], 'INVALID', 2, qr/2h, 7d .*\(ago\), 2026-01-31/);
	fails($_, 'INVALID', 2, qr/'30' is no time/) for ['log', 'demo', '--until', '30'], ['find', 'demo', '--older', '30'], ['find', 'demo', '--newer', '30'],
		['audit', '--since', '30'], ['touch', 'demo:/work/a.txt', '-t', '30'];
	cow('log', 'demo', '--since', $_) for '0', 'now', '0.5h', '2026-01-31T12:00', '2026-01-31T12:00:30', '2026-01-31T12:00:00Z';
	fixture_again();
};

subtest 'the choice of a box' => sub {
	# From the strongest to the weakest; each pair is tried, the stronger must win.
	cow('new', $_) for qw(by-address by-option by-environment by-use);
	cow('write', "$_:/work/me", $_) for qw(by-address by-option by-environment by-use demo);
	mkdir "$world/elsewhere";
	my $try = sub {
		my ($folder, $use, $environment, $option, $address) = @_;
		chdir($folder ? "$world/folder" : "$world/elsewhere") or die;
		$use ? cow('use', 'by-use', {notes => 1}) : cow('use', '--none');
		my $path = $address ? 'by-address:/work/me' : ':me';
		my $text = cow($option ? ('--box', 'by-option') : (), 'cat', $path, {env => $environment ? {COWBOX_BOX => 'by-environment'} : {}});
		chdir "$world/folder";
		chomp $text;
		return $text;
	};
	my @names = ('by-use', 'demo', 'by-environment', 'by-option', 'by-address');
	for my $stronger (0 .. 4) {
		for my $weaker (0 .. $stronger - 1) {
			my %on = ($stronger => 1, $weaker => 1);
			is($try->($on{1}, $on{0}, $on{2}, $on{3}, $on{4}), $names[$stronger], "$names[$stronger] before $names[$weaker]");
		}
	}
	chdir "$world/elsewhere";
	cow('use', '--none');
	fails(['cat', ':me'], 'INVALID', 2, qr/no box chosen.*cowbox use/);
	mkdir "$world/folder/src/deep";
	chdir "$world/folder/src/deep";
	is(cow('cat', ':me'), "demo\n", 'below the folder as well');
	chdir "$world/folder";
	is(cow('--box', 'demo@before-refactor', 'cat', ':a.txt'), "hello\n", '--box may name a state');
	fails(['--box', 'demo@before-refactor', 'write', ':a.txt', 'x'], 'READONLY', 77, qr/cowbox fork/);
	is(cow('cat', '@before-refactor:a.txt'), "hello\n", 'a state of the chosen box');
	rmdir "$world/folder/src/deep";
	fixture_again();
};

subtest 'names' => sub {
	my $long = 'n' x 64;
	for my $name ('a', 'Z', '0', '7up', 'a.b_c-D', '_', 'a.', $long, '12') {
		cow('new', $name);
		cow('delete', $name, '--yes', {notes => 1});
	}
	for my $name ('', '.a', '-a', 'a b', 'a/b', 'a:b', 'a@b', "a\nb", "\xc3\xa4", 'n' x 65, '..') {
		my $r = cowbox('new', '--', $name);
		ok($r->{status} == 2 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, 'no box is called ' . JSON::PP->new->allow_nonref->ascii->encode($name))
			or diag("$r->{status} $r->{err}");
	}
	for my $name ('a', '_', 'x1', '1x', $long) {
		cow('checkpoint', 'save', 'demo', $name, {notes => 1});
		is(cow('cat', "demo\@$name:/work/a.txt"), "hello\n", "the checkpoint $name");
	}
	for my $name ('7', '0', '-1', '.a', 'a b', 'a@b', 'n' x 65, '') {
		my $r = cowbox('checkpoint', 'save', 'demo', '--', $name);
		ok($r->{status} == 2 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, "no checkpoint is called '$name'") or diag("$r->{status} $r->{err}");
	}
	fixture_again();
};

subtest 'outputs that cannot be written' => sub {
	for my $words ('list', 'help', 'log demo', 'cat demo:/work/src/main.c', 'tree demo', '--json list', 'export demo -') {
		my $r = shell("cowbox $words >/dev/full");
		ok($r->{status} == 74 && $r->{err} =~ /space|74/, "$words into /dev/full") or diag("$r->{status} $r->{err}");
		$r = shell("cowbox $words >&-");
		ok($r->{status} == 74 && $r->{err} =~ /./, "$words with its output closed") or diag("$r->{status} $r->{err}");
	}
	my $r = shell('cowbox write demo:/work/closed.txt x <&- >&- 2>&-');
	is($r->{status}, 0, 'nothing to print: no error');
	# An input that is closed is no empty one.
	for my $words ('write demo:/work/src/main.c', 'append demo:/work/src/main.c', 'kv set demo closed -', 'import - demo', 'unpack - closed') {
		$r = shell("cowbox $words <&-");
		ok($r->{status} == 74 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, "$words with its input closed") or diag("$r->{status} $r->{err}");
	}
	isnt(cow('cat', 'demo:/work/src/main.c'), '', 'and what was there is not emptied');
	cow('fsck', {notes => 1});
	cow('write', 'demo:/work/big', {in => 'line of a file' . "\n" x 400000});
	$r = shell("sh -c 'cowbox cat demo:/work/big; echo \$? >status' | head -n 1");
	is($r->{out}, "line of a file\n", 'a pipe that ends early');
	is($r->{err}, '', 'without a word');
	is(slurp('status') + 0, 141, 'by SIGPIPE');
	fixture_again();
};

# More than a pipe holds, to one who reads ten bytes, or none.
subtest 'outputs that nobody reads to their end' => sub {
	cow('write', 'demo:/work/big', {in => join('', map { chr int rand 256 } 1 .. 200000)});
	cow('write', 'demo:/work/lines', {in => join("\n", 1 .. 40000)});
	my @all = ('pack demo', 'cat demo:/work/big', '--json cat demo:/work/big', 'export demo -', 'diff demo@0 demo', 'grep . demo:/work/lines',
		'--json grep . demo:/work/lines', 'log -p demo', 'blame demo:/work/lines');
	push @all, 'exec demo -- cat lines', 'exec demo -- sh -c "cat lines >&2" 2>&1', '--json exec demo -- cat lines'
		if cowbox('exec', 'demo', '--', 'true')->{status} == 0;
	for my $words (@all) {
		for my $reader ('head -c 10 >/dev/null', 'true') {
			my $r = shell("(sh -c 'exec cowbox $words'; echo \$? >status) 2>said | $reader");
			my $status = slurp('status') + 0;
			ok($status == 141 && slurp('said') !~ /cowbox: /, "$words | $reader") or diag("$status: " . slurp('said'));
		}
	}
	fixture_again();
};

subtest 'places that are not there' => sub {
	local $ENV{COWBOX_STORE};
	delete $ENV{COWBOX_STORE};
	{
		local %ENV = %ENV;
		delete @ENV{qw(HOME XDG_DATA_HOME XDG_CONFIG_HOME)};
		my $r = cowbox('list');
		ok($r->{status} != 0 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, 'no HOME, no store') or diag("$r->{status} $r->{err}");
		is(cowbox('help')->{status}, 0, 'no HOME: help');
		is(cowbox('--store', "$world/store", 'list')->{status}, 0, 'no HOME, but a store');
		is(cowbox('config', 'set', 'who', 'x')->{status}, 2, 'no HOME: nowhere to write the configuration');
	}
	$ENV{COWBOX_STORE} = "$world/none";
	fails(['list'], 'NOTFOUND', 4, qr/cowbox new/);
	ok(!-e "$world/none", 'reading makes no store');
	$ENV{COWBOX_STORE} = "$world/store";
	my $r = cowbox('list', {env => {HOME => '/nonexistent'}});
	is($r->{status}, 0, 'a HOME that is not there');
};

subtest 'a store that cannot be written' => sub {
	plan skip_all => 'root writes everywhere' if $> == 0 && system("setpriv --reuid=65534 --clear-groups true 2>/dev/null") != 0;
	if ($> == 0) {
		system("chown -R 65534 '$world/store' && chmod 755 '$world' '$world/home'");
		my $as = "cd / && setpriv --reuid=65534 --clear-groups env HOME='$world/home'";
		system("chmod -R a-w '$world/store'");
		my $r = shell("$as cowbox cat demo:/work/a.txt");
		ok($r->{status} == 0 && $r->{out} eq "hello\n" || $r->{status} == 77 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, 'reading works or says why')
			or diag("$r->{status} $r->{err}");
		$r = shell("$as cowbox write demo:/work/a.txt x");
		ok($r->{status} == 77 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, 'writing says why') or diag("$r->{status} $r->{err}");
		system("chmod -R u+w '$world/store'; chown -R 0 '$world/store'");
	}
	is(cow('cat', 'demo:/work/a.txt'), "hello\n", 'and nothing is harmed');
	fixture_again();
};

subtest 'colour' => sub {
	my $esc = qr/\e\[/;
	my $diff = 'cowbox diff demo@before-refactor demo';
	local $ENV{TERM} = 'xterm';
	unlike(script_ok($diff), $esc, 'none in a pipe');
	like(script_ok("$diff --color always"), $esc, 'unless told');
	unlike(script_ok("$diff --color always --json"), $esc, 'never in JSON');
	like(pty("$diff --no-pager"), $esc, 'on a terminal');
	unlike(pty("$diff --no-pager --color never"), $esc, 'not when told');
	unlike(pty("NO_COLOR=1 $diff --no-pager"), $esc, 'NO_COLOR');
	like(pty("NO_COLOR=1 $diff --no-pager --color=always"), $esc, '--color is stronger');
	unlike(pty("TERM=dumb $diff --no-pager"), $esc, 'a dumb terminal');
	cow('config', 'set', 'color', 'never');
	unlike(pty("$diff --no-pager"), $esc, 'the configuration');
	cow('config', 'unset', 'color');
};

subtest 'the pager' => sub {
	local $ENV{TERM} = 'xterm';
	spill("$world/pager", "#!/bin/sh\necho PAGED\ncat\n");
	chmod 0755, "$world/pager";
	for my $line ('log demo', 'diff demo@before-refactor demo', 'show demo@2', 'blame demo:/work/a.txt') {
		like(pty("PAGER='$world/pager' cowbox $line"), qr/PAGED/, "$line is paged on a terminal");
		unlike(pty("PAGER='$world/pager' cowbox --no-pager $line"), qr/PAGED/, 'not with --no-pager');
		unlike(script_ok("PAGER='$world/pager' cowbox $line"), qr/PAGED/, 'nor in a pipe');
	}
	unlike(pty("PAGER='$world/pager' cowbox cat demo:/work/a.txt"), qr/PAGED/, 'cat is not');
	like(pty("PAGER=false cowbox log demo"), qr/\A/, 'a pager that fails harms nothing');
};

subtest 'control bytes in names' => sub {
	local $ENV{TERM} = 'dumb';
	my $name = "evil\e]0;owned\a\r\n\xc2\x9b31m\xe2\x80\xae\xff";
	cow('write', "demo:/work/$name", '--exact', "needle \e[31m\r\n", {name => 'hostile names'});
	cow('tag', 'add', "demo:/work/$name", "t\e[1m", {name => 'hostile names'});
	cow('meta', 'set', "demo:/work/$name", "m\e[1m", "v\e[1m", {name => 'hostile names'});
	cow('kv', 'set', 'demo', "k\e[1m", "v\e[1m", {name => 'hostile names'});
	cow('ln', '-s', "to\e[1m", "demo:/work/link", {name => 'hostile names'});
	cow('fork', 'demo', 'evil', {name => 'hostile names'});
	cow('write', "evil:/work/$name", 'theirs', {name => 'hostile names'});
	cow('write', "demo:/work/$name", "needle\e[7m ours", {name => 'hostile names'});
	spill("$world/spare", $name);
	my $bad = qr/\e(?!\[0?m)|\x07|\xc2\x9b|\xe2\x80\xae|\xff/;
	my $path = "\"demo:/work/\$(cat '$world/spare')\"";
	for my $line ('ls demo:/work', 'ls -l demo:/work', 'tree demo', 'find demo', "stat $path", 'log demo', "log $path", 'show demo@-1', 'diff demo@-1 demo', 'diff demo@before-refactor demo',
		'diff --stat demo@before-refactor demo', 'diff --name-only demo@before-refactor demo', 'grep needle demo', 'grep -l needle demo', "tag list $path", "meta list $path",
		'kv list demo', 'merge evil --into demo', 'merge evil --into demo --dry-run', 'audit demo', 'apply demo --dry-run', "blame $path", "cat $path/x", "rm $path/x",
		"edit $path --old none --new x", "chmod 600 $path/x", 'undo demo', 'info demo', "mkdir $path", 'stats demo') {
		my $told = pty("cowbox --no-pager $line");
		unlike($told, $bad, "$line") or diag(JSON::PP->new->allow_nonref->ascii->encode($told));
	}
	like(pty('cowbox --no-pager ls demo:/work'), qr/evil\\x1b\]0;owned\\x07\\x0d\\n\\xc2\\x9b31m/, 'they are shown as \xNN');
	like(script_ok('cowbox ls demo:/work'), qr/\Q$name\E/, 'in a pipe they are what they are');
	like(cowbox('cat', "demo:/work/$name/x")->{err}, qr/\A[^\n\e\x07]+\n\z/, 'an error is one line also in a pipe');
	fixture_again();
};

# What asks: [words, what must still be there when the answer was no].
my @destructive = (
	[['delete', 'demo'], 'demo:/work/a.txt'],
	[['prune', 'demo', '--keep', '1'], 'demo@1:/work/a.txt'],
);
subtest 'what destroys asks' => sub {
	local $ENV{TERM} = 'dumb';
	for (@destructive) {
		my ($words, $witness) = @$_;
		my $is_there = sub { cowbox('cat', $witness)->{status} == 0 };
		ok($is_there->(), "before: @$words");
		my $error = fails($words, 'INVALID', 2, qr/--yes/);
		ok(length $error->{message} > 10, 'it says what would be lost');
		ok($is_there->(), 'off a terminal nothing happens without --yes');
		for my $answer ("n\n", "\n", "nonsense\n", "\cD") {
			my $told = pty("cowbox @$words", $answer);
			like($told, qr/Go on\? \[y\/N\]/, 'on a terminal it asks');
			ok($is_there->(), 'and without a yes nothing happens');
		}
		like(pty("cowbox @$words </dev/null"), qr/--yes/, 'no question without a keyboard');
		like(pty("cowbox @$words 2>err; cat err"), qr/--yes/, 'nor to somebody who cannot see it');
		ok($is_there->(), 'still there');
		pty("cowbox @$words", "y\n");
		ok(!$is_there->(), 'a yes does it');
		fixture_again();
		cow(@$words, '--yes', {notes => 1});
		ok(!$is_there->(), '--yes does it');
		fixture_again();
		unlike(pty("cowbox -y @$words"), qr/Go on/, '-y asks nothing on a terminal');
		ok(!$is_there->(), 'and does it');
		fixture_again();
	}
};

subtest 'sizes and times' => sub {
	local $ENV{TERM} = 'dumb';
	cow('write', 'demo:/work/big', {in => 'x' x 1258291});
	like(pty('cowbox ls -l demo:/work'), qr/1\.2 MiB/, 'human on a terminal');
	like(script_ok('cowbox ls -l demo:/work'), qr/1258291/, 'exact in a pipe');
	is((grep { $_->{name} eq 'big' } @{json('ls', 'demo:/work')->{entries}})[0]{size}, 1258291, 'exact in JSON');
	like(pty('cowbox --no-pager log demo'), qr/seconds? ago|minutes? ago|just now/, 'human times');
	like(json('stat', 'demo:/work/big')->{entries}[0]{mtime}, qr/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\z/, 'exact times in JSON');
	fixture_again();
};

done_testing();
