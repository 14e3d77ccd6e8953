// What decoder_kernels_test.cpp tests for each set of sizes: included several times, each in a namespace of its own,
// after the kernels.

inline double tolerance() {
  return TYPE == 0 ? 2e-5 : TYPE == 1 ? 4e-3 : 3e-2;
}

class random_elements {
 public:
  explicit random_elements(unsigned seed) : random_(seed) {}
  std::vector<element> operator()(std::size_t count, float scale = 1) {
    std::vector<element> out;
    for (std::size_t i = 0; i < count; ++i)
      out.push_back(element_of(scale * normal_(random_)));
    return out;
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

inline void expect_near(element made, double wanted, const char* what, std::size_t at) {
  ASSERT_NEAR(value_of(made), wanted, tolerance() * std::max(1.0, std::abs(wanted)))
      << what << " " << at << ", HEAD " << HEAD;
}

// Pages of slots in random order.
struct some_pages {
  int size = 0;  // of a slot's table
  std::vector<int> tables;
  int pages = 0;

  some_pages(int slots, int places, random_elements& random) : size((places + PAGE - 1) / PAGE), pages(slots * size) {
    tables.resize(static_cast<std::size_t>(pages));
    std::iota(tables.begin(), tables.end(), 0);
    for (int i = pages - 1; i > 0; --i)
      std::swap(tables[static_cast<std::size_t>(i)], tables[static_cast<std::size_t>(random.below(i + 1))]);
  }
  std::size_t place(int slot, int position) const {
    return static_cast<std::size_t>(tables[static_cast<std::size_t>(slot * size + position / PAGE)] * PAGE +
                                    position % PAGE);
  }
  std::size_t elements() const { return static_cast<std::size_t>(pages) * PAGE * KV_HEADS * HEAD; }
};

inline void attend_is_softmax_over_the_pages() {
  random_elements random(1);
  const std::vector<int> lengths = {1, 63, 64, 65, 400, 130};
  const auto rows = static_cast<int>(lengths.size());
  const some_pages pages(rows, 400, random);
  const auto keys = random(pages.elements()), values = random(pages.elements());
  const auto q = random(static_cast<std::size_t>(rows * HEADS * HEAD));
  std::vector<int2> of;
  for (int i = 0; i < rows; ++i)
    of.push_back({rows - 1 - i, lengths[static_cast<std::size_t>(i)] - 1});
  const double scale = 1 / std::sqrt(static_cast<double>(HEAD));
  for (const unsigned splits : {1u, 2u, 3u, 16u}) {
    std::vector<element> out(q.size());
    std::vector<float> parts(static_cast<std::size_t>(rows * HEADS) * splits * (HEAD + 2));
    std::vector<u32> ready(static_cast<std::size_t>(rows * HEADS));
    run_grid({splits, HEADS / GROUP, static_cast<unsigned>(rows)}, ATTEND_THREADS, [&] {
      attend(q.data(), keys.data(), values.data(), of.data(), pages.tables.data(), pages.size,
             static_cast<float>(scale * M_LOG2E), out.data(), parts.data(), ready.data());
    });
    for (const u32 each : ready)
      ASSERT_EQ(each, 0u);
    for (int row = 0; row < rows; ++row)
      for (int head = 0; head < HEADS; ++head) {
        const auto at = static_cast<std::size_t>((row * HEADS + head) * HEAD);
        const int length = lengths[static_cast<std::size_t>(row)];
        const auto of_key = [&](int k) {
          return (pages.place(of[static_cast<std::size_t>(row)].x, k) * KV_HEADS +
                  static_cast<std::size_t>(head / (HEADS / KV_HEADS))) *
                 HEAD;
        };
        std::vector<double> weights;
        double sum = 0;
        for (int k = 0; k < length; ++k) {
          double score = 0;
          for (std::size_t i = 0; i < HEAD; ++i)
            score += static_cast<double>(value_of(q[at + i])) * value_of(keys[of_key(k) + i]);
          sum += weights.emplace_back(std::exp(score * scale));
        }
        for (std::size_t i = 0; i < HEAD; ++i) {
          double wanted = 0;
          for (int k = 0; k < length; ++k)
            wanted += weights[static_cast<std::size_t>(k)] / sum * value_of(values[of_key(k) + i]);
          expect_near(out[at + i], wanted, "attend", at + i);
        }
      }
  }
}

inline void queries_and_keys_are_normed_and_rotated_into_pages() {
  random_elements random(2);
  const int rows = 3, all = HEADS + 2 * KV_HEADS;
  const some_pages pages(rows, 100, random);
  const auto qkv = random(static_cast<std::size_t>(rows * all * HEAD));
  const std::vector<int2> of = {{2, 99}, {0, 0}, {1, 37}};
  std::vector<float> frequency;
  for (int i = 0; i < HEAD / 2; ++i)
    frequency.push_back(std::pow(1e4f, -2.0f * static_cast<float>(i) / HEAD));
  for (const bool has_norms : {false, true}) {
    const auto q_norm = random(HEAD), k_norm = random(HEAD);
    std::vector<element> q(static_cast<std::size_t>(rows * HEADS * HEAD)), keys(pages.elements()),
        values(pages.elements());
    run_grid({static_cast<unsigned>((rows * all + 3) / 4), 1, 1}, 128, [&] {
      rotate_and_store(qkv.data(), of.data(), pages.tables.data(), pages.size, frequency.data(), 1.25f,
                       has_norms ? q_norm.data() : nullptr, has_norms ? k_norm.data() : nullptr, 1e-5f, q.data(),
                       keys.data(), values.data(), rows);
    });
    for (int row = 0; row < rows; ++row)
      for (int head = 0; head < all; ++head) {
        const element* from = &qkv[static_cast<std::size_t>((row * all + head) * HEAD)];
        const std::size_t place = pages.place(of[static_cast<std::size_t>(row)].x, of[static_cast<std::size_t>(row)].y);
        const auto in_cache = [&](int kv) { return (place * KV_HEADS + static_cast<std::size_t>(kv)) * HEAD; };
        const element* made = head < HEADS              ? &q[static_cast<std::size_t>((row * HEADS + head) * HEAD)]
                              : head < HEADS + KV_HEADS ? &keys[in_cache(head - HEADS)]
                                                        : &values[in_cache(head - HEADS - KV_HEADS)];
        double squares = 0;
        for (int i = 0; i < HEAD; ++i)
          squares += std::pow(value_of(from[i]), 2);
        const double norm = 1 / std::sqrt(squares / HEAD + 1e-5);
        const auto& weight = head < HEADS ? q_norm : k_norm;
        const auto normed = [&](int i) {
          return has_norms ? value_of(from[i]) * norm * value_of(weight[static_cast<std::size_t>(i)])
                           : value_of(from[i]);
        };
        for (int i = 0; i < HEAD; ++i) {
          const int pair = i % (HEAD / 2), other = i < HEAD / 2 ? i + HEAD / 2 : i - HEAD / 2;
          const double angle =
              static_cast<double>(of[static_cast<std::size_t>(row)].y) * frequency[static_cast<std::size_t>(pair)];
          const double turned =
              1.25 * (normed(i) * std::cos(angle) + (i < HEAD / 2 ? -1 : 1) * normed(other) * std::sin(angle));
          expect_near(made[i], head < HEADS + KV_HEADS ? turned : value_of(from[i]), "rotate_and_store",
                      static_cast<std::size_t>(head * HEAD + i));
        }
      }
  }
}

inline void rows_are_embedded_added_normed_and_gated() {
  random_elements random(3);
  const int rows = 3, width = 200, hidden = 72;
  const auto table = random(50 * width), added = random(rows * width), weight = random(width);
  const std::vector<int> last = {7, 49, 0, 3};
  const std::vector<int2> of = {{3, 0}, {1, 5}, {0, 2}};
  std::vector<element> x(rows * width), out(rows * width);
  run_grid({rows, 1, 1}, 128, [&] { embed(of.data(), last.data(), table.data(), x.data(), width); });
  for (const bool adds : {false, true}) {
    const auto before = x;
    run_grid({rows, 1, 1}, 128,
             [&] { add_norm(x.data(), adds ? added.data() : nullptr, weight.data(), out.data(), width, 1e-5f); });
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> wanted;
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t at = row * width + i;
        if (!adds) {
          ASSERT_EQ(value_of(x[at]),
                    value_of(table[static_cast<std::size_t>(last[static_cast<std::size_t>(of[row].x)]) * width + i]));
        }
        wanted.push_back(value_of(before[at]) + (adds ? value_of(added[at]) : 0));
        squares += wanted.back() * wanted.back();
        expect_near(x[at], wanted.back(), "sum", at);
      }
      for (std::size_t i = 0; i < width; ++i)
        expect_near(out[row * width + i], wanted[i] / std::sqrt(squares / width + 1e-5) * value_of(weight[i]), "norm",
                    i);
    }
  }
  const auto gate_up = random(rows * 2 * hidden, 2);
  std::vector<element> made(rows * hidden);
  run_grid({(rows * hidden / VEC + 127) / 128, 1, 1}, 128, [&] { gated(gate_up.data(), made.data(), hidden, rows); });
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < hidden; ++i) {
      const double g = value_of(gate_up[row * 2 * hidden + i]), u = value_of(gate_up[row * 2 * hidden + hidden + i]);
      expect_near(made[row * hidden + i], g / (1 + std::exp(-g)) * u, "gated", i);
    }
}

