#!/usr/bin/perl
# Completion: what `cowbox __complete` offers for every kind of word, and the scripts in the shells themselves.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = fixture();

# Candidates without their descriptions.
sub offered {
	my $r = cowbox('__complete', '--', @_);
	is("$r->{err}$r->{signal}", '0', 'complete: ' . join ' ', map { "'$_'" } @_);
	return [map { (split /\t/)[0] } split /\n/, $r->{out}];
}
sub has {
	my ($words, @wanted) = @_;
	my %is = map { $_ => 1 } @{offered(@$words)};
	ok($is{$_}, "@$words| offers $_") or diag(join ' ', sort keys %is) for @wanted;
}
sub lacks {
	my ($words, @unwanted) = @_;
	my %is = map { $_ => 1 } @{offered(@$words)};
	ok(!$is{$_}, "@$words| does not offer $_") for @unwanted;
}

subtest 'commands, subcommands, options, choices' => sub {
	is_deeply([sort @{offered('')}], [sort map { $_->{name} } @{json('help')->{commands}}], 'every command');
	is_deeply(offered('chec'), ['checkpoint'], 'by its beginning');
	has(['checkpoint', ''], qw(save list delete));
	has(['write', '--'], qw(--parents --exact --json --store));
	is_deeply(offered('write', '--exa'), ['--exact'], 'an option');
	is_deeply([sort @{offered('list', '--color', '')}], [qw(always auto never)], 'a choice');
	is_deeply([sort @{offered('list', '--box', '')}], [qw(demo other try-1)], 'a box as the value of an option');
	has(['help', 'che'], 'checkpoint');
	is_deeply(offered('nonsense', ''), [], 'nothing for what is no command');
	lacks([''], '__complete');
};

subtest 'boxes, states, checkpoints, paths' => sub {
	is_deeply([sort @{offered('delete', '')}], [qw(demo other try-1)], 'boxes');
	is_deeply(offered('delete', 'tr'), ['try-1'], 'a box by its beginning');
	has(['diff', 'demo@'], 'demo@before-refactor', 'demo@1', 'demo@2');
	is_deeply(offered('diff', 'demo@bef'), ['demo@before-refactor'], 'a checkpoint');
	has(['diff', 'demo', 'tr'], 'try-1');
	has(['cat', ''], qw(demo other try-1));
	is_deeply([sort @{offered('cat', 'demo:/')}], ['demo:/home/', 'demo:/tmp/', 'demo:/work/'], 'folders end with a slash');
	is_deeply([sort @{offered('cat', 'demo:/work/')}], ['demo:/work/README.md', 'demo:/work/a.txt', 'demo:/work/src/'], 'entries');
	is_deeply(offered('cat', 'demo:/work/src/m'), ['demo:/work/src/main.c'], 'below a folder');
	is_deeply(offered('cat', 'demo:a'), ['demo:a.txt'], 'from /work');
	is_deeply(offered('cat', ':a'), [':a.txt'], 'in the chosen box');
	is_deeply(offered('cat', 'demo@before-refactor:/work/R'), ['demo@before-refactor:/work/README.md'], 'in an old state');
	is_deeply(offered('--box', 'try-1', 'cat', '/work/a'), ['/work/a.txt'], '--box on the line holds');
	is_deeply(offered('cat', 'none:/work/'), [], 'nothing of a box that is not there');
	is_deeply(offered('cat', 'demo@99:/'), [], 'nor of a state');
	has(['cp', ''], ':host', 'demo');
	has(['import', ''], ':host');
	cow('write', "demo:/work/b\nc", 'x', {name => 'a name with a newline'});
	cow('write', "demo:/work/b\tc", 'x', {name => 'a name with a tab'});
	cow('write', 'demo:/work/b c', 'x');
	is_deeply(offered('cat', 'demo:/work/b'), ['demo:/work/b c'], 'names that a line cannot carry are left out');
	fixture_again();
};

