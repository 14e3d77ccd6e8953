#include "policy/model/page_pool.hpp"

#include <algorithm>

namespace cudal1 {

page_pool::page_pool(int64_t pages, int64_t page_tokens, int32_t first) : pages_(pages), page_tokens_(page_tokens) {
  for (int64_t i = pages; i-- > 0;)
    free_.push_back(first + static_cast<int32_t>(i));
}

page_pool::~page_pool() {
  // One by one: a long text would be destroyed recursively.
  std::vector<std::unique_ptr<page>> left = std::move(root_.children);
  while (!left.empty()) {
    const auto last = std::move(left.back());
    left.pop_back();
    for (auto& child : last->children)
      left.push_back(std::move(child));
  }
}

page_pool::match page_pool::find(std::span<const token> tokens) {
  match out;
  page* at = &root_;
  while (true) {
    page* next = nullptr;
    int64_t awaited = 0;  // tokens that another text will have read
    for (const auto& child : at->children) {
      const auto [a, b] = std::ranges::mismatch(child->tokens, tokens);
      const int64_t common = a - child->tokens.begin(), usable = std::min(common, child->read);
      if (usable == page_tokens_) {
        next = child.get();
        break;
      }
      awaited = std::max(awaited, common);
      if (usable > out.part_tokens) {
        out.part = child.get();
        out.part_tokens = usable;
      }
    }
    out.is_being_read = next == nullptr && awaited > out.part_tokens;
    if (next == nullptr) return out;
    out.part = nullptr;
    out.part_tokens = 0;
    out.whole.push_back(next);
    tokens = tokens.subspan(static_cast<std::size_t>(page_tokens_));
    at = next;
  }
}

page_pool::admission page_pool::begin(std::span<const token> prompt, int64_t most, text& into, copy& copied) {
  copied = {};
  // The last token is read in any case: what follows it is asked for.
  const match found = find(prompt.first(prompt.size() - 1));
  if (found.is_being_read) return admission::being_read;
  const int64_t needed = pages_of(most) - static_cast<int64_t>(found.whole.size());
  const auto idle = std::ranges::count_if(found.whole, [](const page* p) { return p->users == 0; });
  if (needed > available() - idle) return admission::no_room;
  into = {};
  for (page* p : found.whole) {
    use(p);
    into.path_.push_back(p);
    into.numbers_.push_back(p->number);
  }
  into.size_ = into.known_ = into.read_ = static_cast<int64_t>(found.whole.size()) * page_tokens_;
  into.promised_ = needed;
  promised_ += needed;
  if (found.part != nullptr) {
    // It must not make room for its own copy.
    use(found.part);
    if (!free_.empty() || !idle_.empty()) {
      page* to = add(into);
      copied = {found.part->number, to->number};
      to->tokens.assign(found.part->tokens.begin(), found.part->tokens.begin() + found.part_tokens);
      to->read = found.part_tokens;
      into.size_ += found.part_tokens;
      into.known_ = into.read_ = into.size_;
    }
    release(found.part);
  }
  for (const token t : prompt.subspan(static_cast<std::size_t>(into.size_))) {
    extend(into);
    set_token(into, t);
  }
  return admission::begun;
}

void page_pool::mark_read(text& of, int64_t count) {
  while (count > 0) {
    page* p = of.path_[static_cast<std::size_t>(of.read_ / page_tokens_)];
    const int64_t taken = std::min(count, page_tokens_ - of.read_ % page_tokens_);
    p->read += taken;
    of.read_ += taken;
    count -= taken;
  }
}

bool page_pool::extend(text& to) {
  const bool is_new = to.size_ == static_cast<int64_t>(to.path_.size()) * page_tokens_;
  if (is_new) add(to);
  ++to.size_;
  return is_new;
}

void page_pool::set_token(text& of, token known) {
  of.path_[static_cast<std::size_t>(of.known_ / page_tokens_)]->tokens.push_back(known);
  ++of.known_;
}

void page_pool::end(text& of) {
  // From the last one, so that a page comes to rest after those below it.
  for (std::size_t i = of.path_.size(); i-- > 0;) {
    page* p = of.path_[i];
    if (p->users == 1) p->tokens.resize(static_cast<std::size_t>(p->read));
    const bool is_empty = p->tokens.empty() && p->users == 1;
    release(p);
    if (is_empty) drop(p);
  }
  promised_ -= of.promised_;
  of = {};
}

void page_pool::forget() {
  while (!idle_.empty())
    drop(*idle_.begin());
}

page_pool::page* page_pool::add(text& to) {
  page* parent = to.path_.empty() ? &root_ : to.path_.back();
  const int32_t number = take_number();
  page* made = parent->children.emplace_back(std::make_unique<page>()).get();
  made->parent = parent;
  made->number = number;
  made->users = 1;
  made->tokens.reserve(static_cast<std::size_t>(page_tokens_));
  most_used_ = std::max(most_used_, ++used_);
  to.path_.push_back(made);
  to.numbers_.push_back(number);
  --to.promised_;
  --promised_;
  return made;
}

// Of a free page, or of the idle one that was used longest ago. There is one: it was promised.
int32_t page_pool::take_number() {
  if (free_.empty()) drop(*idle_.begin());
  const int32_t number = free_.back();
  free_.pop_back();
  return number;
}

void page_pool::use(page* p) {
  if (p->users++ > 0) return;
  idle_.erase(p);
  --unused_;
  most_used_ = std::max(most_used_, ++used_);
}

void page_pool::release(page* p) {
  if (--p->users > 0) return;
  --used_;
  ++unused_;
  p->last_use = ++uses_;
  if (p->children.empty()) idle_.insert(p);
}

// A page without users and children becomes free.
void page_pool::drop(page* p) {
  idle_.erase(p);
  --unused_;
  free_.push_back(p->number);
  page* parent = p->parent;
  std::erase_if(parent->children, [&](const auto& each) { return each.get() == p; });
  if (parent != &root_ && parent->users == 0 && parent->children.empty()) idle_.insert(parent);
}

}  // namespace cudal1
