# Helpers that keep the CMakeLists.txt of each layer to a list of files.
include_guard(GLOBAL)
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Where a prefix keeps what is nobody else's: shared libraries under lib, machine files and examples under share.
set(ATALLA_INSTALL_PRIVATE_LIBDIR ${CMAKE_INSTALL_LIBDIR}/atalla-tune)
set(ATALLA_INSTALL_DATADIR ${CMAKE_INSTALL_DATADIR}/atalla-tune)
file(RELATIVE_PATH ATALLA_BIN_TO_PRIVATE_LIB
    ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/atalla-tune)
set(CMAKE_INSTALL_RPATH "$ORIGIN/${ATALLA_BIN_TO_PRIVATE_LIB}")

# The sloppiness lets ccache serve files that use a precompiled header; base_dir lets checkouts share its entries.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE})
endif()

# The values that the simulator computes are defined bit for bit: no contraction to fused multiply-add.
# Position-independent code may still be inlined across functions: nobody interposes ours.
add_compile_options(-Wall -Wextra -ffp-contract=off -fno-semantic-interposition)

# Executables are compiled with -fPIC too, so that they can share the libraries' precompiled header.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

set(ATALLA_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")
if(ATALLA_SANITIZE)
    add_compile_options(-fsanitize=${ATALLA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${ATALLA_SANITIZE})
endif()

option(ATALLA_FUZZ "Build the fuzz targets as libFuzzer programs (needs clang)" OFF)
if(ATALLA_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "ATALLA_FUZZ needs clang's libFuzzer: configure with --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# atalla_library(name SOURCES a.cpp ... DEPENDS other ...): target atalla_<name>, include root is the source tree.
function(atalla_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
    add_library(atalla_${name} STATIC ${ARG_SOURCES})
    target_include_directories(atalla_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(atalla_${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# atalla_thin(target): its own sources are options, checks and text, which the libraries' time does not notice; with templates of
# other libraries they take half as long to compile with fewer optimizations.
function(atalla_thin target)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# atalla_precompiled(name DEPENDS library ... HEADERS <header> ...): headers that are compiled once for the targets that take them by
# target_precompile_headers(target REUSE_FROM atalla_<name>).
function(atalla_precompiled name)
    cmake_parse_arguments(ARG "" "" "DEPENDS;HEADERS" ${ARGN})
    set(source ${PROJECT_BINARY_DIR}/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Holds precompiled headers.\n")
    add_library(atalla_${name} STATIC ${source})
    target_link_libraries(atalla_${name} PUBLIC ${ARG_DEPENDS})
    target_precompile_headers(atalla_${name} PRIVATE ${ARG_HEADERS})
endfunction()

# atalla_tool(name [HALIDE] [SOURCES more.cpp ...] DEPENDS ...): tools/<name>.cpp becomes the installed program atalla-<name>.
# HALIDE, here and below: the sources include Halide.h.
function(atalla_tool name)
    cmake_parse_arguments(ARG "HALIDE" "" "SOURCES;DEPENDS" ${ARGN})
    add_executable(atalla-${name} ${name}.cpp ${ARG_SOURCES})
    target_link_libraries(atalla-${name} PRIVATE ${ARG_DEPENDS})
    atalla_thin(atalla-${name})
    if(ARG_HALIDE)
        atalla_use_halide(atalla-${name} halide_tool_pch)
    else()
        target_precompile_headers(atalla-${name} REUSE_FROM atalla_tool_pch)
    endif()
    install(TARGETS atalla-${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# atalla_test_program(name [HALIDE] SOURCES a.cpp ... DEPENDS ...): GoogleTest program test_<name>.
function(atalla_test_program name)
    cmake_parse_arguments(ARG "HALIDE" "" "SOURCES;DEPENDS" ${ARGN})
    add_executable(test_${name} ${ARG_SOURCES})
    target_link_libraries(test_${name} PRIVATE ${ARG_DEPENDS} atalla_source_path GTest::gtest_main GTest::gmock fmt::fmt)
    atalla_thin(test_${name})
    if(ARG_HALIDE)
        atalla_use_halide(test_${name} halide_test_pch)
    else()
        target_precompile_headers(test_${name} REUSE_FROM atalla_test_pch)
    endif()
endfunction()

# atalla_test_run(name program [LONG] [SETTINGS NAME=value ...]): a ctest entry that runs test_<program>, with variables of the environment that
# tests/support/settings.h reads. LONG: left out of `./atalla test` unless it is given --long.
function(atalla_test_run name program)
    cmake_parse_arguments(ARG "LONG" "" "SETTINGS" ${ARGN})
    add_test(NAME ${name} COMMAND test_${program})
    atalla_test_properties(${name})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${ARG_SETTINGS})
    if(ARG_LONG)
        set_tests_properties(${name} PROPERTIES LABELS long TIMEOUT 7200)
    endif()
endfunction()

# atalla_test(name [HALIDE] SOURCES a.cpp ... DEPENDS ...): a program and one ctest entry that runs it.
function(atalla_test name)
    atalla_test_program(${name} ${ARGN})
    atalla_test_run(${name} ${name})
endfunction()

function(atalla_test_properties name)
    set_tests_properties(${name} PROPERTIES TIMEOUT 900)
    if(ATALLA_SANITIZE)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_container_overflow=0 UBSAN_OPTIONS=print_stacktrace=1)
    endif()
endfunction()

# atalla_bench(name [HALIDE] SOURCES a.cpp ... DEPENDS ...): program bench_<name>, run by `./atalla bench [name]`.
function(atalla_bench name)
    cmake_parse_arguments(ARG "HALIDE" "" "SOURCES;DEPENDS" ${ARGN})
    add_executable(bench_${name} ${ARG_SOURCES})
    target_link_libraries(bench_${name} PRIVATE ${ARG_DEPENDS} atalla_source_path benchmark::benchmark)
    if(ARG_HALIDE)
        atalla_use_halide(bench_${name})
    endif()
    set_property(GLOBAL APPEND PROPERTY ATALLA_BENCHES ${name})
endfunction()

# atalla_fuzz(name SOURCES a.cpp [SEEDS folder ...] DEPENDS ...): a source with LLVMFuzzerTestOneInput becomes
# fuzz_<name>, whose ctest entry starts from the files of corpus/<name> and of the seed folders. With ATALLA_FUZZ it is a
# libFuzzer program that explores for a minute; without, it replays the files and small changes of them.
function(atalla_fuzz name)
    cmake_parse_arguments(ARG "" "" "SOURCES;SEEDS;DEPENDS" ${ARGN})
    add_executable(fuzz_${name} ${ARG_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPENDS})
    atalla_thin(fuzz_${name})
    set(inputs ${ARG_SEEDS})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
        list(APPEND inputs ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    endif()
    if(ATALLA_FUZZ)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        set(found ${CMAKE_CURRENT_BINARY_DIR}/${name})
        file(MAKE_DIRECTORY ${found})
        add_test(NAME fuzz_${name} COMMAND fuzz_${name} -max_total_time=60 -timeout=10 ${found} ${inputs})
    else()
        target_sources(fuzz_${name} PRIVATE replay.cpp)
        add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${inputs})
    endif()
    atalla_test_properties(fuzz_${name})
endfunction()
