// The other process of the store's tests: writes until it is killed, fills a disk, or tries to open a store.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

// One line in one write, so that lines of several threads stay whole.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(1);
}

int complain(const error& e) {
  say("error " + enum_name(e.code) + " " + e.message);
  return 1;
}

// Evaluates variants in four threads for ever, and says what the store has acknowledged.
int write_for_ever(const std::string& folder, const std::string& round) {
  auto s = store::open(folder);
  if (!s) return complain(s.error());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0;; ++i) {
        const std::string name = round + "-" + std::to_string(t) + "-" + std::to_string(i);
        const auto a = (*s)->reserve(make_variant(name), "e1");
        if (!a) ::_exit(complain(a.error()));
        say("reserved " + name);
        const auto seed = std::hash<std::string>{}(name);
        const auto done = (*s)->commit(*a, make_full_verdict(*a, seed), make_environment());
        if (!done) ::_exit(complain(done.error()));
        say("committed " + name);
      }
    });
  }
  for (auto& t : threads)
    t.join();
  return 0;
}

int64_t write_until_refused(store& s) {
  for (int64_t i = 0; i < 1000; ++i) {
    const auto put = s.put_policy("p" + std::to_string(i), {i, std::string(100'000, 'x')});
    if (put) continue;
    complain(put.error());
    return i;
  }
  return -1;
}

// Files may not grow above 2 MiB: what a quota does.
int fill_quota(const std::string& folder) {
  ::signal(SIGXFSZ, SIG_IGN);
  auto s = store::open(folder);
  if (!s) return complain(s.error());
  const rlimit limit{2 << 20, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  say("written " + std::to_string(write_until_refused(**s)));
  return 0;
}

// A disk of 8 MiB that is filled; then there is room again. 77: this system does not let us mount one.
int fill_disk(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  std::filesystem::create_directories(folder);
  if (::mount("none", folder.c_str(), "tmpfs", 0, "size=8m") != 0) return 77;
  const std::string ballast = folder + "/ballast";
  std::ofstream(ballast) << std::string(4 << 20, 'x');
  auto s = store::open(folder);
  if (!s) return complain(s.error());
  const auto written = write_until_refused(**s);
  if (written < 0) return 1;
  std::filesystem::remove(ballast);
  const auto again = (*s)->put_policy("after", {1, "room again"});
  if (!again) return complain(again.error());
  s->reset();
  s = store::open(folder);
  if (!s) return complain(s.error());
  for (int64_t i = 0; i < written; ++i)
    if (const auto p = (*s)->get_policy("p" + std::to_string(i)); !p) return complain(p.error());
  if (const auto p = (*s)->get_policy("after"); !p) return complain(p.error());
  say("all there");
  return 0;
}

int try_to_open(const std::string& folder) {
  const auto s = store::open(folder);
  if (!s) return complain(s.error());
  say("opened");
  return 0;
}

}  // namespace
}  // namespace cudal1

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::string what = arguments[1], folder = arguments[2];
  if (what == "write" && count == 4) return cudal1::write_for_ever(folder, arguments[3]);
  if (what == "fill_quota") return cudal1::fill_quota(folder);
  if (what == "fill_disk") return cudal1::fill_disk(folder);
  if (what == "open") return cudal1::try_to_open(folder);
  return 2;
}
