# Halide for the layers that use it: finds the pinned wheel and gives every such target the shared precompiled Halide.h.
include_guard(GLOBAL)

set(ATALLA_ENV "${PROJECT_SOURCE_DIR}/build/env" CACHE PATH "Python environment that holds the Halide wheel")

# A wheel keeps Halide's CMake package inside site-packages; -DHalide_DIR=... takes another installation.
if(NOT Halide_DIR)
    file(GLOB halide_packages "${ATALLA_ENV}/lib/python3*/site-packages/halide/lib64/cmake")
    if(NOT halide_packages)
        message(FATAL_ERROR "No Halide in ${ATALLA_ENV}: run ./atalla build, which installs it, or pass -DHalide_DIR=...")
    endif()
    list(GET halide_packages 0 halide_package)
    set(Halide_DIR "${halide_package}/Halide" CACHE PATH "Halide's CMake package")
    set(HalideHelpers_DIR "${halide_package}/HalideHelpers" CACHE PATH "Halide's helper CMake package")
endif()
find_package(Halide 21 REQUIRED COMPONENTS Halide shared)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)

# One compilation of Halide.h for all layers. OpenMP is part of it because a compiler accepts a precompiled header only under the
# language options it was made with.
set(ATALLA_HALIDE Halide::Halide OpenMP::OpenMP_CXX Threads::Threads)
atalla_precompiled(halide_pch DEPENDS ${ATALLA_HALIDE} HEADERS <Halide.h>)

# Halide and the code generator allocate small nodes all the time, on every thread: programs get an allocator made for that. The
# sanitizers bring their own.
if(NOT ATALLA_SANITIZE)
    find_library(JEMALLOC jemalloc REQUIRED)
    add_library(atalla_memory OBJECT "${PROJECT_SOURCE_DIR}/codegen/memory.cpp")
endif()

# The installed tools find libHalide.so beside the other installed parts of atalla-tune.
install(FILES $<TARGET_FILE:Halide::Halide> DESTINATION ${ATALLA_INSTALL_PRIVATE_LIBDIR})

# atalla_use_halide(target [pch]): links Halide and OpenMP and uses the precompiled headers of `pch`, by default Halide.h alone. Programs get
# the allocator as well.
function(atalla_use_halide target)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
        set(visibility PRIVATE)
        if(NOT ATALLA_SANITIZE)
            target_sources(${target} PRIVATE $<TARGET_OBJECTS:atalla_memory>)
            target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed ${JEMALLOC} -Wl,--pop-state)
        endif()
    else()
        set(visibility PUBLIC)
    endif()
    target_link_libraries(${target} ${visibility} ${ATALLA_HALIDE})
    set(pch halide_pch ${ARGN})
    list(GET pch -1 pch)
    target_precompile_headers(${target} REUSE_FROM atalla_${pch})
endfunction()

# atalla_halide_library(name SOURCES a.cpp ... DEPENDS other ...): an atalla_library that uses Halide.
function(atalla_halide_library name)
    atalla_library(${name} ${ARGN})
    atalla_use_halide(atalla_${name})
endfunction()
