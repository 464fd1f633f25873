#!/usr/bin/perl
# Real tools in a box, as people use them, each with a look at what it did: in a small box, in a stack of layers and in the tier without
# overlayfs, as root and as an ordinary user. A second command looks at what the first one left, so that times, links and modes that a tool
# relies on are seen to come back.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Run;
use Digest::SHA;
use MIME::Base64;

my $only = $ENV{COWBOX_TOOL} // ""; # those with this in their name
my $world = run_world();
my $prepared = "$world/prepared";
my $home = "$world/prepare-home";
mkdir $home;

# ---- what the tools work on, made on the host ----

sub host {
	my ($script) = @_;
	local $ENV{HOME} = $home;
	my $text = `exec 2>&1; cd '$prepared' && set -e && $script`;
	$? == 0 or BAIL_OUT("preparing: $text");
}

sub prepare_git {
	host(q{mkdir -p git/origin && cd git/origin && git init -q -b main . && git config user.email t@localhost && git config user.name t
		mkdir src && for i in 1 2 3 4 5; do echo "line $i" >src/f$i.txt; git add . && git commit -qm "commit $i"; done});
}

sub prepare_make {
	mkdir "$prepared/$_" for qw(make make/src);
	spill("$prepared/make/src/main.c", <<'END');
#include <stdio.h>
int add(int, int);
int mul(int, int);
int main(void)
{
	printf("%d %d\n", add(40, 2), mul(6, 7));
	return 0;
}
END
	spill("$prepared/make/src/$_->[0].c", "int $_->[0](int a, int b)\n{\n\treturn a $_->[1] b;\n}\n") for ['add', '+'], ['mul', '*'];
	spill("$prepared/make/Makefile", <<'END');
OBJ := $(patsubst src/%.c,obj/%.o,$(wildcard src/*.c))
calc: $(OBJ)
	gcc -o $@ $^
obj/%.o: src/%.c | obj
	gcc -g -O0 -c -o $@ $<
	@echo $< >>built.log
obj:
	mkdir obj
END
}

# An application with a dependency that has one, both from a cache: what a lock file names by its sum is found there without a registry.
sub prepare_npm {
	return if lacking('npm');
	mkdir "$prepared/npm";
	my @packages = (['tiny-inner', 'module.exports = 21;', {}], ['tiny-outer', "module.exports = () => 2 * require('tiny-inner');", {'tiny-inner' => '1.0.0'}]);
	my %lock = ('' => {name => 'app', version => '1.0.0', dependencies => {'tiny-outer' => '1.0.0'}});
	for (@packages) {
		my ($name, $code, $needs) = @$_;
		mkdir "$home/$name";
		spill("$home/$name/index.js", "$code\n");
		spill("$home/$name/package.json", encode({name => $name, version => '1.0.0', main => 'index.js', dependencies => $needs}));
		host("cd '$home/$name' && npm pack --silent && npm cache add --cache '$prepared/npm/cache' ./$name-1.0.0.tgz");
		my $sum = encode_base64(Digest::SHA->new(512)->addfile("$home/$name/$name-1.0.0.tgz")->digest, '');
		$lock{"node_modules/$name"} = {version => '1.0.0', resolved => "https://packages.example.com/$name/-/$name-1.0.0.tgz",
			integrity => "sha512-$sum", dependencies => $needs};
	}
	mkdir "$prepared/npm/app";
	spill("$prepared/npm/app/package.json", encode({name => 'app', version => '1.0.0', dependencies => {'tiny-outer' => '1.0.0'}}));
	spill("$prepared/npm/app/package-lock.json", encode({name => 'app', version => '1.0.0', lockfileVersion => 3, requires => JSON::PP::true, packages => \%lock}));
	spill("$prepared/npm/app/main.js", "console.log('answer', require('tiny-outer')());\n");
}

sub encode { return JSON::PP->new->canonical->pretty->encode($_[0]) }

# A wheel is a zip file with three files about it.
sub prepare_pip {
	mkdir "$prepared/pip";
	host(q{cd pip && /usr/bin/python3 - <<'END'
import zipfile
info = 'tinywheel-1.0.dist-info'
with zipfile.ZipFile('tinywheel-1.0-py3-none-any.whl', 'w') as z:
    z.writestr('tinywheel/__init__.py', 'def answer():\n    return 42\n')
    z.writestr(info + '/METADATA', 'Metadata-Version: 2.1\nName: tinywheel\nVersion: 1.0\n')
    z.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    z.writestr(info + '/entry_points.txt', '[console_scripts]\ntiny = tinywheel:answer\n')
    z.writestr(info + '/RECORD', ''.join(n + ',,\n' for n in ('tinywheel/__init__.py', info + '/METADATA', info + '/WHEEL', info + '/RECORD')))
END});
}

sub prepare_small {
	mkdir "$prepared/$_" for qw(sqlite archive patch node debug memory cargo cargo/src vim trace jobs java python keys search terminal perl);
	spill("$prepared/patch/a.txt", join '', map { "line $_\n" } 1 .. 30);
	spill("$prepared/patch/change.patch", "--- a/a.txt\n+++ b/a.txt\n\@\@ -9,3 +9,3 \@\@\n line 9\n-line 10\n+line ten\n line 11\n");
	spill("$prepared/node/main.js", <<'END');
const fs = require('fs'), { execFileSync } = require('child_process'), { Worker } = require('worker_threads');
fs.writeFileSync('out.json', JSON.stringify({ n: [1, 2, 3].map((x) => x * x), uid: process.getuid() }));
console.log('child', execFileSync('echo', ['hi']).toString().trim());
new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true }).on('message', (m) => console.log('worker', m));
const server = require('http').createServer((q, r) => r.end('pong'));
server.listen(0, '127.0.0.1', () => require('http').get(server.address(), (r) => r.on('data', (d) => { console.log('http', String(d)); server.close(); })));
END
	spill("$prepared/debug/d.c", "#include <stdio.h>\n\nint sum(int x)\n{\n\treturn x + 1;\n}\n\nint main(void)\n{\n\tprintf(\"%d\\n\", sum(41));\n\treturn 0;\n}\n");
	spill("$prepared/memory/over.c", "#include <stdlib.h>\nint main(int c, char **v)\n{\n\tchar *p = malloc(10);\n\tp[9 + c] = 1;\n\treturn p[0] + v[0][0];\n}\n");
	spill("$prepared/memory/leak.c", "#include <stdlib.h>\nvoid *volatile p;\nint main(void)\n{\n\tp = malloc(77);\n\tp = 0;\n\treturn 0;\n}\n");
	spill("$prepared/cargo/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
	spill("$prepared/cargo/src/main.rs", "fn main() {\n    println!(\"sum {}\", (1..=10).sum::<u32>());\n}\n");
	spill("$prepared/vim/a.txt", "one\ntwo\nthree\n");
	spill("$prepared/trace/a.txt", "traced\n");
	spill("$prepared/java/Hello.java", "public class Hello { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println(\"thread\")); t.start(); t.join(); java.nio.file.Files.writeString(java.nio.file.Path.of(\"out.txt\"), \"java\\n\"); System.out.println(\"cores \" + (Runtime.getRuntime().availableProcessors() > 0)); } }\n");
	spill("$prepared/python/test_it.py", "import unittest, multiprocessing, tempfile, os\n\ndef square(x):\n    return x * x\n\nclass T(unittest.TestCase):\n    def test_pool(self):\n        with multiprocessing.Pool(2) as p:\n            self.assertEqual(p.map(square, [1, 2, 3]), [1, 4, 9])\n\n    def test_temporary(self):\n        with tempfile.NamedTemporaryFile() as f:\n            f.write(b'x')\n\n    def test_home(self):\n        self.assertTrue(os.path.isdir(os.path.expanduser('~')))\n\nif __name__ == '__main__':\n    unittest.main()\n");
}

# ---- the tools: {name, in, needs, script, out, files, again, again_out} ----

# git clone of a folder makes hard links and wants their inode numbers to be those it saw before; a file of a layer gets another one when it is
# first linked, so there it must be told not to.
sub clone_words { my ($place) = @_; return 'git clone -q' . (($place->{tier} // '') eq 'overlay' ? ' --no-hardlinks' : '') }

my @tools = (
	{name => 'git clone, commit, log', in => 'git', needs => ['git'], script => <<'END',
$CLONE origin copy && cd copy && git config user.email t@localhost && git config user.name t
echo more >>src/f3.txt && git mv src/f1.txt src/moved.txt && git add -A && git commit -qm 'in the box'
git fsck --strict && git log --format=%s | head -2 && git push -q origin HEAD:refs/heads/side && git -C ../origin branch --list side
END
		out => qr/\Ain the box\ncommit 5\n  side\n\z/, files => {'git/copy/src/f3.txt' => qr/\Aline 3\nmore\n\z/, 'git/copy/.git/HEAD' => qr{refs/heads/main}},
		again => 'cd copy && git status --porcelain && git show --stat HEAD | grep -c moved', again_out => qr/\A1\n\z/},
	{name => 'npm ci from a cache', in => 'npm', needs => ['npm', 'node'], script => 'cd app && npm ci --offline --no-audit --no-fund --cache ../cache >npm.log 2>&1; s=$?; [ $s = 0 ] || cat npm.log; node main.js',
		out => qr/answer 42\n\z/, files => {'npm/app/node_modules/tiny-inner/index.js' => qr/21/},
		again => 'cd app && npm ls --all --offline 2>&1', again_out => qr/tiny-inner\@1\.0\.0/},
	{name => 'a venv, pip install of a wheel', in => 'pip', needs => ['python3'], script => <<'END',
/usr/bin/python3 -m venv v && v/bin/pip install -q --disable-pip-version-check --no-index ./tinywheel-1.0-py3-none-any.whl
v/bin/python -c 'import tinywheel, sys; print(tinywheel.answer(), sys.prefix != sys.base_prefix)'
END
		out => qr/\A42 True\n\z/, files => {'pip/v/pyvenv.cfg' => qr/home = /}, again => 'v/bin/pip list --disable-pip-version-check 2>/dev/null | grep tinywheel; v/bin/tiny; echo $?', again_out => qr/tinywheel +1\.0\n42\n/},
	{name => 'make of a C project', in => 'make', needs => ['make', 'gcc'], script => 'make -s -j2 && ./calc', out => qr/\A42 42\n\z/, files => {'make/built.log' => qr/mul\.c/},
		# What make goes by is the times, to the nanosecond.
		again => 'make -q && echo fresh && touch src/mul.c && make -s && tail -1 built.log && wc -l <built.log', again_out => qr/\Afresh\nsrc\/mul\.c\n4\n\z/},
	{name => 'sqlite3, WAL, several processes', in => 'sqlite', needs => ['sqlite3'], script => <<'END',
sqlite3 a.db 'PRAGMA journal_mode=WAL; CREATE TABLE t(who, n);' && for p in 1 2 3 4; do
	( for i in $(seq 25); do echo ".timeout 20000"; echo "INSERT INTO t VALUES($p, $i);"; done | sqlite3 a.db ) &
done
wait; sqlite3 a.db 'SELECT count(*), count(DISTINCT who) FROM t; PRAGMA integrity_check;'
END
		out => qr/\Awal\n100\|4\nok\n\z/, again => 'sqlite3 a.db "SELECT sum(n) FROM t"', again_out => qr/\A1300\n\z/},
	{name => 'tar with gzip and xz', in => 'archive', needs => ['tar', 'gzip', 'xz'], script => <<'END',
mkdir -p t/d && echo one >t/a && ln t/a t/b && ln -s ../a t/d/link && printf '#!/bin/sh\necho ran\n' >t/d/run && chmod 750 t/d/run && touch -d 2001-02-03T04:05:06Z t/a
tar -czf t.tgz t && tar -cJf t.txz t && mkdir g x && tar -xzf t.tgz -C g && tar -xJf t.txz -C x && diff -r t g/t && diff -r t x/t
for f in g x; do [ $f/t/a -ef $f/t/b ] && stat -c '%a %Y' $f/t/d/run $f/t/a | cut -d' ' -f1 | tr '\n' ' ' && stat -c %Y $f/t/a && $f/t/d/run; done
END
		out => qr/\A(750 644 981173106\nran\n){2}\z/, again => '[ g/t/a -ef g/t/b ] && stat -c "%Y %h %a" g/t/a && readlink x/t/d/link && x/t/d/run', again_out => qr/\A981173106 2 644\n\.\.\/a\nran\n\z/},
	{name => 'patch', in => 'patch', needs => ['patch'], script => 'patch -p1 <change.patch && sed -n 10p a.txt && patch -R -p1 --dry-run <change.patch', out => qr/line ten\n/, files => {'patch/a.txt' => qr/line 9\nline ten\nline 11/}},
	{name => 'node: files, child, thread, http on loopback', in => 'node', needs => ['node'], script => 'node main.js | sort', out => qr/\Achild hi\nhttp pong\nworker 42\n\z/, files => {'node/out.json' => qr/"n":\[1,4,9\]/}},
	{name => 'gdb to a breakpoint', in => 'debug', needs => ['gdb', 'gcc'], script => q{gcc -g -o d d.c && gdb -q -nx -batch -ex 'break sum' -ex run -ex bt -ex 'print x' -ex finish ./d 2>&1}, out => qr/Breakpoint 1, sum \(x=41\).*\$1 = 41.*Value returned is .* 42/s},
	{name => 'the address and leak sanitizers', in => 'memory', needs => ['gcc'], script => 'gcc -g -fsanitize=address -o over over.c && gcc -g -fsanitize=address -o leak leak.c; ASAN_OPTIONS=detect_leaks=1; export ASAN_OPTIONS; ./over 2>&1 | grep -o "heap-buffer-overflow" | head -1; ./leak >leak.log 2>&1; echo $?; grep -o "LeakSanitizer: detected memory leaks" leak.log || cat leak.log; grep -o "77 byte(s) leaked" leak.log', out => qr/\Aheap-buffer-overflow\n1\nLeakSanitizer: detected memory leaks\n77 byte\(s\) leaked\n\z/},
	{name => 'cargo build and run', in => 'cargo', needs => ['cargo', 'rustc'], script => '/usr/bin/cargo run -q --offline', out => qr/\Asum 55\n\z/, env => {RUSTC => '/usr/bin/rustc'},
		# Nothing is compiled again: cargo goes by times too.
		again => '/usr/bin/cargo build --offline 2>&1 | grep -c Compiling; target/debug/tiny', again_out => qr/\A0\nsum 55\n\z/},
	{name => 'vim in ex mode', in => 'vim', needs => ['ex'], script => q{printf '%%s/two/TWO/\n$a\nfour\n.\nwq\n' | ex -s a.txt; cat a.txt; ls -A}, out => qr/\Aone\nTWO\nthree\nfour\na\.txt\n\z/, files => {'vim/a.txt' => qr/\Aone\nTWO\nthree\nfour\n\z/}},
	{name => 'strace', in => 'trace', needs => ['strace'], script => 'strace -f -e trace=openat,execve -o log sh -c "cat a.txt; true" && grep -c "a.txt.*O_RDONLY" log', out => qr/\Atraced\n1\n\z/},
	{name => 'bash job control', in => 'jobs', needs => ['bash'], script => <<'END',
bash -c 'set -m; sleep 60 & sleep 61 & kill -STOP %1; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; jobs | grep -q Stopped && break; done; jobs | sed "s/  */ /g"; kill %2; wait %2; echo "status $?"; kill -CONT %1; kill %1; wait %1; echo "status $?"; (exit 3) & fg >/dev/null; echo "fg $?"'
END
		out => qr/Stopped.*sleep 60.*Running.*sleep 61.*status 143.*status 143.*fg 3\n\z/s},
	{name => 'java', in => 'java', needs => ['java', 'javac'], script => 'javac Hello.java && java -Xmx200m Hello', out => qr/\Athread\ncores true\n\z/, files => {'java/out.txt' => qr/\Ajava\n\z/}},
	{name => 'python unittest, multiprocessing, temporary files', in => 'python', needs => ['python3'], script => '/usr/bin/python3 test_it.py 2>&1 | tail -1', out => qr/\AOK\n\z/},
	{name => 'ssh-keygen', in => 'keys', needs => ['ssh-keygen'], script => q{ssh-keygen -q -t ed25519 -N '' -C who -f key && ssh-keygen -y -f key | cut -d' ' -f1 && stat -c %a key}, out => qr/\Assh-ed25519\n600\n\z/, files => {'keys/key.pub' => qr/^ssh-ed25519 /},
		again => q{stat -c %a key && echo text >m && ssh-keygen -q -Y sign -n file -f key m && head -1 m.sig}, again_out => qr/\A600\n-----BEGIN SSH SIGNATURE-----\n/},
	{name => 'find, xargs, grep -r, sort, awk', in => 'search', needs => ['find', 'awk'], script => <<'END',
mkdir -p a/b/c && for i in $(seq 200); do echo "row $i $((i % 7))" >a/b/c/f$i; done; echo needle >>a/b/c/f77
grep -rl needle . && find a -type f -print0 | xargs -0 -P 4 -n 20 cat | awk '$1 == "row" { n[$3]++ } END { print n[0], n[1] }' && find a -name 'f1*' | wc -l && rm -r a && ls
END
		out => qr/\A\.\/a\/b\/c\/f77\n28 29\n111\n\z/},
	{name => 'a program on a terminal of its own', in => 'terminal', needs => ['script'], script => q{script -qec 'stty rows 33 cols 99; stty size; test -t 0 && test -t 1 && tty | cut -c1-9; echo $TERM | wc -l' typed </dev/null | tr -d '\r'}, out => qr{33 99\n/dev/pts/}, files => {'terminal/typed' => qr{/dev/pts/}}},
	{name => 'perl, fork, pipes, signals, sockets', in => 'perl', needs => ['perl'], script => <<'END',
perl -MIO::Socket::UNIX -e '$SIG{USR1} = sub { print "usr1\n"; exit 5 }; $| = 1; my $pid = fork; if (!$pid) { sleep 1 while 1 } select undef, undef, undef, 0.2; kill USR1 => $pid; waitpid $pid, 0; print $? >> 8, "\n";
	my $s = IO::Socket::UNIX->new(Local => "s", Listen => 1) or die $!; if (!fork) { my $c = IO::Socket::UNIX->new(Peer => "s"); print $c "over unix\n"; exit } print $s->accept->getline; unlink "s"; print getpwuid($<) ? "a name\n" : "no name\n"'
END
		out => qr/\Ausr1\n5\nover unix\na name\n\z/},
);

sub run_tool {
	my ($place, $tool) = @_;
	subtest "$tool->{name} ($place->{name})" => sub {
		my $reason = lacking(@{$tool->{needs}});
		plan skip_all => $reason if $reason;
		local $tool->{env} = {%{$tool->{env} || {}}, CLONE => clone_words($place)} if $tool->{in} eq 'git';
		my @options = (cwd => $tool->{in}, env => $tool->{env}, flags => [map { ('--env', "$_=$tool->{env}{$_}") } keys %{$tool->{env} || {}}]);
		my $r = in_place($place, {@options}, 'sh', '-c', $tool->{script});
		ok($r->{signal} == 0 && $r->{status} == 0, 'it ends well') or diag("status $r->{status} signal $r->{signal}");
		like($r->{out}, $tool->{out}, 'it says what it must') or diag($r->{err});
		like(file_of($place, $_) // '(not there)', $tool->{files}{$_}, $_) for sort keys %{$tool->{files} || {}};
		if ($tool->{again}) {
			$r = in_place($place, {@options}, 'sh', '-c', $tool->{again});
			like($r->{out}, $tool->{again_out}, 'the next command finds it so') or diag("status $r->{status}: $r->{err}");
		}
	};
}

prepare_git();
prepare_make();
prepare_npm();
prepare_pip();
prepare_small();
system('chmod', '-R', 'a+rX', $prepared) == 0 or die;

# The sanitized build shows what its own code does; the tools then need to run in one place only.
my @places = places();
@places = @places[0 .. 0] if program() =~ m{/build/(?!release|walls)};
# The slow ones run in three of the places: a small box of root's, layers and the folder of an ordinary user's.
my %slow = map { $_ => 1 } qw(npm pip cargo java debug memory);
sub is_wanted {
	my ($place, $tool) = @_;
	return 0 if index($tool->{name}, $only) < 0;
	return 1 if $place->{native} || $only ne '' || soak() > 1 || !$slow{$tool->{in}};
	return $place->{user} ? $place->{filler} : !$place->{filler};
}
for my $place (@places) {
	Run::make_place($place, $prepared);
	run_tool($place, $_) for grep { is_wanted($place, $_) } @tools;
	next if $place->{native};
	run_user($place->{user});
	like(cow_as('fsck'), qr/./, "the store is sound after it ($place->{name})");
}
done_testing();
