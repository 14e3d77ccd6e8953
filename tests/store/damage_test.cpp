// Damaged and newer stores: an error that says so, never a wrong record.
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include <rocksdb/db.h>

#include "store/keys.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

constexpr int variants = 12;

std::string name(int i) {
  return "v" + std::to_string(i);
}

std::map<std::string, std::string> fill(const std::string& folder) {
  std::map<std::string, std::string> texts;
  auto s = store::open(folder);
  EXPECT_TRUE(holds(s));
  for (int i = 0; i < variants; ++i) {
    const auto a = (*s)->reserve(make_variant(name(i)), "e1").value();
    const auto v = make_full_verdict(a, static_cast<uint64_t>(i));
    EXPECT_TRUE(holds((*s)->commit(a, v, make_environment())));
    texts[a.variant] = to_text(v);
  }
  return texts;
}

// Reads everything; the first error, or nothing if all is exactly as it was written.
std::optional<error> first_problem(const std::string& folder, const std::map<std::string, std::string>& texts) {
  auto s = store::open(folder);
  if (!s) return s.error();
  for (const auto& [id, text] : texts) {
    const auto v = (*s)->verdicts_of_variant(id);
    if (!v) return v.error();
    EXPECT_EQ(v->size(), 1u) << "a record is missing without an error";
    for (const auto& one : *v)
      EXPECT_EQ(to_text(one), text);
    const auto variant = (*s)->get_variant(id);
    if (!variant) return variant.error();
  }
  const auto best = (*s)->best("task-a", 100'000, store::ranking::all);
  if (!best) return best.error();
  EXPECT_EQ(best->size(), texts.size());
  return std::nullopt;
}

std::vector<std::filesystem::path> files(const std::string& folder, const std::string& extension) {
  std::vector<std::filesystem::path> out;
  for (const auto& f : std::filesystem::directory_iterator(folder))
    if (f.path().extension() == extension && f.file_size() > 0) out.push_back(f.path());
  std::sort(out.begin(), out.end());
  return out;
}

void flip_byte(const std::filesystem::path& file, std::size_t at) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const char c = static_cast<char>(f.get() ^ 0x41);
  f.seekp(static_cast<std::streamoff>(at));
  f.put(c);
}

// Flips one byte, of all that files of that extension have, in each of `tries` stores; returns how many of the flips
// were noticed. Each store is a new one: what was read of another, or of a copy, is in this process's block cache.
int noticed_flips(const std::string& extension, int tries) {
  std::mt19937 random(11);
  int noticed = 0;
  for (int i = 0; i < tries; ++i) {
    const store_folder folder;
    const auto texts = fill(folder.store());
    if (extension == ".sst") {
      EXPECT_TRUE(holds(store::open(folder.store()))) << "moves the log into tables";
    }
    const auto all = files(folder.store(), extension);
    EXPECT_FALSE(all.empty()) << extension;
    if (all.empty()) return 0;
    std::size_t bytes = 0;
    for (const auto& file : all)
      bytes += std::filesystem::file_size(file);
    std::size_t at = random() % bytes;
    auto file = all.begin();
    for (; at >= std::filesystem::file_size(*file); ++file)
      at -= std::filesystem::file_size(*file);
    flip_byte(*file, at);
    const auto problem = first_problem(folder.store(), texts);
    if (!problem) continue;
    ++noticed;
    EXPECT_EQ(problem->code, errc::corrupt) << problem->message;
    EXPECT_NE(problem->message.find(folder.store()), std::string::npos)
        << "it does not name the folder: " << problem->message;
  }
  return noticed;
}

TEST(store_damage, a_flipped_byte_in_the_log_is_an_error_and_never_a_lost_or_wrong_record) {
  const int noticed = noticed_flips(".log", 40);
  std::printf("%d of 40 flips in the log were noticed\n", noticed);
  EXPECT_GT(noticed, 30);
}

TEST(store_damage, a_flipped_byte_in_a_table_is_an_error_and_never_a_wrong_record) {
  const int noticed = noticed_flips(".sst", 40);
  std::printf("%d of 40 flips in the tables were noticed\n", noticed);
  EXPECT_GT(noticed, 25);
}

// ---- the schema -----------------------------------------------------------------------------------------------------

