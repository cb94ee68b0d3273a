# SPDX-License-Identifier: Apache-2.0
#
# How everything in this tree is compiled and linked: standards, optimisation, warnings, sanitizers,
# ccache and mold. Not for users' plugins: sdk/cmake/TenonAddPlugin.cmake asks nothing of these.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# "Check" is the build type of the sanitizers. NDEBUG is set in every type, as libtorch's own build
# has it: its headers hold inline code that would disagree with the library.
# project() has put them, empty, into the cache.
if(NOT CMAKE_CXX_FLAGS_CHECK)
  set(CMAKE_C_FLAGS_CHECK "-O1 -g1 -fno-omit-frame-pointer -DNDEBUG")
  set(CMAKE_CXX_FLAGS_CHECK "-O1 -g1 -fno-omit-frame-pointer -DNDEBUG -D_GLIBCXX_ASSERTIONS")
endif()
# -g1: line numbers in backtraces, for a tenth of the size that variables would take.
if(CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG")
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "RelWithDebInfo, Release, Debug or Check" FORCE)
endif()

add_compile_options(-Wall -Wextra)
# gcc 12 warns of overlapping copies in the string concatenations of its own library (gcc bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endif()
if(TENON_WERROR)
  add_compile_options(-Werror)
endif()

if(TENON_SANITIZE)
  # vptr needs the type information of libtorch's hidden classes, which its wheel does not export.
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-sanitize=vptr
                      -fno-sanitize-recover=undefined)
  # gcc's own manual: sanitizers raise false positives of this warning.
  add_compile_options(-Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${TENON_SANITIZE})
endif()

if(TENON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TENON_CCACHE_PROGRAM ccache)
  mark_as_advanced(TENON_CCACHE_PROGRAM)
  if(TENON_CCACHE_PROGRAM)
    # The sloppiness is what ccache asks for before it caches a compilation that uses a precompiled
    # header. The base folder lets two clones share what they compile.
    set(_launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                  CCACHE_NOHASHDIR=1)
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${PROJECT_BINARY_DIR}" NORMALIZE _inside)
    if(_inside)
      list(APPEND _launcher CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
      set(_has_relative_paths TRUE)
    endif()
    set(CMAKE_C_COMPILER_LAUNCHER ${_launcher} ${TENON_CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${_launcher} ${TENON_CCACHE_PROGRAM})
  endif()
endif()

# ccache passes relative paths to the compiler. Without it, paths in messages are made the same, so that
# two folders give the same program.
if(NOT _has_relative_paths)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=..)
endif()

if(TENON_MOLD)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS -fuse-ld=mold)
  check_cxx_source_compiles("int main() { return 0; }" TENON_HAS_MOLD)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(TENON_HAS_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
