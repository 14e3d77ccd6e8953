// How a client on another machine reads the store and exchanges blobs: requests of its connection to the node beside
// those of protocol.hpp, one JSON object per line, each with one answer. A client on the node's machine opens the files
// itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "store/record_source.hpp"

namespace cudal1 {

inline constexpr int record_protocol_version = 1;

BOOST_DEFINE_ENUM_CLASS(record_verb,
                        open,        // the store as it is now, which get and scan read until the next `open`
                        get,         // one record
                        scan,        // records whose keys begin with `key`, from `start` on; as many as an answer holds
                        read_blob,   // a part, from `offset` on
                        find_blob,   // its size, if it is there
                        write_blob)  // the next part of a blob of `size` bytes; the first has offset 0

struct record_request {
  int records = record_protocol_version;  // tells it from a client_request
  record_verb verb = record_verb::open;
  family where = family::meta;
  std::string key, start;  // base64
  int64_t most = 4096;     // of a scan's entries; an answer may have fewer
  std::string blob;        // its name
  int64_t offset = 0, size = 0;
  std::string bytes;  // base64
};
BOOST_DESCRIBE_STRUCT(record_request, (), (records, verb, where, key, start, most, blob, offset, size, bytes))

struct record_entry {
  std::string key, value;  // base64
};
BOOST_DESCRIBE_STRUCT(record_entry, (), (key, value))

struct record_answer {
  std::string error_code, error;      // "" if there is none
  std::string store;                  // open: the folder
  int schema = 0;                     // open: of the store
  bool found = false;                 // get, find_blob
  std::vector<record_entry> entries;  // get: one without its key; scan
  bool more = false;                  // scan: there are others behind the last one
  int64_t size = 0;                   // of a blob
  std::string bytes;                  // of a blob, base64
};
BOOST_DESCRIBE_STRUCT(record_answer, (), (error_code, error, store, schema, found, entries, more, size, bytes))

// Of a blob, in one request or answer.
inline constexpr int64_t most_part_bytes = int64_t{4} << 20;

// One line with its newline.
std::string encode(const record_request& r);
std::string encode(const record_answer& a);
// Whether a line is a request of this protocol.
bool is_record_request(std::string_view line);
// `line` without its newline. errc::parse_error, errc::unsupported (another version).
expected<record_request> decode_record_request(std::string_view line);
expected<record_answer> decode_record_answer(std::string_view line);
record_answer record_refusal(const error& e);

}  // namespace cudal1
