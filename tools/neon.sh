#!/bin/sh
# Builds the libraries for 64-bit ARM and runs the tests of the kernels and layers under qemu-user. Needs Debian, and
# root (or sudo) for the cross compiler and the emulator; ARM's libraries are only unpacked, into $QKV_ARM64_SYSROOT or
# /opt/arm64-sysroot, so that this machine's own packages stay as they are.
set -eu
cd "$(dirname "$0")/.."

sysroot=${QKV_ARM64_SYSROOT:-/opt/arm64-sysroot}
tools/setup.sh build neon
# The libraries that a build and its tests need, as this machine has them too.
packages=$(tools/setup.sh --list build test | grep -- '-dev$' | grep -v '^dpkg-dev$' | sort)

# Unpacks the packages and what they need, but not the C library's development files: the cross compiler has its own.
fill_sysroot() {
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"
  # shellcheck disable=SC1091
  . /etc/os-release
  echo "deb http://deb.debian.org/debian $VERSION_CODENAME main" > "$tmp/sources.list"
  cat > "$tmp/apt.conf" << END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::Etc::sourcelist "$tmp/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$tmp/lists";
Dir::State::status "/dev/null";
Dir::Cache "$tmp/cache";
Debug::NoLocking "true";
END
  echo "neon: unpacking arm64 libraries into $sysroot" >&2
  APT_CONFIG=$tmp/apt.conf apt-get update -qq
  # shellcheck disable=SC2086
  APT_CONFIG=$tmp/apt.conf apt-get install -qq -y --download-only --no-install-recommends $packages > /dev/null
  mkdir -p "$sysroot"
  for package in "$tmp"/cache/archives/*.deb; do
    case $(basename "$package") in
      libc6-dev_* | libc-dev-bin_* | linux-libc-dev_* | libcrypt-dev_* | libnsl-dev_* | libtirpc-dev_*) ;;
      *) dpkg-deb -x "$package" "$sysroot" ;;
    esac
  done
  # Links that begin at the root begin at the sysroot's.
  find "$sysroot" -type l -lname '/*' | while read -r link; do
    ln -snf "$sysroot$(readlink "$link")" "$link"
  done
  echo "$packages" > "$sysroot/.packages"
}
[ "$(cat "$sysroot/.packages" 2> /dev/null)" = "$packages" ] || fill_sysroot

jobs=${JOBS:-$(nproc)}
cmake --preset neon > /dev/null
cmake --build --preset neon -j "$jobs" --target qkv_core_test qkv_simd_test qkv_attention_test qkv_nn_test qkv_image_test
# Without what measures the machine, which is not this one.
python3 tools/run_tests.py build/neon -j "$jobs" -R '^(core|simd|attention|nn|image)\.' -E '^attention\.PlanTime' "$@"
