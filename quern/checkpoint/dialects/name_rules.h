// One list of name patterns of a quantization config, matched against module names in file order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quern/checkpoint/dialects/regex.h"
#include "quern/checkpoint/problems.h"

namespace quern::checkpoint {

// What an entry of a list may mean. A dialect allows some of these; every entry is tried in all
// ways its text permits.
namespace match {
inline constexpr unsigned kExact =
    1;  // the module's name (a trailing ".weight" of the entry is ignored)
inline constexpr unsigned kPrefix = 2;     // the name of a module that holds it
inline constexpr unsigned kSuffix = 4;     // the name's last components: "mlp.gate"
inline constexpr unsigned kSubstring = 8;  // any part of the name
inline constexpr unsigned kGlob = 16;      // with wildcards: fnmatch
inline constexpr unsigned kGlobTree = 32;  // and also the glob + ".*"
inline constexpr unsigned kRegex = 64;     // "re:...": a match at the name's start
inline constexpr unsigned kBareRegex =
    128;  // with regex characters: a match up to a component's end
}  // namespace match

// Fast for thousands of entries against a hundred thousand names: plain names are looked up in a
// hash map, and the other patterns are tried only on names that hold a rare piece of them. Not
// thread-safe: remembers what matched.
class NameRules {
 public:
  // `field` is the list's name in messages, "exclude"; `kinds` is a sum of match:: values.
  NameRules(std::string field, unsigned kinds);

  // Appends an entry; a bad regular expression is an error in `problems`, and the entry then
  // matches nothing. `key`: entries are keys of an object, so messages name them without an index.
  void Add(std::string pattern, Problems& problems, bool key = false);

  // The first entry in file order that matches, -1 when none does. All that match are remembered.
  int Find(std::string_view module);

  size_t size() const { return entries_.size(); }
  // `exclude[17] "lm_head"`, or `layer_quant_config["*self_attn*"]` for a key.
  std::string Label(int index) const;
  const std::string& field() const { return field_; }

  // One warning about all entries that matched nothing, and an error per pattern that was too
  // costly to match.
  void Report(Problems& problems) const;

 private:
  enum class Kind : uint8_t { kPlain, kSubstring, kGlob, kRegex, kDead };
  struct Entry {
    std::string pattern;
    std::string text;  // what is matched
    std::string tree;  // of a glob: text + ".*"
    Kind kind = Kind::kPlain;
    bool key = false;
    bool matched = false;
    bool too_costly = false;
    int same_as = -1;  // an earlier entry with the same text
    int regex = -1;    // into regexes_
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  // The plain text that every name matched by a glob or substring holds.
  static std::string_view Literal(const Entry& entry);
  static bool NeedsTryingAlways(const Entry& entry);
  Kind Classify(std::string_view pattern) const;
  void Index();
  void FindPlain(std::string_view module, int& best);
  void TrySlow(int index, std::string_view module, int& best);
  void Matched(int index, int& best);

  std::string field_;
  unsigned kinds_;
  std::vector<Entry> entries_;
  std::vector<Regex> regexes_;
  std::unordered_map<std::string, int, Hash, std::equal_to<>> plain_;
  // Of globs and substrings: 8 bytes that a name must hold, and the entries that need them.
  std::unordered_map<uint64_t, std::vector<int>> windows_;
  std::vector<int> always_;  // entries to try on every name
  size_t indexed_ = 0;       // entries the two above know
  size_t num_general_ = 0;
};

}  // namespace quern::checkpoint
