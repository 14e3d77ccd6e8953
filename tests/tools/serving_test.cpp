// The parts of the HTTP interface that need no node: who may ask, whose turn it is, what is kept, how requests are
// read.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/serve/access.hpp"
#include "tools/serve/client_limits.hpp"
#include "tools/serve/fair_queue.hpp"
#include "tools/serve/job_board.hpp"
#include "tools/serve/json_schema.hpp"
#include "tools/serve/routes.hpp"
#include "tools/serve/verdict_document.hpp"

namespace cudal1::serve {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

http_call local_call(http_fields headers) {
  http_call call;
  call.method = "GET";
  call.target = "/v1/health";
  call.headers = std::move(headers);
  call.from = "127.0.0.1";
  call.from_this_machine = true;
  return call;
}

int status_of(const api_result<api_client>& r) {
  return r ? 200 : r.error().status;
}

TEST(access, tokens_are_kept_as_hashes_and_can_be_revoked) {
  const temporary_folder data;
  const token_file file(data.path());
  const auto token = file.add("ann", {"evaluate"});
  ASSERT_TRUE(token) << token.error().message;
  std::ifstream in(file.path());
  const std::string kept((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(kept, Not(HasSubstr(*token)));
  EXPECT_EQ(std::filesystem::status(file.path()).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
  EXPECT_FALSE(file.add("ann", {}));
  EXPECT_FALSE(file.add("Bad Name", {}));
  EXPECT_FALSE(file.add("bob", {"fly"}));

  const access_rules rules({data.path(), true, true, false});
  const auto with = [&](const std::string& given) {
    return rules.client_of(local_call({{"host", "x"}, {"authorization", given}}));
  };
  const auto ann = with("Bearer " + *token);
  ASSERT_TRUE(ann) << ann.error().message;
  EXPECT_EQ(ann->name, "ann");
  EXPECT_TRUE(require(*ann, "evaluate"));
  EXPECT_FALSE(require(*ann, "import"));
  EXPECT_EQ(status_of(with("Bearer " + *token + "0")), 401);
  EXPECT_EQ(status_of(with("Basic abc")), 401);
  EXPECT_TRUE(file.remove("ann"));
  EXPECT_EQ(status_of(with("Bearer " + *token)), 401);
}

TEST(access, of_this_machine_needs_no_token_but_no_web_page_and_no_proxy_gets_in) {
  const temporary_folder data;
  const access_rules rules({data.path(), true, false, false});
  const auto status = [&](http_fields headers) { return status_of(rules.client_of(local_call(std::move(headers)))); };
  EXPECT_EQ(status({{"host", "127.0.0.1:4980"}}), 200);
  EXPECT_EQ(status({{"host", "localhost:4980"}}), 200);
  EXPECT_EQ(status({{"host", "[::1]:4980"}}), 200);
  EXPECT_EQ(status({{"host", "evil.example:4980"}}), 403);  // DNS rebinding
  EXPECT_EQ(status({{"host", "127.0.0.1.evil.example"}}), 403);
  EXPECT_EQ(status({}), 403);
  EXPECT_EQ(status({{"host", "127.0.0.1:4980"}, {"origin", "https://evil.example"}}), 403);
  EXPECT_EQ(status({{"host", "127.0.0.1:4980"}, {"origin", "http://127.0.0.1:3000"}}), 403);
  EXPECT_EQ(status({{"host", "127.0.0.1:4980"}, {"origin", "null"}}), 403);
  EXPECT_EQ(status({{"host", "127.0.0.1:4980"}, {"origin", "http://127.0.0.1:4980"}}), 200);
  EXPECT_EQ(status({{"host", "127.0.0.1:4980"}, {"x-forwarded-for", "10.0.0.9"}}), 401);
  const auto local = rules.client_of(local_call({{"host", "localhost"}, {"x-cudal1-client", "trainer-3"}}));
  ASSERT_TRUE(local);
  EXPECT_EQ(local->name, "local:trainer-3");
  EXPECT_FALSE(require(*local, "import"));
  auto elsewhere = local_call({{"host", "127.0.0.1"}});
  elsewhere.from_this_machine = false;
  EXPECT_EQ(status_of(rules.client_of(elsewhere)), 401);
  EXPECT_EQ(status_of(access_rules({data.path(), false, false, false}).client_of(local_call({{"host", "127.0.0.1"}}))),
            401);
}

TEST(fair_queue, clients_take_turns_whatever_they_ask_for) {
  fair_queue q;
  for (std::size_t i = 0; i < 100; ++i)
    q.add("greedy", {"j1", i});
  ASSERT_TRUE(q.take());
  q.add("small", {"j2", 0});
  EXPECT_EQ(q.waiting(), 100u);
  EXPECT_LE(*q.position("small", {"j2", 0}), 1);
  EXPECT_EQ(*q.position("greedy", {"j1", 2}), 2);  // one of the other is before it
  std::vector<std::string> order;
  for (int i = 0; i < 3; ++i)
    order.push_back(q.take()->job);
  EXPECT_EQ(std::count(order.begin(), order.end(), "j2"), 1);
}

TEST(fair_queue, the_share_is_of_device_time) {
  fair_queue q;
  std::map<std::string, double> used;
  for (std::size_t i = 0; i < 1000; ++i) {
    q.add("slow", {"slow", i});
    q.add("fast", {"fast", i});
  }
  for (int i = 0; i < 300; ++i) {
    const auto item = q.take();
    const double took = item->job == "slow" ? 4.0 : 1.0;
    used[item->job] += took;
    q.charge(item->job, took);
  }
  EXPECT_NEAR(used["slow"] / used["fast"], 1, 0.15);
}

TEST(fair_queue, positions_are_what_happens) {
  fair_queue q;
  for (std::size_t i = 0; i < 5; ++i) {
    q.add("a", {"a", i});
    if (i < 3) q.add("b", {"b", i});
    if (i < 1) q.add("c", {"c", i});
  }
  std::map<std::pair<std::string, std::size_t>, int64_t> foretold;
  for (std::size_t i = 0; i < 5; ++i)
    for (const char* client : {"a", "b", "c"})
      if (const auto p = q.position(client, {client, i})) foretold[{client, i}] = *p;
  for (int64_t turn = 0; q.waiting() > 0; ++turn) {
    const auto item = *q.take();
    EXPECT_EQ((foretold[{item.job, item.index}]), turn) << item.job << item.index;
  }
}

TEST(client_limits, requests_and_device_time_are_filled_again_by_time) {
  client_limits limits(10, 3600);
  const auto now = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(limits.request("a", now), 0);
  EXPECT_NEAR(limits.request("a", now), 0.1, 0.01);
  EXPECT_EQ(limits.request("b", now), 0);
  EXPECT_EQ(limits.request("a", now + 200ms), 0);
  EXPECT_EQ(limits.device_wait("a", now + 200ms), 0);
  limits.used_device("a", 3700, now + 200ms);
  EXPECT_NEAR(limits.device_wait("a", now + 200ms), 100, 1);
  EXPECT_EQ(limits.device_wait("a", now + 102s), 0);
}

TEST(json_schema, says_what_is_wrong_and_where) {
  const json schema = *json::parse(R"({"type": "object", "required": ["task"], "additionalProperties": false,
    "properties": {"task": {"type": "string", "pattern": "^[a-z]+$"}, "n": {"type": "integer", "minimum": 1},
                   "list": {"type": "array", "maxItems": 2, "items": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}}})");
  const auto problem = [&](const char* text) {
    const auto checked = check_schema(*json::parse(text), schema, "body");
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(problem(R"({"task": "softmax", "n": 3, "list": [{"a": 1}, {"b": 2}]})"), "");
  EXPECT_THAT(problem("[]"), HasSubstr("not of type object"));
  EXPECT_THAT(problem("{}"), HasSubstr("\"task\" is missing"));
  EXPECT_THAT(problem(R"({"task": "../x"})"), HasSubstr("body.task"));
  EXPECT_THAT(problem(R"({"task": "a", "n": 0})"), HasSubstr("less than 1"));
  EXPECT_THAT(problem(R"({"task": "a", "n": 1.5})"), HasSubstr("not of type integer"));
  EXPECT_THAT(problem(R"({"task": "a", "more": 1})"), HasSubstr("\"more\" is not known"));
  EXPECT_THAT(problem(R"({"task": "a", "list": [{"a": 1, "b": 1}]})"), HasSubstr("exactly one of \"a\", \"b\""));
  EXPECT_THAT(problem(R"({"task": "a", "list": [{"a": 1}, {"a": 1}, {"a": 1}]})"), HasSubstr("more than 2"));
  const json none = *json::parse(R"({"not": {}, "description": "not yet"})");
  EXPECT_THAT(check_schema(json("x"), none, "body.python").error().message, HasSubstr("body.python: not yet"));
  EXPECT_FALSE(value_of_text("1e3", schema_of("integer"), "n"));
  EXPECT_EQ(value_of_text("12", schema_of("integer"), "n")->as_int(), 12);
}

TEST(routes, requests_are_read_by_the_table) {
  route_table table;
  table.add({.method = "GET",
             .path = "/v1/tasks/{task}",
             .id = "a",
             .parameters = {path_value("task", "^[a-z]+$", ""), query_value("n", number_schema("integer", 1, 9), "")},
             .body = {},
             .result = {}});
  table.add({.method = "POST", .path = "/v1/tasks", .id = "b", .body = object_schema({}, {"x"}, true), .result = {}});
  const auto status = [&](const char* method, const char* target, const char* body = "", const char* type = "") {
    const auto found = table.find(method, target);
    if (!found) return found.error().status;
    http_call call = local_call({{"content-type", type}});
    call.target = target;
    call.body = body;
    const auto read = table.read(**found, call, {});
    return read ? 200 : read.error().status;
  };
  EXPECT_EQ(status("GET", "/v1/tasks/softmax?n=3"), 200);
  EXPECT_EQ(status("GET", "/v1/tasks/softmax?n=0"), 400);
  EXPECT_EQ(status("GET", "/v1/tasks/softmax?n=3&n=4"), 400);
  EXPECT_EQ(status("GET", "/v1/tasks/softmax?m=3"), 400);
  EXPECT_EQ(status("GET", "/v1/tasks/..%2f..%2fetc"), 404);
  EXPECT_EQ(status("GET", "/v1/tasks/%00"), 400);
  EXPECT_EQ(status("GET", "/v1/tasks/%zz"), 400);
  EXPECT_EQ(status("GET", "/v1/tasks/"), 404);
  EXPECT_EQ(status("PUT", "/v1/tasks/softmax"), 405);
  EXPECT_EQ(status("GET", "/v2"), 404);
  EXPECT_EQ(status("POST", "/v1/tasks", "{}", "text/plain"), 415);
  EXPECT_EQ(status("POST", "/v1/tasks", "{", "application/json"), 400);
  EXPECT_EQ(status("POST", "/v1/tasks", "{\"y\": 1}", "application/json"), 400);
  EXPECT_EQ(status("POST", "/v1/tasks", "{\"x\": 1}", "application/json; charset=utf-8"),
            400);  // x has no schema: closed
  const json document = table.openapi("1.0");
  EXPECT_NE(document.find("paths")->find("/v1/tasks/{task}")->find("get"), nullptr);
}

TEST(verdict_document, says_what_to_write_instead) {
  verdict v;
  v.result = outcome::wrong_answer;
  v.gates = {{"1 form", true, "fine"}, {"3 error", false, "too large"}};
  const json wrong = verdict_document(v, "e1", "cpu");
  EXPECT_EQ(wrong.find("failed_gate")->as_string(), "3 error");
  EXPECT_THAT(wrong.find("hint")->as_string(), HasSubstr("float32"));
  EXPECT_TRUE(wrong.find("speedup")->is_null());
  v = {};
  v.score = 2;
  v.score_interval = {1.9, 2.1};
  EXPECT_EQ(hint_of(v), "");
  v.score_interval = {0.9, 1.1};
  EXPECT_THAT(hint_of(v), HasSubstr("not faster"));
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

job job_for(const std::string& client, std::size_t items, const std::string& key = "",
            const std::string& request = "r") {
  job j;
  j.client = client;
  j.task = "softmax";
  j.key = key;
  j.request = request;
  j.items.resize(items);
  for (auto& item : j.items)
    item.program = "p";
  return j;
}

TEST(job_board, an_accepted_job_survives_the_process) {
  const temporary_folder data;
  std::string id;
  {
    const auto board = *job_board::open(data.path(), {});
    id = board->submit(job_for("ann", 2))->id;
    const auto first = board->take(work_kind::variant);
    board->begun(*first, "e7");
    board->finish(*first, json::make_object({{"outcome", "correct"}}), 0.5);
    const auto second = board->take(work_kind::variant);
    board->begun(*second, "e8");  // and the process is killed
  }
  const auto board = *job_board::open(data.path(), {});
  const api_client ann{"ann", {}, false};
  const auto before = board->document(ann, id);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->find("finished")->as_int(), 1);
  EXPECT_EQ(before->find("position")->as_int(), 0);
  const auto again = board->take(work_kind::variant);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->place.index, 1u);
  EXPECT_EQ(again->item.experiment, "e8");
  board->finish(*again, json::make_object({{"outcome", "correct"}}), 0.5);
  EXPECT_EQ(board->document(ann, id)->find("state")->as_string(), "done");
  EXPECT_FALSE(board->document({"bob", {}, false}, id));
  EXPECT_TRUE(board->document({"bob", {"stop"}, false}, id));
}

TEST(job_board, a_key_names_one_job) {
  const temporary_folder data;
  const auto board = *job_board::open(data.path(), {});
  const auto first = board->submit(job_for("ann", 1, "k"));
  const auto same = board->submit(job_for("ann", 1, "k"));
  EXPECT_TRUE(first->is_new);
  EXPECT_FALSE(same->is_new);
  EXPECT_EQ(first->id, same->id);
  EXPECT_NE(board->submit(job_for("bob", 1, "k"))->id, first->id);
  EXPECT_EQ(board->submit(job_for("ann", 1, "k", "another")).error().status, 422);
}

TEST(job_board, limits_are_429_with_a_time) {
  const temporary_folder data;
  serving_options options;
  options.waiting = 3;
  options.device_s_per_hour = 10;
  const auto board = *job_board::open(data.path(), options);
  EXPECT_TRUE(board->submit(job_for("ann", 3)));
  const auto full = board->submit(job_for("ann", 1));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().status, 429);
  EXPECT_GE(full.error().retry_after_s, 1);
  EXPECT_TRUE(board->submit(job_for("bob", 3)));
  const auto w = board->take(work_kind::variant);
  board->finish(*w, {}, 11);
  EXPECT_EQ(board->submit(job_for(w->client, 1)).error().code, "device_time_used");
}

TEST(job_board, cancelling_wakes_the_worker_and_ends_the_job) {
  const temporary_folder data;
  const auto board = *job_board::open(data.path(), {});
  const api_client ann{"ann", {}, false};
  const auto id = board->submit(job_for("ann", 2))->id;
  const auto w = *board->take(work_kind::variant);
  ASSERT_TRUE(board->cancel(ann, id));
  uint64_t woken = 0;
  EXPECT_EQ(::read(w.cancelled_fd, &woken, sizeof woken), static_cast<ssize_t>(sizeof woken));
  board->put_back(w);
  EXPECT_EQ(board->document(ann, id)->find("state")->as_string(), "cancelled");
  EXPECT_FALSE(board->is_busy());
}

TEST(job_board, a_fault_is_no_verdict) {
  const temporary_folder data;
  const auto board = *job_board::open(data.path(), {});
  const auto id = board->submit(job_for("ann", 1))->id;
  board->fail_item(*board->take(work_kind::variant), {errc::infrastructure, "the device was lost"});
  const auto document = *board->document({"ann", {}, false}, id);
  EXPECT_EQ(document.find("state")->as_string(), "failed");
  const auto& item = document.find("results")->as_array().front();
  EXPECT_TRUE(item.find("verdict")->is_null());
  EXPECT_EQ(item.find("error")->find("code")->as_string(), "infrastructure");
}

}  // namespace
}  // namespace cudal1::serve
