#include "quern/testing/random_weights.h"

#include <cmath>
#include <string_view>

namespace quern::testing {
namespace {

// splitmix64's output function: a bijection that spreads every input bit over all output bits.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// FNV-1a over the name, started from the seed.
uint64_t KeyOf(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u ^ Mix(seed);
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001B3u;
  return Mix(hash);
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// value = mean + deviation * normal
struct Distribution {
  float mean = 0.0f;
  float deviation = 1.0f;
};

Distribution DistributionOf(const RandomWeights& random, std::string_view name,
                            const std::vector<int64_t>& shape) {
  if (Contains(name, "e_score_correction_bias")) {
    return {random.router_bias_offset, random.router_bias_spread};
  }
  if (shape.size() == 1) return {Contains(name, ".bias") ? 0.0f : 1.0f, 0.1f};
  if (Contains(name, "embed_tokens")) return {0.0f, 1.0f};
  const float unit = 1.0f / std::sqrt(static_cast<float>(shape.back()));
  if (Contains(name, "o_proj") || Contains(name, "down_proj")) return {0.0f, 0.5f * unit};
  if (Contains(name, "lm_head")) return {0.0f, 2.0f * unit};
  return {0.0f, unit};
}

}  // namespace

float NormalAt(uint64_t key, uint64_t index) {
  const uint64_t bits = Mix(key + (index + 1) * 0x9E3779B97F4A7C15u);
  const int sum = static_cast<int>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) +
                                   ((bits >> 32) & 0xFFFF) + (bits >> 48));
  // The sum of four uniform integers in [0, 65535] has mean 131070 and deviation 65536 / sqrt(3).
  return static_cast<float>(sum - 131070) * (1.7320508f / 65536.0f);
}

std::vector<float> MasterWeights(const RandomWeights& random, const std::string& name,
                                 const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  const uint64_t key = KeyOf(random.seed, name);
  const Distribution d = DistributionOf(random, name, shape);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = d.mean + d.deviation * NormalAt(key, i);
  return values;
}

}  // namespace quern::testing
