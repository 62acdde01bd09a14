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
tests="float_semantics host_vectors numerics scalar vector"
objects=
for file in isa/*.cpp simulator/lanes.cpp simulator/machine_state.cpp simulator/memory.cpp simulator/numerics.cpp simulator/refusal.cpp \
    simulator/semantics.cpp tests/support/*.cpp $(for test in $tests; do echo tests/simulator/${test}_test.cpp; done) \
    $google/googletest/src/gtest-all.cc $google/googlemock/src/gmock-all.cc $google/googlemock/src/gmock_main.cc; do
    object=$work/$(echo "$file" | tr / _).o
    objects="$objects $object"
    [ "$object" -nt "$file" ] && continue
    aarch64-linux-gnu-g++ -std=c++20 -O2 -ffp-contract=off -DFMT_HEADER_ONLY -DATALLA_SOURCE_DIR="\"$source\"" \
        -DATALLA_MACHINES_FOLDER="\"$source/machines\"" -I. -I"$work/include" \
        -I$google/googletest/include -I$google/googletest -I$google/googlemock/include -I$google/googlemock -c "$file" -o "$object"
done
aarch64-linux-gnu-g++ -static $objects -o "$work/tests"
qemu-aarch64-static "$work/tests" --gtest_brief=1
