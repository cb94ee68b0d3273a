# SPDX-License-Identifier: Apache-2.0
#
# find_package(Tenon REQUIRED) defines
#
#   tenon::sdk        the C headers and the C++17 wrapper of the plugin ABI; header-only
#   tenon::sdk_torch  the same plus libtorch's C++ API, if libtorch was found
#   tenon::decoder    the same for decoders, <tenon/decoder/decoder.hpp>; header-only
#   tenon_add_plugin()  see TenonAddPlugin.cmake
#   tenon_add_recipe_test()  see TenonTestPlugin.cmake
#
# find_package(Tenon REQUIRED COMPONENTS decoder) fails if a component is not available. Components
# are `torch` (tenon::sdk_torch) and `decoder`; both need libtorch.
#
# libtorch is searched in TENON_LIBTORCH (a CMake or environment variable), in Torch_DIR and
# CMAKE_PREFIX_PATH, and finally where this installation's host has it: in lib/tenon/libtorch, or in
# the package torch of the same Python environment. The host rejects plugins that were built against
# another libtorch, and reports both versions.

include(${CMAKE_CURRENT_LIST_DIR}/TenonTorch.cmake)
list(APPEND TENON_TORCH_HINTS "${CMAKE_CURRENT_LIST_DIR}/../../tenon/libtorch")
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../../../__main__.py")
  list(APPEND TENON_TORCH_HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../../torch")
endif()
tenon_find_torch()

if(NOT TARGET tenon::sdk)
  cmake_path(SET _tenon_include NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../../include")
  if(NOT EXISTS "${_tenon_include}/tenon/tenon.h")  # lib/<triplet>/cmake/Tenon
    cmake_path(SET _tenon_include NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../../../include")
  endif()
  add_library(tenon::sdk INTERFACE IMPORTED)
  set_target_properties(tenon::sdk PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_tenon_include}"
    INTERFACE_COMPILE_FEATURES "c_std_11;cxx_std_17")
  if(TENON_TORCH_FOUND)
    add_library(tenon::sdk_torch INTERFACE IMPORTED)
    set_target_properties(tenon::sdk_torch PROPERTIES
      INTERFACE_LINK_LIBRARIES "tenon::sdk;tenon::torch_cpu")
    add_library(tenon::decoder INTERFACE IMPORTED)
    set_target_properties(tenon::decoder PROPERTIES INTERFACE_LINK_LIBRARIES tenon::sdk_torch)
  endif()
endif()
foreach(_tenon_component IN LISTS Tenon_FIND_COMPONENTS)
  if(NOT _tenon_component MATCHES "^(torch|decoder)$")
    set(Tenon_FOUND FALSE)
    set(Tenon_NOT_FOUND_MESSAGE
        "Tenon has no component `${_tenon_component}`; the components are torch and decoder")
  else()
    set(Tenon_${_tenon_component}_FOUND ${TENON_TORCH_FOUND})
    if(NOT TENON_TORCH_FOUND AND Tenon_FIND_REQUIRED_${_tenon_component})
      set(Tenon_FOUND FALSE)
      set(Tenon_NOT_FOUND_MESSAGE
          "component `${_tenon_component}` needs libtorch, which was not found; set TENON_LIBTORCH "
          "to the directory that contains its `include` and `lib`")
    endif()
  endif()
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/TenonAddPlugin.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/TenonTestPlugin.cmake)
