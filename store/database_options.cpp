#include "store/database_options.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <thread>

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <spdlog/spdlog.h>

#include "store/database.hpp"

namespace cudal1 {

namespace {

// Sends RocksDB's log to ours: if its own log file cannot grow on a full disk, RocksDB 7.8 ends the process with an
// assertion. Errors reach the caller as values; the log is for debugging.
class log_bridge : public rocksdb::Logger {
 public:
  log_bridge() : Logger(rocksdb::WARN_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    spdlog::debug("rocksdb: {}", line.data());
  }
};

// The first of these that this RocksDB was built with.
rocksdb::CompressionType first_supported(std::initializer_list<rocksdb::CompressionType> wanted) {
  const auto supported = rocksdb::GetSupportedCompressions();
  for (const auto w : wanted)
    if (std::ranges::find(supported, w) != supported.end()) return w;
  return rocksdb::kNoCompression;
}

// Of all families, and of all databases of the process.
std::shared_ptr<rocksdb::Cache> block_cache() {
  static const auto cache = rocksdb::NewLRUCache(std::size_t{256} << 20);
  return cache;
}

}  // namespace

rocksdb::ColumnFamilyOptions family_options() {
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // Indexes and filters are read in parts and kept in the cache: as a whole they would stay in memory, and grow with
  // the history.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.pin_top_level_index_and_filter = true;
  table.block_size = std::size_t{8} << 10;
  table.block_cache = block_cache();
  rocksdb::ColumnFamilyOptions o;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // What will be rewritten soon is compressed quickly, what stays is compressed well.
  o.compression = first_supported({rocksdb::kLZ4Compression, rocksdb::kSnappyCompression, rocksdb::kZSTD});
  o.bottommost_compression = first_supported({rocksdb::kZSTD, rocksdb::kLZ4Compression, rocksdb::kSnappyCompression});
  o.write_buffer_size = std::size_t{32} << 20;
  // Half of what a change looks up is not there: this says so without a search in what is not in tables yet.
  o.memtable_prefix_bloom_size_ratio = 0.05;
  o.memtable_whole_key_filtering = true;
  // No blob files, not for details either: RocksDB 7.8's secondaries read them through references to strings that no
  // longer exist (the ids of ReactiveVersionSet), and crash.
  return o;
}

rocksdb::DBOptions database_options() {
  rocksdb::DBOptions o;
  o.paranoid_checks = true;
  // A torn record at the log's end is a write that was never acknowledged; any other failed checksum is an error.
  // (RocksDB's default would silently drop what follows a damaged record.)
  o.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // When it is reached, all families are written into tables, also those that hold little; a start reads this much.
  o.max_total_wal_size = uint64_t{192} << 20;
  o.max_open_files = 512;
  // Compactions of several families at a time: two by default keep up with about 2,500 verdicts a second.
  o.max_subcompactions = 4;
  o.max_background_jobs = std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 8, 2, 8);
  o.info_log = std::make_shared<log_bridge>();
  return o;
}

std::vector<rocksdb::ColumnFamilyDescriptor> descriptors(const std::vector<std::string>& names) {
  std::vector<rocksdb::ColumnFamilyDescriptor> out;
  for (const auto& name : names)
    out.emplace_back(name, family_options());
  return out;
}

}  // namespace cudal1
