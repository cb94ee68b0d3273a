# SPDX-License-Identifier: Apache-2.0
#
# The Rust sources of tenon_add_plugin().
#
# rustc compiles the crate of the plugin to a static library, and the C linker links the plugin, with
# the same options and checks as for C. Cargo is not needed. TENON_RUSTC is the compiler, by default
# `rustc` of the PATH; TENON_RUST_FLAGS are more options for it.

set(_TENON_RUST_MINIMUM 1.63)
set(_TENON_RUST_PACKAGE ${CMAKE_CURRENT_LIST_DIR})

# Finds the compiler. Sets `version` to its version, or `problem` to the reason why there is none.
function(tenon_find_rustc version problem)
  find_program(TENON_RUSTC NAMES rustc DOC "compiler of plugins in Rust")
  set(${version} "" PARENT_SCOPE)
  if(NOT TENON_RUSTC)
    set(${problem} "which was not found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${TENON_RUSTC} --version RESULT_VARIABLE status OUTPUT_VARIABLE text
                  ERROR_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status STREQUAL "0" OR NOT text MATCHES "^rustc ([0-9]+\\.[0-9]+\\.[0-9]+)")
    if(text STREQUAL "")
      set(text "${status}")  # the program does not exist
    endif()
    set(${problem} "but `${TENON_RUSTC} --version` failed: ${text}" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS _TENON_RUST_MINIMUM)
    set(${problem} "but ${TENON_RUSTC} is version ${CMAKE_MATCH_1}" PARENT_SCOPE)
  else()
    set(${version} ${CMAKE_MATCH_1} PARENT_SCOPE)
    set(${problem} "" PARENT_SCOPE)
  endif()
endfunction()

# Compiles the crate `tenon` of the SDK once in a build. Sets `out` to the library.
function(_tenon_rust_sdk version out)
  # In lib/cmake/Tenon, or lib/<triplet>/cmake/Tenon.
  cmake_path(SET source NORMALIZE "${_TENON_RUST_PACKAGE}/../../../share/tenon/rust/tenon.rs")
  if(NOT EXISTS ${source})
    cmake_path(SET source NORMALIZE "${_TENON_RUST_PACKAGE}/../../../../share/tenon/rust/tenon.rs")
  endif()
  cmake_path(GET source PARENT_PATH folder)
  # A compiler reads only libraries of its own version.
  set(build ${CMAKE_BINARY_DIR}/tenon_rust-${version})
  set(${out} ${build}/libtenon.rlib PARENT_SCOPE)
  if(TARGET tenon_rust)
    return()
  endif()
  file(MAKE_DIRECTORY ${build})
  add_custom_command(OUTPUT ${build}/libtenon.rlib
    COMMAND ${TENON_RUSTC} --edition 2021 --crate-name tenon --crate-type rlib -C opt-level=3
            --remap-path-prefix=${folder}=tenon --emit=dep-info,link --out-dir ${build}
            ${TENON_RUST_FLAGS} ${source}
    DEPENDS ${source} DEPFILE ${build}/tenon.d
    COMMENT "Building the Rust library tenon"
    VERBATIM)
  add_custom_target(tenon_rust DEPENDS ${build}/libtenon.rlib)
endfunction()

# Compiles the crate with the root file `source`. Sets `out` to the static library.
function(_tenon_compile_rust target source out)
  tenon_find_rustc(version problem)
  if(problem)
    message(FATAL_ERROR "tenon_add_plugin(${target}): a plugin in Rust needs rustc "
                        "${_TENON_RUST_MINIMUM} or newer, ${problem}; install it (on Debian, the "
                        "package rustc), or set TENON_RUSTC to its path")
  endif()
  _tenon_rust_sdk(${version} sdk)
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  cmake_path(GET source PARENT_PATH folder)
  string(MAKE_C_IDENTIFIER "plugin_${target}" crate)
  set(library ${CMAKE_CURRENT_BINARY_DIR}/lib${crate}.a)
  # Without the prefix of the folder, messages of panics are the same wherever it is built.
  add_custom_command(OUTPUT ${library}
    COMMAND ${TENON_RUSTC} --edition 2021 --crate-name ${crate} --crate-type staticlib
            -C opt-level=$<IF:$<CONFIG:Debug>,0,3> "$<$<CONFIG:Debug,RelWithDebInfo>:-g>"
            --extern tenon=${sdk} --remap-path-prefix=${folder}/= --emit=dep-info,link
            --out-dir ${CMAKE_CURRENT_BINARY_DIR} ${TENON_RUST_FLAGS} ${source}
    DEPENDS ${source} ${sdk} tenon_rust DEPFILE ${CMAKE_CURRENT_BINARY_DIR}/${crate}.d
    COMMENT "Building Rust library lib${crate}.a"
    VERBATIM COMMAND_EXPAND_LISTS)
  set(${out} ${library} PARENT_SCOPE)
endfunction()

# Links the static library of a crate into a plugin.
function(_tenon_link_rust target library)
  add_custom_target(${target}_rust DEPENDS ${library})
  add_dependencies(${target} ${target}_rust)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${library})
  target_link_libraries(${target} PRIVATE ${library} m pthread ${CMAKE_DL_LIBS})
  # The linker takes only needed members of the library. Most of Rust's own library is not needed,
  # and its debug information is large.
  target_link_options(${target} PRIVATE LINKER:-u,tenon_plugin_entry LINKER:--gc-sections
    $<$<NOT:$<CONFIG:Debug,RelWithDebInfo>>:LINKER:--strip-debug>)
endfunction()
