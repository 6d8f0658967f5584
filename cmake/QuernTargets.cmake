# Two helpers so that each folder's CMakeLists.txt only says what it holds and what it links.
include_guard()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

add_library(quern_flags INTERFACE)
# -ffp-contract=off: results are defined to the bit, so a multiply-add is fused only where the code says so.
target_compile_options(quern_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -ffp-contract=off)
target_include_directories(quern_flags INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
target_link_libraries(quern_flags INTERFACE Threads::Threads)
if(QUERN_SANITIZE)
  target_compile_options(quern_flags INTERFACE
    -fsanitize=${QUERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE})
  if(QUERN_SANITIZE MATCHES "thread")
    # Asio's fences are not modelled by ThreadSanitizer; its locks, which order our data, are.
    target_compile_options(quern_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

# quern_library(<folder name> SOURCES a.cc b.cc LINKS base numerics PRIVATE_LINKS hwy)
# makes library quern_<folder name>, alias quern::<folder name>.
function(quern_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(quern_${name} STATIC ${ARG_SOURCES})
  add_library(quern::${name} ALIAS quern_${name})
  target_link_libraries(quern_${name} PUBLIC quern_flags)
  foreach(link IN LISTS ARG_LINKS)
    target_link_libraries(quern_${name} PUBLIC ${link})
  endforeach()
  target_link_libraries(quern_${name} PRIVATE ${ARG_PRIVATE_LINKS})
endfunction()

if(QUERN_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# quern_test(<name> SOURCES a_test.cc b_test.cc LINKS quern::base [LABELS slow] [TIMEOUT seconds])
# makes program <name> and registers it as one ctest test.
function(quern_test name)
  if(NOT QUERN_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gmock_main)
  target_compile_definitions(${name} PRIVATE QUERN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  # A scratch folder of its own: the same test of another build may run at this moment.
  set(scratch "${CMAKE_BINARY_DIR}/test-tmp/${name}")
  file(MAKE_DIRECTORY "${scratch}")
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" ENVIRONMENT "TEST_TMPDIR=${scratch}")
  if(ARG_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()

# quern_fuzzer(<name> SOURCES x_fuzz.cc LINKS quern::text CORPUS dir)
# A libFuzzer target; under ctest it runs its corpus plus 20 seconds of new inputs.
function(quern_fuzzer name)
  if(NOT QUERN_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  # New inputs go to a scratch folder; the committed corpus is only read.
  set(scratch "${CMAKE_BINARY_DIR}/fuzz/${name}")
  file(MAKE_DIRECTORY "${scratch}")
  add_test(NAME ${name} COMMAND ${name} "${scratch}" "${ARG_CORPUS}"
           -max_total_time=20 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1)
  set_tests_properties(${name} PROPERTIES LABELS fuzz)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${name})
endfunction()
