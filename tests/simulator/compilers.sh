#!/bin/sh
# The simulator's values with both compilers at several levels of optimization. The digests that float_semantics_test.cpp expects
# are the same for all of them.
#
#     compilers.sh SOURCE_FOLDER CMAKE WORK_FOLDER
set -eu
source=$1 cmake=$2 work=$3
for compiler in g++ clang++; do
    for level in O0 O2 O3; do
        build=$work/$compiler-$level
        "$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=$compiler \
            -DCMAKE_CXX_FLAGS=-$level "-DATALLA_LAYERS=isa;simulator" -DATALLA_BENCH=OFF >"$work-$compiler-$level.log" 2>&1 ||
            { cat "$work-$compiler-$level.log"; exit 1; }
        "$cmake" --build "$build" --target test_simulator_float_semantics test_simulator_host_vectors
        for test in float_semantics host_vectors; do
            "$build/bin/test_simulator_$test" --gtest_brief=1
        done
        echo "$compiler -$level: the same bits"
    done
done
