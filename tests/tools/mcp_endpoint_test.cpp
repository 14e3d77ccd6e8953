// The Model Context Protocol's endpoint without a node: messages, calls and their sessions, what an agent reads.
#include "tools/serve/mcp/mcp_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "tools/serve/mcp/calls.hpp"
#include "tools/serve/mcp/json_rpc.hpp"
#include "tools/serve/mcp/own_requests.hpp"
#include "tools/serve/mcp/told_verdict.hpp"
#include "tools/serve/mcp/tools.hpp"

namespace cudal1::serve::mcp {
namespace {

using testing::HasSubstr;
using testing::Not;

const api_client ann{"ann", {"evaluate"}, false};

TEST(mcp_messages, are_requests_notifications_or_responses) {
  const auto request = read_message(R"({"jsonrpc": "2.0", "id": 7, "method": "ping"})");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->is_request());
  EXPECT_TRUE(request->params.is_object());
  EXPECT_FALSE(read_message(R"({"jsonrpc": "2.0", "method": "notifications/initialized"})")->is_request());
  EXPECT_FALSE(read_message(R"({"jsonrpc": "2.0", "id": "a", "result": {}})")->is_request());
  EXPECT_EQ(read_message("{").error().code, rpc_code::parse_error);
  EXPECT_EQ(read_message("\"\xff\"").error().code, rpc_code::parse_error);
  for (const char* wrong :
       {"[]", "1", R"({"id": 1, "method": "ping"})", R"({"jsonrpc": "2.0", "id": null, "method": "ping"})",
        R"({"jsonrpc": "2.0", "id": 1.5, "method": "ping"})", R"({"jsonrpc": "2.0", "id": 1})",
        R"({"jsonrpc": "2.0", "id": 1, "method": ""})", R"({"jsonrpc": "2.0", "id": 1, "method": "p", "params": []})"})
    EXPECT_EQ(read_message(wrong).error().code, rpc_code::invalid_request) << wrong;
}

TEST(mcp_messages, an_error_has_the_id_that_is_known) {
  EXPECT_EQ(error_text(json(7), {rpc_code::no_method, "no", {}}),
            R"({"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}})");
  EXPECT_THAT(error_text({}, {rpc_code::parse_error, "no", {}}), Not(HasSubstr("id")));
}

TEST(mcp_calls, are_cancelled_by_their_own_session_only) {
  call_table calls;
  const auto call = calls.begin({"ann", "s1", "1"}, ann);
  EXPECT_TRUE(call->set_job("j1"));
  EXPECT_EQ(calls.to_cancel({"ann", "s2", "1"}), nullptr);
  EXPECT_EQ(calls.to_cancel({"bob", "s1", "1"}), nullptr);
  EXPECT_EQ(calls.to_cancel({"ann", "s1", "\"1\""}), nullptr);
  EXPECT_EQ(calls.to_cancel({"ann", "s1", "1"}), call);
  EXPECT_EQ(call->cancel(), "j1");
  EXPECT_EQ(call->cancel(), "");  // once
  calls.end(*call);
  EXPECT_EQ(calls.to_cancel({"ann", "s1", "1"}), nullptr);
}

TEST(mcp_calls, a_cancellation_may_come_first) {
  call_table calls;
  EXPECT_EQ(calls.to_cancel({"ann", "s1", "2"}), nullptr);
  const auto call = calls.begin({"ann", "s1", "2"}, ann);
  EXPECT_TRUE(call->is_cancelled());
  EXPECT_FALSE(call->set_job("j1"));
  calls.to_cancel({"ann", "", "3"});
  EXPECT_FALSE(calls.begin({"ann", "", "3"}, ann)->is_cancelled());  // another client's, perhaps
}

TEST(mcp_calls, end_with_their_session) {
  call_table calls;
  const auto one = calls.begin({"ann", "s1", "1"}, ann), other = calls.begin({"ann", "s2", "1"}, ann);
  EXPECT_THAT(calls.end_session("ann", "s1"), testing::ElementsAre(one));
  EXPECT_TRUE(calls.has_ended("ann", "s1"));
  EXPECT_FALSE(calls.has_ended("bob", "s1"));
  EXPECT_FALSE(calls.has_ended("ann", "s2"));
  EXPECT_TRUE(is_session(*new_session()));
  EXPECT_NE(*new_session(), *new_session());
}

