#include "quern/checkpoint/dialects/name_rules.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quern/checkpoint/dialects/glob.h"
#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {
namespace {

constexpr size_t kWindow = sizeof(uint64_t);
// With this few patterns, trying them all is cheaper than looking for pieces of them.
constexpr size_t kFewPatterns = 8;
constexpr size_t kNamedUnused = 3;
// Patterns that must be tried on every name cost time for each; honest lists have a few dozen.
constexpr size_t kMaxGeneral = 2000;

uint64_t WindowAt(std::string_view text, size_t position) {
  uint64_t window;
  std::memcpy(&window, text.data() + position, kWindow);
  return window;
}

}  // namespace

NameRules::NameRules(std::string field, unsigned kinds) : field_(std::move(field)), kinds_(kinds) {}

NameRules::Kind NameRules::Classify(std::string_view pattern) const {
  if ((kinds_ & match::kRegex) && pattern.substr(0, 3) == "re:") return Kind::kRegex;
  if (kinds_ & match::kBareRegex) {
    const bool has_regex = pattern.find_first_of("\\^$()|+{[") != std::string_view::npos ||
                           pattern.find(".*") != std::string_view::npos;
    if (has_regex && pattern[0] != '*') return Kind::kRegex;
  }
  if ((kinds_ & match::kGlob) && HasWildcard(pattern)) return Kind::kGlob;
  return kinds_ & match::kSubstring ? Kind::kSubstring : Kind::kPlain;
}

void NameRules::Add(std::string pattern, Problems& problems, bool key) {
  const int index = static_cast<int>(entries_.size());
  Entry entry{.pattern = std::move(pattern), .key = key};
  entry.kind = Classify(entry.pattern);
  entry.text = entry.pattern;
  constexpr std::string_view kWeight = ".weight";
  if (entry.kind == Kind::kPlain && entry.text.ends_with(kWeight)) {
    entry.text.resize(entry.text.size() - kWeight.size());
  }
  if (entry.kind == Kind::kRegex) {
    const bool marked = entry.text.compare(0, 3, "re:") == 0;
    const std::string expression =
        marked ? entry.text.substr(3) : "(?:" + entry.text + ")(?:(?<=\\.)|(?=\\.|$))";
    auto regex = Regex::Compile(expression);
    if (regex.ok()) {
      entry.regex = static_cast<int>(regexes_.size());
      regexes_.push_back(std::move(regex).value());
    } else {
      entry.kind = Kind::kDead;
      problems.Error("{}[{}] \"{}\": {}", field_, index, Printable(entry.pattern),
                     regex.status().message());
    }
  }
  if (entry.kind == Kind::kGlob) entry.tree = entry.text + ".*";
  if (entry.kind != Kind::kPlain && entry.kind != Kind::kDead && NeedsTryingAlways(entry) &&
      ++num_general_ > kMaxGeneral) {
    if (num_general_ == kMaxGeneral + 1) {
      problems.Error(
          "{} has over {} regular expressions or patterns of fewer than {} plain characters; "
          "use full module names",
          field_, kMaxGeneral, kWindow);
    }
    entry.kind = Kind::kDead;
  }
  // An empty substring or prefix would match every name; an empty entry means nothing.
  if (entry.text.empty()) entry.kind = Kind::kDead;
  if (entry.kind == Kind::kPlain) {
    const auto [it, fresh] = plain_.emplace(entry.text, index);
    if (!fresh) entry.same_as = it->second;
  }
  entries_.push_back(std::move(entry));
}

std::string_view NameRules::Literal(const Entry& entry) {
  return entry.kind == Kind::kGlob ? LongestLiteral(entry.text) : std::string_view(entry.text);
}

bool NameRules::NeedsTryingAlways(const Entry& entry) {
  return entry.kind == Kind::kRegex || Literal(entry).size() < kWindow;
}