subtest 'no store, no trouble' => sub {
	my $r = cowbox('__complete', '--', 'cat', '', {env => {COWBOX_STORE => "$world/none"}});
	is("$r->{out}$r->{err}", '', 'without a word');
	ok(!-e "$world/none", 'and no store is made');
	is(cowbox('__complete')->{err}, '', 'no words at all');
};

# bash parts the line at these, each run of them a word of its own.
sub bash_words {
	my ($line) = @_;
	my @words;
	while ($line =~ /\G\s*([:@=]+|[^\s:@=]+)/gc) { push @words, $1 }
	push @words, '' if $line =~ /\s\z/ || $line eq '';
	return @words;
}
sub bash_completes {
	my ($line) = @_;
	my @words = bash_words($line);
	my $quoted = join ' ', map { "'$_'" } @words;
	spill("$world/try.bash", <<"END");
source <(cowbox completion bash)
compopt() { :; }
COMP_LINE='$line'
COMP_POINT=\${#COMP_LINE}
COMP_WORDS=($quoted)
COMP_CWORD=$#words
_cowbox
printf '%s\\n' "\${COMPREPLY[@]}"
END
	my $r = shell("bash --norc '$world/try.bash'");
	is($r->{err}, '', "bash: $line");
	return [sort grep { length } split /\n/, $r->{out}];
}

subtest 'bash' => sub {
	is_deeply(bash_completes('cowbox checkp'), ['checkpoint'], 'a command');
	is_deeply(bash_completes('cowbox delete '), [qw(demo other try-1)], 'boxes');
	is_deeply(bash_completes('cowbox delete o'), ['other'], 'a box');
	is_deeply(bash_completes('cowbox diff demo@bef'), ['before-refactor'], "what stands after '\@'");
	ok((grep { $_ eq 'before-refactor' } @{bash_completes('cowbox diff demo@')}), "all of it, right after '\@'");
	is_deeply(bash_completes('cowbox cat demo:/work/a'), ['/work/a.txt'], "what stands after ':'");
	is_deeply(bash_completes('cowbox cat demo:'), ['README.md', 'a.txt', 'src/'], "right after ':'");
	is_deeply(bash_completes('cowbox cat demo@before-refactor:/work/src/'), ['/work/src/main.c'], 'both');
	is_deeply(bash_completes('cowbox cat :a'), ['a.txt'], 'the chosen box');
	is_deeply(bash_completes('cowbox write --exa'), ['--exact'], 'an option');
	is_deeply(bash_completes('cowbox import REA'), ['README.md'], 'files of the host');
	cow('write', 'demo:/work/two words $x', 'x');
	is_deeply(bash_completes('cowbox cat demo:/work/tw'), ['/work/two\\ words\\ \\$x'], 'what the shell would take apart is quoted');
	like(script_ok('bash --norc -c \'source <(cowbox completion bash); complete -p cowbox\''), qr/-F _cowbox cowbox/, 'it is registered');
	# A real bash on a terminal, with a real TAB.
	spill("$world/rc", "source <(cowbox completion bash)\nPS1='ready> '\nbind 'set bell-style none'\n");
	local $ENV{TERM} = 'dumb';
	like(pty("bash --noediting --rcfile '$world/rc' -i -c 'complete -p cowbox'"), qr/_cowbox/, 'also interactively');
};

for my $shell (qw(zsh fish)) {
	subtest $shell => sub {
		my $script = cow('completion', $shell);
		like($script, qr/__complete/, 'asks cowbox');
		SKIP: {
			skip "no $shell here", 1 if !`sh -c 'command -v $shell'` && !must_work();
			spill("$world/script", $script);
			is(shell("$shell -n '$world/script'")->{err}, '', 'its syntax');
		}
	};
}
fails(['completion', 'tcsh'], 'INVALID', 2, qr/bash, zsh or fish/);
is(json('completion', 'bash')->{script}, cow('completion', 'bash'), 'as JSON');

done_testing();
