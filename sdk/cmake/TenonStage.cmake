# SPDX-License-Identifier: Apache-2.0
#
# Lays out the SDK as an installation does. This file is not installed.

# Copies changed files from source/from to stage/to. If a file is edited later, the next build
# reconfigures first.
function(_tenon_stage_tree source from stage to)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${source}/${from} ${source}/${from}/*)
  file(GLOB_RECURSE staged RELATIVE ${stage}/${to} ${stage}/${to}/*)
  foreach(file IN LISTS files)
    configure_file(${source}/${from}/${file} ${stage}/${to}/${file} COPYONLY)
  endforeach()
  if(staged)
    list(REMOVE_ITEM staged ${files})
    foreach(file IN LISTS staged)  # removed from the sources
      file(REMOVE ${stage}/${to}/${file})
    endforeach()
  endif()
endfunction()

# tenon_stage_sdk(source stage): include/, lib/cmake/Tenon/ and share/tenon/ under `stage`.
function(tenon_stage_sdk source stage)
  include(CMakePackageConfigHelpers)
  _tenon_stage_tree(${source} include ${stage} include)
  _tenon_stage_tree(${source} templates ${stage} share/tenon/templates)
  _tenon_stage_tree(${source} rust ${stage} share/tenon/rust)
  set(package ${stage}/lib/cmake/Tenon)
  foreach(file cmake/TenonAddPlugin.cmake cmake/TenonCheckPlugin.cmake cmake/TenonRunRecipe.cmake
               cmake/TenonRust.cmake cmake/TenonTestPlugin.cmake cmake/TenonTorch.cmake abi/tenon_plugin.map)
    cmake_path(GET file FILENAME name)
    configure_file(${source}/${file} ${package}/${name} COPYONLY)
  endforeach()
  configure_file(${source}/cmake/TenonConfig.cmake ${package}/TenonConfig.cmake COPYONLY)
  file(MAKE_DIRECTORY ${stage}/lib/tenon)
  file(CREATE_LINK ${TENON_TORCH_ROOT} ${stage}/lib/tenon/libtorch SYMBOLIC)
  write_basic_package_version_file(${package}/TenonConfigVersion.cmake
                                   VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
endfunction()
