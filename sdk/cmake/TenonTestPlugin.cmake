# SPDX-License-Identifier: Apache-2.0
#
# tenon_add_recipe_test(<plugin> RECIPE <file> [STOP_AT <step>])
#
# Adds tests that train with a recipe. They use the plugins that the project builds, and those that
# come with Tenon.
#
#   <plugin>_checks   --check-plugin with the recipe must find nothing
#   <plugin>_trains   the run must end with status 0
#   <plugin>_resumes  only with STOP_AT: stops a second run after that step, and resumes it. The
#                     result must have the same parameters as the run of <plugin>_trains
#
#   RECIPE    the recipe, relative to the current source folder. Its `train.steps` must exceed
#             STOP_AT.
#
# The runs are in <build>/runs/<plugin>. Both tests run TENON_PROGRAM with the plugins of
# TENON_PLUGINS: CMake variables, by default the program and the plugins of the Tenon that
# find_package() found.

set(_TENON_TEST_DIR ${CMAKE_CURRENT_LIST_DIR})

# Sets `out` to the first of the paths that exists, or to "".
function(_tenon_first_path out)
  set(${out} "" PARENT_SCOPE)
  foreach(path IN LISTS ARGN)
    cmake_path(NORMAL_PATH path)
    if(EXISTS "${path}")
      set(${out} "${path}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

function(tenon_add_recipe_test plugin)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RECIPE;STOP_AT" "")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_RECIPE)
    message(FATAL_ERROR "tenon_add_recipe_test(${plugin}): RECIPE is missing, or unknown arguments: "
                        "${arg_UNPARSED_ARGUMENTS}")
  endif()
  # In lib/cmake/Tenon or lib/<triplet>/cmake/Tenon of an installation, or below a build tree.
  set(package ${_TENON_TEST_DIR})
  if(NOT TENON_PROGRAM)
    _tenon_first_path(TENON_PROGRAM ${package}/../../../bin/tenon ${package}/../../../../bin/tenon
                      ${package}/../../../../bin/host)
  endif()
  if(NOT TENON_PLUGINS)
    _tenon_first_path(TENON_PLUGINS ${package}/../../tenon/plugins ${package}/../../../../plugins)
  endif()
  if(NOT TENON_PROGRAM OR NOT TENON_PLUGINS)
    message(FATAL_ERROR "tenon_add_recipe_test(${plugin}): ${package} is part of an SDK without the "
                        "program tenon; install Tenon, or set TENON_PROGRAM and TENON_PLUGINS")
  endif()
  set(folder "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  if(NOT folder)
    set(folder ${PROJECT_BINARY_DIR}/plugins)
  endif()
  cmake_path(ABSOLUTE_PATH arg_RECIPE BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  set(command ${CMAKE_COMMAND} -D PROGRAM=${TENON_PROGRAM} -D FOLDERS=${folder}:${TENON_PLUGINS}
              -D RECIPE=${arg_RECIPE} -D RUNS=${PROJECT_BINARY_DIR}/runs/${plugin})
  set(script ${_TENON_TEST_DIR}/TenonRunRecipe.cmake)
  add_test(NAME ${plugin}_checks
           COMMAND ${TENON_PROGRAM} --check-plugin $<TARGET_FILE:${plugin}> --recipe ${arg_RECIPE}
                   --plugin-dir ${folder} --plugin-dir ${TENON_PLUGINS} --seed 1)
  add_test(NAME ${plugin}_trains COMMAND ${command} -P ${script})
  set_tests_properties(${plugin}_trains PROPERTIES FIXTURES_SETUP ${plugin}_run)
  if(arg_STOP_AT)
    add_test(NAME ${plugin}_resumes COMMAND ${command} -D STOP_AT=${arg_STOP_AT} -P ${script})
    set_tests_properties(${plugin}_resumes PROPERTIES FIXTURES_REQUIRED ${plugin}_run)
  endif()
endfunction()
