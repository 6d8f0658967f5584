#include "quern/testing/checkpoint_writer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "quern/base/check.h"
#include "quern/testing/safetensors_writer.h"

namespace quern::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::ModelConfig;

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  return file ? OkStatus() : FailedPrecondition("{}: cannot write", path);
}

Status CheckSizes(const std::vector<Unit>& units) {
  for (const Unit& unit : units) {
    const int64_t cols = unit.parts[0].shape.back();
    const bool is_nvfp4 =
        unit.encoding == Encoding::kNvfp4Multiplier || unit.encoding == Encoding::kNvfp4Divisor;
    const int64_t group = unit.encoding == Encoding::kMxfp4 ? 32 : is_nvfp4 ? 16 : 1;
    if (cols % group != 0) {
      return InvalidArgument("{}: {} columns, want a multiple of {} for this layout",
                             unit.parts[0].name, cols, group);
    }
  }
  return OkStatus();
}

// Shard of each piece, in order of units: cut where the running size passes a shard's share.
std::vector<int> AssignShards(const std::vector<Unit>& units, int num_shards, int& num_used) {
  uint64_t total = 0;
  for (const Unit& unit : units) {
    for (const Piece& piece : unit.pieces) total += piece.bytes();
  }
  std::vector<int> shards;
  uint64_t done = 0;
  int last = -1;
  num_used = 0;
  for (const Unit& unit : units) {
    for (const Piece& piece : unit.pieces) {
      const auto share = static_cast<__uint128_t>(done) * static_cast<unsigned>(num_shards) / total;
      if (static_cast<int>(share) != last) {
        last = static_cast<int>(share);
        ++num_used;
      }
      shards.push_back(num_used - 1);
      done += piece.bytes();
    }
  }
  return shards;
}

std::string ShardName(int shard, int num_shards) {
  if (num_shards == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, num_shards);
}

// {"metadata": {"total_size": ...}, "weight_map": {...}} in order of names.
std::string IndexText(const std::map<std::string, std::string>& file_of, uint64_t total_bytes) {
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total_bytes);
  const char* separator = "\n";
  for (const auto& [name, file] : file_of) {
    text += fmt::format("{}    \"{}\": \"{}\"", separator, name, file);
    separator = ",\n";
  }
  return text + "\n  }\n}\n";
}

// The parts' f32 rows, one part after the other or pairwise interleaved.
std::vector<float> UnitValues(const Unit& unit, const RandomWeights& random, int64_t& rows,
                              int64_t& cols) {
  cols = unit.parts[0].shape.back();
  const int64_t part_rows = unit.parts[0].shape.size() == 1 ? 1 : unit.parts[0].shape[0];
  rows = part_rows * static_cast<int64_t>(unit.parts.size());
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rows * cols));
  for (size_t p = 0; p < unit.parts.size(); ++p) {
    const std::vector<float> part = MasterWeights(random, unit.parts[p].name, unit.parts[p].shape);
    if (!unit.interleave_pairs) {
      values.insert(values.end(), part.begin(), part.end());
      continue;
    }
    QUERN_CHECK(p + 1 < unit.parts.size(), "an odd number of parts cannot be paired");
    const Unit::Part& second = unit.parts[++p];
    const std::vector<float> next = MasterWeights(random, second.name, second.shape);
    for (int64_t r = 0; r < part_rows; ++r) {
      values.insert(values.end(), part.begin() + r * cols, part.begin() + (r + 1) * cols);
      values.insert(values.end(), next.begin() + r * cols, next.begin() + (r + 1) * cols);
    }
  }
  return values;
}

Status WriteWeights(const std::string& directory, const CheckpointSpec& spec,
                    const std::vector<Unit>& units) {
  int num_shards = 0;
  const std::vector<int> shard_of = AssignShards(units, std::max(1, spec.num_shards), num_shards);
  std::vector<std::vector<Piece>> pieces(static_cast<size_t>(num_shards));
  std::map<std::string, std::string> file_of;
  uint64_t total_bytes = 0;
  size_t at = 0;
  for (const Unit& unit : units) {
    for (const Piece& piece : unit.pieces) {
      const int shard = shard_of[at++];
      pieces[static_cast<size_t>(shard)].push_back(piece);
      file_of[piece.name] = ShardName(shard, num_shards);
      total_bytes += piece.bytes();
    }
  }
  std::vector<SafetensorsWriter> writers;
  for (int s = 0; s < num_shards; ++s) {
    QUERN_ASSIGN(SafetensorsWriter writer,
                 SafetensorsWriter::Create(directory + "/" + ShardName(s, num_shards),
                                           std::move(pieces[static_cast<size_t>(s)])));
    writers.push_back(std::move(writer));
  }
  if (num_shards > 1) {
    QUERN_TRY(
        WriteText(directory + "/model.safetensors.index.json", IndexText(file_of, total_bytes)));
  }
  if (spec.sparse) return OkStatus();
  at = 0;
  for (const Unit& unit : units) {
    int64_t rows = 0, cols = 0;
    const std::vector<float> values = UnitValues(unit, spec.weights, rows, cols);
    const std::vector<std::string> bytes = EncodeWeights(unit.encoding, values, rows, cols);
    QUERN_CHECK(bytes.size() == unit.pieces.size(), "{}", unit.parts[0].name);
    for (size_t p = 0; p < bytes.size(); ++p) {
      QUERN_TRY(writers[static_cast<size_t>(shard_of[at++])].Write(unit.pieces[p].name, bytes[p]));
    }
  }
  return OkStatus();
}

// An index or shards of an earlier checkpoint would be taken for this one's.
void RemoveWeights(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("model", 0) == 0 && name.find(".safetensors") != std::string::npos) {
      old.push_back(entry.path());
    }
  }
  for (const fs::path& path : old) fs::remove(path, error);
}

Status CopyTokenizer(const std::string& from, const std::string& to) {
  if (from.empty()) return OkStatus();
  if (!fs::is_directory(from)) return NotFound("{}: no such folder", from);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "generation_config.json"}) {
    const fs::path source = fs::path(from) / name;
    std::error_code error;
    if (!fs::exists(source, error)) continue;
    fs::copy_file(source, fs::path(to) / name, fs::copy_options::overwrite_existing, error);
    if (error) return FailedPrecondition("{}: cannot copy: {}", source.string(), error.message());
  }
  return OkStatus();
}

}  // namespace

Status WriteCheckpoint(const std::string& directory, const CheckpointSpec& spec) {
  Json json = spec.config;
  if (!json.is_object()) return InvalidArgument("the config is not a JSON object");
  json["dtype"] = LayoutDtype(spec.layout);
  checkpoint::Problems problems;
  const ModelConfig config = checkpoint::ParseModelConfig(json, problems);
  QUERN_TRY(problems.ToStatus("the config"));
  const Json quantization = QuantizationConfig(config, spec.layout);
  if (!quantization.is_null()) json["quantization_config"] = quantization;

  const std::vector<Unit> units = PlanUnits(config, spec.layout);
  QUERN_TRY(CheckSizes(units));
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return FailedPrecondition("{}: cannot create: {}", directory, error.message());
  RemoveWeights(directory);
  QUERN_TRY(WriteText(directory + "/config.json", DumpJson(json, 2) + "\n"));
  QUERN_TRY(WriteWeights(directory, spec, units));
  return CopyTokenizer(spec.tokenizer_dir, directory);
}

}  // namespace quern::testing
