// Whole prompts, compared with files. CUDAL1_TEST_UPDATE_SNAPSHOTS=1 writes the files: read the difference before it is
// committed, as a model would.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/prompt/prompt_text.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;
using testing::Not;

struct snapshot_case {
  std::string task, target;
  answer_form form = answer_form::program;
  prompt_detail detail = prompt_detail::full;
  std::string file() const {
    return task + "." + target + (form == answer_form::schedule ? ".schedule" : "") +
           (detail == prompt_detail::compact ? ".compact" : "") + ".txt";
  }
};

class snapshots : public testing::TestWithParam<snapshot_case> {};

// The variants of rms_norm on a GPU were profiled.
document_sources sources_of(const prompt& p, const snapshot_case& c) {
  auto from = sources_for(p, c.form);
  if (c.task == "rms_norm" && c.target == "cuda")
    for (const auto& e : p.exemplars)
      from.counters.emplace(e.id(), profile_for(e, &e == &p.exemplars.front()));
  return from;
}

std::string both(const prompt_text& p) {
  return "===== system =====\n" + p.system + "===== user =====\n" + p.user;
}

std::string read_snapshot(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_P(snapshots, the_prompt_is_the_text_that_was_reviewed) {
  const auto& c = GetParam();
  const auto p = contrastive_prompt(c.task, c.target);
  const auto document = build_document(p, sources_of(p, c));
  ASSERT_TRUE(holds(document));
  const auto text = render(*document, 12000, c.detail);
  ASSERT_TRUE(holds(text));
  const auto path = std::string(CUDAL1_SNAPSHOTS) + "/" + c.file();
  if (const char* update = std::getenv("CUDAL1_TEST_UPDATE_SNAPSHOTS"); update != nullptr && *update == '1') {
    std::ofstream(path, std::ios::binary) << both(*text);
    return;
  }
  EXPECT_EQ(both(*text), read_snapshot(path)) << "CUDAL1_TEST_UPDATE_SNAPSHOTS=1 writes " << path;
}

TEST_P(snapshots, a_prompt_is_complete_within_its_budget) {
  const auto& c = GetParam();
  const auto p = contrastive_prompt(c.task, c.target);
  const auto text = render(*build_document(p, sources_of(p, c)), 12000, c.detail);
  ASSERT_TRUE(holds(text));
  EXPECT_THAT(text->dropped, testing::IsEmpty());
  EXPECT_LE(text->tokens, 12000);
}

TEST_P(snapshots, the_text_depends_on_nothing_but_its_inputs) {
  const auto& c = GetParam();
  const auto once = contrastive_prompt(c.task, c.target), again = contrastive_prompt(c.task, c.target);
  const auto a = render(*build_document(once, sources_for(once, c.form)), 12000, c.detail);
  const auto b = render(*build_document(again, sources_for(again, c.form)), 12000, c.detail);
  ASSERT_TRUE(holds(a));
  ASSERT_TRUE(holds(b));
  EXPECT_EQ(a->id(), b->id());
  for (const char* machine : {"Linux", "flags 1f2e3d", CUDAL1_SNAPSHOTS})
    EXPECT_THAT(both(*a), Not(HasSubstr(machine)));
}

INSTANTIATE_TEST_SUITE_P(
    all, snapshots,
    testing::Values(snapshot_case{"gelu_by_hand", "cpu"}, snapshot_case{"gelu_by_hand", "cuda"},
                    snapshot_case{"rms_norm", "cpu"}, snapshot_case{"rms_norm", "cuda"},
                    snapshot_case{"linear_gelu", "cpu"}, snapshot_case{"linear_gelu", "cuda"},
                    snapshot_case{"rms_norm", "cpu", answer_form::schedule},
                    snapshot_case{"rms_norm", "cuda", answer_form::program, prompt_detail::compact},
                    snapshot_case{"rms_norm", "cpu", answer_form::schedule, prompt_detail::compact}),
    [](const auto& made) {
      auto name = made.param.file();
      std::ranges::replace(name, '.', '_');
      return name;
    });

}  // namespace
}  // namespace cudal1
