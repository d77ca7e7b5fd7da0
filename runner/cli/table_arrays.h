// SPDX-License-Identifier: MIT
// Tables become arrays, for `ddprun init wine.csv`: tools/lib/table_arrays reads and checks them.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

struct Arguments;

// Returns whether it is a file with the name of a table, or none at all.
bool is_table(const std::filesystem::path& file);

// The arrays of a table, in a new folder beside the experiment. The folder is removed again unless it is kept.
class TableArrays {
 public:
  // Throws UserError with what is wrong with the table: columns of words, missing values, targets that may be classes
  // or values; or if the folder exists.
  TableArrays(const Arguments& arguments, std::filesystem::path folder);
  ~TableArrays();
  TableArrays(const TableArrays&) = delete;
  TableArrays& operator=(const TableArrays&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& account() const { return account_; }  // what has been found, lines for people

  void keep() { keeps_ = true; }

 private:
  std::filesystem::path folder_;
  std::string account_;
  bool keeps_ = false;
};

}  // namespace ddprun
