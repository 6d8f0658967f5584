// A small checkpoint whose tensors and config a test changes before it is written.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quern/checkpoint/precision_plan.h"
#include "quern/model/expected_tensors.h"
#include "quern/testing/checkpoint_writer.h"
#include "quern/testing/safetensors_writer.h"

namespace quern::checkpoint {

// tiny-dsa in a layout: six layers (0 dense), eight experts, MTP layer 6. Data are zeros but for
// what `bytes` gives.
class EditedCheckpoint {
 public:
  explicit EditedCheckpoint(testing::Layout layout, const std::string& preset = "tiny-dsa") {
    config = *testing::PresetConfig(preset);
    config["dtype"] = std::string(testing::LayoutDtype(layout));
    Problems problems;
    const ModelConfig parsed = ParseModelConfig(config, problems);
    quantization = testing::QuantizationConfig(parsed, layout);
    for (const testing::Unit& unit : testing::PlanUnits(parsed, layout)) {
      pieces.insert(pieces.end(), unit.pieces.begin(), unit.pieces.end());
    }
  }

  testing::Piece& Get(const std::string& name) {
    for (testing::Piece& piece : pieces) {
      if (piece.name == name) return piece;
    }
    pieces.push_back({.name = name});  // the checks that follow fail, and say which name
    return pieces.back();
  }
  // Takes out all tensors whose name contains `part`; how many.
  size_t Remove(const std::string& part) {
    return std::erase_if(pieces, [&](const testing::Piece& piece) {
      return piece.name.find(part) != std::string::npos;
    });
  }

  // Writes, opens and resolves. The result's checkpoint lives as long as this object.
  PrecisionPlan Resolve(Problems& problems, PlanOptions options = {}) {
    Write();
    auto opened = Checkpoint::Open(directory_, problems);
    if (!opened.ok()) {
      problems.Error("{}", opened.status().message());
      return {};
    }
    checkpoint_ = std::move(opened).value();
    parsed_ = ParseModelConfig(checkpoint_->config_json(), problems);
    if (!problems.errors().empty()) return {};
    return ResolvePrecisionPlan(*checkpoint_, parsed_, model::ExpectedTensors(parsed_), options,
                                problems);
  }

  Json config;
  Json quantization;  // null: none in config.json
  std::vector<testing::Piece> pieces;
  std::map<std::string, std::string> bytes;  // by tensor name
  std::map<std::string, std::string> files;  // more files of the folder

 private:
  void Write() {
    directory_ = ::testing::TempDir() + "precision_plan";
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    Json json = config;
    if (!quantization.is_null()) json["quantization_config"] = quantization;
    files["config.json"] = DumpJson(json);
    for (const auto& [name, text] : files) std::ofstream(directory_ + "/" + name) << text;
    auto writer = testing::SafetensorsWriter::Create(directory_ + "/model.safetensors", pieces);
    QUERN_CHECK(writer.ok(), "{}", writer.status().message());
    for (const auto& [name, data] : bytes) {
      const Status written = writer->Write(name, data);
      QUERN_CHECK(written.ok(), "{}", written.message());
    }
  }

  std::string directory_;
  std::unique_ptr<Checkpoint> checkpoint_;
  ModelConfig parsed_;
};

}  // namespace quern::checkpoint
