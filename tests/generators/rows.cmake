# Softmax, normalizations, reductions and pooling: a few random shapes each, and forty behind --long.
foreach(machine ax01 ax01-psum fsim)
    string(MAKE_C_IDENTIFIER ${machine} name)
    atalla_test(rows_${name} HALIDE SOURCES rows_test.cpp DEPENDS atalla_generators)
    target_compile_definitions(test_rows_${name} PRIVATE ATALLA_TEST_MACHINE="${machine}" ATALLA_TEST_ROUNDS=2)
    atalla_test(rows_long_${name} HALIDE LONG SOURCES rows_test.cpp DEPENDS atalla_generators)
    target_compile_definitions(test_rows_long_${name} PRIVATE ATALLA_TEST_MACHINE="${machine}" ATALLA_TEST_ROUNDS=40)
endforeach()
