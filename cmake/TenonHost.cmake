# SPDX-License-Identifier: Apache-2.0
#
# The functions with which the folders of host/ and tests/ describe themselves.

# Precompiled headers: two for host/, libtorch's and that of JSON, and two for tests, which have Catch2
# and JSON too. Each holds what nearly all of its users need, and no more: a larger one costs each
# user more than it saves.
function(_tenon_precompiled name)  # NAME LINK target ... HEADERS header ...
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK;HEADERS")
  set(source ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Carries a precompiled header.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()
if(TENON_PCH)
  # One setting of libstdc++ for everything: a precompiled header is not used with another.
  get_target_property(_abi tenon::torch_cpu INTERFACE_COMPILE_DEFINITIONS)
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:${_abi}>)
  set(_torch_headers <ATen/ATen.h> <torch/csrc/autograd/autograd.h>)
  set(_test_headers ${PROJECT_SOURCE_DIR}/tests/support/json_templates.hpp
                    ${PROJECT_SOURCE_DIR}/tests/support/catch.hpp)
  _tenon_precompiled(tenon_torch_pch LINK tenon::torch_cpu HEADERS ${_torch_headers})
  _tenon_precompiled(tenon_json_pch LINK tenon::nlohmann_json HEADERS <nlohmann/json.hpp>)
  if(TENON_TESTS)
    _tenon_precompiled(tenon_test_pch LINK tenon::nlohmann_json tenon::catch2
                       HEADERS ${_test_headers})
    target_compile_options(tenon_test_pch PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)  # as its users
    _tenon_precompiled(tenon_torch_test_pch LINK tenon::torch_cpu tenon::nlohmann_json tenon::catch2
                       HEADERS ${_torch_headers} ${_test_headers})
  endif()
endif()

# Sets `out` to what a source includes, itself or through headers of this tree: "torch", "json",
# "catch".
# `file` is relative to the root.
function(_tenon_seen_by file out)
  get_property(is_known GLOBAL PROPERTY "TENON_SEEN_${file}" SET)
  if(NOT is_known)
    set(seen "")
    if(EXISTS ${PROJECT_SOURCE_DIR}/${file})
      file(STRINGS ${PROJECT_SOURCE_DIR}/${file} lines REGEX "^#include ")
      foreach(line IN LISTS lines)
        if(line MATCHES "<(ATen|torch)/")
          list(APPEND seen torch)
        elseif(line MATCHES "<c10/")
          list(APPEND seen c10)
        elseif(line MATCHES "<(nlohmann/json\\.hpp|valijson/)")
          list(APPEND seen json)
        elseif(line MATCHES "<catch2/")
          list(APPEND seen catch)
        elseif(line MATCHES "\"((host|tests)/[^\"]+)\"")
          _tenon_seen_by(${CMAKE_MATCH_1} below)
          list(APPEND seen ${below})
        endif()
      endforeach()
      list(REMOVE_DUPLICATES seen)
    endif()
    set_property(GLOBAL PROPERTY "TENON_SEEN_${file}" "${seen}")
  endif()
  get_property(seen GLOBAL PROPERTY "TENON_SEEN_${file}")
  set(${out} ${seen} PARENT_SCOPE)
endfunction()

# Lets each source of `target` that sees `seen`, and none of the words after `name`, share the
# precompiled header `name`. The others must not pay for it: libtorch's has 400 MB.
function(_tenon_precompile target seen name)
  if(NOT TARGET ${name})
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(is_used FALSE)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE file)
    _tenon_seen_by(${file} words)
    set(is_sharing FALSE)
    if(seen IN_LIST words)
      set(is_sharing TRUE)
      foreach(word IN LISTS ARGN)
        if(word IN_LIST words)
          set(is_sharing FALSE)
        endif()
      endforeach()
    endif()
    if(is_sharing)
      set(is_used TRUE)
    else()
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if(is_used)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# How many sources are compiled as one. Reading and instantiating what they all include takes most
# of the time of each: 16 files of host/train take 19 s in two parts and 16 s in one, of its tests 26 s
# and 18 s.
set(_tenon_joined_at_once 16)

