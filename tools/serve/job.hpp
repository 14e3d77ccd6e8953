// A job: one or more evaluations of variants of a task that a client asked for together. Each is a file in
// DATA/serve/jobs, which is on disk before the client is told that the job was accepted, and after each change of
// state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1::serve {

BOOST_DEFINE_ENUM_CLASS(job_state, waiting, running, done, failed, cancelled)

// Who carries out an evaluation: workers that ask the node, or the referee of Python files.
enum class work_kind { variant, python_file };

// One evaluation of a job. One of program, schedule, answer and python is given.
struct job_item {
  std::string program, schedule;
  std::string answer;  // of a language model: text that has a program in it
  std::string python;  // a file with ModelNew
  std::string label;   // the client's own
  job_state state = job_state::waiting;
  std::string experiment;         // the node's, once it has begun
  json verdict;                   // done: what verdict_document() gives
  std::string error_code, error;  // failed: an infrastructure fault, or a task or device that is not there
  double device_s = 0;

  work_kind kind() const { return python.empty() ? work_kind::variant : work_kind::python_file; }
  std::size_t bytes() const { return program.size() + schedule.size() + answer.size() + python.size(); }
};
BOOST_DESCRIBE_STRUCT(job_item, (),
                      (program, schedule, answer, python, label, state, experiment, verdict, error_code, error,
                       device_s))

struct job {
  std::string id, client;
  std::string key, request;  // Idempotency-Key, and the hash of the body that came with it; "" without
  std::string task, device;
  job_state state = job_state::waiting;
  int64_t accepted_unix_ms = 0, ended_unix_ms = 0;
  std::vector<job_item> items;

  bool has_ended() const { return state != job_state::waiting && state != job_state::running; }
  // By the states of its items.
  void update_state();
};
BOOST_DESCRIBE_STRUCT(job, (), (id, client, key, request, task, device, state, accepted_unix_ms, ended_unix_ms, items))

class job_folder {
 public:
  explicit job_folder(const std::string& data) : path_(data + "/serve/jobs") {}
  // All jobs, those that were accepted first come first. A file that cannot be read is an error that names it.
  expected<std::vector<job>> read_all() const;
  // On disk when this returns.
  expected<void> write(const job& j) const;
  expected<void> remove(const std::string& id) const;

 private:
  std::string path_;
};

// "j" and 16 hexadecimal digits. errc::io_error.
expected<std::string> new_job_id();

}  // namespace cudal1::serve
