# SPDX-License-Identifier: Apache-2.0
#
# Finds libtorch and computes its fingerprint. The host's build and, when installed, plugin builds
# use this file, so that both describe a libtorch build by the same string.
#
#   tenon_find_torch([REQUIRED])
#
# searches TENON_LIBTORCH (a CMake variable, then an environment variable), Torch_DIR,
# CMAKE_PREFIX_PATH and TENON_TORCH_HINTS for a directory that contains include/ATen/ATen.h and
# lib/libtorch_cpu.so: a libtorch archive, or `torch/` of an installed wheel. It defines
#
#   tenon::torch_cpu      headers, libtorch_cpu.so, libc10.so. Not `libtorch.so`, which needs all of
#                         CUDA; not `libtorch_python.so`, which needs Python.
#   TENON_TORCH_FOUND, TENON_TORCH_ROOT, TENON_TORCH_VERSION
#   TENON_TORCH_FINGERPRINT   version=2.11.0+cu130;git=<hash>;cxx11abi=1;cuda=13.0
#                             (also as the property TENON_FINGERPRINT of the target)

set(TENON_TORCH_MINIMUM 2.11)

# Sets `out` to the value of `name` in `file`, from a line `name = 'value'` or
# `name: ... = 'value'`.
function(_tenon_read_python_value file name out)
  file(STRINGS "${file}" line LIMIT_COUNT 1 REGEX "^${name}(:[^=]*)?[ ]*=")
  if(line MATCHES "=[ ]*'([^']*)'")
    set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# Sets `out` to the fingerprint and `out_version` to MAJOR.MINOR.PATCH of the libtorch in `root`.
function(_tenon_torch_fingerprint root out out_version)
  set(local "")
  set(git unknown)
  set(cuda "")
  if(EXISTS "${root}/version.py")  # a wheel
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${root}/version.py")
    _tenon_read_python_value("${root}/version.py" __version__ local)
    _tenon_read_python_value("${root}/version.py" git_version git)
    _tenon_read_python_value("${root}/version.py" cuda cuda)
  elseif(EXISTS "${root}/build-version")  # an archive
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${root}/build-version")
    file(STRINGS "${root}/build-version" local LIMIT_COUNT 1)
    if(EXISTS "${root}/build-hash")
      file(STRINGS "${root}/build-hash" git LIMIT_COUNT 1)
    endif()
    if(local MATCHES "\\+cu([0-9]+)([0-9])$")
      set(cuda "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
    endif()
  endif()
  set(header "${root}/include/torch/headeronly/version.h")
  if(NOT EXISTS "${header}")
    set(header "${root}/include/torch/version.h")
  endif()
  set(version "")
  if(EXISTS "${header}")
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS "${header}" line LIMIT_COUNT 1 REGEX "#define TORCH_VERSION_${part} ")
      string(REGEX REPLACE ".* ([0-9]+).*" "\\1" line "${line}")
      list(APPEND version "${line}")
    endforeach()
    list(JOIN version "." version)
  endif()
  if(NOT local)
    set(local "${version}")
  endif()
  if(NOT cuda)
    set(cuda none)
  endif()
  # Since 2.7, libtorch is built only with the new ABI of libstdc++, unless a custom build's package
  # file states otherwise.
  set(cxx11abi 1)
  set(config "${root}/share/cmake/Torch/TorchConfig.cmake")
  if(EXISTS "${config}")
    file(STRINGS "${config}" line REGEX "_GLIBCXX_USE_CXX11_ABI=0")
    if(line)
      set(cxx11abi 0)
    endif()
  endif()
  set(${out} "version=${local};git=${git};cxx11abi=${cxx11abi};cuda=${cuda}" PARENT_SCOPE)
  set(${out_version} "${version}" PARENT_SCOPE)
endfunction()

