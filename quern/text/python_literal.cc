#include "quern/text/python_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace quern::text {
namespace {

constexpr int kMaxDepth = 60;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// -1 for a character that is no hexadecimal digit.
int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AppendUtf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Recursive descent over the text; each Parse function appends JSON to `out_` and says whether it
// succeeded.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<std::string> Parse() {
    if (!ParseValue(0)) return std::nullopt;
    SkipSpace();
    if (at_ != text_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\n' || Peek() == '\t' || Peek() == '\r')) ++at_;
  }

  bool ParseValue(int depth) {
    if (depth > kMaxDepth) return false;
    SkipSpace();
    switch (Peek()) {
      case '{':
        return ParseDict(depth);
      case '[':
        return ParseItems('[', ']', depth);
      case '(':
        return ParseItems('(', ')', depth);
      case '\'':
      case '"':
        return ParseString();
      default:
        return IsDigit(Peek()) || Peek() == '-' || Peek() == '+' || Peek() == '.' ? ParseNumber()
                                                                                  : ParseWord();
    }
  }

  bool ParseWord() {
    static constexpr struct {
      std::string_view python, json;
    } kWords[] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                  {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (const auto& word : kWords) {
      if (text_.substr(at_, word.python.size()) != word.python) continue;
      at_ += word.python.size();
      out_ += word.json;
      return true;
    }
    return false;
  }

  // A list or a tuple. "(1)" is a number in parentheses to Python, an array of one to us: a model
  // means the latter.
  bool ParseItems(char open, char close, int depth) {
    Take(open);
    out_ += '[';
    for (bool first = true;; first = false) {
      SkipSpace();
      if (Take(close)) break;
      if (!first) out_ += ", ";
      if (!ParseValue(depth + 1)) return false;
      SkipSpace();
      if (!Take(',') && Peek() != close) return false;
    }
    out_ += ']';
    return true;
  }

  bool ParseDict(int depth) {
    Take('{');
    out_ += '{';
    for (bool first = true;; first = false) {
      SkipSpace();
      if (Take('}')) break;
      if (!first) out_ += ", ";
      if (!ParseKey()) return false;
      SkipSpace();
      if (!Take(':')) return false;
      out_ += ": ";
      if (!ParseValue(depth + 1)) return false;
      SkipSpace();
      if (!Take(',') && Peek() != '}') return false;
    }
    out_ += '}';
    return true;
  }

  // JSON's keys are strings: a number or constant is quoted, as Python's json.dumps does.
  bool ParseKey() {
    if (Peek() == '\'' || Peek() == '"') return ParseString();
    out_ += '"';
    if (!(IsDigit(Peek()) || Peek() == '-' ? ParseNumber() : ParseWord())) return false;
    out_ += '"';
    return true;
  }

  bool ParseString() {
    const char quote = text_[at_++];
    std::string value;
    while (true) {
      if (AtEnd()) return false;
      const char c = text_[at_++];
      if (c == quote) break;
      if (c != '\\') {
        value += c;
      } else if (!ParseEscape(value)) {
        return false;
      }
    }
    out_ += '"';
    AppendJsonEscaped(value, out_);
    out_ += '"';
    return true;
  }

  bool ParseEscape(std::string& value) {
    if (AtEnd()) return false;
    const char c = text_[at_++];
    static constexpr std::string_view kLetters = "\\'\"nrtbfav0/\n";
    static constexpr std::string_view kMeanings("\\'\"\n\r\t\b\f\a\v\0/", 12);
    if (c == '\n') return true;  // a line continued
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      value += kMeanings[i];
      return true;
    }
    if (c == 'x') return ParseCode(2, value);
    if (c == 'u') return ParseCode(4, value);
    if (c == 'U') return ParseCode(8, value);
    value += '\\';  // Python keeps escapes it doesn't know
    value += c;
    return true;
  }

  bool ParseCode(int digits, std::string& value) {
    uint32_t code = 0;
    if (!ReadHex(digits, code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {  // JSON writes characters past U+FFFF as two halves
      uint32_t low = 0;
      if (!Take('\\') || !Take('u') || !ReadHex(4, low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if ((code >= 0xDC00 && code <= 0xDFFF) || code > 0x10FFFF) return false;
    AppendUtf8(code, value);
    return true;
  }

  bool ReadHex(int digits, uint32_t& code) {
    for (int i = 0; i < digits; ++i) {
      const int digit = HexDigit(Peek());
      if (digit < 0) return false;
      code = code << 4 | static_cast<uint32_t>(digit);
      ++at_;
    }
    return true;
  }

  // Decimal integers of any size and floats, brought to JSON's spelling: no plus sign, no
  // underscores, no leading zeros, digits on both sides of the point.
  bool ParseNumber() {
    if (Take('-')) {
      out_ += '-';
    } else {
      Take('+');
    }
    std::string whole = Digits();
    std::string fraction, exponent;
    const bool has_point = Take('.');
    if (has_point) fraction = Digits();
    if (whole.empty() && fraction.empty()) return false;
    if (Peek() == 'e' || Peek() == 'E') {
      ++at_;
      if (Peek() == '-' || Peek() == '+') exponent += text_[at_++];
      const std::string digits = Digits();
      if (digits.empty()) return false;
      exponent += digits;
    }
    whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
    out_ += whole.empty() ? "0" : whole;
    if (has_point) out_ += "." + (fraction.empty() ? "0" : fraction);
    if (!exponent.empty()) out_ += "e" + exponent;
    return true;
  }

  std::string Digits() {
    std::string digits;
    while (IsDigit(Peek()) || (Peek() == '_' && !digits.empty())) {
      if (Peek() != '_') digits += Peek();
      ++at_;
    }
    return digits;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

void AppendJsonEscaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

std::optional<std::string> PythonLiteralToJson(std::string_view text) {
  return Parser(text).Parse();
}

}  // namespace quern::text
