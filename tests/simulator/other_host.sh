#!/bin/sh
# The simulator's values on a host of another kind: 64-bit ARM, compiled by Debian's cross compiler and run by qemu
# (g++-aarch64-linux-gnu, qemu-user-static). Exit status 77 where they are not installed.
#
#     other_host.sh SOURCE_FOLDER WORK_FOLDER
set -eu
source=$1 work=$2
command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null || exit 77
mkdir -p "$work/include"
# Only these headers: others of this host are not those of the other one.
for library in fmt nlohmann; do ln -sfn /usr/include/$library "$work/include/$library"; done
google=/usr/src/googletest
cd "$source"
exec tests/simulator/values.sh "$source" "$work" \
    "aarch64-linux-gnu-g++ -O2 -static -DFMT_HEADER_ONLY -DATALLA_MACHINES_FOLDER=\"$source/machines\" -I$work/include
     -I$google/googletest/include -I$google/googletest -I$google/googlemock/include -I$google/googlemock" \
    "$(echo isa/*.cpp) $google/googletest/src/gtest-all.cc $google/googlemock/src/gmock-all.cc $google/googlemock/src/gmock_main.cc" \
    "" qemu-aarch64-static float_semantics host_vectors numerics scalar vector
