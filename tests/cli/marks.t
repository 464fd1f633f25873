#!/usr/bin/perl
# tag, meta, kv: what is put on files and boxes is seen there, in every state.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

use MIME::Base64 ();
world();
cow('new', 'demo', '--use');
cow('write', 'a.txt', 'hello');
cow('mkdir', 'src');

# ---- tag ----
is(json('tag', 'add', 'a.txt', 'one', 'two')->{step}, 3, 'tag add: one step');
cow('tag', 'add', 'demo:/work/src', 'wip');
is(cow('tag', 'list', 'a.txt'), "one\ntwo\n", 'tag list');
is_deeply(json('tag', 'list', 'a.txt'), {path => '/work/a.txt', tags => ['one', 'two']}, 'json of tag list');
cow('tag', 'add', 'src', "t\xff", 'u');
for my $result (json('tag', 'list', 'src'), json('stat', 'src')->{entries}[0]) {
	is_deeply([@$result{'tags', 'tags_base64'}], [["t\x{fffd}", 'u', 'wip'], ['dP8=', undef, undef]], 'a tag that is not UTF-8');
}
cow('tag', 'remove', 'src', "t\xff", 'u');
is(cow('tag', 'list', 'demo@2:a.txt'), '', 'none before');
fails(['tag', 'remove', 'a.txt', 'one', 'none'], 'NODATA', 4, qr/cowbox tag list/);
is(cow('tag', 'list', 'a.txt'), "one\ntwo\n", 'all or nothing');
cow('tag', 'remove', 'a.txt', 'one');
is(cow('tag', 'list', 'a.txt'), "two\n", 'tag remove');
cow('mv', 'a.txt', 'b.txt');
is(cow('tag', 'list', 'b.txt'), "two\n", 'a tag moves with its file');
cow('mv', 'b.txt', 'a.txt');
fails(['tag', 'add', 'nosuch', 'x'], 'NOTFOUND', 4, qr/nosuch/);
fails(['tag', 'list', 'nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['tag', 'add', 'a.txt'], 'INVALID', 2, qr/TAG/);
fails(['tag', 'add', 'demo@1:a.txt', 'x'], 'READONLY', 77, qr/cowbox fork/);
fails(['tag', 'add', 'a.txt', ''], 'INVALID', 2, qr/./);
fails(['tag'], 'INVALID', 2, qr/add, remove, list/);
fails(['tag', 'ad'], 'INVALID', 2, qr/add, remove, list/);
cow('tag', 'add', 'a.txt', "\e]0;x\a");
unlike(pty('cowbox tag list a.txt'), qr/\e\]/, 'a tag cannot drive the terminal');

# ---- meta ----
is(json('meta', 'set', 'src', 'author', 'ann')->{path}, '/work/src', 'meta set');
cow('meta', 'set', 'src', 'note', "two\nlines = here");
cow('meta', 'set', 'src', 'author', 'bob');
is(cow('meta', 'get', 'src', 'author'), "bob\n", 'meta get');
is(cow('meta', 'get', 'src', 'note'), "two\nlines = here\n", 'any text');
is_deeply(json('meta', 'get', 'src', 'author'), {path => '/work/src', name => 'author', value => 'bob'}, 'json of meta get');
is(cow('meta', 'list', 'src'), "author=bob\nnote=two\nlines = here\n", 'meta list');
is_deeply(json('meta', 'list', 'src')->{metadata}, [{name => 'author', value => 'bob'}, {name => 'note', value => "two\nlines = here"}],
	'json of meta list');
my $steps = json('info')->{steps};
is(cow('meta', 'get', 'demo@' . ($steps - 1) . ':src', 'author'), "ann\n", 'the value of an old state');
fails(['meta', 'get', 'src', 'none'], 'NODATA', 4, qr/cowbox meta list/);
fails(['meta', 'remove', 'src', 'author', 'none'], 'NODATA', 4, qr/cowbox meta list/);
cow('meta', 'remove', 'src', 'author', 'note');
is(cow('meta', 'list', 'src'), '', 'meta remove');
cow('meta', 'set', 'src', 'empty', '');
is(cow('meta', 'get', 'src', 'empty'), "\n", 'an empty value');
fails(['meta', 'set', 'src', 'name'], 'INVALID', 2, qr/VALUE/);
fails(['meta', 'set', 'nosuch', 'a', 'b'], 'NOTFOUND', 4, qr/nosuch/);

# ---- kv ----
my $set = json('kv', 'set', 'plan', 'first the tests');
is($set->{key}, 'plan', 'json of kv set');
ok($set->{step} > 0, 'it is a step');
is(cow('kv', 'get', 'plan'), 'first the tests', 'kv get: exact, without a newline');
is(cow('kv', 'get', 'demo', 'plan'), 'first the tests', 'of a named box');
my $bytes = join '', map { chr } 0 .. 255;
cow('kv', 'set', 'demo', 'bytes', '-', {in => $bytes});
is(cow('kv', 'get', 'bytes'), $bytes, 'every byte from standard input');
my $got = json('kv', 'get', 'bytes');
is(MIME::Base64::decode_base64($got->{value_base64}), $bytes, 'json: exact bytes');
is_deeply(json('kv', 'get', 'plan'), {key => 'plan', value => 'first the tests'}, 'json: text');
cow('kv', 'set', 'plan/2', '');
is(cow('kv', 'get', 'plan/2'), '', 'an empty value');
is(cow('kv', 'list'), "bytes\t256\nplan\t15\nplan/2\t0\n", 'kv list');
is(cow('kv', 'list', '--prefix', 'plan/'), "plan/2\t0\n", '--prefix');
is(cow('kv', 'list', '--prefix', 'nothing'), '', 'no such prefix');
is_deeply([map { $_->{key} } @{json('kv', 'list', 'demo')->{keys}}], ['bytes', 'plan', 'plan/2'], 'json of kv list');
cow('kv', 'set', 'plan', 'second');
$steps = json('info')->{steps};
is(cow('kv', 'get', 'demo@' . ($steps - 1), 'plan'), 'first the tests', 'an old state');
cow('fork', 'demo', 'try');
cow('kv', 'set', 'try', 'plan', 'mine');
is(cow('kv', 'get', 'plan'), 'second', 'a fork has its own');
cow('kv', 'delete', 'plan');
fails(['kv', 'get', 'plan'], 'NOTFOUND', 4, qr/cowbox kv list/);
fails(['kv', 'delete', 'plan'], 'NOTFOUND', 4, qr/cowbox kv list/);
is(cow('kv', 'get', 'try', 'plan'), 'mine', 'deleted in one box only');
fails(['kv', 'set', 'demo@1', 'a', 'b'], 'INVALID', 2, qr/step/);
fails(['kv', 'set', 'plan'], 'INVALID', 2, qr/KEY|VALUE/);
fails(['kv', 'set', '', 'x'], 'INVALID', 2, qr/./);
fails(['kv'], 'INVALID', 2, qr/set, get, delete, list/);
cow('kv', 'set', "key\e]0;x\a\xff", "v\e]0;x\a");
unlike(pty('cowbox kv list; cowbox kv get "$(printf "key\033]0;x\007\377")"'), qr/\e\]/, 'neither key nor value drives the terminal');
my $large = 'x' x 3_000_000;
cow('kv', 'set', 'large', '-', {in => $large});
ok(cow('kv', 'get', 'large') eq $large, 'a large value');

done_testing();
