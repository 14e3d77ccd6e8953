// Pages of keys and values: sharing, copies, promises, eviction, against a model of what each page holds.
#include "policy/model/page_pool.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using admission = page_pool::admission;

std::vector<token> numbers(token first, std::size_t count) {
  std::vector<token> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(first + static_cast<token>(i));
  return out;
}

struct begun_text {
  page_pool::text text;
  page_pool::copy copied;
  admission became = admission::no_room;
};

begun_text begin(page_pool& pool, const std::vector<token>& prompt, int64_t most) {
  begun_text out;
  out.became = pool.begin(prompt, most, out.text, out.copied);
  return out;
}

TEST(page_pool, later_texts_share_whole_pages_and_copy_a_part) {
  page_pool pool(16, 4);
  auto a = begin(pool, numbers(0, 11), 12);
  ASSERT_EQ(a.became, admission::begun);
  EXPECT_EQ(a.text.pages().size(), 3u);
  EXPECT_EQ(a.text.read(), 0);
  // What a is about to read is worth waiting for.
  EXPECT_EQ(begin(pool, numbers(0, 11), 12).became, admission::being_read);
  pool.mark_read(a.text, 11);
  auto b = begin(pool, numbers(0, 11), 12);
  ASSERT_EQ(b.became, admission::begun);
  EXPECT_EQ(b.text.read(), 10);  // its last token must be read
  EXPECT_EQ(b.text.pages()[0], a.text.pages()[0]);
  EXPECT_EQ(b.text.pages()[1], a.text.pages()[1]);
  EXPECT_EQ(b.copied.from, a.text.pages()[2]);
  EXPECT_EQ(b.copied.to, b.text.pages()[2]);
  EXPECT_EQ(pool.used(), 4);
  pool.end(a.text);
  pool.end(b.text);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(pool.most_used(), 4);
  const auto c = begin(pool, numbers(0, 6), 6);
  EXPECT_EQ(c.text.read(), 5);
}

TEST(page_pool, an_answers_tokens_are_shared_once_they_are_read) {
  page_pool pool(16, 4);
  auto a = begin(pool, numbers(0, 3), 9);
  pool.mark_read(a.text, 3);
  for (token t = 3; t < 9; ++t) {
    EXPECT_EQ(pool.extend(a.text), t == 4 || t == 8);
    pool.set_token(a.text, t);
    pool.mark_read(a.text, 1);
  }
  pool.end(a.text);
  const auto b = begin(pool, numbers(0, 20), 20);
  EXPECT_EQ(b.text.read(), 9);
}

TEST(page_pool, promises_are_kept_and_the_oldest_texts_make_room) {
  page_pool pool(6, 4);
  auto a = begin(pool, numbers(0, 4), 8), b = begin(pool, numbers(100, 4), 8);
  pool.mark_read(a.text, 4);
  pool.mark_read(b.text, 4);
  EXPECT_EQ(begin(pool, numbers(200, 4), 12).became, admission::no_room);
  pool.end(a.text);
  pool.end(b.text);
  EXPECT_EQ(begin(pool, numbers(0, 5), 5).text.read(), 4);
  page_pool small(4, 4);
  for (token first : {0, 100, 200}) {
    auto each = begin(small, numbers(first, 8), 8);
    ASSERT_EQ(each.became, admission::begun);
    small.mark_read(each.text, 8);
    small.end(each.text);
  }
  auto last = begin(small, numbers(200, 8), 8);
  EXPECT_EQ(last.text.read(), 7);
  small.end(last.text);
  EXPECT_EQ(begin(small, numbers(0, 8), 8).text.read(), 0);  // its pages were taken
}

TEST(page_pool, forgets) {
  page_pool pool(8, 4);
  auto a = begin(pool, numbers(0, 12), 12);
  pool.mark_read(a.text, 12);
  pool.end(a.text);
  pool.forget();
  EXPECT_EQ(begin(pool, numbers(0, 12), 12).text.read(), 0);
}

// What the cache would hold: the tokens that were read into each page.
class simulated_cache {
 public:
  void copy(const page_pool::copy& c, int64_t) {
    if (c.to >= 0) held_[c.to] = held_[c.from];
  }
  void write(const page_pool::text& t, int64_t place, token value, int64_t page_tokens) {
    auto& page = held_[t.pages()[static_cast<std::size_t>(place / page_tokens)]];
    page.resize(static_cast<std::size_t>(page_tokens), -1);
    page[static_cast<std::size_t>(place % page_tokens)] = value;
  }
  void expect(const page_pool::text& t, const std::vector<token>& tokens, int64_t page_tokens) {
    for (int64_t i = 0; i < t.read(); ++i) {
      const auto& page = held_[t.pages()[static_cast<std::size_t>(i / page_tokens)]];
      ASSERT_GT(static_cast<int64_t>(page.size()), i % page_tokens);
      ASSERT_EQ(page[static_cast<std::size_t>(i % page_tokens)], tokens[static_cast<std::size_t>(i)]);
    }
  }

 private:
  std::map<int32_t, std::vector<token>> held_;
};

TEST(page_pool, holds_each_texts_tokens_under_random_use) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (const int64_t page_tokens : {1, 3, 8}) {
    page_pool pool(24, page_tokens);
    simulated_cache cache;
    struct live {
      page_pool::text text;
      std::vector<token> tokens;
      int64_t most = 0, prompt = 0;
    };
    std::vector<live> texts;
    int begun = 0;
    for (int i = 0; i < 4000; ++i) {
      const int what = below(3);
      if (what == 0) {
        live made;
        for (int k = 1 + below(20); k > 0; --k)
          made.tokens.push_back(below(2));
        made.prompt = static_cast<int64_t>(made.tokens.size());
        made.most = made.prompt + below(8);
        page_pool::copy copied;
        if (pool.begin(made.tokens, made.most, made.text, copied) != admission::begun) continue;
        ++begun;
        ASSERT_LT(made.text.read(), made.prompt);
        cache.copy(copied, page_tokens);
        cache.expect(made.text, made.tokens, page_tokens);
        texts.push_back(std::move(made));
      } else if (!texts.empty()) {
        const auto at = static_cast<std::size_t>(below(static_cast<int>(texts.size())));
        auto& t = texts[at];
        const int64_t read = t.text.read();
        if (what == 1 && read < t.prompt) {
          const int64_t count = 1 + below(static_cast<int>(t.prompt - read));
          for (int64_t k = 0; k < count; ++k)
            cache.write(t.text, read + k, t.tokens[static_cast<std::size_t>(read + k)], page_tokens);
          pool.mark_read(t.text, count);
        } else if (what == 1 && t.text.size() < t.most) {
          pool.extend(t.text);
          t.tokens.push_back(below(2));
          cache.write(t.text, read, t.tokens.back(), page_tokens);
          pool.set_token(t.text, t.tokens.back());
          pool.mark_read(t.text, 1);
        } else if (below(4) == 0) {
          pool.end(t.text);
          texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(at));
          continue;
        }
        cache.expect(t.text, t.tokens, page_tokens);
      }
    }
    EXPECT_GT(begun, 200);
    for (auto& t : texts)
      pool.end(t.text);
    EXPECT_EQ(pool.used(), 0);
    pool.forget();
    EXPECT_EQ(begin(pool, numbers(0, static_cast<std::size_t>(24 * page_tokens)), 24 * page_tokens).became,
              admission::begun);
  }
}

}  // namespace
}  // namespace cudal1
