#!/bin/sh
# What cmake --install puts in place is enough to build docs/examples/train.c, by pkg-config and by find_package, also after
# the prefix was moved; the programs start, and without a daemon say so.
set -u
source=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(dirname "$CKPT_BUILD")
top=$(mktemp -d) || exit 1
trap 'rm -rf "$top"' EXIT
cases=0

case_of() { # NAME COMMAND...
	name=$1
	shift
	cases=$((cases + 1))
	if "$@" >"$top/log" 2>&1; then
		echo "ok $cases - $name"
	else
		echo "not ok $cases - $name"
		sed 's/^/# /' "$top/log"
	fi
}

install() {
	cmake --install "$build" --prefix "$top/first" && mv "$top/first" "$top/prefix"
}

# The directory below the prefix that holds it.
library_dir() {
	dirname "$(find "$top/prefix" -name libckpt.so)"
}

by_pkg_config() {
	lib=$(library_dir)
	flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --cflags --libs ckpt) || return 1
	# As docs/tutorial/training-loop.md says.
	folder=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --variable=libdir ckpt) || return 1
	# shellcheck disable=SC2086 # flags are words
	cc -std=c11 -Wall -Wextra -Werror "$source/docs/examples/train.c" $flags -Wl,-rpath,"$folder" -o "$top/train-pc"
}

# What reads a store, and finds none: exit 1 and the sentence.
reads() { # FLAGS…
	cc -std=c11 -Wall -Wextra -Werror "$source/docs/examples/read.c" "$@" -o "$top/read" || return 1
	"$top/read" "$top/nowhere" >"$top/out" 2>&1
	status=$?
	cat "$top/out"
	[ $status -eq 1 ] && grep -q "there is no repository at $top/nowhere" "$top/out"
}

reader_by_pkg_config() {
	lib=$(library_dir)
	flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --cflags --libs ckptreader) || return 1
	# shellcheck disable=SC2086 # flags are words
	reads $flags -Wl,-rpath,"$lib"
}

# Nothing but itself and what it is made of: no daemon's database, no TLS.
reader_needs_little() {
	ldd "$(library_dir)/libckptreader.so" | grep -E "sqlite|ssl|crypto|fabric|microhttpd|libckpt\.so" && return 1
	return 0
}

reader_by_static() {
	lib=$(library_dir)
	flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --static --cflags --libs ckptreader) || return 1
	# shellcheck disable=SC2086 # flags are words
	reads -static $flags
}

# A program of which nothing is looked for at its start, and that has names of its own like the library's inner ones.
by_static() {
	lib=$(library_dir)
	flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --static --cflags --libs ckpt) || return 1
	printf 'int err_set(void);\nint err_set(void) { return 1; }\nint clock_now(void);\nint clock_now(void) { return 1; }\n' >"$top/own.c"
	# shellcheck disable=SC2086 # flags are words
	cc -std=c11 -static "$source/docs/examples/train.c" "$top/own.c" $flags -o "$top/train-static" || return 1
	! ldd "$top/train-static"
}

# Of what the archive has only the calls of the header can be seen.
shows_calls_only() { # LIBRARY MAP
	nm -g --defined-only "$(library_dir)/$1" | awk 'NF == 3 { print $3 }' | sort >"$top/shown"
	sed -n 's/^\t\(ckpt_[a-z_]*\);$/\1/p' "$source/libckpt/$2" | sort | diff - "$top/shown"
}

as_cxx() {
	lib=$(library_dir)
	cat >"$top/use.cc" <<-'END'
		#include <ckpt_reader.h>
		#include <cstring>
		static ckpt_restored restored = CKPT_INIT(ckpt_restored);
		template <typename T> bool blank(const T &t)
		{
			T zero;
			std::memset(&zero, 0, sizeof(zero));
			zero.size = sizeof(zero);
			return !std::memcmp(&t, &zero, sizeof(t));
		}
		int main()
		{
			const ckpt_options o = CKPT_INIT(ckpt_options);
			ckpt_tensor t = CKPT_INIT(ckpt_tensor);
			ckpt_view v;
			v = CKPT_INIT(ckpt_view);
			return blank(o) && blank(t) && blank(v) && blank(restored) && ckpt_version()[0] ? 0 : 1;
		}
	END
	for compiler in c++ clang++; do
		command -v "$compiler" >/dev/null || continue
		for standard in c++11 c++20; do
			"$compiler" -std=$standard -Wall -Wextra -Wpedantic -Werror "$top/use.cc" -I"$top/prefix/include" -L"$lib" -lckpt \
				-Wl,-rpath,"$lib" -o "$top/use" && "$top/use" || return 1
		done
	done
}

by_find_package() {
	mkdir -p "$top/project" && cat >"$top/project/CMakeLists.txt" <<-END
		cmake_minimum_required(VERSION 3.25)
		project(user C)
		find_package(ckpt 0.1 REQUIRED)
		add_executable(train $source/docs/examples/train.c)
		target_link_libraries(train PRIVATE ckpt::ckpt)
		add_executable(read $source/docs/examples/read.c)
		target_link_libraries(read PRIVATE ckpt::ckptreader)
	END
	cmake -S "$top/project" -B "$top/project/build" -DCMAKE_PREFIX_PATH="$top/prefix" && cmake --build "$top/project/build"
}

# Prints the version of the library and stops, since nobody listens: exit 2, not a crash.
starts() { # PROGRAM
	CKPT_SOCKET="$top/nobody" CKPT_TIMEOUT_MS=50 timeout 20 "$1" >"$top/out" 2>&1
	status=$?
	cat "$top/out"
	[ $status -eq 2 ] && grep -q "^libckpt [0-9]*\.[0-9]*\.[0-9]*$" "$top/out" && grep -q "no daemon listens" "$top/out"
}

version_is_the_same_everywhere() {
	pc=$(PKG_CONFIG_PATH="$(library_dir)/pkgconfig" pkg-config --modversion ckpt)
	grep -qx "libckpt $pc" "$top/out" || { echo "pkg-config says $pc"; return 1; }
}

case_of "install" install
case_of "pkg-config builds the example" by_pkg_config
case_of "the example starts" starts "$top/train-pc"
case_of "ckpt.pc and the library are of one version" version_is_the_same_everywhere
case_of "find_package builds the examples" by_find_package
case_of "that one starts, too" starts "$top/project/build/train"
case_of "pkg-config --static builds the example" by_static
case_of "and that one starts" starts "$top/train-static"
case_of "the static library shows its calls only" shows_calls_only libckpt.a ckpt.map
case_of "pkg-config builds the example of the reader, which starts" reader_by_pkg_config
case_of "so with --static" reader_by_static
case_of "the static reader shows its calls only" shows_calls_only libckptreader.a ckpt_reader.map
case_of "the reader needs little" reader_needs_little
case_of "the header serves C++" as_cxx
echo "1..$cases"
