#!/bin/sh
# The .debs: made by CPack, checked by lintian where it is there, installed by dpkg below a root of their own, run.
. "$(dirname "$0")/support.sh"
for tool in dpkg dpkg-shlibdeps file; do
  command -v $tool > /dev/null || {
    echo "skipped: no $tool here"
    exit 77
  }
done
"$CPACK" --config "$build/CPackConfig.cmake" -B "$tmp/debs" > "$tmp/log" 2>&1 || fail "$(cat "$tmp/log")"
program=$(echo "$tmp"/debs/qkv_*.deb)
library=$(echo "$tmp"/debs/libqkv-dev_*.deb)

# What the program is linked with is among the dependencies, and each of them is installed here.
depends=$(dpkg-deb -f "$program" Depends)
for name in libfmt9 libpng16-16 libjpeg62-turbo; do
  ! dpkg-query -W $name > /dev/null 2>&1 || case $depends in
    *$name*) ;;
    *) fail "$name is not among the dependencies: $depends" ;;
  esac
done

# What it loads when it is used (HEIC, AVIF; slides and their vectors) comes along, and is not linked.
for name in libheif libopenslide libhdf5; do
  dpkg-deb -f "$program" Recommends | grep -q $name || fail "qkv does not recommend $name"
  case $depends in
    *$name*) fail "qkv is linked with $name: $depends" ;;
  esac
done

# Below a root of its own: the system's database of packages is not touched. dpkg must be root to give files to root.
root=$tmp/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers" "$root/var/log"
: > "$root/var/lib/dpkg/status"
if [ "$(id -u)" -eq 0 ]; then
  dpkg --root="$root" --log=/dev/null --force-depends --install "$program" "$library" > "$tmp/log" 2>&1 ||
    fail "$(cat "$tmp/log")"
  for package in qkv libqkv-dev; do
    expect "install ok installed" dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Status}' "$package"
  done
else
  dpkg-deb -x "$program" "$root"
  dpkg-deb -x "$library" "$root"
fi
for package in qkv libqkv-dev; do
  [ -s "$root/usr/share/doc/$package/copyright" ] || fail "$package has no copyright file"
done
"$root/usr/bin/qkv" --version > /dev/null || fail "the installed program does not start"
"$root/usr/bin/qkv" classify --json "$source/examples/digits/7-white.png" 2> /dev/null | grep -q '"label": *"7"' ||
  fail "the installed program misreads a digit"
[ "$("$root/usr/bin/qkv" translate "development files" 2> /dev/null)" = "file di sviluppo" ] ||
  fail "the installed program does not translate"
python3 "$source/tools/check_hardening.py" "$root/usr/bin/qkv" "$(find "$root/usr/lib" -name qkv_openslide)" ||
  fail "the installed program is not hardened"
for file in share/man/man1/qkv.1.gz share/bash-completion/completions/qkv \
  share/zsh/vendor-completions/_qkv share/fish/vendor_completions.d/qkv.fish include/qkv/qkv.h; do
  [ -s "$root/usr/$file" ] || fail "$file is missing"
done

# Training by several processes, where MPI was there when this was built.
if [ -e "$build/qkv_mpi.so" ]; then
  mpi=$(echo "$tmp"/debs/qkv-mpi_*.deb)
  dpkg-deb -x "$mpi" "$root"
  python3 "$source/tools/check_hardening.py" "$(find "$root/usr/lib" -name qkv_mpi.so)" || fail "the module is not hardened"
  dpkg-deb -f "$mpi" Depends | grep -q 'libopenmpi' || fail "qkv-mpi does not depend on MPI"
  ! dpkg-deb -f "$program" Depends | grep -q 'libopenmpi' || fail "qkv depends on MPI"
  if command -v mpirun > /dev/null; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 \
      "$root/usr/bin/qkv" train "$tmp/nothing" -o "$tmp/run" > "$tmp/log" 2>&1 || true
    grep -q "$tmp/nothing" "$tmp/log" || fail "the installed program does not find its module: $(cat "$tmp/log")"
  fi
else
  mpi=
fi

if command -v lintian > /dev/null; then
  lintian --fail-on error "$program" "$library" ${mpi:+"$mpi"} || fail "lintian finds errors"
fi