# Sets `out` to `sources`, in which those that compile alike are replaced by files below
# <build>/joined that include them. Names in anonymous namespaces must therefore be unique in a
# target.
#   APART           folders and files that are not joined
#   COLD, PARALLEL  as for tenon_host_library
function(_tenon_join target out)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;APART;COLD;PARALLEL")
  set(result "")
  set(groups "")
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE
               OUTPUT_VARIABLE file)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(group warm)
    foreach(folder IN LISTS arg_COLD)
      if(folder STREQUAL "." OR source MATCHES "^${folder}/")
        set(group cold)
      endif()
    endforeach()
    set(is_joined ${TENON_JOIN})
    foreach(folder IN LISTS arg_APART)
      if(source STREQUAL folder OR source MATCHES "^${folder}/")
        set(is_joined OFF)
      endif()
    endforeach()
    if(source IN_LIST arg_PARALLEL)
      set(group parallel)
    endif()
    if(is_joined AND NOT group STREQUAL "parallel")
      _tenon_seen_by(${file} words)
      foreach(word torch c10 json catch)  # as _tenon_precompile() distinguishes them
        if(word IN_LIST words)
          string(APPEND group -${word})
          break()
        endif()
      endforeach()
    endif()
    if(is_joined)
      list(APPEND groups ${group})
      list(APPEND files_${group} ${file})
    else()
      list(APPEND result ${source})
      list(APPEND result_${group} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    list(LENGTH files_${group} length)
    math(EXPR last "${length} - 1")
    foreach(begin RANGE 0 ${last} ${_tenon_joined_at_once})
      list(SUBLIST files_${group} ${begin} ${_tenon_joined_at_once} files)
      list(TRANSFORM files REPLACE "(.+)" "#include \"\\1\"\n")
      list(JOIN files "" text)
      set(joined ${PROJECT_BINARY_DIR}/joined/${target}/${group}-${begin}.cpp)
      file(CONFIGURE OUTPUT ${joined} @ONLY CONTENT "// Joined by _tenon_join().\n${text}")
      # gcc decides by the main file whether a type with members of an anonymous namespace is shared.
      set_property(SOURCE ${joined} APPEND PROPERTY COMPILE_OPTIONS
                   $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
      list(APPEND result ${joined})
      string(REGEX MATCH "^[a-z]+" heat ${group})
      list(APPEND result_${heat} ${joined})
    endforeach()
  endforeach()
  if(result_parallel AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_property(SOURCE ${result_parallel} APPEND PROPERTY COMPILE_OPTIONS -fopenmp)
    set_property(SOURCE ${result_parallel} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(result_cold)
    set_property(SOURCE ${result_cold} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# For programs of tests/ that are made with add_executable().
function(_tenon_use_torch target)
  _tenon_precompile(${target} torch tenon_torch_pch)
endfunction()

# Facts of the build: <tenon_build.hpp>, from tenon::build_info. The program and its modules share
# classes, so that both must be of one version and one text of the header.
set(_gpu_header ${PROJECT_SOURCE_DIR}/host/device/gpu.hpp)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_gpu_header})
file(SHA256 ${_gpu_header} TENON_GPU_HEADER)
string(SUBSTRING ${TENON_GPU_HEADER} 0 8 TENON_GPU_HEADER)
set(_parquet_header ${PROJECT_SOURCE_DIR}/host/embedding/parquet_module.hpp)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_parquet_header})
file(SHA256 ${_parquet_header} TENON_PARQUET_HEADER)
string(SUBSTRING ${TENON_PARQUET_HEADER} 0 8 TENON_PARQUET_HEADER)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/include/tenon_build.hpp @ONLY CONTENT
"// Written by CMake.
#pragma once
namespace tenon {
inline constexpr char kVersion[] = \"@PROJECT_VERSION@\";
inline constexpr char kTorchVersion[] = \"@TENON_TORCH_VERSION@\";
inline constexpr char kTorchFingerprint[] = \"@TENON_TORCH_FINGERPRINT@\";
inline constexpr char kGpuModuleBuild[] =
    \"@PROJECT_VERSION@ (@TENON_GPU_HEADER@), libtorch @TENON_TORCH_FINGERPRINT@\";
inline constexpr char kParquetModuleBuild[] = \"@PROJECT_VERSION@ (@TENON_PARQUET_HEADER@)\";
}  // namespace tenon
")
add_library(tenon_build_info INTERFACE)
add_library(tenon::build_info ALIAS tenon_build_info)
target_include_directories(tenon_build_info INTERFACE ${PROJECT_BINARY_DIR}/generated/include)

# tenon_host_library(NAME folder [SOURCES a.cpp ...] [DEPENDS target ...] [PRIVATE_DEPENDS target ...]
#                    [COLD folder ...] [APART folder ...] [TORCH])
#
# One folder of host/: a static library tenon_<folder>, alias tenon::<folder>, that includes
# "host/..." and <tenon/...>. Without SOURCES it is headers alone.
#   DEPENDS          what its headers need, for example tenon::error
#   PRIVATE_DEPENDS  what only its .cpp files need, for example tenon::nlohmann_json
#   COLD             its folders whose code runs a few times a run, "." for all of it: compiled for
#                    short builds (-O1), since nothing waits for it
#   APART            its folders and files that are compiled one by one: they have compile options of
#                    their own, or share names of anonymous namespaces with others
#   PARALLEL         its files that call at::parallel_for. This is a template over OpenMP, and would run
#                    on one thread: they are compiled with OpenMP, without a precompiled header, which
#                    would have to be made with the same flag. OpenMP must be GNU's, which libtorch_cpu
#                    uses: two runtimes would be two pools of threads
#   TORCH            it uses libtorch: links tenon::torch_cpu
function(tenon_host_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "TORCH" "NAME"
                        "SOURCES;DEPENDS;PRIVATE_DEPENDS;COLD;APART;PARALLEL")
  if(NOT arg_NAME OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_host_library: NAME is missing, or unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target tenon_${arg_NAME})
  if(arg_SOURCES)
    _tenon_join(${target} sources SOURCES ${arg_SOURCES} APART ${arg_APART} COLD ${arg_COLD}
                PARALLEL ${arg_PARALLEL})
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(tenon::${arg_NAME} ALIAS ${target})
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} ${scope} tenon_sdk ${arg_DEPENDS})
  if(arg_TORCH)
    target_link_libraries(${target} ${scope} tenon::torch_cpu)
  endif()
  if(arg_PARALLEL AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_libraries(${target} PUBLIC gomp)
  endif()
  if(arg_SOURCES)
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE_DEPENDS})
    if(arg_TORCH)
      _tenon_use_torch(${target})
    else()
      _tenon_precompile(${target} json tenon_json_pch)
    endif()
  endif()