// Picks for every glob and substring the piece of 8 bytes that the fewest others have too.
void NameRules::Index() {
  windows_.clear();
  always_.clear();
  std::vector<int> slow;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Kind kind = entries_[i].kind;
    if (kind == Kind::kRegex) always_.push_back(static_cast<int>(i));
    if (kind == Kind::kGlob || kind == Kind::kSubstring) slow.push_back(static_cast<int>(i));
  }
  const auto literal = [this](int i) { return Literal(entries_[static_cast<size_t>(i)]); };
  std::unordered_map<uint64_t, int> frequency;
  if (slow.size() > kFewPatterns) {
    for (const int i : slow) {
      const std::string_view text = literal(i);
      for (size_t p = 0; p + kWindow <= text.size(); ++p) ++frequency[WindowAt(text, p)];
    }
  }
  for (const int i : slow) {
    const std::string_view text = literal(i);
    if (slow.size() <= kFewPatterns || text.size() < kWindow) {
      always_.push_back(i);
      continue;
    }
    uint64_t rarest = WindowAt(text, 0);
    for (size_t p = 1; p + kWindow <= text.size(); ++p) {
      const uint64_t window = WindowAt(text, p);
      if (frequency[window] < frequency[rarest]) rarest = window;
    }
    windows_[rarest].push_back(i);
  }
  indexed_ = entries_.size();
}

void NameRules::Matched(int index, int& best) {
  entries_[static_cast<size_t>(index)].matched = true;
  if (best < 0 || index < best) best = index;
}

void NameRules::FindPlain(std::string_view module, int& best) {
  if (plain_.empty()) return;
  const auto look = [&](std::string_view name) {
    if (const auto it = plain_.find(name); it != plain_.end()) Matched(it->second, best);
  };
  look(module);
  for (size_t dot = module.find('.'); dot != std::string_view::npos;
       dot = module.find('.', dot + 1)) {
    if (kinds_ & match::kPrefix) look(module.substr(0, dot));
    if (kinds_ & match::kSuffix) look(module.substr(dot + 1));
  }
}

void NameRules::TrySlow(int index, std::string_view module, int& best) {
  Entry& entry = entries_[static_cast<size_t>(index)];
  bool yes = false;
  switch (entry.kind) {
    case Kind::kSubstring:
      yes = module.find(entry.text) != std::string_view::npos;
      break;
    case Kind::kGlob:
      yes = GlobMatch(entry.text, module);
      if (!yes && (kinds_ & match::kGlobTree)) yes = GlobMatch(entry.tree, module);
      break;
    case Kind::kRegex: {
      if (entry.too_costly) break;
      const Regex::Outcome outcome = regexes_[static_cast<size_t>(entry.regex)].MatchStart(module);
      entry.too_costly = outcome == Regex::Outcome::kTooCostly;
      yes = outcome == Regex::Outcome::kYes;
      break;
    }
    case Kind::kPlain:
    case Kind::kDead:
      break;
  }
  if (yes) Matched(index, best);
}

int NameRules::Find(std::string_view module) {
  if (indexed_ != entries_.size()) Index();
  int best = -1;
  FindPlain(module, best);
  for (const int index : always_) TrySlow(index, module, best);
  if (!windows_.empty()) {
    for (size_t p = 0; p + kWindow <= module.size(); ++p) {
      const auto it = windows_.find(WindowAt(module, p));
      if (it == windows_.end()) continue;
      for (const int index : it->second) TrySlow(index, module, best);
    }
  }
  return best;
}

std::string NameRules::Label(int index) const {
  const Entry& entry = entries_[static_cast<size_t>(index)];
  const std::string pattern = Printable(entry.pattern);
  return entry.key ? fmt::format("{}[\"{}\"]", field_, pattern)
                   : fmt::format("{}[{}] \"{}\"", field_, index, pattern);
}

void NameRules::Report(Problems& problems) const {
  size_t unused = 0;
  std::string named;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.too_costly) {
      problems.Error(
          "{}: matching this pattern takes too many steps; write it without nested repeats",
          Label(static_cast<int>(i)));
    }
    const bool matched = entry.matched || (entry.same_as >= 0 &&
                                           entries_[static_cast<size_t>(entry.same_as)].matched);
    if (matched || entry.too_costly || entry.kind == Kind::kDead) continue;
    if (++unused <= kNamedUnused) {
      named += (unused > 1 ? ", " : "") + Label(static_cast<int>(i));
    }
  }
  if (unused == 0) return;
  if (unused > kNamedUnused) named += fmt::format(" and {} more", unused - kNamedUnused);
  problems.Warning("{} of {} entries of {} match no module of this model: {}", unused,
                   entries_.size(), field_, named);
}

}  // namespace quern::checkpoint
