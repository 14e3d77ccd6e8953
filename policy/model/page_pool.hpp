// Pages of a cache of keys and values: who uses which, and which tokens each holds, so that texts with the same
// beginning share pages. Free of LibTorch: it knows numbers of pages only.
//
// Pages form a tree: below a page are those of the texts that go on differently after it. A page whose text has ended
// stays, for later texts with the same beginning, until its room is needed (the one that was used longest ago goes
// first). Not safe for several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/text_generation.hpp"

namespace cudal1 {

class page_pool {
  struct page;

 public:
  // What a text occupies. Made by begin(), ended by end().
  class text {
   public:
    // Numbers of its pages, in order.
    std::span<const int32_t> pages() const { return numbers_; }
    // Places of tokens, and how many of them are read: their keys and values are there.
    int64_t size() const { return size_; }
    int64_t read() const { return read_; }

   private:
    friend class page_pool;
    std::vector<page*> path_;
    std::vector<int32_t> numbers_;
    int64_t size_ = 0, known_ = 0, read_ = 0;
    int64_t promised_ = 0;  // pages
  };

  // What became of a text that was to begin.
  enum class admission {
    begun,
    no_room,     // others must end first
    being_read,  // another text is reading the same beginning: better to wait for it
  };
  struct copy {
    int32_t from = -1, to = -1;  // numbers of pages; -1: nothing is to be copied
  };

  // Pages have the numbers first to first + pages - 1.
  page_pool(int64_t pages, int64_t page_tokens, int32_t first = 0);
  ~page_pool();

  int64_t page_tokens() const { return page_tokens_; }
  int64_t pages() const { return pages_; }
  int64_t pages_of(int64_t tokens) const { return (tokens + page_tokens_ - 1) / page_tokens_; }
  int64_t used() const { return used_; }
  // Since it began, or begin_count().
  int64_t most_used() const { return most_used_; }
  void begin_count() { most_used_ = used_; }

  // Room for the tokens of a prompt, and for what follows them up to `most` tokens in all, which is promised and taken
  // as it is needed. As much of the prompt as is known already counts as read, but for its last token. `copied`: a page
  // whose beginning is to be copied before it is read.
  admission begin(std::span<const token> prompt, int64_t most, text& into, copy& copied);
  // The next `count` tokens are read (by work that comes before all later work).
  void mark_read(text& of, int64_t count);
  // A place for a further token; true if it is on a new page.
  bool extend(text& to);
  // The token of the first place whose token is not known.
  void set_token(text& of, token known);
  // Its pages stay as long as there is room, with what was read of them.
  void end(text& of);
  // All pages whose texts have ended are forgotten.
  void forget();

 private:
  struct page {
    page* parent = nullptr;
    std::vector<std::unique_ptr<page>> children;
    int32_t number = -1;
    std::vector<token> tokens;
    int64_t read = 0;   // of the tokens
    int64_t users = 0;  // texts that go through it
    uint64_t last_use = 0;
  };
  struct older {
    bool operator()(const page* a, const page* b) const {
      return a->last_use != b->last_use ? a->last_use < b->last_use : a->number < b->number;
    }
  };
  struct match {
    std::vector<page*> whole;
    page* part = nullptr;  // a page whose first `part_tokens` tokens come next
    int64_t part_tokens = 0;
    bool is_being_read = false;
  };

  match find(std::span<const token> tokens);
  int64_t available() const { return static_cast<int64_t>(free_.size()) + unused_ - promised_; }
  page* add(text& to);
  int32_t take_number();
  void use(page* p);
  void release(page* p);
  void drop(page* p);

  int64_t pages_, page_tokens_;
  page root_;
  std::vector<int32_t> free_;
  std::set<page*, older> idle_;  // pages without users and children
  int64_t unused_ = 0;           // pages without users
  int64_t promised_ = 0;         // to texts that have not taken them yet
  int64_t used_ = 0, most_used_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace cudal1