endfunction()

# What tests keep for a user lies in the build folder: secrets of ranks, verdicts on plugins, choices
# of kernels. Tests also run in a folder that all users can write to.
set(TENON_TEST_ENVIRONMENT "XDG_CONFIG_HOME=${PROJECT_BINARY_DIR}/tests/config"
                           "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/tests/cache"
                           "TENON_ALLOW_WRITABLE_PLUGINS=1")
if(TENON_SANITIZE)
  # Containers that libtorch fills are not annotated by it, so their overflow checks would be wrong.
  # A request for more memory than there is is an error that tests look for. Modules of one kind have
  # a global of one name, by contract. A library that is put before a program comes before the runtime.
  list(APPEND TENON_TEST_ENVIRONMENT
    "ASAN_OPTIONS=allocator_may_return_null=1:detect_odr_violation=0:detect_container_overflow=0:detect_stack_use_after_return=1:strict_string_checks=1:verify_asan_link_order=0"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:history_size=7:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
endif()

# The tests with the label "threads": what `./dev test --preset tsan` builds and runs.
add_custom_target(tenon_thread_tests)

# What programs and libraries of tests share.
function(_tenon_test_target target uses_torch)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # Tests take longer to compile than to run: -O2 doubles the time of a source. Those with libtorch
  # also compute, and -O0 would compile more of its headers. With -Og, gcc warns of values in them.
  target_compile_options(${target} PRIVATE
                         $<$<CONFIG:RelWithDebInfo>:$<IF:$<BOOL:${uses_torch}>,-Og,-O0>>
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(uses_torch)
    target_link_libraries(${target} PRIVATE tenon::torch_cpu)
    _tenon_precompile(${target} torch tenon_torch_test_pch)
  else()
    # libtorch and Catch2 both have a macro CHECK; the one that comes last serves.
    _tenon_precompile(${target} catch tenon_test_pch torch c10)
  endif()
endfunction()

# tenon_test_library(NAME name SOURCES file ... [LINK target ...])
#
# What several tests use, compiled once as they are: a static library, with what its headers need.
function(tenon_test_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LINK")
  _tenon_join(${arg_NAME} sources SOURCES ${arg_SOURCES})
  add_library(${arg_NAME} STATIC ${sources})
  target_link_libraries(${arg_NAME} PUBLIC ${arg_LINK} tenon_test_support)
  _tenon_test_target(${arg_NAME} FALSE)
endfunction()

# tenon_test(NAME name SOURCES a_test.cpp ... [LINK target ...] [NEEDS target ...] [TORCH] [RELEASE]
#            [APART file ...] [LABELS label ...] [TIMEOUT seconds] [COST seconds]
#            [ENVIRONMENT NAME=value ...])
#
# A Catch2 executable in <build>/tests, and one CTest test of the same name that runs it in
# the source folder. Sources include "tests/support/catch.hpp" and whatever LINK gives.
#   LINK     libraries, for example tenon::recipe
#   APART    sources that are compiled one by one, as for tenon_host_library
#   NEEDS    targets that must be built before the test runs: plugins, the host
#   TORCH    shares the precompiled header of libtorch
#   LABELS   "threads" for tests that are to pass under the thread sanitizer too
#   RELEASE  some cases run only in the release tier: tenon_release_test() with their tags
#   TIMEOUT  300 seconds where it is not given
#   COST     about how long it takes, for tests of a minute and more: long tests start first, since
#            one that starts last runs alone. Higher for tests of two processors, which would wait
#            until two are free
function(tenon_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "TORCH;RELEASE" "NAME;TIMEOUT;COST"
                        "SOURCES;APART;LINK;NEEDS;LABELS;ENVIRONMENT")
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_test: NAME or SOURCES is missing, or unknown: "
                        "${arg_UNPARSED_ARGUMENTS}")
  endif()
  _tenon_join(${arg_NAME} sources SOURCES ${arg_SOURCES} APART ${arg_APART})
  add_executable(${arg_NAME} ${sources})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LINK} tenon_test_support)
  _tenon_test_target(${arg_NAME} "${arg_TORCH}")
  if(arg_NEEDS)
    add_dependencies(${arg_NAME} ${arg_NEEDS})
  endif()
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(tenon_thread_tests ${arg_NAME})
  endif()
  # The runs of these tests are small: a second thread would mostly wait for the first, and tests
  # that run side by side have more threads than there are processors.
  if("host" IN_LIST arg_NEEDS)
    list(PREPEND arg_ENVIRONMENT OMP_NUM_THREADS=1)
  else()  # where threads are tested: those that wait leave the processors to other tests
    list(PREPEND arg_ENVIRONMENT OMP_WAIT_POLICY=passive)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  tenon_test_properties(${arg_NAME} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} COST ${arg_COST}
                        ENVIRONMENT ${arg_ENVIRONMENT})
  if(arg_RELEASE)
    tenon_release_test(${arg_NAME} COMMAND ${arg_NAME} "[release],[members]"
                       WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

# tenon_release_test(name COMMAND word ... [WORKING_DIRECTORY folder])
#
# The part of a test that runs only in `./dev test --release`, as the test <name>_release: what the
# test leaves out, and all members of its lists (tests/support/members.hpp). It has the properties that
# the test has at this point. docs/dev/release-tests.md lists these tests.
function(tenon_release_test name)
  add_test(NAME ${name}_release ${ARGN})
  foreach(property LABELS TIMEOUT COST ENVIRONMENT PROCESSORS RUN_SERIAL)
    get_test_property(${name} ${property} value)
    if(NOT value STREQUAL "NOTFOUND")
      set_property(TEST ${name}_release PROPERTY ${property} "${value}")
    endif()
  endforeach()
  set_property(TEST ${name}_release PROPERTY SKIP_RETURN_CODE 77)
  set_property(TEST ${name}_release APPEND PROPERTY LABELS release)
  set_property(TEST ${name}_release APPEND PROPERTY ENVIRONMENT TENON_TEST_MEMBERS=all)
endfunction()

# tenon_set_tests(name ... PROPERTIES property value ...)
#
# As set_tests_properties(), for the tests and their parts of the release tier.
function(tenon_set_tests)
  list(FIND ARGN PROPERTIES at)
  list(SUBLIST ARGN 0 ${at} names)
  list(SUBLIST ARGN ${at} -1 properties)
  foreach(name IN LISTS names)
    set_tests_properties(${name} ${properties})
    if(TEST ${name}_release)
      set_tests_properties(${name}_release ${properties})
    endif()
  endforeach()
endfunction()

# tenon_test_properties(name [LABELS label ...] [TIMEOUT seconds] [COST seconds]
#                       [ENVIRONMENT NAME=value ...])
#
# Gives a test that add_test() made what tenon_test() gives its own.
function(tenon_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;COST" "LABELS;ENVIRONMENT")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT}
    LABELS "${arg_LABELS}"
    ENVIRONMENT "${TENON_TEST_ENVIRONMENT};${arg_ENVIRONMENT}"
    SKIP_RETURN_CODE 77)
  if(arg_COST)
    set_tests_properties(${name} PROPERTIES COST ${arg_COST})
  endif()
endfunction()

# tenon_test_on_older_processors(test [CASES name ...])
#
# Runs a test that tenon_test() made in this folder, or some of its cases, as on processors with
# fewer instruction sets: the tests <test>_avx2 and <test>_sse.
function(tenon_test_on_older_processors test)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "CASES")
  set(avx2 TENON_SIMD=avx2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2
           ONEDNN_MAX_CPU_ISA=AVX2)
  set(sse TENON_SIMD=basic ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2
          ONEDNN_MAX_CPU_ISA=SSE41)
  get_test_property(${test} ENVIRONMENT environment)
  string(REPLACE "," "\\," cases "${arg_CASES}")  # Catch2 reads a comma as "or"
  list(JOIN cases "," cases)
  foreach(set avx2 sse)
    add_test(NAME ${test}_${set} COMMAND ${test} ${cases} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    tenon_test_properties(${test}_${set})
    set_tests_properties(${test}_${set} PROPERTIES ENVIRONMENT "${environment};${${set}}")
  endforeach()
endfunction()
