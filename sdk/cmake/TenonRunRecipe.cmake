# SPDX-License-Identifier: Apache-2.0
#
# The tests of tenon_add_recipe_test().
#
#   cmake -D PROGRAM=file -D FOLDERS=folder:folder -D RECIPE=file -D RUNS=folder [-D STOP_AT=step]
#         -P TenonRunRecipe.cmake
#
# Trains in RUNS/whole. With STOP_AT, trains in RUNS/stopped until that step, resumes, and compares
# the parameters with those of RUNS/whole.

# Runs the program in a run folder, with more arguments, and expects an exit status.
function(train run_dir expected)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env TENON_PLUGIN_PATH=${FOLDERS} ${PROGRAM}
                          --recipe ${RECIPE} --run-dir ${run_dir} ${ARGN}
                  RESULT_VARIABLE status COMMAND_ECHO STDOUT)
  if(NOT status STREQUAL expected)
    message(FATAL_ERROR "training with ${RECIPE} ended with status ${status} (expected ${expected})")
  endif()
endfunction()

function(read_hash run_dir out)
  file(READ ${run_dir}/summary.json summary)
  string(JSON hash GET "${summary}" parameters_hash)
  set(${out} ${hash} PARENT_SCOPE)
endfunction()

if(NOT DEFINED STOP_AT)
  file(REMOVE_RECURSE ${RUNS}/whole)
  train(${RUNS}/whole 0)
  return()
endif()

file(REMOVE_RECURSE ${RUNS}/stopped)
train(${RUNS}/stopped 75 --set train.exit_at_step=${STOP_AT})  # 75: stopped on request
train(${RUNS}/stopped 0)
read_hash(${RUNS}/whole whole)
read_hash(${RUNS}/stopped resumed)
if(NOT whole STREQUAL resumed)
  message(FATAL_ERROR "the run that stopped at step ${STOP_AT} and resumed has other parameters "
                      "(${resumed}) than the run without a stop (${whole}); save and load all state "
                      "that affects training, and use no other source of randomness than the host's")
endif()
message(STATUS "the run that stopped at step ${STOP_AT} and resumed has the same parameters: ${whole}")