# Sets TENON_TORCH_ROOT_CANDIDATE to the first directory that contains a libtorch, or to "".
function(_tenon_locate_torch)
  set(explicit "${TENON_LIBTORCH}")
  if(NOT explicit)
    set(explicit "$ENV{TENON_LIBTORCH}")
  endif()
  if(explicit)
    if(NOT EXISTS "${explicit}/include/ATen/ATen.h" OR NOT EXISTS "${explicit}/lib/libtorch_cpu.so")
      message(FATAL_ERROR "TENON_LIBTORCH is ${explicit}, which lacks include/ATen/ATen.h or "
                          "lib/libtorch_cpu.so; set it to the directory that contains `include` and `lib`")
    endif()
    set(candidates "${explicit}")
  else()
    set(candidates "")
    if(Torch_DIR)
      set(candidates "${Torch_DIR}/../../..")
    endif()
    set(prefixes ${CMAKE_PREFIX_PATH})
    if(DEFINED ENV{CMAKE_PREFIX_PATH})
      string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
      list(APPEND prefixes ${from_environment})
    endif()
    foreach(prefix IN LISTS prefixes)
      # torch.utils.cmake_prefix_path is torch/share/cmake.
      list(APPEND candidates "${prefix}" "${prefix}/../..")
    endforeach()
    list(APPEND candidates ${TENON_TORCH_HINTS})
  endif()
  foreach(candidate IN LISTS candidates)
    if(EXISTS "${candidate}/include/ATen/ATen.h" AND EXISTS "${candidate}/lib/libtorch_cpu.so")
      cmake_path(ABSOLUTE_PATH candidate NORMALIZE)
      set(TENON_TORCH_ROOT_CANDIDATE "${candidate}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(TENON_TORCH_ROOT_CANDIDATE "" PARENT_SCOPE)
endfunction()

# A macro, so that its variables are set in the caller's scope.
macro(tenon_find_torch)
  if(TARGET tenon::torch_cpu)
    set(TENON_TORCH_FOUND TRUE)
    get_target_property(TENON_TORCH_FINGERPRINT tenon::torch_cpu TENON_FINGERPRINT)
  else()
    _tenon_locate_torch()
    set(TENON_TORCH_ROOT "${TENON_TORCH_ROOT_CANDIDATE}")
    set(TENON_TORCH_FOUND FALSE)
    if(TENON_TORCH_ROOT)
      _tenon_torch_fingerprint("${TENON_TORCH_ROOT}" TENON_TORCH_FINGERPRINT TENON_TORCH_VERSION)
      if(TENON_TORCH_VERSION VERSION_LESS TENON_TORCH_MINIMUM)
        message(FATAL_ERROR "${TENON_TORCH_ROOT} contains libtorch ${TENON_TORCH_VERSION} "
                            "(expected ${TENON_TORCH_MINIMUM} or newer)")
      endif()
      set(TENON_TORCH_FOUND TRUE)
      add_library(tenon::c10 SHARED IMPORTED GLOBAL)
      set_target_properties(tenon::c10 PROPERTIES
        IMPORTED_LOCATION "${TENON_TORCH_ROOT}/lib/libc10.so"
        IMPORTED_SONAME libc10.so)
      add_library(tenon::libtorch_cpu SHARED IMPORTED GLOBAL)
      set_target_properties(tenon::libtorch_cpu PROPERTIES
        IMPORTED_LOCATION "${TENON_TORCH_ROOT}/lib/libtorch_cpu.so"
        IMPORTED_SONAME libtorch_cpu.so)
      add_library(tenon::torch_cpu INTERFACE IMPORTED GLOBAL)
      # libtorch's headers need C++17, or C++20 in newer releases.
      file(STRINGS "${TENON_TORCH_ROOT}/include/ATen/ATen.h" _tenon_cxx20 REGEX "202002L")
      string(REGEX MATCH "cxx11abi=([01])" _tenon_ignored "${TENON_TORCH_FINGERPRINT}")
      set_target_properties(tenon::torch_cpu PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES
          "${TENON_TORCH_ROOT}/include;${TENON_TORCH_ROOT}/include/torch/csrc/api/include"
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
          "${TENON_TORCH_ROOT}/include;${TENON_TORCH_ROOT}/include/torch/csrc/api/include"
        INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${CMAKE_MATCH_1}"
        INTERFACE_COMPILE_FEATURES "$<IF:$<BOOL:${_tenon_cxx20}>,cxx_std_20,cxx_std_17>"
        INTERFACE_LINK_LIBRARIES "tenon::libtorch_cpu;tenon::c10"
        TENON_FINGERPRINT "${TENON_TORCH_FINGERPRINT}")
    elseif("${ARGN}" STREQUAL "REQUIRED")
      message(FATAL_ERROR "libtorch was not found; run `./dev deps`, or set TENON_LIBTORCH to a "
                          "directory that contains its `include` and `lib`")
    endif()
  endif()
endmacro()
