# SPDX-License-Identifier: Apache-2.0
#
# For `./dev museum`: -D CMAKE_PROJECT_tenon_INCLUDE=<this file> -D TENON_MUSEUM_HEADERS=<folder>
# builds host and tests with the headers in the folder instead of sdk/include. The folder comes
# first in the include paths of all targets.
if(NOT EXISTS ${TENON_MUSEUM_HEADERS}/tenon/tenon.h)
  message(FATAL_ERROR "TENON_MUSEUM_HEADERS has no tenon/tenon.h; "
                      "run tests/museum/widen_headers.py")
endif()
include_directories(BEFORE ${TENON_MUSEUM_HEADERS})
# Fields that these headers have more are zero.
add_compile_options(-Wno-missing-field-initializers)
