#include "tools/cli/verdict_request.hpp"

#include <chrono>

namespace cudal1::cli {

namespace {

// The node may reply with an error to a program that breaks a rule of the format; the user gets a verdict all the same.
expected<verdict> verdict_of(expected<client_answer> answer) {
  if (!answer) {
    const errc code = answer.error().code;
    if (code != errc::invalid_program && code != errc::parse_error) return tl::unexpected<error>(answer.error());
    verdict v;
    v.result = outcome::invalid;
    v.reason = answer.error().message;
    return v;
  }
  if (!answer->result) return fail(errc::infrastructure, "the node ended the evaluation without a verdict");
  return std::move(*answer->result);
}

}  // namespace

expected<verdict> ask_for_verdict(node_client& client, const client_request& r, int wake_fd,
                                  const std::function<void(const std::string&)>& begun) {
  CUDAL1_CHECK(client.send(r));
  for (;;) {
    // Compiling, checking and measuring have timeouts of their own, minutes below this one.
    auto answer = client.receive(std::chrono::minutes(10), wake_fd);
    if (answer) {
      if (auto problem = error_of(*answer)) return verdict_of(tl::unexpected<error>(std::move(*problem)));
      if (!answer->last && !answer->result) {
        if (begun && answer->progress) begun(answer->progress->experiment);
        continue;
      }
    }
    return verdict_of(std::move(answer));
  }
}

}  // namespace cudal1::cli
