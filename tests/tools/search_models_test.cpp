// A search over several models as a user sees it: experiments that belong together.
#include "tools/cli/report/search_models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// e1 on a model A leads e2 on B; e3 is alone.
class search_models : public testing::Test {
 protected:
  search_models() {
    const auto ids = prepare_store(data_.path());
    const auto s = store::open(data_.path() + "/store").value();
    auto lead = s->get_experiment(ids.experiment).value();
    lead.model = "A";
    EXPECT_TRUE(holds(s->update_experiment(lead)));
    auto other = lead;
    other.model = "B";
    other.lead = lead.id;
    EXPECT_TRUE(holds(s->create_experiment(other)));
    other.lead = "";
    EXPECT_TRUE(holds(s->create_experiment(other)));
  }
  finished_program run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--data", data_.path()});
    return run_cudal1(arguments);
  }

  temporary_folder data_;
};

TEST_F(search_models, are_found_by_each_of_their_experiments) {
  const auto s = store::open_reader(data_.path() + "/store").value();
  for (const auto* id : {"e1", "e2"}) {
    const auto search = experiments_of_search(*s, id);
    ASSERT_TRUE(holds(search));
    ASSERT_EQ(search->size(), 2u);
    EXPECT_EQ(search->front().id, "e1");
  }
  const auto alone = experiments_of_search(*s, "e3");
  ASSERT_TRUE(holds(alone));
  EXPECT_EQ(alone->size(), 1u);
  EXPECT_THAT(members_of(*alone), IsEmpty());
}

TEST_F(search_models, are_shown_together) {
  const auto list = run({"experiments"}).out;
  EXPECT_THAT(list,
              AllOf(HasSubstr("e2 (of e1)"), HasSubstr("cpu (A)"), HasSubstr("cpu (B)"), Not(HasSubstr("e1 (of"))));
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"experiments", "e1"}, {"report", "--experiment", "e1"}}) {
    const auto one = run(arguments);
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_THAT(one.out, AllOf(HasSubstr("device cpu (A)"), HasSubstr("e1 on A, e2 on B")));
  }
  EXPECT_THAT(run({"experiments", "e3"}).out, Not(HasSubstr("several models")));
  const auto document = document_of(run({"experiments", "e1", "--json"}));
  EXPECT_EQ(at(document, "search.1.experiment"), json("e2"));
  EXPECT_EQ(at(document, "search.1.model"), json("B"));
}

TEST(port_commands, measure_the_best_of_each_model_on_a_device_of_the_others) {
  experiment_record a, b;
  a.id = "e1";
  a.model = "A";
  a.device = b.device = "cpu";
  b.id = "e2";
  b.model = "B";
  device_report here, there;
  here.where.device = "cpu";
  here.where.model = "A";
  there.where.device = "gpu7/cpu";
  there.where.model = "B";
  EXPECT_THAT(port_commands({a, b}, {here, there}),
              ElementsAre("cudal1 port e1 --device gpu7/cpu", "cudal1 port e2 --device cpu"));
  EXPECT_THAT(port_commands({a, b}, {here}), ElementsAre("cudal1 port e2 --device cpu")) << "the other one is away";
  EXPECT_THAT(port_commands({a}, {here, there}), IsEmpty());
}

}  // namespace
}  // namespace cudal1::cli
