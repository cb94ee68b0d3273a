# SPDX-License-Identifier: Apache-2.0
#
# The functions with which the folders of host/ and tests/ describe themselves.

# The one precompiled header of everything in host/ and tests/ that uses libtorch. It holds what
# nearly all of them need, and no more: a larger one costs each user more than it saves.
if(TENON_PCH)
  set(_source ${PROJECT_BINARY_DIR}/generated/tenon_torch_pch.cpp)
  file(CONFIGURE OUTPUT ${_source} CONTENT "// Carries a precompiled header.\n")
  add_library(tenon_torch_pch OBJECT EXCLUDE_FROM_ALL ${_source})
  target_link_libraries(tenon_torch_pch PRIVATE tenon::torch_cpu)
  target_precompile_headers(tenon_torch_pch PRIVATE <ATen/ATen.h>
                                                    <torch/csrc/autograd/autograd.h>)
endif()

function(_tenon_use_torch target)
  if(TARGET tenon_torch_pch)
    target_precompile_headers(${target} REUSE_FROM tenon_torch_pch)
  endif()
endfunction()

# What the build knows and the host must say: <tenon_build.hpp>, from tenon::build_info. Program and
# GPU module share classes, so that both must be of one version, libtorch and text of the header.
set(_gpu_header ${PROJECT_SOURCE_DIR}/host/device/gpu.hpp)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_gpu_header})
file(SHA256 ${_gpu_header} TENON_GPU_HEADER)
string(SUBSTRING ${TENON_GPU_HEADER} 0 8 TENON_GPU_HEADER)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/include/tenon_build.hpp @ONLY CONTENT
"// Written by CMake.
#pragma once
namespace tenon {
inline constexpr char kVersion[] = \"@PROJECT_VERSION@\";
inline constexpr char kTorchVersion[] = \"@TENON_TORCH_VERSION@\";
inline constexpr char kTorchFingerprint[] = \"@TENON_TORCH_FINGERPRINT@\";
inline constexpr char kGpuModuleBuild[] =
    \"@PROJECT_VERSION@ (@TENON_GPU_HEADER@), libtorch @TENON_TORCH_FINGERPRINT@\";
}  // namespace tenon
")
add_library(tenon_build_info INTERFACE)
add_library(tenon::build_info ALIAS tenon_build_info)
target_include_directories(tenon_build_info INTERFACE ${PROJECT_BINARY_DIR}/generated/include)

# tenon_host_library(NAME folder [SOURCES a.cpp ...] [DEPENDS target ...] [PRIVATE_DEPENDS target ...]
#                    [TORCH])
#
# One folder of host/: a static library tenon_<folder>, alias tenon::<folder>, that includes
# "host/..." and <tenon/...>. Without SOURCES it is headers alone.
#   DEPENDS          what its headers need, for example tenon::error
#   PRIVATE_DEPENDS  what only its .cpp files need, for example tenon::json
#   TORCH            it uses libtorch: links tenon::torch_cpu, shares the precompiled header
function(tenon_host_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "TORCH" "NAME" "SOURCES;DEPENDS;PRIVATE_DEPENDS")
  if(NOT arg_NAME OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_host_library: NAME is missing, or unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target tenon_${arg_NAME})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
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
  if(arg_SOURCES)
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE_DEPENDS})
    if(arg_TORCH)
      _tenon_use_torch(${target})
    endif()
  endif()
endfunction()

# What a test under a sanitizer needs to be told.
set(TENON_TEST_ENVIRONMENT "")
if(TENON_SANITIZE)
  # Containers that libtorch fills are not annotated by it, so their overflow checks would be wrong.
  # A request for more memory than there is is an error that tests look for. Modules of one kind have
  # a global of one name, by contract. A library that is put before a program comes before the runtime.
  set(TENON_TEST_ENVIRONMENT
    "ASAN_OPTIONS=allocator_may_return_null=1:detect_odr_violation=0:detect_container_overflow=0:detect_stack_use_after_return=1:strict_string_checks=1:verify_asan_link_order=0"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:history_size=7:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
endif()

# The tests with the label "threads": what `./dev test --preset tsan` builds and runs.
add_custom_target(tenon_thread_tests)

# tenon_test(NAME name SOURCES a_test.cpp ... [LINK target ...] [NEEDS target ...] [TORCH]
#            [LABELS label ...] [TIMEOUT seconds] [ENVIRONMENT NAME=value ...])
#
# A Catch2 executable in <build>/tests, and one CTest test of the same name that runs it in
# the source folder. Sources include "tests/support/catch.hpp" and whatever LINK gives.
#   LINK     libraries, for example tenon::recipe
#   NEEDS    targets that must be built before the test runs: plugins, the host
#   TORCH    shares the precompiled header of libtorch
#   LABELS   "threads" for tests that are to pass under the thread sanitizer too
#   TIMEOUT  300 seconds where it is not given
function(tenon_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "TORCH" "NAME;TIMEOUT"
                        "SOURCES;LINK;NEEDS;LABELS;ENVIRONMENT")
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_test: NAME or SOURCES is missing, or unknown: "
                        "${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LINK} tenon_test_support)
  if(arg_TORCH)
    target_link_libraries(${arg_NAME} PRIVATE tenon::torch_cpu)
    _tenon_use_torch(${arg_NAME})
  endif()
  if(arg_NEEDS)
    add_dependencies(${arg_NAME} ${arg_NEEDS})
  endif()
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(tenon_thread_tests ${arg_NAME})
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  tenon_test_properties(${arg_NAME} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT}
                        ENVIRONMENT ${arg_ENVIRONMENT})
endfunction()

# tenon_test_properties(name [LABELS label ...] [TIMEOUT seconds] [ENVIRONMENT NAME=value ...])
#
# Gives a test that add_test() made what tenon_test() gives its own.
function(tenon_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;ENVIRONMENT")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT}
    LABELS "${arg_LABELS}"
    ENVIRONMENT "${TENON_TEST_ENVIRONMENT};${arg_ENVIRONMENT}"
    SKIP_RETURN_CODE 77)
endfunction()
