#include "tests/sandbox/cpu/compiler/harness.hpp"

#include <stdexcept>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"

namespace cudal1::test {
namespace {

template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

}  // namespace

host_compiler& compiler() {
  static const auto made = value_of(host_compiler::create({}));
  return *made;
}

checked_program program_of(std::string source) {
  checked_program p;
  p.text.source = std::move(source);
  return p;
}

expected<compiled_code> compile(const std::string& source) {
  return compiler().compile(program_of(source));
}

error compile_error(const std::string& source) {
  const auto result = compile(source);
  if (result) throw std::runtime_error("this should not compile:\n" + source);
  return result.error();
}

expected<std::unique_ptr<kernel_library>> load(const std::string& object) {
  const unique_fd file(::memfd_create("object", MFD_CLOEXEC));
  if (!file || ::write(file.get(), object.data(), object.size()) != static_cast<ssize_t>(object.size()))
    return fail(errc::infrastructure, "no memory file");
  return load_object(file.get());
}

kernels::kernels(const std::string& source) : library_(value_of(load(value_of(compile(source)).object))) {}

bool kernels::uses_fibers(const std::string& name) const {
  return library_->uses_fibers(value_of(library_->find(name)));
}

const kernel_handle* kernels::handle(const std::string& name, std::size_t arguments) const {
  const auto* kernel = value_of(library_->find(name));
  if (std::cmp_not_equal(library_->parameter_count(kernel), arguments))
    throw std::runtime_error("wrong number of arguments for " + name);
  return kernel;
}

void kernels::run(const kernel_launch& launch, int threads, void* const* arguments) const {
  library_->launch(launch, arguments, threads);
}

}  // namespace cudal1::test