// Opens all of its families; null, and a failure of the test, if that does not work.
std::unique_ptr<rocksdb::DB> open_raw(const std::string& folder, std::vector<rocksdb::ColumnFamilyHandle*>& handles) {
  std::vector<std::string> names;
  EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, folder, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const auto& n : names)
    families.emplace_back(n, rocksdb::ColumnFamilyOptions());
  rocksdb::DB* raw = nullptr;
  EXPECT_TRUE(rocksdb::DB::Open({}, folder, families, &handles, &raw).ok());
  return std::unique_ptr<rocksdb::DB>(raw);
}

void set_schema(const std::string& folder, const std::function<void(rocksdb::DB&, rocksdb::ColumnFamilyHandle&)>& set) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const auto db = open_raw(folder, handles);
  ASSERT_TRUE(db);
  for (auto* h : handles)
    if (h->GetName() == "meta") set(*db, *h);
  rocksdb::ColumnFamilyHandle* newer = nullptr;
  ASSERT_TRUE(db->CreateColumnFamily({}, "something_newer", &newer).ok());
  handles.push_back(newer);
  for (auto* h : handles)
    db->DestroyColumnFamilyHandle(h);
}

TEST(store_schema, a_newer_one_is_refused_with_advice) {
  store_folder folder;
  fill(folder.store());
  set_schema(folder.store(), [](auto& db, auto& meta) { EXPECT_TRUE(db.Put({}, &meta, "schema", "6").ok()); });
  for (const bool writer : {true, false}) {
    const auto s = writer ? store::open(folder.store()) : store::open_reader(folder.store());
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, errc::corrupt);
    EXPECT_NE(s.error().message.find("newer cudal1"), std::string::npos) << s.error().message;
    EXPECT_NE(s.error().message.find("its schema is 6, and this one knows up to 5"), std::string::npos);
  }
}

TEST(store_schema, records_without_a_readable_one_are_refused) {
  for (const char* text : {"", "two", "0", "1x"}) {
    store_folder folder;
    fill(folder.store());
    set_schema(folder.store(), [&](auto& db, auto& meta) { EXPECT_TRUE(db.Put({}, &meta, "schema", text).ok()); });
    EXPECT_EQ(store::open(folder.store()).error().code, errc::corrupt) << text;
  }
}

TEST(store_schema, unknown_families_are_ignored) {
  store_folder folder;
  const auto texts = fill(folder.store());
  set_schema(folder.store(), [](auto&, auto&) {});
  EXPECT_FALSE(first_problem(folder.store(), texts));
}

// A store as schema 1 kept it: whole verdicts, and no summaries, tallies or rankings. Variant i has the score 1 + i.
void make_schema_1(const std::string& folder, int variants, std::map<std::string, std::string>& texts) {
  std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName};
  for (const char* name : {"meta", "tasks", "variants", "verdicts", "scores", "experiments", "attempts", "events",
                           "policies", "environments", "baselines"})
    names.emplace_back(name);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const auto& n : names)
    families.emplace_back(n, rocksdb::ColumnFamilyOptions());
  rocksdb::Options options;
  options.create_if_missing = options.create_missing_column_families = true;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder, families, &handles, &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  const auto put = [&](const std::string& family, const std::string& key, const std::string& value) {
    const auto at = std::find(names.begin(), names.end(), family) - names.begin();
    ASSERT_TRUE(db->Put({}, handles[static_cast<std::size_t>(at)], key, value).ok());
  };
  put("meta", "schema", "1");
  for (int i = 0; i <= variants; ++i) {
    auto variant = make_variant(name(i));
    variant.experiment = "e1";
    attempt_record a{"e1", variant.task, variant.id, 1, attempt_state::finished, "", 1};
    if (i == variants) a.state = attempt_state::leased;
    put("variants", variant.id, to_text(variant));
    put("variants", keys::variant_use(variant.id, variant.task, "e1"), to_text(variant));
    put("attempts", keys::attempt("e1", variant.task, variant.id, 1), to_text(a));
    if (i == variants) break;
    auto v = make_full_verdict(a, static_cast<uint64_t>(i));
    v.score = 1 + i;
    texts[a.variant] = to_text(v);
    const auto key = keys::writer().text(a.variant).text("e1").text(a.task).number(1).take();
    put("verdicts", key, texts[a.variant]);
    put("scores", keys::writer().text(a.task).descending(v.score).take() + key, "{}");
  }
  for (auto* h : handles)
    db->DestroyColumnFamilyHandle(h);
}

