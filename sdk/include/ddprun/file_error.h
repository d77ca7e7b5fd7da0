// SPDX-License-Identifier: MIT
// What the file system refused, with its number: so that a full disk can be waited for, and a file that cannot be read
// is not taken for one that is not there.
#pragma once

#include <ddprun/error.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Thrown by throw_file_error(), and so by all of <ddprun/files.h>.
class DDPRUN_API FileError : public UserError {
 public:
  // `text` is all that the user will read; `error` is an errno.
  FileError(const std::string& text, int error);
  ~FileError() override;  // defined in the library, so that everyone who catches it sees the same type information

  // Returns the errno.
  int error() const { return error_; }

 private:
  int error_;
};

// Returns whether what failed with this errno may succeed later: the disk or the quota is full, the disk or the network
// fails, or too many files are open (ENOSPC, EDQUOT, EIO, ESTALE, ETIMEDOUT, EMFILE, ENFILE).
DDPRUN_API bool may_pass(int error);

// Returns what the file holds, or nothing if there is no such file. What may pass is tried once more. Throws FileError
// if the file cannot be read to its end, or is a pipe or a device, which is not waited for.
DDPRUN_API std::optional<std::string> read_file(const std::filesystem::path& file);

// Hands a file's content to `take`, in blocks. Throws FileError as read_file() does, and if there is no such file.
DDPRUN_API void read_blocks(const std::filesystem::path& file, const std::function<void(std::string_view)>& take);

}  // namespace ddprun
