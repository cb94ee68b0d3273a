# SPDX-License-Identifier: Apache-2.0
#
# cmake -D COMPILER=gcc|clang -D INCLUDE=folder -D WHAT=abi,cpp|torch [-D TORCH=root] [-D STANDARDS=list]
#       -P headers_compile.cmake
#
# Compiles headers one by one, warnings as errors, and lists all that fail:
#   abi    tenon/*.h and tenon/draft/*.h as C11, C17, C++17 and C++20, or in STANDARDS: c11,c++17
#   cpp    tenon/cpp/*.hpp as C++17 (host and plugins compile them as C++20)
#   torch  tenon/torch/*.hpp, tenon/torch_stable/*.hpp and tenon/decoder/decoder.hpp, which includes all
#          of its folder, as C++17, against libtorch's headers
cmake_minimum_required(VERSION 3.25)

find_program(compiler ${COMPILER} NO_CACHE)
if(NOT compiler)
  message(STATUS "skipped: ${COMPILER} is not installed")
  return()
endif()

set(failures "")
set(count 0)
function(check_header header standard)
  if(standard MATCHES "^c\\+\\+")
    set(language c++)
  else()
    set(language c)
  endif()
  set(system "")
  if(TORCH)
    set(system -isystem ${TORCH}/include -isystem ${TORCH}/include/torch/csrc/api/include)
  endif()
  # Through an including file: a header that is compiled by itself may not say #pragma once.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E echo "#include <${header}>"
    COMMAND ${compiler} -x ${language} -std=${standard} -Wall -Wextra -Wpedantic -Werror
            -fsyntax-only -I ${INCLUDE} ${system} -
    RESULTS_VARIABLE results ERROR_VARIABLE error)
  if(NOT results STREQUAL "0;0")
    set(failures "${failures}\n--- ${header} as ${standard}\n${error}" PARENT_SCOPE)
  endif()
  math(EXPR count "${count} + 1")
  set(count ${count} PARENT_SCOPE)
endfunction()

if(NOT STANDARDS)
  set(STANDARDS c11,c17,c++17,c++20)
endif()
string(REPLACE "," ";" STANDARDS "${STANDARDS}")
if(WHAT MATCHES "abi")
  file(GLOB headers RELATIVE ${INCLUDE} ${INCLUDE}/tenon/*.h ${INCLUDE}/tenon/draft/*.h)
  foreach(header IN LISTS headers)
    foreach(standard IN LISTS STANDARDS)
      check_header(${header} ${standard})
    endforeach()
  endforeach()
  if(NOT headers)
    message(FATAL_ERROR "no header lies in ${INCLUDE}/tenon")
  endif()
endif()
if(WHAT MATCHES "cpp")
  file(GLOB headers RELATIVE ${INCLUDE} ${INCLUDE}/tenon/cpp/*.hpp)
  foreach(header IN LISTS headers)
    check_header(${header} c++17)
  endforeach()
endif()
if(WHAT MATCHES "torch")
  file(GLOB headers RELATIVE ${INCLUDE} ${INCLUDE}/tenon/torch/*.hpp
       ${INCLUDE}/tenon/torch_stable/*.hpp ${INCLUDE}/tenon/decoder/decoder.hpp)
  foreach(header IN LISTS headers)
    check_header(${header} c++17)
  endforeach()
endif()

if(failures)
  message(FATAL_ERROR "of ${count} compilations with ${COMPILER}, these failed:${failures}")
endif()
message(STATUS "${count} compilations with ${COMPILER} passed")