inline void few_rows_are_multiplied() {
  random_elements random(4);
  const int columns = 13, width = 600;
  const auto weight = random(columns * width, 0.05f), bias = random(columns), x = random(4 * width);
  for (const int rows : {1, 2, 4})
    for (const bool has_bias : {false, true}) {
      std::vector<element> out(static_cast<std::size_t>(rows * columns));
      run_grid({(columns + 3) / 4, 1, 1}, 128, [&] {
        (rows == 1   ? linear_1
         : rows == 2 ? linear_2
                     : linear_4)(x.data(), weight.data(), has_bias ? bias.data() : nullptr, out.data(), columns, width);
      });
      for (int r = 0; r < rows; ++r)
        for (int n = 0; n < columns; ++n) {
          double wanted = has_bias ? value_of(bias[static_cast<std::size_t>(n)]) : 0;
          for (int i = 0; i < width; ++i)
            wanted += static_cast<double>(value_of(x[static_cast<std::size_t>(r * width + i)])) *
                      value_of(weight[static_cast<std::size_t>(n * width + i)]);
          expect_near(out[static_cast<std::size_t>(r * columns + n)], wanted, "linear", static_cast<std::size_t>(n));
        }
    }
}

inline void tokens_are_chosen_as_on_the_host() {
  random_elements random(5);
  for (const int vocabulary : {100, 1100}) {
    const int rows = 6, words = (vocabulary + 31) / 32;
    const auto logits = random(static_cast<std::size_t>(rows * vocabulary), 3);
    std::vector<float> as_floats;
    for (const element e : logits)
      as_floats.push_back(value_of(e));
    std::vector<u32> masks;
    for (int i = 0; i < 2 * words; ++i)
      masks.push_back(static_cast<u32>(random.bits() & random.bits()));
    std::vector<wanted_token> wanted;
    std::vector<choice_rule> rules;
    for (int i = 0; i < 12; ++i) {
      choice_rule rule{.temperature = i % 6 == 0 ? 0 : 0.5 + 0.25 * (i % 5), .random = random.bits()};
      if (i % 2 == 1) rule.top_p = i % 4 == 1 ? 0.9 : 0.3;
      if (i % 3 == 2) rule.top_k = 1 + random.below(vocabulary);
      rules.push_back(rule);
      wanted.push_back({rule.random, random.below(rows), i, static_cast<int>(rule.top_k),
                        i % 4 == 3 ? random.below(2) : -1, static_cast<float>(rule.temperature),
                        static_cast<float>(rule.top_p)});
    }
    std::vector<int> last(12, -1);
    std::vector<made_choice> made(12);
    run_grid({12, 1, 1}, CHOICE_THREADS,
             [&] { choose(logits.data(), vocabulary, wanted.data(), masks.data(), last.data(), made.data()); });
    for (std::size_t i = 0; i < 12; ++i) {
      const auto& w = wanted[i];
      const auto size = static_cast<std::size_t>(vocabulary);
      const auto allowed = std::span(masks).subspan(static_cast<std::size_t>(std::max(0, w.mask) * words));
      const auto on_host =
          choose_token(std::span(as_floats).subspan(static_cast<std::size_t>(w.row) * size, size), rules[i],
                       w.mask < 0 ? std::span<const u32>() : allowed.first(static_cast<std::size_t>(words)));
      EXPECT_EQ(made[i].token, on_host.chosen) << i << " of " << vocabulary << ", HEAD " << HEAD;
      EXPECT_EQ(last[i], on_host.chosen);
      EXPECT_NEAR(made[i].log_probability, on_host.log_probability, 1e-4);
    }
  }
}
