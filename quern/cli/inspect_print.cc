#include <cstdio>
#include <string>
#include <vector>

#include "quern/cli/inspect_report.h"
#include "quern/cli/terminal.h"

namespace quern::cli {
namespace {

// Cells in columns; numbers to the right. The last column is as wide as it is.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<bool> right)
      : right_(std::move(right)) {
    Add(std::move(header));
  }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void Print(std::FILE* out) const {
    std::vector<size_t> width(right_.size(), 0);
    for (const auto& row : rows_) {
      for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
    }
    std::string line;
    for (const auto& row : rows_) {
      line.clear();
      for (size_t c = 0; c < row.size(); ++c) {
        const bool last = c + 1 == row.size();
        line += right_[c] ? fmt::format("{:>{}}", row[c], width[c])
                : last    ? row[c]
                          : fmt::format("{:<{}}", row[c], width[c]);
        if (!last) line += "  ";
      }
      line += '\n';
      std::fputs(line.c_str(), out);
    }
  }

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

template <typename... Args>
void Line(std::FILE* out, fmt::format_string<Args...> f, Args&&... args) {
  std::fputs((fmt::format(f, std::forward<Args>(args)...) + "\n").c_str(), out);
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

void PrintModel(const InspectReport& report, std::FILE* out) {
  const checkpoint::ModelConfig& c = report.config;
  Line(out, "{}", report.path);
  if (report.config_ok) {
    std::string text =
        fmt::format("{}, {} layers{}, hidden {}, {} heads", c.model_type, c.num_layers,
                    c.num_mtp_layers > 0 ? " + 1 MTP" : "", c.hidden_size, c.num_heads);
    if (c.num_experts > 0) {
      text += fmt::format(", {} experts ({} per token, {} shared)", c.num_experts,
                          c.experts_per_token, c.num_shared_experts);
    }
    text += fmt::format(", vocabulary {}, context {}", c.vocab_size, c.max_positions);
    Line(out, "  model    {}", text);
    Line(out, "  dialect  {}", OrDash(report.plan.dialect));
  }
  const checkpoint::Checkpoint& files = *report.checkpoint;
  const int64_t stored = static_cast<int64_t>(files.tensors().size());
  std::string tensors = fmt::format("{} tensors", stored);
  if (report.config_ok) {
    const int64_t used = report.plan.num_stored_used;
    tensors += used == stored ? ", all resolved" : fmt::format(", {} of them resolved", used);
  }
  Line(out, "  files    {} of weights, {}, {}", files.shards().size(),
       FormatBytes(files.total_bytes()), tensors);
}

void PrintGroups(const InspectReport& report, std::FILE* out) {
  Table table(
      {"group", "tensors", "stored", "in memory", "format", "computes as", "kernel", "rule"},
      {false, true, true, true, false, false, false, false});
  int64_t tensors = 0;
  uint64_t stored = 0;
  for (const InspectGroup& g : report.groups) {
    table.Add({g.group, std::to_string(g.num_tensors), FormatBytes(g.stored_bytes),
               FormatBytes(g.memory_bytes), g.format, OrDash(g.compute.compute_format),
               OrDash(g.compute.kernel), g.rule});
    tensors += g.num_tensors;
    stored += g.stored_bytes;
  }
  table.Add({"total", std::to_string(tensors), FormatBytes(stored),
             FormatBytes(report.memory.weight_bytes), "", "", "", ""});
  table.Print(out);
}

void PrintTensors(const InspectReport& report, const ChooseCompute& choose, std::FILE* out) {
  Table table({"tensor", "stored", "format", "computes as", "kernel", "signature", "rule"},
              {false, true, false, false, false, false, false});
  for (const checkpoint::ResolvedTensor& t : report.plan.tensors) {
    if (t.weight == nullptr) continue;
    const backend::ComputeChoice compute = ComputeOf(t, choose);
    table.Add({t.expected.name, FormatBytes(t.stored_bytes),
               std::string(WeightFormatName(t.format)), OrDash(compute.compute_format),
               OrDash(compute.kernel), t.signature, t.rule});
  }
  table.Print(out);
}

void PrintMemory(const InspectMemory& m, std::FILE* out) {
  Line(out, "Memory plan for {}", FormatBytes(m.machine_bytes));
  Line(out, "  weights       {}", FormatBytes(m.weight_bytes));
  Line(out, "  working room  {} (5%)", FormatBytes(m.working_bytes));
  std::string parts = fmt::format("{} layers x {} latent", m.latent_layers, m.latent_dim);
  if (m.index_layers > 0) {
    parts += fmt::format(" + {} layers x {} index keys", m.index_layers, m.index_dim);
  }
  Line(out, "  KV cache      {} bytes per token: {}, {}", m.kv_bytes_per_token, parts, m.kv_dtype);
  if (m.tokens_that_fit > 0) {
    Line(out, "  room for      {} tokens of context, all sequences together", m.tokens_that_fit);
  } else {
    Line(
        out,
        "  room for      nothing: the weights need {} more (--memory-gb plans for another machine)",
        FormatBytes(m.weight_bytes + m.working_bytes - m.machine_bytes));
  }
}

void PrintList(const char* title, const std::vector<std::string>& lines, std::FILE* out) {
  if (lines.empty()) return;
  Line(out, "\n{} ({})", title, lines.size());
  for (const std::string& line : lines) Line(out, "  - {}", line);
}

}  // namespace

void PrintInspectText(const InspectReport& report, const InspectOptions& options,
                      const ChooseCompute& choose, std::FILE* out) {
  if (report.checkpoint != nullptr) PrintModel(report, out);
  if (!report.groups.empty()) {
    std::fputs("\n", out);
    if (options.all) {
      PrintTensors(report, choose, out);
      std::fputs("\n", out);
    }
    PrintGroups(report, out);
    std::fputs("\n", out);
    PrintMemory(report.memory, out);
  }
  PrintList("Notes", report.plan.notes, out);
  PrintList("Warnings", report.problems.warnings(), out);
  PrintList("Errors", report.problems.errors(), out);
}

}  // namespace quern::cli
