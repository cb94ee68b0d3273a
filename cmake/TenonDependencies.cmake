# SPDX-License-Identifier: Apache-2.0
#
# The libraries that host and tests are built on, as targets:
#
#   tenon::torch_cpu      libtorch_cpu and libc10 (from sdk/cmake/TenonTorch.cmake)
#   tenon::torch_cuda     libtorch_cuda, libc10_cuda and the CUDA runtime; only where libtorch has CUDA
#                         and the runtime's headers are found: TENON_CUDA_MISSING says what is not
#   tenon::nlohmann_json  nlohmann_json 3.12 and valijson, headers
#   tenon::jinja          the Jinja engine of llama.cpp, a static library of its source
#   tenon::arrow          libarrow and libparquet, for plugins and modules: TENON_ARROW_LIBRARIES is the folder
#                         that they are loaded from, by a library path of the plugin
#   tenon::arrow_s3       libarrow_s3 and libarrow, in the same way
#   tenon::onig           Oniguruma, for plugins: TENON_TEXT_LIBRARIES are the files that they load
#   tenon::sentencepiece  SentencePiece, in the same way
#   tenon::spdlog         spdlog and fmt, headers
#   tenon::dll            Boost.DLL, with Boost.Filesystem linked statically
#   tenon::program_options  Boost.Program_options, linked statically
#   tenon::crypto         OpenSSL's libcrypto, linked statically and not exported
#   tenon::tls            OpenSSL's libssl, in the same way, with tenon::crypto
#   tenon::catch2         Catch2 2.13 or 3, without a main()
#
# All of them are SYSTEM: their warnings are not ours. No file may include both spdlog and libtorch: the
# wheel of libtorch carries the headers of another fmt than spdlog was built with.

set(_what_to_do "`./dev deps` brings it")

set(TENON_TORCH_HINTS ${TENON_DEPS}/libtorch)
include(TenonTorch)
tenon_find_torch(REQUIRED)

