#include "program/markdown.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "program/result_file.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

struct Count {
  std::size_t tests = 0, passed = 0, skipped = 0;
};

struct Column {
  std::string title;
  std::map<std::string, Count> groups;
  std::map<std::string, std::size_t> reasons;
  std::vector<std::string> bad;
  Count sum;
};

void add(Count& count, const std::string& outcome) {
  count.tests += 1;
  count.passed += outcome == "pass" ? 1 : 0;
  count.skipped += outcome == "skipped" ? 1 : 0;
}

Column column_of(const Json& result, std::vector<std::string>& order) {
  Column column;
  column.title = title_of(result);
  for (const Json& test : result["tests"]) {
    const std::string id = test["id"].get<std::string>();
    const std::string group = id.substr(0, id.find('.'));
    if (std::find(order.begin(), order.end(), group) == order.end()) order.push_back(group);
    const std::string outcome = test["outcome"].get<std::string>();
    const std::string detail = test["detail"].get<std::string>();
    add(column.groups[group], outcome);
    add(column.sum, outcome);
    if (outcome == "skipped") {
      column.reasons[detail] += 1;
    } else if (outcome != "pass") {
      column.bad.push_back(fmt::format("{} {}: {}", id, outcome, detail));
    }
  }
  return column;
}

std::string cell(const Count& count) {
  const std::size_t bad = count.tests - count.passed - count.skipped;
  std::string text = fmt::format("{} of {}", count.passed, count.tests);
  if (count.skipped > 0) text += fmt::format(", {} skipped", count.skipped);
  if (bad > 0) text += fmt::format(", **{} bad**", bad);
  return text;
}

/// A file's text as the text of a table.
std::string plain(const std::string& text) {
  std::string out;
  for (const char each : shown(text))
    out += each == '|' ? std::string("\\|") : std::string(1, each);
  return out;
}

std::string row(const std::string& first, const std::vector<std::string>& cells) {
  std::string text = "| " + first + " |";
  for (const std::string& each : cells) text += " " + each + " |";
  return text + "\n";
}

std::string groups_table(const std::vector<Column>& columns,
                         const std::vector<std::string>& order) {
  std::vector<std::string> cells;
  for (const Column& column : columns) cells.push_back(plain(column.title));
  std::string text = row("passed", cells);
  text += row("---", std::vector<std::string>(columns.size(), "---"));
  for (const std::string& group : order) {
    cells.clear();
    for (const Column& column : columns) {
      const auto found = column.groups.find(group);
      cells.push_back(found == column.groups.end() ? "" : cell(found->second));
    }
    text += row(plain(group), cells);
  }
  cells.clear();
  for (const Column& column : columns) cells.push_back("**" + cell(column.sum) + "**");
  return text + row("**all**", cells);
}

std::string reasons_table(const std::vector<Column>& columns) {
  std::map<std::string, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const auto& [reason, count] : columns[i].reasons) {
      auto& cells = rows[reason];
      cells.resize(columns.size());
      cells[i] = fmt::format("{}", count);
    }
  }
  std::vector<std::string> titles;
  for (const Column& column : columns) titles.push_back(plain(column.title));
  std::string text = row("skipped because", titles);
  text += row("---", std::vector<std::string>(columns.size(), "---"));
  for (const auto& [reason, cells] : rows) text += row(plain(reason), cells);
  return text;
}

}  // namespace

int print_markdown(const std::vector<std::string>& files) {
  std::vector<Column> columns;
  std::vector<std::string> order;
  for (const std::string& file : files) {
    const auto result = load_result(file);
    if (!result) {
      fmt::print(stderr, "assay-conformance: {}\n", result.error());
      return 2;
    }
    columns.push_back(column_of(*result, order));
  }
  fmt::print("{}\n{}", groups_table(columns, order), reasons_table(columns));
  for (const Column& column : columns) {
    for (const std::string& bad : column.bad) {
      fmt::print("\n- {}: {}", plain(column.title), plain(bad));
    }
  }
  fmt::print("\n");
  return 0;
}

}  // namespace assay::conformance
