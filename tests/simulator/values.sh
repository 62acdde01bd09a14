#!/bin/sh
# Compiles what computes the simulator's values, with tests of it, and runs those.
#
#     values.sh SOURCE_FOLDER WORK_FOLDER "COMPILER AND FLAGS" "MORE SOURCES" "LIBRARIES" "RUNNER" TEST ...
#
# TEST is the name of a file, NAME_test.cpp of this folder. What was compiled before and did not change is kept.
set -eu
source=$1 work=$2 compiler=$3 more=$4 libraries=$5 runner=$6
shift 6
mkdir -p "$work"
cd "$source"
objects=
for file in simulator/lanes.cpp simulator/machine_state.cpp simulator/memory.cpp simulator/numerics.cpp simulator/refusal.cpp \
    simulator/semantics.cpp tests/support/source_path.cpp $(printf 'tests/simulator/%s_test.cpp ' "$@") $more; do
    object=$work/$(echo "$file" | tr / _).o
    objects="$objects $object"
    newer=$(find isa simulator tests/simulator tests/support "$file" -newer "$object" \( -name '*.h' -o -path "$file" \) 2>&1 | head -n 1)
    [ -z "$newer" ] && continue
    $compiler -std=c++20 -ffp-contract=off -DATALLA_SOURCE_DIR="\"$source\"" -I. -c "$file" -o "$object"
done
$compiler $objects -o "$work/tests" $libraries
$runner "$work/tests" --gtest_brief=1