# CUDA's compiler builds kernels: of plugins, and of the GPU module. Both are built without it too.
find_program(TENON_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(TENON_NVCC)

# The GPU module needs little of CUDA to be built: libtorch's own headers and libraries, and headers
# and library of the runtime, which `./dev deps` brings. No compiler of CUDA, no device, none of the
# libraries that libtorch_cuda needs to be loaded.
set(TENON_CUDA_MISSING "")
if(NOT EXISTS ${TENON_TORCH_ROOT}/lib/libtorch_cuda.so)
  set(TENON_CUDA_MISSING "a libtorch with CUDA")
else()
  string(REGEX MATCH "cuda=([0-9]+)" _ignored "${TENON_TORCH_FINGERPRINT}")
  set(_cuda_major ${CMAKE_MATCH_1})
  set(_runtime libcudart.so.${_cuda_major})
  find_path(TENON_CUDART_INCLUDE cuda_runtime_api.h
            HINTS ${TENON_DEPS}/cuda/include ${TENON_TORCH_ROOT}/../nvidia/cu${_cuda_major}/include
                  /usr/local/cuda/include)
  find_library(TENON_CUDART NAMES ${_runtime}
               HINTS ${TENON_DEPS}/cuda/lib ${TENON_TORCH_ROOT}/../nvidia/cu${_cuda_major}/lib
                     /usr/local/cuda/lib64)
  mark_as_advanced(TENON_CUDART_INCLUDE TENON_CUDART)
  if(NOT TENON_CUDART_INCLUDE OR NOT TENON_CUDART)
    set(TENON_CUDA_MISSING "cuda_runtime_api.h and ${_runtime}")
  endif()
endif()
if(TENON_CUDA_MISSING)
  message(STATUS "No GPU module: ${TENON_CUDA_MISSING} was not found")
else()
  message(STATUS "GPU module: CUDA runtime ${TENON_CUDART}")
  add_library(tenon_torch_cuda INTERFACE)
  add_library(tenon::torch_cuda ALIAS tenon_torch_cuda)
  target_include_directories(tenon_torch_cuda SYSTEM INTERFACE ${TENON_CUDART_INCLUDE})
  # libtorch_cuda brings in all kernels, though no symbol of it is named. What it needs in turn is
  # looked for when the module is loaded.
  target_link_libraries(tenon_torch_cuda INTERFACE
    tenon::torch_cpu -Wl,--no-as-needed ${TENON_TORCH_ROOT}/lib/libtorch_cuda.so
    ${TENON_TORCH_ROOT}/lib/libc10_cuda.so ${TENON_CUDART} -Wl,--as-needed
    -Wl,--allow-shlib-undefined)

  # Kernels of the module share its CUDA runtime, so they must be of the same major version.
  set(TENON_MODULE_NVCC "")
  if(TENON_NVCC)
    execute_process(COMMAND ${TENON_NVCC} --version OUTPUT_VARIABLE _nvcc_version ERROR_QUIET)
    if(_nvcc_version MATCHES "release ${_cuda_major}\\.")
      set(TENON_MODULE_NVCC ${TENON_NVCC})
    endif()
  endif()
  if(TENON_MODULE_NVCC)
    message(STATUS "GPU module: kernels by ${TENON_MODULE_NVCC}")
  else()
    message(STATUS "GPU module: without its own kernels: nvcc of ${_runtime} was not found")
  endif()

  # Groups on GPUs: NCCL's header, and those of the libraries that libtorch's own headers name. Nothing
  # more of them is linked than libtorch_cuda has.
  find_path(TENON_NCCL_INCLUDE nccl.h
            HINTS ${TENON_DEPS}/nvidia/nccl/include ${TENON_TORCH_ROOT}/../nvidia/nccl/include
                  ${TENON_CUDART_INCLUDE} /usr/local/cuda/include)
  set(_cuda_headers ${TENON_CUDART_INCLUDE} ${TENON_DEPS}/cuda/include
                    ${TENON_TORCH_ROOT}/../nvidia/cu${_cuda_major}/include
                    /usr/local/cuda-${_cuda_major}/include /usr/local/cuda/include)
  find_path(TENON_CUDA_LIBRARIES_INCLUDE cusolverDn.h HINTS ${_cuda_headers})
  mark_as_advanced(TENON_NCCL_INCLUDE TENON_CUDA_LIBRARIES_INCLUDE)
  # Its structs lie in libtorch's, so it must be of the version that libtorch was built with.
  set(_nccl_version "")
  if(TENON_NCCL_INCLUDE)
    file(STRINGS ${TENON_NCCL_INCLUDE}/nccl.h _nccl_version REGEX "#define NCCL_(MAJOR|MINOR) ")
    string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" _nccl_version
           "${_nccl_version}")
  endif()
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/cuda.lock _nccl_pinned REGEX "^nvidia-nccl-cu")
  string(REGEX REPLACE ".*==([0-9]+\\.[0-9]+).*" "\\1" _nccl_pinned "${_nccl_pinned}")
  if(_nccl_version STREQUAL _nccl_pinned AND TENON_CUDA_LIBRARIES_INCLUDE)
    message(STATUS "GPU module: NCCL ${TENON_NCCL_INCLUDE}/nccl.h")
    add_library(tenon_nccl INTERFACE)
    add_library(tenon::nccl ALIAS tenon_nccl)
    target_include_directories(tenon_nccl SYSTEM INTERFACE ${TENON_NCCL_INCLUDE}
                                                           ${TENON_CUDA_LIBRARIES_INCLUDE})
  else()
    message(STATUS "GPU module: without NCCL: nccl.h of ${_nccl_pinned} or cusolverDn.h was not found; "
                   "`./dev deps --cuda` brings them")
  endif()
endif()

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
add_library(tenon_nlohmann_json INTERFACE)
add_library(tenon::nlohmann_json ALIAS tenon_nlohmann_json)
target_include_directories(tenon_nlohmann_json SYSTEM INTERFACE ${TENON_JSON_INCLUDE}
                                                       ${TENON_VALIJSON_INCLUDE})

# Arrow's C++ libraries as the wheel of pyarrow has them. No name of theirs says more than the number
# of their release.
find_path(TENON_ARROW_INCLUDE arrow/api.h HINTS ${TENON_DEPS}/arrow/include NO_DEFAULT_PATH)
mark_as_advanced(TENON_ARROW_INCLUDE)
file(GLOB _arrow ${TENON_DEPS}/arrow/lib/libarrow.so.*)
file(GLOB _parquet ${TENON_DEPS}/arrow/lib/libparquet.so.*)
if(NOT TENON_ARROW_INCLUDE OR NOT _arrow OR NOT _parquet)
  message(FATAL_ERROR "arrow/api.h, libarrow and libparquet were not found; ${_what_to_do}")
