#include "quern/checkpoint/dialects/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

namespace quern::checkpoint {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
// Module names have some 60 characters; honest patterns take a few hundred steps.
constexpr uint32_t kMaxSteps = 20'000;

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
template <typename T, auto kFree>
using Owned = std::unique_ptr<T, Freer<kFree>>;

}  // namespace

struct Regex::Impl {
  Owned<pcre2_code, pcre2_code_free> code;
  Owned<pcre2_match_data, pcre2_match_data_free> match;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::Compile(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return InvalidArgument("a regular expression of {} bytes, over the limit of {}", pattern.size(),
                           kMaxPatternBytes);
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_ANCHORED | PCRE2_NEVER_UTF, &error, &offset, nullptr));
  if (impl->code == nullptr) {
    PCRE2_UCHAR text[160] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    return InvalidArgument("bad regular expression at byte {}: {}", offset,
                           reinterpret_cast<const char*>(text));
  }
  // Without just-in-time compilation (no executable memory allowed) matching still works, slower.
  pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE);
  impl->match.reset(pcre2_match_data_create_from_pattern(impl->code.get(), nullptr));
  impl->context.reset(pcre2_match_context_create(nullptr));
  if (impl->match == nullptr || impl->context == nullptr) {
    return ResourceExhausted("no memory for a regular expression");
  }
  pcre2_set_match_limit(impl->context.get(), kMaxSteps);
  pcre2_set_depth_limit(impl->context.get(), kMaxSteps);
  return Regex(std::move(impl));
}

Regex::Outcome Regex::MatchStart(std::string_view text) const {
  const int found = pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), 0, 0, impl_->match.get(), impl_->context.get());
  if (found >= 0) return Outcome::kYes;
  return found == PCRE2_ERROR_NOMATCH ? Outcome::kNo : Outcome::kTooCostly;
}

}  // namespace quern::checkpoint
