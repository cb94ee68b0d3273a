# SPDX-License-Identifier: Apache-2.0
#
# tenon_add_plugin(<target>
#                  ID <reverse.domain.name> VERSION <major.minor.patch>
#                  LANE <stable|torch>
#                  COMPONENTS <kind>:<type> ...
#                  SOURCES <file> ...
#                  [MIN_ABI <major.minor>]
#                  [REQUIRES <service> ...]
#                  [LINK <target> ...]
#                  [LIBRARY_PATH <folder>]
#                  [STABLE_TORCH])
#
# Builds a plugin: one shared library <target>.so that exports only tenon_plugin_entry, in
# CMAKE_LIBRARY_OUTPUT_DIRECTORY if set, otherwise in <build>/plugins. Its manifest, an ELF note
# that the host reads before it runs any code, is generated from these arguments.
#
#   LANE stable   C, or C++ with <tenon/cpp/...>. One binary fits all hosts and libtorch releases.
#                 STABLE_TORCH adds libtorch's own stable ABI (<torch/csrc/stable/...>), limited to
#                 what the oldest libtorch of any host has, 2.11. A plugin that is built with a
#                 newer libtorch so runs with all of them.
#   LANE torch    libtorch's C++ ABI: runs only on a host with the same libtorch build.
#   COMPONENTS    exactly the components that the entry point registers, for example loss:focal
#   MIN_ABI       the oldest ABI version of hosts that the plugin runs with. It must test for
#                 everything newer with TENON_HAS. Default: the version of this SDK
#   REQUIRES      services that the plugin cannot run without, for example tenon.op/1. A host that
#                 lacks one of them rejects the plugin before loading it
#   LINK          additional libraries. Static libraries keep the plugin in one file.
#   LIBRARY_PATH  where the loader searches for shared libraries in LINK; $ORIGIN stands for the
#                 plugin's folder. They must be libraries that neither the host nor libtorch has.
#                 Default: only the system's search path.
#
# Sources may be C11, C++17 and newer, or Rust: the root file of one crate, `my_plugin.rs`, which
# uses the crate `tenon` of the SDK. A plugin in Rust needs rustc (TenonRust.cmake) and no cargo.
# After linking, TenonCheckPlugin.cmake checks the file.

set(_TENON_KINDS model dataset loss metric hook sparse_optimizer optimizer lr_scheduler tokenizer
    feature metric_sink clipper storage parametrization)
set(_TENON_PACKAGE_DIR ${CMAKE_CURRENT_LIST_DIR})
include(${CMAKE_CURRENT_LIST_DIR}/TenonRust.cmake)

