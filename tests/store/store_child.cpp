// The child process of the store's tests: writes until it is killed, fills a disk, or tries to open a store.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

// Writes a line with one system call.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(1);
}

int complain(const error& e) {
  say("error " + enum_name(e.code) + " " + e.message);
  return 1;
}

// Reserves and commits variants until it is killed, sixteen per batch, and prints what the store has acknowledged.
int write_for_ever(const std::string& folder, const std::string& round) {
  constexpr std::size_t together = 16;
  auto opened = store::open(folder);
  if (!opened) return complain(opened.error());
  store& s = **opened;
  for (int i = 0;; ++i) {
    std::vector<std::string> names;
    for (std::size_t t = 0; t < together; ++t)
      names.push_back(round + "-" + std::to_string(t) + "-" + std::to_string(i));
    std::vector<expected<attempt_record>> reserved;
    const auto kept = s.write_together([&] {
      for (const auto& name : names)
        reserved.push_back(s.reserve(make_variant(name), "e1"));
    });
    if (!kept) return complain(kept.error());
    for (std::size_t t = 0; t < together; ++t) {
      if (!reserved[t]) return complain(reserved[t].error());
      say("reserved " + names[t]);
    }
    expected<void> committed;
    const auto done = s.write_together([&] {
      for (std::size_t t = 0; t < together && committed; ++t) {
        const auto seed = std::hash<std::string>{}(names[t]);
        committed = s.commit(*reserved[t], make_full_verdict(*reserved[t], seed), make_environment());
      }
    });
    if (!committed) return complain(committed.error());
    if (!done) return complain(done.error());
    for (const auto& name : names)
      say("committed " + name);
  }
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

// Limits files to 2 MiB, as a quota does.
int fill_quota(const std::string& folder) {
  ::signal(SIGXFSZ, SIG_IGN);
  auto s = store::open(folder);
  if (!s) return complain(s.error());
  const rlimit limit{2 << 20, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  say("written " + std::to_string(write_until_refused(**s)));
  return 0;
}

// Fills a disk of 8 MiB, then frees space. Exits with 77 if this system does not let us mount one.
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
