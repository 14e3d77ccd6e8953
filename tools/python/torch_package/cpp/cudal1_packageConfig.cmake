# The target cudal1::package, for a project that has found LibTorch: find_package(cudal1_package PATHS THIS_FOLDER).
if(NOT TORCH_LIBRARIES)
  set(cudal1_package_FOUND FALSE)
  set(cudal1_package_NOT_FOUND_MESSAGE "find_package(Torch REQUIRED) must come first")
  return()
endif()
if(NOT TARGET cudal1::package)
  add_library(cudal1::package SHARED IMPORTED)
  set_target_properties(cudal1::package PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/libcudal1_package.so"
                                                   IMPORTED_NO_SONAME TRUE)
  target_include_directories(cudal1::package INTERFACE "${CMAKE_CURRENT_LIST_DIR}")
  target_link_libraries(cudal1::package INTERFACE ${TORCH_LIBRARIES})
  # What the library needs is found by the program's path: LibTorch, and CUDA's libraries beside the torch of a wheel.
  get_filename_component(cudal1_torch_lib "${TORCH_LIBRARY}" DIRECTORY)
  target_link_options(
    cudal1::package INTERFACE
    "LINKER:--disable-new-dtags,-rpath,${cudal1_torch_lib},-rpath,${cudal1_torch_lib}/../../nvidia/cu13/lib")
  target_compile_features(cudal1::package INTERFACE cxx_std_17)
endif()
