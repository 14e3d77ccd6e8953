#include "actors/clients/record_protocol.hpp"

#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view first_member = R"({"records":)";

}  // namespace

std::string encode(const record_request& r) {
  return to_text(r) + '\n';
}

std::string encode(const record_answer& a) {
  return to_text(a) + '\n';
}

bool is_record_request(std::string_view line) {
  return line.starts_with(first_member);
}

expected<record_request> decode_record_request(std::string_view line) {
  CUDAL1_TRY(const json document, json::parse(line));
  const json* version = document.find("records");
  if (version == nullptr || !version->is_int() || version->as_int() != record_protocol_version)
    return fail(errc::unsupported,
                "this node uses version {} of the protocol for reading its store, and the request another one; use the "
                "cudal1 and the cudal1-node of the same build",
                record_protocol_version);
  record_request r;
  if (auto read = from_json(document, r); !read) return fail_in("the request", std::move(read).error());
  return r;
}

expected<record_answer> decode_record_answer(std::string_view line) {
  record_answer a;
  CUDAL1_TRY(const json document, json::parse(line));
  if (auto read = from_json(document, a); !read) return fail_in("the node's answer", std::move(read).error());
  if (!a.error_code.empty() || !a.error.empty())
    return tl::unexpected<error>({enum_value<errc>(a.error_code).value_or(errc::infrastructure), a.error});
  return a;
}

record_answer record_refusal(const error& e) {
  record_answer a;
  a.error_code = enum_name(e.code);
  a.error = e.message;
  return a;
}

}  // namespace cudal1
