# SPDX-License-Identifier: Apache-2.0
#
# The libraries that host and tests are built on, as targets:
#
#   tenon::torch_cpu      libtorch_cpu and libc10 (from sdk/cmake/TenonTorch.cmake)
#   tenon::json           nlohmann_json 3.12 and valijson, headers
#   tenon::spdlog         spdlog
#   tenon::dll            Boost.DLL
#   tenon::program_options  Boost.Program_options
#   tenon::catch2         Catch2 2.13 or 3, without a main()
#
# All of them are SYSTEM: their warnings are not ours. No file may include both spdlog and libtorch: the
# wheel of libtorch carries the headers of another fmt than spdlog was built with.

set(_what_to_do "`./dev deps` brings it")

set(TENON_TORCH_HINTS ${TENON_DEPS}/libtorch)
include(TenonTorch)
tenon_find_torch(REQUIRED)

# 3.12: the first version that knows the byte positions of parsed values.
find_path(TENON_JSON_INCLUDE nlohmann/json.hpp HINTS ${TENON_DEPS}/include)
find_path(TENON_VALIJSON_INCLUDE valijson/validator.hpp HINTS ${TENON_DEPS}/include)
mark_as_advanced(TENON_JSON_INCLUDE TENON_VALIJSON_INCLUDE)
if(NOT TENON_JSON_INCLUDE)
  message(FATAL_ERROR "nlohmann/json.hpp was not found; ${_what_to_do}")
endif()
file(STRINGS ${TENON_JSON_INCLUDE}/nlohmann/detail/abi_macros.hpp _json_version
     REGEX "#define NLOHMANN_JSON_VERSION_(MAJOR|MINOR)")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" _json_version
       "${_json_version}")
if(_json_version VERSION_LESS 3.12)
  message(FATAL_ERROR "${TENON_JSON_INCLUDE} has nlohmann_json ${_json_version}, and 3.12 is "
                      "needed; ${_what_to_do}")
endif()
if(NOT TENON_VALIJSON_INCLUDE)
  message(FATAL_ERROR "valijson/validator.hpp was not found; ${_what_to_do}")
endif()
add_library(tenon_json INTERFACE)
add_library(tenon::json ALIAS tenon_json)
target_include_directories(tenon_json SYSTEM INTERFACE ${TENON_JSON_INCLUDE}
                                                       ${TENON_VALIJSON_INCLUDE})

find_package(spdlog REQUIRED)
add_library(tenon_spdlog INTERFACE)
add_library(tenon::spdlog ALIAS tenon_spdlog)
target_link_libraries(tenon_spdlog INTERFACE spdlog::spdlog)

find_package(Boost 1.74 REQUIRED COMPONENTS filesystem program_options)
add_library(tenon_dll INTERFACE)
add_library(tenon::dll ALIAS tenon_dll)
target_link_libraries(tenon_dll INTERFACE Boost::headers Boost::filesystem ${CMAKE_DL_LIBS})
add_library(tenon_program_options INTERFACE)
add_library(tenon::program_options ALIAS tenon_program_options)
target_link_libraries(tenon_program_options INTERFACE Boost::program_options)

if(TENON_TESTS)
  find_package(Catch2 REQUIRED)
  add_library(tenon_catch2 INTERFACE)
  add_library(tenon::catch2 ALIAS tenon_catch2)
  target_link_libraries(tenon_catch2 INTERFACE Catch2::Catch2)
endif()