function(tenon_add_plugin target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STABLE_TORCH" "ID;VERSION;LANE;MIN_ABI;LIBRARY_PATH"
                        "COMPONENTS;SOURCES;REQUIRES;LINK")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_plugin(${target}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(needed ID VERSION LANE COMPONENTS SOURCES)
    if(NOT arg_${needed})
      message(FATAL_ERROR "tenon_add_plugin(${target}): ${needed} is missing")
    endif()
  endforeach()
  if(NOT arg_ID MATCHES "^[a-z0-9_-]+(\\.[a-z0-9_-]+)+$")
    message(FATAL_ERROR "tenon_add_plugin(${target}): ID is `${arg_ID}`; it must be a reverse domain "
                        "name in lower case, for example org.example.focal")
  endif()
  if(NOT arg_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
    message(FATAL_ERROR "tenon_add_plugin(${target}): VERSION is `${arg_VERSION}`; it must be "
                        "MAJOR.MINOR.PATCH")
  endif()
  foreach(component IN LISTS arg_COMPONENTS)
    string(REGEX MATCH "^([a-z_]+):([a-z][a-z0-9_]*)$" matched "${component}")
    if(NOT matched OR NOT CMAKE_MATCH_1 IN_LIST _TENON_KINDS)
      list(JOIN _TENON_KINDS ", " kinds)
      message(FATAL_ERROR "tenon_add_plugin(${target}): component `${component}` is not <kind>:<type>; "
                          "the kinds are ${kinds}")
    endif()
  endforeach()
  set(abi "\" TENON_ABI_STRING \"")
  set(check_abi "")
  if(NOT "${arg_MIN_ABI}" STREQUAL "")
    if(NOT arg_MIN_ABI MATCHES "^([0-9]+)\\.([0-9]+)$")
      message(FATAL_ERROR "tenon_add_plugin(${target}): MIN_ABI is `${arg_MIN_ABI}`; it must be "
                          "MAJOR.MINOR")
    endif()
    set(abi "${arg_MIN_ABI}..${abi}")
    string(CONCAT check_abi
           "TENON_STATIC_ASSERT(TENON_ABI_MAJOR == ${CMAKE_MATCH_1} && TENON_ABI_MINOR >= ${CMAKE_MATCH_2},\n"
           "    \"MIN_ABI ${arg_MIN_ABI} is newer than this SDK, or has another major version\");\n")
    set(min_minor ${CMAKE_MATCH_2})
  endif()
  foreach(service IN LISTS arg_REQUIRES)
    if(NOT service MATCHES "^[a-z0-9_-]+(\\.[a-z0-9_-]+)+/[1-9][0-9]*$")
      message(FATAL_ERROR "tenon_add_plugin(${target}): REQUIRES has `${service}`; it must be a "
                          "service and its version, for example tenon.op/1")
    endif()
  endforeach()

  # The manifest.
  set(lines "id=${arg_ID}" "version=${arg_VERSION}" "abi=${abi}" "lane=${arg_LANE}")
  if(arg_LANE STREQUAL "torch")
    if(NOT TARGET tenon::sdk_torch)
      message(FATAL_ERROR "tenon_add_plugin(${target}): LANE torch needs libtorch, which was not "
                          "found; set TENON_LIBTORCH to the directory that contains its `include` and `lib`")
    endif()
    get_target_property(fingerprint tenon::torch_cpu TENON_FINGERPRINT)
    string(REPLACE ";" "\\;" fingerprint "${fingerprint}")
    list(APPEND lines "torch=${fingerprint}")
  elseif(arg_LANE STREQUAL "stable")
    if(arg_STABLE_TORCH AND NOT TARGET tenon::sdk_torch)
      message(FATAL_ERROR "tenon_add_plugin(${target}): STABLE_TORCH needs libtorch, which was not "
                          "found; set TENON_LIBTORCH to the directory that contains its `include` and `lib`")
    endif()
  else()
    message(FATAL_ERROR "tenon_add_plugin(${target}): LANE is `${arg_LANE}`; it must be stable or "
                        "torch")
  endif()
  foreach(component IN LISTS arg_COMPONENTS)
    list(APPEND lines "component=${component}")
  endforeach()
  foreach(service IN LISTS arg_REQUIRES)
    list(APPEND lines "requires=${service}")
  endforeach()
  set(text "")
  foreach(line IN LISTS lines)
    string(APPEND text "\n    \"${line}\\n\"")
  endforeach()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(suffix cpp)
  if(C IN_LIST languages)
    set(suffix c)
  endif()
  set(manifest ${CMAKE_CURRENT_BINARY_DIR}/${target}_manifest.${suffix})
  file(CONFIGURE OUTPUT ${manifest} @ONLY CONTENT
       "/* Written by tenon_add_plugin(). */\n#include <tenon/manifest.h>\n\n@check_abi@TENON_MANIFEST(@text@);\n")
  set_source_files_properties(${manifest} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

  set(crates ${arg_SOURCES})
  list(FILTER crates INCLUDE REGEX "\\.rs$")
  list(LENGTH crates num_crates)
  if(num_crates GREATER 1)
    message(FATAL_ERROR "tenon_add_plugin(${target}): SOURCES has ${num_crates} Rust files; give only "
                        "the root of the crate, which names its modules")
  endif()
  list(FILTER arg_SOURCES EXCLUDE REGEX "\\.rs$")
  if(crates AND DEFINED min_minor)
    message(FATAL_ERROR "tenon_add_plugin(${target}): MIN_ABI is not supported for plugins in Rust, "
                        "whose library requires the ABI of this SDK; remove it")
  endif()
  if(crates)
    _tenon_compile_rust(${target} ${crates} crate_library)
  endif()

  add_library(${target} MODULE ${arg_SOURCES} ${manifest})
  if(crates)
    _tenon_link_rust(${target} ${crate_library})
  endif()
  if(DEFINED min_minor)
    target_compile_definitions(${target} PRIVATE TENON_PLUGIN_MIN_MINOR=${min_minor}u)
  endif()
  set(folder "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  if(NOT folder)
    set(folder ${PROJECT_BINARY_DIR}/plugins)
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX .so
    LIBRARY_OUTPUT_DIRECTORY ${folder}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    SKIP_BUILD_RPATH ON INSTALL_RPATH "" INSTALL_RPATH_USE_LINK_PATH OFF
    LINK_DEPENDS ${_TENON_PACKAGE_DIR}/tenon_plugin.map
    TENON_PLUGIN_ID ${arg_ID}
    TENON_PLUGIN_COMPONENTS "${arg_COMPONENTS}")
  if(arg_LIBRARY_PATH)
    set_target_properties(${target} PROPERTIES
      SKIP_BUILD_RPATH OFF BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${arg_LIBRARY_PATH}")
    # DT_RPATH: the path comes before LD_LIBRARY_PATH, in which other versions may be.
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  endif()
  if(arg_STABLE_TORCH AND arg_LANE STREQUAL "stable")
    # As torch/csrc/stable/version.h has it: a byte each for major, minor and patch, then five more.
    string(REGEX MATCH "([0-9]+)\\.([0-9]+)" _ignored "${TENON_TORCH_MINIMUM}")
    math(EXPR oldest "(${CMAKE_MATCH_1} << 56) | (${CMAKE_MATCH_2} << 48)"
         OUTPUT_FORMAT HEXADECIMAL)
    target_compile_definitions(${target} PRIVATE TORCH_TARGET_VERSION=${oldest})
  endif()
  if(arg_LANE STREQUAL "torch" OR arg_STABLE_TORCH)
    target_link_libraries(${target} PRIVATE ${arg_LINK} tenon::sdk_torch)
  else()
    target_link_libraries(${target} PRIVATE ${arg_LINK} tenon::sdk)
  endif()
  # With clang, the executable defines the sanitizer functions that a plugin calls.
  if(NOT (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND TENON_SANITIZE))
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  target_link_options(${target} PRIVATE
    -Wl,--version-script,${_TENON_PACKAGE_DIR}/tenon_plugin.map)
  if("tenon::decoder" IN_LIST arg_LINK AND TARGET tenon_plugin_decoder_pch)
    target_precompile_headers(${target} REUSE_FROM tenon_plugin_decoder_pch)
  elseif(arg_LANE STREQUAL "torch" AND TARGET tenon_plugin_torch_pch)
    target_precompile_headers(${target} REUSE_FROM tenon_plugin_torch_pch)
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -D PLUGIN=$<TARGET_FILE:${target}> -D LANE=${arg_LANE} -D ID=${arg_ID}
            -D LIBRARY_PATH=${arg_LIBRARY_PATH}
            -D NM=${CMAKE_NM} -D READELF=${CMAKE_READELF} -P ${_TENON_PACKAGE_DIR}/TenonCheckPlugin.cmake
    VERBATIM)
endfunction()
