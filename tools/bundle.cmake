# cmake --install BUILD --prefix DIR makes a bundle: a folder that runs wherever it is put, on this distribution and on
# newer ones. Beside the programs lie the libraries that they need from here, but for glibc, LibTorch and CUDA: those are
# the target machine's, LibTorch by the link DIR/torch that bin/cudal1-setup makes.
set(bundle_programs cudal1 cudal1-node cudal1-worker cudal1-cuda-worker cudal1-replay)
foreach(program IN LISTS bundle_programs)
  set_target_properties(
    ${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../torch/lib;$ORIGIN/../torch/../nvidia/cu13/lib")
  # As DT_RPATH, which holds for the libraries' own libraries too: those of the distribution name no path.
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
endforeach()

install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)")
install(TARGETS ${bundle_programs} RUNTIME_DEPENDENCY_SET bundle_libraries RUNTIME DESTINATION bin)
install(
  RUNTIME_DEPENDENCY_SET
  bundle_libraries
  PRE_EXCLUDE_REGEXES
  "^lib(torch|c10|cu|nv|nccl|gomp|shm|caffe2)"
  "^ld-linux"
  "^lib(c|m|dl|rt|pthread|resolv|util|mvec)\\.so"
  LIBRARY DESTINATION lib)
install(PROGRAMS cudal1-setup DESTINATION bin)
install(DIRECTORY examples python DESTINATION share/cudal1 PATTERN __pycache__ EXCLUDE)
