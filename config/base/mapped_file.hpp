// A file mapped for reading; it must not be truncated during this object's lifetime.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

class mapped_file {
 public:
  // errc::not_found or errc::io_error, with the path.
  static expected<mapped_file> open(const std::string& path);
  // Does not need the descriptor afterwards. `name`: the name of the file in errors.
  static expected<mapped_file> map(int fd, std::string name);

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return {memory_.get(), memory_ ? memory_.get_deleter().bytes : 0}; }

 private:
  struct unmap {
    std::size_t bytes;
    void operator()(std::byte* base) const;
  };
  std::string name_;
  std::unique_ptr<std::byte, unmap> memory_;
};

}  // namespace cudal1
