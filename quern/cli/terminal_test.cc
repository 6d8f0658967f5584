#include "quern/cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "quern/cli/session.h"

namespace quern::cli {
namespace {

TEST(FormatBytes, ThreeDigitsInPowersOfTen) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.00 kB");
  EXPECT_EQ(FormatBytes(12345), "12.3 kB");
  EXPECT_EQ(FormatBytes(999999), "1.00 MB");
  EXPECT_EQ(FormatBytes(437900000000), "438 GB");
  EXPECT_EQ(FormatBytes(1506659919872), "1.51 TB");
}

TEST(FormatProgress, FillsFromLeftToRight) {
  EXPECT_EQ(FormatProgress("Loading m", 0, 2000, 4), "Loading m [....]   0%  0 B of 2.00 kB");
  EXPECT_EQ(FormatProgress("Loading m", 1000, 2000, 4),
            "Loading m [##..]  50%  1.00 kB of 2.00 kB");
  EXPECT_EQ(FormatProgress("Loading m", 1999, 2000, 4),
            "Loading m [###.]  99%  2.00 kB of 2.00 kB");
  EXPECT_EQ(FormatProgress("Loading m", 2000, 2000, 4),
            "Loading m [####] 100%  2.00 kB of 2.00 kB");
}

TEST(FormatProgress, SurvivesOddTotals) {
  EXPECT_EQ(FormatProgress("x", 0, 0, 2), "x [##] 100%  0 B of 0 B");
  EXPECT_EQ(FormatProgress("x", 5, 2, 2), "x [##] 100%  2 B of 2 B");
}

// The lines LineReader finds in `input` (which fits in a pipe).
std::vector<std::string> Lines(const std::string& input) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
  close(ends[1]);
  LineReader reader(ends[0]);
  std::vector<std::string> lines;
  std::string line;
  while (reader.Read(line) == LineReader::Outcome::kLine) lines.push_back(line);
  close(ends[0]);
  return lines;
}

TEST(LineReader, SplitsAtNewlines) {
  EXPECT_EQ(Lines("one\ntwo\r\n\nlast"), (std::vector<std::string>{"one", "two", "", "last"}));
  EXPECT_EQ(Lines("one\n"), (std::vector<std::string>{"one"}));
  EXPECT_EQ(Lines(""), (std::vector<std::string>{}));
}

TEST(LineReader, TakesLinesLongerThanOneRead) {
  const std::string big(20000, 'x');
  EXPECT_EQ(Lines(big + "\nend\n"), (std::vector<std::string>{big, "end"}));
}

TEST(CheckModelPath, NamesThePathAndTheNextMove) {
  const Status missing = CheckModelPath("/no/such/place");
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("/no/such/place: no such file or directory"), std::string::npos);

  const Status hub = CheckModelPath("zai-org/GLM-5.2");
  EXPECT_EQ(hub.code(), StatusCode::kNotFound);
  EXPECT_NE(hub.message().find("hf download zai-org/GLM-5.2 --local-dir GLM-5.2"),
            std::string::npos);

  const Status empty = CheckModelPath(QUERN_SOURCE_DIR "/quern/cli");
  EXPECT_EQ(empty.code(), StatusCode::kNotFound);
  EXPECT_NE(empty.message().find("holds no config.json"), std::string::npos);
}

}  // namespace
}  // namespace quern::cli