TEST(store_schema, a_store_of_schema_1_is_converted_by_its_next_writer) {
  store_folder folder;
  std::map<std::string, std::string> texts;
  make_schema_1(folder.store(), 3000, texts);
  const auto reader = store::open_reader(folder.store());
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, errc::unsupported);
  EXPECT_NE(reader.error().message.find("an older cudal1"), std::string::npos) << reader.error().message;
  EXPECT_FALSE(first_problem(folder.store(), texts));
  for (int opened = 0; opened < 2; ++opened) {
    auto s = store::open_reader(folder.store());
    ASSERT_TRUE(holds(s));
    const auto best = (*s)->best("task-a", 2, store::ranking::confirmed, "e1").value();
    ASSERT_EQ(best.size(), 2u);
    EXPECT_EQ(best[0].result.score, 3000);
    EXPECT_EQ(best[1].result.score, 2999);
    const auto tally = (*s)->tallies("e1").value().at(0);
    EXPECT_EQ(tally.evaluations, 3000);
    EXPECT_EQ(tally.best, 3000);
    EXPECT_EQ(tally.lost, 1) << "it was leased when the last writer ended";
    EXPECT_EQ((*s)->unfinished_attempts("e1").value().at(0).variant, make_variant(name(3000)).id);
    EXPECT_EQ((*s)->verdicts_of_task("task-a", "e1").value().size(), 3000u);
    EXPECT_TRUE(holds(store::open(folder.store())));
  }
}

TEST(store_schema, an_interrupted_conversion_starts_again) {
  store_folder folder;
  std::map<std::string, std::string> texts;
  make_schema_1(folder.store(), 20, texts);
  {
    // What a conversion had written when it was interrupted.
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const auto db = open_raw(folder.store(), handles);
    rocksdb::ColumnFamilyHandle* tallies = nullptr;
    ASSERT_TRUE(db->CreateColumnFamily({}, "tallies", &tallies).ok());
    handles.push_back(tallies);
    tally_record partial;
    partial.evaluations = 7;
    ASSERT_TRUE(db->Put({}, tallies, keys::tally("e1", "task-a"), to_text(partial)).ok());
    for (auto* h : handles)
      db->DestroyColumnFamilyHandle(h);
  }
  EXPECT_FALSE(first_problem(folder.store(), texts));
  EXPECT_EQ(store::open_reader(folder.store()).value()->tallies("e1").value().at(0).evaluations, 20);
}

// Makes a store as it was before that family existed.
void drop_family(const std::string& folder, const std::string& name) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const auto db = open_raw(folder, handles);
  ASSERT_TRUE(db);
  for (auto* h : handles) {
    EXPECT_TRUE(h->GetName() != name || db->DropColumnFamily(h).ok());
    db->DestroyColumnFamilyHandle(h);
  }
}

TEST(store_schema, an_older_store_is_read_without_baselines_and_gains_them_with_its_next_writer) {
  store_folder folder;
  const auto texts = fill(folder.store());
  drop_family(folder.store(), "baselines");
  {
    auto r = store::open_reader(folder.store());
    ASSERT_TRUE(holds(r));
    EXPECT_TRUE((*r)->baselines_of_task("task-a").value().empty());
    EXPECT_FALSE((*r)->best("task-a", 10, store::ranking::all).value().empty())
        << "the other families are read correctly";
  }
  baseline_record b;
  b.task = "task-a";
  b.kind = "eager";
  {
    auto w = store::open(folder.store());
    ASSERT_TRUE(holds(w));
    ASSERT_TRUE(holds((*w)->put_baseline(b, make_environment())));
  }
  EXPECT_EQ(store::open_reader(folder.store()).value()->baselines_of_task("task-a").value().size(), 1u);
  EXPECT_FALSE(first_problem(folder.store(), texts));
  drop_family(folder.store(), "results");
  EXPECT_EQ(store::open_reader(folder.store()).error().code, errc::not_found) << "a family that every store has";
}

TEST(store_open, a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  store_folder folder;
  std::ofstream(folder.store()) << "a file is here";
  const auto s = store::open(folder.store());
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, errc::io_error);
  EXPECT_NE(s.error().message.find(folder.store()), std::string::npos);
}

}  // namespace
}  // namespace cudal1
