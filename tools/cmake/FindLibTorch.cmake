# LibTorch, the CUDA runtime and NVRTC from the torch wheel, as imported targets. Needs no nvcc, CUDA toolkit or driver.
#
# LibTorch_ROOT: the wheel's `torch` folder (.../site-packages/torch). The CUDA libraries are taken from `nvidia/cu13`
# beside it. The wheel's own CMake configuration is not used: it enables the CUDA language and needs nvcc.
#
# Targets: LibTorch::cpu (c10, torch_cpu), LibTorch::cuda (with the GPU's operators, which register themselves),
# LibTorch::cudart, LibTorch::nvrtc, LibTorch::python.
find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h HINTS ${LibTorch_ROOT}/include NO_DEFAULT_PATH)
if(LibTorch_INCLUDE_DIR)
  cmake_path(GET LibTorch_INCLUDE_DIR PARENT_PATH LibTorch_ROOT_DIR)
  file(STRINGS "${LibTorch_ROOT_DIR}/version.py" _version REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${_version}")
  cmake_path(SET _cu13 NORMALIZE "${LibTorch_ROOT_DIR}/../nvidia/cu13")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "set LibTorch_ROOT to the torch folder of a torch 2.11 wheel, as tools/bootstrap.sh does")
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  foreach(_name c10 torch_cpu c10_cuda torch_cuda torch)
    add_library(LibTorch::${_name} SHARED IMPORTED)
    set_target_properties(
      LibTorch::${_name}
      PROPERTIES IMPORTED_LOCATION "${LibTorch_ROOT_DIR}/lib/lib${_name}.so"
                 INTERFACE_INCLUDE_DIRECTORIES
                 "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  endforeach()
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_link_libraries(LibTorch::cpu INTERFACE LibTorch::torch_cpu LibTorch::c10)
  # The wheel has headers of a newer {fmt} than the system's library: targets that include them must not link it.
  target_compile_definitions(LibTorch::cpu INTERFACE FMT_HEADER_ONLY=1)
  # The wheel's libraries find each other by $ORIGIN paths; the linker must not resolve libtorch_cuda's CUDA libraries.
  target_link_options(LibTorch::cpu INTERFACE -Wl,--allow-shlib-undefined)
  # No symbol refers to libtorch_cuda, whose operators register themselves when it is loaded.
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  target_link_libraries(LibTorch::cuda INTERFACE "-Wl,--no-as-needed" LibTorch::torch_cuda "-Wl,--as-needed"
                                                 LibTorch::c10_cuda LibTorch::cpu)
  target_include_directories(LibTorch::cuda SYSTEM INTERFACE "${_cu13}/include")
  # For modules of Python.
  add_library(LibTorch::python SHARED IMPORTED)
  set_target_properties(LibTorch::python PROPERTIES IMPORTED_LOCATION "${LibTorch_ROOT_DIR}/lib/libtorch_python.so")
  foreach(_name cudart nvrtc)
    if(EXISTS "${_cu13}/lib/lib${_name}.so.13")
      add_library(LibTorch::${_name} SHARED IMPORTED)
      set_target_properties(
        LibTorch::${_name} PROPERTIES IMPORTED_LOCATION "${_cu13}/lib/lib${_name}.so.13" INTERFACE_INCLUDE_DIRECTORIES
                                                                                        "${_cu13}/include")
    endif()
  endforeach()
endif()
