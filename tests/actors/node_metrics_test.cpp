// The metrics that a node serves.
#include <regex>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class node_metrics : public node_test {
 protected:
  void start() {
    start_node({"--set", "operation.metrics=127.0.0.1:0"});
    std::smatch found;
    const std::string text = log();
    ASSERT_TRUE(std::regex_search(text, found, std::regex("metrics are served at .*, port ([0-9]+)"))) << text;
    port_ = std::stoi(found[1]);
  }
  unique_fd connect_to_port() const {
    unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(port_));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) return {};
    return fd;
  }
  // What the server answers until it closes the connection; at most 20 s.
  std::string answer_to(const std::string& request) const {
    const unique_fd fd = connect_to_port();
    if (!fd || ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "no connection";
    std::string answer;
    char buffer[4096];
    for (pollfd readable{fd.get(), POLLIN, 0}; ::poll(&readable, 1, 20'000) > 0;) {
      const auto n = ::read(fd.get(), buffer, sizeof buffer);
      if (n <= 0) break;
      answer.append(buffer, static_cast<std::size_t>(n));
    }
    return answer;
  }
  std::string metrics() const { return answer_to("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); }

  int port_ = 0;
};

TEST_F(node_metrics, count_what_an_experiment_did) {
  start();
  EXPECT_THAT(metrics(), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("cudal1_device_ready{device=\"cpu\""),
                               HasSubstr("cudal1_experiments_running 0\n")));
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task()}, 3)));
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress) << last.error;
  const std::string text = metrics();
  int64_t counted = 0;
  const std::regex verdicts("cudal1_verdicts_total\\{outcome=\"[a-z_]+\"\\} ([0-9]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), verdicts), end; at != end; ++at)
    counted += std::stoll((*at)[1]);
  EXPECT_EQ(counted, last.progress->evaluations) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("cudal1_stage_seconds_total{stage=\"check\"} "),
                          HasSubstr("cudal1_store_writable 1\n"), HasSubstr("cudal1_leases 0\n")));
}

TEST_F(node_metrics, other_requests_garbage_and_idle_connections_harm_nobody) {
  start();
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer_to("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(answer_to("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  for (const auto& garbage : {std::string("\0\xff\xfe\r\n\r\n", 7), std::string(100'000, 'a'),
                              "GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'b') + "\r\n\r\n",
                              std::string("GET /metrics HTTP/9.9\r\n\r\n")})
    EXPECT_THAT(answer_to(garbage), testing::Not(HasSubstr("200 OK")));
  std::vector<unique_fd> idle;
  for (int i = 0; i < 100; ++i)
    idle.push_back(connect_to_port());
  // They are closed after ten seconds, or when they leave.
  EXPECT_TRUE(wait_until([&] { return metrics().starts_with("HTTP/1.1 200"); }, 30s));
  idle.clear();
  EXPECT_TRUE(wait_until([&] { return metrics().starts_with("HTTP/1.1 200"); }));
  EXPECT_FALSE(is_dead(pid_));
}

TEST_F(node_metrics, are_not_served_to_other_machines) {
  for (const char* address : {"0.0.0.0:9464", "192.168.1.1:9464", "[::]:9464", "localhost", ":1", "127.0.0.1:99999"}) {
    spawn({"--set", std::string("operation.metrics=") + address});
    EXPECT_EQ(wait_node(), 2) << address << log();
    EXPECT_THAT(log(), HasSubstr("operation.metrics"));
  }
}

}  // namespace
}  // namespace cudal1
