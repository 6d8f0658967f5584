#include "quern/engine/sampling/filters.h"

#include <algorithm>
#include <cmath>

namespace quern::engine {
namespace {

bool Better(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

// Sorts at least the first `want` candidates; returns how many are in order.
size_t SortFront(std::vector<Candidate>& c, size_t want) {
  const size_t n = std::min(want, c.size());
  std::partial_sort(c.begin(), c.begin() + static_cast<ptrdiff_t>(n), c.end(), Better);
  return n;
}

// Length of the shortest prefix of `c` with top_p of `total`; sorts only as far as it needs.
size_t TopPLength(std::vector<Candidate>& c, double total, float top_p) {
  double sum = 0;
  size_t done = 0;
  for (size_t want = 64; done < c.size(); want *= 8) {
    const size_t sorted = SortFront(c, want);
    for (; done < sorted; ++done) {
      sum += c[done].weight;
      if (sum >= top_p * total) return done + 1;
    }
  }
  return c.size();
}

}  // namespace

std::vector<Candidate> FilterCandidates(std::span<const float> logits,
                                        const SamplingParams& params) {
  float largest = -INFINITY;
  for (float l : logits) largest = l > largest ? l : largest;
  std::vector<Candidate> c;
  if (!std::isfinite(largest)) return c;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) {
      const double scaled = (static_cast<double>(logits[i]) - largest) / params.temperature;
      c.push_back({static_cast<int32_t>(i), std::exp(scaled)});
    }
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < c.size()) {
    c.resize(SortFront(c, static_cast<size_t>(params.top_k)));
  }
  if (params.top_p < 1.0f) {
    // Summed in id order, whatever order sorting left, so that the total's last bit is fixed.
    std::vector<Candidate> by_id = c;
    std::sort(by_id.begin(), by_id.end(),
              [](const auto& a, const auto& b) { return a.token < b.token; });
    double total = 0;
    for (const Candidate& x : by_id) total += x.weight;
    c.resize(TopPLength(c, total, params.top_p));
  }
  if (params.min_p > 0.0f) {
    // The largest weight is exp(0) = 1.
    std::erase_if(c, [&](const Candidate& x) { return x.weight < params.min_p; });
  }
  return c;
}

}  // namespace quern::engine
