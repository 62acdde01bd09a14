// Commands that tests run as a user types them.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/support/files.h"

namespace atalla {

struct Output {
    int status = 0;  // exit status, or minus the signal that ended it
    std::string out, error;
};

// What waitpid() and system() say of a process, as Output has it.
inline int exit_status(int wait_status) { return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status); }

// Runs a command line in a folder, or where the test runs.
inline Output run_shell(const std::string &command, const std::filesystem::path &folder = ".") {
    const TemporaryFolder said;
    const std::string line = "cd '" + folder.string() + "' && { " + command + "\n} >'" + (said / "output").string() + "' 2>'" +
                             (said / "error").string() + "'";
    const int status = exit_status(std::system(line.c_str()));
    return {status, read_text(said / "output"), read_text(said / "error")};
}

}  // namespace atalla
