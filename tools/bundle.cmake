# cmake --install BUILD --prefix DIR creates a bundle: a relocatable folder for this distribution and newer ones. It has
# the programs and the libraries that they need, except glibc, LibTorch and CUDA, which the target machine must have;
# bin/cudal1-setup creates the link DIR/torch to its LibTorch.
set(bundle_programs cudal1 cudal1-node cudal1-worker cudal1-cuda-worker cudal1-replay)
foreach(program IN LISTS bundle_programs)
  set_target_properties(
    ${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../torch/lib;$ORIGIN/../torch/../nvidia/cu13/lib")
  # DT_RPATH instead of DT_RUNPATH: it also applies to the dependencies of the bundled libraries, which have no path.
  # Packed relocations (glibc 2.36) make the programs 4% smaller.
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags -Wl,-z,pack-relative-relocs)
endforeach()

set(bundle_modules cudal1_language_model cudal1_language_model_cuda)
foreach(module IN LISTS bundle_modules)
  set_target_properties(
    ${module} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib;$ORIGIN/../torch/../nvidia/cu13/lib")
  target_link_options(${module} PRIVATE -Wl,--disable-new-dtags -Wl,-z,pack-relative-relocs)
endforeach()

install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)")
install(TARGETS ${bundle_programs} RUNTIME_DEPENDENCY_SET bundle_libraries RUNTIME DESTINATION bin)
install(TARGETS ${bundle_modules} RUNTIME_DEPENDENCY_SET bundle_libraries LIBRARY DESTINATION lib)
# For packages of `cudal1 export --format torch`; the first needs only glibc and libstdc++, the others PyTorch, too, which
# has loaded its own libraries by then.
install(TARGETS cudal1_cpu_kernels cudal1_package cudal1_package_runtime LIBRARY DESTINATION lib)
install(
  RUNTIME_DEPENDENCY_SET
  bundle_libraries
  PRE_EXCLUDE_REGEXES
  "^lib(torch|c10|cu|nv|nccl|gomp|shm|caffe2)"
  "^ld-linux"
  "^lib(c|m|dl|rt|pthread|resolv|util|mvec)\\.so"
  LIBRARY DESTINATION lib)
install(PROGRAMS cudal1-setup DESTINATION bin)
install(DIRECTORY agents examples python python_client DESTINATION share/cudal1 PATTERN __pycache__ EXCLUDE)