endif()
set(TENON_ARROW_LIBRARIES ${TENON_DEPS}/arrow/lib)
add_library(tenon_arrow INTERFACE)
add_library(tenon::arrow ALIAS tenon_arrow)
target_include_directories(tenon_arrow SYSTEM INTERFACE ${TENON_ARROW_INCLUDE})
target_link_libraries(tenon_arrow INTERFACE ${_parquet} ${_arrow})
file(GLOB _arrow_s3 ${TENON_DEPS}/arrow/lib/libarrow_s3.so.*)
if(NOT _arrow_s3)
  message(FATAL_ERROR "libarrow_s3 was not found; ${_what_to_do}")
endif()
add_library(tenon_arrow_s3 INTERFACE)
add_library(tenon::arrow_s3 ALIAS tenon_arrow_s3)
target_include_directories(tenon_arrow_s3 SYSTEM INTERFACE ${TENON_ARROW_INCLUDE})
target_link_libraries(tenon_arrow_s3 INTERFACE ${_arrow_s3} ${_arrow})

# The Jinja engine of llama.cpp, from its source. It wants a JSON type, which the host gives it. Its
# assertions would end the program at some templates that are invalid; its exceptions name them.
find_path(TENON_JINJA_SOURCE jinja/runtime.cpp HINTS ${TENON_DEPS}/jinja NO_DEFAULT_PATH)
mark_as_advanced(TENON_JINJA_SOURCE)
if(NOT TENON_JINJA_SOURCE)
  message(FATAL_ERROR "jinja/runtime.cpp, of llama.cpp, was not found; ${_what_to_do}")
endif()
set(_jinja_sources jinja/lexer.cpp jinja/parser.cpp jinja/runtime.cpp jinja/string.cpp jinja/value.cpp
                   unicode.cpp)
list(TRANSFORM _jinja_sources PREPEND ${TENON_JINJA_SOURCE}/)
add_library(tenon_jinja STATIC EXCLUDE_FROM_ALL ${_jinja_sources})
add_library(tenon::jinja ALIAS tenon_jinja)
target_include_directories(tenon_jinja SYSTEM PUBLIC ${TENON_JINJA_SOURCE}
                                                     ${PROJECT_SOURCE_DIR}/host/chat/engine)
target_link_libraries(tenon_jinja PUBLIC tenon::nlohmann_json)
target_compile_options(tenon_jinja PRIVATE -w)
target_compile_definitions(tenon_jinja PUBLIC NDEBUG)

# Debian has both as shared libraries only. Packages carry them, since their names differ between
# releases of Debian.
find_path(TENON_ONIG_INCLUDE oniguruma.h)
find_library(TENON_ONIG onig)
find_path(TENON_SENTENCEPIECE_INCLUDE sentencepiece_processor.h)
find_library(TENON_SENTENCEPIECE sentencepiece)
mark_as_advanced(TENON_ONIG_INCLUDE TENON_ONIG TENON_SENTENCEPIECE_INCLUDE TENON_SENTENCEPIECE)
if(NOT TENON_ONIG_INCLUDE OR NOT TENON_ONIG)
  message(FATAL_ERROR "oniguruma.h or libonig, of Debian's libonig-dev, was not found; "
                      "${_what_to_do}")
endif()
if(NOT TENON_SENTENCEPIECE_INCLUDE OR NOT TENON_SENTENCEPIECE)
  message(FATAL_ERROR "sentencepiece_processor.h or libsentencepiece, of Debian's "
                      "libsentencepiece-dev, was not found; ${_what_to_do}")
