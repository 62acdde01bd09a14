# The pipelines of the tests, what runs and compares them, and the host's answer to them: also for the tests of the layers
# from code generation up.
add_library(atalla_test_pipelines STATIC kernel_check.cpp pipelines.cpp)
target_link_libraries(atalla_test_pipelines PUBLIC atalla_generators GTest::gtest)
atalla_use_halide(atalla_test_pipelines)

atalla_test(generators_pipelines HALIDE SOURCES pipelines_test.cpp DEPENDS atalla_test_pipelines)