TEST(mcp_tools, ask_with_the_permissions_and_checks_of_routes) {
  route_table table;
  const auto echo = answer_with([](const api_call& call) -> api_result<json> {
    if (call.text("name") == "none") return refuse({404, "not_found", "there is none", "look"});
    return json::make_object({{"name", call.text("name")}});
  });
  table.add({.method = "GET",
             .path = "/v1/things/{name}",
             .id = "thing",
             .permission = "evaluate",
             .parameters = {path_value("name", "^[a-z]+$", "its name")},
             .handle = echo});
  const own_requests own(table, ann);
  EXPECT_EQ(text_member(*own.ask("thing", {{"name", "a"}}), "name"), "a");
  EXPECT_EQ(own.ask("thing", {{"name", "A/.."}}).error().status, 404);
  EXPECT_EQ(own.ask("thing", {{"name", 1}}).error().status, 404);
  EXPECT_EQ(text_of(own.ask("thing", {{"name", "none"}}).error()), "there is none (look)");
  EXPECT_EQ(own_requests(table, {"bob", {}, false}).ask("thing", {{"name", "a"}}).error().status, 403);
  EXPECT_EQ(own.ask("no_such").error().status, 500);
}

TEST(mcp_tools, an_evaluation_ends_with_a_verdict_or_a_fault) {
  const auto verdict = json::make_object({{"outcome", "correct"},
                                          {"correct", true},
                                          {"speedup", 2.0},
                                          {"interval", json::make_array({1.9, 2.1})},
                                          {"reference_us", 10.0},
                                          {"variant_us", 5.0}});
  EXPECT_THAT(verdict_text(verdict), HasSubstr("Speedup 2x, 95% interval [1.9, 2.1]"));
  const auto job_with = [](const char* name, json value) {
    return json::make_object(
        {{"id", "j1"}, {"state", "x"}, {"results", json::make_array({json::make_object({{name, std::move(value)}})})}});
  };
  EXPECT_FALSE(evaluation_result(job_with("verdict", verdict)).find("isError")->as_bool());
  const auto fault = evaluation_result(job_with("error", json::make_object({{"message", "lost"}, {"hint", "again"}})));
  EXPECT_TRUE(fault.find("isError")->as_bool());
  EXPECT_EQ(fault.find("structuredContent"), nullptr);
  EXPECT_THAT(fault.text(), HasSubstr("lost (again)"));
  EXPECT_TRUE(evaluation_result(job_with("verdict", {})).find("isError")->as_bool());
}

TEST(mcp_jobs, are_watched_to_their_end_or_a_limit) {
  const temporary_folder data;
  const auto board = *job_board::open(data.path(), {});
  job j;
  j.client = "ann";
  j.task = "softmax";
  j.items.resize(1);
  j.items[0].schedule = "x";
  const auto first = board->submit(j)->id, second = board->submit(j)->id;
  std::vector<std::string> states;
  bool is_over = false;
  board->watch(first, 60, [&](const json& now, bool is_last) {
    EXPECT_FALSE(is_over);
    states.push_back(text_member(now, "state"));
    is_over = is_last;
  });
  const auto w = *board->take(work_kind::variant);
  board->finish(w, json::make_object(), 1);
  EXPECT_TRUE(is_over);
  EXPECT_THAT(states, testing::ElementsAre("waiting", "running", "done"));
  bool is_late = false;
  board->watch(second, 0, [&](const json& now, bool is_last) {
    EXPECT_EQ(text_member(now, "state"), "waiting");
    is_late = is_last;
  });
  EXPECT_TRUE(is_late);
  board->watch("j0", 60, [&](const json& now, bool is_last) { EXPECT_TRUE(is_last && now.is_null()); });
}

}  // namespace
}  // namespace cudal1::serve::mcp