endif()
add_library(tenon_onig INTERFACE)
add_library(tenon::onig ALIAS tenon_onig)
target_include_directories(tenon_onig SYSTEM INTERFACE ${TENON_ONIG_INCLUDE})
target_link_libraries(tenon_onig INTERFACE ${TENON_ONIG})
add_library(tenon_sentencepiece INTERFACE)
add_library(tenon::sentencepiece ALIAS tenon_sentencepiece)
target_include_directories(tenon_sentencepiece SYSTEM INTERFACE ${TENON_SENTENCEPIECE_INCLUDE})
target_link_libraries(tenon_sentencepiece INTERFACE ${TENON_SENTENCEPIECE})

# Headers alone: libtorch_cpu has the library inside, without them.
find_path(TENON_GLOO_INCLUDE gloo/transport/pair.h)
mark_as_advanced(TENON_GLOO_INCLUDE)
if(NOT TENON_GLOO_INCLUDE)
  message(FATAL_ERROR "gloo/transport/pair.h, of Debian's libgloo-dev, was not found; "
                      "${_what_to_do}")
endif()

# Headers alone, and Boost statically: their shared libraries have other names in each release of
# Debian, and the program is to run on several.
find_path(TENON_SPDLOG_INCLUDE spdlog/spdlog.h)
find_path(TENON_FMT_INCLUDE fmt/core.h)
mark_as_advanced(TENON_SPDLOG_INCLUDE TENON_FMT_INCLUDE)
if(NOT TENON_SPDLOG_INCLUDE OR NOT TENON_FMT_INCLUDE)
  message(FATAL_ERROR "spdlog/spdlog.h or fmt/core.h, of Debian's libspdlog-dev, was not found; "
                      "${_what_to_do}")
endif()
find_package(Threads REQUIRED)
add_library(tenon_spdlog INTERFACE)
add_library(tenon::spdlog ALIAS tenon_spdlog)
target_include_directories(tenon_spdlog SYSTEM INTERFACE ${TENON_SPDLOG_INCLUDE}
                                                         ${TENON_FMT_INCLUDE})
target_compile_definitions(tenon_spdlog INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL
                                                  FMT_HEADER_ONLY)
target_link_libraries(tenon_spdlog INTERFACE Threads::Threads)

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS filesystem program_options)
add_library(tenon_dll INTERFACE)
add_library(tenon::dll ALIAS tenon_dll)
target_link_libraries(tenon_dll INTERFACE Boost::headers Boost::filesystem ${CMAKE_DL_LIBS})
add_library(tenon_program_options INTERFACE)
add_library(tenon::program_options ALIAS tenon_program_options)
target_link_libraries(tenon_program_options INTERFACE Boost::program_options)

# Static and hidden: the wheel's libparquet exports a copy of OpenSSL and calls it by names that a
# libcrypto of the program would take over.
find_library(TENON_LIBCRYPTO libcrypto.a)
find_library(TENON_LIBSSL libssl.a)
find_path(TENON_OPENSSL_INCLUDE openssl/ssl.h)
mark_as_advanced(TENON_LIBCRYPTO TENON_LIBSSL TENON_OPENSSL_INCLUDE)
if(NOT TENON_LIBCRYPTO OR NOT TENON_LIBSSL OR NOT TENON_OPENSSL_INCLUDE)
  message(FATAL_ERROR "libcrypto.a, libssl.a or openssl/ssl.h, of Debian's libssl-dev, was not found; "
                      "${_what_to_do}")
endif()
add_library(tenon_crypto INTERFACE)
add_library(tenon::crypto ALIAS tenon_crypto)
target_include_directories(tenon_crypto SYSTEM INTERFACE ${TENON_OPENSSL_INCLUDE})
target_link_libraries(tenon_crypto INTERFACE ${TENON_LIBCRYPTO} ${CMAKE_DL_LIBS})
target_link_options(tenon_crypto INTERFACE LINKER:--exclude-libs,libcrypto.a)
add_library(tenon_tls INTERFACE)
add_library(tenon::tls ALIAS tenon_tls)
target_link_libraries(tenon_tls INTERFACE ${TENON_LIBSSL} tenon::crypto)
target_link_options(tenon_tls INTERFACE LINKER:--exclude-libs,libssl.a)

if(TENON_TESTS)
  find_package(Catch2 REQUIRED)
  add_library(tenon_catch2 INTERFACE)
  add_library(tenon::catch2 ALIAS tenon_catch2)
  target_link_libraries(tenon_catch2 INTERFACE Catch2::Catch2)
endif()
