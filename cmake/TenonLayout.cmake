# SPDX-License-Identifier: Apache-2.0
#
# Where the program, its modules and plugins find libraries at run time. A build tree has the folders
# of an installation, as links, so that library paths are relative and equal in both. A package needs
# no other link step, and has the same bits from any folder.
#
#   installation                build tree            contents
#   LIBDIR/tenon                lib                   modules, libtenon_thread_waits.so
#   LIBDIR/tenon/plugins        plugins               plugins
#   LIBDIR/tenon/libtorch/lib   lib/libtorch/lib      libtorch, and the libraries that it needs
#   LIBDIR/tenon/arrow          lib/arrow, arrow      Arrow's libraries
#   LIBDIR/tenon/text           lib/text, text        libraries of tokenizers
#   LIBDIR/tenon/cuda/lib       lib/cuda/lib          CUDA's runtime
#
# Defines, relative to the file that is loaded:
#
#   TENON_PROGRAM_LIBRARY_PATH  of the program
#   TENON_MODULE_ARROW_PATH, TENON_PLUGIN_ARROW_PATH  of modules and of plugins that need Arrow
#   TENON_PLUGIN_TEXT_PATH      of plugins that need the libraries of tokenizers
#   TENON_MODULE_CUDA_PATH      of the CUDA module

#   TENON_OWN_LIBRARIES_FIRST   option of the linker: the paths above come before LD_LIBRARY_PATH, in
#                               which another libtorch may be (DT_RPATH instead of DT_RUNPATH)

set(TENON_OWN_LIBRARIES_FIRST LINKER:--disable-new-dtags)

# Makes or replaces a symbolic link.
function(_tenon_link target link)
  cmake_path(GET link PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${target} ${link} SYMBOLIC)
endfunction()

_tenon_link(${PROJECT_BINARY_DIR}/lib ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}/tenon)
_tenon_link(${TENON_TORCH_ROOT} ${PROJECT_BINARY_DIR}/lib/libtorch)
_tenon_link(${TENON_ARROW_LIBRARIES} ${PROJECT_BINARY_DIR}/lib/arrow)
_tenon_link(${TENON_ARROW_LIBRARIES} ${PROJECT_BINARY_DIR}/arrow)
# Links by the names under which the libraries are loaded: libonig.so is a link to libonig.so.5.3.0,
# and libonig.so.5 is loaded.
foreach(_library ${TENON_ONIG} ${TENON_SENTENCEPIECE})
  file(REAL_PATH ${_library} _real)
  cmake_path(GET _real FILENAME _name)
  string(REGEX REPLACE "(\\.so\\.[0-9]+).*" "\\1" _name ${_name})
  _tenon_link(${_real} ${PROJECT_BINARY_DIR}/text/${_name})
endforeach()
_tenon_link(${PROJECT_BINARY_DIR}/text ${PROJECT_BINARY_DIR}/lib/text)
if(TENON_CUDART)
  cmake_path(GET TENON_CUDART PARENT_PATH _cuda_libraries)
  _tenon_link(${_cuda_libraries} ${PROJECT_BINARY_DIR}/lib/cuda/lib)
endif()

file(RELATIVE_PATH _libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/tenon)
set(TENON_PROGRAM_LIBRARY_PATH "$ORIGIN/${_libraries};$ORIGIN/${_libraries}/libtorch/lib")
set(TENON_MODULE_ARROW_PATH "$ORIGIN/arrow")
set(TENON_PLUGIN_ARROW_PATH "$ORIGIN/../arrow")
set(TENON_PLUGIN_TEXT_PATH "$ORIGIN/../text")
set(TENON_MODULE_CUDA_PATH "$ORIGIN/libtorch/lib;$ORIGIN/cuda/lib")

# An installation from this build tree uses the libraries that it was built with. Packages carry
# libraries instead, and skip this component.
install(CODE "
  set(_folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/tenon\")
  file(MAKE_DIRECTORY \"\${_folder}\")
  file(CREATE_LINK \"${TENON_TORCH_ROOT}\" \"\${_folder}/libtorch\" SYMBOLIC)
  file(CREATE_LINK \"${TENON_ARROW_LIBRARIES}\" \"\${_folder}/arrow\" SYMBOLIC)"
  COMPONENT libraries)
if(TENON_CUDART)
  install(CODE "
    set(_folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/tenon/cuda\")
    file(MAKE_DIRECTORY \"\${_folder}\")
    file(CREATE_LINK \"${_cuda_libraries}\" \"\${_folder}/lib\" SYMBOLIC)"
    COMPONENT libraries)
endif()
