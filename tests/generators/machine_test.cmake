# atalla_machine_test(name [LONG_ROUNDS n] SOURCES a.cpp ... DEPENDS ...): a program and an entry of ctest for each machine, <name>_<machine>. With
# LONG_ROUNDS also <name>_long_<machine>, behind --long.
function(atalla_machine_test name)
    cmake_parse_arguments(ARG "" "LONG_ROUNDS" "SOURCES;DEPENDS" ${ARGN})
    atalla_test_program(${name} HALIDE SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS})
    foreach(machine ax01 ax01-psum fsim)
        string(MAKE_C_IDENTIFIER ${machine} suffix)
        atalla_test_run(${name}_${suffix} ${name} SETTINGS ATALLA_TEST_MACHINE=${machine})
        if(ARG_LONG_ROUNDS)
            atalla_test_run(${name}_long_${suffix} ${name} LONG SETTINGS ATALLA_TEST_MACHINE=${machine} ATALLA_TEST_ROUNDS=${ARG_LONG_ROUNDS})
        endif()
    endforeach()
endfunction()
