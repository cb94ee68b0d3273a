# SPDX-License-Identifier: Apache-2.0
#
# Checks a newly linked plugin without running it, and fails the build if the host would reject the
# file, or if the file could break another plugin.
#
#   cmake -D PLUGIN=file -D LANE=stable|torch -D ID=id -D LIBRARY_PATH=folder -D NM=nm
#         -D READELF=readelf -P TenonCheckPlugin.cmake

set(problems "")

execute_process(COMMAND ${NM} -D --defined-only ${PLUGIN}
                OUTPUT_VARIABLE defined COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" defined "${defined}")
set(exported "")
foreach(line IN LISTS defined)
  string(REGEX REPLACE "^[0-9a-f]* *[A-Za-z] " "" name "${line}")
  list(APPEND exported "${name}")
endforeach()
list(REMOVE_ITEM exported tenon_plugin_entry)
if(NOT defined MATCHES " T tenon_plugin_entry(;|$)")
  string(APPEND problems "\n  - it does not export tenon_plugin_entry; in C++, TENON_PLUGIN(...) of "
                         "<tenon/cpp/plugin.hpp> defines it")
endif()
if(exported)
  list(JOIN exported ", " exported)
  string(APPEND problems "\n  - it exports more than tenon_plugin_entry: ${exported}")
endif()

execute_process(COMMAND ${NM} -D --undefined-only ${PLUGIN}
                OUTPUT_VARIABLE undefined COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[Uw] (tenon_[^\n]*|_ZNK?5tenon[^\n]*)" host_symbols "${undefined}")
if(host_symbols)
  list(JOIN host_symbols ", " host_symbols)
  string(REGEX REPLACE "[Uw] " "" host_symbols "${host_symbols}")
  string(APPEND problems "\n  - it needs symbols of the host, which exports none: ${host_symbols}")
endif()
if(LANE STREQUAL "stable")
  string(REGEX MATCHALL "U _Z[A-Z]*(NK?)?(2at|3c10|5torch|6caffe2)[^\n]*" torch_symbols "${undefined}")
  if(torch_symbols)
    list(LENGTH torch_symbols count)
    list(GET torch_symbols 0 first)
    string(REPLACE "U " "" first "${first}")
    string(APPEND problems "\n  - lane stable, but it needs ${count} C++ symbol(s) of libtorch, the "
                           "first is ${first}; use LANE torch")
  endif()
endif()

if(READELF)
  execute_process(COMMAND ${READELF} -d ${PLUGIN} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  if(dynamic MATCHES "\\((RPATH|RUNPATH)\\)[^\n]*\\[([^\n]*)\\]" AND
     NOT CMAKE_MATCH_2 STREQUAL "${LIBRARY_PATH}")
    string(APPEND problems "\n  - it sets the library path ${CMAKE_MATCH_2}, but the host decides "
                           "which libraries are loaded; use LIBRARY_PATH for libraries that the host lacks")
  endif()
  execute_process(COMMAND ${READELF} -p .note.tenon ${PLUGIN}
                  OUTPUT_VARIABLE note ERROR_VARIABLE note_error COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${note}" "id=${ID}" at)
  if(at EQUAL -1)
    string(APPEND problems "\n  - its manifest note is missing or has another id; is TENON_MANIFEST used "
                           "twice?")
  endif()

  # Unique symbols are shared by all plugins of the process, even though each plugin is loaded with
  # RTLD_LOCAL. Columns: number, value, size, type, binding, visibility, section, name.
  execute_process(COMMAND ${READELF} -W --dyn-syms ${PLUGIN}
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  # GNU readelf names the binding by its number in a file that is not marked as GNU's.
  string(REGEX REPLACE "(OBJECT|FUNC|TLS|NOTYPE) +<OS specific>: 10" "\\1 UNIQUE" symbols "${symbols}")
  string(REGEX MATCHALL "[^\n]* UNIQUE +[A-Z]+ +[^ \n]+ +[^\n]+" symbols "${symbols}")
  list(FILTER symbols EXCLUDE REGEX " UNIQUE +[A-Z]+ +UND ")
  if(symbols)
    list(LENGTH symbols count)
    list(GET symbols 0 first)
    string(REGEX REPLACE "^.* UNIQUE +[A-Z]+ +[^ ]+ +([^ @]+).*$" "\\1" first "${first}")
    find_program(CXXFILT NAMES c++filt llvm-cxxfilt)
    if(CXXFILT)
      execute_process(COMMAND ${CXXFILT} ${first} OUTPUT_VARIABLE first
                      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    endif()
    string(APPEND problems "\n  - it exports ${count} symbol(s) that all plugins of a process share, "
                           "the first is ${first}; link it with the SDK's version script "
                           "tenon_plugin.map, or compile it with -fno-gnu-unique")
  endif()
endif()

if(problems)
  file(REMOVE ${PLUGIN})  # otherwise the next build would consider it finished
  message(FATAL_ERROR "${PLUGIN} is not a valid plugin:${problems}")
endif()
