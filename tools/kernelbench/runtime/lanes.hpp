#include <map>

namespace {

// The program's own streams, for the lanes beside the caller's stream. They are never destroyed: the allocator may
// still hold memory that belongs to them.
std::vector<c10::cuda::CUDAStream> own_streams(c10::DeviceIndex device, int count) {
  std::vector<c10::cuda::CUDAStream> streams;
  for (int i = 0; i < count; ++i) {
    cudaStream_t raw = nullptr;
    check_runtime(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    streams.push_back(c10::cuda::getStreamFromExternal(raw, device));
  }
  return streams;
}

}  // namespace
