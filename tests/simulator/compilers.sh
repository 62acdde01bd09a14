#!/bin/sh
# The simulator's values with both compilers at several levels of optimization. The digests that float_semantics_test.cpp expects
# are the same for all of them.
#
#     compilers.sh SOURCE_FOLDER WORK_FOLDER LIBRARY_OF_ISA
set -eu
source=$1 work=$2 isa=$3
one_compiler() {
    for level in O0 O2 O3; do
        "$source/tests/simulator/values.sh" "$source" "$work/$1-$level" "$1 -$level" "" "$isa -lgtest_main -lgtest -lfmt -lpthread" "" \
            float_semantics host_vectors numerics
        echo "$1 -$level: the same bits"
    done
}
one_compiler g++ &
other=$!
one_compiler clang++
wait $other
